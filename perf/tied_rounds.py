"""
The cost of reading tied weights again in each round, and the gain from taking parts of a batch through all rounds.

`python perf/tied_rounds.py` writes perf/tied_rounds.json; `--quick` checks the script. Forward and backward pass
through the Edge Transformer's encoder, at sizes of the paper, without padding or dropout; all take turns for several
rounds, and medians are reported. With one thread, processor time is measured.

- `weights`: a product of every matrix of the layer with one vector, twice as often as there are rounds (a backward pass
  reads them once more): the time to read them, and so the most that on-chip weights could save.
- `parts`: the batch in that many parts, each taken through all rounds and back before the next, as
`batches.length_buckets` of a recipe does. States of a part may stay in the cache; weights are read that many times as
often.
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
from hf_sysgen.models import EdgeTransformerConfig
from hf_sysgen.models.edge_layers import EdgeRounds
from hf_sysgen.tables import table

# examples, nodes, width, heads, rounds: CLUTRR and COGS in training, one short sentence of COGS, queries of CFQ
SETUPS = {
    "clutrr": (400, 5, 200, 4, 8),
    "cogs": (100, 12, 64, 4, 3),
    "cogs_alone": (1, 12, 64, 4, 3),
    "cfq": (4, 72, 256, 8, 6),
}
PARTS = (1, 2, 4, 10, 20)


def measure(setup: str, repeats: int) -> dict:
    batch, nodes, width, heads, rounds = SETUPS[setup]
    torch.manual_seed(0)
    config = EdgeTransformerConfig(hidden_size=width, num_attention_heads=heads, dropout=0.0)
    model = EdgeRounds(config, rounds).train()
    state = torch.randn(batch, nodes, nodes, width, requires_grad=True)
    matrices = [weight.detach() for weight in model.parameters() if weight.dim() == 2]
    vectors = [torch.randn(matrix.shape[1]) for matrix in matrices]

    def train(parts: int) -> None:
        state.grad = None
        model.zero_grad()
        for part in state.tensor_split(parts):
            model(part, None).sum().backward()

    def read(_: int) -> None:
        for _ in range(2 * rounds):
            for matrix, vector in zip(matrices, vectors, strict=True):
                torch.mv(matrix, vector)

    counts = [parts for parts in PARTS if parts <= batch]
    actions = {"weights": read, **{str(parts): lambda _, parts=parts: train(parts) for parts in counts}}
    times = {name: np.array(values) for name, values in in_turns(actions, repeats, "cpu", clock_of("cpu")).items()}
    whole = times["1"]
    sizes = {"batch": batch, "nodes": nodes, "width": width, "heads": heads, "rounds": rounds}
    return {
        "setup": setup,
        **sizes,
        "milliseconds": 1e3 * float(np.median(whole)),
        "weights_share": float(np.median(times["weights"] / whole)),
        "times_as_fast_in_parts": {str(parts): float(np.median(whole / times[str(parts)])) for parts in counts[1:]},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="the smallest setup, once")
    parser.add_argument("--output", type=Path, help="default: tied_rounds.json here; none of --quick")
    options = parser.parse_args()
    output = output_of(__file__, options.output, options.quick)
    torch.set_num_threads(options.threads)
    rows = [measure("cogs_alone", 1)] if options.quick else [measure(setup, options.repeats) for setup in SETUPS]
    cells = [
        (
            row["setup"],
            f"{row['milliseconds']:.1f}",
            f"{row['weights_share']:.2%}",
            *(f"{row['times_as_fast_in_parts'].get(str(parts), float('nan')):.2f}" for parts in PARTS[1:]),
        )
        for row in rows
    ]
    header = ("setup", "ms", "weights", *(f"{parts} parts: times as fast" for parts in PARTS[1:]))
    print(table(header, cells))
    if output is not None:
        record = {**machine(), "repeats": options.repeats, "results": rows}
        write_atomic(output, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
