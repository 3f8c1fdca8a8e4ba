"""Our numbers beside the papers', from the records in results/."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from kept import cells, kept, paths, read_perf, records_of, reports
from pictures import CLUTRR, MAIN_JOB, SLOG, by_length, printed

from hf_sysgen.data.slog.files import CASES as SLOG_CASES
from hf_sysgen.reports.comparison import CHOSEN, NO_NUMBER, OTHER_TASK, REACHED, SMALLER, Comparison, TableReport
from hf_sysgen.reports.matching import Measurement
from hf_sysgen.reports.papers import papers
from hf_sysgen.reports.report import (
    HEADER,
    SUMMARY,
    label,
    markdown_report,
    measured_cells,
    precision_remarks,
    remarks,
    rule,
    summary_rows,
)
from hf_sysgen.results.cells import PRECISION
from hf_sysgen.results.record import Record
from hf_sysgen.tables import markdown

# columns of a paper's page
SHOWN = ("cell", "paper", "ours", "verdict", "sd", "seeds", "budget", "95 % interval")
# of tables of numbers of parameters, which need no training
SIZES = ("cell", "paper", "ours", "verdict")


def _part(report: TableReport, smaller: bool) -> TableReport:
    """The table with only our measurements at a smaller budget, or only the others."""
    return replace(
        report, rows={row: tuple(_only(cell, smaller) for cell in cells) for row, cells in report.rows.items()}
    )


def _only(cell: Comparison, smaller: bool) -> Comparison:
    def with_less(ours: Measurement) -> bool:
        less = ours.budget is not None and ours.budget < 1
        return ours.verdict in (REACHED, SMALLER) or (ours.verdict in (NO_NUMBER, CHOSEN, OTHER_TASK) and less)

    return replace(cell, ours=tuple(one for one in cell.ours if with_less(one) is smaller))


def _rows(report: TableReport, shown: Sequence[str]) -> list[tuple[str, ...]]:
    """The measured cells, with these columns of `HEADER`, or `seeds`; budgets that differ in no column have one row."""
    found = []
    for one in report.measured:
        for ours, texts in zip(one.ours, measured_cells(one), strict=True):
            row = dict(zip(HEADER, (label(one), *texts), strict=True)) | {"seeds": _seeds(ours.records)}
            found.append(tuple(row[column].replace(" steps (", " steps<br>(") for column in shown))
    return list(dict.fromkeys(found))


def _seeds(records: Iterable[Record]) -> str:
    """The seeds of kept records, each with a link to its record from a page in docs/results."""
    return ", ".join(f"[{record.seed}]({paths()[id(record)]})" for record in records)


def summary() -> str:
    """A row for each paper: how many cells of its tables have a recipe, and the verdicts of the measured ones."""
    links = {paper.authors: f"[{paper.authors}]({paper.id}.md)" for paper in papers()}
    return markdown(SUMMARY, [(links.get(row[0], row[0]), *row[1:]) for row in summary_rows(reports())])


def full_budget() -> str:
    """All cells measured at the paper's budget, by table."""
    shown = ("cell", "paper", "ours", "verdict", "seeds", "95 % interval")
    return _by_table(
        (_part(one, smaller=False) for one in reports() if one.table.kind != "count"), shown, precision_remarks
    )


def sizes() -> str:
    """All numbers of parameters, by table."""
    return _by_table((one for one in reports() if one.table.kind == "count"), SIZES)


def _by_table(
    found: Iterable[TableReport], shown: Sequence[str], remarks_on: Callable[[TableReport], list[str]] = lambda _: []
) -> str:
    """The measured cells of each table, with remarks."""
    parts = []
    for one in found:
        if one.measured:
            parts += [f"[{one.paper.authors}]({one.paper.id}.md), {one.table.name}", markdown(shown, _rows(one, shown))]
            parts += remarks_on(one)
    return "\n\n".join(parts)


def verdicts() -> str:
    """The rule."""
    return rule().replace(":\n-", ":\n\n-", 1)


def paper(name: str) -> str:
    """A paper's tables: cells measured at its budget, cells measured with a smaller one, sizes, and coverage."""
    own = [report for report in reports() if report.paper.id == name]
    results = [report for report in own if report.table.kind != "count"]
    parts = []
    for title, smaller in (("At the paper's budget", False), ("With a smaller budget", True)):
        found = [part for part in (_part(report, smaller) for report in results) if part.measured]
        parts += [f"## {title}", *_tables(found, SHOWN, " (smaller budget)" * smaller)]
        if not found:
            parts.append("Nothing is measured yet.")
    if found := [report for report in own if report.table.kind == "count" and report.measured]:
        parts += ["## Numbers of parameters", *_tables(found, SIZES)]
    parts += ["## Coverage", _coverage(own)]
    return "\n\n".join(part for part in parts if part)


def _tables(found: Iterable[TableReport], shown: Sequence[str], after: str = "") -> Iterator[str]:
    for report in found:
        yield f"### {report.table.name}{after}"
        yield report.table.caption
        yield markdown(shown, _rows(report, shown))
        yield "\n".join(f"- {line}" for line in remarks(report))


def _coverage(own: Sequence[TableReport]) -> str:
    rows = [
        (
            report.table.name,
            report.table.caption,
            str(sum(cell.cell.has_recipe for cell in report)) if report.table.compared else "-",
            str(len(report.measured)) if report.table.compared else "-",
        )
        for report in own
    ]
    return markdown(("table or figure", "what it shows", "cells with a recipe", "measured"), rows, numbers=False)


def other_runs() -> str:
    """Runs that belong to no cell of a paper."""
    title = "## Runs outside the papers' tables"
    return markdown_report([], kept()).partition(title)[2].strip()


def _both_precisions() -> list[tuple[list[Record], list[Record]]]:
    """The records of each recipe that has some in float32 and some in bfloat16."""
    pairs: dict[tuple[str, str], dict[bool, list[Record]]] = defaultdict(dict)
    for cell in cells().values():
        recipe = cell[0].recipe
        if not recipe.training.fp16:
            pairs[recipe.file, recipe.cell_without(*PRECISION)][recipe.training.bf16] = cell
    both = [(pair[False], pair[True]) for pair in pairs.values() if len(pair) == 2]
    return sorted(both, key=lambda pair: pair[0][0].name)


def precisions() -> str:
    """Accuracy on the test split of every recipe with records in float32 and in bfloat16, seed by seed; in words, how
    far precisions and seeds differ."""
    both = _both_precisions()
    rows = [
        (f"`{pair[0][0].name}`", *(", ".join(f"{one.seed}: {percent(one)}" for one in cell) for cell in pair))
        for pair in both
    ]
    table = markdown(("recipe", "float32, seed: accuracy in percent", "bfloat16"), rows)
    failed = [one for pair in both for cell in pair for one in cell if not one.learned]
    sentences = [
        f"`{one.name}` with seed {one.seed} did not learn: its training loss ended at {one.losses[-1]:.1f}."
        for one in failed
    ]
    # of each recipe: differences between runs of one seed, and the range of its seeds in one precision
    same: list[float] = []
    ranges: list[float] = []
    for full, half in ([[one for one in cell if one.learned] for cell in pair] for pair in both):
        found = {one.seed: _accuracy(one) for one in full}
        pairs = [_accuracy(one) - found[one.seed] for one in half if one.seed in found]
        same += pairs
        if pairs:
            scores = [[_accuracy(one) for one in cell] for cell in (full, half)]
            ranges += [max(own) - min(own) for own in scores if len(own) > 1]
    if same:
        sentences.append(
            f"Over {len(same)} pairs of one seed, bfloat16 minus float32 is {min(same):+.1f} to {max(same):+.1f} "
            "points."
        )
    if ranges:
        sentences.append(
            f"In one precision, seeds of these recipes differ by up to {max(ranges):.1f} points, so the pairs do not "
            "tell a small loss from chance."
        )
    return f"{table}\n\n{' '.join(sentences)}"


def _accuracy(record: Record) -> float:
    """On the test split, in percent."""
    return 100 * (record.splits["test"].accuracy or 0)


def percent(record: Record) -> str:
    return f"{_accuracy(record):.1f}"


def stories() -> str:
    """CLUTRR by the number of relations: a row for each model and setup, a column for each k."""
    edge = records_of(CLUTRR["Edge Transformer"][0])
    counts = edge[0].splits["test"].by_category
    lengths = list(by_length(edge))
    rows = []
    for model, files in CLUTRR.items():
        if theirs := printed(files[0]):
            texts = [theirs[k].printed if k in theirs else "-" for k in lengths]
            rows.append((f"{model}, paper", str(next(iter(theirs.values())).seeds), "", *texts))
        ours = [("ours", files[0], False), ("ours, bfloat16", files[0], True)]
        for setup, file, bf16 in [*ours, *(("ours, small", file, False) for file in files[1:])]:
            own = records_of(file, bf16)
            for after, records in (
                ("", [one for one in own if one.learned]),
                (", did not learn", [one for one in own if not one.learned]),
            ):
                if records:
                    texts = [_spread(values) for values in by_length(records).values()]
                    size = f"{records[0].num_parameters:,}"
                    rows.append((f"{model}, {setup}{after}", str(len(records)), size, *texts))
    rows.append(("test stories", "", "", *(str(counts[f"k={k}"].examples) for k in lengths)))
    return markdown(("trained on k = 2, 3, 4", "runs", "parameters", *(f"k = {k}" for k in lengths)), rows)


def _spread(values: Sequence[float], digits: int = 1) -> str:
    deviation = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.{digits}f}{deviation}"


def slog() -> str:
    """Exact match by structural case: a row for each case, a column for each variant with its number of seeds."""
    runs = {label: records for label, file in SLOG.items() if (records := records_of(file))}
    header = ("case", *(f"{label} ({len(records)})" for label, records in runs.items()))
    rows = [("all", *(_spread([100 * (one.splits["test"].accuracy or 0.0) for one in own]) for own in runs.values()))]
    for case in SLOG_CASES:
        accuracies = ([100 * one.splits["test"].by_category[case].accuracy for one in own] for own in runs.values())
        rows.append((f"`{case}`", *map(_spread, accuracies)))
    return markdown(header, rows)


def main_job() -> str:
    """The results of `make run`."""
    rows = []
    for file in MAIN_JOB:
        records = records_of(file)
        shares = [_percent(records, split, "accuracy") for split in ("validation", "test")]
        oracle = _percent(records, "test", "accuracy_oracle")
        seeds = ", ".join(str(record.seed) for record in records)
        rows.append((f"`{records[0].recipe.model.type}`", *shares, oracle, seeds))
    header = ("model", "IID", "longer than 26", "longer, oracle length", "seeds")
    return markdown(header, rows)


def _percent(records: Sequence[Record], split: str, metric: str) -> str:
    return f"{100 * statistics.fmean(record.splits[split].metrics[metric] or 0.0 for record in records):.1f} %"


def fairseq_conv() -> str:
    """Exact match and training loss of ConvS2S beside fairseq's, from perf/fairseq_conv.json."""
    from scipy.stats import ttest_ind

    rows = read_perf("fairseq_conv")["results"]
    table = []
    for seed, some in [*((str(row["seed"]), [row]) for row in rows), ("mean ± sd", rows)]:
        exact = [_spread([100 * row[name] for row in some]) for name in ("ours", "fairseq")]
        losses = [_spread([row[f"{name}_training_loss"] for row in some], 4) for name in ("ours", "fairseq")]
        table.append((seed, *exact, *losses))
    header = ("seed", "ours", "fairseq", "ours, training loss", "fairseq, training loss")
    ours, theirs = ([100 * row[name] for row in rows] for name in ("ours", "fairseq"))
    difference = ttest_ind(theirs, ours, equal_var=False)
    low, high = difference.confidence_interval()
    note = (
        f"fairseq's mean less ours: {statistics.fmean(theirs) - statistics.fmean(ours):+.1f} points, 95 % interval "
        f"{low:.1f} to {high:+.1f} (Welch's t-test: p = {difference.pvalue:.2f})."
    )
    return f"{markdown(header, table)}\n\n{note}"


TABLES = (summary, full_budget, sizes, verdicts, paper, other_runs, stories, precisions, slog, main_job, fairseq_conv)
