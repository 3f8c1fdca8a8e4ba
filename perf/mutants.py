"""
How many small errors in the code the tests catch: `python perf/mutants.py --count 150 --output perf/mutants.json`.

A mutant is the package with one change: an operator, number, condition or argument. The seed decides which. First run
the test files that name what the changed module defines, those with the most names first; then the other tests of its
folder. A mutant is caught when a test fails that passes on the unchanged code. It survives when all pass, and is out of
time after `--seconds` of processor time. Read the list of survivors: of those that change no behaviour, set `how` to
`equal` and `why` to the reason in the JSON. After new tests, `--again` tries the other survivors once more.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import random
import re
import resource
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "hf_sysgen"
# files that are not mutated: starts of programs
LEFT_OUT = ("__main__.py",)
DECIDED = ("caught", "equal")
SWAPPED: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Add,
    ast.Pow: ast.Mult, ast.MatMult: ast.Mult, ast.And: ast.Or, ast.Or: ast.And, ast.Lt: ast.LtE, ast.LtE: ast.Lt,
    ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.USub: ast.UAdd, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip


class _Places(ast.NodeVisitor):
    """Nodes that can be changed, none of them in an annotation, a message, a decorator or a check of types."""

    def __init__(self) -> None:
        self.found: list[ast.AST] = []

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert | ast.Import | ast.ImportFrom):
            return
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if mutations(node):
            self.found.append(node)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "bases", "type_comment"):
                continue
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, ast.AST):
                    self.visit(one)


def mutations(node: ast.AST) -> list[str]:
    """The kinds of mutation that a node allows."""
    if isinstance(node, ast.BinOp | ast.BoolOp | ast.UnaryOp) and type(node.op) in SWAPPED:
        return ["operator"]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return ["without not"]
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return ["comparison"]
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            return ["other truth"]
        if isinstance(node.value, int | float):
            return ["other number"]
        return []
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        return ["condition turned"]
    if isinstance(node, ast.Call) and len(node.args) > 1 and not any(isinstance(one, ast.Starred) for one in node.args):
        return [] if ast.unparse(node.func) in ("max", "min", "print") else ["arguments exchanged"]
    if isinstance(node, ast.Call) and node.keywords and all(one.arg for one in node.keywords):
        return ["keyword left out"]
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return ["call left out"]
    return []


def mutate(node: Any, kind: str, rng: random.Random) -> None:
    """Apply the mutation to the node."""
    if kind == "operator":
        node.op = SWAPPED[type(node.op)]()
    elif kind == "comparison":
        node.ops = [SWAPPED[type(node.ops[0])]()]
    elif kind == "without not":
        node.operand = ast.UnaryOp(ast.Not(), node.operand)
    elif kind == "other truth":
        node.value = not node.value
    elif kind == "other number":
        node.value = node.value + 1 if isinstance(node.value, int) else node.value * 2 + (node.value == 0)
    elif kind == "condition turned":
        node.test = ast.UnaryOp(ast.Not(), node.test)
    elif kind == "arguments exchanged":
        node.args[0], node.args[1] = node.args[1], node.args[0]
    elif kind == "keyword left out":
        del node.keywords[rng.randrange(len(node.keywords))]
    else:
        node.value = ast.Constant(None)


def mutant(source: str, rng: random.Random) -> tuple[str, int, str] | None:
    """The source with one mutation, its line, and the text before and after; None if nothing can be mutated."""
    tree = ast.parse(source)
    places = _Places()
    places.visit(tree)
    if not places.found:
        return None
    node: Any = rng.choice(places.found)
    kind = rng.choice(mutations(node))
    before = copy.deepcopy(node)
    mutate(node, kind, rng)
    ast.fix_missing_locations(tree)
    if ast.dump(before) == ast.dump(node):
        return None
    told = f"{kind}: {_told(before)} -> {_told(node)}"
    return ast.unparse(tree), node.lineno, told


def _told(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 90 else text[:87] + "..."


def drawn(count: int, seed: int) -> Iterator[tuple[Path, str, int, str]]:
    """Mutants: file, mutated source, line, and the change. Files are drawn by the square root of their size, so that
    small ones occur too."""
    rng = random.Random(seed)
    files = [path for path in sorted(PACKAGE.rglob("*.py")) if path.name not in LEFT_OUT and path.stat().st_size > 400]
    weights = [path.stat().st_size ** 0.5 for path in files]
    seen: set[tuple[Path, int, str]] = set()
    while len(seen) < count:
        path = rng.choices(files, weights)[0]
        made = mutant(path.read_text(encoding="utf-8"), rng)
        if made is not None and (path, *made[1:]) not in seen:
            seen.add((path, *made[1:]))
            yield path, *made


def tests_of(path: Path, count: int) -> list[str]:
    """`count` test files for a module: first those that name most of what it defines, then those of its folder."""
    module = path.relative_to(PACKAGE).with_suffix("")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    defined = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    names = [name for name in defined if len(name) > 5] + [f"hf_sysgen.{'.'.join(module.parts)}"]
    pattern = re.compile(r"\b(?:" + "|".join(map(re.escape, names)) + r")\b")
    folder = ROOT / "tests" / module.parent
    scores = {}
    for test in (ROOT / "tests").rglob("test_*.py"):
        found = len(set(pattern.findall(test.read_text(encoding="utf-8"))))
        near = test.is_relative_to(folder) if module.parts[:-1] else False
        # a shared part of the name, e.g. edge
        alike = len({*module.name.split("_")} & {*test.stem.split("_")} - {"test", "modeling", "configuration"})
        if found or near:
            scores[test] = (3 * found + 2 * alike + near, -test.stat().st_size)
    ranked = sorted(scores, key=scores.__getitem__, reverse=True)
    return [str(test.relative_to(ROOT)) for test in ranked[:count]]


class _Failures:
    """A plugin of pytest that collects the failed tests."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.ids.append(report.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.ids.append(f"{report.nodeid} (import)")


def run(folder: Path, files: list[str], seconds: int, words: Iterable[str] = ()) -> tuple[int | None, list[str]]:
    """
    Run pytest on some files in a fork of this process, which has already imported the slow libraries. Returns the
    status, None if the processor time was over, and the failed tests.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        os.chdir(folder)
        sys.path.insert(0, str(folder / "src"))
        os.environ |= {"PYTHONPATH": str(folder / "src"), "OMP_NUM_THREADS": "1"}
        status, failures = 99, _Failures()
        try:
            import pytest

            options = ["-x", "-q", "-p", "no:cacheprovider", "-W", "ignore:Module already imported"]
            # one after the other: most mutants are caught by the first file, and collecting all takes longer than that
            for file in files:
                status = int(pytest.main([*options, *words, file], plugins=[failures]))
                if status not in (0, 5):
                    break
        finally:
            os.write(writer, json.dumps(failures.ids).encode()[:60_000])
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        text = stream.read()
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return (None if code < 0 else code), json.loads(text or b"[]")


def judge(folder: Path, path: Path, source: str, most: int, seconds: int, sound: dict[str, bool]) -> tuple[str, str]:
    """`caught` and the test, `survived`, or `out of time`, e.g. if the mutant hangs."""
    file = folder / path.relative_to(ROOT)
    files = tests_of(path, most)
    if not files:
        # there is nothing that could notice it
        return "survived", ""
    before = file.read_bytes()
    unsound: list[str] = []
    while True:
        file.write_text(source, encoding="utf-8")
        try:
            status, failed = run(folder, files, seconds, [f"--deselect={one}" for one in unsound])
        finally:
            file.write_bytes(before)
        if status is None:
            return ("caught", failed[0]) if failed else ("out of time", "")
        if status in (0, 5):
            return "survived", ""
        name = failed[0] if failed else ""
        if name.endswith("(import)") or not name:
            return "caught", name or "collection"
        if name not in sound:
            sound[name] = run(folder, [name], seconds)[0] == 0
        if sound[name]:
            return "caught", name
        unsound.append(name)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().partition("\n")[0])
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first mutant that is run")
    parser.add_argument("--seconds", type=int, default=150, help="processor time for the tests of a mutant")
    parser.add_argument("--files", type=int, default=12, help="the most test files that are run for a mutant")
    parser.add_argument("--again", action="store_true", help="only those that survived or were out of time")
    parser.add_argument("--output", type=Path, help="JSON, added to after each mutant")
    options = parser.parse_args()
    # before the first fork
    import accelerate  # noqa: F401
    import datasets  # noqa: F401
    import scipy.stats  # noqa: F401
    import torch  # noqa: F401
    import transformers.trainer_seq2seq  # noqa: F401

    assert not any(name.partition(".")[0] == "hf_sysgen" for name in sys.modules)
    rows: list[dict[str, Any]] = []
    if options.output is not None and options.output.exists():
        rows = json.loads(options.output.read_text())["mutants"]
    known = {(row["file"], row["line"], row["what"]): row for row in rows}
    sound: dict[str, bool] = {}
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        folder = Path(name) / "clone"
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".git", ".venv", "__pycache__", "build"))
        for number, (path, source, line, what) in enumerate(list(drawn(options.count, options.seed))):
            key = (str(path.relative_to(ROOT)), line, what)
            before = known.get(key)
            if number < options.first or (before is None) == options.again:
                continue
            if before is not None and before["how"] in DECIDED:
                continue
            how, by = judge(folder, path, source, options.files, options.seconds, sound)
            rows = [row for row in rows if row is not before]
            rows.append({"number": number, "file": key[0], "line": line, "what": what, "how": how, "by": by})
            rows.sort(key=lambda row: row["number"])
            counts = {one: sum(row["how"] == one for row in rows) for one in dict.fromkeys(row["how"] for row in rows)}
            print(number, *key, how, by, counts, flush=True)
            if options.output is not None:
                content = {"seed": options.seed, "count": options.count, **counts, "mutants": rows}
                options.output.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
