"""Read one member of an archive in place. Nothing is unpacked to the disk, so no path can leave its folder."""

from __future__ import annotations

import io
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO

from hf_sysgen.data.errors import DamagedData
from hf_sysgen.errors import one_line


@contextmanager
def open_member(archive: str | Path, member: str) -> Iterator[BinaryIO]:
    """Open one file of a tar archive (plain, gzip, bzip2, xz) or a zip archive, as a stream of bytes.

    A tar archive is read from its start up to the member, in constant memory.

    Args:
        archive: path of the archive; its content decides the format, not its name.
        member: name of the file in the archive, without a leading "./".

    Raises:
        DataError: the archive cannot be read, has no such file, or that name is a link or leads out of the archive;
            also later, if the archive is cut short inside the member.
    """
    where = f"{archive}: member {member}"
    if Path(member).is_absolute() or ".." in Path(member).parts:
        raise DamagedData(f"{where}: this path leads out of the archive, so it is not read")
    with ExitStack() as stack:
        with _reported(where):
            if zipfile.is_zipfile(archive):
                zipped = stack.enter_context(zipfile.ZipFile(archive))
                stream = stack.enter_context(zipped.open(_zip_member(zipped, member, where)))
            else:
                tar = stack.enter_context(tarfile.open(archive, "r|*"))
                stream = stack.enter_context(_tar_member(tar, member, where))
        # errors of the caller's own code pass unchanged
        yield stack.enter_context(io.BufferedReader(_Member(stream, where)))


@contextmanager
def _reported(where: str) -> Iterator[None]:
    """Turn errors of the archive libraries into one line."""
    try:
        yield
    # zipfile raises RuntimeError for an encrypted file and NotImplementedError for an unknown method
    except (
        tarfile.TarError,
        zipfile.BadZipFile,
        EOFError,
        OSError,
        RuntimeError,
        zlib.error,
        lzma.LZMAError,
    ) as error:
        raise DamagedData(f"{where}: cannot read the archive ({one_line(error)}); delete or replace it") from error


class _Member(io.RawIOBase):
    """The bytes of a member. Damage of the archive raises an error when it is read."""

    def __init__(self, stream: IO[bytes], where: str) -> None:
        self._stream = stream
        self._where = where

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _reported(self._where):
            data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _zip_member(zipped: zipfile.ZipFile, member: str, where: str) -> zipfile.ZipInfo:
    for info in zipped.infolist():
        if info.filename.removeprefix("./") == member:
            # in archives made on Unix, the upper half is the file's mode
            if info.is_dir() or stat.S_ISLNK(info.external_attr >> 16):
                raise DamagedData(f"{where}: is a link or a folder in the archive, not a file")
            return info
    raise DamagedData(f"{where}: the archive has no such file; it has {_shown(zipped.namelist())}")


def _tar_member(tar: tarfile.TarFile, member: str, where: str) -> IO[bytes]:
    seen = []
    for info in tar:
        name = info.name.removeprefix("./")
        if name == member:
            stream = tar.extractfile(info) if info.isreg() else None
            if stream is None:
                raise DamagedData(f"{where}: is a link or a folder in the archive, not a file")
            return stream
        seen.append(name)
    raise DamagedData(f"{where}: the archive has no such file; it has {_shown(seen)}")


def _shown(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
