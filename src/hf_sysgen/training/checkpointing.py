"""Checkpoints that a run resumes from: find them, report damaged ones, and remove old ones."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from transformers import TrainerState

from hf_sysgen.errors import RunFailed, UserError
from hf_sysgen.files import COMPLETE, first_difference_from_manifest, is_complete, replace_marked

# the Trainer's names of checkpoints; other files in a run's folder are the user's
_NAME = re.compile(r"checkpoint-(?:0|[1-9][0-9]*)")
# as in transformers.trainer, whose import takes a second that `hf-sysgen sweep` need not wait
TRAINER_STATE_NAME = "trainer_state.json"


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


def last_checkpoint(run_dir: Path) -> Path | None:
    """The newest complete checkpoint of a run; incomplete ones, which a kill left behind, are removed."""
    last = None
    for folder in checkpoints_of(run_dir):
        if is_complete(folder):
            last = folder
        elif not folder.is_symlink():
            shutil.rmtree(folder, ignore_errors=True)
    return last


def state_to_resume(checkpoint: Path) -> TrainerState:
    """
    The Trainer's state in a checkpoint. The path of the best checkpoint is replaced by the one beside this checkpoint:
    the run's folder may have been moved.

    Raises:
        RunFailed: the best checkpoint is absent.
        UserError: it is not whole.
    """
    state = TrainerState.load_from_json(str(checkpoint / TRAINER_STATE_NAME))
    if state.best_global_step:
        best = checkpoint.with_name(f"checkpoint-{state.best_global_step}")
        if not best.is_dir():
            raise RunFailed(
                f"{best}, which holds the best weights so far, is absent: put it back, or remove "
                f"{checkpoint.parent} to start anew"
            )
        check_best(best)
        state.best_model_checkpoint = str(best)
    return state


def point_to_best(checkpoint: Path, state: TrainerState) -> None:
    """Make the checkpoint's file say where the best one is, as `state` does: the Trainer reads it from there."""
    file = checkpoint / TRAINER_STATE_NAME
    if TrainerState.load_from_json(str(file)).best_model_checkpoint != state.best_model_checkpoint:
        replace_marked(checkpoint, file.name, json.dumps(dataclasses.asdict(state), indent=2, sort_keys=True) + "\n")


def remove_old_checkpoints(run_dir: Path, best_step: int | None) -> None:
    """
    Keep the newest and the best checkpoint of a run. If these are the same, keep the one before, too, and the one that
    was the best then: a run resumes from there if the newest is damaged.
    """
    *older, _ = complete_checkpoints(run_dir)
    kept = {best_step}
    if older and best_step not in list(map(step_of, older)):
        state = TrainerState.load_from_json(str(older[-1] / TRAINER_STATE_NAME))
        kept = {step_of(older[-1]), state.best_global_step}
    for folder in older:
        if step_of(folder) not in kept:
            # the marker goes first, so that a half-removed folder is not taken for a checkpoint
            (folder / COMPLETE).unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)
