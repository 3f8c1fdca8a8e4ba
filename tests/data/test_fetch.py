"""Where files come from, in which order, and that a wrong file never passes."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import os
import resource
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest
from huggingface_hub import close_session
from upstream import Upstream, hurried, serving

import hf_sysgen.data.fetch
from hf_sysgen.data.errors import DamagedData, DataError
from hf_sysgen.data.fetch import (
    DATA_DIR_VARIABLE,
    locate,
    open_file,
    with_found_checksum,
)
from hf_sysgen.data.info import Source
from hf_sysgen.errors import is_disk_full

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


PATH = f"/{SOURCE.repository}/{SOURCE.commit}/{SOURCE.path}"
UNKNOWN = replace(SOURCE, sha256=None, num_bytes=None)


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch) -> Iterator[Upstream]:
    """The server of SOURCE.url, without waiting between attempts."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    # a client that read them before is no good
    close_session()
    hurried(monkeypatch)
    # the client loses what it has of an unfinished chunk
    monkeypatch.setattr(huggingface_hub.constants, "DOWNLOAD_CHUNK_SIZE", 1)
    with serving({PATH: CONTENT}) as server:
        monkeypatch.setattr(hf_sysgen.data.info, "GITHUB", server.address)
        yield server


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
    # a file that is there and wrong is told apart from one that is not there
    is_wrong = "sha256" in message or "cannot read" in message or "git blob id" in message
    assert isinstance(caught.value, DamagedData) == is_wrong
    return message


def files_below(folder: Path) -> list[Path]:
    """All files except the locks, which stay."""
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


def archived(folder: Path) -> Source:
    """A file of an archive that is in a folder laid out like a mirror."""
    path = folder / "bench" / "all.tar"
    path.parent.mkdir(parents=True)
    with tarfile.open(path, "w") as archive:
        member = tarfile.TarInfo("inner/train.txt")
        member.size = len(CONTENT)
        archive.addfile(member, io.BytesIO(CONTENT))
    whole = replace(
        SOURCE, path="all.tar", sha256=hashlib.sha256(path.read_bytes()).hexdigest(), num_bytes=None,
        mirror="bench/all.tar",
    )  # fmt: skip
    return replace(SOURCE, path="inner/train.txt", archive=whole)


def test_archive_in_the_data_dir(tmp_path: Path) -> None:
    source = archived(tmp_path / "data")
    path = locate(source, tmp_path / "data", tmp_path / "cache")
    assert path.parent == tmp_path / "cache" / "downloads"
    assert path.read_bytes() == CONTENT
    # the file itself comes first
    assert locate(source, mirrored(tmp_path / "data").parents[1], tmp_path / "cache").parent == tmp_path / "data/bench"
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"bench/train.txt.*bench/all.tar"):
        locate(source, tmp_path / "empty", tmp_path / "cache")


def test_wrong_archive_in_the_data_dir(tmp_path: Path) -> None:
    source = archived(tmp_path / "data")
    (tmp_path / "data" / "bench" / "all.tar").write_bytes(b"another")
    with pytest.raises(DamagedData, match=r"all\.tar.* 7 bytes"):
        locate(source, tmp_path / "data", tmp_path / "cache")


def test_data_dir_without_the_file(tmp_path: Path) -> None:
    message = refused(replace(SOURCE, rebuild=lambda: CONTENT), data_dir=tmp_path)
    assert "bench/train.txt" in message
    assert str(tmp_path) in message


@pytest.mark.parametrize("setting", ["data_dir", DATA_DIR_VARIABLE])
@pytest.mark.parametrize(("name", "problem"), [("absent", "no folder {}"), ("file", "{} is a file")])
def test_a_folder_that_is_none(
    tmp_path: Path, name: str, problem: str, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named in full, because it is relative to the current folder."""
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(DATA_DIR_VARIABLE, name)
    data_dir = name if setting == "data_dir" else None
    message = refused(replace(SOURCE, rebuild=lambda: CONTENT), data_dir=data_dir, cache_dir=tmp_path)
    assert problem.format(tmp_path / name) in message
    assert setting in message
    with pytest.raises(DataError, match=setting):
        with_found_checksum(SOURCE, data_dir)


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


def test_damaged_cache_is_replaced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = replace(SOURCE, rebuild=lambda: CONTENT)
    path = locate(source, cache_dir=tmp_path)
    assert not caplog.records
    path.write_bytes(b"damaged")
    assert locate(source, cache_dir=tmp_path) == path
    assert path.read_bytes() == CONTENT
    (said,) = caplog.messages
    assert f"{path} was damaged" in said


def test_download_once(tmp_path: Path, upstream: Upstream) -> None:
    path = locate(SOURCE, cache_dir=tmp_path)
    assert path.read_bytes() == CONTENT
    assert locate(SOURCE, cache_dir=tmp_path) == path
    assert upstream.gets == [(PATH, None)]
    assert files_below(tmp_path) == [path]


def test_downloads_at_once(tmp_path: Path, upstream: Upstream) -> None:
    with ThreadPoolExecutor(4) as pool:
        paths = set(pool.map(lambda _: locate(SOURCE, cache_dir=tmp_path), range(4)))
    assert files_below(tmp_path) == list(paths)
    assert len(upstream.gets) == 1


@pytest.mark.parametrize("source", [SOURCE, UNKNOWN], ids=["pinned", "unknown"])
@pytest.mark.parametrize(
    "faults",
    [[503], [500, 502, 429, 408], ["drop", "drop"], ["cut"], [503, "cut", "drop", "cut", 504], ["cut", "ignore range"]],
    ids=str,
)
def test_passing_faults(tmp_path: Path, upstream: Upstream, faults: list[int | str], source: Source) -> None:
    upstream.faults = faults.copy()
    assert locate(source, cache_dir=tmp_path).read_bytes() == CONTENT
    assert len(upstream.gets) == len(faults) + ("ignore range" not in faults)


def test_cut_download_is_gone_on_with(tmp_path: Path, upstream: Upstream) -> None:
    upstream.faults = ["cut", "cut"]
    locate(SOURCE, cache_dir=tmp_path)
    half = len(CONTENT) // 2
    three_quarters = half + (len(CONTENT) - half) // 2
    assert [asked for _, asked in upstream.gets] == [None, f"bytes={half}-", f"bytes={three_quarters}-"]


def test_slow_server_is_left_in_the_end(tmp_path: Path, upstream: Upstream) -> None:
    upstream.faults = [503] * 9
    assert "HTTP 503" in refused(SOURCE, cache_dir=tmp_path)
    assert len(upstream.gets) == 5


def test_no_network_is_told_soon(tmp_path: Path, upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = hurried(monkeypatch)
    with socket.create_server(("127.0.0.1", 0)) as free:
        nobody = f"http://127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.setattr(hf_sysgen.data.info, "GITHUB", nobody)
    said = refused(SOURCE, cache_dir=tmp_path)
    assert f"{nobody}/owner" in said
    assert "refused); check the network" in said
    assert sum(waits) <= 5
    assert files_below(tmp_path) == []


def test_waits_get_longer(tmp_path: Path, upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = hurried(monkeypatch)
    upstream.faults = [503] * 4
    locate(SOURCE, cache_dir=tmp_path)
    assert waits == [0.5, 1, 2, 4]


@pytest.mark.parametrize("status", [404, 403, 410])
def test_final_answer_is_not_asked_for_again(tmp_path: Path, upstream: Upstream, status: int) -> None:
    upstream.faults = [status]
    message = refused(SOURCE, cache_dir=tmp_path)
    for part in (SOURCE.url, f"HTTP {status}", DATA_DIR_VARIABLE, SOURCE.mirror):
        assert part in message
    assert len(upstream.gets) == 1
    assert files_below(tmp_path) == []


def test_changed_upstream_file(tmp_path: Path, upstream: Upstream) -> None:
    upstream.files[PATH] = b"something else"
    message = refused(SOURCE, cache_dir=tmp_path)
    for part in (SOURCE.url, SOURCE.sha256, hashlib.sha256(b"something else").hexdigest()):
        assert part in message
    assert files_below(tmp_path) == []


def test_broken_off_download_stays_for_the_next_time(tmp_path: Path, upstream: Upstream) -> None:
    upstream.faults = ["cut", 404]
    refused(SOURCE, cache_dir=tmp_path)
    (unfinished,) = files_below(tmp_path)
    assert unfinished.read_bytes() == CONTENT[: len(CONTENT) // 2]
    path = locate(SOURCE, cache_dir=tmp_path)
    assert upstream.gets[-1] == (PATH, f"bytes={len(CONTENT) // 2}-")
    assert files_below(tmp_path) == [path]


@pytest.mark.parametrize("left", [b"not its beginning", CONTENT + b"and more", CONTENT], ids=["other", "long", "whole"])
@pytest.mark.parametrize("source", [SOURCE, UNKNOWN], ids=["pinned", "unknown"])
def test_what_a_killed_process_left(tmp_path: Path, upstream: Upstream, left: bytes, source: Source) -> None:
    path = locate(source, cache_dir=tmp_path)
    path.rename(f"{path}.unfinished").write_bytes(left)
    assert locate(source, cache_dir=tmp_path).read_bytes() == CONTENT
    assert not Path(f"{path}.unfinished").exists()


def test_whole_file_of_a_killed_process_is_not_fetched_again(tmp_path: Path, upstream: Upstream) -> None:
    path = locate(SOURCE, cache_dir=tmp_path)
    path.rename(f"{path}.unfinished")
    assert locate(SOURCE, cache_dir=tmp_path).read_bytes() == CONTENT
    assert len(upstream.gets) == 1


def test_offline(tmp_path: Path, upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    upstream.faults = ["cut", 404]
    refused(SOURCE, cache_dir=tmp_path)
    begun, gets = files_below(tmp_path), len(upstream.gets)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    assert "in offline mode; unset HF_HUB_OFFLINE" in refused(SOURCE, cache_dir=tmp_path)
    assert len(upstream.gets) == gets
    # online again, the download goes on
    assert files_below(tmp_path) == begun != []


def test_proxy(tmp_path: Path, upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", upstream.address)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    close_session()
    monkeypatch.setattr(hf_sysgen.data.info, "GITHUB", "http://nowhere.invalid")
    # a proxy is asked for the whole address
    upstream.files = {SOURCE.url.replace("%2C", ",").replace("%20", " "): CONTENT}
    assert locate(SOURCE, cache_dir=tmp_path).read_bytes() == CONTENT
    close_session()


def web_source(address: str, **fields: Any) -> Source:
    return replace(SOURCE, commit="", path="train.txt", address=address, **fields)


def test_file_address(tmp_path: Path) -> None:
    origin = tmp_path / "a folder" / "train.txt"
    origin.parent.mkdir()
    source = web_source(origin.as_uri())
    with pytest.raises(DataError, match=r"owner/name:train\.txt: .*file://"):
        locate(source, cache_dir=tmp_path / "cache")
    origin.write_bytes(CONTENT)
    assert locate(source, cache_dir=tmp_path / "cache").read_bytes() == CONTENT


def test_first_content_counts(tmp_path: Path, upstream: Upstream) -> None:
    path = locate(UNKNOWN, cache_dir=tmp_path)
    record = path.with_name(path.name + ".sha256")
    assert record.read_text() == f"{SOURCE.sha256}  {path.name}\n"
    # a shared cache is for all to read
    assert record.stat().st_mode == path.stat().st_mode
    assert files_below(tmp_path) in ([path, record], [record, path])
    # the same content from elsewhere will do
    assert read(locate(UNKNOWN, mirrored(tmp_path / "data").parents[1], tmp_path)) == CONTENT
    # another will not, wherever it comes from
    other = mirrored(tmp_path / "other", b"other").parents[1]
    message = refused(UNKNOWN, other, tmp_path)
    assert f"expected sha256 {SOURCE.sha256}" in message
    assert f"delete {record}" in message
    path.unlink()
    upstream.files[PATH] = b"changed"
    assert f"delete {record}" in refused(UNKNOWN, cache_dir=tmp_path)
    # until it is accepted
    record.unlink()
    assert read(locate(UNKNOWN, other, tmp_path)) == b"other"
    assert f"sha256 {hashlib.sha256(b'other').hexdigest()}" in refused(UNKNOWN, cache_dir=tmp_path)


def test_damaged_first_content_is_replaced(tmp_path: Path, upstream: Upstream) -> None:
    path = locate(UNKNOWN, cache_dir=tmp_path)
    path.write_bytes(b"damaged")
    assert locate(UNKNOWN, cache_dir=tmp_path).read_bytes() == CONTENT


def test_size_alone(tmp_path: Path, upstream: Upstream) -> None:
    source = replace(UNKNOWN, num_bytes=len(CONTENT) + 1)
    assert f"has {len(CONTENT)} bytes" in refused(source, cache_dir=tmp_path)
    assert files_below(tmp_path) == []


def test_wrong_size_of_the_right_file(tmp_path: Path, upstream: Upstream) -> None:
    """Not the file is to be replaced."""
    source = replace(SOURCE, num_bytes=len(CONTENT) + 1)
    assert f"correct num_bytes={len(CONTENT) + 1}" in refused(source, cache_dir=tmp_path)


@pytest.mark.parametrize("rebuild", [None, lambda: CONTENT], ids=["download", "rebuild"])
def test_full_disk(
    tmp_path: Path, upstream: Upstream, monkeypatch: pytest.MonkeyPatch, rebuild: Callable[[], bytes] | None
) -> None:
    """With a limit of the kernel: a write beyond it fails in the middle, as on a full disk."""
    source = replace(SOURCE, rebuild=rebuild)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        message = refused(source, cache_dir=tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert f"no space left in {tmp_path / 'downloads'}" in message
    assert f"{len(CONTENT):,} bytes" in message
    assert files_below(tmp_path) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_disk_full(number: int) -> None:
    assert is_disk_full(OSError(number, "full"))
    assert not is_disk_full(OSError(errno.EACCES, "forbidden"))


def test_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "downloads").write_text("a file in the folder's place")
    message = refused(replace(SOURCE, rebuild=lambda: CONTENT), cache_dir=tmp_path)
    assert f"cannot write in {tmp_path / 'downloads'}" in message


LOCATE = """
import sys
import hf_sysgen.data.info
from hf_sysgen.data import Source, locate
hf_sysgen.data.info.GITHUB = sys.argv[1]
print(locate(Source("owner/name", *sys.argv[3:6], num_bytes=None, licence="", mirror="x"), cache_dir=sys.argv[2]))
"""


def locating(upstream: Upstream, cache_dir: Path) -> subprocess.Popen:
    script = [sys.executable, "-W", "error", "-c", LOCATE, upstream.address, str(cache_dir)]
    return subprocess.Popen(
        [*script, SOURCE.commit, SOURCE.path, str(SOURCE.sha256)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_killed_and_waiting_processes(tmp_path: Path, upstream: Upstream) -> None:
    """One process is killed during its download; of the next two, one resumes it and the other waits."""
    upstream.pause.clear()
    killed = locating(upstream, tmp_path)
    while not upstream.gets:
        assert killed.poll() is None, killed.communicate()
        time.sleep(0.01)
    killed.kill()
    killed.communicate()
    # as it would have left it
    (lock,) = (tmp_path / "downloads").glob("*.lock")
    lock.with_suffix(".unfinished").write_bytes(CONTENT[:777])
    upstream.gets.clear()
    processes = [locating(upstream, tmp_path) for _ in "ab"]
    while not upstream.gets:
        assert any(process.poll() is None for process in processes), [one.communicate() for one in processes]
        time.sleep(0.01)
    upstream.pause.set()
    answers = [process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0, 0], answers
    (path,) = files_below(tmp_path)
    assert path.read_bytes() == CONTENT
    assert {Path(out.strip()) for out, _ in answers} == {path}
    assert upstream.gets == [(PATH, "bytes=777-")]


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


@pytest.mark.parametrize(("source", "times"), [(SOURCE, 1), (BLOB_SOURCE, 2)], ids=["sha256", "git blob"])
def test_read_no_more_than_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Source, times: int) -> None:
    path = mirrored(tmp_path)
    opened, whole = [], open
    monkeypatch.setattr("builtins.open", lambda file, *mode, **more: opened.append(file) or whole(file, *mode, **more))
    assert locate(source, tmp_path) == locate(source, tmp_path) == path
    assert opened.count(path) == times
    monkeypatch.undo()
    # of the same size
    path.write_bytes(CONTENT[::-1])
    os.utime(path, ns=(0, 0))
    assert "expected" in refused(source, tmp_path)


def test_git_blob_in_cache(tmp_path: Path) -> None:
    path = locate(replace(BLOB_SOURCE, rebuild=lambda: CONTENT), cache_dir=tmp_path)
    assert path.name == f"{GIT_BLOB}-{Path(SOURCE.path).name}"
    assert path.read_bytes() == CONTENT
