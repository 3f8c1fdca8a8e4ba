"""
How fast benchmarks are prepared, and how long prepared ones take to load.

`python perf/data_loading.py --data-dir FOLDER` measures the benchmarks in the mirror folder, and writes
perf/data_loading.json. Medians of `--rounds` rounds, all configs in turn. Columns:

- `prepare_rows_per_cpu_second`, `prepare_seconds`: located, checked, converted and written as Arrow, in an empty cache;
  processor and clock time. On a busy machine use the first.
- `load_seconds`: `load_benchmark` and the first example of each split, in a process that has done so before.
- `load_in_new_process_seconds`: the same, the first time in a process, after `import datasets`.
- `new_process_seconds`: such a process from its start to its end.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import datasets
from machine import machine

from hf_sysgen.data import registry
from hf_sysgen.data.fetch import DATA_DIR_VARIABLE
from hf_sysgen.data.pcfg_set.builder import PcfgSet
from hf_sysgen.files import write_atomic

CONFIGS = (
    ("cfq", "mcd1"),
    ("cfq_dependencies", "mcd1_own_heads"),
    ("clutrr", "gen_train234_test2to10"),
    ("cogs", "gen_2020"),
    ("cogs_graph", "gen_2020"),
    ("cogs_vf", "gen_2020"),
    ("english_passivization", "nps"),
    ("flores", "ne-en"),
    ("geoquery", "standard"),
    ("mathematics", "arithmetic__add_or_sub_generated"),
    ("pcfg_set", "productivity"),
    ("scan", "length_cutoff_26"),
    ("slog", "varfree"),
)
FRESH = """
import sys, time
import datasets
from hf_sysgen.data import load_benchmark
start = time.perf_counter()
[part[0] for part in load_benchmark(*sys.argv[1:3], cache_dir=sys.argv[3]).values()]
print(time.perf_counter() - start)
"""


def builder_class(name: str, config: str, data_dir: Path) -> type[datasets.GeneratorBasedBuilder]:
    """The benchmark's builder; for PCFG SET, whose training sources may be missing, only with the splits that exist."""
    found = type(registry.benchmark_builder(name, config))
    info = found.BENCHMARK.configs[config]
    present = {role: source for role, source in info.sources.items() if list(data_dir.glob(f"{source.mirror}*"))}
    if not issubclass(found, PcfgSet) or len(present) == len(info.sources):
        return found
    counts = {split: count for split, count in info.num_examples.items() if split in present}
    partial = replace(info, num_examples=counts, sources=present)

    class Partial(found):  # type: ignore[misc,valid-type]
        BENCHMARK = replace(found.BENCHMARK, configs={config: partial})

    return Partial


def measured(name: str, config: str, rounds: int, data_dir: Path, scratch: Path) -> dict:
    """One row of the record."""
    builders = builder_class(name, config, data_dir)
    times: dict[str, list[float]] = {"prepare_cpu": [], "prepare": [], "load": [], "first": [], "process": []}
    rows = 0
    for number in range(rounds):
        cache = scratch / f"{name}-{config}-{number}"
        builder = builders(cache_dir=cache, config_name=config)
        clock, processor = time.perf_counter(), time.process_time()
        builder.download_and_prepare()
        times["prepare"].append(time.perf_counter() - clock)
        times["prepare_cpu"].append(time.process_time() - processor)
        rows = sum(split.num_examples for split in builder.info.splits.values())
        for _ in range(2):
            clock = time.perf_counter()
            again = builders(cache_dir=cache, config_name=config)
            again.download_and_prepare()
            assert all(part[0] for part in again.as_dataset().values())
            took = time.perf_counter() - clock
        times["load"].append(took)
        if builders.__name__ != "Partial":
            clock = time.perf_counter()
            words = [sys.executable, "-c", FRESH, name, config, str(cache)]
            done = subprocess.run(words, capture_output=True, text=True, check=True)
            times["process"].append(time.perf_counter() - clock)
            times["first"].append(float(done.stdout))
    median = {what: statistics.median(values) for what, values in times.items() if values}
    row = {
        "splits": {split: part.num_examples for split, part in builder.info.splits.items()},
        "prepare_rows_per_cpu_second": round(rows / median["prepare_cpu"]),
        "prepare_seconds": round(median["prepare"], 2),
        "load_seconds": round(median["load"], 4),
    }
    if "first" in median:
        row["load_in_new_process_seconds"] = round(median["first"], 4)
        row["new_process_seconds"] = round(median["process"], 2)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True, help="a mirror folder")
    parser.add_argument("--only", nargs="*", help="of these benchmarks, e.g. scan")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    datasets.disable_progress_bars()
    os.environ[DATA_DIR_VARIABLE] = str(options.data_dir)
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as scratch:
        rows = {
            f"{name} {config}": measured(name, config, options.rounds, options.data_dir, Path(scratch))
            for name, config in CONFIGS
            if options.only is None or name in options.only
        }
    setup = {"rounds": options.rounds, "load_average": [round(load_before, 1), round(os.getloadavg()[0], 1)]}
    record = {"setup": setup, "rows": rows, "environment": machine()}
    write_atomic(options.output, json.dumps(record, indent=2) + "\n")
    for what, row in rows.items():
        print(
            f"{what:28} {row['prepare_rows_per_cpu_second']:>8,} rows/s, loads in {row['load_seconds']:.3f} s, "
            f"in a new process {row.get('load_in_new_process_seconds', float('nan')):.3f} s"
        )


if __name__ == "__main__":
    main()
