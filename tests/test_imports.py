"""Who may import whom, and what an import loads."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest
from source_imports import imports_by_place, imports_of
from tiny_runs import command

import hf_sysgen

PACKAGE = Path(hf_sysgen.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
# the picture in CONTRIBUTING.md, read from below: a part may use itself and these
MAY_USE = {
    "cpu": set(),
    "errors": set(),
    "files": set(),
    "tables": set(),
    "extensions": {"errors"},
    "models": {"extensions"},
    "model_types": {"models"},
    "data": {"errors", "files", "extensions"},
    "zoo": {"data"},
    "config": {"errors", "files", "extensions", "models", "model_types", "data", "zoo"},
    "results": {"errors", "files", "config"},
    "evaluation": {"cpu", "errors", "files", "tables", "data", "models", "model_types", "results", "zoo"},
    "convert": {"errors", "evaluation", "models"},
    "analysis": {"errors", "files", "tables", "config", "data", "evaluation", "models", "results"},
    "reports": {"errors", "files", "tables", "analysis", "config", "data", "results"},
    "hub": {
        "errors", "extensions", "files", "tables", "config", "data", "evaluation", "models", "model_types", "reports",
        "results", "zoo",
    },
    "training": {
        "cpu", "errors", "files", "tables", "config", "data", "evaluation", "models", "model_types", "results",
    },
    "demo": {"analysis", "data", "errors", "evaluation", "files", "models", "results", "zoo"},
    "train": {"config", "errors", "training"},
    "cli": {
        "errors", "tables", "analysis", "config", "convert", "data", "demo", "evaluation", "hub", "models", "reports",
        "results", "train", "training", "zoo",
    },
    "__init__": {"config", "convert", "data"},
}  # fmt: skip
# packages that a function may import: of an extra, or not on every system
OPTIONAL = {"absl", "fcntl", "gradio", "indicnlp", "mathematics_dataset", "peft", "sacrebleu", "spacy"}
# parts of a package that take seconds more than the package
PARTS = {"torch._inductor"}
# packages that take seconds to load
SLOW = {"torch", "transformers", "datasets"}
# those that `hf-sysgen --help` and what reads only records would wait for, which takes tenths of seconds
WAITED_FOR = SLOW | {
    "accelerate", "evaluate", "huggingface_hub", "jinja2", "matplotlib", "networkx", "numpy", "pyarrow", "pydantic",
    "ruamel", "scipy", "tokenizers",
}  # fmt: skip


def part_of(path: Path) -> str:
    """The folder or file at the top of the package that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def parts_used(path: Path) -> set[str]:
    """Parts that a file imports, wherever the import stands."""
    folders = ["hf_sysgen", *path.relative_to(PACKAGE).parts[:-1]]
    names = set()
    for dots, module, of_module in imports_of(path):
        base = [*folders[: len(folders) + 1 - dots], *filter(None, [module])] if dots else [module]
        # `from hf_sysgen import x` names a part only where x is one
        names |= {".".join([*base, name]) for name in of_module or [""]}
    ours = (name.split(".") for name in names if name.partition(".")[0] == "hf_sysgen")
    return {words[1] for words in ours if len(words) > 1 and words[1] in MAY_USE}


def test_the_reader_of_imports():
    assert parts_used(PACKAGE / "models" / "seq2seq.py") == {"models"}
    assert "results" in parts_used(PACKAGE / "training" / "run.py")
    assert not parts_used(PACKAGE / "errors.py")


def test_the_picture_has_every_file():
    assert set(map(part_of, FILES)) == set(MAY_USE)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_one_way(path):
    part = part_of(path)
    assert parts_used(path) <= MAY_USE[part] | {part}


def test_every_part_uses_what_it_may():
    used = {part: set() for part in MAY_USE}
    for path in FILES:
        used[part_of(path)] |= parts_used(path) - {part_of(path)}
    assert used == MAY_USE


def modules_of(path: Path, node: ast.stmt) -> list[str]:
    """Full names of what an import statement of a file may load."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    folders = ["hf_sysgen", *path.relative_to(PACKAGE).parts[:-1]]
    above = folders[: len(folders) + 1 - node.level] if node.level else []
    base = ".".join([*above, *filter(None, [node.module])])
    return [base, *(f"{base}.{alias.name}" for alias in node.names)]


def files_of(modules: list[str]) -> set[Path]:
    """Those of our files that are these modules or packages."""
    places = (PACKAGE.parent.joinpath(*name.split(".")) for name in modules)
    return {file for place in places for file in (place.with_suffix(".py"), place / "__init__.py")} & set(FILES)


@functools.cache
def waits_for(path: Path) -> frozenset[str]:
    """Which of `WAITED_FOR` are loaded with a file of the package, by it or by others of ours."""
    reached, left, names = set(), {path}, set()
    while left:
        file = left.pop()
        reached.add(file)
        modules = [name for node in imports_by_place(file)[0] for name in modules_of(file, node)]
        names |= {name.partition(".")[0] for name in modules}
        folders = {folder / "__init__.py" for folder in file.parents if folder.is_relative_to(PACKAGE)}
        left |= (files_of(modules) | folders) - reached
    return frozenset(names & WAITED_FOR)


def saves_time(path: Path, node: ast.stmt) -> bool:
    """Whether a file is loaded faster because this import stands in a function."""
    modules = modules_of(path, node)
    loaded = {name.partition(".")[0] for name in modules} & WAITED_FOR
    loaded |= {name for file in files_of(modules) for name in waits_for(file)}
    return not SLOW & waits_for(path) and bool(loaded - waits_for(path))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_in_functions_have_a_reason(path):
    for node in imports_by_place(path)[1]:
        name = modules_of(path, node)[0]
        allowed = name in PARTS or name.partition(".")[0] in OPTIONAL
        assert allowed or saves_time(path, node), f"line {node.lineno}: {ast.unparse(node)}"


def files_used(path: Path) -> set[Path]:
    """Files of the package that a file imports, wherever the import stands."""
    folders = ["hf_sysgen", *path.relative_to(PACKAGE).parts[:-1]]
    used = set()
    for dots, module, names in imports_of(path, of_types=False):
        base = [*folders[: len(folders) + 1 - dots], *filter(None, module.split("."))] if dots else module.split(".")
        for words in (base, *([*base, name] for name in names)):
            if words[0] == "hf_sysgen":
                used.add(PACKAGE.joinpath(*words[1:]).with_suffix(".py"))
    return used & set(FILES) - {path}


def test_no_two_files_import_each_other_in_a_circle():
    left = {path: files_used(path) for path in FILES}
    while free := [path for path, uses in left.items() if not uses & set(left)]:
        left = {path: uses for path, uses in left.items() if path not in free}
    assert not left, sorted(str(path.relative_to(PACKAGE)) for path in left)


def test_the_picture_has_no_circle():
    order = []
    left = {part: uses.copy() for part, uses in MAY_USE.items()}
    while left:
        free = [part for part, uses in left.items() if uses <= set(order)]
        assert free, f"circle in {left}"
        order += free
        left = {part: uses for part, uses in left.items() if part not in free}


@pytest.mark.parametrize(
    "statement",
    [
        "import hf_sysgen; hf_sysgen.__version__; dir(hf_sysgen)",
        "import hf_sysgen.cli.main",
        "import hf_sysgen.data.describe; hf_sysgen.data.describe.list_text()",
        "import hf_sysgen.train",
        "import hf_sysgen.errors",
        "import hf_sysgen; hf_sysgen.list_benchmarks()",
        "import hf_sysgen.results.record, hf_sysgen.evaluation.metrics.summary, hf_sysgen.reports.report",
        "import hf_sysgen.reports.comparison as r; r.compare_with_papers('all', [])",
        "import hf_sysgen; hf_sysgen.load_recipe",
    ],
)
def test_light_imports(statement, tmp_path):
    """Told by what is loaded: seconds would depend on the machine."""
    heavy = "{'torch', 'transformers', 'datasets', 'accelerate', 'evaluate', 'tokenizers', 'numpy', 'matplotlib'}"
    script = f"{statement}\nimport sys\nloaded = {heavy} & set(sys.modules)\nassert not loaded, loaded"
    done = command(["-W", "error", "-c", script], tmp_path)
    assert done.returncode == 0, done.stderr
