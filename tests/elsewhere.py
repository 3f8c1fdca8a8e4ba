"""Processes in which this package cannot be imported."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import hf_sysgen.evaluation.isolated

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from isolated import ImportBlocker
sys.meta_path.insert(0, ImportBlocker())
code, sys.argv[1:] = sys.argv[2], sys.argv[3:]
exec(code, {})
assert "hf_sysgen" not in sys.modules
"""


def run_elsewhere(code: str, *words: str | Path, environment: Mapping[str, str], folder: Path | None = None) -> str:
    """
    The output of the code in such a process.

    Args:
        code: sees the words as `sys.argv[1:]`.
        folder: the current one, where it matters.
    """
    folder_of_it = Path(hf_sysgen.evaluation.isolated.__file__).parent
    script = [sys.executable, "-I", "-c", PROGRAM, str(folder_of_it), code, *map(str, words)]
    done = subprocess.run(script, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout
