"""The environment of a run: package versions, the commit of this package's checkout, the machine."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from hf_sysgen import __version__
from hf_sysgen.files import write_atomic

STARTS = "starts.json"


class _Typed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)


class Environment(_Typed):
    """A machine."""

    device: str
    num_threads: int
    precision: str | None = None
    """Of a run: the type in which it computes, by its name in PyTorch; older records lack it."""


class RunStart(_Typed):
    """One start of a run whose updates are part of its weights."""

    commit: str | None
    """Of this package's checkout, with "+" if files were changed; `None` where it is installed."""
    versions: dict[str, str]
    """Package -> version."""
    step: int | None
    """The update after which it began; `None` if unknown: version 1 kept the last start without its step."""
    data_sha256: str | None = None
    """Of the examples as the model read them; older records lack it."""


_STARTS = TypeAdapter(list[RunStart])


def environment(device_type: str | None = None, precision: str | None = None) -> Environment:
    """The machine of this process; `device_type` is what it computes on, by default a GPU if there is one."""
    import torch

    on_gpu = torch.cuda.is_available() if device_type is None else device_type == "cuda"
    device = torch.cuda.get_device_name() if on_gpu else cpu_name()
    return Environment(device=device, num_threads=torch.get_num_threads(), precision=precision)


def start_after(step: int, data_sha256: str | None = None) -> RunStart:
    """This process's start, after `step` updates, with those examples."""
    import accelerate
    import datasets
    import numpy
    import tokenizers
    import torch
    import transformers

    packages = (torch, transformers, datasets, accelerate, tokenizers, numpy)
    ours = {"python": platform.python_version(), "hf_sysgen": __version__}
    versions = {package.__name__: str(package.__version__) for package in packages}
    return RunStart(commit=git_commit(), versions=ours | versions, step=step, data_sha256=data_sha256)


def starts_of(run_dir: Path, this: RunStart) -> list[RunStart]:
    """
    The starts of a run, this one last. Starts whose updates are lost, because the run resumed from an earlier
    checkpoint, are left out.
    """
    try:
        before = _STARTS.validate_json((run_dir / STARTS).read_bytes())
    except (OSError, ValidationError):
        # an older version wrote no starts; a new run has had none, and the line below drops this one
        before = [RunStart(commit=None, versions={}, step=0)]
    return [*(start for start in before if (start.step or 0) < (this.step or 0)), this]


def write_starts(run_dir: Path, starts: list[RunStart]) -> None:
    """Save the starts for the next one."""
    write_atomic(run_dir / STARTS, _STARTS.dump_json(starts, indent=1).decode() + "\n")


def cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def git_commit() -> str | None:
    """The commit of the package's checkout, with `+` if its files are changed; `None` for an installed package."""
    here = Path(__file__).resolve()
    commands = (
        # this fails if the virtual environment is inside another repository
        ["git", "ls-files", "--error-unmatch", str(here)],
        ["git", "rev-parse", "HEAD"],
        # runs that start at once do not wait for each other's lock of the index
        ["git", "--no-optional-locks", "status", "--porcelain", "--untracked-files=no", "."],
    )
    try:
        _, commit, changes = (
            subprocess.run(
                command, cwd=here.parents[1], capture_output=True, text=True, timeout=10, check=True
            ).stdout.strip()
            for command in commands
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return commit + ("+" if changes else "")
