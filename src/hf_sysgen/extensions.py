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
KINDS = ("modeling", "benchmark")
MODELS_PACKAGE = "hf_sysgen.models"
# who loads a checkpoint has these and the standard library
EVERYWHERE = {"torch", "transformers", "huggingface_hub"}
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
        ExtensionError: there is no such folder, or it has no file of any kind.
    """
    named = os.environ.get(EXTENSIONS_VARIABLE)
    if not named:
        return []
    folder = Path(named).expanduser().resolve()
    if not folder.is_dir():
        raise ExtensionError(f"{EXTENSIONS_VARIABLE}={named} is no folder; name one, or unset it")
    files = {one: sorted(folder.glob(f"{one}_*.py")) for one in KINDS}
    if not any(files.values()):
        raise ExtensionError(
            f"{EXTENSIONS_VARIABLE}={named} has no file modeling_*.py or benchmark_*.py; name a variant's or "
            "benchmark's file so, or unset it"
        )
    return files[kind]


def own_benchmarks(taken: Collection[str]) -> dict[str, Any]:
    """
    The `BenchmarkInfo` of every builder class of the files `benchmark_*.py`, by the benchmark's name.

    Args:
        taken: names of the package's benchmarks.

    Raises:
        ExtensionError: a file cannot be imported or has no builder, a builder's `BENCHMARK` is none, or a name is wrong
            or taken.
    """
    found: dict[str, Any] = {}
    for path in extension_files("benchmark"):
        module = _imported(path, path.stem)
        builders = [one for one in _own_classes(module) if hasattr(one, "BENCHMARK")]
        if not builders:
            raise ExtensionError(f"{path}: no subclass of BenchmarkBuilder with a BENCHMARK in it")
        for builder in builders:
            info, right = builder.BENCHMARK, f"{path.stem}:{builder.__name__}"
            # told by what it has: nothing is imported from `data` here
            if not all(hasattr(info, one) for one in ("name", "builder", "configs")):
                raise ExtensionError(
                    f"{path}: BENCHMARK of {builder.__name__} must be a BenchmarkInfo, not {type(info).__name__}"
                )
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
    package_files = sorted(package_folder.glob("*.py"))
    siblings = {path.stem for path in package_files}
    for path in paths:
        if path.stem in siblings:
            raise ExtensionError(f"{path}: the package has a file of that name; choose another")
        _check_imports(path, siblings)
    modules = [_imported(path, f"{MODELS_PACKAGE}.{path.stem}") for path in paths]
    # saving looks for a file's siblings beside it: from here on that is a folder that has all of them
    flat = _flat_copy([*package_files, *paths])
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
        raise ExtensionError(f"{where}: {_one_line(error)}") from error
    return module


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def _own_classes(module: ModuleType) -> list[Any]:
    return [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__]


def _check_imports(path: Path, siblings: Collection[str]) -> None:
    """Only what `save_pretrained` follows: `from .sibling import name`, and packages that a stranger has."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError) as error:
        raise ExtensionError(f"{path}, line {getattr(error, 'lineno', 1)}: {getattr(error, 'msg', error)}") from error
    tries = [node for node in ast.walk(tree) if isinstance(node, ast.Try)]
    # transformers does not look for these where it loads a checkpoint
    optional = {node for one in tries for line in one.body for node in ast.walk(line)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = ["." * node.level + (node.module or "")]
        else:
            continue
        for module in modules:
            if (wrong := _wrong_import(module, siblings, node in optional)) is not None:
                raise ExtensionError(f"{path}, line {node.lineno}: {wrong}")


def _wrong_import(module: str, siblings: Collection[str], is_optional: bool) -> str | None:
    """Why an import of a module, written with its dots, does not travel with a checkpoint."""
    name = module.removeprefix(".")
    top = name.partition(".")[0]
    if name == module and top != "hf_sysgen":
        if is_optional or top in EVERYWHERE or top in sys.stdlib_module_names:
            return None
        return (
            f"who loads the checkpoint may lack {top}; use {', '.join(sorted(EVERYWHERE))} and the standard library, "
            "or import it inside `try` and do without it"
        )
    if name != module and name in siblings:
        return None
    if name != module and name.isidentifier():
        return f"hf_sysgen/models has no {name}.py; a variant is one file: put what it needs of {name} into it"
    return (
        "this import does not travel with a checkpoint; write `from .sibling import name`, with a file of "
        "hf_sysgen/models as sibling"
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
        if _ending(model.__name__) is not None and model.config_class not in configs:
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
        try:
            config()
        except Exception as error:
            raise ExtensionError(
                f"{path}: {config.__name__}() must work, give every field a default that is right: {_one_line(error)}"
            ) from error
        found: dict[Any, Any] = {}
        for model in models:
            if model.config_class is not config or (ending := _ending(model.__name__)) is None:
                continue
            auto_class = getattr(transformers, HEADS[ending])
            if auto_class in found:
                raise ExtensionError(
                    f"{path}: {HEADS[ending]} finds one class of a config, not both {found[auto_class].__name__} and "
                    f"{model.__name__}; give each a config class of its own, or one of them a name that ends otherwise"
                )
            found[auto_class] = model
        if transformers.AutoModel not in found or len(found) == 1:
            raise ExtensionError(
                f"{path}: {config.__name__} needs a class whose name ends in Model, and one whose name ends in one of "
                f"{', '.join(ending for ending in HEADS if ending != 'Model')}"
            )
        yield config, found


def _ending(name: str) -> str | None:
    """What of a class's name says which Auto class finds it; none of what only others are built on."""
    if name.endswith("PreTrainedModel"):
        return None
    return next((ending for ending in HEADS if name.endswith(ending)), None)


def _flat_copy(paths: Collection[Path]) -> Path:
    """A folder with copies of all files, in the cache where transformers keeps the code of checkpoints."""
    from transformers.dynamic_module_utils import HF_MODULES_CACHE

    files = {path.name: path.read_bytes() for path in paths}
    digest = hashlib.sha256()
    for name, content in files.items():
        digest.update(f"{name} {len(content)}\n".encode() + content)
    target = Path(HF_MODULES_CACHE) / "hf_sysgen_extensions" / digest.hexdigest()[:16]
    if target.is_dir():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(dir=target.parent))
        try:
            # as made it is its owner's alone, but the cache may be shared
            partial.chmod(0o755)
            for name, content in files.items():
                (partial / name).write_bytes(content)
            try:
                partial.rename(target)
            except OSError:
                # another process may have been faster
                if not target.is_dir():
                    raise
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        raise ExtensionError(
            f"cannot write to {target.parent}: {error}; set HF_MODULES_CACHE to another folder"
        ) from error
    return target
