"""The results record: what a run measured and what it depends on, as checked JSON."""

from __future__ import annotations

import json
import math
import platform
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hf_sysgen.errors import UserError
from hf_sysgen.files import write_whole

SCHEMA_VERSION = 1
RESULTS, PREDICTIONS, METRICS, MODEL = "results.json", "predictions.jsonl", "metrics.json", "model"
NUMBER = (int, float)

# keys of a recipe: where a run reads and writes, and how often it reports, do not change what it computes
NEUTRAL = (
    "output_dir", "data_dir", "tracker", "log_every", "eval_batch_size", "sample_losses", "name", "paper_cell",
    "paper_metric", "paper_test", "paper_validation",
)  # fmt: skip
# these change a run's bits, or when it is looked at, but not which cell of the paper it is
SAME_CELL = (
    *NEUTRAL, "seed", "length_groups", "static_batches", "attention", "torch_compile", "gradient_checkpointing",
    "eval_every", "eval_examples", "save_every", "kept_steps", "streams",
)  # fmt: skip

# required keys of a record and of each split in it, with their types
RECORD = {
    "schema_version": int,
    "name": str,
    "recipe": dict,
    "recipe_hash": str,
    "git_commit": (str, type(None)),
    "versions": dict,
    "seed": int,
    "steps": int,
    "num_parameters": int,
    "splits": dict,
    "history": list,
    "train_seconds": NUMBER,
    "device": str,
    "num_processes": int,
    "num_threads": int,
}
SPLIT = {
    "examples": int,
    "accuracy": NUMBER,
    "by_length": list,
}


class ResultsError(UserError):
    """A results file that cannot be read or written: names the file and what is wrong with it."""


def check_record(record: Any, where: str = "results") -> None:
    """
    Raises:
        ResultsError: `record` is not a results record of this schema version; names the first wrong key.
    """
    if not isinstance(record, dict):
        raise ResultsError(f"{where}: expected a JSON object")
    version = record.get("schema_version")
    if version != SCHEMA_VERSION:
        raise ResultsError(f"{where}: schema_version is {version!r}, this version reads {SCHEMA_VERSION}")
    _check_keys(record, RECORD, where)
    for name, split in record["splits"].items():
        if not isinstance(split, dict):
            raise ResultsError(f"{where}: splits.{name} is not an object")
        _check_keys(split, SPLIT, f"{where}: splits.{name}")
        if not 0 <= split["accuracy"] <= 1:
            raise ResultsError(f"{where}: splits.{name}.accuracy={split['accuracy']} is not in [0, 1]")


def _check_keys(record: Mapping[str, Any], schema: Mapping[str, Any], where: str) -> None:
    for key, expected in schema.items():
        if key not in record:
            raise ResultsError(f"{where}: {key!r} is missing")
        if not isinstance(record[key], expected) or isinstance(record[key], bool):
            raise ResultsError(f"{where}: {key!r} is {record[key]!r}, not of type {expected}")


def read_results(path: str | Path) -> dict[str, Any]:
    """
    A results record from its file, checked.

    Raises:
        ResultsError: the file is absent, not JSON (e.g. cut short), or not a record.
    """
    try:
        record = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ResultsError(f"{path}: cannot read results: {error}") from error
    check_record(record, str(path))
    return record


def write_results(path: str | Path, record: dict[str, Any]) -> None:
    """Write a record whole or not at all; what is not a finite number becomes null. Errors as `check_record`."""
    check_record(record, str(path))
    write_whole(path, json.dumps(_finite(record), indent=1, allow_nan=False) + "\n")


def _finite(value: Any) -> Any:
    """The value as JSON can hold it, which has neither NaN nor infinity."""
    if isinstance(value, Mapping):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def new_folder(folder: Path, files: Iterable[str]) -> None:
    """
    Make a folder for results.

    Raises:
        ResultsError: one of the files is there already, or the folder cannot be made or written to.
    """
    for name in files:
        if (folder / name).exists():
            raise ResultsError(f"{folder / name} exists and is not overwritten; give another folder, or remove it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ResultsError(f"{folder}: cannot be written to: {error}") from error


def write_predictions(path: str | Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """One JSON object a line: split, row, input, target, prediction, exact, losses."""
    write_whole(path, "".join(json.dumps(_finite(row), allow_nan=False) + "\n" for row in rows))


def read_predictions(path: str | Path, split: str | None = None) -> list[dict[str, Any]]:
    """
    What `write_predictions` wrote, or of it one split, in order.

    Raises:
        ResultsError: the file is absent or empty, or has nothing of that split; a line is no record of a prediction.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ResultsError(f"{path}: cannot read predictions: {error}; give the folder of a finished run") from error
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise ResultsError(f"{path}: cannot read predictions: line {number} is cut short: {error}") from error
        if not isinstance(row, dict) or not isinstance(row.get("split"), str):
            raise ResultsError(f"{path}: cannot read predictions: line {number} has no 'split'")
        rows.append(row)
    found = [row for row in rows if split in (None, row["split"])]
    if not found:
        there = ", ".join(dict.fromkeys(row["split"] for row in rows)) or "nothing"
        raise ResultsError(f"{path}: has no predictions of {'any split' if split is None else split!r}, but of {there}")
    return found


def environment() -> dict[str, Any]:
    """What else a number depends on: package versions, the commit of this package's checkout, the device."""
    import accelerate
    import datasets
    import numpy
    import tokenizers
    import torch
    import transformers

    from hf_sysgen import __version__

    packages = (torch, transformers, datasets, accelerate, tokenizers, numpy)
    versions = {package.__name__: package.__version__ for package in packages}
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else _cpu_name()
    return {
        "versions": {"python": platform.python_version(), "hf_sysgen": __version__, **versions},
        "git_commit": _git_commit(),
        "device": device,
        "num_threads": torch.get_num_threads(),
    }


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _git_commit() -> str | None:
    """The commit of the checkout that this file stands in, with `+` if files are changed; `None` where installed."""
    here = Path(__file__).resolve().parent
    commands = (
        # fails where a repository of somebody else holds the environment that this package is installed in
        ["git", "ls-files", "--error-unmatch", Path(__file__).name],
        ["git", "rev-parse", "HEAD"],
        ["git", "status", "--porcelain", "--untracked-files=no", "."],
    )
    try:
        _, commit, changes = (
            subprocess.run(command, cwd=here, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
            for command in commands
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return commit + ("+" if changes else "")
