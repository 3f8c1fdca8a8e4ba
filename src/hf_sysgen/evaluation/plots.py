"""Figures from results records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

STYLES = {"validation": "--", "test": "-"}
LABELS = {"validation": "IID", "test": "generalization"}


def plot_accuracies(records: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """
    Exact match on every evaluated split against the training step, one colour a run, as PNG.

    Args:
        records: results records; their `history` holds what was logged during training.
        path: the file; its folder is made.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for index, record in enumerate(records):
        for split, style in STYLES.items():
            key = f"eval_{split}_accuracy"
            points = [(entry["step"], entry[key]) for entry in record["history"] if entry.get(key) is not None]
            if points:
                steps, accuracies = zip(*points, strict=True)
                label = f"{record['recipe']['model'].replace('_', ' ')}, {LABELS[split]}"
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


def plot_perplexities(records: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """
    Perplexity on `validation` against depth, one curve for each size of models, as PNG (Petty et al. 2023, figure 2).

    Args:
        records: results records of pretraining.
        path: the file; its folder is made.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    sizes: dict[str, list[tuple[int, float]]] = {}
    for record in records:
        # names of classes are numbers of parameters too
        name = record["recipe"].get("size_class") or f"{record['num_parameters']:,} parameters"
        point = record["recipe"]["num_hidden_layers"], record["splits"]["validation"]["perplexity"]
        sizes.setdefault(name, []).append(point)
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for name, points in sizes.items():
        axes.plot(*zip(*sorted(points), strict=True), marker="o", label=name)
    depths = sorted({depth for points in sizes.values() for depth, _ in points})
    axes.set_xscale("log", base=2)
    axes.set_xticks(depths, [str(depth) for depth in depths])
    axes.minorticks_off()
    tokens = sorted({record["splits"]["validation"]["tokens"] for record in records})
    counts = " or ".join(f"{count:,}" for count in tokens)
    axes.set(xlabel="layers", ylabel=f"perplexity on {counts} tokens of validation")
    axes.grid(alpha=0.3)
    axes.legend()
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
