"""
Correctness and speed of triangular attention's Triton kernels on a GPU.

`python perf/gpu_triangular_attention.py` checks outputs and gradients of every kernel against the plain version
in float64 (their error may be at most twice that of the plain version in the same precision), then times forward and
backward pass of every implementation, called from Python and as a CUDA graph. perf/gpu_triangular_attention.json grows
with every row, so that it has what was measured if the time runs out; what fails has a row with its `error`.
`--check-only` stops after the checks, whose results are written only to an `--output`; `--time-only` leaves them out.
With `TRITON_INTERPRET=1` and `--interpreted` the checks run on a CPU, on small sizes; `--quick` times the smallest
setup, also on a CPU.

The lower bound of a pass is the larger of two times. Memory: a forward pass reads four tensors and writes one, a
backward pass reads six and writes four, at the speed of a copy, which is measured. Arithmetic that is not a matrix
product: 2 and 5 operations for each triangle and channel, at the speed of the cores below.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

import torch
from machine import machine, output_of

from hf_sysgen.files import write_atomic
from hf_sysgen.models.triangular_attention import plain_triangular_attention
from hf_sysgen.models.triangular_blocked import blocked_triangular_attention
from hf_sysgen.models.triangular_kernels import triton_triangular_attention

# B, n, d, h: growing graphs of width 64, then the paper's CLUTRR, COGS in training and in its longest test, CFQ's
# queries and its dependencies
SETUPS = {
    "n8": (16, 8, 64, 4),
    "n16": (16, 16, 64, 4),
    "n32": (16, 32, 64, 4),
    "n64": (16, 64, 64, 4),
    "n128": (2, 128, 64, 4),
    "clutrr": (400, 8, 200, 4),
    "cogs": (100, 16, 64, 4),
    "cogs_long": (5, 56, 64, 4),
    "cfq": (16, 72, 256, 8),
    "cfq_dependencies": (40, 14, 360, 4),
}
# a second, of the CUDA cores of H100 and H200 (a fused multiply-add counts as one)
OPERATIONS = 30e12
# numbers of the largest tensor of a check, of which float64 takes 2 GiB
LARGEST = 2**28


def plain(projected, mask, source):
    return plain_triangular_attention(*projected.unbind(3), mask, source)[0]


IMPLEMENTATIONS = {"plain": plain, "blocked": blocked_triangular_attention, "triton": triton_triangular_attention}


def draw(batch, nodes, width, heads, dtype, device, seed=0):
    generator = torch.Generator().manual_seed(seed)
    projected = torch.randn(batch, nodes, nodes, 4, heads, width // heads, generator=generator)
    direction = torch.randn(batch, nodes, nodes, heads, width // heads, generator=generator)
    mask = torch.rand(batch, nodes, generator=generator) > 0.2
    mask[0], mask[1:, nodes // 2], mask[-1] = True, False, False
    return projected.to(device, dtype).requires_grad_(), direction.to(device, dtype), mask.to(device)


def both(function, projected, direction, mask, source):
    output = function(projected, mask, source)
    return output.detach(), torch.autograd.grad(output, projected, direction)[0]


# sizes B, n, d and h, type, whether there is a mask, and nodes of the source
Case = tuple[tuple[int, int, int, int], torch.dtype, bool, int | None]


def cases(interpreted: bool) -> list[Case]:
    if interpreted:
        # it is slow, and multiplies the bits of bfloat16
        one, several = (3, 1, 4, 2), (3, 5, 6, 2)
        return [
            (one, torch.float32, True, 0), (several, torch.float32, True, None), (several, torch.float32, False, 1),
            (several, torch.float16, True, 1),
        ]  # fmt: skip
    timed_sizes = [
        (min(batch, LARGEST // (nodes**3 * width)), nodes, width, heads)
        for batch, nodes, width, heads in SETUPS.values()
    ]
    sizes = [
        (3, 1, 4, 2), (3, 5, 6, 1), (2, 17, 5, 1), (3, 31, 200, 4), (4, 67, 64, 4), (2, 97, 256, 8), (2, 131, 64, 2),
        (3, 23, 360, 4),
    ]  # fmt: skip
    return [
        *((size, dtype, True, None) for size in timed_sizes for dtype in (torch.float32, torch.bfloat16)),
        *(
            (size, dtype, masked, source)
            for size in sizes
            for dtype in (torch.float32, torch.float16, torch.bfloat16)
            for masked in (True, False)
            for source in (None, size[1] // 3)
        ),
    ]


def check(device: str, interpreted: bool, processes: int) -> Iterator[dict]:
    """A row for each case, with whether it `fits`: relative errors of the kernel and of the plain version. Most of the
    time goes into compiling a kernel for each case, on one core."""
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        sloped = pool.submit(attempt, slopes, device)
        yield from pool.map(partial(check_case, device), cases(interpreted))
        yield {"dropout": 0.25} | sloped.result()


def check_case(device: str, case: Case) -> dict:
    torch.backends.cuda.matmul.allow_tf32 = False
    (batch, nodes, width, heads), dtype, masked, source = case
    row = {"batch": batch, "nodes": nodes, "width": width, "heads": heads, "dtype": str(dtype), "mask": masked,
           "source": source}  # fmt: skip
    return row | attempt(errors, (batch, nodes, width, heads), dtype, masked, source, device)


def attempt(measurement: Callable[..., dict], *arguments) -> dict:
    """What it returns, or the `error` that ends it; later measurements are still made."""
    try:
        return measurement(*arguments)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"}


def errors(size, dtype, masked, source, device) -> dict:
    """Relative ones of a case."""
    projected, direction, mask = draw(*size, dtype, device)
    rules = (mask if masked else None, source)
    exact = projected.detach().double().requires_grad_()
    truth = both(plain, exact, direction.double(), *rules)
    rough = both(plain, projected, direction, *rules)
    found = both(triton_triangular_attention, projected, direction, *rules)
    row: dict = {"fits": True}
    for what, true, near, ours in zip(("output", "gradient"), truth, rough, found, strict=True):
        scale = true.norm().clamp(min=1e-30)
        own, plain_one = (((tensor - true).norm() / scale).item() for tensor in (ours, near))
        # `nan` fits nowhere
        row["fits"] &= own <= 2 * plain_one + 1e-9
        row[what] = {"error": own, "plain_error": plain_one}
    return row


def slopes(device: str) -> dict:
    """Dropout: the derivative along a direction under one mask, from two outputs and from the gradient."""
    projected, direction, _ = draw(1, 3, 8, 2, torch.float32, device)

    def dropped(argument):
        torch.manual_seed(5)
        return (triton_triangular_attention(argument, None, 1, 0.25) * direction).sum()

    (gradient,) = torch.autograd.grad(dropped(projected), projected)
    step = torch.randn(projected.shape, generator=torch.Generator().manual_seed(2)).to(device)
    slope = (dropped(projected + 1e-2 * step) - dropped(projected - 1e-2 * step)).item() / 2e-2
    expected = (gradient * step).sum().item()
    return {"fits": abs(slope - expected) <= 1e-2 * max(1.0, abs(expected)), "slope": slope, "gradient": expected}


def copy_speed(device: str) -> float:
    """Bytes a second that a large copy reads and writes."""
    source = torch.ones(2**28 if device == "cuda" else 2**24, device=device)
    copied = torch.empty_like(source)
    best = min(milliseconds(device, lambda: copied.copy_(source))[0] for _ in range(10))
    return 2e3 * source.nbytes / best


def bounds(batch: int, nodes: int, width: int, bytes_each: int, bandwidth: float) -> tuple[float, float]:
    """Lower bounds of the forward and the backward pass, in milliseconds."""
    edges, triangles = batch * nodes**2 * width, batch * nodes**3 * width
    passes = ((5, 2), (10, 5))
    forward, backward = (
        1e3 * max(tensors * edges * bytes_each / bandwidth, work * triangles / OPERATIONS) for tensors, work in passes
    )
    return forward, backward


def milliseconds(device: str, *actions: Callable[[], object]) -> list[float]:
    """Of each action, one after the other."""
    if device == "cpu":
        stamps = [time.perf_counter()]
        for action in actions:
            action()
            stamps.append(time.perf_counter())
        return [1e3 * (after - before) for before, after in pairwise(stamps)]
    events = [torch.cuda.Event(enable_timing=True) for _ in range(len(actions) + 1)]
    events[0].record()
    for action, event in zip(actions, events[1:], strict=True):
        action()
        event.record()
    torch.cuda.synchronize()
    return [before.elapsed_time(after) for before, after in pairwise(events)]


def timed(function, size, dtype, device, rounds) -> dict:
    """Of the forward and of the backward pass (medians), and the peak memory above the inputs."""
    projected, direction, _ = draw(*size, dtype, device)
    for _ in range(3):
        both(function, projected, direction, None, None)
    start = 0
    if device == "cuda":
        torch.cuda.synchronize()
        start = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
    output: list[torch.Tensor] = []
    times = []
    for _ in range(rounds):
        output.clear()
        times.append(
            milliseconds(
                device,
                lambda: output.append(function(projected, None, None)),
                lambda: torch.autograd.grad(output[0], projected, direction),
            )
        )
    forward, backward = (sorted(values)[rounds // 2] for values in zip(*times, strict=True))
    found = {"forward_ms": forward, "backward_ms": backward}
    if device == "cuda":
        found["peak_mib"] = (torch.cuda.max_memory_allocated() - start) / 2**20
        found["graph_forward_ms"] = replayed(lambda: function(projected, None, None), rounds)
        found["graph_ms"] = replayed(lambda: both(function, projected, direction, None, None), rounds)
    return found


def replayed(action: Callable[[], object], rounds: int) -> float:
    """Milliseconds of an action as a CUDA graph (median): without the time of Python, which is most at small sizes."""
    # what libraries set up at their first call must not be captured
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        action()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = action()
    graph.replay()
    times = sorted(milliseconds("cuda", graph.replay)[0] for _ in range(rounds))
    del kept
    return times[rounds // 2]


def measure(device: str, quick: bool, bandwidth: float) -> Iterator[dict]:
    """A row for each setup, type and implementation; compiling takes longest, so those rows are last."""
    setups = {"n8": SETUPS["n8"]} if quick else SETUPS
    names = ("plain", "blocked") if device == "cpu" else (*IMPLEMENTATIONS, "compiled")
    for late in (False, True):
        for setup, (batch, nodes, width, heads) in setups.items():
            for dtype in (torch.float32, torch.bfloat16):
                least = bounds(batch, nodes, width, dtype.itemsize, bandwidth)
                for name in (name for name in names if (name == "compiled") is late):
                    if late:
                        torch.compiler.reset()  # it compiles one function for few shapes
                    function = IMPLEMENTATIONS.get(name) or torch.compile(plain, dynamic=False)
                    found = attempt(timed, function, (batch, nodes, width, heads), dtype, device, 2 if quick else 20)
                    if "error" not in found:
                        of_bound = found.get("graph_ms", found["forward_ms"] + found["backward_ms"]) / sum(least)
                        found |= {"forward_bound_ms": least[0], "bound_ms": sum(least), "of_bound": of_bound}
                    if device == "cuda":
                        torch.cuda.empty_cache()
                    yield {"setup": setup, "batch": batch, "nodes": nodes, "width": width, "heads": heads,
                           "dtype": str(dtype), "implementation": name, **found}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check-only", action="store_true")
    parser.add_argument("--time-only", action="store_true")
    parser.add_argument("--interpreted", action="store_true")
    parser.add_argument("--quick", action="store_true", help="the smallest setup, twice")
    parser.add_argument("--processes", type=int, default=min(8, os.cpu_count() or 1), help="of the checks")
    parser.add_argument("--output", type=Path, help="default: gpu_triangular_attention.json here; none of --quick")
    options = parser.parse_args()
    output = output_of(__file__, options.output, options.quick or options.check_only)
    device = "cuda" if torch.cuda.is_available() and not options.interpreted else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = False
    record: dict = {**machine(), "copy_bytes_per_second": copy_speed(device), "checks": [], "results": []}

    def keep(part: str, row: dict) -> None:
        print(json.dumps(row), flush=True)
        record[part].append(row)
        if output is not None:
            write_atomic(output, json.dumps(record, indent=1) + "\n")

    if not options.time_only:
        for row in check(device, options.interpreted, options.processes):
            keep("checks", row)
        if not all(row.get("fits") for row in record["checks"]):
            sys.exit("kernels are wrong")
        print("all within twice the plain version's error")
    if not options.check_only:
        for row in measure(device, options.quick, record["copy_bytes_per_second"]):
            keep("results", row)
        failures = [row["error"] for row in record["results"] if "error" in row]
        # that memory does not suffice is a result
        sys.exit(any(not failure.startswith("OutOfMemoryError") for failure in failures))


if __name__ == "__main__":
    main()
