"""Reads which modules a source file imports."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

# a name for `importlib`
NAMED = re.compile(r"(hf_sysgen(?:\.\w+)+):\w+")


def imports_of(path: Path, of_types: bool = True) -> list[tuple[int, str, list[str]]]:
    """
    Every import of a file, wherever it stands, and modules that a text names (`import_module`): (dots, module,
    names).

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
        elif isinstance(node, ast.Constant) and (named := NAMED.fullmatch(str(node.value))):
            found.append((0, named[1], []))
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            found += [(0, str(one.value), []) for one in node.args if isinstance(one, ast.Constant)]
    return found


@functools.cache
def imports_by_place(path: Path) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """The imports that run with the file, and those in its functions; without those of a checker of types."""
    at_once: list[ast.stmt] = []
    later: list[ast.stmt] = []

    def collect(node: ast.AST, found: list[ast.stmt]) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.append(node)
        elif not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)):
            for child in ast.iter_child_nodes(node):
                collect(child, later if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else found)

    collect(ast.parse(path.read_text(encoding="utf-8")), at_once)
    return at_once, later
