"""Which records make which cell of a paper: runs of one recipe over seeds as its numbers."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from hf_sysgen.config.fields import SECTIONS, effect_of
from hf_sysgen.config.io import read_recipe, shipped_files
from hf_sysgen.config.recipe import Recipe
from hf_sysgen.reports.papers import (
    BEST,
    SIZE,
    Cell,
    Run,
    Table,
    best_measured,
    evaluations,
    measured,
    papers,
)
from hf_sysgen.results.cells import PRECISION, by_cell, precision_of, precision_of_run
from hf_sysgen.results.record import Record


@dataclass(frozen=True)
class Measurement:
    """
    Runs of one recipe over seeds, whatever their precision, as a number for a cell; an edited recipe is another one.

    Attributes:
        name: name of the runs' recipe file, with overrides.
        values: value of each run, in the cell's unit, by seed.
        seeds: the seeds of the runs.
        budget: examples seen in training, as a share of the paper's; `None` if either is unknown.
        steps: smallest and largest number of optimizer updates of a run; they differ only if epochs end runs.
        paper_steps: steps of the recipe of the paper's cell; `None` if epochs end it.
        changes: how the runs' recipe differs from the cell's, each as "key ours (paper: theirs)".
        other_data: whether one of them is the data set or its split.
        records: the runs.
        precision: how many of them trained in another precision than the paper's, in words; empty if none.
        chosen: whether the values are chosen as the paper does it, on the test set.
        centre, difference, interval, verdict: beside the paper's number, from `comparison.compare`: the mean, or the
            median if the paper prints medians; that minus the paper's, `None` if it has none; the interval by the rule,
            `None` if there is none; the verdict.
    """

    name: str
    values: tuple[float, ...]
    seeds: tuple[int, ...]
    budget: float | None
    steps: tuple[int, int]
    paper_steps: int | None
    changes: tuple[str, ...]
    records: tuple[Record, ...]
    precision: str = ""
    other_data: bool = False
    chosen: bool = False
    centre: float = math.nan
    difference: float | None = None
    interval: tuple[float, float] | None = None
    verdict: str = ""

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def std(self) -> float | None:
        """Standard deviation with n - 1; `None` for a single run."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def sem(self) -> float | None:
        """Standard error of the mean; `None` for a single run."""
        return None if self.std is None else self.std / math.sqrt(len(self.values))


def means(parts: Sequence[Sequence[Measurement]]) -> list[Measurement]:
    """The mean of cells over the seeds that all have, of the first measurement of each; none where one has none."""
    if not all(parts):
        return []
    firsts = [one[0] for one in parts]
    seeds = sorted(set.intersection(*(set(one.seeds) for one in firsts)))
    alike = len({(one.budget, one.changes) for one in firsts}) == 1
    if not seeds or not alike:
        return []
    by_seed = [dict(zip(one.seeds, one.values, strict=True)) for one in firsts]
    values = tuple(statistics.fmean(values[seed] for values in by_seed) for seed in seeds)
    records = tuple(record for one in firsts for record in one.records)
    return [replace(firsts[0], values=values, seeds=tuple(seeds), records=records)]


def runs_without_cell(records: Iterable[Record]) -> list[list[Record]]:
    """The runs that belong to no cell of any table, over seeds, in the order of their names."""
    runs = [cell.run for paper in papers() for table in paper.tables for cell in table if cell.run]
    outside = (one for one in records if not any(_makes(one, run) for run in runs))
    return sorted(by_cell(outside), key=lambda cell: cell[0].name)


@cache
def shipped_recipe(name: str) -> Recipe:
    """A shipped recipe by its file name without folder and ending."""
    return read_recipe(next(path for file, path in shipped_files().items() if Path(file).name == name))


def measurements(cell: Cell, table: Table, by_recipe: Mapping[str, Sequence[Record]]) -> list[Measurement]:
    run = cell.run
    if run is None or not (making := [one for one in by_recipe.get(run.recipe, ()) if _makes(one, run)]):
        return []
    setup = run.setup(shipped_recipe(run.recipe))
    groups: dict[tuple[str, str, Any], list[Record]] = defaultdict(list)
    for record in making:
        if (
            measured(record, run.measure) is not None
            # a narrower model says nothing of the paper's number of parameters
            and not (run.measure == SIZE and any(text.startswith("model.") for text in _changes(record, setup)))
        ):
            length = f"{record.recipe.epochs} epochs" if _ended_by_epochs(record) else record.steps
            groups[record.file, record.recipe.cell_without(*PRECISION), length].append(record)
    found = []
    for runs in groups.values():
        records = one_for_each_seed(runs, setup)
        steps = [record.steps for record in records]
        changes = _changes(records[0], setup, run.choices)
        ours = Measurement(
            name=records[0].name_without(PRECISION),
            values=_values(cell, records, measured),
            seeds=tuple(record.seed for record in records),
            budget=_budget(records[0], setup),
            steps=(min(steps), max(steps)),
            paper_steps=None if setup.epochs else setup.training.max_steps,
            changes=changes,
            other_data=any(text.startswith(("data.benchmark ", "data.config ")) for text in changes),
            records=tuple(records),
            precision=_precisions(records, setup),
        )
        found.append(ours)
        # the authors choose on the whole test set, not on a sample; from one evaluation nothing is chosen
        if table.selection == BEST and all(
            one.recipe.evaluation.examples is None and evaluations(one, run.measure) > 1 for one in records
        ):
            found.append(replace(ours, values=_values(cell, records, best_measured), chosen=True))
    if run.choices:
        found += _chosen(found, run.choices)
    return sorted(found, key=lambda one: (one.chosen, -min(one.budget or 0.0, 1.0), len(one.changes), one.name))


def _makes(record: Record, run: Run) -> bool:
    """Whether the record's run makes the cell. An override that gives a key the paper's own value is no difference."""
    papers_own = _values_of(run.recipe)
    own = {
        key: value
        for key, value in record.overrides.items()
        if key in run.overrides or key not in papers_own or papers_own[key] != value
    }
    return run.matches(record.file, own)


@cache
def _values_of(name: str) -> Mapping[str, Any]:
    """The values of a shipped recipe by their dotted keys."""
    return shipped_recipe(name).flat()


def one_for_each_seed(runs: Sequence[Record], setup: Recipe) -> list[Record]:
    """
    One run of each seed, by seed. Of several runs of a seed that counts which is in the precision of most runs, so that
    a mean is of like runs where it can be; among equals, the one in the paper's precision.
    """
    in_precision = Counter(precision_of_run(record) for record in runs)
    last = sorted(runs, key=lambda one: (in_precision[precision_of_run(one)], not _other_precision(one, setup)))
    by_seed = {record.seed: record for record in last}
    return [by_seed[seed] for seed in sorted(by_seed)]


def _chosen(found: Sequence[Measurement], choices: Sequence[str]) -> list[Measurement]:
    """The best of each group of measurements that differ only in what the authors chose, marked as chosen."""
    alike: dict[tuple[float | None, tuple[str, ...]], list[Measurement]] = defaultdict(list)
    for one in found:
        alike[one.budget, tuple(text for text in one.changes if not text.startswith(tuple(choices)))].append(one)
    return [replace(max(some, key=lambda one: one.mean), chosen=True) for some in alike.values() if len(some) > 1]


def _values(cell: Cell, records: Iterable[Record], measure: Callable[[Record, str], float | None]) -> tuple[float, ...]:
    scale = 100.0 if cell.unit == "percent" else 1.0
    assert cell.run is not None
    return tuple(scale * (measure(record, cell.run.measure) or 0.0) for record in records)


def _other_precision(record: Record, setup: Recipe) -> bool:
    """Whether the run is in another precision than the paper's; either kind of 16 bits is mixed precision."""
    return (precision_of_run(record) == "float32") != (precision_of(setup.training) == "float32")


def _precisions(records: Sequence[Record], setup: Recipe) -> str:
    others = [precision_of_run(record) for record in records if _other_precision(record, setup)]
    if not others:
        return ""
    some = f"{len(others)} of {len(records)} runs in " if len(others) < len(records) else ""
    return f"{some}{others[0]}, the paper's in {precision_of(setup.training)}"


def _examples(recipe: Recipe, steps: int) -> float:
    """Examples seen in these steps, or the maximum of tokens; the unit is the same for recipes with the same kind of
    batches."""
    batches = recipe.batches
    size = batches.max_tokens * batches.per_update if batches.sampling == "max_tokens" else batches.size
    return float(steps) * size


def _ended_by_epochs(record: Record) -> bool:
    """Whether epochs ended the run, i.e. before its last step."""
    return bool(record.recipe.epochs) and record.steps < record.recipe.training.max_steps


def _budget(record: Record, setup: Recipe) -> float | None:
    recipe = record.recipe
    if setup.epochs:
        return (recipe.epochs or 0) / setup.epochs if _ended_by_epochs(record) else None
    if (recipe.batches.sampling == "max_tokens") != (setup.batches.sampling == "max_tokens"):
        return None
    return _examples(recipe, record.steps) / _examples(setup, setup.training.max_steps)


def _changes(record: Record, setup: Recipe, choices: Sequence[str] = ()) -> tuple[str, ...]:
    """Differences of the recipe from the paper's setup that change the result."""
    changes = [
        (key, ours, theirs)
        for key, ours, theirs in _differing(*_with_defaults(record.recipe, setup))
        if effect_of(key) == "result" and key not in (*PRECISION, *choices)
    ]
    # the file may leave out a value that the run chose
    both = record.recipe.flat(), setup.flat()
    pairs = [(key, both[0].get(key), both[1].get(key, "the default")) for key in choices]
    changes += [(key, ours, theirs) for key, ours, theirs in pairs if ours is not None and ours != theirs]
    return tuple(f"{key} {_text(ours)} (paper: {_text(theirs)})" for key, ours, theirs in changes)


def _with_defaults(ours: Recipe, theirs: Recipe) -> tuple[dict[str, Any], dict[str, Any]]:
    """
    Both recipes by section. Where only one of them gives a field of the model, both have the defaults of those that
    they leave out, unless a size class decides them.
    """
    first, second = ours.to_dict(), theirs.to_dict()
    if first["model"].keys() != second["model"].keys() and not (ours.model.size_class or theirs.model.size_class):
        # few need it, and it imports PyTorch
        from hf_sysgen.config.model_fields import flat_with_defaults

        for recipe, sections in ((ours, first), (theirs, second)):
            flat = flat_with_defaults(recipe)
            defaults = {key.removeprefix("model."): value for key, value in flat.items() if key.startswith("model.")}
            sections["model"] = {**defaults, **sections["model"]}
    return first, second


def _differing(ours: Mapping[str, Any], theirs: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """
    Dotted key, our value and the paper's, of each key whose values differ. A key that only one recipe has counts only
    under `training`: for batches or schedules of different types, the type itself is listed.
    """
    if prefix == "training.":
        missing: dict[str, Any] = dict.fromkeys([*ours, *theirs], "the default")
        ours, theirs = {**missing, **ours}, {**missing, **theirs}
    for name, value in theirs.items():
        if name not in ours or ours[name] == value:
            continue
        if prefix + name in SECTIONS and isinstance(value, Mapping) and isinstance(ours[name], Mapping):
            yield from _differing(ours[name], value, f"{prefix}{name}.")
        else:
            yield prefix + name, ours[name], value


def _text(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
