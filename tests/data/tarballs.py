"""Archives made by tests."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path


def pack(path: Path, members: dict[str, bytes]) -> Path:
    """Write a gzipped tar archive with these members, in this order."""
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path
