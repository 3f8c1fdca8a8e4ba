"""Moments at which a run kills itself: what a process sees of a power cut. Passed to processes by name."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sys
from pathlib import Path

import hf_sysgen.evaluation.evaluate as evaluate
import hf_sysgen.files as files
import hf_sysgen.training.run as run
import hf_sysgen.training.trainer as trainer


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _before(owner: object, name: str, condition=lambda *args: True) -> None:
    """Die instead of the first call of `owner.name` that fulfils the condition."""
    original = getattr(owner, name)

    def doomed(*args, **kwargs):
        if condition(*args):
            die()
        return original(*args, **kwargs)

    setattr(owner, name, doomed)


def after_step(step: int) -> None:
    _before(trainer.Progress, "on_step_end", lambda self, args, state, *_: state.global_step == step)


def inside_checkpoint(step: int) -> None:
    """The model is written, the optimizer is not."""
    _before(trainer.SysgenTrainer, "_save_optimizer_and_scheduler", lambda self, *_: self.state.global_step == step)


def inside_model_file(step: int) -> None:
    """The newest checkpoint's weights are cut short, and older checkpoints are as they were."""
    save = trainer.SysgenTrainer.save_model

    def doomed(self, output_dir=None, **kwargs):
        save(self, output_dir, **kwargs)
        if self.state.global_step == step:
            path = Path(output_dir) / "model.safetensors"
            path.write_bytes(path.read_bytes()[:1000])
            die()

    trainer.SysgenTrainer.save_model = doomed


def before_complete(step: int) -> None:
    """Everything of a checkpoint is written, but it is not marked."""
    _before(files.os, "replace", lambda _, path: Path(path).parts[-2:] == (f"checkpoint-{step}", "complete"))


def inside_removal(step: int) -> None:
    """Of an older checkpoint, which makes room for a new one, the weights are gone already."""
    remove = shutil.rmtree

    def doomed(path, *args, **kwargs):
        if Path(path).name == f"checkpoint-{step}":
            (Path(path) / "model.safetensors").unlink()
            die()
        return remove(path, *args, **kwargs)

    shutil.rmtree = doomed


def inside_evaluation(call: int) -> None:
    calls = iter(range(1, 1000))
    _before(evaluate, "evaluate_split", lambda *_: next(calls) == call)


def before_predictions() -> None:
    """The final model is written."""
    _before(run, "write_predictions")


def inside_file(name: str) -> None:
    """The file's content is in a temporary file beside it."""
    _before(files.os, "replace", lambda temporary, path: Path(path).name == name)


def at_event(number: int) -> None:
    """The n-th time that a file or a folder of the run is opened, made, renamed or removed."""
    left = [number]

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event in ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir") and "run/" in str(arguments[0]):
            left[0] -= 1
            if left[0] == 0:
                die()

    sys.addaudithook(hook)


def with_little_room(size: int, rank: int = 0) -> None:
    """No kill: none of this process's files can have more bytes, as if its disk was full then."""
    if os.environ.get("RANK", "0") == str(rank):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
