"""
On one GPU: the time of SCAN's updates, and runs of recipes for SCAN, by default the cutoff-26 row of Table 3 (four
variants, five seeds).

`python perf/gpu_scan_row.py time` trains one variant for `--steps` updates (goal: the paper's 50,000 in 90 s), but
first for 500, which tells what compiling costs; gpu_scan_time.json has the record of the longer run that ended.
`... row` trains all runs, several at once, and gpu_scan_row.json has the records of those that ended. A run that is
stopped resumes when it is started again. What runs print is shown as it comes, with the seconds since the start. Runs
live in `--runs`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from hf_sysgen.files import write_atomic
from hf_sysgen.results.reading import read_record
from hf_sysgen.results.record import RESULTS, Record, write_record
from hf_sysgen.tables import table

ROOT = Path(__file__).resolve().parent.parent
ROW = tuple(
    f"csordas2021/scan_length26_{variant}" for variant in ("transformer", "universal", "relative", "relative_universal")
)
# the paper's setup, adapted to a GPU: one length bucket, and CUDA graphs; a checkpoint every few seconds
OVERRIDES = (
    "training.torch_compile=true", "training.torch_compile_mode=reduce-overhead", "batches.length_buckets=1",
    "training.report_to=none", "training.save_steps=5000",
)  # fmt: skip


def train(name: str, seed: int, runs: Path, extra: tuple[str, ...] = ()) -> Record | None:
    """The results record of one run of a shipped recipe, e.g. chaabouni2021/scan_sag, or None if it failed."""
    run_dir = runs / Path(name).name / f"seed{seed}"
    recipe = ROOT / "recipes" / f"{name}.yaml"
    command = [sys.executable, "-m", "hf_sysgen.train", str(recipe), f"seed={seed}", f"output_dir={run_dir}"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    start = time.monotonic()
    with subprocess.Popen(
        [*command, *OVERRIDES, *extra], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(f"{name} seed {seed}, {time.monotonic() - start:.1f} s: {line}", end="", flush=True)
    print(f"{name} seed {seed}: exit {process.returncode}", flush=True)
    return None if process.returncode else read_record(run_dir / RESULTS)


def time_updates(runs: Path, steps: int, extra: tuple[str, ...], output: Path) -> bool:
    """Train one variant for at most 500 updates, then for all; whether both ended."""
    for name, count in (("short", min(500, steps)), ("whole", steps)):
        of_run = ("training.eval_steps=null", *extra, f"training.max_steps={count}")
        record = train(ROW[-1], 0, runs / name, of_run)
        if record is None:
            return False
        device = record.environment.device
        print(f"{record.steps} steps in {record.train_seconds} s on {device} (goal: 50,000 in 90 s)", flush=True)
        write_record(output / "gpu_scan_time.json", record.without_local_paths())
    return True


def train_row(recipes: list[str], seeds: int, at_once: int, runs: Path, extra: tuple[str, ...], output: Path) -> bool:
    """Train every recipe with every seed; whether all ended."""
    records: dict[tuple[str, int], Record] = {}
    with ThreadPoolExecutor(at_once) as pool:
        jobs = {pool.submit(train, name, seed, runs, extra): (name, seed) for name in recipes for seed in range(seeds)}
        for job in as_completed(jobs):
            record = job.result()
            if record is not None:
                records[jobs[job]] = record
                content = [one.without_local_paths().model_dump(mode="json") for _, one in sorted(records.items())]
                write_atomic(output / "gpu_scan_row.json", json.dumps(content, indent=1) + "\n")
    rows = []
    for recipe in recipes:
        mine = [record for (name, _), record in records.items() if name == recipe]
        for split in ("validation", "test"):
            # not every split of SCAN has a validation part
            values = [record.splits[split].accuracy or 0.0 for record in mine if split in record.splits]
            spread = statistics.stdev(values) if len(values) > 1 else float("nan")
            mean = statistics.mean(values) if values else float("nan")
            rows.append((recipe, split, len(values), f"{mean:.4f}", f"{spread:.4f}"))
    print(table(("recipe", "split", "seeds", "mean", "std (n-1)"), rows))
    return len(records) == len(jobs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("time", "row"))
    parser.add_argument("--runs", type=Path, default=Path("runs/gpu"))
    parser.add_argument("--recipes", nargs="+", default=list(ROW), help="of `row`, e.g. chaabouni2021/scan_sag")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=50_000, help="updates of `time`")
    parser.add_argument("--at-once", type=int, default=5, help="runs sharing the GPU")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent, help="folder of the JSON files")
    parser.add_argument("--override", action="append", default=[], help="for every run, e.g. training.max_steps=20")
    given = parser.parse_args()
    extra = tuple(given.override)
    if given.what == "time":
        ended = time_updates(given.runs, given.steps, extra, given.output)
    else:
        ended = train_row(given.recipes, given.seeds, given.at_once, given.runs, extra, given.output)
    sys.exit(not ended)


if __name__ == "__main__":
    main()
