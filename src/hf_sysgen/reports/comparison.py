"""Ours beside the paper's: which records make which cell, their mean and spread, and a verdict by a rule."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hf_sysgen.files import file_name
from hf_sysgen.reports.papers import Cell, Paper, Run, Table, find_tables, measured, papers
from hf_sysgen.results.record import RESULTS, ResultsError, read_results

Record = Mapping[str, Any]

# what a difference may be between results that are called the same, by unit: in it, or as a share of the paper's
MARGINS = {"share": 0.02, "percent": 2.0, "bleu": 0.5, "perplexity": 0.02}
RELATIVE = ("perplexity",)
REPRODUCED, DIFFERS, OPEN, SINGLE = "reproduced", "differs", "inconclusive", "single runs"
SMALLER, LARGER, OTHER = "smaller budget", "larger budget", "other setup"
NOT_MEASURED, NO_RECIPE, NO_NUMBER = "not measured", "no recipe", "paper has no number"

# what each verdict means, in the order in which they are asked
RULE = {
    SMALLER: "our runs saw fewer examples in training than the paper's",
    LARGER: "our runs saw more examples in training than the paper's",
    OTHER: "another key of the recipe is not the paper's",
    SINGLE: "neither side has a spread, so that there is no interval",
    REPRODUCED: "the whole interval lies within 2 percentage points (BLEU: 0.5; perplexity: 2 %) of no difference",
    DIFFERS: "the interval does not hold 0",
    OPEN: "the interval holds 0, but is too wide to call the results the same",
}
INTERVAL = (
    "The interval is the 95 % confidence interval of our mean minus the paper's, by Welch's t, widened by the rounding "
    "of the printed number. A side that is a single run, or printed without a spread, is taken to scatter like the "
    "other one; where a paper does not say of how many runs its spread is, two are assumed, which makes the interval "
    "widest. Numbers of parameters are reproduced if they round to the printed ones."
)

# two-sided 95 % points of Student's t; between them the next lower degrees of freedom count, which widens the interval
STUDENT = {
    1: 12.7062, 2: 4.3027, 3: 3.1824, 4: 2.7764, 5: 2.5706, 6: 2.4469, 7: 2.3646, 8: 2.3060, 9: 2.2622, 10: 2.2281,
    11: 2.2010, 12: 2.1788, 13: 2.1604, 14: 2.1448, 15: 2.1314, 16: 2.1199, 17: 2.1098, 18: 2.1009, 19: 2.0930,
    20: 2.0860, 25: 2.0595, 30: 2.0423, 40: 2.0211, 60: 2.0003, 120: 1.9799,
}  # fmt: skip


@dataclass(frozen=True)
class Collection:
    """
    Results records found.

    Attributes:
        records: with their file, in order of files.
        skipped: one line for each file that is no results record, with its name and what is wrong.
    """

    records: tuple[tuple[Path, Record], ...]
    skipped: tuple[str, ...]


@dataclass(frozen=True)
class Measurement:
    """
    Runs of one recipe over seeds, as a number for a cell; recipes of one name that differ in what decides the cell are
    several.

    Attributes:
        name: the runs' name.
        values: of each run, in the cell's unit, by increasing seed.
        seeds: theirs.
        budget: examples seen in training as a share of the paper's, `None` where either is unknown.
        steps: fewest and most optimizer updates of a run; equal unless epochs ended them.
        paper_steps: those of the recipe of the paper's cell, `None` where epochs end it.
        changes: how the runs' recipe differs from that of the cell: "key: ours for theirs".
        records: the runs.
    """

    name: str
    values: tuple[float, ...]
    seeds: tuple[int, ...]
    budget: float | None
    steps: tuple[int, int]
    paper_steps: int | None
    changes: tuple[str, ...]
    records: tuple[Record, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def std(self) -> float | None:
        """Standard deviation with n - 1, `None` of a single run."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def sem(self) -> float | None:
        """Standard error of the mean, `None` of a single run."""
        return None if self.std is None else self.std / math.sqrt(len(self.values))


@dataclass(frozen=True)
class Comparison:
    """
    A cell and what we have for it.

    Attributes:
        cell: the paper's.
        ours: runs for it, those with most of the paper's budget first; empty if there are none.
        centres: of each of `ours`: its mean, or where the paper prints medians its median.
        differences: of each of `ours`: its centre minus the paper's, `None` where the paper has no number.
        intervals: of each of `ours`: the interval of the rule, `None` where there is none.
        verdicts: of each of `ours`.
    """

    cell: Cell
    ours: tuple[Measurement, ...] = ()
    centres: tuple[float, ...] = ()
    differences: tuple[float | None, ...] = ()
    intervals: tuple[tuple[float, float] | None, ...] = ()
    verdicts: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """That of the runs with most of the paper's budget, or why there is none."""
        if self.verdicts:
            return self.verdicts[0]
        if self.cell.run:
            return NOT_MEASURED
        return NO_RECIPE if self.cell.mean is not None else NO_NUMBER


@dataclass(frozen=True)
class TableReport:
    """A table with what we have for each of its cells, row by row."""

    paper: Paper
    table: Table
    rows: Mapping[str, tuple[Comparison, ...]]

    def __iter__(self):
        for row in self.rows.values():
            yield from row

    @property
    def measured(self) -> list[Comparison]:
        return [comparison for comparison in self if comparison.ours]


def collect(folders: Iterable[Path]) -> Collection:
    """
    All results records of the folders: every `results.json` at any depth, and every .json file directly in them (kept
    results). What cannot be read is named, not raised; a folder that is absent too.
    """
    files: dict[Path, None] = {}
    skipped = []
    for folder in folders:
        if not folder.is_dir():
            skipped.append(f"{folder}: is no folder")
            continue
        direct = sorted(folder.glob("*.json")) if not (folder / RESULTS).exists() else []
        # resolved, so that folders within one another give each run once
        files |= dict.fromkeys(path.resolve() for path in [*direct, *sorted(folder.rglob(RESULTS))])
    records = []
    for path in files:
        try:
            records.append((path, read_results(path)))
        except ResultsError as error:
            skipped.append(" ".join(str(error).split()))
    return Collection(tuple(records), tuple(skipped))


def reproduce(name: str, records: Sequence[Record], setups: Mapping[str, Mapping[str, Any]]) -> list[TableReport]:
    """
    Put records beside the papers.

    Args:
        name: which tables, see `find_tables`.
        records: results records.
        setups: recipe name -> its keys that decide a result (`hf_sysgen.config.recipe.recipe_setups`), the paper's
            setup. Records are compared with it, and budgets measured by it.

    Raises:
        PaperError: nothing has that name.
    """
    by_recipe = defaultdict(list)
    for record in records:
        recipe, overrides = split_name(record["name"])
        by_recipe[recipe].append((overrides, record))
    return [
        TableReport(
            paper,
            table,
            {
                row: tuple(compare(cell, table, _measurements(cell, by_recipe, setups)) for cell in cells)
                for row, cells in table.cells.items()
            },
        )
        for paper, table in find_tables(name)
    ]


def split_name(name: str) -> tuple[str, dict[str, str]]:
    """
    A run's name as the recipe's and its overrides: "cogs,steps=5" -> ("cogs", {"steps": "5"}). A recipe that asks for
    another one's cell with a smaller budget gives that one's name.
    """
    recipe, *words = name.split(",")
    reduced = {small: whole for paper in papers() for small, whole in paper.reduced.items()}
    return reduced.get(recipe, recipe), dict(word.partition("=")[::2] for word in words)


def unplaced(records: Sequence[Record]) -> list[str]:
    """Names of runs that make no cell of any table."""
    runs = [cell.run for paper in papers() for table in paper.tables for cell in table if cell.run]

    def placed(name: str) -> bool:
        recipe, overrides = split_name(name)
        return any(run.recipe == recipe and _matches(run, overrides) for run in runs)

    return [name for name in sorted({record["name"] for record in records}) if not placed(name)]


def _matches(run: Run, overrides: Mapping[str, str]) -> bool:
    """Whether overrides are the run's; the number of steps is a budget, and may be another one."""
    wanted = {key: value for key, value in run.overrides.items() if key != "steps"}
    given = {key: value for key, value in overrides.items() if key != "steps"}
    same = all(value == "*" or file_name(value) == given.get(key) for key, value in wanted.items())
    return same and wanted.keys() == given.keys()


def _measurements(
    cell: Cell,
    by_recipe: Mapping[str, Sequence[tuple[Mapping[str, str], Record]]],
    setups: Mapping[str, Mapping[str, Any]],
) -> list[Measurement]:
    if cell.run is None:
        return []
    scale = 100.0 if cell.unit == "percent" else 1.0
    setup = _setup(cell.run, setups)
    groups: dict[tuple[str, Any, float | None, tuple[str, ...]], dict[int, tuple[float, Record]]] = defaultdict(dict)
    for overrides, record in by_recipe.get(cell.run.recipe, ()):
        value = measured(record, cell.run.measure)
        if value is not None and _matches(cell.run, overrides):
            # one run a seed: a copy of its record is no second one
            length = _ended_by_epochs(record) or record["steps"]
            key = record["name"], length, _budget(record, setup), _changes(record["recipe"], setup)
            groups[key].setdefault(record["seed"], (value * scale, record))
    found = []
    for (name, _, budget, changes), runs in groups.items():
        seeds = sorted(runs)
        records = tuple(runs[seed][1] for seed in seeds)
        values = tuple(runs[seed][0] for seed in seeds)
        steps = [record["steps"] for record in records]
        theirs = None if setup.get("epochs") else setup.get("steps")
        found.append(
            Measurement(name, values, tuple(seeds), budget, (min(steps), max(steps)), theirs, changes, records)
        )
    return sorted(found, key=lambda one: (-min(one.budget or 0.0, 1.0), len(one.changes), one.name))


def _setup(run: Run, setups: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Keys of the recipe of a cell, its overrides put in as the numbers or texts that they are."""
    setup = dict(setups.get(run.recipe, {}))
    for key, value in run.overrides.items():
        setup[key] = _value(value)
    return setup


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"True": True, "False": False, "None": None}.get(text, text)


def _examples(keys: Mapping[str, Any], steps: int) -> float:
    """Examples seen in that many steps, or tokens at most; equal units for recipes of one kind."""
    size = keys.get("batch_size") or (keys.get("max_tokens") or 1) * (keys.get("batches_per_update") or 1)
    return float(steps) * size


def _ended_by_epochs(record: Record) -> str | None:
    """
    The epochs of a run that they ended, in words: how many steps they have depends on the batches. It is known by the
    steps that the run had left.
    """
    epochs = record["recipe"].get("epochs")
    return f"{epochs} epochs" if epochs and record["steps"] < record["recipe"]["steps"] else None


def _budget(record: Record, setup: Mapping[str, Any]) -> float | None:
    if not setup.get("steps"):
        return None
    if setup.get("epochs"):
        return record["recipe"]["epochs"] / setup["epochs"] if _ended_by_epochs(record) else None
    if bool(record["recipe"].get("batch_size")) != bool(setup.get("batch_size")):
        return None
    return _examples(record["recipe"], record["steps"]) / _examples(setup, setup["steps"])


def _changes(recipe: Mapping[str, Any], setup: Mapping[str, Any]) -> tuple[str, ...]:
    # a record of an older version lacks keys that are new since
    differing = [key for key in setup if key in recipe and setup[key] != "*" and recipe[key] != setup[key]]
    return tuple(f"{key}: {_text(recipe[key])} for {_text(setup[key])}" for key in differing)


def _text(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def compare(cell: Cell, table: Table, ours: Sequence[Measurement]) -> Comparison:
    """The cell with differences and verdicts by `RULE`."""
    centres = tuple(one.median if table.statistic == "median" else one.mean for one in ours)
    differences, intervals, verdicts = [], [], []
    for one, centre in zip(ours, centres, strict=True):
        difference = None if cell.mean is None else centre - cell.mean
        interval = None if cell.unit == "count" else difference_interval(cell, table, one)
        differences.append(difference)
        intervals.append(interval)
        verdicts.append(_verdict(cell, one, difference, interval))
    return Comparison(cell, tuple(ours), centres, tuple(differences), tuple(intervals), tuple(verdicts))


def _verdict(cell: Cell, one: Measurement, difference: float | None, interval: tuple[float, float] | None) -> str:
    if cell.mean is None or difference is None:
        return NO_NUMBER
    if cell.unit == "count":
        return REPRODUCED if abs(difference) <= cell.rounding else DIFFERS
    if one.budget is not None and one.budget < 1:
        return SMALLER
    if one.budget is not None and one.budget > 1:
        return LARGER
    if one.changes or one.budget is None:
        return OTHER
    if interval is None:
        return SINGLE
    margin = MARGINS[cell.unit] * (cell.mean if cell.unit in RELATIVE else 1)
    low, high = interval
    if max(abs(low), abs(high)) <= margin:
        return REPRODUCED
    return DIFFERS if low > 0 or high < 0 else OPEN


def difference_interval(cell: Cell, table: Table, ours: Measurement) -> tuple[float, float] | None:
    """
    The interval of `INTERVAL` for ours minus the paper's, in the cell's unit; `None` where neither side has a spread.

    Of medians the variance is pi/2 times that of means, as of a normal distribution's.
    """
    if cell.mean is None:
        return None
    count, theirs = len(ours.values), cell.seeds or (2 if cell.spread is not None else 1)
    own, spread = ours.std, cell.spread
    if spread is not None:
        # a spread that is printed as zero is only known to be less than half of its last digit
        spread = max(spread, 0.5 * 10.0 ** -len(cell.printed.partition("± ")[2].partition(" ")[0].partition(".")[2]))
        if cell.deviation == "sem":
            spread *= math.sqrt(theirs)
    if theirs < 2:
        spread = None
    if own is None and spread is None:
        return None
    if own is None or spread is None:
        # one spread serves both sides
        std = own if spread is None else spread
        assert std is not None
        variance = std**2 * (1 / count + 1 / theirs)
        freedom = float(count - 1 if spread is None else theirs - 1)
    else:
        parts = own**2 / count, spread**2 / theirs
        variance = sum(parts)
        freedom = variance**2 / (parts[0] ** 2 / (count - 1) + parts[1] ** 2 / (theirs - 1))
    if table.statistic == "median":
        variance *= math.pi / 2
    half = student(freedom) * math.sqrt(variance) + cell.rounding
    centre = (ours.median if table.statistic == "median" else ours.mean) - cell.mean
    return centre - half, centre + half


def student(freedom: float) -> float:
    """The two-sided 95 % point of Student's t, of the next lower degrees of freedom in `STUDENT`."""
    return STUDENT[max(known for known in STUDENT if known <= max(freedom + 1e-9, 1))]
