"""Run a sweep on this machine, several runs at once."""

from __future__ import annotations

import contextlib
import math
import shlex
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from tqdm.auto import tqdm

from hf_sysgen.config.sweep import Run, Sweep
from hf_sysgen.errors import UserError, one_line
from hf_sysgen.files import locked
from hf_sysgen.results.record import Record
from hf_sysgen.tables import counted
from hf_sysgen.training.launch.processes import TrainingProcesses, exit_status
from hf_sysgen.training.launch.slurm import waiting_runs
from hf_sysgen.training.launch.states import ENDED, STATES, failure_of, last_line, state_of
from hf_sysgen.training.run_folder import finished_results, is_training

# seconds between checks of a run that another process trains
WAIT_SECONDS = 1.0


def states_text(sweep: Sweep) -> str:
    """The runs of a sweep with their states, and how many there are of each."""
    waiting = waiting_runs(sweep.folder)
    states = [state_of(run, waiting) for run in sweep.runs]
    lines = [
        f"{state:9}  {run.name}" + (f": {more}" if more else "")
        for run, (state, more) in zip(sweep.runs, states, strict=True)
    ]
    counts = Counter(state for state, _ in states)
    shown = (f"{counts[state]} {state}" for state in STATES if counts[state] or state != "waiting")
    return "\n".join([*lines, f"{counted(len(lines), 'run')}: " + ", ".join(shown)])


def run_sweep(sweep: Sweep, at_once: int | None = None, accelerate: Path | None = None) -> int:
    """
    Train every unfinished run and print the outcome of each. If a run fails, the others continue. Runs that another
    process is training are waited for.

    Args:
        at_once, accelerate: see `TrainingProcesses`.

    Returns:
        exit status: 0 if all runs are finished; 2 where the input of every failed one cannot be run; else 1.

    Raises:
        UserError: the sweep is being run in this folder already.
    """
    # a job of an array is one of many that run a part of the same sweep
    with locked(sweep.lock) if sweep.complete else contextlib.nullcontext(sys.stdout) as lock:
        if lock is None:
            raise UserError(f"{sweep.path} is being run here by another process; `--dry-run` shows how far it is")
        left = [run for run in sweep.runs if state_of(run)[0] != "finished"]
        print(f"{counted(len(sweep.runs), 'run')}, {len(sweep.runs) - len(left)} of them finished already", flush=True)
        failures = _Training(TrainingProcesses(at_once, len(left), accelerate), len(left)).all(left) if left else []
    for run, _, message in failures:
        print(f"error: {run.name} failed: {message}; everything it said is in {run.log}", file=sys.stderr)
    return exit_status(status for _, status, _ in failures)


class _Training:
    """On a terminal a line for each process, redrawn; elsewhere every line of each run, under its name."""

    def __init__(self, processes: TrainingProcesses, total: int) -> None:
        self.processes = processes
        live = sys.stderr.isatty()
        self.bar = tqdm(total=total, unit="run", dynamic_ncols=True, disable=not live)
        self.lines = [
            tqdm(bar_format="{desc}", position=slot + 1, leave=False, dynamic_ncols=True)
            for slot in range(processes.at_once if live else 0)
        ]

    def all(self, runs: Sequence[Run]) -> list[tuple[Run, int, str]]:
        """The runs that fail, with exit status and last error."""
        try:
            done = self.processes.map(self._one, runs)
        finally:
            for line in [*self.lines, self.bar]:
                line.close()
        return [(run, status, message) for run, (status, message) in zip(runs, done, strict=True) if status != 0]

    def _one(self, run: Run, slot: int) -> tuple[int, str]:
        status, message = self._status(run, slot)
        if not self.processes.stopping:
            tqdm.write(f"{'failed' if status else 'finished'} {run.name}: {message}")
            sys.stdout.flush()
            self.bar.update()
        return status, message

    def _status(self, run: Run, slot: int) -> tuple[int, str]:
        try:
            while not self.processes.stopping:
                with locked(run.log) as log:
                    # a run that was started by `train` has no process that locks its log
                    if log is not None and not is_training(run.recipe.run_dir):
                        return self._attempt(run, slot, log)
                    said = last_line(run.log) if log is None else ""
                self._show(run, slot, "trained by another process" + (f": {said}" if said else ""))
                time.sleep(WAIT_SECONDS)
        except UserError as error:
            return error.status, str(error)
        except OSError as error:
            return 1, f"{run.log}: {one_line(error)}"
        return 1, "stopped"

    def _attempt(self, run: Run, slot: int, log: IO[str]) -> tuple[int, str]:
        # another sweep may have finished the run since
        if (record := finished_results(run.recipe)) is not None:
            return 0, _accuracies(record)

        def on_line(line: str) -> None:
            print(line, file=log, flush=True)
            self._show(run, slot, line)

        self._show(run, slot, "starting")
        print(f"$ {shlex.join(self.processes.command(run.path, run.overrides))}", file=log, flush=True)
        status = self.processes.train(run.path, run.overrides, slot, on_line, keep_open=[log.fileno()])
        if self.processes.stopping:
            return status, "stopped"
        print(f"{ENDED}{status}", file=log, flush=True)
        if status != 0:
            return status, failure_of(run.log) or ""
        try:
            # a recipe that changed meanwhile has made another run
            record = finished_results(run.recipe)
        except UserError as error:
            return 2, str(error)
        return 0, _accuracies(record) if record is not None else ""

    def _show(self, run: Run, slot: int, line: str) -> None:
        if self.lines:
            self.lines[slot].set_description_str(f"{run.short_name}  {line}")
        else:
            print(f"[{run.name}] {line}", flush=True)


def _accuracies(record: Record) -> str:
    accuracies = ((name, split.accuracy) for name, split in record.splits.items())
    numbers = " ".join(f"{name}={math.nan if value is None else value:.4f}" for name, value in accuracies)
    return f"{numbers} ({record.train_seconds:.0f} s)"
