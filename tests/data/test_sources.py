"""Where files come from, in which order, and that a wrong one never gets through."""

from __future__ import annotations

import gzip
import hashlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import close_session

import hf_sysgen.data.download
from hf_sysgen.data.sources import DATA_DIR_VARIABLE, DataError, Source, locate, open_file

CONTENT = b"IN: jump OUT: I_JUMP\n" * 1009
SOURCE = Source(
    repository="owner/name",
    commit="0123456789abcdef0123456789abcdef01234567",
    path="folder/1.2,1.3 train.txt",
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    num_bytes=len(CONTENT),
    licence="BSD-3-Clause",
    mirror="bench/train.txt",
)


@dataclass(frozen=True)
class ServedSource(Source):
    """A source on another host."""

    address: str = ""

    @property
    def url(self) -> str:
        return self.address + "/" + self.path


class Server(ThreadingHTTPServer):
    """Serves CONTENT under /whole, part of it under /cut, something else under /other, and nothing else."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.gets = 0

    def source(self, path: str) -> ServedSource:
        fields = {**vars(SOURCE), "path": path}
        return ServedSource(**fields, address=f"http://127.0.0.1:{self.server_port}")


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.server.gets += 1
        self.wfile.write(self.answer())

    def answer(self) -> bytes:
        bodies = {"/whole": CONTENT, "/cut": CONTENT[:1000], "/other": b"not the file" * 100}
        body = bodies.get(self.path)
        if body is None:
            self.send_error(404)
            return b""
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT) if self.path == "/cut" else len(body)))
        self.end_headers()
        return body

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    # a client that read them before is no good
    close_session()
    monkeypatch.setattr(hf_sysgen.data.download, "FIRST_WAIT", 0.001)
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def mirrored(folder: Path, content: bytes = CONTENT, zipped: bool = False) -> Path:
    path = folder / (SOURCE.mirror + (".gz" if zipped else ""))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if zipped else content)
    return path


def read(path: Path) -> bytes:
    with open_file(path) as stream:
        return stream.read()


def refused(*arguments: Any, **keywords: Any) -> str:
    """The message of the DataError that `locate` must raise: one line that names the source."""
    with pytest.raises(DataError) as caught:
        locate(*arguments, **keywords)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("owner/name@01234567:")
    return message


def files_below(folder: Path) -> list[Path]:
    """All but the locks, which stay."""
    return [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"]


def test_url_is_pinned_and_quoted() -> None:
    assert SOURCE.url == (
        "https://raw.githubusercontent.com/owner/name/0123456789abcdef0123456789abcdef01234567/"
        "folder/1.2%2C1.3%20train.txt"
    )


def test_sources_are_values() -> None:
    assert replace(SOURCE, rebuild=lambda: CONTENT) == SOURCE
    assert len({SOURCE, replace(SOURCE)}) == 1


@pytest.mark.parametrize("zipped", [False, True])
def test_data_dir(tmp_path: Path, zipped: bool) -> None:
    path = mirrored(tmp_path, zipped=zipped)
    assert locate(SOURCE, data_dir=tmp_path) == path
    assert read(path) == CONTENT


@pytest.mark.parametrize("zipped", [False, True])
def test_mirror_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zipped: bool) -> None:
    path = mirrored(tmp_path, zipped=zipped)
    monkeypatch.setenv(DATA_DIR_VARIABLE, str(tmp_path))
    assert locate(SOURCE) == path


def test_data_dir_before_mirror_before_rebuild(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = replace(SOURCE, rebuild=lambda: CONTENT)
    monkeypatch.setenv(DATA_DIR_VARIABLE, str(tmp_path / "mirror"))
    (tmp_path / "mirror").mkdir()
    cached = locate(source, cache_dir=tmp_path / "cache")
    assert cached.parent == tmp_path / "cache" / "downloads"
    in_mirror = mirrored(tmp_path / "mirror")
    assert locate(source, cache_dir=tmp_path / "cache") == in_mirror
    in_data_dir = mirrored(tmp_path / "data")
    assert locate(source, tmp_path / "data", tmp_path / "cache") == in_data_dir


def test_data_dir_without_the_file(tmp_path: Path) -> None:
    message = refused(replace(SOURCE, rebuild=lambda: CONTENT), data_dir=tmp_path)
    assert "bench/train.txt" in message
    assert str(tmp_path) in message


def test_mirror_that_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DATA_DIR_VARIABLE, str(tmp_path / "absent"))
    message = refused(replace(SOURCE, rebuild=lambda: CONTENT), cache_dir=tmp_path)
    assert f"{DATA_DIR_VARIABLE}={tmp_path / 'absent'}" in message


@pytest.mark.parametrize("zipped", [False, True])
def test_wrong_content(tmp_path: Path, zipped: bool) -> None:
    wrong = CONTENT[:-1]
    path = mirrored(tmp_path, wrong, zipped)
    message = refused(SOURCE, data_dir=tmp_path)
    for part in (str(path), str(len(wrong)), hashlib.sha256(wrong).hexdigest(), SOURCE.sha256, "delete or replace"):
        assert part in message
    assert path.is_file()


@pytest.mark.parametrize("damage", ["cut", "flipped", "no gzip"])
def test_damaged_gzip(tmp_path: Path, damage: str) -> None:
    path = mirrored(tmp_path, zipped=True)
    data = bytearray(path.read_bytes())
    if damage == "cut":
        del data[len(data) // 2 :]
    elif damage == "flipped":
        data[len(data) // 2] ^= 255
    else:
        data[:] = CONTENT
    path.write_bytes(data)
    assert str(path) in refused(SOURCE, data_dir=tmp_path)


def test_rebuild_is_checked(tmp_path: Path) -> None:
    message = refused(replace(SOURCE, rebuild=lambda: b"wrong"), cache_dir=tmp_path)
    assert "the rebuilt file" in message
    assert files_below(tmp_path) == []


def test_damaged_cache_is_replaced(tmp_path: Path) -> None:
    source = replace(SOURCE, rebuild=lambda: CONTENT)
    path = locate(source, cache_dir=tmp_path)
    path.write_bytes(b"damaged")
    assert locate(source, cache_dir=tmp_path) == path
    assert path.read_bytes() == CONTENT


def test_download_once(tmp_path: Path, server: Server) -> None:
    source = server.source("whole")
    path = locate(source, cache_dir=tmp_path)
    assert path.read_bytes() == CONTENT
    assert locate(source, cache_dir=tmp_path) == path
    assert server.gets == 1
    assert files_below(tmp_path) == [path]


def test_downloads_at_once(tmp_path: Path, server: Server) -> None:
    source = server.source("whole")
    with ThreadPoolExecutor(4) as pool:
        paths = set(pool.map(lambda _: locate(source, cache_dir=tmp_path), range(4)))
    assert files_below(tmp_path) == list(paths)


@pytest.mark.parametrize("path", ["absent", "cut", "other"])
def test_bad_download(tmp_path: Path, server: Server, path: str) -> None:
    source = server.source(path)
    message = refused(source, cache_dir=tmp_path)
    assert source.url in message
    assert DATA_DIR_VARIABLE in message
    assert files_below(tmp_path) == []


def test_no_server(tmp_path: Path, server: Server) -> None:
    source = replace(server.source("whole"), address="http://127.0.0.1:9")
    assert "cannot download http://127.0.0.1:9/whole" in refused(source, cache_dir=tmp_path)
    assert files_below(tmp_path) == []


def test_offline(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    assert "offline" in refused(server.source("whole"), cache_dir=tmp_path).lower()
    assert server.gets == 0


# `git hash-object` of CONTENT
GIT_BLOB = "3f81740da9faa0712e525d87e4f23a75b957bd25"
BLOB_SOURCE = replace(SOURCE, sha256=None, num_bytes=None, git_blob=GIT_BLOB)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_git_blob(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / (SOURCE.mirror + suffix)
    path.parent.mkdir()
    pack = gzip.compress if suffix else bytes
    path.write_bytes(pack(CONTENT))
    assert locate(BLOB_SOURCE, tmp_path) == path
    path.write_bytes(pack(CONTENT[:-1]))
    message = f"has {len(CONTENT) - 1} bytes with git blob id [0-9a-f]{{40}}, expected git blob id {GIT_BLOB}; delete"
    with pytest.raises(DataError, match=message):
        locate(BLOB_SOURCE, tmp_path)


def test_git_blob_in_cache(tmp_path: Path) -> None:
    path = locate(replace(BLOB_SOURCE, rebuild=lambda: CONTENT), cache_dir=tmp_path)
    assert path.name == f"{GIT_BLOB}-{Path(SOURCE.path).name}"
    assert path.read_bytes() == CONTENT
