"""
Accuracy on CLUTRR by the number of relations k of a story, ours beside Figure 3 and Table 5 of Bergen et al. 2021: a
table and a picture, made from kept records by readme_tables.py.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from kept_records import ROOT, in_order, kept_cells

from hf_sysgen.analysis.plotting import COLOURS, MARKERS, save
from hf_sysgen.reports.papers import Cell, find_tables
from hf_sysgen.results.record import Record
from hf_sysgen.tables import markdown

# recipes of the paper's setup, and what the models are called in its figure; small ones beside them end in `QUICK`
MODELS = {
    "clutrr_edge_234": "Edge Transformer", "clutrr_rat_234": "RAT", "clutrr_rrat_234": "RRAT", "clutrr_gat_234": "GAT",
}  # fmt: skip
QUICK = "_quick"


def by_length(records: Sequence[Record]) -> dict[int, list[float]]:
    """k -> percent right of the test stories of that length, a number for each record."""
    splits = [record.splits["test"].by_category for record in records]
    keys = sorted(splits[0], key=in_order)
    return {int(key.removeprefix("k=")): [100 * split[key].accuracy for split in splits] for key in keys}


def printed(name: str) -> dict[int, Cell]:
    """k -> the paper's number of a recipe as it stands, where it prints one."""
    cells = (cell for _, table in find_tables("bergen2021-table5") for cell in table)
    return {int(cell.column): cell for cell in cells if cell.run and str(cell.run) == name}


def story_table() -> str:
    """A row for each model and setup, a column for each k."""
    cells = kept_cells()
    counts = cells[next(iter(MODELS))][0].splits["test"].by_category
    lengths = list(by_length(cells[next(iter(MODELS))]))
    rows = []
    for name, model in MODELS.items():
        if theirs := printed(name):
            texts = [theirs[k].printed if k in theirs else "-" for k in lengths]
            rows.append((f"{model}, paper", str(next(iter(theirs.values())).seeds), "", *texts))
        for setup, kept in (("ours", name), ("ours, quick", name + QUICK)):
            if records := cells.get(kept, []):
                texts = [_spread(values) for values in by_length(records).values()]
                rows.append((f"{model}, {setup}", str(len(records)), f"{records[0].num_parameters:,}", *texts))
    rows.append(("stories", "", "", *(str(counts[f"k={k}"].examples) for k in lengths)))
    header = ("trained on k = 2, 3, 4", "runs", "parameters", *(f"k = {k}" for k in lengths))
    return f"{markdown(header, rows)}\n\n{_note(cells)}"


def _spread(values: Sequence[float]) -> str:
    deviation = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.1f}{deviation}"


def _note(cells: Mapping[str, list[Record]]) -> str:
    recipes = sorted(path.stem for path in (ROOT / "recipes").glob("*/clutrr_*.yaml"))
    missing = [f"`{name}`" for name in recipes if not name.endswith(QUICK) and name not in cells]
    return (
        "Percent right of CLUTRR's test stories of k relations. Paper: Table 5, mean ± standard error; its Figure 3 "
        "draws all k of all models, without numbers. Ours: at the paper's setup (of GAT, for which it names none, that "
        "of its authors), and quick: small models with a smaller budget (`recipes/bergen2021/clutrr_*_quick.yaml`); of "
        "several seeds mean ± standard deviation."
    ) + (f" Not measured yet: {', '.join(missing)}." if missing else "")


def draw_stories(path: Path) -> None:
    """The paper's setup beside the small models: means over seeds with their range, and what the paper prints."""
    from matplotlib.figure import Figure

    cells = kept_cells()
    figure = Figure(figsize=(9.2, 4.0), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for number, ((name, model), colour, marker) in enumerate(zip(MODELS.items(), COLOURS, MARKERS, strict=False)):
        # beside each other, or they hide one another
        shift = 0.1 * (number - 1)
        for axes, kept, width in zip(panels, (name, name + QUICK), (1.8, 1.0), strict=True):
            if kept not in cells:
                continue
            found = by_length(cells[kept])
            means = [statistics.fmean(values) for values in found.values()]
            places = [k + shift for k in found]
            axes.vlines(places, [*map(min, found.values())], [*map(max, found.values())], color=colour, linewidth=0.9)
            axes.plot(places, means, marker=marker, color=colour, linewidth=width, markersize=4.5,
                      label=f"{model}, {_seeds(cells[kept])}")  # fmt: skip
        if theirs := printed(name):
            means, errors = ([getattr(cell, key) for cell in theirs.values()] for key in ("mean", "spread"))
            panels[0].errorbar(
                [k + shift for k in theirs], means, yerr=errors, fmt=marker, color=colour, markerfacecolor="white",
                markersize=7, elinewidth=1, capsize=2.5, zorder=3,
                label=f"{model}, the paper's Table 5 (± standard error)",
            )  # fmt: skip
    small = _seeds(cells[next(iter(MODELS)) + QUICK])
    for axes, title in zip(panels, ("the paper's setup", f"small models, {small}"), strict=True):
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("relations in a test story, k (2, 3 and 4 in training)")
        axes.set_xticks(list(found))
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("percent right")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    save(figure, path)


def _seeds(records: Sequence[Record]) -> str:
    if len(records) == 1:
        return f"seed {records[0].seed}"
    return f"mean and range of {len(records)} seeds"
