"""
Plots of the kept records. The site's plots are drawn when it is built. `python docs/_generate/pictures.py` redraws the
README's plot, which is kept in the repository.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import growth_tables
from kept import ROOT, kept, records_of

from hf_sysgen.analysis import commands
from hf_sysgen.analysis.by_data import accuracies_by_relations
from hf_sysgen.analysis.plot import plot_biases
from hf_sysgen.analysis.plotting import COLOURS, MARKERS, save
from hf_sysgen.reports.curves import plot_accuracies
from hf_sysgen.reports.papers import Cell, find_tables
from hf_sysgen.results.record import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# models by their names in Figure 3 of Bergen et al. 2021: the recipe of the paper's setup, and of a small model
CLUTRR = {
    "Edge Transformer": ("bergen2021/clutrr_edge_234", "bergen2021/clutrr_edge_234_quick"),
    "RAT": ("bergen2021/clutrr_rat_234", "bergen2021/clutrr_rat_234_quick"),
    "RRAT": ("bergen2021/clutrr_rrat_234", "bergen2021/clutrr_rrat_234_quick"),
    "GAT": ("bergen2021/clutrr_gat_234",),
}
SLOG = {
    "Transformer": "li2023/slog_quick_transformer",
    "Universal": "li2023/slog_quick_universal",
    "Relative": "li2023/slog_quick_relative",
    "Relative universal": "li2023/slog_quick_relative_universal",
}
# the runs of `make run`
MAIN_JOB = (
    "speedruns/speedrun_scan_length26_relative_universal",
    "speedruns/speedrun_scan_length26_universal",
)
# the three embedding scalings on COGS
COGS = ("csordas2021/cogs_quick_transformer",)
# models with absolute and with relative positions on SCAN
SCAN = tuple(
    f"csordas2021/scan_length26_quick_{model}"
    for model in ("transformer", "relative", "universal", "relative_universal")
)
# small models of Petty et al. 2023 by depth, and the runs that are fine-tuned from them
PRETRAINED = tuple(f"petty2023/pretrain_quick_{depth}" for depth in (1, 2, 4, 8))
FINE_TUNED = ("petty2023/cogs_vf_quick", "petty2023/geoquery_quick")
# what recurses -> depth -> the split and case that have it; 4 is in training
SLOG_DEPTHS = {
    "prepositional phrases": {"3": ("test", "PP_3"), "4": ("test_iid", "pp_4"), "5 to 12": ("test", "PP_5-12")},
    "clauses": {"3": ("test", "CP_3"), "4": ("test_iid", "cp_4"), "5 to 12": ("test", "CP_5-12")},
    "centre embedding": {
        "3": ("test", "center_embed_3"), "4": ("test_iid", "center_embed_4"), "5 to 12": ("test", "center_embed_5-12"),
    },
}  # fmt: skip
README_PICTURE = ROOT / "docs" / "clutrr_by_k.png"


def by_length(records: Sequence[Record]) -> dict[int, list[float]]:
    """k -> accuracy in percent on test stories of that length, a number for each record."""
    curves = [dict(accuracies_by_relations(record)) for record in records]
    return {k: [100 * curve[k] for curve in curves] for k in curves[0]}


def printed(file: str) -> dict[int, Cell]:
    """k -> the paper's number for a recipe without overrides, where it prints one."""
    cells = (cell for _, table in find_tables("bergen2021-table5") for cell in table)
    return {int(cell.column.removeprefix("test k=")): cell for cell in cells if cell.run and cell.run.matches(file, {})}


def clutrr_by_k(path: Path) -> None:
    """Save [`clutrr_figure`]."""
    save(clutrr_figure(), path)


def points(figure: Figure) -> str:
    """Names and numbers of the lines of a figure."""
    lines = [line for axes in figure.axes for line in axes.lines]
    return "; ".join(f"{line.get_label()}: {' '.join(f'{y:.2f}' for y in line.get_ydata())}" for line in lines)


def clutrr_figure() -> Figure:
    """The paper's setup, also in bfloat16, and small models: means over the seeds that learned with their range, and
    the paper's numbers."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.2, 4.0), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    found: dict[int, list[float]] = {}
    for number, ((model, files), colour, marker) in enumerate(zip(CLUTRR.items(), COLOURS, MARKERS, strict=False)):
        # side by side, as points of one k would hide each other
        shift = 0.1 * (number - 1)
        ours = [
            (panels[0], files[0], False),
            (panels[0], files[0], True),
            *((panels[1], one, False) for one in files[1:]),
        ]
        for axes, file, bf16 in ours:
            if not (records := [one for one in records_of(file, bf16) if one.learned]):
                continue
            found = by_length(records)
            means = [statistics.fmean(values) for values in found.values()]
            places = [k + shift for k in found]
            axes.vlines(places, [*map(min, found.values())], [*map(max, found.values())], color=colour, linewidth=0.9)
            axes.plot(places, means, marker=marker, color=colour, markersize=4.5, linewidth=1 if bf16 else 1.5,
                      linestyle="--" if bf16 else "-",
                      label=f"{model}, {'bfloat16, ' * bf16}{_seeds(records)}")  # fmt: skip
        if theirs := printed(files[0]):
            means, errors = ([getattr(cell, key) for cell in theirs.values()] for key in ("mean", "spread"))
            panels[0].errorbar(
                [k + shift for k in theirs], means, yerr=errors, fmt=marker, color=colour, markerfacecolor="white",
                markersize=7, elinewidth=1, capsize=2.5, zorder=3, label=f"{model}, the paper (± standard error)",
            )  # fmt: skip
    small = _seeds(records_of(CLUTRR["Edge Transformer"][1]))
    for axes, title in zip(panels, ("full size", f"small models, {small}"), strict=True):
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("relations in a test story, k (2, 3 and 4 in training)")
        axes.set_xticks(list(found))
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("accuracy (%)")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return figure


def slog_by_depth(path: Path) -> None:
    """Exact match on SLOG by the depth of recursion: means over seeds with their range."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.2, 3.4), layout="constrained")
    for axes, (title, depths) in zip(figure.subplots(1, 3, sharey=True), SLOG_DEPTHS.items(), strict=True):
        for number, ((label, file), colour, marker) in enumerate(zip(SLOG.items(), COLOURS, MARKERS, strict=False)):
            splits = [record.splits for record in records_of(file)]
            found = [[100 * one[split].by_category[case].accuracy for one in splits] for split, case in depths.values()]
            places = [depth + 0.08 * (number - 1.5) for depth in range(len(depths))]
            axes.vlines(places, [*map(min, found)], [*map(max, found)], color=colour, linewidth=0.9)
            axes.plot(places, [*map(statistics.fmean, found)], marker=marker, color=colour, markersize=4.5, label=label)
        axes.set_title(title, fontsize=10)
        axes.set_xticks(range(len(depths)), [f"{depth}{' (in training)' if depth == '4' else ''}" for depth in depths])
        axes.grid(alpha=0.3)
    first, middle, _ = figure.axes
    first.set_ylabel("exact match (%)")
    middle.set_xlabel("depth of the recursion")
    figure.legend(*first.get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    save(figure, path)


def _seeds(records: Sequence[Record]) -> str:
    if len(records) == 1:
        return f"seed {records[0].seed}"
    return f"mean and range of {len(records)} seeds"


def _curves(files: Sequence[str], path: Path) -> None:
    """Accuracy during training of the first seed of each recipe."""
    plot_accuracies([records_of(file)[0] for file in files], path)


def _analysis(name: str, files: Sequence[str], path: Path, **options: str) -> None:
    """A figure of `hf-sysgen analyse NAME` from the records of these recipes, with any overrides."""
    runs = [(file, record) for file, record in kept().records if record.file in files]
    save(getattr(commands, name)(runs, **options).draw(), path)


PICTURES = {
    "clutrr_by_k.png": clutrr_by_k,
    "scan_length26.png": partial(_curves, MAIN_JOB),
    "cogs_graph_edge.png": partial(_curves, ("bergen2021/cogs_graph_edge_quick",)),
    "slog_by_depth.png": slog_by_depth,
    "growth.png": growth_tables.draw,
    "cogs_scalings.png": partial(_analysis, "double_descent", COGS),
    "cogs_loss_accuracy.png": partial(_analysis, "loss_accuracy", COGS),
    "scan_convergence.png": partial(_analysis, "convergence", SCAN, split="validation"),
    "t5_biases.png": partial(plot_biases, "scan_sag_t5_quick_simple"),
    "depth_perplexity.png": partial(_analysis, "perplexity_depth", PRETRAINED),
    "depth_accuracy.png": partial(_analysis, "generalization_depth", FINE_TUNED),
    "depth_cases.png": partial(_analysis, "lexical_structural", FINE_TUNED),
}


def main() -> None:
    """Draw the README's plot, in few colours, as every clone has the file. The file has the numbers as text."""
    from PIL import Image, PngImagePlugin

    figure = clutrr_figure()
    save(figure, README_PICTURE)
    with Image.open(README_PICTURE) as picture:
        few = picture.convert("RGB").quantize(32, dither=Image.Dither.NONE)
    info = PngImagePlugin.PngInfo()
    info.add_text("points", points(figure))
    few.save(README_PICTURE, optimize=True, pnginfo=info)


if __name__ == "__main__":
    main()
