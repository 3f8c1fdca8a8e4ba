"""
What grows with the work, and how: `python perf/growth.py` writes perf/growth.json. Whole processes are timed, imports
included; memory is the largest of a process and its children. Parts (`--only` takes some):

- `records`: `hf-sysgen report all` over 10 to 5,000 records, one of them cut short.
- `sweep`: `hf-sysgen sweep --dry-run` over 10 to 5,000 runs, none of them trained, then half of them.
- `shards`: four updates of pretraining from 1 to 1,024 shards of the same text, then the last two resumed.
- `processes`: one recipe without dropout on 1, 2 and 4 processes of this machine: seconds an update, and how far the
  losses differ.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from kept_records import HERE, kept_cells
from machine import machine, output_of

from hf_sysgen.config.io import load_recipe
from hf_sysgen.files import write_atomic
from hf_sysgen.results.reading import read_record
from hf_sysgen.results.record import RESULTS, write_record
from hf_sysgen.training.run_folder import RECIPE_COPY

COUNTS = [10, 100, 1000, 5000]
SHARDS = [1, 16, 128, 1024]
PROCESSES = [1, 2, 4]
RECIPE = "csordas2021/scan_length26_quick_universal.yaml"
COMMAND = [sys.executable, "-m", "hf_sysgen.cli"]
SMALL_TEXT: dict[str, Any] = {
    "model": {"type": "depth_width_decoder", "num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2},
    "data": {
        "benchmark": "c4",
        "config": "en",
        "data_dir": "text",
        "tokenizer": "words",
        "context_length": 64,
        "validation_examples": 50,
    },
    "batches": {"sampling": "with_replacement", "size": 8},
    "training": {"max_steps": 4, "learning_rate": 1e-3, "save_steps": 2, "eval_steps": 4},
    "evaluation": {"examples": 8},
}


def timed(words: list[str], folder: Path, rounds: int = 1) -> tuple[dict[str, float], str]:
    """Median seconds and megabytes of a command in a folder, and what it printed last."""
    seconds, megabytes, printed = [], [], ""
    for _ in range(rounds):
        start = time.perf_counter()
        # a process of its own, so that its children's memory is not that of earlier ones
        child = "import resource, subprocess, sys; code = subprocess.run(sys.argv[1:]).returncode; "
        child += "print('KB', resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); sys.exit(code)"
        done = subprocess.run(
            [sys.executable, "-c", child, *words], cwd=folder, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(words)}: {done.stdout}{done.stderr}")
        seconds.append(time.perf_counter() - start)
        printed, _, kilobytes = done.stdout.rpartition("KB")
        megabytes.append(int(kilobytes) / 1024)
    return {"seconds": statistics.median(seconds), "megabytes": statistics.median(megabytes)}, printed


def records(folder: Path, rounds: int) -> Iterator[dict[str, Any]]:
    kept = kept_cells()[load_recipe(RECIPE).cell_key][0]
    for count in COUNTS:
        runs = folder / str(count) / "runs"
        for seed in range(count):
            write_record(runs / kept.name / f"seed{seed}" / RESULTS, kept.model_copy(update={"seed": seed}))
        cut = runs / kept.name / "seed0" / RESULTS
        cut.write_text(cut.read_text(encoding="utf-8")[:1000], encoding="utf-8")
        measured, printed = timed([*COMMAND, "report", "all"], runs.parent, rounds)
        if f"{count - 1:,} runs" not in printed:
            raise SystemExit(f"not all of {count} runs are reported: {printed[:500]}")
        yield {"records": count, **measured}


def sweep(folder: Path, rounds: int) -> Iterator[dict[str, Any]]:
    recipe = load_recipe(RECIPE)
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe.to_dict()), encoding="utf-8")
    kept = kept_cells()[recipe.cell_key][0]
    for count in COUNTS:
        place = folder / str(count)
        place.mkdir()
        words = {"recipes": ["../recipe.yaml"], "seeds": list(range(count))}
        (place / "sweep.yaml").write_text(yaml.safe_dump(words), encoding="utf-8")
        command = [*COMMAND, "sweep", "sweep.yaml", "--dry-run"]
        none, _ = timed(command, place, rounds)
        for seed in range(count // 2):
            run = recipe.replace(seed=seed)
            of_run = {"seed": seed, "recipe": run, "recipe_hash": run.hash, "file": "recipe"}
            run_dir = place / "runs" / "recipe" / f"seed{seed}"
            write_record(run_dir / RESULTS, kept.model_copy(update=of_run))
            (run_dir / RECIPE_COPY).write_text(yaml.safe_dump(run.to_dict()), encoding="utf-8")
        half, printed = timed(command, place, rounds)
        if f"{count // 2} finished" not in printed:
            raise SystemExit(f"half of {count} runs are not seen as finished: {printed[-500:]}")
        yield {"runs": count, "none_trained": none, "half_trained": half}


def shards(folder: Path, rounds: int) -> Iterator[dict[str, Any]]:
    from hf_sysgen.data.c4.files import write_shards
    from hf_sysgen.data.text.byte_pairs import train_byte_pairs

    draw = random.Random(0)
    words = [f"word{number}" for number in range(200)]
    texts = [" ".join(draw.choices(words, k=100)) for _ in range(40 * max(SHARDS))]
    for count in SHARDS:
        place = folder / str(count)
        write_shards(place / "text", "train", texts, count)
        write_shards(place / "text", "validation", texts[:200], 1)
        train_byte_pairs(texts[:200], 400).save_pretrained(place / "words")
        streams = {"data": {**SMALL_TEXT["data"], "streams": min(count, 4)}}
        (place / "recipe.yaml").write_text(yaml.safe_dump(SMALL_TEXT | streams), encoding="utf-8")
        command = [*COMMAND, "train", "recipe.yaml", "output_dir=run"]
        whole, _ = timed(command, place)
        first = read_record(place / "run" / RESULTS)
        # as a run killed after the checkpoint in the middle
        for path in (place / "run").iterdir():
            if path.name not in ("checkpoint-2", "recipe.yaml"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        resumed, _ = timed(command, place)
        second = read_record(place / "run" / RESULTS)
        same = first.splits == second.splits
        yield {"shards": count, "start": whole, "resume": resumed, "same_result": same}


def processes(folder: Path, rounds: int) -> Iterator[dict[str, Any]]:
    losses: list[float] = []
    for count in PROCESSES:
        words = ["training.max_steps=24", "training.eval_steps=null", "training.save_steps=1000", "batches.size=128"]
        # each process draws its own dropout
        words += ["model.dropout=0", "evaluation.examples=8", f"output_dir=run{count}"]
        launch = []
        if count > 1:
            launch = ["-m", "accelerate.commands.launch", "--num_processes", str(count)]
            launch += ["--config_file", str(HERE.parent / "recipes" / "accelerate" / "cpu_two_processes.yaml")]
        recipe = str(HERE.parent / "recipes" / RECIPE)
        measured, _ = timed([sys.executable, *launch, "-m", "hf_sysgen.train", recipe, *words], folder)
        record = read_record(folder / f"run{count}" / RESULTS)
        loss = record.splits["validation"].loss
        assert loss is not None
        losses.append(loss)
        yield {
            "processes": count,
            "seconds_per_update": record.train_seconds / record.steps,
            "megabytes": measured["megabytes"],
            "loss_off": abs(losses[-1] - losses[0]),
        }


PARTS = {part.__name__: part for part in (records, sweep, shards, processes)}
ONCE = ("shards", "processes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--rounds", type=int, default=3, help="of records and sweep; the others are measured once")
    parser.add_argument("--quick", action="store_true", help="only the smallest number of each part")
    parser.add_argument("--output", type=Path, help="default: growth.json here; none of --quick")
    options = parser.parse_args()
    output = output_of(__file__, options.output, options.quick)
    if options.quick:
        for counts in (COUNTS, SHARDS, PROCESSES):
            del counts[1:]
    os.environ["OMP_NUM_THREADS"] = "1"
    measured = json.loads(output.read_text(encoding="utf-8")) if output is not None and output.exists() else {}
    for name in options.only:
        measured[name] = []
        with tempfile.TemporaryDirectory() as folder:
            for row in PARTS[name](Path(folder), options.rounds):
                print(name, json.dumps(row), flush=True)
                measured[name].append(row)
        rounds = 1 if name in ONCE else options.rounds
        setup = {"cores": os.cpu_count(), "rounds": rounds, "environment": machine()}
        measured["setup"] = measured.get("setup", {}) | {name: setup}
        if output is not None:
            write_atomic(output, json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    main()
