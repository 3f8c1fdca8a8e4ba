"""Members of archives, read in place, or an error in one line."""

from __future__ import annotations

import io
import os
import random
import re
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from hf_sysgen.data.archives import open_member
from hf_sysgen.data.errors import DamagedData, DataError

# hard to compress, so that a cut archive is cut inside it
CONTENT = random.Random(7).randbytes(300_007)
MODES = ["w", "w:gz", "w:bz2", "w:xz"]


def tar_of(path: Path, members: dict[str, bytes | tarfile.TarInfo], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as tar:
        for name, content in members.items():
            info = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(name)
            data = b"" if isinstance(content, tarfile.TarInfo) else content
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def zip_of(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, content in members.items():
            zipped.writestr(name, content)
    return path


def made(path: Path, members: dict[str, bytes], mode: str) -> Path:
    return zip_of(path, members) if mode == "zip" else tar_of(path, members, mode)


def read(archive: Path, member: str) -> bytes:
    with open_member(archive, member) as stream:
        return stream.read()


def refused(archive: Path, member: str) -> str:
    with pytest.raises(DamagedData) as caught:
        read(archive, member)
    message = str(caught.value)
    assert "\n" not in message
    assert str(archive) in message
    assert member in message
    return message


@pytest.mark.parametrize("mode", [*MODES, "zip"])
@pytest.mark.parametrize("prefix", ["", "./"])
def test_member(tmp_path: Path, mode: str, prefix: str) -> None:
    # told by its content
    archive = made(tmp_path / "a.bin", {f"{prefix}a/first": b"1", f"{prefix}a/b.txt": CONTENT, "last": b"3"}, mode)
    assert read(archive, "a/b.txt") == CONTENT
    with open_member(archive, "a/b.txt") as stream:
        assert stream.read(11) == CONTENT[:11]
        assert stream.readline() == CONTENT[11:].partition(b"\n")[0] + b"\n"
        assert io.TextIOWrapper(stream, "latin-1").read(5)
    assert os.listdir(tmp_path) == ["a.bin"]


@pytest.mark.parametrize("mode", [*MODES, "zip"])
@pytest.mark.parametrize("count", [8, 9, 10])
def test_no_such_member(tmp_path: Path, mode: str, count: int) -> None:
    """Eight of those that there are, and how many more."""
    members = {f"folder/{number}": b"" for number in range(count)}
    _, last, rest = refused(made(tmp_path / "a", members, mode), "folder/ten").rpartition("folder/7")
    assert last
    assert re.findall(r"\d+", rest) == ([str(count - 8)] if count > 8 else [])


@pytest.mark.parametrize("mode", [*MODES, "zip"])
@pytest.mark.parametrize("kept", [0.5, 0.01, 0.0])
def test_truncated(tmp_path: Path, mode: str, kept: float) -> None:
    archive = made(tmp_path / "a", {"b.txt": CONTENT, "c.txt": CONTENT}, mode)
    data = archive.read_bytes()
    archive.write_bytes(data[: int(kept * len(data))])
    refused(archive, "c.txt")


# tar's own stream does not look at gzip's checksum; what `locate` returns was checked as a whole
@pytest.mark.parametrize("mode", ["w:xz", "zip"])
def test_flipped_byte(tmp_path: Path, mode: str) -> None:
    archive = made(tmp_path / "a", {"b.txt": CONTENT}, mode)
    data = bytearray(archive.read_bytes())
    data[len(data) // 2] ^= 255
    archive.write_bytes(data)
    refused(archive, "b.txt")


@pytest.mark.parametrize("archive", ["absent", "text"])
def test_no_archive(tmp_path: Path, archive: str) -> None:
    (tmp_path / "text").write_text("no archive at all")
    refused(tmp_path / archive, "b.txt")


@pytest.mark.parametrize("mode", ["w", "w:gz", "zip"])
@pytest.mark.parametrize("name", ["../out.txt", "/etc/out.txt", "a/../../out.txt"])
def test_path_that_climbs_out(tmp_path: Path, mode: str, name: str) -> None:
    archive = made(tmp_path / "a", {name: b"out", "in.txt": b"in"}, mode)
    refused(archive, name)
    assert read(archive, "in.txt") == b"in"


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE])
def test_link_in_tar(tmp_path: Path, kind: bytes) -> None:
    info = tarfile.TarInfo("b.txt")
    info.type, info.linkname = kind, "/etc/passwd"
    refused(tar_of(tmp_path / "a", {"b.txt": info}), "b.txt")


def test_link_in_zip(tmp_path: Path) -> None:
    info = zipfile.ZipInfo("b.txt")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a", "w") as zipped:
        zipped.writestr(info, "/etc/passwd")
        zipped.writestr("folder/", "")
    for member in ("b.txt", "folder/"):
        refused(tmp_path / "a", member)


@pytest.mark.parametrize("mode", ["w:gz", "zip"])
@pytest.mark.parametrize(
    "error", [OSError("no space"), EOFError("mine"), RuntimeError("mine"), DataError("line 3 is wrong")], ids=repr
)
def test_what_the_reader_raises_is_its_own(tmp_path: Path, mode: str, error: Exception) -> None:
    archive = made(tmp_path / "a", {"b.txt": CONTENT}, mode)

    def consume() -> None:
        with open_member(archive, "b.txt") as stream:
            stream.read(5)
            raise error

    with pytest.raises(type(error)) as caught:
        consume()
    assert caught.value is error


def test_constant_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading a member line by line never reads the whole member at once."""
    archive = tar_of(tmp_path / "a", {"b.txt": b"line\n" * 100_000})
    asked: list[int] = []
    read_some: Callable = tarfile.ExFileObject.read

    def watched(self: tarfile.ExFileObject, size: int = -1) -> bytes:
        asked.append(size)
        return read_some(self, size)

    monkeypatch.setattr(tarfile.ExFileObject, "read", watched)
    with open_member(archive, "b.txt") as stream:
        assert sum(1 for _ in stream) == 100_000
    assert 0 < max(asked) <= 1 << 17
    assert min(asked) > 0
