"""Plots of records: accuracy during training, and the drawings of the report's page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from hf_sysgen.analysis.plotting import (
    INK,
    MARKERS,
    OURS,
    PAPER,
    SERIES,
    Line,
    Panel,
    check_picture,
    draw_panels,
    page_figure,
    page_svg,
    save,
)
from hf_sysgen.results.cells import distinct_labels
from hf_sysgen.results.record import Record


def plot_accuracies(records: Sequence[Record], path: str | Path) -> None:
    """
    Plot accuracy during training on the splits test (solid) and validation (dashed), a colour for each run.

    Args:
        records: runs; their labels are their models, or their names if two have the same model.
        path: file of the picture; its folder is created.

    Raises:
        UserError: the file cannot be written.
    """
    check_picture(path)
    called = distinct_labels([record.recipe.model.type.replace("_", " ") for record in records], records)
    lines = [
        Line(name, points, dashed=split == "validation")
        for name, record in zip(called, records, strict=True)
        for split in ("test", "validation")
        if (points := record.curve(split, "accuracy"))
    ]
    counts = {record.recipe.evaluation.examples for record in records}
    some = (
        f" on {max(filter(None, counts)):,} examples of each split" if len(counts) == 1 and None not in counts else ""
    )
    title = ", ".join(sorted({f"{one.recipe.data.benchmark} {one.recipe.data.config}" for one in records}))
    panel = Panel(f"{title} (dashed: validation)", "training step", f"accuracy{some}", lines, ends=(-0.02, 1.02))
    save(draw_panels([panel], panel_size=(7.0, 4.0)), path)


class Point(NamedTuple):
    """A cell in `draw_comparison`: the paper's number and ours, each with its spread, in one unit."""

    label: str
    paper: float
    paper_spread: float | None
    ours: float
    ours_spread: float | None


class Curve(NamedTuple):
    """A line in `draw_curves`: name and points (x, y); `dashed` if it is not a test of generalization."""

    label: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False


def draw_comparison(points: Sequence[Point], unit: str, ends: tuple[float, float] | None, prefix: str) -> str:
    """
    The paper's numbers and ours, one line per cell, as an SVG element.

    Args:
        points: the cells.
        unit, ends: label and limits of the axis; `None` fits it to the numbers.
        prefix: makes its ids unique in a page.
    """
    # space for the labels, from the approximate width of a letter
    left = 0.15 + 0.073 * max(len(point.label) for point in points)
    with page_figure(0.3 * len(points), left, above=0.3) as (figure, axes):
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
        return page_svg(figure, prefix)


def draw_curves(curves: Sequence[Curve], x: str, y: str, prefix: str) -> str:
    """Lines as an SVG element, e.g. accuracies against steps. `prefix` makes its ids unique in a page."""
    series = {label: index for index, label in enumerate(dict.fromkeys(curve.label for curve in curves))}
    with page_figure(2.3, left=0.55, above=0.15 + 0.18 * len(series)) as (figure, axes):
        for curve in curves:
            index = series[curve.label] % len(SERIES)
            axes.plot(
                *zip(*curve.points, strict=True), "--" if curve.dashed else "-", color=SERIES[index],
                marker=MARKERS[index], markersize=3.5, linewidth=1.4, label=None if curve.dashed else curve.label,
            )  # fmt: skip
        axes.set(xlabel=x, ylabel=y, ylim=(-0.03, 1.03))
        if axes.get_legend_handles_labels()[1]:
            axes.legend(loc="lower left", bbox_to_anchor=(0, 1), frameon=False, labelcolor=INK, borderpad=0)
        return page_svg(figure, prefix)
