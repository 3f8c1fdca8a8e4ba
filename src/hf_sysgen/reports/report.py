"""Reports as tables for the terminal and in Markdown."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from hf_sysgen.reports.comparison import (
    DIFFERS,
    INTERVAL,
    REACHED,
    REPRODUCED,
    RULE,
    Comparison,
    TableReport,
    summarize,
)
from hf_sysgen.reports.matching import Measurement, runs_without_cell
from hf_sysgen.reports.papers import Cell, Table
from hf_sysgen.results.cells import labels
from hf_sysgen.results.reading import Collection
from hf_sysgen.results.record import Record, SplitMetrics
from hf_sysgen.tables import counted, markdown, plain, plain_cell, table

HEADER = ("cell", "paper", "ours", "sd", "SEM", "runs", "budget", "difference", "95 % interval", "verdict")
OTHER_HEADER = ("run", "split", "measure", "mean", "runs")

# this sentence stands in place of the rule
ELSEWHERE = "What the verdicts mean is in the report that `hf-sysgen report all` writes."

UNITS = {
    "share": "share of examples",
    "percent": "percent",
    "bleu": "BLEU",
    "perplexity": "perplexity",
}


def number(value: float | None, cell: Cell, signed: bool = False) -> str:
    """A number in the cell's unit, with one digit more than the paper prints; "-" for `None`."""
    if value is None:
        return "-"
    sign = "+" if signed else ""
    if cell.unit == "count":
        return f"{value:{sign},.0f}"
    printed = cell.printed.partition(" ")[0].partition(".")[2]
    return f"{value:{sign}.{len(printed) + 1 if printed else {'share': 3}.get(cell.unit, 1)}f}"


def updates(one: Measurement) -> str:
    """Our number of training steps: "3,500 steps"."""
    return " to ".join(f"{steps:,}" for steps in sorted(set(one.steps))) + " steps"


def share_of_paper(one: Measurement) -> str:
    """The steps of the paper's setup and our share of its examples, where known: "paper: 50,000; 1.8% of examples"."""
    steps = "" if one.paper_steps is None else f"paper: {one.paper_steps:,}"
    share = "" if one.budget is None else f"{one.budget:.{0 if one.budget >= 0.1 else 1}%} of examples"
    return "; ".join(filter(None, (steps, share)))


def budget(one: Measurement) -> str:
    """Both: "3,500 steps (paper: 50,000; 1.8% of examples)"."""
    share = share_of_paper(one)
    return updates(one) + (f" ({share})" if share else "")


def measured_cells(comparison: Comparison) -> Iterator[tuple[str, ...]]:
    """For each of our measurements of a cell, the columns of `HEADER` after the first."""
    cell = comparison.cell
    for one in comparison.ours:
        yield (
            cell.printed or "-",
            number(one.centre, cell),
            number(one.std, cell),
            number(one.sem, cell),
            str(len(one.values)),
            budget(one),
            number(one.difference, cell, signed=True),
            "-" if one.interval is None else " to ".join(number(end, cell, signed=True) for end in one.interval),
            one.verdict,
        )


def label(comparison: Comparison) -> str:
    return f"{comparison.cell.row}, {comparison.cell.column}"


def setup_labels(comparison: Comparison) -> list[str]:
    """The label of each measurement of a cell, with the fields of model and data in which they differ in brackets."""
    changed = [[text for text in one.changes if text.startswith(("model.", "data."))] for one in comparison.ours]
    labels = []
    for texts in changed:
        own = [text for text in texts if not all(text in others for others in changed)]
        # "model.field ours (paper: theirs)"
        said = ", ".join(text.partition(".")[2].partition(" (paper: ")[0] for text in own)
        labels.append(label(comparison) + (f" [{said}]" if said else ""))
    return labels


def rows_of(report: TableReport, measured_only: bool = False) -> list[tuple[str, ...]]:
    """The rows of a table under `HEADER`: one for each measurement, or why a cell has none."""
    rows: list[tuple[str, ...]] = []
    for comparison in report.measured if measured_only else report:
        if comparison.ours:
            rows += [
                (name, *cells) for name, cells in zip(setup_labels(comparison), measured_cells(comparison), strict=True)
            ]
        elif report.table.compared:
            rows.append((label(comparison), comparison.cell.printed or "-", *["-"] * 7, comparison.verdict))
        else:
            rows.append((label(comparison), comparison.cell.printed or "-", *["-"] * 7, "not compared"))
    return rows


SUMMARY = ("paper", "cells with a recipe", "measured", "reproduced", "reached with less", "differs", "other", "sizes")


def summary_rows(reports: Sequence[TableReport]) -> list[tuple[str, ...]]:
    """The rows under `SUMMARY`: a paper each, and all; sizes are numbers of parameters, which need no training."""
    return [
        (
            one.name,
            f"{one.with_recipe:,}",
            str(one.measured),
            *(str(one.verdicts.get(verdict, 0)) for verdict in (REPRODUCED, REACHED, DIFFERS)),
            str(one.others),
            str(one.counts),
        )
        for one in summarize(reports)
    ]


def title(report: TableReport) -> str:
    return f"{report.paper.authors}, {report.table.name}"


def remarks(report: TableReport) -> list[str]:
    """Remarks on a table: how its numbers are made, notes, errata, our changes."""
    one = report.table
    lines = []
    if one.kind == "results" and one.cells:
        unit = " or ".join(dict.fromkeys(UNITS[cell.cell.unit] for cell in report))
        spread = {"std": ", ± standard deviation", "sem": ", ± standard error"}.get(one.spread or "", "")
        lines.append(f"The paper's numbers: {unit}, {one.statistic}{spread}{_runs(one)}".removesuffix(".") + ".")
    lines += one.notes
    lines += [f"Erratum: {text}" for text in one.errata]
    lines += _by_run("Differs from the paper's setup", [(one, ", ".join(one.changes)) for one in _trained(report)])
    return lines + precision_remarks(report)


def precision_remarks(report: TableReport) -> list[str]:
    """Which of our runs are in another precision than the paper's."""
    return _by_run("Precision", [(one, one.precision) for one in _trained(report)])


def _trained(report: TableReport) -> list[Measurement]:
    """The measurements that training matters for: parameters are counted before it."""
    return [ours for cell in report for ours in cell.ours if report.table.kind != "count"]


def _by_run(what: str, texts: Sequence[tuple[Measurement, str]]) -> list[str]:
    """A line for each text that is not empty, with the runs that it is true of, many of a recipe as a count."""
    # the same runs may fill several cells
    recipes = {one.name: Path(one.records[0].file).name for one, _ in texts}
    setups = Counter(recipes.values())
    true_of: dict[str, set[str]] = {}
    for one, text in texts:
        if text:
            true_of.setdefault(text, set()).add(one.name)
    lines = []
    for text, names in true_of.items():
        parts = []
        # overrides -> the recipes that they are of
        alike: dict[str, list[str]] = {}
        for recipe, count in sorted(Counter(recipes[name] for name in names).items()):
            if count == setups[recipe]:
                parts.append(recipe)
            elif count > 2:
                parts.append(f"{recipe} ({count} of {setups[recipe]} setups)")
            else:
                for name in sorted(name for name in names if recipes[name] == recipe):
                    alike.setdefault(name.removeprefix(recipe).removeprefix(","), []).append(recipe)
        for words, found in alike.items():
            each = ", each" if len(found) > 1 else ""
            parts.append(", ".join(found) + f"{each} {f'with {words}' if words else 'without overrides'}")
        lines.append(f"{what}, {'; '.join(parts)}: {text}.")
    return sorted(lines)


def _runs(table: Table) -> str:
    """The number of runs behind a table's numbers, and the rows with another number."""
    others: dict[int | None, list[str]] = {}
    for row, cells in table.cells.items():
        if cells[0].seeds != table.seeds:
            others.setdefault(cells[0].seeds, []).append(row)
    text = "" if table.seeds is None else f", {counted(table.seeds, 'run')}"
    for seeds, rows in others.items():
        text += f"; {'not stated' if seeds is None else counted(seeds, 'run')} of {', '.join(rows)}"
    return text


def rule() -> str:
    """The rule of the verdicts, as plain text that is also Markdown."""
    return "\n".join(
        ["Verdicts (the first one that holds):", *(f"- {name}: {text}" for name, text in RULE.items()), "", INTERVAL]
    )


def terminal_report(reports: Sequence[TableReport], found: Collection, with_rule: bool = False) -> str:
    """Tables for the terminal, with every cell; below, the rule or where it is; and the files that were skipped."""
    parts = []
    for report in reports:
        head = f"{title(report)} ({report.table.id}). {report.table.caption}"
        body = table(HEADER, rows_of(report)) if report.rows else "no numbers"
        parts.append("\n".join([head, body, *remarks(report)]))
    if any(report.table.compared for report in reports):
        parts += [table(SUMMARY, summary_rows(reports)), rule() if with_rule else ELSEWHERE]
    return "\n\n".join([*parts, *_skipped(found)])


def markdown_report(reports: Sequence[TableReport], found: Collection) -> str:
    """Markdown: the cells that were measured, table by table, which tables have none, and runs outside the tables."""
    parts = ["# Our results and the papers'"]
    if rows := summary_rows(reports):
        parts.append(markdown(SUMMARY, rows))
    parts.append(rule())
    for report in reports:
        if report.measured:
            able = sum(cell.cell.has_recipe for cell in report)
            parts += [
                f"## {title(report)}",
                report.table.caption,
                markdown(HEADER, _plain(rows_of(report, measured_only=True))),
                "\n".join(f"- {plain(line)}" for line in remarks(report)),
                f"{len(report.measured)} of {able} cells with a recipe are measured.",
            ]
    missing = [title(report) for report in reports if report.table.compared and not report.measured]
    if missing:
        parts.append(f"Not measured at all: {'; '.join(missing)}.")
    if others := list(_other_runs(record for _, record in found.records)):
        parts += ["## Runs outside the papers' tables", markdown(OTHER_HEADER, _plain(others))]
    return "\n\n".join([*parts, *map(plain, _skipped(found))]) + "\n"


def _plain(rows: Iterable[Sequence[str]]) -> Iterator[list[str]]:
    return ([plain_cell(cell) for cell in row] for row in rows)


def _other_runs(records: Iterable[Record]) -> Iterator[tuple[str, ...]]:
    cells = runs_without_cell(records)
    for name, cell in zip(labels(cells), cells, strict=True):
        for split in cell[0].splits:
            found = headline([one.splits[split] for one in cell if split in one.splits])
            if found:
                measure, mean, runs = found
                yield (name, split, measure, mean, runs + without_learning(cell))


def without_learning(runs: Iterable[Record]) -> str:
    """How many runs did not learn, in brackets, to stand behind the number of runs; nothing if all did."""
    failed = sum(not one.learned for one in runs)
    return f" ({failed} did not learn)" if failed else ""


def headline(runs: Sequence[SplitMetrics]) -> tuple[str, str, str] | None:
    """
    The main measure of a split: its name, its mean and the number of runs.

    Args:
        runs: the metrics of each run on the split.

    Returns:
        `None` if no run has a number.
    """
    measure = next((name for name in ("perplexity", "bleu") if name in runs[0].metrics), "accuracy")
    values = [value for one in runs if (value := one.metrics.get(measure)) is not None]
    if not values:
        return None
    return measure, f"{statistics.fmean(values):.{3 if measure == 'accuracy' else 1}f}", str(len(values))


def _skipped(found: Collection) -> list[str]:
    return ["Skipped:\n" + "\n".join(f"- {line}" for line in found.skipped)] if found.skipped else []
