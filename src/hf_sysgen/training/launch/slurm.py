"""Run a sweep as an array of Slurm jobs."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from hf_sysgen.config.sweep import Sweep
from hf_sysgen.errors import RunFailed, UserError, shorten
from hf_sysgen.files import locked, write_atomic
from hf_sysgen.training.launch.states import state_of


def waiting_runs(folder: Path) -> set[str]:
    """
    The runs of a sweep's folder that jobs of earlier submissions hold: those that wait, and those that run.

    Raises:
        RunFailed: Slurm does not answer.
    """
    submitted = {path.stem.removeprefix("job-"): path for path in folder.glob("job-*.txt")}
    if not submitted or shutil.which("squeue") is None:
        return set()
    # squeue prints the array's number and the task's own
    command = ["squeue", "--me", "--array", "--noheader", "--states=PENDING,RUNNING,SUSPENDED", "--format=%F %K"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        said = done.stderr.strip() or done.stdout.strip()
        raise RunFailed(f"squeue failed, so that it is not known which runs are waiting: {said}")
    tasks = [line.split() for line in done.stdout.splitlines()]
    known = submitted.keys() & {job for job, _ in tasks}
    names = {job: submitted[job].read_text(encoding="utf-8").splitlines() for job in known}
    return {names[job][int(task)] for job, task in tasks if job in names}


def submit_sweep(
    sweep: Sweep, options: str, words: Sequence[str], at_once: int | None = None, accelerate: Path | None = None
) -> str:
    """
    Hand the unfinished runs to Slurm as one array of jobs, each of which runs this sweep for one of its runs. Runs that
    wait in the queue already are left out. The script and the list of the job's runs stay in the sweep's folder.

    Args:
        options: of sbatch, e.g. "--partition gpu --gres gpu:1 --time 24:00:00".
        words: the sweep's file and its overrides, as they were given.
        at_once: most jobs of this submission at once.
        accelerate: see `TrainingProcesses`.

    Returns:
        a message with the job's number and the folder of its output.

    Raises:
        UserError: there is no sbatch, nothing to do, or another process that runs or submits this sweep.
        RunFailed: sbatch refused the script, or squeue does not answer.
    """
    if shutil.which("sbatch") is None:
        raise UserError("sbatch is not in PATH: start this where Slurm is, or leave --slurm out")
    try:
        for_sbatch = shlex.split(options)
    except ValueError as error:
        raise UserError(f"--slurm: {shorten(options)}: {error}; close each quote") from error
    with locked(sweep.lock) as lock:
        if lock is None:
            raise UserError(f"{sweep.path} is being run or submitted here by another process")
        return _submit(sweep, for_sbatch, words, at_once, accelerate)


def _submit(
    sweep: Sweep, options: Sequence[str], words: Sequence[str], at_once: int | None, accelerate: Path | None
) -> str:
    waiting = waiting_runs(sweep.folder)
    left = [run.name for run in sweep.runs if state_of(run, waiting)[0] not in ("finished", "running", "waiting")]
    if not left:
        raise UserError(f"{sweep.path}: every run is finished, running or waiting, there is nothing to submit")
    command = [sys.executable, "-m", "hf_sysgen.cli", "sweep", *words, "--jobs", "1"]
    command += ["--accelerate", str(accelerate)] if accelerate else []
    limit = f"%{at_once}" if at_once else ""
    script = sweep.folder / "array.sh"
    write_atomic(
        script,
        f"""#!/bin/bash
#SBATCH --job-name={shlex.quote(sweep.path.stem)}
#SBATCH --array=0-{len(left) - 1}{limit}
#SBATCH --output={shlex.quote(f"{sweep.folder}/%A_%a.out")}
#SBATCH --requeue
#SBATCH --open-mode=append
runs=(
{chr(10).join(f"  {shlex.quote(name)}" for name in left)}
)
exec {shlex.join(command)} --run "${{runs[$SLURM_ARRAY_TASK_ID]}}"
""",
    )
    done = subprocess.run(["sbatch", "--parsable", *options, str(script)], capture_output=True, text=True)
    if done.returncode != 0:
        raise RunFailed(f"sbatch refused {script}: {done.stderr.strip() or done.stdout.strip()}")
    # sbatch of a federation prints `number;cluster`
    job = done.stdout.strip().partition(";")[0]
    write_atomic(sweep.folder / f"job-{job}.txt", "".join(f"{name}\n" for name in left))
    return f"job {job}: {len(left)} of {len(sweep.runs)} runs, as {script} says"
