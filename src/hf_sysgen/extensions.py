"""
Models and benchmarks of one's own: the folder that HF_SYSGEN_EXTENSIONS names.

Each `modeling_*.py` in it is a variant and each `benchmark_*.py` a benchmark, and every command knows them as it knows
the package's. docs/new_variant.md and docs/new_benchmark.md have an example of each.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from hf_sysgen.errors import UserError

EXTENSIONS_VARIABLE = "HF_SYSGEN_EXTENSIONS"
MODELS_PACKAGE = "hf_sysgen.models"
# how a model class is named, and the Auto class that finds it
HEADS = {
    "ForConditionalGeneration": "AutoModelForSeq2SeqLM",
    "ForCausalLM": "AutoModelForCausalLM",
    "ForGraphParsing": "AutoModelForTokenClassification",
    "ForDependencyParsing": "AutoModelForTokenClassification",
    "ForRelationClassification": "AutoModelForSequenceClassification",
    "Model": "AutoModel",
}


class ExtensionError(UserError):
    """A file of one's own that cannot be used: says which, and what to change."""


def extension_files(kind: str) -> list[Path]:
    """
    The files `<kind>_*.py` of the folder that the variable names, by name; none where it is not set.

    Raises:
        ExtensionError: there is no such folder.
    """
    named = os.environ.get(EXTENSIONS_VARIABLE)
    if not named:
        return []
    folder = Path(named).resolve()
    if not folder.is_dir():
        raise ExtensionError(f"{EXTENSIONS_VARIABLE}={named} is no folder; name one, or unset it")
    return sorted(folder.glob(f"{kind}_*.py"))


def own_benchmarks(taken: Collection[str]) -> dict[str, Any]:
    """
    The `BenchmarkInfo` of every builder class of the files `benchmark_*.py`, by the benchmark's name.

    Args:
        taken: names of the package's benchmarks.

    Raises:
        ExtensionError: a file cannot be imported or has no builder, or a name is wrong or taken.
    """
    found: dict[str, Any] = {}
    for path in extension_files("benchmark"):
        module = _imported(path, path.stem)
        builders = [one for one in _own_classes(module) if hasattr(one, "BENCHMARK")]
        if not builders:
            raise ExtensionError(f"{path}: no subclass of BenchmarkBuilder with a BENCHMARK in it")
        for builder in builders:
            info, right = builder.BENCHMARK, f"{path.stem}:{builder.__name__}"
            if info.builder != right:
                raise ExtensionError(f"{path}: builder={info.builder!r} of {info.name} must be {right!r}")
            if info.name in taken or info.name in found:
                raise ExtensionError(f"{path}: there is a benchmark {info.name!r} already; choose another name")
            found[info.name] = info
    return found


def own_models(package_folder: Path, taken: Collection[str]) -> Iterator[tuple[Any, dict[Any, Any]]]:
    """
    Each config class of the files `modeling_*.py`, with its model classes by the Auto class that finds them.

    The files are siblings of the package's models: they import `from .seq2seq import Seq2SeqLM`, as the copies in a
    checkpoint do.

    Args:
        package_folder: of `hf_sysgen.models`.
        taken: model types that the package has.

    Raises:
        ExtensionError: a file cannot be imported or would not travel with a checkpoint, a class is missing or built
            wrongly, or a name is taken.
    """
    paths = extension_files("modeling")
    if not paths:
        return
    for path in paths[0].parent.glob("*.py"):
        if (package_folder / path.name).exists():
            raise ExtensionError(f"{path}: the package has a file of that name; choose another")
    for path in paths:
        _check_imports(path)
    modules = [_imported(path, f"{MODELS_PACKAGE}.{path.stem}") for path in paths]
    # saving looks for a file's siblings beside it: from here on that is a folder that has all of them
    flat = _flat_copy([package_folder, paths[0].parent])
    for module, path in zip(modules, paths, strict=True):
        module.__file__ = str(flat / path.name)
        yield from _registrations(module, path, taken)


def _imported(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None  # noqa: PT018  it ends in .py
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        frame, line = error.__traceback__, None
        while frame is not None:
            if frame.tb_frame.f_code.co_filename == str(path):
                line = frame.tb_lineno
            frame = frame.tb_next
        line = error.lineno if isinstance(error, SyntaxError) else line
        where = f"{path}, line {line}" if line else str(path)
        raise ExtensionError(f"{where}: {type(error).__name__}: {error}") from error
    return module


def _own_classes(module: ModuleType) -> list[Any]:
    return [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__]


def _check_imports(path: Path) -> None:
    """Only what `save_pretrained` follows: `from .sibling import name`, and packages that a stranger has."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError) as error:
        raise ExtensionError(f"{path}, line {getattr(error, 'lineno', 1)}: {getattr(error, 'msg', error)}") from error
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            wrong = any(alias.name.partition(".")[0] == "hf_sysgen" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            outside = node.level > 1 or not module or "." in module
            wrong = outside if node.level else module.partition(".")[0] == "hf_sysgen"
        else:
            continue
        if wrong:
            raise ExtensionError(
                f"{path}, line {node.lineno}: this import does not travel with a checkpoint; write "
                "`from .sibling import name`, with a file of hf_sysgen/models as sibling"
            )


def _registrations(module: ModuleType, path: Path, taken: Collection[str]) -> Iterator[tuple[Any, dict[Any, Any]]]:
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    classes = _own_classes(module)
    configs = [one for one in classes if issubclass(one, transformers.PreTrainedConfig)]
    models = [one for one in classes if issubclass(one, transformers.PreTrainedModel)]
    # the bare model first, as in the package's list
    models.sort(key=lambda model: not model.__name__.endswith("Model"))
    for model in models:
        if model.__name__.endswith(tuple(HEADS)) and model.config_class not in configs:
            raise ExtensionError(f"{path}: config_class of {model.__name__} must be a config class of this file")
        if hasattr(model, "model_class") and model.model_class not in models:
            raise ExtensionError(f"{path}: model_class of {model.__name__} must be a model class of this file")
    if not configs:
        raise ExtensionError(f"{path}: no config class in it, a subclass of PreTrainedConfig with its own model_type")
    for config in configs:
        if config.model_type in taken or config.model_type in CONFIG_MAPPING_NAMES:
            raise ExtensionError(
                f"{path}: model_type {config.model_type!r} of {config.__name__} is taken; choose another"
            )
        if "__validators__" not in vars(config):
            raise ExtensionError(f"{path}: {config.__name__} lacks @strict, without which wrong values pass")
        found = {
            getattr(transformers, HEADS[ending]): model
            for model in models
            if model.config_class is config and (ending := _ending(model.__name__)) is not None
        }
        if transformers.AutoModel not in found or len(found) == 1:
            raise ExtensionError(
                f"{path}: {config.__name__} needs a class whose name ends in Model, and one whose name ends in one of "
                f"{', '.join(ending for ending in HEADS if ending != 'Model')}"
            )
        yield config, found


def _ending(name: str) -> str | None:
    return next((ending for ending in HEADS if name.endswith(ending)), None)


def _flat_copy(folders: Collection[Path]) -> Path:
    """A folder with the Python files of all, in the cache where transformers keeps the code of checkpoints."""
    from transformers.dynamic_module_utils import HF_MODULES_CACHE

    files = {path.name: path.read_bytes() for folder in folders for path in sorted(folder.glob("*.py"))}
    digest = hashlib.sha256()
    for name, content in files.items():
        digest.update(f"{name} {len(content)}\n".encode() + content)
    target = Path(HF_MODULES_CACHE) / "hf_sysgen_extensions" / digest.hexdigest()[:16]
    if target.is_dir():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(dir=target.parent))
        for name, content in files.items():
            (partial / name).write_bytes(content)
        try:
            partial.rename(target)
        except OSError:
            # another process was faster
            shutil.rmtree(partial)
            if not target.is_dir():
                raise
    except OSError as error:
        raise ExtensionError(
            f"cannot write to {target.parent}: {error}; set HF_MODULES_CACHE to another folder"
        ) from error
    return target
