"""
Correctness and speed of triangular attention's Triton kernels on a GPU.

`python perf/gpu_triangular_attention.py` checks outputs and gradients of every kernel against the plain version
in float64 (their error may be at most twice that of the plain version in the same precision), then times forward and
backward pass of every implementation and writes perf/gpu_triangular_attention.json. `--check-only` stops after
the checks. With `TRITON_INTERPRET=1` and `--interpreted` the checks run on a CPU, on small sizes.

The lower bound of a pass is the larger of two times on the GPU below. Memory: a forward pass reads four tensors and
writes one, a backward pass reads six and writes four. Arithmetic that is not a matrix product: 2 and 5 operations for
each triangle and channel.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import torch

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
# H200: bytes per second, and operations per second of its CUDA cores (a fused multiply-add counts as one)
BANDWIDTH, OPERATIONS = 4.3e12, 30e12


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


def cases(interpreted: bool) -> list[tuple[tuple[int, int, int, int], torch.dtype, bool, int | None]]:
    """Sizes B, n, d and h, type, whether there is a mask, and nodes of the source."""
    if interpreted:
        # it is slow, and multiplies the bits of bfloat16
        one, several = (3, 1, 4, 2), (3, 5, 6, 2)
        return [
            (one, torch.float32, True, 0), (several, torch.float32, True, None), (several, torch.float32, False, 1),
            (several, torch.float16, True, 1),
        ]  # fmt: skip
    sizes = [
        (3, 1, 4, 2), (3, 5, 6, 1), (2, 17, 5, 1), (3, 31, 200, 4), (4, 67, 64, 4), (2, 97, 256, 8), (2, 131, 64, 2),
        (3, 23, 360, 4),
    ]  # fmt: skip
    return [
        (size, dtype, masked, source)
        for size in sizes
        for dtype in (torch.float32, torch.float16, torch.bfloat16)
        for masked in (True, False)
        for source in (None, size[1] // 3)
    ]


def check(device: str, interpreted: bool) -> bool:
    """Print relative errors against float64, of the kernel and of the plain version."""
    right = True
    for (batch, nodes, width, heads), dtype, masked, source in cases(interpreted):
        projected, direction, mask = draw(batch, nodes, width, heads, dtype, device)
        rules = (mask if masked else None, source)
        exact = projected.detach().double().requires_grad_()
        truth = both(plain, exact, direction.double(), *rules)
        rough = both(plain, projected, direction, *rules)
        found = both(triton_triangular_attention, projected, direction, *rules)
        for what, true, near, ours in zip(("output", "gradient"), truth, rough, found, strict=True):
            scale = true.norm().clamp(min=1e-30)
            errors = [((tensor - true).norm() / scale).item() for tensor in (ours, near)]
            fits = errors[0] <= 2 * errors[1] + 1e-9
            right &= fits
            print(f"B{batch} n{nodes} d{width} h{heads} {dtype} mask {masked} source {source} {what}: {errors[0]:.2e}, "
                  f"plain {errors[1]:.2e}{'' if fits else '  WRONG'}")  # fmt: skip
    # dropout: derivatives along a direction with the same mask
    projected, direction, _ = draw(1, 3, 8, 2, torch.float32, device)

    def dropped(argument):
        torch.manual_seed(5)
        return (triton_triangular_attention(argument, None, 1, 0.25) * direction).sum()

    (gradient,) = torch.autograd.grad(dropped(projected), projected)
    step = torch.randn(projected.shape, generator=torch.Generator().manual_seed(2)).to(device)
    slope = (dropped(projected + 1e-2 * step) - dropped(projected - 1e-2 * step)).item() / 2e-2
    expected = (gradient * step).sum().item()
    fits = abs(slope - expected) <= 1e-2 * max(1.0, abs(expected))
    print(f"dropout: slope {slope:.4f}, gradient {expected:.4f}{'' if fits else '  WRONG'}")
    return right and fits


def bounds(batch: int, nodes: int, width: int, bytes_each: int) -> tuple[float, float]:
    """Lower bounds of the forward and the backward pass, in milliseconds."""
    edges, triangles = batch * nodes**2 * width, batch * nodes**3 * width
    passes = ((5, 2), (10, 5))
    forward, backward = (
        1e3 * max(tensors * edges * bytes_each / BANDWIDTH, work * triangles / OPERATIONS) for tensors, work in passes
    )
    return forward, backward


def timed(function, projected, direction, rounds: int = 20) -> tuple[float, float, float]:
    """Milliseconds of the forward and of the backward pass (medians), and the peak memory in MiB above the inputs."""
    for _ in range(3):
        both(function, projected, direction, None, None)
    torch.cuda.synchronize()
    start = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    times: list[tuple[float, float]] = []
    for _ in range(rounds):
        events = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
        events[0].record()
        output = function(projected, None, None)
        events[1].record()
        torch.autograd.grad(output, projected, direction)
        events[2].record()
        torch.cuda.synchronize()
        times.append((events[0].elapsed_time(events[1]), events[1].elapsed_time(events[2])))
    forward, backward = (sorted(values)[rounds // 2] for values in zip(*times, strict=True))
    return forward, backward, (torch.cuda.max_memory_allocated() - start) / 2**20


def measure() -> list[dict]:
    rows = []
    for setup, (batch, nodes, width, heads) in SETUPS.items():
        for dtype in (torch.float32, torch.bfloat16):
            least = bounds(batch, nodes, width, dtype.itemsize)
            torch.compiler.reset()  # it compiles one function for few shapes
            for name, function in {**IMPLEMENTATIONS, "compiled": torch.compile(plain, dynamic=False)}.items():
                projected, direction, _ = draw(batch, nodes, width, heads, dtype, "cuda")
                row = {"setup": setup, "batch": batch, "nodes": nodes, "width": width, "heads": heads,
                       "dtype": str(dtype), "implementation": name}  # fmt: skip
                try:
                    forward, backward, peak = timed(function, projected, direction)
                except torch.cuda.OutOfMemoryError:
                    rows.append({**row, "error": "out of memory"})
                    continue
                of_bound = (forward + backward) / sum(least)
                found = {"forward_ms": forward, "backward_ms": backward, "peak_mib": peak,
                         "forward_bound_ms": least[0], "bound_ms": sum(least), "of_bound": of_bound}  # fmt: skip
                rows.append({**row, **found})
                print(f"{setup:16} {dtype!s:15} {name:9} {forward:9.3f} + {backward:9.3f} ms  {peak:9.1f} MiB  "
                      f"{of_bound:7.1f} x the bound of {sum(least):.3f} ms", flush=True)  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check-only", action="store_true")
    parser.add_argument("--interpreted", action="store_true")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    if not check("cpu" if options.interpreted else "cuda", options.interpreted):
        sys.exit("kernels are wrong")
    print("all within twice the plain version's error")
    if not options.check_only:
        record = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": measure()}
        options.output.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
