"""
What each way to save time on a CPU gains in an update of SCAN, and in evaluation.

`python perf/cpu_ways.py` writes perf/cpu_ways.json; `--quick` checks the script. The model is the relative universal
Transformer of the recipes. All ways are taken, or all but one, or none. Each measurement is a process of its own, on
one thread, because the setting for memory lasts until the end of a process and oneDNN keeps what it has prepared. They
take turns for several rounds; processor time is measured, the median over the updates of a process. Reported are the
ratios within a round to the process that takes all ways: their median and range.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from functools import partial
from inspect import unwrap
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import machine, output_of
from seq2seq import batches, build, clock_of, encoded, scan_setup, timed, training_step, turns

from hf_sysgen.cpu import keep_memory
from hf_sysgen.data import load_benchmark
from hf_sysgen.evaluation import evaluate
from hf_sysgen.evaluation.checkpoints import load_checkpoint
from hf_sysgen.files import write_atomic
from hf_sysgen.models.attention import softmax
from hf_sysgen.models.dropout import dropout
from hf_sysgen.tables import table
from hf_sysgen.zoo import DEFAULT

MODEL = "relative_universal_transformer"
# float32 products by oneDNN in place of MKL; dropout decides four elements by one random number; softmax over fewer
# than 16 keys is padded to 16; freed memory is kept, in huge pages
WAYS: tuple[str, ...] = ("products", "dropout", "softmax", "memory")
# batch size, length buckets, under autocast to bfloat16
SETUPS = {"float32, 256": (256, 4, False), "bf16, 256": (256, 4, True), "bf16, 64": (64, 2, True)}


def replace(function: Callable, by: Callable) -> None:
    """Replace a function of the models wherever a module has imported it."""
    for name, module in list(sys.modules.items()):
        if name.startswith("hf_sysgen.models"):
            for key, value in list(vars(module).items()):
                if value is function:
                    setattr(module, key, by)


def plain_dropout(hidden: torch.Tensor, p: float, training: bool) -> torch.Tensor:
    return torch.nn.functional.dropout(hidden, p, training)


def plain_softmax(scores: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.softmax(scores, dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))


def take(ways: tuple[str, ...]) -> None:
    """Take these ways in this process, except `products`, which is a choice of each call."""
    torch.set_num_threads(1)
    if "memory" in ways:
        keep_memory()
    if "dropout" not in ways:
        replace(dropout, plain_dropout)
    if "softmax" not in ways:
        replace(softmax, plain_softmax)


def seconds_of_update(ways: tuple[str, ...], setup: str, updates: int) -> float:
    """The median over the second half of `updates`: in the first, memory grows."""
    take(ways)
    size, buckets, bf16 = SETUPS[setup]
    scan = {**scan_setup(), "batch_size": size}
    parts = batches(scan, buckets, updates, "cpu")
    model = build(MODEL, scan, "eager").train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    update = training_step if "products" in ways else unwrap(training_step)
    times = [timed(partial(update, model, optimizer, part, bf16), "cpu", clock_of("cpu")) for part in parts]
    return float(np.median(times[updates // 2 :]))


def seconds_of_evaluation(ways: tuple[str, ...], count: int) -> float:
    """Evaluation of a trained model on the first `count` examples of the long split, each shape for the first time."""
    take(WAYS)
    if "reading" not in ways:
        vars(evaluate)["reading"] = nullcontext
    model, tokenizer = load_checkpoint(DEFAULT)
    split = encoded(tokenizer, load_benchmark("scan", "length_cutoff_26")["test"][:count])
    return timed(lambda: evaluate.evaluate_split(model, split), "cpu", clock_of("cpu"))


def apart(function: Callable[..., float], *arguments: Any) -> float:
    """The function's result in a new process."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def ratios(runs: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, dict[str, float]]:
    """How many times as long as the first run each other run takes in the same round: median, least and most."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _, name in turns(list(runs), rounds):
        times[name].append(runs[name]())
    base, *others = times
    relative = {name: np.divide(times[name], times[base]) for name in others}
    return {
        name: {"times_as_long": float(np.median(own)), "least": float(own.min()), "most": float(own.max())}
        for name, own in relative.items()
    }


def rows(rounds: int, updates: int, evaluated: int, setups: list[str]) -> list[dict[str, Any]]:
    results = []
    for setup in setups:
        taken = {"nothing": WAYS} | {way: tuple(other for other in WAYS if other != way) for way in WAYS} | {"all": ()}
        runs = {name: partial(apart, seconds_of_update, ways, setup, updates) for name, ways in taken.items()}
        results += [{"setup": setup, "without": name, **times} for name, times in ratios(runs, rounds).items()]
    taken = {"nothing": ("reading",), "reading": ()}
    runs = {name: partial(apart, seconds_of_evaluation, ways, evaluated) for name, ways in taken.items()}
    return [*results, {"setup": "evaluation", "without": "reading", **ratios(runs, rounds)["reading"]}]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, help="default: cpu_ways.json here; none of --quick")
    parser.add_argument("--quick", action="store_true", help="one round of one update of 64 examples")
    options = parser.parse_args()
    output = output_of(__file__, options.output, options.quick)
    rounds = 1 if options.quick else options.rounds
    results = rows(1, 1, 1, ["bf16, 64"]) if options.quick else rows(rounds, 40, 1000, list(SETUPS))
    cells = [
        (row["setup"], row["without"], f"{row['times_as_long']:.2f}", f"{row['least']:.2f} to {row['most']:.2f}")
        for row in results
    ]
    print(table(("setup", "without", "times as long", "range"), cells))
    if output is not None:
        record = {**machine(), "num_threads": 1, "rounds": rounds, "results": results}
        write_atomic(output, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
