"""Reads which modules a source file imports."""

from __future__ import annotations

import ast
from pathlib import Path


def imports_of(path: Path) -> list[tuple[int, str, list[str]]]:
    """Every import of a file, wherever it stands: (dots, module, names)."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(0, alias.name, []) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append((node.level, node.module or "", [alias.name for alias in node.names]))
    return found
