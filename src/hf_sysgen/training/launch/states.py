"""The states of a sweep's runs, read from their folders and logs."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path

from hf_sysgen.config.sweep import Run
from hf_sysgen.errors import UserError
from hf_sysgen.files import locked
from hf_sysgen.training.run_folder import RECIPE_COPY, finished_results, is_training

# "waiting": in the queue of Slurm
STATES = ("finished", "running", "waiting", "resumable", "failed", "new")
ENDED = "exit status "


def state_of(run: Run, waiting: Container[str] = ()) -> tuple[str, str]:
    """
    One of `STATES`, and a detail: of a failed run its last error.

    Args:
        waiting: names of runs in the queue of Slurm; one that has not started is "waiting", whatever it was before.
    """
    try:
        if finished_results(run.recipe) is not None:
            return "finished", ""
    except UserError as error:
        return ("waiting", "") if run.name in waiting else ("failed", str(error))
    if run.log.exists():
        with locked(run.log) as file:
            if file is None:
                return "running", last_line(run.log)
    if is_training(run.recipe.run_dir):
        return "running", "by a command of its own"
    if run.name in waiting:
        return "waiting", ""
    if run.log.exists() and (failure := failure_of(run.log)) is not None:
        return "failed", failure
    return ("resumable" if (run.recipe.run_dir / RECIPE_COPY).exists() else "new"), ""


def failure_of(log: Path) -> str | None:
    """The last error of a log whose last attempt failed."""
    *lines, last = ["", *_tail(log)]
    # a run that ended well has not failed, even if its folder was removed later
    if not last.startswith(ENDED) or last == f"{ENDED}0":
        return None
    # our own messages end in such a line; otherwise the last line of the traceback says most
    errors = [line for line in lines if line.startswith("error: ")]
    if not errors and last.startswith(f"{ENDED}-"):
        signal = last.removeprefix(f"{ENDED}-")
        return f"ended by signal {signal}{' (is memory full?)' * (signal == '9')}; the same command resumes it"
    return errors[-1].removeprefix("error: ") if errors else lines[-1] or last


def last_line(log: Path) -> str:
    return _tail(log)[-1] if log.exists() and _tail(log) else ""


def _tail(log: Path) -> list[str]:
    """The last attempt's lines, of a long one the last ones."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 65536))
        text = file.read().decode(errors="replace")
    return [line for line in text.rpartition("\n$ ")[2].splitlines() if line.strip()]
