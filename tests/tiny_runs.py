"""Runs that take a second: a small model on a few SCAN examples, in this process or in one that can be killed."""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import datasets
import yaml
from disk import flush_nothing

import hf_sysgen
import hf_sysgen.training.run
import hf_sysgen.training.tasks.registry
from hf_sysgen.config.fields import FIELDS, SECTIONS, merge, nest
from hf_sysgen.config.io import parse_recipe
from hf_sysgen.config.recipe import Recipe
from hf_sysgen.config.sections import MaxTokens
from hf_sysgen.data import load_benchmark
from hf_sysgen.models import CONFIGS

ROOT = Path(__file__).parent.parent
SIZES = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_attention_heads": 2,
    "encoder_layers": 1,
    "decoder_layers": 1,
}
TINY: dict[str, Any] = {
    "model": {"type": "relative_universal_transformer", **SIZES},
    "data": {"benchmark": "scan", "config": "length_cutoff_26"},
    "batches": {"sampling": "with_replacement", "size": 8},
    "training": {
        "max_steps": 6, "learning_rate": 0.01, "eval_steps": 3, "save_steps": 2, "logging_steps": 1,
        "report_to": "none",
    },
    "evaluation": {"batch_size": 8, "examples": 5},
}  # fmt: skip
# odd, so that neither batches nor processes divide them
SMALL = {"train": 61, "validation": 11, "test": 13}


def dotted(word: str) -> str:
    """
    The dotted key of a field's own name; `model` and `schedule` are their types, those of the paper begin with paper_,
    other names are the model's fields.
    """
    if word in ("model", "schedule"):
        return f"{word}.type"
    if word.startswith("paper_"):
        return word.replace("_", ".", 1)
    # a key of several sections is meant to be that of the first one
    found = [field.key for field in FIELDS if field.key.rpartition(".")[2] == word]
    if word in SECTIONS:
        return word
    return found[0] if found else f"model.{word}"


def has_size(model: str, fields: Mapping[str, Any], key: str) -> bool:
    """Whether a field of the model's config exists and has an effect, given the others; never for a model of
    transformers."""
    if (config := CONFIGS.get(model)) is None:
        return False
    other, values = config.no_effect.get(key, (key, ()))
    return key in config.__dataclass_fields__ and fields.get(other) not in values


def tiny_sections(**changes: Any) -> dict[str, Any]:
    """
    `TINY` with other values, by the fields' own names; sizes that the model lacks are left out, as is `...`. A model
    that could read padding hides it, as a recipe has to.
    """
    sections = merge(TINY, nest({dotted(word): value for word, value in changes.items()}))
    if sections["model"]["type"] == "torch_transformer":
        sections["model"] = {"mask_memory": True, **sections["model"]}
    for key in SIZES:
        if not has_size(sections["model"]["type"], sections["model"], key):
            sections["model"] = {name: value for name, value in sections["model"].items() if name != key}
    return {
        name: {key: value for key, value in section.items() if value is not ...}
        if isinstance(section, dict)
        else section
        for name, section in sections.items()
        if section is not ...
    }


def tiny_recipe(folder: Path, **changes: Any) -> Recipe:
    """`tiny_sections` as a checked recipe."""
    return parse_recipe(tiny_sections(**{"output_dir": str(folder / "run"), **changes}), "tiny")


def write_recipe(folder: Path, name: str = "tiny", **changes: Any) -> Path:
    """`tiny_sections` as a file."""
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(tiny_sections(**changes), sort_keys=False), encoding="utf-8")
    return path


def shrunk(recipe: Recipe) -> list[str]:
    """Overrides that make a run of it two short steps of a small model."""
    other = recipe.model.type not in CONFIGS
    sizes = {"num_hidden_layers": 2, **SIZES}
    model, fields = recipe.model.type, recipe.model.fields
    overrides = [f"model.{key}={value}" for key, value in sizes.items() if has_size(model, fields, key)]
    overrides += ["training.max_steps=2", "training.eval_steps=2", "evaluation.examples=3", "training.report_to=none"]
    if isinstance(recipe.batches, MaxTokens):
        overrides.append("batches.max_tokens=60")
    else:
        # which its parts divide
        parts = recipe.batches.length_buckets
        overrides.append(f"batches.size={parts * -(-8 // parts)}")
    overrides += ["data.subwords=60"] if recipe.data.subwords is not None else []
    if other:
        overrides += [f"model.pretrained={tiny_checkpoint(recipe.model.type)}", "evaluation.batch_size=4"]
    else:
        left_out = [key for key in ("size_class", "pretrained") if getattr(recipe.model, key) is not None]
        overrides += [f"model.{key}=null" for key in left_out]
    if recipe.data.benchmark == "c4":
        overrides += ["data.context_length=8", "data.streams=2", "data.validation_examples=5",
                      "training.kept_steps=[1]", "training.torch_compile=false", "data.data_dir=null"]  # fmt: skip
    return [*overrides, "schedule.warmup_steps=1"] if recipe.schedule.type == "linear" else overrides


@functools.cache
def tiny_checkpoint(kind: str) -> Path:
    """A small model of transformers, which stands in for one of the hub."""
    from tiny_pretrained import make

    return make(Path(tempfile.mkdtemp()) / kind, kind)


@functools.cache
def small_scan() -> datasets.DatasetDict:
    """Examples spread over each split of length_cutoff_26, so of all lengths."""
    full = load_benchmark("scan", "length_cutoff_26")
    return datasets.DatasetDict(
        {name: full[name].select(range(5, len(full[name]), len(full[name]) // n)[:n]) for name, n in SMALL.items()}
    )


@functools.cache
def short_scan() -> datasets.DatasetDict:
    """Examples of at most 5 actions, which a tiny model learns in seconds in part, and some longer ones."""
    full = load_benchmark("scan", "length_cutoff_26")
    wanted = {"train": ("train", 400, 1, 5), "validation": ("validation", 23, 1, 5), "test": ("train", 29, 6, 8)}
    parts = {}
    for name, (split, count, shortest, longest) in wanted.items():
        lengths = [len(target.split()) for target in full[split]["target"]]
        rows = [row for row, length in enumerate(lengths) if shortest <= length <= longest]
        parts[name] = full[split].select(rows[:: len(rows) // count][:count])
    return datasets.DatasetDict(parts)


@functools.cache
def learned_run(folder: Path) -> dict[str, Any]:
    """The record of a run in `folder / "run"` whose model gets some examples right and some wrong."""
    recipe = tiny_recipe(
        folder, max_steps=300, size=32, hidden_size=32, intermediate_size=64, learning_rate=0.005,
        eval_steps=100, examples=7, batch_size=8, save_steps=1000, logging_steps=10,
    )  # fmt: skip
    hf_sysgen.training.run.quiet_libraries()
    with mock.patch.object(hf_sysgen.training.tasks.registry, "load_benchmark", return_value=short_scan()):
        return hf_sysgen.training.run.run_recipe(recipe)


def use_few_examples() -> None:
    from made_examples import any_benchmark

    hf_sysgen.training.tasks.registry.load_benchmark = any_benchmark


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Time of change and content of every file below a folder."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def environment(**changes: str) -> dict[str, str]:
    """For a command that imports this package from any folder, on the CPU."""
    source = str(Path(hf_sysgen.__file__).parents[1])
    return os.environ | {"PYTHONPATH": source, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"} | changes


def command(words: Sequence[str], folder: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment(**changes), capture_output=True, text=True
    )


class Done(NamedTuple):
    """A process that ended: its exit status (minus the signal's number), and what it wrote."""

    status: int | None
    out: str
    err: str


forks = multiprocessing.get_context("forkserver")
forks.set_forkserver_preload(["hf_sysgen.training.launch.sweep", "hf_sysgen.config.sweep"])


def lines_beside_progress(stderr: str) -> list[str]:
    """The errors and warnings of a run: all lines that do not report progress."""
    return [line for line in stderr.splitlines() if not line.startswith(("training on ", "step "))]


def train_process(
    arguments: Sequence[str], folder: Path, prepare: Callable[[], None] | None = None, processes: int = 1
) -> Done:
    """
    `python -m hf_sysgen.train ARGUMENTS` on the few examples, without the seconds of imports: every process is a fork
    of one that has done them.

    Args:
        prepare: called first in each process, e.g. to have it killed at some moment; from an importable module.
        processes: how many share the work, as torchrun would start them.
    """
    small_scan()  # so that processes find the data prepared
    port = str(free_port())
    variables = [
        {} if processes == 1 else
        {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1",
         "MASTER_PORT": port}
        for rank in range(processes)
    ]  # fmt: skip
    started = [
        forks.Process(target=_train, args=(list(arguments), folder, prepare, environment(**changes), rank))
        for rank, changes in enumerate(variables)
    ]
    for process in started:
        process.start()
    for process in started:
        process.join()
    codes = [process.exitcode for process in started]
    logs = [[(folder / f"{kind}{rank}.txt").read_text() for rank in range(processes)] for kind in ("out", "err")]
    return Done(next((code for code in codes if code), 0), *("".join(texts) for texts in logs))


def _train(
    arguments: list[str], folder: Path, prepare: Callable[[], None] | None, variables: Mapping[str, str], rank: int
) -> None:
    from hf_sysgen.train import main

    _enter(folder, variables, rank)
    use_few_examples()
    if prepare is not None:
        prepare()
    status = main(arguments)
    with contextlib.suppress(ValueError):
        sys.stdout.flush()
    sys.exit(status)


def forked(words: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """`command` of `-m MODULE ...` or `-c CODE`, without the seconds of imports, as `train_process` does it."""
    process = forks.Process(target=_python, args=(list(words), folder, environment()))
    process.start()
    process.join()
    texts = [(folder / f"{kind}0.txt").read_text() for kind in ("out", "err")]
    return subprocess.CompletedProcess(words, process.exitcode, *texts)


def _python(words: list[str], folder: Path, variables: Mapping[str, str]) -> None:
    _enter(folder, variables)
    kind, what, *arguments = words
    sys.argv = [what, *arguments]
    if kind == "-m":
        # or it would be said to have been imported already
        sys.modules.pop(what, None)
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})


def _enter(folder: Path, variables: Mapping[str, str], rank: int = 0) -> None:
    """Be a new process: its variables, its folder, its output in files there, and nothing of the fork to collect."""
    gc.freeze()
    flush_nothing()
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)
    for kind, number in (("out", 1), ("err", 2)):
        handle = os.open(f"{kind}{rank}.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, number)
    import torch

    torch.set_num_threads(1)


def free_port() -> int:
    import socket

    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]
