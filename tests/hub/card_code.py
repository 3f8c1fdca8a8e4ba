"""The code of a card, run where our package cannot be imported."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import hf_sysgen.hub.stranger

STRANGER = """
import sys
sys.path.insert(0, sys.argv[1])
from stranger import Absent
sys.meta_path.insert(0, Absent())
for code in sys.argv[2:]:
    exec(code, {})
assert "hf_sysgen" not in sys.modules
"""


def code_of(card: str) -> str:
    (code,) = re.findall(r"^```python\n(.*?)^```", card, flags=re.MULTILINE | re.DOTALL)
    return code


def as_stranger(environment: Mapping[str, str], *codes: str) -> str:
    """What the code prints in a process with transformers and torch alone."""
    folder = str(Path(hf_sysgen.hub.stranger.__file__).parent)
    script = [sys.executable, "-I", "-c", STRANGER, folder, *codes]
    done = subprocess.run(script, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout
