"""
Speed of the models of Chaabouni et al. 2021 and of Chakravarthy et al. 2022 compared with their baselines, built from
their SCAN recipes.

`python perf/gated_attention.py` writes perf/gated_attention.json; `--quick` is a check of the script itself. All models
read the same rows. They take turns with one update, and later with decoding one batch, so that a busy machine slows all
equally. The result is the ratio of a model's time to its baseline's in the same round, with median and quartiles. With
one thread, processor time is measured; with several threads or a GPU, wall-clock time.

- training: updates of 256 sentences (Appendix A.1) by Adam, in `batches.length_buckets` parts, with the attention that
a recipe chooses on this device.
- decoding: greedily, with a cache, as many steps as the longest target has.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import machine, output_of
from seq2seq import clock_of, in_turns, training_step

from hf_sysgen.config.io import load_recipe
from hf_sysgen.evaluation.decoding import greedy_decode
from hf_sysgen.files import write_atomic
from hf_sysgen.tables import table
from hf_sysgen.training.batches import StepBatches
from hf_sysgen.training.run import attention_of
from hf_sysgen.training.tasks.registry import prepare_task

# model -> its recipe, and its baseline
CONTENDERS = {
    "fairseq_transformer": ("chaabouni2021/scan_transformer", "fairseq_transformer"),
    "sag_transformer": ("chaabouni2021/scan_sag", "fairseq_transformer"),
    "sag_conv_transformer": ("chaabouni2021/scan_sag_convolution", "fairseq_transformer"),
    "sag_fixed_span_transformer": ("chaabouni2021/scan_sag_fixed_span", "fairseq_transformer"),
    "sag_t5_transformer": ("chaabouni2021/scan_sag_t5", "fairseq_transformer"),
    "conv_seq2seq": ("chaabouni2021/scan_jump_conv", "fairseq_transformer"),
    "lstm_seq2seq": ("chaabouni2021/scan_jump_lstm", "fairseq_transformer"),
    "torch_transformer": ("chakravarthy2022/scan_jump_transformer", "torch_transformer"),
    "role_filler_transformer": ("chakravarthy2022/scan_jump_role_loss_threshold", "torch_transformer"),
}
BATCH_SIZE = 256
LENGTH_BUCKETS = 4


def measure(names: list[str], rounds: int, decode_rounds: int, device: str) -> dict[str, dict]:
    """Seconds of each model in each round, for `train` and `decode`."""
    clock = clock_of(device)
    train, decode = {}, {}
    for name in names:
        recipe = load_recipe(f"{CONTENDERS[name][0]}.yaml")
        task: Any = prepare_task(recipe)
        torch.manual_seed(0)
        attention = attention_of(recipe)
        model = task.build_model(attention).to(device).train()
        # a contender must not train on what another has learned to decode
        reader = task.build_model("sdpa").to(device).eval()
        optimizer = torch.optim.Adam(model.parameters(), lr=recipe.training.learning_rate, fused=True)
        split = task.splits["train"]
        rows = list(StepBatches(split, BATCH_SIZE, rounds + 1, 0, "epochs", LENGTH_BUCKETS))
        parts = [{key: tensor.to(device) for key, tensor in split[some].items()} for some in rows]

        def update(index: int, model=model, optimizer=optimizer, parts=parts) -> None:
            training_step(model, optimizer, parts[index * LENGTH_BUCKETS : (index + 1) * LENGTH_BUCKETS])

        whole = split[np.concatenate(rows[:LENGTH_BUCKETS])]
        ids, mask = whole["input_ids"].to(device), whole["attention_mask"].to(device)

        def write(_: int, reader=reader, ids=ids, mask=mask, steps=task.longest_target) -> None:
            greedy_decode(reader, ids, mask, steps)

        train[name], decode[name] = update, write
    return {"train": in_turns(train, rounds, device, clock), "decode": in_turns(decode, decode_rounds, device, clock)}


def summary(times: dict[str, dict[str, list[float]]]) -> list[dict]:
    """For each model its speed and the ratio of its time to its baseline's, median and quartiles."""
    rows = []
    for what, work in (("train", 1), ("decode", BATCH_SIZE)):
        for name, seconds in times[what].items():
            base = CONTENDERS[name][1]
            ratios = np.array(seconds) / np.array(times[what][base])
            low, middle, high = np.quantile(ratios, (0.25, 0.5, 0.75)).round(4).tolist()
            rows.append(
                {
                    "what": what,
                    "name": name,
                    "recipe": CONTENDERS[name][0],
                    "per_second": round(work / float(np.median(seconds)), 4),
                    "base": base,
                    "times_base": middle,
                    "times_base_quartiles": [low, high],
                }
            )
    return rows


def show(rows: list[dict], threads: int) -> str:
    texts = []
    for what, unit in (("train", "updates/s"), ("decode", "sequences/s")):
        cells = []
        for row in rows:
            if row["what"] == what:
                low, high = row["times_base_quartiles"]
                times = f"{row['times_base']:.3f} [{low:.3f}, {high:.3f}]"
                cells.append((row["name"], f"{row['per_second']:.3f}", times, row["base"]))
        texts.append(table((f"{what}, {threads} thread(s)", unit, "x time of base [quartiles]", "base"), cells))
    return "\n\n".join(texts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="default: gated_attention.json here; none of --quick")
    parser.add_argument("--rounds", type=int, default=21, help="updates of each contender")
    parser.add_argument("--decode-rounds", type=int, default=7, help="batches that each contender decodes")
    parser.add_argument("--threads", type=int, nargs="*", default=[1], help="numbers of threads")
    parser.add_argument("--only", nargs="*", choices=CONTENDERS, default=list(CONTENDERS), help="of these, with bases")
    parser.add_argument("--quick", action="store_true", help="one round")
    arguments = parser.parse_args()
    output = output_of(__file__, arguments.output, arguments.quick)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rounds = (1, 1) if arguments.quick else (arguments.rounds, arguments.decode_rounds)
    wanted = {name for one in arguments.only for name in (one, CONTENDERS[one][1])}
    results, load = [], [os.getloadavg()[0]]
    for threads in arguments.threads:
        torch.set_num_threads(threads)
        rows = summary(measure([name for name in CONTENDERS if name in wanted], *rounds, device))
        print(show(rows, threads), flush=True)
        results += [{"threads": threads, **row} for row in rows]
        load.append(os.getloadavg()[0])
    sizes = {"batch_size": BATCH_SIZE, "length_buckets": LENGTH_BUCKETS}
    setup = {**sizes, "rounds": rounds[0], "decode_rounds": rounds[1]}
    record = {**machine(), **setup, "load_average": [round(value, 1) for value in load], "results": results}
    if output is not None:
        write_atomic(output, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
