"""The style of all plots: lines, points, bars and histograms in files, and drawings inside a page."""

from __future__ import annotations

import io
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_sysgen.errors import UserError, one_line
from hf_sysgen.files import resolve_output_path, write_atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# valid endings of a picture's name
ENDINGS = (".png", ".pdf", ".svg")
# colours of Okabe and Ito, which are distinct in all kinds of colour vision; each has a marker too
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "osD^vPX*"
BLUE, ORANGE, GREY = COLOURS[0], COLOURS[1], "#555555"
# label of an axis of depths
LAYERS = "layers"
# colours of numbers, from low to high
SCALE = "viridis"


def check_picture(path: str | Path) -> None:
    """
    Check the file of a picture before the work for it.

    Raises:
        UserError: the ending is not one of `ENDINGS`, the path is not a file, or its folder is not writable.
    """
    path = Path(path)
    if path.suffix.lower() not in ENDINGS:
        raise UserError(f"{path}: a picture's name ends in one of {', '.join(ENDINGS)}")
    try:
        path = resolve_output_path(path)
        # the folder is made with the picture: work that fails leaves none
        with tempfile.TemporaryFile(dir=next(folder for folder in path.parents if os.path.lexists(folder))):
            pass
    except OSError as error:
        raise UserError(f"{path}: cannot be written to: {one_line(error)}") from error


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure to a file that `check_picture` has passed. Raises UserError: it cannot be, all the same."""
    try:
        picture = io.BytesIO()
        figure.savefig(picture, format=Path(path).suffix[1:].lower(), dpi=150)
        write_atomic(path, picture.getvalue())
    except OSError as error:
        raise UserError(f"{path}: cannot be written to: {one_line(error)}") from error


@dataclass(frozen=True)
class Line:
    """
    One line of a panel.

    Attributes:
        label: label in the legend; lines with one label have the same colour and marker in all panels.
        points: (x, y).
        band: spread of each point up and down; empty for none.
        dashed: whether it is the secondary line of its label.
    """

    label: str
    points: Sequence[tuple[float, float]]
    band: Sequence[float] = ()
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    """
    Lines with shared axes.

    Attributes:
        title, x, y: title and axis labels.
        lines: what is drawn.
        rules: vertical lines: (x, label of a line whose colour it has, or a colour).
        log_x, log_y: whether an axis is logarithmic.
        ends: limits of the y axis; `None` to fit.
        smooth: whether there are too many points for markers.
    """

    title: str
    x: str
    y: str
    lines: Sequence[Line]
    rules: Sequence[tuple[float, str]] = ()
    log_x: bool = False
    log_y: bool = False
    ends: tuple[float, float] | None = None
    smooth: bool = False


@dataclass(frozen=True)
class Bars:
    """
    Groups of bars. Bars of one label have the colour of its lines.

    Attributes:
        y: label of the axis.
        groups: group -> label -> height.
        rule: place of a horizontal line.
    """

    y: str
    groups: Mapping[str, Mapping[str, float]]
    rule: float


def _figure(width: float, height: float) -> Figure:
    """Of this size in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def draw_panels(
    panels: Sequence[Panel], panel_size: tuple[float, float] = (3.9, 3.1), bars: Bars | None = None
) -> Figure:
    """
    Draw panels, three in a row, each of this size in inches, and below them one legend. Bars take what is left of the
    last row, or a row of their own.
    """
    count = len(panels) + (bars is not None)
    columns = min(3, count)
    rows = -(-count // columns)
    labels = list(dict.fromkeys(line.label for panel in panels for line in panel.lines))
    styles = {label: (colour, MARKERS[i % len(MARKERS)]) for i, (label, colour) in enumerate(_coloured(labels))}
    # from the approximate width of a letter
    label_width = 0.6 + 0.067 * max(map(len, labels), default=0)
    width, height = panel_size
    width = max(width * columns, 5.2, label_width)
    wide = min(3, int(width / label_width))
    legend = 0.2 * -(-len(labels) // wide) + 0.2
    figure = _figure(width, height * rows + legend + 0.3)
    grid = figure.add_gridspec(rows, columns)
    handles: dict[str, Any] = {}
    for index, panel in enumerate(panels):
        axes: Any = figure.add_subplot(grid[divmod(index, columns)])
        for line in panel.lines:
            handles.setdefault(line.label, _draw_line(axes, line, *styles[line.label], panel.smooth))
        for x, name in panel.rules:
            axes.axvline(x, color=styles[name][0] if name in styles else name, linestyle=":", linewidth=1.3)
        axes.set(xlabel=panel.x, ylabel=panel.y, title=panel.title)
        axes.title.set_fontsize(9)
        if panel.log_x:
            axes.set_xscale("log")
            _write_plainly(axes.xaxis, doubling=panel.x == LAYERS)
        if panel.log_y:
            axes.set_yscale("log")
            _write_plainly(axes.yaxis)
        if panel.x == LAYERS and not panel.log_x:
            axes.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
        if panel.ends is not None:
            axes.set_ylim(*panel.ends)
        axes.grid(alpha=0.3)
    if bars is not None:
        _draw_bars(
            figure.add_subplot(grid[-1, len(panels) % columns :]),
            bars,
            {label: colour for label, (colour, _) in styles.items()},
        )
    if handles:
        figure.legend(handles.values(), handles, loc="outside lower center", ncols=wide, fontsize=8, frameon=False)
    return figure


def _draw_bars(axes: Any, bars: Bars, colours: Mapping[str, Any]) -> None:
    labels = list(dict.fromkeys(label for group in bars.groups.values() for label in group))
    width = min(0.3, 0.8 / len(labels))
    for index, label in enumerate(labels):
        places = [place for place, group in enumerate(bars.groups.values()) if label in group]
        heights = [group[label] for group in bars.groups.values() if label in group]
        at = [place + (index - (len(labels) - 1) / 2) * width for place in places]
        axes.bar_label(axes.bar(at, heights, width, color=colours[label]), fmt="%.2f", fontsize=7)
    axes.axhline(bars.rule, color=GREY, linestyle="--", linewidth=1)
    axes.margins(x=0.2, y=0.1)
    turned = {"rotation": 25, "ha": "right"} if len(bars.groups) > 3 else {}
    axes.set_xticks(range(len(bars.groups)), bars.groups, fontsize=8, **turned)
    axes.set(ylabel=bars.y)


def _coloured(labels: Sequence[str]) -> list[tuple[str, Any]]:
    """A colour for each label; shades if there are more labels than colours."""
    if len(labels) <= len(COLOURS):
        return list(zip(labels, COLOURS, strict=False))
    from matplotlib import colormaps

    shades = colormaps[SCALE].resampled(len(labels))
    return [(label, shades(index)) for index, label in enumerate(labels)]


def _write_plainly(axis: Any, doubling: bool = False) -> None:
    """Plain numbers on a logarithmic axis: 1, 2, 5, 10; or with `doubling` 1, 2, 4, 8."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    low, high = axis.get_view_interval()
    if doubling:
        axis.set_major_locator(LogLocator(base=2))
    elif high > 1000 * low:
        axis.set_major_locator(LogLocator(numticks=8))
    elif high < 10 * low:
        # so short an axis has at most two of 1, 2, 5 and 10
        axis.set_major_locator(MaxNLocator(5, steps=(1, 2, 5, 10)))
    else:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def _draw_line(axes: Any, line: Line, colour: str, marker: str, smooth: bool) -> Any:
    if not line.points:
        return axes.plot([], [], color=colour)[0]
    xs, ys = zip(*line.points, strict=True)
    style = {"marker": None if smooth else marker, "markersize": 4, "linewidth": 1.4}
    (handle,) = axes.plot(xs, ys, "--" if line.dashed else "-", color=colour, **style)
    if line.band:
        low, high = ([y + sign * d for y, d in zip(ys, line.band, strict=True)] for sign in (-1, 1))
        axes.fill_between(xs, low, high, color=colour, alpha=0.2, linewidth=0)
    return handle


@dataclass(frozen=True)
class Cloud:
    """
    Points with shared axes.

    Attributes:
        title, x, y: title and axis labels.
        points: label -> (x, y, value of the colour); all clouds of a figure have the same labels.
    """

    title: str
    x: str
    y: str
    points: Mapping[str, Sequence[tuple[float, float, float]]]


def draw_clouds(clouds: Sequence[Cloud], colour: str) -> Figure:
    """
    Draw clouds side by side, with logarithmic x, one colour scale labelled `colour`, and a marker for each label.
    """
    from matplotlib.lines import Line2D

    names = list(clouds[0].points)
    markers = {name: MARKERS[index % len(MARKERS)] for index, name in enumerate(names)}
    legend = 0.2 * len(names) if len(names) > 1 else 0.0
    figure = _figure(4.0 * len(clouds) + 0.8, 3.6 + legend)
    grid = figure.subplots(1, len(clouds), squeeze=False)[0]
    values = [point[2] for cloud in clouds for points in cloud.points.values() for point in points]
    image: Any = None
    for axes, cloud in zip(grid, clouds, strict=True):
        for name, points in cloud.points.items():
            xs, ys, shades = zip(*points, strict=True)
            image = axes.scatter(xs, ys, c=shades, s=18, marker=markers[name], cmap=SCALE, vmin=min(values),
                                 vmax=max(values))  # fmt: skip
        axes.set(xlabel=cloud.x, ylabel=cloud.y, xscale="log")
        _write_plainly(axes.xaxis)
        axes.set_title(cloud.title, fontsize=9)
        axes.grid(alpha=0.3)
    figure.colorbar(image, ax=list(grid), label=colour)
    if legend:
        handles = [Line2D([], [], color=GREY, linestyle="", marker=markers[name]) for name in names]
        figure.legend(handles, names, loc="outside lower center", fontsize=8, frameon=False)
    return figure


@dataclass(frozen=True)
class Histogram:
    """Two histograms over the same bins: label -> counts; `edges` has one number more than the counts."""

    title: str
    x: str
    edges: Sequence[float]
    counts: Mapping[str, Sequence[int]] = field(default_factory=dict)


def draw_with_histograms(panel: Panel, histograms: Sequence[Histogram], title: str) -> Figure:
    """Draw a panel of lines, and histograms beside it."""
    figure = _figure(3.8 * (1 + len(histograms)), 3.6)
    first, *others = figure.subplots(1, 1 + len(histograms))
    for index, line in enumerate(panel.lines):
        _draw_line(first, line, COLOURS[index], MARKERS[index], smooth=False).set_label(line.label)
    first.set(xlabel=panel.x, ylabel=panel.y)
    first.set_title(panel.title, fontsize=9)
    for axes, histogram in zip(others, histograms, strict=True):
        for index, (label, counts) in enumerate(histogram.counts.items()):
            axes.stairs(counts, histogram.edges, fill=index == 0, alpha=0.55 if index == 0 else 1.0,
                        color=COLOURS[index], linewidth=1.4, label=label)  # fmt: skip
        axes.set(xlabel=histogram.x, ylabel="examples", yscale="symlog")
        axes.set_title(histogram.title, fontsize=9)
    for axes in (first, *others):
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7, frameon=False)
    figure.suptitle(title, fontsize=10)
    return figure


# placeholders for colours of the page, which may be light or dark
INK, QUIET, OURS, PAPER = "#010101", "#020202", "#030303", "#040404"
THEME = {INK: "var(--ink)", QUIET: "var(--quiet)", OURS: "var(--ours)", PAPER: "var(--paper)"}
SERIES = tuple(f"#0505{index:02x}" for index in range(8))
THEME |= {colour: f"var(--series-{index})" for index, colour in enumerate(SERIES)}


@contextmanager
def page_figure(height: float, left: float, above: float) -> Iterator[tuple[Any, Any]]:
    """
    A figure with axes in the colours of `THEME`, for `page_svg`.

    Args:
        height: height of the axes, in inches. left, above: margins, in inches. Automatic layout would draw everything
            twice.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {
        "svg.fonttype": "none", "svg.hashsalt": "hf-sysgen", "font.size": 9, "text.color": INK, "axes.edgecolor": QUIET,
        "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK, "axes.spines.top": False,
        "axes.spines.right": False, "axes.grid": True, "grid.color": QUIET, "grid.alpha": 0.3, "grid.linewidth": 0.6,
    }  # fmt: skip
    with rc_context(style):
        below, width, whole = 0.45, 6.6, height + above + 0.45
        figure = Figure(figsize=(width, whole))
        yield figure, figure.add_axes((left / width, below / whole, 1 - (left + 0.12) / width, height / whole))


def page_svg(figure: Any, prefix: str) -> str:
    """The figure as an element of a page, with unique ids and the page's colours."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{prefix}-", text)
    # the page sets the size, and namespaces are not needed inside HTML
    text = re.sub(r' (width|height)="[\d.]+pt"', "", text, count=2)
    text = re.sub(r' xmlns(:\w+)?="[^"]*"', "", text).replace("xlink:href", "href")
    for colour, name in THEME.items():
        text = text.replace(colour, name)
    return text
