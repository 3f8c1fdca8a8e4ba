"""Reading one member of an archive in place: nothing is ever unpacked to the disk, so nothing can climb out of it."""

from __future__ import annotations

import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from hf_sysgen.data.sources import DataError


@contextmanager
def open_member(archive: str | Path, member: str) -> Iterator[BinaryIO]:
    """Open one file of a tar archive (plain, gzip, bzip2, xz) or a zip archive, as a stream of bytes.

    A tar archive is read from its start up to the member, in constant memory.

    Args:
        archive: path of the archive, told by its content, not its name.
        member: name of the file as the archive has it, a leading "./" aside.

    Raises:
        DataError: the archive cannot be read, has no such file, or has a link or a path out of the archive under that
            name; also where the archive turns out cut short while the member is being read.
    """
    where = f"{archive}: member {member}"
    if Path(member).is_absolute() or ".." in Path(member).parts:
        raise DataError(f"{where}: a path that leaves the archive is never read")
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as zipped:
                yield cast(BinaryIO, zipped.open(_zip_name(zipped, member, where)))
        else:
            with tarfile.open(archive, "r|*") as tar:
                yield _tar_member(tar, member, where)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise DataError(f"{where}: cannot read the archive ({reason}); delete or replace it") from error


def _zip_name(zipped: zipfile.ZipFile, member: str, where: str) -> str:
    for name in zipped.namelist():
        if name.removeprefix("./") == member:
            return name
    raise DataError(f"{where}: the archive has no such file; it has {_shown(zipped.namelist())}")


def _tar_member(tar: tarfile.TarFile, member: str, where: str) -> BinaryIO:
    seen = []
    for info in tar:
        name = info.name.removeprefix("./")
        if name == member:
            stream = tar.extractfile(info) if info.isreg() else None
            if stream is None:
                raise DataError(f"{where}: is a link or a folder in the archive, not a file")
            return cast(BinaryIO, stream)
        seen.append(name)
    raise DataError(f"{where}: the archive has no such file; it has {_shown(seen)}")


def _shown(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
