"""The report as one page that needs nothing but a browser: no script, no file beside it, no request."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from hf_sysgen.reports import comparison as reproduction
from hf_sysgen.reports.comparison import INTERVAL, RULE, Collection, Comparison, TableReport, unplaced
from hf_sysgen.reports.curves import SERIES, Curve, Point, draw_comparison, draw_curves
from hf_sysgen.reports.report import UNITS, headline, label, measured_cells, number, remarks

# what a verdict looks like: a class of the style, and a sign, so that colour is not needed
LOOKS = {
    reproduction.REPRODUCED: ("good", "✓"),
    reproduction.DIFFERS: ("bad", "✗"),
    reproduction.OPEN: ("open", "?"),
    reproduction.SINGLE: ("open", "1"),
    reproduction.SMALLER: ("open", "↓"),
    reproduction.LARGER: ("open", "↑"),
    reproduction.OTHER: ("open", "≠"),
    reproduction.NOT_MEASURED: ("none", ""),
    reproduction.NO_RECIPE: ("none", ""),
    reproduction.NO_NUMBER: ("none", ""),
}
# no more lines in one drawing than can be told apart
LINES = len(SERIES)
CELLS = 24
# between what numbers of a unit lie
ENDS = {"share": (0.0, 1.0), "percent": (0.0, 100.0)}

STYLE = Path(__file__).with_name("templates") / "report.css"


def page(reports: Sequence[TableReport], found: Collection) -> str:
    """
    Args:
        reports: tables in the order in which they shall stand.
        found: the records that they were made of, and the files that were none.

    Returns:
        HTML with its style and drawings inside.
    """
    from hf_sysgen import __version__

    records = [record for _, record in found.records]
    by_paper: dict[str, list[TableReport]] = defaultdict(list)
    for report in reports:
        by_paper[report.paper.id].append(report)
    about = (
        f"Tables and figures of {_names(by_paper)}: what the paper prints, what our runs gave, the difference, and "
        "whether it is the same. Each cell has the paper's number above ours."
    )
    body = [
        '<a class="skip" href="#papers">Skip to the tables</a>',
        f"<header><h1>Ours beside the papers</h1><p>{about}</p></header>",
        "<main>",
        _summary(reports, records),
        _skipped(found),
        _rule(),
        _contents(by_paper),
        '<div id="papers">',
        *(_paper(tables) for tables in by_paper.values()),
        "</div>",
        _runs(records),
        "</main>",
        f"<footer>Written by hf-sysgen {escape(__version__)} from results records alone.</footer>",
    ]
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,"><title>Ours beside the papers</title>'
    )
    content = "\n".join(part for part in body if part)
    style = f"<style>\n{STYLE.read_text(encoding='utf-8')}</style>"
    return f'<!doctype html>\n<html lang="en"><head>{head}{style}</head>\n<body>\n{content}\n</body></html>\n'


def _names(by_paper: Mapping[str, Sequence[TableReport]]) -> str:
    names = [escape(tables[0].paper.authors) for tables in by_paper.values()]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _summary(reports: Sequence[TableReport], records: Sequence[Mapping[str, Any]]) -> str:
    cells = [cell for report in reports if report.table.compared for cell in report]
    with_recipe = sum(cell.cell.run is not None for cell in cells)
    counts: dict[str, int] = defaultdict(int)
    for cell in cells:
        if cell.ours:
            counts[cell.verdict] += 1
    tiles = [
        (len(records), "runs read"),
        (sum(cell.cell.mean is not None for cell in cells), "numbers in the papers' tables"),
        (with_recipe, "cells with a recipe"),
        (sum(counts.values()), "cells measured"),
        *((count, verdict) for verdict, count in sorted(counts.items(), key=lambda item: -item[1])),
    ]
    items = "".join(f"<li><b>{count:,}</b>{escape(text)}</li>" for count, text in tiles)
    return f'<ul class="tiles">{items}</ul>'


def _skipped(found: Collection) -> str:
    if not found.skipped:
        return ""
    items = "".join(f"<li>{escape(line)}</li>" for line in found.skipped)
    head = f"<b>Skipped: {len(found.skipped)}</b>"
    return f'<section class="warn" aria-label="Skipped files">{head}<ul>{items}</ul></section>'


def _rule() -> str:
    terms = "".join(
        f'<dt class="{LOOKS[name][0]}">{LOOKS[name][1]} {escape(name)}</dt><dd>{escape(text)}</dd>'
        for name, text in RULE.items()
    )
    return (
        '<section aria-labelledby="rule"><h2 id="rule">Verdicts</h2><p>The first that holds:</p>'
        f"<dl>{terms}</dl><p>{escape(INTERVAL)}</p></section>"
    )


def _contents(by_paper: Mapping[str, Sequence[TableReport]]) -> str:
    parts = []
    for tables in by_paper.values():
        items = []
        for report in tables:
            done, able = len(report.measured), sum(cell.cell.run is not None for cell in report)
            count = f' <span class="quiet">{done}/{able}</span>' if able else ""
            name = f'<a href="#{report.table.id}">{escape(report.table.name)}</a>'
            items.append(f"<li>{f'<b>{name}</b>' if done else name}{count}</li>")
        parts.append(f"<h3>{escape(tables[0].paper.authors)}</h3><ul>{''.join(items)}</ul>")
    hint = '<p class="quiet">Beside a table: cells measured of those with a recipe.</p>'
    return f'<nav aria-label="Tables"><h2>Contents</h2>{hint}{"".join(parts)}</nav>'


def _paper(tables: Sequence[TableReport]) -> str:
    paper = tables[0].paper
    inside = "\n".join(_table(report) for report in tables)
    head = f'<h2 id="{paper.id}">{escape(paper.authors)}: {escape(paper.title)}</h2>'
    return f'<section aria-labelledby="{paper.id}">{head}\n{inside}</section>'


def _table(report: TableReport) -> str:
    parts = [f'<h3 id="{report.table.id}">{escape(report.table.name)}</h3>', f"<p>{escape(report.table.caption)}</p>"]
    if report.rows:
        parts.append(_grid(report))
    if report.measured:
        parts += [_comparison(report), _details(report)]
    lines = remarks(report)
    if lines:
        parts.append(f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>")
    return "\n".join(parts)


def _scroll(name: str, table: str) -> str:
    """A table that scrolls by itself where it is wider than the page, also by keyboard."""
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(name)}">{table}</div>'


def _rows(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of HTML cells, its first column heads."""
    head = "".join(f'<th scope="col">{text}</th>' for text in header)
    lines = (
        f'<tr><th scope="row">{first}</th>'
        + "".join(cell if cell.startswith("<td") else f"<td>{cell}</td>" for cell in rest)
        + "</tr>"
        for first, *rest in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _grid(report: TableReport) -> str:
    """The table as the paper has it, ours in its cells."""
    rows = [(escape(row), *(_cell(report, cell) for cell in cells)) for row, cells in report.rows.items()]
    header = ("", *(escape(column) for column in report.table.columns))
    return _scroll(f"{report.paper.authors}, {report.table.name}", _rows(header, rows))


def _cell(report: TableReport, comparison: Comparison) -> str:
    printed = escape(comparison.cell.printed) or '<span class="quiet">-</span>'
    if not report.table.compared or (not comparison.cell.run and comparison.cell.mean is None):
        return f"<td>{printed}</td>"
    look, sign = LOOKS[comparison.verdict]
    ours = ""
    if comparison.ours:
        one = comparison.ours[0]
        spread = "" if one.std is None else f" ± {number(one.std, comparison.cell)}"
        ours = f'<span class="ours">{number(comparison.centres[0], comparison.cell)}{spread}</span>'
    return f'<td>{printed}{ours}<small class="{look}">{sign} {escape(comparison.verdict)}</small></td>'


def _details(report: TableReport) -> str:
    """The measured cells with all that the grid has no room for."""
    rows = []
    for comparison in report.measured:
        for one, cells in zip(comparison.ours, measured_cells(comparison), strict=True):
            paper, ours, std, sem, _, spent, difference, interval, verdict = map(escape, cells)
            look, sign = LOOKS[cells[-1]]
            steps, _, share = spent.partition(" (")
            rows.append(
                (
                    f'{escape(label(comparison))}<small class="quiet">{escape(one.name)}</small>',
                    f'<td class="{look}">{sign} {verdict}</td>',
                    paper, ours, std, sem,
                    f"{len(one.seeds)}<small>seed{'s' * (len(one.seeds) > 1)} {_seeds(one.seeds)}</small>",
                    f"{steps}<small>{share.rstrip(')')}</small>",
                    difference, interval,
                    escape(", ".join(sorted({record["device"] for record in one.records}))),
                )
            )  # fmt: skip
    header = (
        "cell",
        "verdict",
        "paper",
        "ours",
        "sd",
        "SEM",
        "runs",
        "budget",
        "difference",
        "95 % interval",
        "hardware",
    )
    table = _scroll(f"{report.paper.authors}, {report.table.name}, measured cells", _rows(header, rows))
    return f"<details open><summary>Measured cells: {len(report.measured)}</summary>{table}</details>"


def _seeds(seeds: Sequence[int]) -> str:
    """0, 1, 2, 5 -> "0-2, 5"."""
    parts: list[list[int]] = []
    for seed in seeds:
        if parts and seed == parts[-1][-1] + 1:
            parts[-1].append(seed)
        else:
            parts.append([seed])
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def _comparison(report: TableReport) -> str:
    points = []
    units: set[str] = set()
    for comparison in report.measured:
        cell, one = comparison.cell, comparison.ours[0]
        if cell.mean is not None and cell.unit != "count":
            units.add(cell.unit)
            points.append(Point(label(comparison), cell.mean, cell.spread, comparison.centres[0], one.std))
    # numbers of several units have no common axis
    if not points or len(units) > 1:
        return ""
    unit = units.pop()
    spread = {"std": "standard deviations too", "sem": "standard errors"}.get(report.table.spread or "")
    theirs = f"the paper's are {spread}" if spread else "the paper prints none"
    drawings = [
        _drawing(
            draw_comparison(points[start : start + CELLS], UNITS[unit], ENDS.get(unit), f"{report.table.id}-{start}"),
            f"{report.table.name}: the paper's numbers and ours",
            f"Ours beside the paper's; our bars are standard deviations, {theirs}.",
        )
        for start in range(0, len(points), CELLS)
    ]
    return f'<div class="drawings">{"".join(drawings)}</div>'


def _drawing(svg: str, name: str, caption: str) -> str:
    svg = svg.replace("<svg", f'<svg role="img" aria-label="{escape(name)}"', 1)
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def _runs(records: Sequence[Mapping[str, Any]]) -> str:
    """All runs by benchmark: curves over training, by length and by case, and a table."""
    if not records:
        return '<section aria-labelledby="runs"><h2 id="runs">Runs</h2><p>No results were found.</p></section>'
    groups: dict[tuple[str, str], dict[str, list[Mapping[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        recipe = record["recipe"]
        groups[str(recipe.get("benchmark", "?")), str(recipe.get("config", "?"))][record["name"]].append(record)
    parts = ['<section aria-labelledby="runs"><h2 id="runs">Runs</h2>']
    for index, ((benchmark, config), runs) in enumerate(sorted(groups.items())):
        parts.append(f"<h3>{escape(benchmark)}, {escape(config)}</h3>")
        drawings = []
        names = sorted(runs)
        for start in range(0, len(names), LINES):
            some = {name: runs[name] for name in names[start : start + LINES]}
            drawings += _run_drawings(some, f"runs{index}-{start}")
        parts += [f'<div class="drawings">{"".join(drawings)}</div>', _run_table(runs)]
    lost = unplaced(records)
    if lost:
        items = "".join(f"<li>{escape(name)}</li>" for name in lost)
        parts.append(f"<h3>Runs that make no cell of any table</h3><ul>{items}</ul>")
    return "\n".join([*parts, "</section>"])


def _run_drawings(runs: Mapping[str, Sequence[Mapping[str, Any]]], prefix: str) -> list[str]:
    training, lengths, cases = [], [], []
    for name, records in runs.items():
        for split, dashed in (("test", False), ("validation", True)):
            key = f"eval_{split}_accuracy"
            points = _means((entry["step"], entry.get(key)) for record in records for entry in record["history"])
            if points:
                training.append(Curve(name, points, dashed))
        tests = [record["splits"].get("test", {}) for record in records]
        if points := _means((length, share) for test in tests for length, _, share in test.get("by_length", ())):
            lengths.append(Curve(name, points))
        by_case: dict[str, list[float]] = defaultdict(list)
        for test in tests:
            for case, (_, share) in test.get("by_category", {}).items():
                by_case[case].append(share)
        # cases that are numbers have an axis; the others are in the records
        numbered = {case: case.partition("=")[2] for case in by_case}
        if by_case and all(text.isdigit() for text in numbered.values()):
            cases.append(
                Curve(name, sorted((float(numbered[case]), sum(all_) / len(all_)) for case, all_ in by_case.items()))
            )
    drawings = []
    if training:
        svg = draw_curves(training, "training step", "exact match", f"{prefix}-training")
        caption = "Generalization (full lines) and IID validation (dashed) during training, means over seeds."
        drawings.append(_drawing(svg, "Accuracy during training", caption))
    if lengths:
        svg = draw_curves(lengths, "words of the target", "exact match", f"{prefix}-lengths")
        drawings.append(_drawing(svg, "Accuracy by length", "Generalization split at the end, by the target's length."))
    if cases:
        svg = draw_curves(cases, "k", "accuracy", f"{prefix}-cases")
        drawings.append(_drawing(svg, "Accuracy by case", "Generalization split at the end, by case."))
    return drawings


def _means(points: Iterable[tuple[float, float | None]]) -> list[tuple[float, float]]:
    """Means of y by x, in order of x; points without a y are left out."""
    values: dict[float, list[float]] = defaultdict(list)
    for x, y in points:
        if y is not None:
            values[x].append(y)
    return [(x, sum(ys) / len(ys)) for x, ys in sorted(values.items())]


def _run_table(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    rows = []
    for name, records in sorted(runs.items()):
        first = records[0]
        seconds = sum(record["train_seconds"] for record in records) / len(records)
        commits = sorted({(record["git_commit"] or "not known")[:9] for record in records})
        splits = []
        for split in first["splits"]:
            found = headline([record["splits"][split] for record in records if split in record["splits"]])
            if found:
                splits.append(f"{escape(split)}: {found[0]} {found[1]}")
        cases = _case_list(first)
        rows.append(
            (
                escape(name),
                _seeds(sorted({record["seed"] for record in records})),
                "<br>".join(splits),
                f"{first['steps']:,}",
                f"{first['num_parameters']:,}",
                f"{seconds:,.0f} s",
                escape(", ".join(sorted({record["device"] for record in records}))),
                ", ".join(commits),
                cases,
            )
        )
    header = ("run", "seeds", "score", "steps", "parameters", "training", "hardware", "commit", "by case")
    return _scroll("Runs", _rows(header, rows))


def _case_list(record: Mapping[str, Any]) -> str:
    """Accuracy by generalization case, of the first seed."""
    cases = record["splits"].get("test", {}).get("by_category", {})
    if not cases:
        return "-"
    items = "<br>".join(f"{escape(case)} {share:.3f}" for case, (_, share) in cases.items())
    return f"<details><summary>{len(cases)} cases</summary>{items}</details>"
