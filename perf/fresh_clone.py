"""
What a newcomer waits for: `python perf/fresh_clone.py` clones the last commit of this checkout, runs `make install`,
`make run` and `make test` in the clone, and writes perf/fresh_clone.json: seconds by the clock, the size of the clone
after each with its virtual environment, the accuracies of the models that it trained, and which PyTorch it took. Half
an hour on two cores, which should have nothing else to do. Variables for `make` are given behind the targets, as
`TORCH_INDEX=URL`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

from machine import machine

from hf_sysgen.files import write_atomic
from hf_sysgen.results.reading import read_record
from hf_sysgen.results.record import RESULTS

ROOT = Path(__file__).resolve().parents[1]
# a virtual environment that is active, and settings of our own, are not a newcomer's
OURS = {"VIRTUAL_ENV", "OMP_NUM_THREADS", "MAKEFLAGS"}
OURS_BEGIN = ("PYTHON", "HF_", "TOKENIZERS_")


def gigabytes(folder: Path) -> float:
    """What the files of a folder take."""
    return round(sum(path.lstat().st_size for path in folder.rglob("*")) / 1e9, 2)


def accuracies(folder: Path) -> dict[str, dict[str, float | None]]:
    """Run -> split -> accuracy, of the runs in a clone."""
    records = {path: read_record(path) for path in sorted((folder / "runs").rglob(RESULTS))}
    return {
        str(path.parent.relative_to(folder / "runs")): {name: split.accuracy for name, split in record.splits.items()}
        for path, record in records.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", default=["install", "run", "test"])
    parser.add_argument("--repository", default=str(ROOT), help="what is cloned")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    variables = [word for word in options.targets if "=" in word]
    clean = {key: value for key, value in os.environ.items() if key not in OURS and not key.startswith(OURS_BEGIN)}
    record = {**machine(), "load_average": os.getloadavg()[0], "targets": {}}
    with tempfile.TemporaryDirectory() as temporary:
        clone = Path(temporary) / "clone"
        subprocess.run(["git", "clone", "-q", options.repository, str(clone)], check=True)
        for target in (word for word in options.targets if word not in variables):
            start = time.perf_counter()
            subprocess.run(["make", target, *variables], cwd=clone, env=clean, check=True)
            seconds = round(time.perf_counter() - start)
            record["targets"][target] = {"seconds": seconds, "gigabytes": gigabytes(clone)}
            record["accuracies"] = accuracies(clone)
            if (python := clone / ".venv" / "bin" / "python").exists():
                code = "import importlib.metadata; print(importlib.metadata.version('torch'))"
                record["torch"] = subprocess.check_output([python, "-c", code], text=True).strip()
            # now, because the next target may fail
            write_atomic(options.output, json.dumps(record, indent=1) + "\n")
            print(f"make {target}: {seconds} s", flush=True)


if __name__ == "__main__":
    main()
