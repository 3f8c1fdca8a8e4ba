"""Reads which modules a source file imports."""

from __future__ import annotations

import ast
from pathlib import Path


def imports_of(path: Path, of_types: bool = True) -> list[tuple[int, str, list[str]]]:
    """
    Every import of a file, wherever it stands: (dots, module, names).

    Args:
        of_types: also those that only a checker of types makes.
    """
    found = []
    tree = ast.parse(path.read_text(encoding="utf-8"))
    if not of_types:
        tree.body = [
            node for node in tree.body if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
        ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(0, alias.name, []) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append((node.level, node.module or "", [alias.name for alias in node.names]))
    return found
