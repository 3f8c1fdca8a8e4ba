"""
On one GPU: tokens per second of the pretraining recipes, and the time of all their steps.

`python perf/gpu_pretraining.py` trains each of the 22 recipes `pretrain_*` (or those named) for some updates, each in
its own process, and writes perf/gpu_pretraining.json. It runs the whole pipeline: reading and tokenizing in a thread
(generated text, with a tokenizer of 32,000 subwords), the Trainer, bf16, torch.compile, gradient accumulation,
clipping, the fused AdamW. The first updates, which compile, are left out; the median of the others is reported. A
recipe that fails has a row with its `error`, and the exit status is 1.

MFU is the share of the device's measured peak (a bf16 product of 8192 x 8192 matrices) that the useful work of an
update needs, FLOPs as in pretraining.py. Days are steps x batch x context / (tokens a second): one GPU, evaluation and
checkpoints excluded. Days on 8 and 64 GPUs assume that speed grows with their number, which is not measured.

`--quick` shrinks models and batches, as a check of the script itself, also without a GPU.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from machine import machine, output_of
from pretraining import flops_per_token, measured_peak
from transformers import TrainerCallback

from hf_sysgen.config.io import load_recipe
from hf_sysgen.config.recipe import Recipe
from hf_sysgen.config.sections import WithReplacement
from hf_sysgen.data.c4.files import write_shards
from hf_sysgen.data.text.byte_pairs import train_byte_pairs
from hf_sysgen.files import write_atomic
from hf_sysgen.tables import table
from hf_sysgen.training.run import attention_of, quiet_libraries
from hf_sysgen.training.tasks.registry import prepare_task
from hf_sysgen.training.trainer import SysgenTrainer

RECIPES = Path(__file__).resolve().parent.parent / "recipes" / "petty2023"
WARM_UP = 5
# on one machine, and on eight
GPUS = (1, 8, 64)
QUICK = (
    "model.size_class=null", "model.hidden_size=64", "model.intermediate_size=64", "model.num_attention_heads=4",
    "batches.size=8", "data.context_length=32", "data.streams=4", "training.torch_compile=false", "training.bf16=false",
)  # fmt: skip


def made_texts(subwords: int, documents: int) -> list[str]:
    """Documents of random words, enough for that many subwords."""
    draw = random.Random(0)
    words = ["".join(draw.choices("etaoinshrdlucmfw", k=draw.randint(2, 9))) for _ in range(2 * subwords)]
    return [" ".join(draw.choices(words, k=500)) for _ in range(documents)]


class Stamps(TrainerCallback):
    """Records the time at the end of each update."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def on_step_end(self, *args, **kwargs) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.times.append(time.perf_counter())


def days(recipe: Recipe, tokens_per_second: float) -> float:
    """The days that all steps of a recipe take at a measured speed."""
    return recipe.training.max_steps * tokens_of_update(recipe) / tokens_per_second / 86_400


def tokens_of_update(recipe: Recipe) -> int:
    assert isinstance(recipe.batches, WithReplacement)
    return recipe.batches.size * recipe.data.context_length


def measure(name: str, folder: Path, overrides: list[str], steps: int) -> dict:
    """Speed and memory of a recipe's updates, in this process."""
    quiet_libraries()
    path = RECIPES / f"{name}.yaml"
    own = [
        f"training.max_steps={WARM_UP + steps}", "schedule.warmup_steps=1", "training.kept_steps=[]",
        "training.eval_steps=null", f"training.save_steps={10**9}", "data.validation_examples=1",
        "training.report_to=none", f"data.data_dir={folder}", f"data.tokenizer={folder / 'tokenizer'}",
        f"output_dir={folder / name}",
    ]  # fmt: skip
    recipe = load_recipe(path, [*overrides, *own])
    task = prepare_task(recipe)
    model = task.build_model(attention_of(recipe))
    flops = flops_per_token(model, recipe.data.context_length)
    trainer, stamps = SysgenTrainer(recipe, model, task), Stamps()
    trainer.add_callback(stamps)
    trainer.train()
    seconds = [after - before for before, after in zip(stamps.times, stamps.times[1:], strict=False)][WARM_UP - 1 :]
    speed = tokens_of_update(recipe) / statistics.median(seconds)
    return {
        "recipe": name,
        "overrides": overrides,
        "length_buckets": getattr(recipe.batches, "length_buckets", 1),
        "parameters": model.num_parameters(),
        "tokens_per_second": speed,
        "seconds": seconds,
        "flops_per_token": flops,
        "peak_bytes": torch.cuda.max_memory_allocated() if torch.cuda.is_available() else None,
        "days": days(load_recipe(path, overrides), speed),
    }


def show(rows: list[dict], peak: float | None) -> str:
    """A line for each recipe, and the days of all."""
    lines = [
        (
            row["recipe"],
            f"{row['parameters']:,}",
            f"{row['tokens_per_second']:,.0f}",
            f"{row['tokens_per_second'] * row['flops_per_token'] / peak:.1%}" if peak else "-",
            f"{row['peak_bytes'] / 2**30:.1f}" if row["peak_bytes"] else "-",
            f"{row['days']:.2f}",
        )
        for row in rows
    ]
    header = ("recipe", "parameters", "tokens/s", "MFU", "GiB", "GPU days of all steps")
    return table(header, lines)


def plan(rows: list[dict]) -> str:
    """The days of all recipes, one after the other, by size class and number of GPUs."""
    classes: dict[str, float] = {}
    for row in rows:
        name = row["recipe"].split("_")[1]
        classes[name] = classes.get(name, 0.0) + row["days"]
    names = sorted(classes, key=lambda name: (len(name), name))
    days = [*(classes[name] for name in names), sum(classes.values())]
    header = ("days of all steps", *names, f"all {len(rows)} runs")
    lines = [(f"{gpus} GPU{'s' * (gpus > 1)}", *(f"{one / gpus:.2f}" for one in days)) for gpus in GPUS]
    return f"{table(header, lines)}\nmeasured on one GPU; of more, if speed grows with their number"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="*", help="e.g. pretrain_134M_12; default: all but the quick ones")
    parser.add_argument("--steps", type=int, default=20, help="timed updates")
    parser.add_argument("--override", action="append", default=[], help="e.g. batches.length_buckets=2")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--output", type=Path, help="default: gpu_pretraining.json here; none of --quick")
    # folder of the text: measure in this process and print JSON
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    output = output_of(__file__, arguments.output, arguments.quick)
    overrides = [*(QUICK if arguments.quick else ()), *arguments.override]
    if arguments.folder is not None:
        [name] = arguments.recipes
        print(json.dumps(measure(name, arguments.folder, overrides, arguments.steps)))
        return
    every = sorted(path.stem for path in RECIPES.glob("pretrain_*.yaml") if "quick" not in path.stem)
    peak = measured_peak() if torch.cuda.is_available() else None
    rows: list[dict] = []

    def write() -> None:
        if output is not None:
            record = {**machine(), "measured_peak_flops": peak, "results": rows}
            write_atomic(output, json.dumps(record, indent=1) + "\n")

    # the peak stays if the time runs out
    write()
    with tempfile.TemporaryDirectory() as scratch:
        folder, subwords = Path(scratch), 1_000 if arguments.quick else 32_000
        train_byte_pairs(made_texts(subwords, 300), subwords).save_pretrained(folder / "tokenizer")
        write_shards(folder, "validation", made_texts(subwords, 5), 1)
        tokens = 1_000 * (WARM_UP + arguments.steps) * (1 if arguments.quick else 132)
        write_shards(folder, "train", made_texts(subwords, 320 + tokens // 500), 64)
        for name in arguments.recipes or every:
            words = [sys.executable, __file__, name, "--folder", str(folder), "--steps", str(arguments.steps)]
            words += [part for override in overrides for part in ("--override", override)]
            done = subprocess.run(words, stdout=subprocess.PIPE, text=True)
            if done.returncode:
                print(f"{name} failed, its messages are above", file=sys.stderr, flush=True)
                rows.append({"recipe": name, "overrides": overrides, "error": f"exit status {done.returncode}"})
            else:
                rows.append(json.loads(done.stdout.splitlines()[-1]))
                print(show(rows[-1:], peak), flush=True)
            write()
    measured = [row for row in rows if "error" not in row]
    if measured:
        print(f"\n{show(measured, peak)}\n\n{plan(measured)}")
    sys.exit(len(measured) < len(rows))


if __name__ == "__main__":
    main()
