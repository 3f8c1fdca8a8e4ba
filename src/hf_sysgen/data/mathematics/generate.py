"""Make questions of the Mathematics Dataset with DeepMind's generator, instead of its 2.3 GB archive.

    python -m hf_sysgen.data.mathematics.generate --python math/bin/python --output FOLDER --seed 0

The generator (PyPI `mathematics_dataset`) needs an older sympy than torch, so it runs in its own environment:

    python3.11 -m venv math && math/bin/pip install mathematics_dataset==1.0.1 sympy==1.5.1 "numpy<2"

It has no seed; here each file gets one. The same seed, sizes and versions make the same files. They are not those of
the archive, so results on them are comparable with the paper's only up to the spread between draws.

This file is also the program that runs there, so it imports nothing of this package.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

# path in a mirror folder
GENERATED = "mathematics_dataset/generated"
_INSIDE = "--inside-generator"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m hf_sysgen.data.mathematics.generate",
        description="Write generated files of the Mathematics Dataset into a folder, for load_benchmark's data_dir.",
    )
    parser.add_argument("--python", default=sys.executable, help="interpreter that has mathematics_dataset")
    parser.add_argument("--output", type=Path, required=True, help="a mirror folder")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--per-difficulty", type=int, default=666_666, help="questions of each training difficulty")
    parser.add_argument("--per-test", type=int, default=10_000, help="questions of each other file")
    options = parser.parse_args(arguments)
    if options.per_difficulty < 10 or options.per_test < 1:
        parser.error("--per-difficulty must be at least 10 and --per-test at least 1")
    files = {f"{regime}/{module}.txt": per for regime, module, per in _files(options.per_difficulty, options.per_test)}
    folder = options.output / GENERATED
    if existing := [path for path in files if (folder / path).exists()]:
        parser.error(f"{folder / existing[0]} is there already: name another folder")
    command = [options.python, __file__, _INSIDE, str(folder), str(options.seed)]
    command += [f"{path}={per}" for path, per in files.items()]
    # the order of sets of strings must not change the draws
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    try:
        done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True)
    except OSError as error:
        parser.error(f"--python {options.python}: {error}")
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        parser.error(f"--python {options.python}: {reason}; its environment needs mathematics_dataset, see --help")
    print(f"wrote {len(files)} files in {folder}; load them with data_dir={str(options.output)!r}")
    return 0


def _files(per_difficulty: int, per_test: int) -> list[tuple[str, str, int]]:
    """(regime, module, number of questions) of each file."""
    found = []
    for module in ("arithmetic__add_or_sub", "numbers__place_value"):
        found += [(f"train-{level}", module, per_difficulty) for level in ("easy", "medium", "hard")]
        found += [("interpolate", module, per_test), ("extrapolate", f"{module}_big", per_test)]
    return found


def _write_inside(folder: str, seed: str, *files: str) -> None:
    """Run by the interpreter that has the generator."""
    import numpy
    from absl import flags
    from mathematics_dataset import generate

    flags.FLAGS([_INSIDE])
    generate.init_modules(train_split=True)
    for file in files:
        name, _, count = file.partition("=")
        regime, _, module = name.removesuffix(".txt").partition("/")
        random.seed(f"{seed} {name}")
        numpy.random.seed(random.getrandbits(32))
        sample = generate.filtered_modules[regime][module]
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(path.name + ".unfinished")
        with open(unfinished, "w", encoding="utf-8") as text:
            for _ in range(int(count)):
                problem, _ = generate.sample_from_module(sample)
                text.write(f"{problem.question}\n{problem.answer}\n")
        unfinished.replace(path)


if __name__ == "__main__":
    if sys.argv[1:2] == [_INSIDE]:
        _write_inside(*sys.argv[2:])
    else:
        sys.exit(main())
