"""
A user's own models and benchmarks: the files of the folder that HF_SYSGEN_EXTENSIONS names.

Each `modeling_*.py` is a variant and each `benchmark_*.py` a benchmark; docs/new_variant.md and docs/new_benchmark.md
have examples. It is an environment variable, not an option, because the processes that a command starts (ranks, runs of
a sweep) inherit it.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from hf_sysgen.errors import UserError, one_line

EXTENSIONS_VARIABLE = "HF_SYSGEN_EXTENSIONS"
KINDS = ("modeling", "benchmark")
# everyone who loads a checkpoint has these and the standard library
EVERYWHERE = {"torch", "transformers", "huggingface_hub"}


def extension_files(kind: str) -> list[Path]:
    """
    The files `<kind>_*.py` of the folder, sorted by name; none if the variable is not set.

    Raises:
        UserError: there is no such folder, or it has no file of any kind.
    """
    named = os.environ.get(EXTENSIONS_VARIABLE)
    if not named:
        return []
    folder = Path(named).expanduser().resolve()
    if not folder.is_dir():
        raise UserError(f"{EXTENSIONS_VARIABLE}={named} is not a folder; name a folder, or unset it")
    files = {one: sorted(folder.glob(f"{one}_*.py")) for one in KINDS}
    if not any(files.values()):
        raise UserError(
            f"{EXTENSIONS_VARIABLE}={named} has no file modeling_*.py or benchmark_*.py; name a variant's or "
            "benchmark's file so, or unset it"
        )
    return files[kind]


def own_benchmarks(taken: Collection[str]) -> dict[str, Any]:
    """
    Name -> `BenchmarkInfo`, for every builder class in the files `benchmark_*.py`.

    Args:
        taken: names of the package's benchmarks.

    Raises:
        UserError: a file cannot be imported or has no builder, a builder's `BENCHMARK` is none or of another task than
            `seq2seq`, or a name is wrong or taken.
    """
    found: dict[str, Any] = {}
    for path in extension_files("benchmark"):
        module = _imported(path, path.stem, path.parent)
        builders = [one for one in _own_classes(module) if hasattr(one, "BENCHMARK")]
        if not builders:
            raise UserError(
                f"{path}: no subclass of BenchmarkBuilder with a BENCHMARK, or of TableBenchmark with FILES, in it"
            )
        for builder in builders:
            info, right = builder.BENCHMARK, f"{path.stem}:{builder.__name__}"
            # checked by attributes, as nothing is imported from `data` here
            if not all(hasattr(info, one) for one in ("name", "builder", "configs", "task")):
                raise UserError(
                    f"{path}: BENCHMARK of {builder.__name__} must be a BenchmarkInfo, not {type(info).__name__}"
                )
            if info.builder != right:
                raise UserError(f"{path}: builder={info.builder!r} of {info.name} must be {right!r}")
            if info.name in taken or info.name in found:
                raise UserError(f"{path}: there is a benchmark {info.name!r} already; choose another name")
            if info.task != "seq2seq":
                raise UserError(
                    f"{path}: task={info.task!r} of {info.name} reads columns and labels that only the package's "
                    "benchmarks have; leave task out"
                )
            found[info.name] = info
    return found


# the code of this process, which its checkpoints carry; removed when the process ends
_folder: tempfile.TemporaryDirectory[str] | None = None


def import_own_models(package: str, folder: Path, models: Mapping[Any, Any]) -> None:
    """
    Import the files `modeling_*.py`, whose models register themselves (`hf_sysgen.models.registry.register`).

    They are imported as modules of `package`, from a temporary folder with copies of them and of the package's model
    files, because `save_pretrained` copies a module with its siblings in the same folder.

    Args:
        package: the package of the model files, which lie in `folder`.
        models: what `register` fills, by config class.

    Raises:
        UserError: a file cannot be imported, registers nothing, would not travel with a checkpoint, or has the
            name of a file of the package; or a config class does not work without arguments.
    """
    global _folder
    if not (paths := extension_files("modeling")):
        return
    package_files = sorted(folder.glob("*.py"))
    if taken := {path.name for path in package_files} & {path.name for path in paths}:
        raise UserError(f"{paths[0].parent / min(taken)}: the package has a file of that name; choose another")
    if _folder is None:
        _folder = tempfile.TemporaryDirectory(prefix="hf_sysgen_extensions_")
    for path in (*package_files, *paths):
        shutil.copyfile(path, Path(_folder.name) / path.name)
    for path in paths:
        _check_travels(Path(_folder.name) / path.name, path)
        name = f"{package}.{path.stem}"
        _imported(path, name, Path(_folder.name))
        configs = [config for config in models if config.__module__ == name]
        if not configs:
            raise UserError(f"{path}: no model in it; put @register above each model class (docs/new_variant.md)")
        for config in configs:
            try:
                config()
            except Exception as error:
                raise UserError(
                    f"{path}: {config.__name__}() must work, give every field a valid default: {one_line(error)}"
                ) from error


def _check_travels(copy: Path, path: Path) -> None:
    """Check that the imports work with a checkpoint alone: siblings that `save_pretrained` finds, and few packages."""
    from transformers.dynamic_module_utils import get_imports, get_relative_import_files

    text = copy.read_text(encoding="utf-8")
    wrong = re.search(r"^\s*from\s+\.+\s+import\b.*|^\s*from\s+\.\..*", text, re.MULTILINE)
    if wrong:
        raise UserError(
            f"{path}: {wrong[0].strip()!r} does not travel with a checkpoint; write `from .sibling import name`"
        )
    try:
        get_relative_import_files(copy)
        missing = {name.partition(".")[0] for name in get_imports(copy)} - EVERYWHERE - sys.stdlib_module_names
    except FileNotFoundError as error:
        raise UserError(
            f"{path}: hf_sysgen/models has no {Path(str(error.filename)).name}; a variant is one file, put what it "
            "needs into it"
        ) from error
    except SyntaxError as error:
        raise UserError(f"{path}, line {error.lineno}: {error.msg}") from error
    if missing:
        raise UserError(
            f"{path}: a user of the checkpoint may lack {', '.join(sorted(missing))}; use only "
            f"{', '.join(sorted(EVERYWHERE))} and the standard library, or import it inside `try` and do without it"
        )


def _imported(path: Path, name: str, folder: Path) -> ModuleType:
    """The module `name`, imported again from the file of that name in `folder`, which is `path` or its copy."""
    sys.modules.pop(name, None)
    spec = importlib.util.spec_from_file_location(name, folder / path.name)
    assert spec is not None and spec.loader is not None  # noqa: PT018  it ends in .py
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        line = error.lineno if isinstance(error, SyntaxError) else line_in(folder / path.name, error)
        where = f"{path}, line {line}" if line else str(path)
        raise UserError(f"{where}: {one_line(error)}") from error
    return module


def line_in(file: Path, error: BaseException) -> int | None:
    """The last line of the file that an error passed through."""
    frame, line = error.__traceback__, None
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == str(file):
            line = frame.tb_lineno
        frame = frame.tb_next
    return line


def _own_classes(module: ModuleType) -> list[Any]:
    return [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__]
