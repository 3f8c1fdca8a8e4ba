"""The results of a sweep with the paper's numbers, and what its rule selects."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from operator import itemgetter
from pathlib import Path

from hf_sysgen.config.sweep import Run, Selection, cells_of
from hf_sysgen.errors import UserError
from hf_sysgen.results.cells import by_cell, distinct_labels, labels
from hf_sysgen.results.reading import read_record
from hf_sysgen.results.record import RESULTS, Record
from hf_sysgen.tables import mean_and_deviation, table


def results_text(records: Sequence[Record]) -> str:
    """
    Each run's scores on validation and test, in the metric of its recipe's paper, beside the paper's numbers; below
    them mean and standard deviation of each cell with several seeds.
    """

    def shown(value: float | None, digits: int) -> str:
        return "-" if value is None else f"{value:.{digits}f}"

    def scores_of(record: Record) -> list[float | None]:
        found = (record.splits.get(split) for split in ("validation", "test"))
        return [None if one is None else one.metrics.get(record.recipe.paper.metric) for one in found]

    def over_seeds(values: Sequence[float | None]) -> str:
        known = [value for value in values if value is not None]
        return mean_and_deviation(known) if len(known) == len(values) else "-"

    rows, cells = [], []
    called = distinct_labels([record.recipe.model.type for record in records], records)
    for name, record in zip(called, records, strict=True):
        paper, (validation, test) = record.recipe.paper, scores_of(record)
        found = (shown(validation, 4), shown(paper.validation, 2), shown(test, 4), shown(paper.test, 2))
        rows.append((name, *found, f"{record.steps:,}", f"{record.train_seconds:.0f} s"))
        if paper.cell and (line := f"paper: {paper.cell}") not in cells:
            cells.append(line)
    seeds = [runs for runs in by_cell(records) if len(runs) > 1]
    for name, runs in zip(labels(seeds), seeds, strict=True):
        scores = [scores_of(record) for record in runs]
        mean_validation, mean_test = (over_seeds([one[split] for one in scores]) for split in (0, 1))
        rows.append((f"{name}, mean ± sd of {len(runs)} seeds", mean_validation, "", mean_test, "", "", ""))
    title = ", ".join(dict.fromkeys(record.recipe.paper.metric for record in records))
    header = (title, "validation", "paper", "test", "paper", "steps", "training")
    return "\n".join([table(header, rows), *cells])


def selection_text(runs: Iterable[Run], select: Selection) -> str:
    """
    The cell that the rule selects, for each recipe and config of its benchmark.

    Raises:
        UserError: a record is absent or wrong, or its split lacks the metric.
    """
    groups: dict[tuple[Path, str], list[tuple[float, float, list[Run]]]] = {}
    for cell in cells_of(runs):
        values = [_value(run, select) for run in cell]
        spread = statistics.stdev(values) if len(values) > 1 and all(map(math.isfinite, values)) else math.nan
        groups.setdefault((cell[0].path, cell[0].recipe.data.config), []).append(
            (statistics.fmean(values), spread, cell)
        )
    best = min if select.lower_is_better else max
    rows = []
    for cells in groups.values():
        # NaN is never the best
        mean, spread, cell = best(
            (entry for entry in cells if entry[0] == entry[0]), default=cells[0], key=itemgetter(0)
        )
        rows.append((cell[0].recipe.name, len(cells), len(cell), f"{mean:.4f}", f"{spread:.4f}"))
    rule = f"{'lowest' if select.lower_is_better else 'highest'} mean {select.split} {select.metric}"
    return table((f"selected by the {rule}", "of cells", "seeds", "mean", "sd"), rows)


def _value(run: Run, select: Selection) -> float:
    path = run.recipe.run_dir / RESULTS
    splits = read_record(path).splits
    if select.split not in splits:
        raise UserError(f"{path}: has no split {select.split!r}; it has {', '.join(splits)}")
    metrics = splits[select.split].metrics
    if select.metric not in metrics:
        raise UserError(f"{path}: {select.split} has no metric {select.metric!r}; it has {', '.join(metrics)}")
    value = metrics[select.metric]
    return math.nan if value is None else value
