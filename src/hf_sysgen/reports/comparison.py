"""Our numbers beside the papers': which records make which cell, their mean and spread, and a verdict by a fixed
rule."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from hf_sysgen.config.fields import SECTIONS, changes_of
from hf_sysgen.config.io import read_recipe, shipped_files
from hf_sysgen.config.recipe import Recipe
from hf_sysgen.errors import UserError
from hf_sysgen.reports.papers import (
    BEST,
    PRECISION,
    Cell,
    Paper,
    Table,
    best_measured,
    find_tables,
    measured,
    papers,
    whole_of,
)
from hf_sysgen.results.cells import by_cell
from hf_sysgen.results.reading import read_record
from hf_sysgen.results.record import RESULTS, Record

# unit -> largest difference between results that count as the same: absolute, or relative to the paper's
MARGINS = {"share": 0.02, "percent": 2.0, "bleu": 0.5, "perplexity": 0.02}
RELATIVE = ("perplexity",)
LOWER_IS_BETTER = ("perplexity",)
# names of kept records, see `Record.kept_at`
KEPT = "*-seed[0-9]*.json"
REPRODUCED, DIFFERS, OPEN, SINGLE = "reproduced", "differs", "inconclusive", "single runs"
REACHED, SMALLER, LARGER, OTHER = "reached with less", "smaller budget", "larger budget", "other setup"
CHOSEN = "chosen on the test set"
NOT_MEASURED, NO_RECIPE, NO_NUMBER = "not measured", "no recipe", "paper has no number"

# meaning of each verdict, in the order of the checks
RULE = {
    CHOSEN: "the authors report the best of several evaluations on the test set; this row does so too, for comparison",
    REACHED: (
        "our runs saw fewer examples in training than the paper's, and the interval lies above the paper's number, or "
        "at most 2 percentage points (BLEU: 0.5; perplexity: 2 %) on the worse side of it"
    ),
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


@dataclass(frozen=True)
class Collection:
    """
    Results records found.

    Attributes:
        records: with their file, in order of files.
        skipped: one line for each file that is not a results record, with its name and error.
    """

    records: tuple[tuple[Path, Record], ...]
    skipped: tuple[str, ...]


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
        changes: differences of the runs' recipe from that of the cell: "key: ours for theirs".
        records: the runs.
        precision: how many of them trained in another precision than the paper's, in words; empty if none.
        chosen: whether the values are chosen as the paper does it, on the test set.
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
    chosen: bool = False

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


@dataclass(frozen=True)
class Comparison:
    """
    A cell and our measurements for it.

    Attributes:
        cell: the paper's.
        ours: measurements for it, the largest share of the paper's budget first; empty if there are none.
        centres: mean of each of `ours`, or its median if the paper prints medians.
        differences: centre of each of `ours` minus the paper's number; `None` if the paper has none.
        intervals: interval of each of `ours` by the rule; `None` if there is none.
        verdicts: verdict of each of `ours`.
    """

    cell: Cell
    ours: tuple[Measurement, ...] = ()
    centres: tuple[float, ...] = ()
    differences: tuple[float | None, ...] = ()
    intervals: tuple[tuple[float, float] | None, ...] = ()
    verdicts: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """The verdict of the runs with the largest share of the paper's budget, or why there is none."""
        if self.verdicts:
            return self.verdicts[0]
        if self.cell.able:
            return NOT_MEASURED
        return NO_RECIPE if self.cell.mean is not None else NO_NUMBER


@dataclass(frozen=True)
class TableReport:
    """A table with our measurements for each of its cells, row by row."""

    paper: Paper
    table: Table
    rows: Mapping[str, tuple[Comparison, ...]]

    def __iter__(self):
        for row in self.rows.values():
            yield from row

    @property
    def measured(self) -> list[Comparison]:
        return [comparison for comparison in self if comparison.ours]


@dataclass(frozen=True)
class Summary:
    """
    How far a paper's tables are measured.

    Attributes:
        name: the paper's authors, or of how many papers it is.
        with_recipe: cells that a recipe makes.
        verdicts: verdict -> how many measured cells have it, those of parameter counts left out.
        counts: measured numbers of parameters.
    """

    name: str
    with_recipe: int
    verdicts: Mapping[str, int]
    counts: int

    @property
    def measured(self) -> int:
        return sum(self.verdicts.values()) + self.counts

    @property
    def others(self) -> int:
        """Measured cells that are neither reproduced, nor reached with less, nor different."""
        return sum(count for verdict, count in self.verdicts.items() if verdict not in (REPRODUCED, REACHED, DIFFERS))


def summarize(reports: Iterable[TableReport]) -> list[Summary]:
    """A summary of each paper, and of several one of all; only tables that are compared count."""
    cells: dict[str, list[Comparison]] = defaultdict(list)
    for report in reports:
        if report.table.compared and report.table.numbers == "printed":
            cells[report.paper.authors] += report
    found = [_summary(name, own) for name, own in cells.items()]
    return found if len(found) < 2 else [*found, _summary("all", [cell for own in cells.values() for cell in own])]


def _summary(name: str, cells: Sequence[Comparison]) -> Summary:
    done = [cell for cell in cells if cell.ours]
    verdicts = Counter(cell.verdict for cell in done if cell.cell.unit != "count")
    counts = sum(cell.cell.unit == "count" for cell in done)
    return Summary(name, sum(cell.cell.able for cell in cells), verdicts, counts)


def collect(folders: Iterable[Path]) -> Collection:
    """
    All records of the folders at any depth: `results.json` of runs, and kept records, `NAME-seedN.json`. Files that
    cannot be read and missing folders are listed, not raised.
    """
    files: dict[Path, None] = {}
    skipped = []
    for folder in folders:
        if not folder.is_dir():
            skipped.append(f"{folder}: is no folder")
            continue
        # resolved, so that nested folders give each run once
        found = (path for pattern in (KEPT, RESULTS) for path in sorted(folder.rglob(pattern)))
        files |= dict.fromkeys(path.resolve() for path in found)
    records = []
    for path in files:
        try:
            records.append((path, read_record(path)))
        except UserError as error:
            skipped.append(" ".join(str(error).split()))
    return Collection(tuple(records), tuple(skipped))


def reproduce(name: str, records: Sequence[Record]) -> list[TableReport]:
    """
    Put records beside the papers. The shipped recipes are the papers' setups: records are compared with them, and
    budgets measured by them.

    Args:
        name: which tables, see `find_tables`.
        records: results records.

    Raises:
        UserError: nothing has that name. RecipeError: a shipped recipe cannot be read.
    """
    by_recipe = defaultdict(list)
    for record in records:
        by_recipe[whole_of(record.file)].append(record)
    return [
        TableReport(paper, table, {row: _row(table, cells, by_recipe) for row, cells in table.cells.items()})
        for paper, table in find_tables(name)
    ]


def _row(table: Table, cells: Sequence[Cell], by_recipe: Mapping[str, Sequence[Record]]) -> tuple[Comparison, ...]:
    found = {cell.column: _measurements(cell, table, by_recipe) for cell in cells}
    for cell in cells:
        if cell.mean_of:
            found[cell.column] = _means([found[column] for column in cell.mean_of])
    return tuple(compare(cell, table, found[cell.column]) for cell in cells)


def _means(parts: Sequence[Sequence[Measurement]]) -> list[Measurement]:
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


def unplaced(records: Iterable[Record]) -> list[list[Record]]:
    """The runs that belong to no cell of any table, over seeds, in the order of their names."""
    runs = [cell.run for paper in papers() for table in paper.tables for cell in table if cell.run]
    outside = (one for one in records if not any(run.is_of(one.file, one.overrides) for run in runs))
    return sorted(by_cell(outside), key=lambda cell: cell[0].name)


@cache
def shipped_recipe(name: str) -> Recipe:
    """A shipped recipe by its file name without folder and ending."""
    return read_recipe(next(path for file, path in shipped_files().items() if Path(file).name == name))


def _measurements(cell: Cell, table: Table, by_recipe: Mapping[str, Sequence[Record]]) -> list[Measurement]:
    run = cell.run
    if run is None or not any(run.is_of(one.file, one.overrides) for one in by_recipe.get(run.recipe, ())):
        return []
    setup = run.setup(shipped_recipe(run.recipe))
    groups: dict[tuple[str, str, Any], dict[int, Record]] = defaultdict(dict)
    # the paper's precision last: of two runs of a seed that one counts
    for record in sorted(by_recipe[run.recipe], key=lambda one: not _other_precision(one, setup)):
        if measured(record, run.measure) is not None and run.is_of(record.file, record.overrides):
            # one run per seed: a copy of its record does not count
            length = f"{record.recipe.epochs} epochs" if _ended_by_epochs(record) else record.steps
            groups[record.file, record.recipe.cell_without(*PRECISION), length][record.seed] = record
    found = []
    for runs in groups.values():
        records = [runs[seed] for seed in sorted(runs)]
        steps = [record.steps for record in records]
        ours = Measurement(
            name=records[0].name_without(PRECISION),
            values=_values(cell, records, measured),
            seeds=tuple(sorted(runs)),
            budget=_budget(records[0], setup),
            steps=(min(steps), max(steps)),
            paper_steps=None if setup.epochs else setup.training.max_steps,
            changes=_changes(records[0], setup, run.choices),
            records=tuple(records),
            precision=_precisions(records, setup),
        )
        found.append(ours)
        # a sample of the test set is not what the authors choose on
        if table.selection == BEST and all(one.recipe.evaluation.examples is None for one in records):
            found.append(replace(ours, values=_values(cell, records, best_measured), chosen=True))
    if run.choices:
        found += _chosen(found, run.choices)
    return sorted(found, key=lambda one: (one.chosen, -min(one.budget or 0.0, 1.0), len(one.changes), one.name))


def _chosen(found: Sequence[Measurement], choices: Sequence[str]) -> list[Measurement]:
    """Of measurements that differ in what the authors chose alone the best one, marked."""
    alike: dict[tuple[float | None, tuple[str, ...]], list[Measurement]] = defaultdict(list)
    for one in found:
        alike[one.budget, tuple(text for text in one.changes if not text.startswith(tuple(choices)))].append(one)
    return [replace(max(some, key=lambda one: one.mean), chosen=True) for some in alike.values() if len(some) > 1]


def _values(cell: Cell, records: Iterable[Record], measure: Callable[[Record, str], float | None]) -> tuple[float, ...]:
    scale = 100.0 if cell.unit == "percent" else 1.0
    assert cell.run is not None
    return tuple(scale * (measure(record, cell.run.measure) or 0.0) for record in records)


def _precision(recipe: Recipe) -> str:
    return "float16" if recipe.training.fp16 else "bfloat16" if recipe.training.bf16 else "float32"


def _other_precision(record: Record, setup: Recipe) -> bool:
    """Whether the run is in another precision than the paper's; either kind of 16 bits is mixed precision."""
    return (_precision(record.recipe) == "float32") != (_precision(setup) == "float32")


def _precisions(records: Sequence[Record], setup: Recipe) -> str:
    others = [_precision(record.recipe) for record in records if _other_precision(record, setup)]
    if not others:
        return ""
    some = f"{len(others)} of {len(records)} runs in " if len(others) < len(records) else ""
    return f"{some}{others[0]}, the paper's in {_precision(setup)}"


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
        for key, ours, theirs in _differing(record.recipe.to_dict(), setup.to_dict())
        if changes_of(key) == "result" and key not in (*PRECISION, *choices)
    ]
    # the file may leave out a value that the run chose
    both = record.recipe.flat(), setup.flat()
    pairs = [(key, both[0].get(key), both[1].get(key, "the default")) for key in choices]
    changes += [(key, ours, theirs) for key, ours, theirs in pairs if ours is not None and ours != theirs]
    return tuple(f"{key}: {_text(ours)} for {_text(theirs)}" for key, ours, theirs in changes)


def _differing(ours: Mapping[str, Any], theirs: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """
    Dotted key -> both values. Keys that only one side has are left out: for two kinds of batches or schedules the kind
    itself differs, and a missing field of the model has its default.
    """
    for name, value in theirs.items():
        if name not in ours or ours[name] == value:
            continue
        if prefix + name in SECTIONS and isinstance(value, Mapping) and isinstance(ours[name], Mapping):
            yield from _differing(ours[name], value, f"{prefix}{name}.")
        else:
            yield prefix + name, ours[name], value


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
    if one.chosen:
        return CHOSEN
    margin = MARGINS[cell.unit] * (cell.mean if cell.unit in RELATIVE else 1)
    if one.budget is not None and one.budget < 1:
        return REACHED if interval is not None and _not_worse(cell, interval, margin) else SMALLER
    if one.budget is not None and one.budget > 1:
        return LARGER
    if one.changes or one.budget is None:
        return OTHER
    if interval is None:
        return SINGLE
    low, high = interval
    if max(abs(low), abs(high)) <= margin:
        return REPRODUCED
    return DIFFERS if low > 0 or high < 0 else OPEN


def _not_worse(cell: Cell, interval: tuple[float, float], margin: float) -> bool:
    low, high = interval
    return high <= margin if cell.unit in LOWER_IS_BETTER else low >= -margin


def difference_interval(cell: Cell, table: Table, ours: Measurement) -> tuple[float, float] | None:
    """
    The interval of `INTERVAL` for ours minus the paper's, in the cell's unit; `None` if neither side has a spread.
    Medians have pi/2 times the variance of means, as for a normal distribution.
    """
    if cell.mean is None:
        return None
    count, theirs = len(ours.values), cell.seeds or (2 if cell.spread is not None else 1)
    own, spread = ours.std, cell.spread
    if spread is not None:
        # a spread printed as zero is less than half of its last digit
        spread = max(spread, 0.5 * 10.0 ** -len(cell.printed.partition("± ")[2].partition(" ")[0].partition(".")[2]))
        if cell.deviation == "sem":
            spread *= math.sqrt(theirs)
    if theirs < 2:
        spread = None
    if own is None and spread is None:
        return None
    if own is None or spread is None:
        # one spread is used for both sides
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
    """The two-sided 95 % point of Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.975))
