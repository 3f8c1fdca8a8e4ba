"""Files that are there whole or not at all, and files that one process has to itself."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO


def write_whole(path: str | Path, content: str | bytes) -> None:
    """
    Write a file that, if the process dies, is either the old one or the new one; text as UTF-8. Folders above it are
    made. Whoever may read the folder may read it.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # not `tempfile`, whose files are their owner's alone
    partial = path.with_name(f"{_prefix(path)}{uuid.uuid4().hex}")
    try:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)
        _flush(partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def is_unfinished(path: Path, file: Path) -> bool:
    """Whether `file` is what `write_whole` of `path` has in the making, or left behind when it was killed."""
    return file.parent == path.parent and file.name.startswith(_prefix(path))


@contextlib.contextmanager
def locked(path: Path) -> Iterator[IO[str] | None]:
    """
    A file, opened to append, that no other process has locked; None if one has. The lock lasts until the last process
    that shares the open file ends, so a killed sweep's run, while it lives, is not started again. Where the system has
    no locks, nobody has any.
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
            # what file systems of clusters say that are mounted without
            if error.errno not in (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK):
                raise
        yield file


def file_name(text: str) -> str:
    """The text with what a path gives a meaning to, or a shell, made harmless, and no longer than a name may be."""
    name = re.sub(r"[^\w=,.+-]", "-", text)
    return name if len(name) <= 160 else f"{name[:150]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def flush_to_disk(folder: Path) -> None:
    """Have everything below a folder on the disk, so that after a power cut nothing written later is there without."""
    for path in [*folder.rglob("*"), folder, folder.parent]:
        _flush(path)


def _flush(path: Path) -> None:
    try:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        # some file systems, and some folders, know no such thing; of a full disk this is where one hears
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES, errno.EPERM):
            raise


def _prefix(path: Path) -> str:
    return f".{path.name}."
