"""Our numbers beside the papers': the difference of each cell, its interval, and a verdict by a fixed rule."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hf_sysgen.reports.matching import Measurement, means, measurements
from hf_sysgen.reports.papers import (
    Cell,
    Paper,
    Table,
    find_tables,
    full_budget_recipe,
)
from hf_sysgen.results.record import Record

# unit -> largest difference between results that count as the same: absolute, or relative to the paper's
MARGINS = {"share": 0.02, "percent": 2.0, "bleu": 0.5, "perplexity": 0.02}
RELATIVE = ("perplexity",)
LOWER_IS_BETTER = ("perplexity",)
REPRODUCED, DIFFERS, OPEN, SINGLE = "reproduced", "differs", "inconclusive", "single runs"
REACHED, SMALLER, LARGER, OTHER = "reached with smaller budget", "smaller budget", "larger budget", "other setup"
CHOSEN, OTHER_TASK = "chosen on the test set", "other data or model"
NOT_MEASURED, NO_RECIPE, NO_NUMBER = "not measured", "no recipe", "paper has no number"

ALIKE = (
    f"{MARGINS['percent']:g} percentage points (BLEU: {MARGINS['bleu']:g}; perplexity: "
    f"{100 * MARGINS['perplexity']:g} %)"
)

# meaning of each verdict, in the order of the checks
RULE = {
    NO_NUMBER: "the paper prints none, or it is illegible in our copy",
    CHOSEN: "the authors report the best of several evaluations on the test set; this row does so too, for comparison",
    OTHER_TASK: "our runs are of another data set or split than the paper's, or the paper's number is of another model",
    REACHED: (
        "our runs, two or more, saw fewer training examples than the paper's, and the whole interval is better than "
        f"the paper's number or at most {ALIKE} worse; not used if the paper's number is itself at most that"
    ),
    SMALLER: "our runs saw fewer examples in training than the paper's",
    LARGER: "our runs saw more examples in training than the paper's",
    OTHER: "the recipe differs from the paper's in another key",
    SINGLE: "neither side reports a spread, so there is no interval",
    REPRODUCED: f"the whole interval lies within {ALIKE} of no difference",
    DIFFERS: "the interval does not contain 0",
    OPEN: "the interval contains 0, but is too wide to call the results equal",
}
INTERVAL = (
    "The interval is the 95 % confidence interval of our mean minus the paper's, by Welch's t, widened by the rounding "
    "of the printed number. If one side is a single run or has no spread, the other side's spread is used. If a "
    "paper does not state its number of runs, two are assumed, which gives the widest interval, and one if it "
    "prints no spread either. Parameter counts are reproduced if they round to the printed ones."
)


@dataclass(frozen=True)
class Comparison:
    """
    A cell and our measurements for it.

    Attributes:
        cell: the paper's.
        ours: measurements for it, the largest share of the paper's budget first; empty if there are none.
    """

    cell: Cell
    ours: tuple[Measurement, ...] = ()

    @property
    def verdict(self) -> str:
        """The verdict of the runs with the largest share of the paper's budget, or why there is none."""
        if self.ours:
            return self.ours[0].verdict
        if self.cell.has_recipe:
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
    return Summary(name, sum(cell.cell.has_recipe for cell in cells), verdicts, counts)


def compare_with_papers(name: str, records: Sequence[Record]) -> list[TableReport]:
    """
    Compare records with the papers' tables. The shipped recipes are the papers' setups; differences and budgets are
    relative to them.

    Args:
        name: which tables, see `find_tables`.
        records: results records.

    Raises:
        UserError: nothing has that name. RecipeError: a shipped recipe cannot be read.
    """
    by_recipe = defaultdict(list)
    for record in records:
        by_recipe[full_budget_recipe(record.file)].append(record)
    return [
        TableReport(paper, table, {row: _row(table, cells, by_recipe) for row, cells in table.cells.items()})
        for paper, table in find_tables(name)
    ]


def _row(table: Table, cells: Sequence[Cell], by_recipe: Mapping[str, Sequence[Record]]) -> tuple[Comparison, ...]:
    found = {cell.column: measurements(cell, table, by_recipe) for cell in cells}
    for cell in cells:
        if cell.mean_of:
            found[cell.column] = means([found[column] for column in cell.mean_of])
    return tuple(compare(cell, table, found[cell.column]) for cell in cells)


def compare(cell: Cell, table: Table, ours: Sequence[Measurement]) -> Comparison:
    """The cell with differences and verdicts by `RULE`."""
    compared = []
    for one in ours:
        centre = one.median if table.statistic == "median" else one.mean
        difference = None if cell.mean is None else centre - cell.mean
        interval = None if cell.unit == "count" else difference_interval(cell, table, one)
        one = replace(one, centre=centre, difference=difference, interval=interval)
        compared.append(replace(one, verdict=_verdict(cell, one)))
    return Comparison(cell, tuple(compared))


def _verdict(cell: Cell, one: Measurement) -> str:
    interval = one.interval
    if cell.mean is None or one.difference is None:
        return NO_NUMBER
    if cell.unit == "count":
        return REPRODUCED if abs(one.difference) <= cell.rounding else DIFFERS
    if one.chosen:
        return CHOSEN
    if one.other_data or cell.other_model:
        return OTHER_TASK
    margin = MARGINS[cell.unit] * (cell.mean if cell.unit in RELATIVE else 1)
    if one.budget is not None and one.budget < 1:
        return REACHED if _is_reached(cell, one, margin) else SMALLER
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


def _is_reached(cell: Cell, one: Measurement, margin: float) -> bool:
    """Short runs must show their own spread: the paper's, after longer training, is often smaller."""
    if one.std is None or one.interval is None or cell.mean is None:
        return False
    low, high = one.interval
    return high <= margin if cell.unit in LOWER_IS_BETTER else low >= -margin and cell.mean > margin


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
    half = t_quantile(freedom) * math.sqrt(variance) + cell.rounding
    centre = (ours.median if table.statistic == "median" else ours.mean) - cell.mean
    return centre - half, centre + half


def t_quantile(freedom: float) -> float:
    """The two-sided 95 % point of Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.975))
