"""
How long a process takes that does nothing but start: `python perf/start.py` writes perf/start.json. Medians of
`--rounds` rounds, all commands in turn; no command can be faster than `python -c pass`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from machine import machine
from seq2seq import in_turns

from hf_sysgen.files import write_atomic

COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "import hf_sysgen": ["-c", "import hf_sysgen"],
    "import hf_sysgen.models": ["-c", "import hf_sysgen.models"],
    "hf-sysgen --help": ["-m", "hf_sysgen.cli", "--help"],
    "hf-sysgen train --help": ["-m", "hf_sysgen.cli", "train", "--help"],
    "hf-sysgen list recipes": ["-m", "hf_sysgen.cli", "list", "recipes"],
}


def process(words: list[str]) -> Callable[[int], None]:
    """What starts a Python of these words and waits for its end."""

    def run(_: int) -> None:
        subprocess.run([sys.executable, *words], check=True, capture_output=True)

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--output", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    seconds = in_turns({name: process(words) for name, words in COMMANDS.items()}, options.rounds, "cpu")
    medians = {name: round(statistics.median(values), 3) for name, values in seconds.items()}
    record = {**machine(), "rounds": options.rounds, "seconds": medians}
    write_atomic(options.output, json.dumps(record, indent=1) + "\n")
    for name, median in medians.items():
        print(f"{name:24} {median:.3f} s")


if __name__ == "__main__":
    main()
