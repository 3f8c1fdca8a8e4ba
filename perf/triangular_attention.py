"""
Triangular attention on this CPU: forward and backward time and peak memory of all implementations, compared with an
einsum.

`python perf/triangular_attention.py` writes perf/triangular_attention.json; `--setups` measures some rows and keeps the
others; `--quick` checks the script. All implementations take turns for several rounds, so that a busy machine slows all
equally; medians are reported. Rows:

- `einsum`: the formula as released, three einsums; `compiled` is that under torch.compile (with `--compile`).
- `plain`, `blocked`: values of `triangular_implementation`.
- `bound`: a lower bound: 15 states of memory traffic (a forward pass reads four tensors and writes one, a backward pass
  reads six and writes four) at the speed of a copy, or 19 operations per triangle and channel at the speed of a matrix
  product, both measured here.

With one thread, processor time is measured, which a busy machine distorts less than wall-clock time. Peak memory is the
growth of resident memory in one forward and backward pass.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import math
import os
import time
from pathlib import Path

import torch
from machine import machine, output_of

from hf_sysgen.files import write_atomic
from hf_sysgen.models.triangular_attention import plain_triangular_attention
from hf_sysgen.models.triangular_blocked import blocked_triangular_attention

# B, n, d, h: growing graphs of width 64, then the paper's CLUTRR (n up to 11), COGS (22 in training) and CFQ, whose
# nodes are the tokens of question and query with their ends: up to 122 in training for `mcd1_edge_unfiltered`
SETUPS = {
    "n8": (16, 8, 64, 4),
    "n16": (16, 16, 64, 4),
    "n32": (16, 32, 64, 4),
    "n64": (16, 64, 64, 4),
    "n128": (2, 128, 64, 4),
    "clutrr": (400, 5, 200, 4),
    "clutrr_longest": (100, 11, 200, 4),
    "cogs": (100, 16, 64, 4),
    "cogs_longest": (5, 56, 64, 4),
    "cfq": (2, 72, 256, 8),
    "cfq_unfiltered": (2, 122, 256, 8),
}


def einsum(projected: torch.Tensor) -> torch.Tensor:
    query, key, left, right = projected.unbind(3)
    scores = torch.einsum("bilhc,bljhc->biljh", query, key) / math.sqrt(query.shape[-1])
    values = torch.einsum("bilhc,bljhc->biljhc", left, right)
    return torch.einsum("biljh,biljhc->bijhc", scores.softmax(2), values)


def plain(projected: torch.Tensor) -> torch.Tensor:
    return plain_triangular_attention(*projected.unbind(3))[0]


def step(function, projected: torch.Tensor, direction: torch.Tensor) -> tuple[float, float]:
    """Seconds of the forward and of the backward pass."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    projected.grad = None
    start = clock()
    output = function(projected)
    middle = clock()
    output.backward(direction)
    return middle - start, clock() - middle


def resident(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


def peak(function, projected: torch.Tensor, direction: torch.Tensor) -> int:
    """Growth of resident memory, in bytes."""
    projected.grad = None
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    step(function, projected, direction)
    return resident("VmHWM") - before


def speeds() -> tuple[float, float]:
    """Bytes per second of a copy, and operations per second of a matrix product."""
    matrix, large = torch.randn(1024, 1024), torch.randn(1 << 25)
    copied = torch.empty_like(large)
    best = [math.inf, math.inf]
    for _ in range(5):
        start = time.perf_counter()
        copied.copy_(large)
        middle = time.perf_counter()
        matrix @ matrix
        best = [min(best[0], middle - start), min(best[1], time.perf_counter() - middle)]
    return 2 * large.nbytes / best[0], 2 * 1024**3 / best[1]


def measure(setup: str, rounds: int, compiled: bool, rates: tuple[float, float]) -> dict:
    batch, nodes, width, heads = SETUPS[setup]
    contenders = {"einsum": einsum, "plain": plain, "blocked": blocked_triangular_attention}
    if compiled:
        torch.compiler.reset()  # it compiles one function for few shapes
        contenders["compiled"] = torch.compile(einsum, dynamic=False)
    torch.manual_seed(0)
    projected = torch.randn(batch, nodes, nodes, 4, heads, width // heads, requires_grad=True)
    direction = torch.randn(batch, nodes, nodes, heads, width // heads)
    peaks = {name: peak(function, projected, direction) for name, function in contenders.items()}
    if compiled:
        peaks["compiled"] = peak(contenders["compiled"], projected, direction)  # the first call compiled
    times: dict[str, list] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, function in contenders.items():
            times[name].append(step(function, projected, direction))
    state, triangles = batch * nodes**2 * width, batch * nodes**3 * width
    bound = max(15 * 4 * state / rates[0], 19 * triangles / rates[1])
    rows = {}
    for name, pairs in times.items():
        forward, backward, total = (
            sorted(values)[rounds // 2] for values in (*zip(*pairs, strict=True), [sum(pair) for pair in pairs])
        )
        rows[name] = {"forward_ms": forward * 1e3, "backward_ms": backward * 1e3, "total_ms": total * 1e3,
                      "peak_mib": peaks[name] / 2**20, "of_bound": total / bound}  # fmt: skip
    reference = rows["einsum"]
    print(f"{setup}: B{batch} n{nodes} d{width} h{heads}, bound {bound * 1e3:.2f} ms")
    for name, row in rows.items():
        row["speedup"] = reference["total_ms"] / row["total_ms"]
        row["memory"] = row["peak_mib"] / max(reference["peak_mib"], 1e-3)
        passes = f"{row['forward_ms']:9.1f} + {row['backward_ms']:9.1f} ms"
        print(f"  {name:9} {passes}  {row['speedup']:5.1f} x as fast  "
              f"{row['peak_mib']:8.1f} MiB ({row['memory']:.3f})  {row['of_bound']:6.1f} x the bound",
              flush=True)  # fmt: skip
    return {"batch": batch, "nodes": nodes, "width": width, "heads": heads, "bound_ms": bound * 1e3,
            "copy_bytes_per_second": rates[0], "product_operations_per_second": rates[1], "rows": rows}  # fmt: skip


def setups_of_others(output: Path, about: dict) -> dict[str, dict]:
    """Setups of the existing record, if they were measured in the same way on the same kind of machine."""
    if not output.exists():
        return {}
    record = json.loads(output.read_text(encoding="utf-8"))
    return record["setups"] if all(record[key] == value for key, value in about.items()) else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--setups", nargs="*", choices=SETUPS, default=list(SETUPS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--quick", action="store_true", help="one round of the smallest setup")
    parser.add_argument("--output", type=Path, help="default: triangular_attention.json here; none of --quick")
    options = parser.parse_args()
    output = output_of(__file__, options.output, options.quick)
    torch.set_num_threads(options.threads)
    rates = speeds()
    setups, rounds = (["n8"], 1) if options.quick else (options.setups, options.rounds)
    measured = {setup: measure(setup, rounds, options.compile, rates) for setup in setups}
    if output is not None:
        about = {
            "torch": torch.__version__, "device": machine()["device"], "threads": options.threads, "rounds": rounds
        }  # fmt: skip
        known = setups_of_others(output, about) | measured
        record = {**about, "setups": {setup: known[setup] for setup in SETUPS if setup in known}}
        write_atomic(output, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
