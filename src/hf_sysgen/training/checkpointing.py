"""Checkpoints that a run resumes from: find them, and report damaged ones."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from hf_sysgen.errors import RunFailed, UserError
from hf_sysgen.files import first_difference_from_manifest, is_complete

# the Trainer's names of checkpoints; other files in a run's folder are the user's
_NAME = re.compile(r"checkpoint-(?:0|[1-9][0-9]*)")


def checkpoints_of(run_dir: Path) -> list[Path]:
    """The folders of a run's checkpoints, complete or not, by step."""
    found = (path for path in run_dir.glob("checkpoint-*") if _NAME.fullmatch(path.name) and path.is_dir())
    return sorted(found, key=step_of)


def complete_checkpoints(run_dir: Path) -> list[Path]:
    """Those that were written to their end, by step."""
    return [folder for folder in checkpoints_of(run_dir) if is_complete(folder)]


def check_intact(checkpoint: Path) -> None:
    """
    Compare a checkpoint's files with what its manifest lists, if anything.

    Raises:
        UserError: one is absent or has another content.
    """
    if (found := first_difference_from_manifest(checkpoint)) is not None:
        name, what = found
        raise UserError(
            f"{checkpoint / name} {what}: remove {checkpoint}, and the run resumes from the one before it, or begins "
            "anew"
        )


def check_best(checkpoint: Path) -> None:
    """Like `check_intact`, for a checkpoint with the best weights, which no other can replace."""
    if (found := first_difference_from_manifest(checkpoint)) is not None:
        name, what = found
        raise UserError(
            f"{checkpoint / name}, of the best weights so far, {what}: restore an intact copy, or remove "
            f"{checkpoint.parent} to start over"
        )


@contextlib.contextmanager
def report_damage(checkpoint: Path) -> Iterator[None]:
    """After an error, `check_intact`. Errors of an unchanged checkpoint, or one with no manifest, stay as they are."""
    try:
        yield
    except (UserError, RunFailed):
        raise
    except Exception:  # each kind of file has errors of its own
        check_intact(checkpoint)
        raise


def step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])
