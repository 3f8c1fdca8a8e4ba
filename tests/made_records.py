"""Records as runs leave them, without training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hf_sysgen.config.io import read_recipe, shipped_files
from hf_sysgen.config.recipe import Recipe, build_recipe
from hf_sysgen.results.predictions import ROW, Row
from hf_sysgen.results.record import Record

TINY = {
    "model": {"type": "sysgen_transformer"},
    "data": {"benchmark": "cogs", "config": "current"},
    "batches": {"size": 128, "sampling": "with_replacement"},
    "training": {"max_steps": 100, "learning_rate": 0.001},
}


def shipped(name: str) -> Recipe:
    """A recipe of the package by its file's name."""
    return read_recipe(next(path for file, path in shipped_files().items() if Path(file).name == name))


def made_record(
    recipe: Recipe | None = None,
    splits: Mapping[str, Any] | None = None,
    overrides: Mapping[str, Any] | None = None,
    recipe_values: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Record:
    """
    Args:
        recipe: of the run; a small one by default.
        splits: split -> its accuracy, or what was measured on it.
        overrides: dotted key -> value, as given to the run.
        recipe_values: the same, of which the record does not say that they were overrides.
        fields: of the record.
    """
    recipe = recipe or build_recipe(TINY, fields.pop("file", "cell"))
    file = fields.pop("file", recipe.file)
    recipe = recipe.replace(**(overrides or {}), **(recipe_values or {}), seed=fields.get("seed", 0))
    measured = {
        split: {"examples": 10, "accuracy": value} if isinstance(value, float) else {"examples": 10, **value}
        for split, value in (splits or {}).items()
    }
    content = {
        "schema_version": 2,
        "file": file,
        "overrides": dict(overrides or {}),
        "recipe": recipe,
        "recipe_hash": recipe.hash,
        "seed": 0,
        "steps": recipe.training.max_steps,
        "num_parameters": 992_007,
        "example": "a b",
        "history": [],
        "train_seconds": 60.0,
        "num_processes": 1,
        "starts": [{"commit": None, "versions": {"hf_sysgen": "0"}, "step": 0}],
        "environment": {"device": "AMD EPYC <test> & Co", "num_threads": 1},
        **fields,
    }
    return Record.model_validate({**content, "splits": measured}, strict=False)


def made_rows(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Rows of predictions from their fields; of the split test, and empty predictions, where these are missing."""
    return [
        ROW.validate_python({"split": "test", **({} if "nats" in row else {"prediction": ""}), **row}) for row in rows
    ]
