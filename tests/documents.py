"""The files, commands and outputs in a document."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted(
    [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")), *(ROOT / "docs").rglob("*.md")]
)


class Block(NamedTuple):
    """A fenced block: its language, its text, and the file that the line before it names, if that ends in a colon."""

    language: str
    text: str
    path: str | None


def blocks(document: Path) -> list[Block]:
    found = re.findall(
        r"^(?:`([^`\n]+)`[^`\n]*:\n\n)?```(\w+)\n(.*?)^```", document.read_text(encoding="utf-8"), flags=re.M | re.S
    )
    return [Block(language, text, path or None) for path, language, text in found]


def written(document: Path, folder: Path) -> dict[str, Path]:
    """The document's files, written below a folder as a reader would; by name."""
    paths = {}
    for block in blocks(document):
        if block.path is not None:
            path = paths[block.path] = folder / block.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
    return paths


def lines_of(text: str) -> list[str]:
    """The commands of a block, without comments; a backslash at the end of a line joins the next."""
    lines = [line.partition(" #")[0].strip() for line in text.replace("\\\n", " ").splitlines()]
    return [line for line in lines if line]


def commands(document: Path) -> list[list[str]]:
    """The words of every command."""
    return [
        shlex.split(line) for block in blocks(document) if block.language == "bash" for line in lines_of(block.text)
    ]
