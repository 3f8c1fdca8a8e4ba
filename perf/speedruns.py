"""
Time on one core to a paper's number, for the recipes in recipes/speedruns.

`python perf/speedruns.py RECIPE ... [--seeds 0 1 2]` trains each recipe with each seed on one thread, from nothing, and
keeps its time in perf/speedruns.json and its record in results/speedruns. The time is processor time of the whole run,
from its start to the evaluation of every split, so that other processes lengthen it little. A seed that has a row is
not run again, unless the recipe has changed since. A run that is killed starts again.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

from kept_records import check_commit, keep

from hf_sysgen.config.io import load_recipe
from hf_sysgen.errors import UserError
from hf_sysgen.files import write_atomic
from hf_sysgen.results.environment import git_commit
from hf_sysgen.results.reading import read_record
from hf_sysgen.results.record import RESULTS

ROOT = Path(__file__).resolve().parents[1]
OUTPUT = ROOT / "perf" / "speedruns.json"
RUNS = ROOT / "runs" / "speedruns"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def rows() -> list[dict[str, Any]]:
    """The kept rows; see [`timed`]."""
    return json.loads(OUTPUT.read_text(encoding="utf-8")) if OUTPUT.exists() else []


def timed(path: Path, seed: int) -> dict[str, Any]:
    """
    Train a recipe with a seed, and keep its record.

    Returns:
        `recipe`, `seed`, `hash` of the recipe, processor `seconds` of the run, `steps`, `device`, `commit`, `date`.

    Raises:
        SystemExit: the package's files were changed since their commit, or the run failed.
    """
    check_commit(git_commit(), f"{path} seed={seed}")
    run_dir = RUNS / path.stem / f"seed{seed}"
    shutil.rmtree(run_dir, ignore_errors=True)
    command = [sys.executable, "-m", "hf_sysgen.train", str(path), f"seed={seed}", f"output_dir={run_dir}"]
    process = subprocess.Popen(command, env=os.environ | ONE_THREAD)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{path} seed={seed}: the run ended with status {os.waitstatus_to_exitcode(status)}")
    record = read_record(run_dir / RESULTS)
    keep(record)
    return {
        "recipe": path.stem,
        "seed": seed,
        "hash": record.recipe_hash,
        "seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "steps": record.steps,
        "device": record.environment.device,
        "commit": record.commit,
        "date": date.today().isoformat(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="+", type=Path, help="files in recipes/speedruns")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    given = parser.parse_args()
    for path in given.recipes:
        for seed in given.seeds:
            same = {"recipe": path.stem, "seed": seed}
            recipe = load_recipe(path, [f"seed={seed}"])
            # where `training.bf16` is auto, either may have been taken
            wanted = {recipe.settled(bf16).hash for bf16 in (False, True)}
            if any(row["hash"] in wanted and same.items() <= row.items() for row in rows()):
                continue
            row = timed(path, seed)
            # read only now: another process may have added rows in the meantime
            kept = [one for one in rows() if not same.items() <= one.items()]
            ordered = sorted([*kept, row], key=lambda one: (one["recipe"], one["seed"]))
            write_atomic(OUTPUT, json.dumps(ordered, indent=1) + "\n")


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")
