"""Time to a paper's number, from perf/speedruns.json and the records in results/speedruns."""

from __future__ import annotations

import math
import statistics
from typing import Any

from kept import kept, read_perf, records_of

from hf_sysgen.reports.papers import MEASURE, Cell, find_tables, measured
from hf_sysgen.results.record import Record
from hf_sysgen.tables import markdown

# recipe in recipes/speedruns -> table, row and column of the paper's number
CELLS = {
    "speedrun_scan_length26_relative_universal": ("csordas2021-table3", "SCAN (length cutoff=26)", "Rel. Uni. Trafo"),
    "speedrun_scan_length26_universal": ("csordas2021-table3", "SCAN (length cutoff=26)", "Uni. Trafo"),
    "speedrun_clutrr_edge_234": ("bergen2021-table5", "k=2,3,4, Base", "test k=10"),
    "speedrun_scan_jump_role_filler": ("chakravarthy2022-table1", "Filler + Role loss, thresh", "Add jump"),
    "speedrun_cogs_graph_edge": ("bergen2021-table6", "Untied weights", "COGS"),
}
# models that are to fail where another one does not: the paper's number is a low one, and none to reach
BESIDE = ("speedrun_scan_length26_universal",)
# of a run that counts
SEEDS = 3


def target(recipe: str) -> tuple[str, Cell]:
    """The paper's cell of a recipe, with its name."""
    table, row, column = CELLS[recipe]
    ((paper, found),) = find_tables(table)
    (cell,) = (one for one in found if (one.row, one.column) == (row, column))
    return f"{paper.authors}, {found.name}: {row}, {column}", cell


def to_reach(cell: Cell) -> float:
    """The paper's number; of a mean with a spread the mean less one standard deviation."""
    assert cell.mean is not None
    if cell.spread is None:
        return cell.mean
    return cell.mean - cell.spread * (math.sqrt(cell.seeds or 1) if cell.deviation == "sem" else 1)


def counts(cell: Cell, scores: list[float]) -> bool:
    """Whether the mean of at least three seeds reaches the number, as far as the paper prints digits."""
    return len(scores) >= SEEDS and statistics.fmean(scores) >= to_reach(cell) - cell.rounding


def speedruns() -> str:
    """A row for each recipe: the number to reach, what its seeds reached, and the processor time of a run."""
    timed: dict[str, list[dict[str, Any]]] = {}
    for row in read_perf("speedruns"):
        timed.setdefault(row["recipe"], []).append(row)
    records = {record.recipe_hash: record for _, record in kept().records}
    table = []
    for recipe, rows in timed.items():
        if recipe in BESIDE:
            continue
        name, cell = target(recipe)
        for row in rows:
            if row["hash"] not in records:
                raise ValueError(f"{recipe} seed {row['seed']}: its row in perf/speedruns.json has no record")
        scores = [_score(records[row["hash"]], cell) for row in rows]
        minutes = statistics.fmean(row["seconds"] for row in rows) / 60
        last = max(rows, key=lambda row: row["date"])
        table.append(
            (
                name,
                "yes" if counts(cell, scores) else "no",
                f"{to_reach(cell):.{_digits(cell)}f}",
                _mean(scores, cell),
                str(len(scores)),
                f"{minutes:.1f}",
                f"{last['date']}, {(last['commit'] or '')[:7]}",
                f"`{recipe}`",
            )
        )
    header = ("cell", "counts", "to reach", "reached", "seeds", "minutes on one core", "date, commit", "recipe")
    return markdown(header, table)


def speedruns_beside() -> str:
    """A row for each model that is to fail: the paper's number and ours, after the same updates as the one that does
    not."""
    table = []
    for recipe in BESIDE:
        name, cell = target(recipe)
        scores = [_score(record, cell) for record in records_of(f"speedruns/{recipe}")]
        theirs = f"{cell.mean:.{_digits(cell)}f}"
        table.append((name, theirs, _mean(scores, cell) if scores else "-", str(len(scores)), f"`{recipe}`"))
    return markdown(("cell", "paper", "here", "seeds", "recipe"), table)


def _score(record: Record, cell: Cell) -> float:
    score = measured(record, cell.run.measure if cell.run else MEASURE)
    return (100 if cell.unit == "percent" else 1) * (score or 0.0)


def _digits(cell: Cell) -> int:
    return 1 if cell.unit == "percent" else 3


def _mean(scores: list[float], cell: Cell) -> str:
    spread = f" ± {statistics.stdev(scores):.{_digits(cell)}f}" if len(scores) > 1 else ""
    return f"{statistics.fmean(scores):.{_digits(cell)}f}{spread}"


TABLES = (speedruns, speedruns_beside)
