"""
On one GPU: the time of 50,000 SCAN steps, and the cutoff-26 row of Table 3 (four variants, five seeds).

`python perf/gpu_scan_row.py time` trains one variant (goal: 90 s); `... row` trains all runs, several at once, and
resumes unfinished ones; both write JSON beside this script. Runs live in `--runs`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hf_sysgen.files import write_atomic
from hf_sysgen.results.reading import read_record
from hf_sysgen.results.record import RESULTS, Record, write_record
from hf_sysgen.tables import table

ROOT = Path(__file__).resolve().parent.parent
VARIANTS = ("transformer", "universal", "relative", "relative_universal")
# the paper's setup, adapted to a GPU: one length bucket, and CUDA graphs
OVERRIDES = (
    "training.torch_compile=true", "training.torch_compile_mode=reduce-overhead", "batches.length_buckets=1",
    "training.report_to=none",
)  # fmt: skip


def train(variant: str, seed: int, runs: Path, extra: tuple[str, ...] = ()) -> Record | None:
    """The results record of one run, or None (with its log printed) if it failed."""
    run_dir = runs / f"scan_length26_{variant}" / f"seed{seed}"
    recipe = ROOT / "recipes" / "csordas2021" / f"scan_length26_{variant}.yaml"
    command = [sys.executable, "-m", "hf_sysgen.train", str(recipe), f"seed={seed}", f"output_dir={run_dir}"]
    done = subprocess.run(
        [*command, *OVERRIDES, *extra], env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True
    )
    print(f"{variant} seed {seed}: exit {done.returncode} {done.stdout.strip().splitlines()[-1:]}", flush=True)
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr, flush=True)
        return None
    return read_record(run_dir / RESULTS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("time", "row"))
    parser.add_argument("--runs", type=Path, default=Path("runs/gpu"))
    parser.add_argument("--at-once", type=int, default=5, help="runs sharing the GPU")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent)
    parser.add_argument("--override", action="append", default=[], help="for every run, e.g. training.max_steps=20")
    arguments = parser.parse_args()
    extra = tuple(arguments.override)
    if arguments.what == "time":
        record = train(
            "relative_universal",
            0,
            arguments.runs / "time",
            ("training.eval_steps=null", "training.save_steps=50000", *extra),
        )
        if record is None:
            sys.exit(1)
        print(f"{record.steps} steps in {record.train_seconds} s on {record.environment.device} (goal: 50,000 in 90 s)")
        write_record(arguments.output / "gpu_scan_time.json", record)
        return
    jobs = [(variant, seed) for variant in VARIANTS for seed in range(arguments.seeds)]
    with ThreadPoolExecutor(arguments.at_once) as pool:
        records = list(pool.map(lambda job: train(job[0], job[1], arguments.runs, extra), jobs))
    rows = []
    for variant in VARIANTS:
        mine = [record for (name, _), record in zip(jobs, records, strict=True) if name == variant and record]
        for split in ("validation", "test"):
            values = [record.splits[split].accuracy or 0.0 for record in mine]
            spread = statistics.stdev(values) if len(values) > 1 else float("nan")
            mean = statistics.mean(values) if values else float("nan")
            rows.append((variant, split, len(values), f"{mean:.4f}", f"{spread:.4f}"))
    print(table(("variant", "split", "seeds", "mean", "std (n-1)"), rows))
    done = [record for record in records if record]
    content = [record.model_dump(mode="json") for record in done]
    write_atomic(arguments.output / "gpu_scan_row.json", json.dumps(content, indent=1) + "\n")
    sys.exit(len(done) < len(jobs))


if __name__ == "__main__":
    main()
