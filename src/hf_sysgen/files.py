"""Atomic writes and locks of files."""

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
    Write a file atomically: if the process dies, it is either the old or the new one. Text is UTF-8; parent folders are
    created. It has normal permissions.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # not `tempfile`, whose files only their owner can read
    partial = path.with_name(f"{_prefix(path)}{uuid.uuid4().hex}")
    try:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)
        _flush(partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def is_unfinished(path: Path, file: Path) -> bool:
    """Whether `file` is an unfinished file of `write_whole(path)`, perhaps left by a kill."""
    return file.parent == path.parent and file.name.startswith(_prefix(path))


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
            # file systems of clusters that are mounted without locks
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
