"""Checkpoints that a run resumes from: the mark of a complete one, and what to say of one damaged since."""

from __future__ import annotations

import contextlib
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

from safetensors import SafetensorError, safe_open
from transformers.trainer import TRAINER_STATE_NAME

from hf_sysgen.errors import RunFailed, UserError
from hf_sysgen.files import flush_to_disk, write_whole

COMPLETE = "complete"


def mark_complete(checkpoint: Path) -> None:
    """Mark it by a file that lists the others with their sizes, once they are on the disk."""
    flush_to_disk(checkpoint)
    files = sorted(path for path in checkpoint.rglob("*") if path.is_file())
    lines = (f"{path.stat().st_size} {path.relative_to(checkpoint).as_posix()}\n" for path in files)
    write_whole(checkpoint / COMPLETE, "".join(lines))


def check_whole(checkpoint: Path) -> None:
    """
    Compare a checkpoint's files with what its mark lists, if anything.

    Raises:
        UserError: one is absent or of another size.
    """
    if (found := _unlike_mark(checkpoint)) is not None:
        raise _damaged(checkpoint, *found)


def check_best(checkpoint: Path) -> None:
    """As `check_whole`, of one that holds the best weights, which no other can replace."""
    if is_complete(checkpoint) and (found := _unlike_mark(checkpoint)) is not None:
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
        if (found := _unreadable(checkpoint)) is None:
            raise
        raise _damaged(checkpoint, *found) from error


def is_complete(checkpoint: Path) -> bool:
    return (checkpoint / COMPLETE).exists()


def step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])


def _unlike_mark(checkpoint: Path) -> tuple[str, str] | None:
    """A file that is not as the mark says, and what is wrong with it."""
    for line in (checkpoint / COMPLETE).read_text(encoding="utf-8").splitlines():
        size, _, name = line.partition(" ")
        file = checkpoint / name
        if not file.is_file():
            return name, "is missing"
        # the Trainer's state is written again where the run's folder was moved
        if name != TRAINER_STATE_NAME and file.stat().st_size != int(size):
            return name, f"is damaged ({file.stat().st_size:,} bytes, where {size} were written)"
    return None


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
        except (SafetensorError, OSError, ValueError, EOFError, zipfile.BadZipFile):
            return file.relative_to(checkpoint).as_posix(), "is damaged"
    return None


def _damaged(checkpoint: Path, name: str, what: str) -> UserError:
    return UserError(
        f"{checkpoint / name} {what}: remove {checkpoint}, and the run goes on from the one before it, or begins anew"
    )
