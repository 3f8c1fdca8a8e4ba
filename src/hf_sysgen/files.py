"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: str | Path) -> Iterator[BinaryIO]:
    """
    A file to write that, if the process dies or what is done with it fails, is either the old one or the new one.
    Folders above it are made. Whoever may read the folder may read it.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # not `tempfile`, whose files are their owner's alone
    partial = path.with_name(f"{_prefix(path)}{uuid.uuid4().hex}")
    try:
        with open(partial, "wb") as file:
            yield file
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def write_whole(path: str | Path, content: str | bytes) -> None:
    """Write a [`whole_file`]; text as UTF-8."""
    with whole_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def is_unfinished(path: Path, file: Path) -> bool:
    """Whether `file` is what `whole_file` of `path` has in the making, or left behind when it was killed."""
    return file.parent == path.parent and file.name.startswith(_prefix(path))


def _prefix(path: Path) -> str:
    return f".{path.name}."
