"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import uuid
from pathlib import Path


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
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def is_unfinished(path: Path, file: Path) -> bool:
    """Whether `file` is what `write_whole` of `path` has in the making, or left behind when it was killed."""
    return file.parent == path.parent and file.name.startswith(_prefix(path))


def _prefix(path: Path) -> str:
    return f".{path.name}."
