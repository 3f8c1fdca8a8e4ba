"""The report as one page for any browser: no script, no other file, no request."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from hf_sysgen import __version__
from hf_sysgen.reports import comparison
from hf_sysgen.reports.comparison import INTERVAL, RULE, Comparison, TableReport, summarize
from hf_sysgen.reports.curves import SERIES, Curve, Point, draw_comparison, draw_curves
from hf_sysgen.reports.matching import runs_without_cell
from hf_sysgen.reports.report import (
    SUMMARY,
    UNITS,
    headline,
    label,
    measured_cells,
    number,
    remarks,
    setup_labels,
    share_of_paper,
    summary_rows,
    updates,
)
from hf_sysgen.results.cells import by_cell, labels
from hf_sysgen.results.reading import Collection
from hf_sysgen.results.record import Record

Place = TypeVar("Place", int, float, str)

# verdict -> CSS class, and a sign, so that colour is not needed
LOOKS = {
    comparison.REPRODUCED: ("good", "✓"),
    comparison.DIFFERS: ("bad", "✗"),
    comparison.OPEN: ("open", "?"),
    comparison.SINGLE: ("open", "1"),
    comparison.REACHED: ("good", "↓"),
    comparison.SMALLER: ("open", "↓"),
    comparison.LARGER: ("open", "↑"),
    comparison.OTHER: ("open", "≠"),
    comparison.OTHER_TASK: ("open", "≠"),
    comparison.CHOSEN: ("open", "*"),
    comparison.NOT_MEASURED: ("none", ""),
    comparison.NO_RECIPE: ("none", ""),
    comparison.NO_NUMBER: ("none", ""),
}
# maximum of lines in a drawing that stay distinct
LINES = len(SERIES)
CELLS = 24
# unit -> limits of its numbers
ENDS = {"share": (0.0, 1.0), "percent": (0.0, 100.0)}
TEMPLATES = Path(__file__).with_name("templates")


def page(reports: Sequence[TableReport], found: Collection) -> str:
    """
    Args:
        reports: tables, in order.
        found: the records that they are made from, and the files that are not records.

    Returns:
        HTML with its style and drawings inside.
    """
    import jinja2

    records = [record for _, record in found.records]
    papers: dict[str, list[TableReport]] = defaultdict(list)
    for report in reports:
        papers[report.paper.id].append(report)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    return environment.get_template("page.html.jinja").render(
        style=(TEMPLATES / "report.css").read_text(encoding="utf-8"),
        version=__version__,
        papers=papers.values(),
        authors=_names([tables[0].paper.authors for tables in papers.values()]),
        tiles=_tiles(reports, records),
        summary=(SUMMARY, summary_rows(reports)),
        skipped=found.skipped,
        rule=RULE,
        interval=INTERVAL,
        looks=LOOKS,
        compared_drawings=_comparisons,
        details=_details,
        cell=_cell,
        remarks=remarks,
        runs=_runs(records),
        unplaced=labels(runs_without_cell(records)),
    )


def _names(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _tiles(reports: Sequence[TableReport], records: Sequence[Record]) -> list[tuple[int, str]]:
    found = summarize(reports)
    tiles = [(len(records), "runs read")]
    if found:
        whole = found[-1]
        tiles += [
            (whole.with_recipe, "cells with a recipe"),
            (whole.measured, "cells measured"),
            (whole.verdicts.get(comparison.REPRODUCED, 0), comparison.REPRODUCED),
            (whole.verdicts.get(comparison.REACHED, 0), comparison.REACHED),
            (whole.verdicts.get(comparison.DIFFERS, 0), comparison.DIFFERS),
        ]
    return tiles


@dataclass(frozen=True)
class Shown:
    """A cell of a paper's table: the paper's number, ours below it, the verdict."""

    printed: str
    ours: str | None = None
    verdict: str | None = None


@dataclass(frozen=True)
class Detail:
    """A measurement of a cell, as texts; `steps` are updates, `share` their share of the paper's budget."""

    label: str
    name: str
    verdict: str
    paper: str
    ours: str
    std: str
    sem: str
    count: int
    seeds: str
    steps: str
    share: str
    difference: str
    interval: str
    devices: str


@dataclass(frozen=True)
class RunRow:
    """The runs of a recipe; `scores` has measure, mean and number of runs of each split, `cases` means."""

    name: str
    seeds: str
    scores: Mapping[str, tuple[str, str, str]]
    steps: int
    parameters: int
    seconds: float
    devices: str
    commits: str
    cases: Mapping[str, float]


@dataclass(frozen=True)
class RunGroup:
    """The runs on a benchmark and config."""

    benchmark: str
    config: str
    drawings: Sequence[Mapping[str, str]]
    rows: Sequence[RunRow]


def _cell(report: TableReport, one: Comparison) -> Shown:
    if not report.table.compared or (not one.cell.has_recipe and one.cell.mean is None):
        return Shown(one.cell.printed)
    ours = None
    if one.ours:
        std = one.ours[0].std
        ours = number(one.ours[0].centre, one.cell) + ("" if std is None else f" ± {number(std, one.cell)}")
    return Shown(one.cell.printed, ours, one.verdict)


def _details(report: TableReport) -> list[Detail]:
    """The measured cells with the details that do not fit into a table."""
    rows = []
    for one in report.measured:
        for ours, name, cells in zip(one.ours, setup_labels(one), measured_cells(one), strict=True):
            paper, mean, std, sem, _, _, difference, interval, verdict = cells
            rows.append(
                Detail(
                    label=name, name=ours.name, verdict=verdict, paper=paper, ours=mean, std=std, sem=sem,
                    count=len(ours.seeds), seeds=_seeds(ours.seeds), steps=updates(ours), share=share_of_paper(ours),
                    difference=difference, interval=interval, devices=_devices(ours.records),
                )
            )  # fmt: skip
    return rows


def _devices(records: Iterable[Record]) -> str:
    return ", ".join(sorted({record.environment.device for record in records}))


def _seeds(seeds: Sequence[int]) -> str:
    """0, 1, 2, 5 -> "0-2, 5"."""
    parts: list[list[int]] = []
    for seed in seeds:
        if parts and seed == parts[-1][-1] + 1:
            parts[-1].append(seed)
        else:
            parts.append([seed])
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def _comparisons(report: TableReport) -> list[dict[str, str]]:
    """Drawings of a table's measured cells; none if the numbers have different units."""
    points = []
    units: set[str] = set()
    for one in report.measured:
        cell = one.cell
        if cell.mean is not None and cell.unit != "count":
            units.add(cell.unit)
            points.append(Point(label(one), cell.mean, cell.spread, one.ours[0].centre, one.ours[0].std))
    if not points or len(units) > 1:
        return []
    unit = units.pop()
    spread = {"std": "standard deviations too", "sem": "standard errors"}.get(report.table.spread or "")
    theirs = f"the paper's are {spread}" if spread else "the paper prints none"
    return [
        {
            "svg": draw_comparison(
                points[start : start + CELLS], UNITS[unit], ENDS.get(unit), f"{report.table.id}-{start}"
            ),
            "name": f"{report.table.name}: the paper's numbers and ours",
            "caption": f"Our numbers and the paper's; our bars are standard deviations, {theirs}.",
        }
        for start in range(0, len(points), CELLS)
    ]


def _runs(records: Sequence[Record]) -> list[RunGroup]:
    """All runs by benchmark: curves during training, accuracy by length and by case, and a table."""
    cells = by_cell(records)
    groups: dict[tuple[str, str], list[tuple[str, list[Record]]]] = defaultdict(list)
    for name, cell in sorted(zip(labels(cells), cells, strict=True), key=lambda one: one[0]):
        data = cell[0].recipe.data
        groups[data.benchmark, data.config].append((name, cell))
    found = []
    for index, ((benchmark, config), runs) in enumerate(sorted(groups.items())):
        drawings = [
            drawing
            for start in range(0, len(runs), LINES)
            for drawing in _run_drawings(runs[start : start + LINES], f"runs{index}-{start}")
        ]
        rows = [_run_row(name, cell) for name, cell in runs]
        found.append(RunGroup(benchmark, config, drawings, rows))
    return found


def _run_drawings(runs: Sequence[tuple[str, Sequence[Record]]], prefix: str) -> list[dict[str, str]]:
    training, lengths, cases = [], [], []
    for name, records in runs:
        for split, dashed in (("test", False), ("validation", True)):
            if means := _means(point for record in records for point in record.curve(split, "accuracy")):
                training.append(Curve(name, sorted(means.items()), dashed))
        tests = [record.splits["test"] for record in records if "test" in record.splits]
        if means := _means((one.length, one.accuracy) for test in tests for one in test.by_length):
            lengths.append(Curve(name, sorted(means.items())))
        # numeric cases are on an axis; the others are in the table
        cased = [(case.partition("=")[2], one.accuracy) for test in tests for case, one in test.by_category.items()]
        if cased and all(text.isdigit() for text, _ in cased):
            cases.append(Curve(name, sorted(_means((int(text), accuracy) for text, accuracy in cased).items())))
    drawings = []
    if training:
        svg = draw_curves(training, "training step", "exact match", f"{prefix}-training")
        caption = "Generalization (solid) and IID validation (dashed) during training, means over seeds."
        drawings.append({"svg": svg, "name": "Accuracy during training", "caption": caption})
    for curves, x, kind, caption in (
        (lengths, "words of the target", "length", "Generalization split at the end, by the target's length."),
        (cases, "k", "case", "Generalization split at the end, by case."),
    ):
        if curves:
            svg = draw_curves(curves, x, "exact match", f"{prefix}-{kind}s")
            drawings.append({"svg": svg, "name": f"Accuracy by {kind}", "caption": caption})
    return drawings


def _means(points: Iterable[tuple[Place, float]]) -> dict[Place, float]:
    """Means of y by x, in the order of the points."""
    values: dict[Place, list[float]] = defaultdict(list)
    for x, y in points:
        values[x].append(y)
    return {x: sum(ys) / len(ys) for x, ys in values.items()}


def _run_row(name: str, records: Sequence[Record]) -> RunRow:
    first = records[0]
    scores = {
        split: headline([record.splits[split] for record in records if split in record.splits])
        for split in first.splits
    }
    tests = [record.splits["test"] for record in records if "test" in record.splits]
    commits = {(start.commit or "not known")[:9] for record in records for start in record.starts}
    return RunRow(
        name=name,
        seeds=_seeds(sorted({record.seed for record in records})),
        scores={split: score for split, score in scores.items() if score},
        steps=first.steps,
        parameters=first.num_parameters,
        seconds=sum(record.train_seconds for record in records) / len(records),
        devices=_devices(records),
        commits=", ".join(sorted(commits)),
        cases=_means((case, one.accuracy) for test in tests for case, one in test.by_category.items()),
    )
