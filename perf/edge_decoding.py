"""
Decoding with the Edge Transformer's cache, which computes only the 2N - 1 new edges of a step, compared with full
recomputation.

`python perf/edge_decoding.py` writes perf/edge_decoding.json; `--quick` checks the script. Both decode the same number
of tokens greedily with `generate` and random weights. They take turns for several rounds; medians are reported. With
one thread, processor time is measured.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from machine import machine, output_of
from seq2seq import clock_of, in_turns

from hf_sysgen.files import write_atomic
from hf_sysgen.models import EdgeTransformerConfig, EdgeTransformerForConditionalGeneration
from hf_sysgen.tables import table

# examples, source tokens, width, heads, rounds in encoder and decoder: small, and those of CFQ's queries
SETUPS = {"small": (8, 12, 64, 4, 3), "cfq": (2, 16, 256, 8, 6)}
TARGETS = (8, 16, 32, 48)


def measure(setup: str, target: int, rounds: int) -> dict:
    batch, source, width, heads, layers = SETUPS[setup]
    torch.manual_seed(0)
    config = EdgeTransformerConfig(
        input_form="sequence", hidden_size=width, num_attention_heads=heads, num_hidden_layers=layers,
        attention_bias=True, add_bos_vector=True,
    )  # fmt: skip
    model = EdgeTransformerForConditionalGeneration(config).eval()
    ids = torch.randint(3, config.vocab_size, (batch, source))
    options = {"min_new_tokens": target, "max_new_tokens": target, "do_sample": False}
    actions = {
        name: lambda _, cached=cached: model.generate(
            ids, attention_mask=torch.ones_like(ids), use_cache=cached, **options
        )
        for name, cached in (("cached", True), ("recomputed", False))
    }
    times = in_turns(actions, rounds, "cpu", clock_of("cpu"))
    seconds = {name: float(np.median(values)) for name, values in times.items()}
    per_token = {f"{name}_ms": 1e3 * value / (batch * target) for name, value in seconds.items()}
    ratio = float(np.median(np.array(times["recomputed"]) / np.array(times["cached"])))
    shape = {"setup": setup, "batch": batch, "source": source, "width": width, "heads": heads, "layers": layers}
    return {**shape, "target": target, **per_token, "times_as_fast": ratio}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="one round of four tokens")
    parser.add_argument("--output", type=Path, help="default: edge_decoding.json here; none of --quick")
    options = parser.parse_args()
    output = output_of(__file__, options.output, options.quick)
    torch.set_num_threads(options.threads)
    if options.quick:
        rows = [measure("small", 4, 1)]
    else:
        rows = [measure(setup, target, options.rounds) for setup in SETUPS for target in TARGETS]
    cells = [
        (
            r["setup"],
            str(r["target"]),
            f"{r['recomputed_ms']:.1f}",
            f"{r['cached_ms']:.1f}",
            f"{r['times_as_fast']:.1f}",
        )
        for r in rows
    ]
    print(table(("setup", "tokens", "recomputed: ms a token", "cached", "times as fast"), cells))
    if output is not None:
        record = {**machine(), "rounds": options.rounds, "results": rows}
        write_atomic(output, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
