"""Figures from results records."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

STYLES = {"validation": "--", "test": "-"}
LABELS = {"validation": "IID", "test": "generalization"}


def plot_accuracies(records: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """
    Exact match on every evaluated split against the training step, one colour a run, as PNG. Runs are called by their
    models, or where two have one by their names.

    Args:
        records: results records; their `history` holds what was logged during training.
        path: the file; its folder is made.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    called = told_apart([record["recipe"]["model"].replace("_", " ") for record in records], records)
    for index, record in enumerate(records):
        for split, style in STYLES.items():
            key = f"eval_{split}_accuracy"
            points = [(entry["step"], entry[key]) for entry in record["history"] if entry.get(key) is not None]
            if points:
                steps, accuracies = zip(*points, strict=True)
                label = f"{called[index]}, {LABELS[split]}"
                axes.plot(steps, accuracies, style, color=f"C{index}", marker="o", markersize=3, label=label)
    counts = {record["recipe"].get("eval_examples") for record in records}
    some = f" on {max(counts):,} examples of each" if len(counts) == 1 and None not in counts else ""
    axes.set(xlabel="training step", ylabel=f"exact match{some}", ylim=(-0.02, 1.02))
    axes.set_title(", ".join(sorted({f"{r['recipe']['benchmark']} {r['recipe']['config']}" for r in records})))
    axes.grid(alpha=0.3)
    if axes.has_data():
        # below, where no curve is
        figure.legend(fontsize=8, loc="outside lower center", ncols=2)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def told_apart(models: Sequence[str], records: Sequence[Mapping[str, Any]]) -> list[str]:
    """What runs are called: their models, or where two have one their names, of which two seeds have one too."""
    if len(set(models)) == len(models):
        return list(models)
    names = [record["name"] for record in records]
    if len(set(names)) == len(names):
        return names
    return [f"{record['name']} seed {record['seed']}" for record in records]


# stand for colours of the page that a drawing is put into, which knows whether it is light or dark
INK, QUIET, OURS, PAPER = "#010101", "#020202", "#030303", "#040404"
THEME = {INK: "var(--ink)", QUIET: "var(--quiet)", OURS: "var(--ours)", PAPER: "var(--paper)"}
SERIES = tuple(f"#0505{index:02x}" for index in range(8))
THEME |= {colour: f"var(--series-{index})" for index, colour in enumerate(SERIES)}
MARKERS = "osD^vPX*"


class Point(NamedTuple):
    """A cell in `draw_comparison`: the paper's number and ours, each with its spread, in one unit."""

    label: str
    paper: float
    paper_spread: float | None
    ours: float
    ours_spread: float | None


class Curve(NamedTuple):
    """A line in `draw_curves`: points (x, y) of a name, `dashed` if it is no test of generalization."""

    label: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False


def draw_comparison(points: Sequence[Point], unit: str, ends: tuple[float, float] | None, prefix: str) -> str:
    """
    The paper's numbers and ours, one cell a line, as an SVG element.

    Args:
        points: the cells.
        unit, ends: what the axis is called and between what it lies; `None` fits it to the numbers.
        prefix: keeps its ids apart in a page.
    """
    # room for the labels, whose letters are about so wide
    left = 0.15 + 0.073 * max(len(point.label) for point in points)
    with _figure(0.3 * len(points), left, above=0.3) as (figure, axes):
        rows = range(len(points))
        for offset, colour, marker, label, values, spreads in (
            (-0.13, PAPER, "D", "paper", [p.paper for p in points], [p.paper_spread for p in points]),
            (0.13, OURS, "o", "ours", [p.ours for p in points], [p.ours_spread for p in points]),
        ):
            axes.errorbar(
                values, [row + offset for row in rows], xerr=[spread or 0.0 for spread in spreads], fmt=marker,
                color=colour, markersize=5, elinewidth=1.2, label=label, markerfacecolor=colour,
            )  # fmt: skip
        axes.set_yticks(rows, [point.label for point in points])
        axes.set_ylim(len(points) - 0.5, -0.5)
        axes.set_xlabel(unit)
        if ends is not None:
            margin = 0.02 * (ends[1] - ends[0])
            axes.set_xlim(ends[0] - margin, ends[1] + margin)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False, labelcolor=INK, borderpad=0)
        return _svg(figure, prefix)


def draw_curves(curves: Sequence[Curve], x: str, y: str, prefix: str) -> str:
    """Lines as an SVG element, e.g. accuracies against steps. `prefix` keeps its ids apart in a page."""
    series = {label: index for index, label in enumerate(dict.fromkeys(curve.label for curve in curves))}
    with _figure(2.3, left=0.55, above=0.15 + 0.18 * len(series)) as (figure, axes):
        for curve in curves:
            index = series[curve.label] % len(SERIES)
            axes.plot(
                *zip(*curve.points, strict=True), "--" if curve.dashed else "-", color=SERIES[index],
                marker=MARKERS[index], markersize=3.5, linewidth=1.4, label=None if curve.dashed else curve.label,
            )  # fmt: skip
        axes.set(xlabel=x, ylabel=y, ylim=(-0.03, 1.03))
        if axes.get_legend_handles_labels()[1]:
            axes.legend(loc="lower left", bbox_to_anchor=(0, 1), frameon=False, labelcolor=INK, borderpad=0)
        return _svg(figure, prefix)


@contextmanager
def _figure(height: float, left: float, above: float) -> Iterator[tuple[Any, Any]]:
    """
    A figure with axes in the colours of `THEME`.

    Args:
        height: of the axes, in inches.
        left, above: what is left free there. The layout is not measured: that would draw everything once more.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {
        "svg.fonttype": "none", "svg.hashsalt": "hf-sysgen", "font.size": 9, "text.color": INK, "axes.edgecolor": QUIET,
        "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK, "axes.spines.top": False,
        "axes.spines.right": False, "axes.grid": True, "grid.color": QUIET, "grid.alpha": 0.3, "grid.linewidth": 0.6,
    }  # fmt: skip
    with matplotlib.rc_context(style):
        below, width, whole = 0.45, 6.6, height + above + 0.45
        figure = Figure(figsize=(width, whole))
        yield figure, figure.add_axes((left / width, below / whole, 1 - (left + 0.12) / width, height / whole))


def _svg(figure: Any, prefix: str) -> str:
    """The figure as an element of a page, its ids made its own and its colours the page's."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{prefix}-", text)
    # the page says how large it is, its names are not needed inside of a page
    text = re.sub(r' (width|height)="[\d.]+pt"', "", text, count=2)
    text = re.sub(r' xmlns(:\w+)?="[^"]*"', "", text).replace("xlink:href", "href")
    for colour, name in THEME.items():
        text = text.replace(colour, name)
    return text
