"""Plots of gold and predicted graphs: common, missed and wrong parts."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hf_sysgen.analysis.attention_plots import arrow, circle
from hf_sysgen.analysis.graphs import QueryGraph, WordGraph
from hf_sysgen.analysis.plotting import BLUE, GREY, ORANGE

LETTER = 0.105


def draw_words(gold: WordGraph, predicted: WordGraph | None, title: str) -> Figure:
    """
    Draw the sentence with the gold arcs above and the predicted ones below, each from parent to child. Grey: both have
    this parent and label; blue and dashed: missed; orange: wrong. The labels of words are under them, wrong ones in
    orange with the gold one in blue.
    """
    shown = [_lines(gold, predicted, index) for index in range(len(gold.words))]
    widths = [
        LETTER * max(len(text) for text in (word, gold.roles[index], *(line for line, _ in lines))) + 0.25
        for index, (word, lines) in enumerate(zip(gold.words, shown, strict=True))
    ]
    ends = np.cumsum(widths)
    centres = ends - np.array(widths) / 2
    high, low = (_levels(graph) if graph is not None else {} for graph in (gold, predicted))
    step = 0.42
    top, bottom = (0.35 + step * (1 + max(levels.values(), default=0)) for levels in (high, low))
    lines_below = 0.17 * max(map(len, shown), default=0)
    figure = Figure(figsize=(max(ends[-1], 5.5) + 0.3, top + bottom + lines_below + 1.1), layout="constrained")
    axes = figure.subplots()
    for index, word in enumerate(gold.words):
        axes.text(centres[index], 0, word, ha="center", va="center", fontsize=9, fontweight="bold")
        for line, (text, colour) in enumerate(shown[index]):
            axes.text(centres[index], -0.2 - 0.17 * line, text, ha="center", va="center", fontsize=7, color=colour)
    for child in range(len(gold.words)):
        right = predicted is not None and _arc(gold, child) == _arc(predicted, child)
        if child in high:
            _draw_arc(axes, gold, child, centres, 0.15, step * (1 + high[child]), GREY if right else BLUE, not right)
        if predicted is not None and child in low:
            start = -0.15 - lines_below
            _draw_arc(
                axes, predicted, child, centres, start, -step * (1 + low[child]), GREY if right else ORANGE, False
            )
    axes.set(xlim=(-0.1, max(ends[-1], 5.5) + 0.1), ylim=(-bottom - lines_below - 0.1, top + 0.1))
    axes.set_axis_off()
    _legend(figure, predicted is None)
    figure.suptitle(title, fontsize=9, wrap=True)
    return figure


def _arc(graph: WordGraph, child: int) -> tuple[int, str]:
    return graph.parents[child], graph.roles[child]


def _lines(gold: WordGraph, predicted: WordGraph | None, index: int) -> list[tuple[str, str]]:
    right, said = gold.labels[index], predicted.labels[index] if predicted is not None else gold.labels[index]
    if right == said:
        return [(right, GREY)] if right else []
    return [(right or "nothing", BLUE), (said or "nothing", ORANGE)]


def _levels(graph: WordGraph) -> dict[int, int]:
    """For each word with an arc (or the arrow of a root), the lowest level on which it crosses no shorter arc."""
    arcs = {
        child: tuple(sorted((child, parent))) if parent >= 0 else (child, child)
        for child, parent in enumerate(graph.parents)
        if parent >= 0 or graph.roles[child]
    }
    levels: dict[int, int] = {}
    for child, (first, last) in sorted(arcs.items(), key=lambda item: item[1][1] - item[1][0]):
        taken = {levels[other] for other in levels if arcs[other][0] < last and first < arcs[other][1]}
        levels[child] = 0 if first == last else 1 + max(taken, default=-1)
    return levels


def _draw_arc(
    axes: Any, graph: WordGraph, child: int, centres: np.ndarray, start: float, rise: float, colour: str, dashed: bool
) -> None:
    """Draw a bracket with cut corners from parent to child; for a root an arrow from above (or below)."""
    parent = graph.parents[child]
    style = {"color": colour, "linewidth": 1.1, "linestyle": "--" if dashed else "-"}
    tip = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.1, "shrinkA": 0, "shrinkB": 0}
    end, level = centres[child], start + rise
    if parent < 0:
        axes.annotate("", (end, start), (end, level), arrowprops=tip)
        middle = end
    else:
        # the arc of a parent and those to its children must not touch
        begin = centres[parent] + (0.12 if end > centres[parent] else -0.12)
        cut = 0.08 if end > begin else -0.08
        axes.plot([begin, begin + cut, end - cut], [start, level, level], **style)
        axes.annotate("", (end, start), (end - cut, level), arrowprops=tip)
        middle = (begin + end) / 2
    axes.text(middle, level, graph.roles[child], fontsize=7, color=colour, ha="center", va="center",
              bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8})  # fmt: skip


def draw_queries(gold: QueryGraph, predicted: QueryGraph | None, title: str) -> Figure:
    """
    Draw the graphs of the gold and of the predicted query, with nodes in the same places. Grey: both have it; blue:
    missed; orange: wrong. Types are beside their node, dotted lines join nodes that must differ, and returned nodes
    have a frame.
    """
    none = QueryGraph(frozenset(), {}, frozenset(), frozenset())
    graphs = (gold, predicted or none)
    nodes = sorted({node for graph in graphs for node in _nodes(graph)})
    places = dict(zip(nodes, circle(len(nodes), np.pi / 2), strict=True))
    size = 4.2 + 0.25 * len(nodes)
    figure = Figure(figsize=(2 * size, size + 1.0), layout="constrained")
    for axes, graph, other, colour, name in zip(
        figure.subplots(1, 2), graphs, reversed(graphs), (BLUE, ORANGE), ("right", "predicted"), strict=True
    ):
        axes.set_title(name if graph is not none else "predicted: not a query", fontsize=9)
        _draw_query(axes, graph, other, places, colour)
        axes.set(xlim=(-1.5, 1.5), ylim=(-1.45, 1.4), aspect="equal")
        axes.set_axis_off()
    _legend(figure, predicted is None)
    figure.suptitle(title, fontsize=9, wrap=True)
    return figure


def _nodes(graph: QueryGraph) -> set[str]:
    ends = {node for first, _, last in graph.edges for node in (first, last)}
    return ends | set(graph.types) | {node for pair in graph.filters for node in pair}


def _draw_query(axes: Any, graph: QueryGraph, other: QueryGraph, places: dict[str, np.ndarray], colour: str) -> None:
    for pair in graph.filters:
        first, last = sorted(pair)
        shade = GREY if pair in other.filters else colour
        arrow(axes, places[first], places[last], "≠", shade, 0.2, arrowstyle="-", linestyle=":")
    between: dict[tuple[str, str], list[str]] = {}
    for first, relation, last in sorted(graph.edges):
        between.setdefault((first, last), []).append(relation)
    for (first, last), relations in between.items():
        middle = -0.5 if (last, first) in between else (len(relations) - 1) / 2
        for index, relation in enumerate(relations):
            agreed = (first, relation, last) in other.edges
            line = "--" if colour == BLUE and not agreed else "-"
            shade, bend = GREY if agreed else colour, 0.22 * (index - middle)
            arrow(axes, places[first], places[last], _short(relation), shade, bend, linestyle=line)
    for node in sorted(_nodes(graph)):
        place = places[node]
        frame = {"boxstyle": "round,pad=0.3", "facecolor": "white", "edgecolor": "black",
                 "linewidth": 2.0 if node in graph.selected else 0.7}  # fmt: skip
        axes.text(*place, node, fontsize=8, ha="center", va="center", bbox=frame, zorder=3)
        shared = other.types.get(node, frozenset())
        for number, kind in enumerate(sorted(graph.types.get(node, frozenset()))):
            shade = GREY if kind in shared else colour
            # the text is outside the circle
            outside = place[1] + (0.14 + 0.09 * number) * (1 if place[1] > 0 else -1)
            axes.text(place[0], outside, kind, fontsize=6.5, color=shade, ha="center",
                      va="center", zorder=3, bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.4})  # fmt: skip


def _short(relation: str) -> str:
    """people.person.spouse_s/ns:people.marriage.spouse|... -> spouse_s"""
    return relation.partition("/")[0].rpartition(".")[2]


def _legend(figure: Any, is_missing: bool) -> None:
    kinds: dict[str, tuple[str, Any]] = {
        "in both": (GREY, "-"),
        "gold, not predicted": (BLUE, "--"),
        "predicted, wrong": (ORANGE, "-"),
    }
    if is_missing:
        kinds = {"gold; the prediction is not a graph": (BLUE, "--")}
    handles = [Line2D([], [], color=colour, linestyle=line, label=name) for name, (colour, line) in kinds.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=7, frameon=False)
