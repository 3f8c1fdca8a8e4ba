"""
`python perf/report_load.py` measures `hf-sysgen report all` over 200 recorded runs, one of them cut short, and writes
perf/report_load.json. The runs are the two of `make run`, recorded a hundred times with different seeds. Whole
processes are timed, with imports.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kept_records import HERE, kept_cells

from hf_sysgen.files import write_whole
from hf_sysgen.results.environment import environment
from hf_sysgen.results.record import RESULTS, write_record

# the runs of `make run`
QUICK = ("scan_length26_quick_relative_universal", "scan_length26_quick_universal")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, default=HERE / "report_load.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cells = [kept_cells()[name][0] for name in QUICK]
        for number in range(options.runs):
            seed = number // len(cells)
            record = cells[number % len(cells)].model_copy(update={"seed": seed})
            write_record(folder / "runs" / record.name / f"seed{seed}" / RESULTS, record)
        cut = folder / "runs" / QUICK[0] / "seed0" / RESULTS
        cut.write_text(cut.read_text(encoding="utf-8")[:1000], encoding="utf-8")
        seconds = []
        for _ in range(options.rounds):
            start = time.perf_counter()
            done = subprocess.run(
                [sys.executable, "-m", "hf_sysgen.cli", "report", "all"],
                cwd=folder, capture_output=True, text=True, check=True,
            )  # fmt: skip
            seconds.append(time.perf_counter() - start)
        if f"{options.runs - 1} runs" not in done.stdout or f"skipped {cut.resolve()}" not in done.stdout:
            raise SystemExit(f"not all runs are reported: {done.stdout}")
    median = statistics.median(seconds)
    print(f"{options.runs} runs, one cut short: median of {options.rounds} rounds {median:.1f} s")
    measured = {"device": environment()["device"], "runs": options.runs, "seconds": seconds, "median": median}
    write_whole(options.output, json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    main()
