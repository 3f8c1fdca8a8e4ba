"""Plots of `analysis.attention`: attention maps, preferences by distance, a story with its attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

from hf_sysgen.analysis.attention import Maps, Preferences
from hf_sysgen.analysis.plotting import GREY, ORANGE, SCALE
from hf_sysgen.analysis.stories import Story

# inches
CELL, PANEL, LETTER = 0.15, 1.1, 0.075


def draw_maps(maps: Sequence[Maps], title: str) -> Figure:
    """Draw a row of panels for each layer, a panel for each head, and a block for each kind of attention."""
    sizes = [_block_size(one) for one in maps]
    width = max(sum(columns) for columns, _, _ in sizes) + 0.6
    heights = [len(one.layers) * (row + 0.3) + below + 0.35 for one, (_, row, below) in zip(maps, sizes, strict=True)]
    figure = Figure(figsize=(max(width, 4.5), sum(heights) + 0.8), layout="constrained")
    blocks = figure.subfigures(len(maps), 1, squeeze=False, height_ratios=heights)[:, 0]
    for one, block in zip(maps, blocks, strict=True):
        block.suptitle(f"{one.kind}  ({one.meaning})", fontsize=9, fontweight="bold")
        heads = max(map(len, one.layers))
        grid = block.subplots(len(one.layers), heads, squeeze=False)
        for depth, (weights, row) in enumerate(zip(one.layers, grid, strict=True)):
            for head, axes in enumerate(row):
                if head >= len(weights):
                    axes.set_axis_off()
                    continue
                image = axes.imshow(weights[head].numpy(), vmin=0, vmax=1, cmap=SCALE, aspect="auto")
                axes.set_title(f"layer {depth}, head {head}", fontsize=7, pad=2)
                _label(axes, one.queries if head == 0 else None, one.keys if depth == len(grid) - 1 else None)
        block.colorbar(image, ax=grid, label="weight", fraction=0.02, pad=0.01, aspect=30)
    figure.suptitle(title, fontsize=10, wrap=True, parse_math=False)
    return figure


def draw_layer(maps: Maps, layer: int, title: str, columns: int = 2) -> Figure:
    """Draw the heads of one layer in `columns` columns, narrow enough for half a page."""
    heads = maps.layers[layer]
    rows = -(-len(heads) // columns)
    (first, *_), height, below = _block_size(maps)
    figure = Figure(figsize=(columns * first, rows * (height + below + 0.3) + 0.7), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    for head, axes in enumerate(grid.flat):
        if head >= len(heads):
            axes.set_axis_off()
            continue
        axes.imshow(heads[head].numpy(), vmin=0, vmax=1, cmap=SCALE, aspect="auto")
        axes.set_title(f"head {head}", fontsize=7, pad=2)
        _label(axes, maps.queries if head % columns == 0 else None, maps.keys)
    figure.suptitle(f"{title}, {maps.kind}, layer {layer}\n{maps.meaning}", fontsize=8, wrap=True, parse_math=False)
    return figure


def _block_size(maps: Maps) -> tuple[list[float], float, float]:
    """Width of a block's columns, height of its rows, and space for the labels below."""
    panel = max(PANEL, CELL * len(maps.keys))
    left = LETTER * max(map(len, maps.queries))
    columns = [panel + (left if head == 0 else 0.1) for head in range(max(map(len, maps.layers)))]
    return columns, max(PANEL, CELL * len(maps.queries)), LETTER * max(map(len, maps.keys))


def _label(axes: Any, rows: Sequence[str] | None, columns: Sequence[str] | None) -> None:
    # words may have dollar signs
    style: dict[str, Any] = {"fontsize": 6, "family": "monospace", "parse_math": False}
    axes.set_xticks(range(len(columns or ())), columns or (), rotation=90, **style)
    axes.set_yticks(range(len(rows or ())), rows or (), **style)
    axes.tick_params(length=1.5, pad=1)


def draw_preferences(found: Sequence[Preferences], title: str) -> Figure:
    """Draw Figure 1 of Chaabouni et al. 2021: a panel for each layer, heads against signed distances."""
    depth = max(len(one.layers) for one in found)
    widths = [max(1.6, 0.24 * len(one.distances)) for one in found]
    heads = max(len(one.layers[0]) for one in found)
    figure = Figure(figsize=(sum(widths) + 1.6, depth * (0.22 * heads + 0.55) + 1.0), layout="constrained")
    grid = figure.subplots(depth, len(found), squeeze=False, width_ratios=widths)
    image: Any = None
    for one, column in zip(found, grid.T, strict=True):
        places = [str(distance) for distance in one.distances]
        if one.capped:
            places[0] = f"\N{LESS-THAN OR EQUAL TO}{places[0]}"
            # a decoder's last distance is 0
            places[-1] = f"\N{GREATER-THAN OR EQUAL TO}{places[-1]}" if one.distances[-1] else "0"
        for layer, axes in enumerate(column):
            if layer >= len(one.layers):
                axes.set_axis_off()
                continue
            image = axes.imshow(one.layers[layer].numpy(), vmin=0, vmax=1, cmap=SCALE, aspect="auto")
            axes.set_title(f"{one.kind}, layer {layer}", fontsize=8)
            axes.set_yticks(range(len(one.layers[layer])), range(len(one.layers[layer])), fontsize=7)
            axes.set_xticks(range(len(places)), places, fontsize=7)
            axes.set_ylabel("head", fontsize=7)
            if layer == len(one.layers) - 1:
                axes.set_xlabel("position of the key minus the query's", fontsize=7)
    figure.suptitle(title, fontsize=9, wrap=True)
    figure.colorbar(image, ax=grid, label="softmax of the biases", fraction=0.04, pad=0.02)
    return figure


def circle(count: int, start: float = np.pi) -> np.ndarray:
    """Places (count, 2) on the unit circle, clockwise, the first at `start` radians."""
    angles = start - 2 * np.pi * np.arange(count) / count
    return np.stack((np.cos(angles), np.sin(angles)), axis=1)


def arrow(axes: Any, start: np.ndarray, end: np.ndarray, label: str, colour: str, bend: float = 0.0, **style) -> None:
    """An arrow between two places, or another line by its `arrowstyle`, with its label in the middle."""
    axes.add_patch(
        FancyArrowPatch(
            tuple(start), tuple(end), color=colour, connectionstyle=f"arc3,rad={bend}",
            **{"arrowstyle": "-|>", "mutation_scale": 9, "shrinkA": 9, "shrinkB": 9, **style},
        )
    )  # fmt: skip
    across = np.array((end[1] - start[1], start[0] - end[0]))
    middle = (start + end) / 2 + across * bend / 2
    axes.text(
        *middle, label, fontsize=6.5, color=colour, ha="center", va="center",
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.85},
    )  # fmt: skip


def draw_story(story: Story, layers: Sequence[Any], title: str) -> Figure:
    """
    Draw the graph of a story once for each layer: a darker node gets more attention from the query edge, as a mean over
    heads. The weights of each head are below. All layers have the same scale.

    Args:
        layers: weights (H, N) of each layer.
    """
    heads, nodes = layers[0].shape
    side = 2.2 + 0.2 * nodes
    rows = -(-len(layers) // max(1, int(14 / side)))
    columns = -(-len(layers) // rows)
    below = 0.25 + 0.16 * heads
    figure = Figure(figsize=(max(side * columns, 5.5) + 0.9, rows * (side + below + 0.6) + 0.8), layout="constrained")
    grid = figure.subplots(2 * rows, columns, squeeze=False, height_ratios=[side, below] * rows)
    scale = {"vmin": 0, "vmax": max(float(weights.max()) for weights in layers), "cmap": "Blues"}
    image: Any = None
    for index in range(rows * columns):
        above, maps = (grid[2 * (index // columns) + part][index % columns] for part in (0, 1))
        if index >= len(layers):
            above.set_axis_off()
            maps.set_axis_off()
            continue
        weights = layers[index].numpy()
        above.set_title(f"layer {index}", fontsize=9)
        _draw_nodes(above, story, weights.mean(0), scale)
        image = maps.imshow(weights, aspect="auto", **scale)
        _label(maps, [f"head {head}" for head in range(heads)] if index % columns == 0 else None, story.people)
    figure.suptitle(title, fontsize=10, wrap=True, parse_math=False)
    figure.colorbar(image, ax=grid, label="attention", fraction=0.02, pad=0.01, aspect=40)
    return figure


def _draw_nodes(axes: Any, story: Story, weights: np.ndarray, scale: dict[str, Any]) -> None:
    """Draw the people of a story with their relations, on a circle; weights (N,)."""
    places = circle(len(weights))
    _draw_relations(axes, story, places)
    axes.scatter(*places.T, c=weights, s=230, edgecolors="black", linewidths=0.8, zorder=3, **scale)
    for name, weight, (x, y) in zip(story.people, weights, places, strict=True):
        axes.text(1.2 * x, 1.2 * y, name, fontsize=8, va="center", ha=("center", "left", "right")[_side(x)])
        shade = "white" if weight > 0.6 * scale["vmax"] else "black"
        axes.text(x, y, f"{weight:.2f}".lstrip("0"), fontsize=6.5, color=shade, ha="center", va="center", zorder=4)
    axes.set(xlim=(-1.75, 1.75), ylim=(-1.4, 1.4), aspect="equal")
    axes.set_axis_off()


def _side(x: float) -> int:
    """0 in the middle, 1 on the right, -1 on the left."""
    return 0 if abs(x) < 0.3 else int(np.sign(x))


def _draw_relations(axes: Any, story: Story, places: np.ndarray) -> None:
    seen = set(story.edges) | {story.query}
    for (first, last), relation in dict(zip(story.edges, story.relations, strict=True)).items():
        # two edges between the same people, one each way, must not overlap
        bend = 0.18 if (last, first) in seen or (first, last) == story.query else 0.0
        arrow(axes, places[first], places[last], relation, GREY, bend)
    first, last = story.query
    arrow(axes, places[first], places[last], "?", ORANGE, 0.25, linestyle="--", linewidth=1.4)
