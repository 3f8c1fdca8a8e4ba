"""Checkpoints that a run resumes from: which there are, and what to say of one that was damaged."""

from __future__ import annotations

import contextlib
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

from safetensors import SafetensorError, safe_open
from transformers.trainer import TRAINER_STATE_NAME

from hf_sysgen.errors import RunFailed, UserError
from hf_sysgen.files import is_complete, unlike_mark

# what the Trainer calls them; whatever else is in a run's folder is its user's
_NAME = re.compile(r"checkpoint-(?:0|[1-9][0-9]*)")


def checkpoints_of(run_dir: Path) -> list[Path]:
    """The folders of a run's checkpoints, complete or not, by step."""
    found = (path for path in run_dir.glob("checkpoint-*") if _NAME.fullmatch(path.name) and path.is_dir())
    return sorted(found, key=step_of)


def check_whole(checkpoint: Path) -> None:
    """
    Compare a checkpoint's files with what its mark lists, if anything.

    Raises:
        UserError: one is absent or has another content.
    """
    if (found := _unlike_mark(checkpoint)) is not None:
        raise _damaged(checkpoint, *found)


def check_best(checkpoint: Path) -> None:
    """As `check_whole`, of one that holds the best weights, which no other can replace."""
    if (found := _unlike_mark(checkpoint)) is not None:
        name, what = found
        raise UserError(
            f"{checkpoint / name}, of the best weights so far, {what}: put a whole copy back, or remove "
            f"{checkpoint.parent} to start anew"
        )


@contextlib.contextmanager
def going_on_from(checkpoint: Path) -> Iterator[None]:
    """Raises UserError: a file of the checkpoint cannot be read. Other errors stay as they are."""
    try:
        yield
    except (UserError, RunFailed):
        raise
    except Exception as error:  # each kind of file has errors of its own
        # what may not be read is not damaged
        if isinstance(error, PermissionError) or (found := _unreadable(checkpoint)) is None:
            raise
        raise _damaged(checkpoint, *found) from error


def step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])


def _unlike_mark(checkpoint: Path) -> tuple[str, str] | None:
    # older versions wrote the Trainer's state again where the run's folder was moved
    return unlike_mark(checkpoint, rewritten=[TRAINER_STATE_NAME])


def _unreadable(checkpoint: Path) -> tuple[str, str] | None:
    if not is_complete(checkpoint):
        # one that has been replaced since, and is being removed
        return None
    if (found := _unlike_mark(checkpoint)) is not None:
        return found
    if not (checkpoint / TRAINER_STATE_NAME).is_file():
        return TRAINER_STATE_NAME, "is missing"
    for file in sorted(checkpoint.rglob("*")):
        try:
            if file.suffix == ".safetensors":
                with safe_open(file, framework="pt"):
                    pass
            elif file.suffix == ".json":
                json.loads(file.read_bytes())
            elif file.suffix in (".pt", ".pth", ".bin"):
                with zipfile.ZipFile(file) as archive:
                    if (broken := archive.testzip()) is not None:
                        raise ValueError(broken)
        except PermissionError:
            raise
        except (SafetensorError, OSError, ValueError, EOFError, zipfile.BadZipFile):
            return file.relative_to(checkpoint).as_posix(), "is damaged"
    return None


def _damaged(checkpoint: Path, name: str, what: str) -> UserError:
    return UserError(
        f"{checkpoint / name} {what}: remove {checkpoint}, and the run resumes from the one before it, or begins anew"
    )
