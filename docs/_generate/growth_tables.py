"""What grows with the work, from perf/growth.json, and what pretraining costs, from the recipes' sizes."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from kept import ROOT, read_perf

from hf_sysgen.analysis.plotting import COLOURS, MARKERS, save
from hf_sysgen.config.io import load_recipe
from hf_sysgen.models import DepthWidthConfig, DepthWidthForCausalLM
from hf_sysgen.tables import markdown

# where useful work is counted
sys.path.append(str(ROOT / "perf"))
from pretraining import flops_per_token

# C4's tokens, by Raffel et al. 2020 in T5's subwords
TOKENS = 156e9
GPUS = (1, 8, 64)
DAY = 24 * 3600


def _cells(one: dict[str, float]) -> tuple[str, str]:
    return f"{one['seconds']:.1f} s", f"{one['megabytes']:.0f} MB"


def growth(part: str) -> str:
    """One part of growth.json as a table."""
    rows = read_perf("growth")[part]
    if part == "records":
        table = [(f"{row['records']:,}", *_cells(row)) for row in rows]
        return markdown(("records", "time", "memory"), table)
    if part == "sweep":
        table = [(f"{row['runs']:,}", *_cells(row["none_trained"]), *_cells(row["half_trained"])) for row in rows]
        return markdown(("runs", "none trained", "memory", "half trained", "memory"), table)
    if part == "shards":
        table = [
            (
                f"{row['shards']:,}", *_cells(row["start"]), *_cells(row["resume"]),
                "the same" if row["same_result"] else "another",
            )
            for row in rows
        ]  # fmt: skip
        return markdown(("shards", "start, 4 updates", "memory", "resumed after 2", "memory", "result"), table)
    table = [
        (
            str(row["processes"]), f"{row['seconds_per_update']:.2f} s", f"{row['megabytes']:.0f} MB",
            f"{row['loss_off']:.1e}",
        )
        for row in rows
    ]  # fmt: skip
    return markdown(("processes", "an update", "memory of the largest", "difference of the loss"), table)


def growth_setup() -> str:
    """Machine and rounds of growth.json."""
    parts: dict[str, list[str]] = {}
    for part, setup in read_perf("growth")["setup"].items():
        rounds, device = setup["rounds"], setup["environment"]["device"]
        times = "one round" if rounds == 1 else f"medians of {rounds} rounds"
        parts.setdefault(f"{times} on {setup['cores']} cores of an {device}", []).append(part)
    measured = "; ".join(f"{', '.join(names)}: {how}" for how, names in parts.items())
    shared = "Whole processes, imports included, one thread a process, on a machine that others share."
    return f"{shared} {measured[0].upper()}{measured[1:]}."


def draw(path: Path) -> None:
    """Seconds and megabytes by the number of records, runs and shards; seconds of an update by processes."""
    from matplotlib.figure import Figure

    rows = read_perf("growth")
    lines = {
        "report all, by records": [(row["records"], row) for row in rows["records"]],
        "sweep --dry-run, by runs, half of them trained": [(row["runs"], row["half_trained"]) for row in rows["sweep"]],
        "start of pretraining, by shards": [(row["shards"], row["start"]) for row in rows["shards"]],
    }
    figure = Figure(figsize=(9.6, 3.6), layout="constrained")
    seconds, megabytes, processes = figure.subplots(1, 3)
    for axes, key in ((seconds, "seconds"), (megabytes, "megabytes")):
        for (label, points), colour, marker in zip(lines.items(), COLOURS, MARKERS, strict=False):
            x, y = zip(*((count, one[key]) for count, one in points), strict=True)
            axes.plot(x, y, label=label, color=colour, marker=marker)
        axes.set(xscale="log", xlabel="records, runs or shards", ylabel=key, ylim=(0, None))
    x, y = zip(*((str(row["processes"]), row["seconds_per_update"]) for row in rows["processes"]), strict=True)
    processes.bar(x, y, color=COLOURS[0])
    processes.set(xlabel=f"processes on {rows['setup']['processes']['cores']} cores", ylabel="seconds of an update")
    figure.legend(*seconds.get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
    save(figure, path)


def cost() -> str:
    """Days that C4 once takes for the 22 decoders of Table 1 of Petty et al. 2023, by class and number of GPUs, at the
    FLOP/s measured in gpu_pretraining.json."""
    files = sorted((ROOT / "recipes" / "petty2023").glob("pretrain_*M_*.yaml"))
    classes: dict[str, list[int]] = {}
    for file in files:
        recipe = load_recipe(file)
        model = recipe.model
        config = DepthWidthConfig.from_size_class(str(model.size_class), model.fields["num_hidden_layers"])
        with torch.device("meta"):
            decoder = DepthWidthForCausalLM(config)
        classes.setdefault(str(model.size_class), []).append(flops_per_token(decoder, recipe.data.context_length))
    ours = read_perf("gpu_pretraining")["results"][0]
    speed = ours["tokens_per_second"] * ours["flops_per_token"]
    rows = []
    for name, flops in sorted(classes.items(), key=lambda one: int(one[0].rstrip("M"))):
        rows.append((name, str(len(flops)), *_days(flops, speed)))
    everything = [one for flops in classes.values() for one in flops]
    rows.append(("all", str(len(everything)), *_days(everything, speed)))
    return markdown(
        ("class", "decoders", "C4 once, FLOP", *(f"{count} GPU{'s' * (count > 1)}" for count in GPUS)), rows
    )


def _days(flops: list[int], speed: float) -> tuple[str, ...]:
    total = sum(flops) * TOKENS
    return (f"{total:.1e}", *(f"{total / (speed * count) / DAY:,.1f} days" for count in GPUS))


TABLES = (growth, growth_setup, cost)
