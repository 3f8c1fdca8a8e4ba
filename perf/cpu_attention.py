"""
Attention on a CPU by sequence length: `python perf/cpu_attention.py` writes perf/cpu_attention.json. A causal
self-attention without dropout, forward and backward, 2,048 tokens in all, 8 heads of 16 channels (of 64 from 512 tokens
on), on one thread: plain and SDPA, with float32 products by oneDNN, as in training, and by MKL. Medians of processor
time over `--rounds` rounds, all in turn.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
from collections.abc import Callable
from pathlib import Path

import torch
from machine import machine, output_of
from seq2seq import clock_of, in_turns
from torch import nn

from hf_sysgen.cpu import fast_products, keep_memory
from hf_sysgen.files import write_atomic

LENGTHS = (9, 16, 27, 64, 128, 256, 512, 1024)
TOKENS, HEADS = 2048, 8
PRODUCTS: dict[str, Callable[[], contextlib.AbstractContextManager[None]]] = {
    "oneDNN": fast_products,
    "MKL": contextlib.nullcontext,
}


def plain(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5 + mask
    return torch.softmax(scores, dim=-1) @ value


def sdpa(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)


def measured(length: int, rounds: int) -> dict[str, float]:
    """Milliseconds of each way."""
    shape = (max(1, TOKENS // length), HEADS, length, 64 if length >= 512 else 16)
    query, key, value = (torch.randn(shape, requires_grad=True) for _ in range(3))
    mask = torch.full((length, length), torch.finfo(torch.float32).min).triu(1)[None, None]

    def update(attention: Callable[..., torch.Tensor], products: str) -> Callable[[int], None]:
        def run(_: int) -> None:
            with PRODUCTS[products]():
                attention(query, key, value, mask).sum().backward()

        return run

    actions = {
        f"{name}, {products}": update(attention, products)
        for products in PRODUCTS
        for name, attention in {"plain": plain, "SDPA": sdpa}.items()
    }
    times = in_turns(actions, rounds, "cpu", clock_of("cpu"))
    return {name: round(1000 * statistics.median(values), 2) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="two lengths")
    parser.add_argument("--output", type=Path, help="default: cpu_attention.json here; none of --quick")
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_memory()
    rows = []
    for length in LENGTHS[:2] if options.quick else LENGTHS:
        rows.append({"length": length, "milliseconds": measured(length, options.rounds)})
        print(json.dumps(rows[-1]), flush=True)
    if (output := output_of(__file__, options.output, options.quick)) is not None:
        record = {**machine(), "rounds": options.rounds, "results": rows}
        write_atomic(output, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
