"""Records by cell: the runs of one recipe over seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from hf_sysgen.results.record import Record

# runs with another precision make the same cell of a paper
PRECISION = ("training.bf16", "training.fp16")


class HasPrecision(Protocol):
    """The section `training` of a recipe, or the Trainer's arguments."""

    bf16: Any
    fp16: Any


def precision_of(settings: HasPrecision, device_type: str | None = None) -> str:
    """The type, by its name in PyTorch, in which a run with these settings computes on a device, e.g. `cpu`."""
    # accelerate has no autocast to float16 on a CPU
    half = "float32" if device_type == "cpu" else "float16"
    return half if settings.fp16 else "bfloat16" if settings.bf16 else "float32"


def precision_of_run(record: Record) -> str:
    """The type in which a finished run was computed. Older records do not have it: of these, the recipe's."""
    return record.environment.precision or precision_of(record.recipe.training)


def by_cell(records: Iterable[Record], without: Sequence[str] = ()) -> list[list[Record]]:
    """The records of each cell by seed, cells in the order of their first record by seed. Values of the dotted keys in
    `without` make no other cell."""
    found: dict[tuple[str, str], list[Record]] = {}
    for record in sorted(records, key=lambda one: one.seed):
        found.setdefault((record.file, record.recipe.cell_without(*without)), []).append(record)
    return list(found.values())


def labels(cells: Sequence[Sequence[Record]]) -> list[str]:
    """The name of each cell; where several have one name, because a recipe was edited, with a digest of its recipe."""
    counts = Counter(records[0].name for records in cells)
    return [name if counts[name := records[0].name] == 1 else f"{name} ({records[0].recipe.cell})" for records in cells]


def distinct_labels(models: Sequence[str], records: Sequence[Record]) -> list[str]:
    """Labels of runs: their models, or their names if two have the same model, with seeds if two have the same name."""
    if len(set(models)) == len(models):
        return list(models)
    names = [record.name for record in records]
    return names if len(set(names)) == len(names) else [record.title for record in records]
