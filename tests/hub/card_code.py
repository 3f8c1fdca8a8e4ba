"""The code of a card, run where our package cannot be imported."""

from __future__ import annotations

import re
from collections.abc import Mapping

from elsewhere import run_elsewhere

EACH = "import sys\nfor code in sys.argv[1:]:\n    exec(code, {})\n"


def code_of(card: str) -> str:
    (code,) = re.findall(r"^```python\n(.*?)^```", card, flags=re.MULTILINE | re.DOTALL)
    return code


def as_stranger(environment: Mapping[str, str], *codes: str) -> str:
    """What the code prints in a process with transformers and torch alone."""
    return run_elsewhere(EACH, *codes, environment=environment)
