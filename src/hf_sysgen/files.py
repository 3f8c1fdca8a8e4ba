"""Atomic writes, manifests of complete folders, and locks."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
import uuid
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

# the manifest, which marks a folder as complete; its lines: bytes, sha256 and name of each other file
COMPLETE = "complete"
_LINE = re.compile(r"\d+ (?:([0-9a-f]{64}) )?(.+)")


def write_atomic(path: str | Path, content: str | bytes) -> None:
    """
    Write a file atomically: if the process dies, it is either the old or the new one. Text is UTF-8; parent folders are
    created. It has normal permissions. Raises OSError: also as `resolve_output_path`.
    """
    path = resolve_output_path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # only their owner could read files of `tempfile`
    partial = path.with_name(f"{_prefix(path)}{uuid.uuid4().hex}")
    try:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)
        _flush(partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def resolve_output_path(path: str | Path) -> Path:
    """
    The file to write for a path: symbolic links are followed.

    Raises:
        OSError: the name is that of a folder, device or pipe, or no file can have it.
    """
    try:
        real = Path(os.path.realpath(path))
        mode = real.stat().st_mode
    except FileNotFoundError:
        return real
    except ValueError as error:
        # the name has a NUL character or is not UTF-8
        raise OSError(errno.EINVAL, "no file can have that name", repr(str(path))) from error
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "exists and is not a regular file", str(path))
    return real


def read_whole(path: str | Path) -> bytes:
    """The content of a file. Raises OSError: it is a device (they can be endless), or no file can have that name."""
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
                raise OSError(errno.EINVAL, "is a device, not a file", str(path))
            return file.read()
    except ValueError as error:
        raise OSError(errno.EINVAL, "no file can have that name", repr(str(path))) from error


def is_unfinished(path: Path, file: Path) -> bool:
    """Whether `file` is an unfinished file of `write_atomic(path)`, perhaps left by a kill."""
    return file.parent == path.parent and file.name.startswith(_prefix(path))


def write_manifest(folder: Path, pattern: str = "*") -> None:
    """Write the folder's files to disk, then a list of those that match `pattern`, with sizes and checksums."""
    flush_to_disk(folder)
    names = (path.relative_to(folder).as_posix() for path in folder.rglob(pattern) if path.is_file())
    write_atomic(folder / COMPLETE, _lines(folder, sorted(name for name in names if name != COMPLETE)))


def is_complete(folder: Path) -> bool:
    return (folder / COMPLETE).exists()


def replace_marked(folder: Path, name: str, content: str) -> None:
    """Replace one file of a folder with a manifest. Until it is written, it is not listed, so a kill does no harm."""
    lines = (folder / COMPLETE).read_text(encoding="utf-8").splitlines(keepends=True)
    others = "".join(line for line in lines if not line.endswith(f" {name}\n"))
    write_atomic(folder / COMPLETE, others)
    write_atomic(folder / name, content)
    write_atomic(folder / COMPLETE, others + _lines(folder, [name]))


def first_difference_from_manifest(folder: Path, suffixes: Collection[str] | None = None) -> tuple[str, str] | None:
    """
    The first file that differs from its folder's manifest, and how; None if all agree or there is no manifest. Of
    manifests of older versions, which have no checksums, only that the files are there.

    Args:
        suffixes: endings of the files that are compared; None for all.
    """
    if not is_complete(folder):
        return None
    sums: dict[str, str] = {}
    for line in (folder / COMPLETE).read_text("utf-8", "replace").splitlines():
        if (one := _LINE.fullmatch(line)) is None:
            return COMPLETE, "is damaged"
        checksum, name = one.groups()
        if suffixes is not None and not name.endswith(tuple(suffixes)):
            continue
        if not (folder / name).is_file():
            return name, "is missing"
        if checksum is not None:
            sums[name] = checksum
    for name, now in _checksums(folder, sums).items():
        if now != sums[name]:
            return name, "is damaged (another sha256 than when it was written)"
    return None


def _lines(folder: Path, names: Collection[str]) -> str:
    sums = _checksums(folder, names)
    return "".join(f"{(folder / name).stat().st_size} {sums[name]} {name}\n" for name in names)


def _checksums(folder: Path, names: Collection[str]) -> dict[str, str]:
    # weights and optimizer are read at the same time
    with ThreadPoolExecutor(max_workers=4) as pool:
        return dict(zip(names, pool.map(lambda name: sha256_of(folder / name), names), strict=True))


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


@contextlib.contextmanager
def locked(path: Path) -> Iterator[IO[str] | None]:
    """
    Open a file to append and lock it; None if another process has the lock. The lock lasts until the last process that
    inherited the open file ends, so a run that survives its killed sweep is not started twice. Without locks in the
    system, this locks nothing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ModuleNotFoundError:
            pass
        except BlockingIOError:
            yield None
            return
        except OSError as error:
            # clusters may mount file systems without locks
            if error.errno not in (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK):
                raise
        yield file


def file_name(text: str) -> str:
    """The text as a file name: characters with a meaning in paths or shells become "-", and long names end in a
    hash."""
    name = re.sub(r"[^\w=,.+-]", "-", text)
    return name if len(name) <= 160 else f"{name[:150]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def flush_to_disk(folder: Path) -> None:
    """Flush everything below a folder to the disk, so that after a power cut no later file exists without it."""
    for path in [*folder.rglob("*"), folder, folder.parent]:
        # another process may write the same manifest, and its unfinished file may vanish at any moment
        if not is_unfinished(folder / COMPLETE, path):
            _flush(path)


def _flush(path: Path) -> None:
    try:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        # some file systems and folders do not support it; a full disk raises here
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES, errno.EPERM):
            raise


def _prefix(path: Path) -> str:
    return f".{path.name}."
