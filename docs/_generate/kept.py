"""The kept records, shipped recipes and measurements."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from hf_sysgen.config.io import read_recipe, shipped_files
from hf_sysgen.config.recipe import Recipe
from hf_sysgen.reports.comparison import TableReport, compare_with_papers
from hf_sysgen.results.cells import by_cell
from hf_sysgen.results.reading import Collection, collect
from hf_sysgen.results.record import Record

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results"
PERF = ROOT / "perf"


def read_perf(name: str) -> Any:
    """What a script in perf wrote; `name` as authors_code."""
    return json.loads((PERF / f"{name}.json").read_text(encoding="utf-8"))


@cache
def kept() -> Collection:
    """All kept records. Raises ValueError: one of them cannot be read."""
    found = collect([RESULTS])
    if found.skipped:
        raise ValueError("; ".join(found.skipped))
    return found


@cache
def paths() -> dict[int, str]:
    """The file of each kept record below results/, by the record's `id`."""
    return {id(record): path.relative_to(RESULTS).as_posix() for path, record in kept().records}


@cache
def reports() -> list[TableReport]:
    """The papers' tables with the kept records beside them."""
    return compare_with_papers("all", [record for _, record in kept().records])


@cache
def cells() -> dict[tuple[str, str], list[Record]]:
    """The kept records of each cell by seed, by what identifies it."""
    return {cell[0].cell_key: cell for cell in by_cell(record for _, record in kept().records)}


def records_of(file: str, bf16: bool = False) -> list[Record]:
    """The records of a shipped recipe by seed, without overrides, or in bfloat16 and without others; `file` as
    csordas2021/cogs_relative. If the recipe has `training.bf16: auto`, the precision with more records counts."""
    recipe = shipped()[file]
    if bf16:
        recipe = recipe.replace(**{"training.bf16": True})
    found = [cells().get(recipe.settled(choice).cell_key, []) for choice in (True, False)]
    return max(found, key=len)


@cache
def shipped() -> dict[str, Recipe]:
    """The shipped recipes by file, e.g. csordas2021/cogs_relative."""
    return {name: read_recipe(path) for name, path in shipped_files().items()}
