"""What all measurements share: what a record says of its machine, and where it is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hf_sysgen.results.environment import environment, start_after


def machine() -> dict[str, Any]:
    """`versions` of packages, the `git_commit` of the checkout, the `device` and the `num_threads` of PyTorch."""
    start = start_after(0)
    return {"versions": start.versions, "git_commit": start.commit, **environment().model_dump(exclude_none=True)}


def output_of(script: str, output: Path | None, quick: bool) -> Path | None:
    """The file to write: `output`, else the script's own JSON; None for a check of the script, which keeps that."""
    return output or (None if quick else Path(script).with_suffix(".json"))
