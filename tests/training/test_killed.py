"""A run killed at any moment, and started again with the same command, ends as if nothing had happened."""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import io
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import kills
import pytest
from safetensors.torch import load_file, save_file
from tiny_runs import command, environment, lines_beside_progress, snapshot, train_process, weights, write_recipe

import hf_sysgen.files as files
from hf_sysgen.files import write_manifest
from hf_sysgen.train import main
from hf_sysgen.training.checkpointing import report_damage

# one evaluation is of two splits: calls 1 and 2 are at step 3, 3 and 4 at step 6, then come the final ones
MOMENTS = {
    "before any file": functools.partial(kills.inside_file, "recipe.yaml"),
    "before the first checkpoint": functools.partial(kills.after_step, 1),
    "at a checkpoint's step": functools.partial(kills.after_step, 4),
    "between checkpoints": functools.partial(kills.after_step, 5),
    "inside the first checkpoint": functools.partial(kills.inside_checkpoint, 2),
    "inside a checkpoint": functools.partial(kills.inside_checkpoint, 4),
    "inside the file of weights": functools.partial(kills.inside_model_file, 6),
    "before a checkpoint is marked": functools.partial(kills.before_complete, 4),
    "inside an evaluation": functools.partial(kills.inside_evaluation, 2),
    "inside the final evaluation": functools.partial(kills.inside_evaluation, 6),
    "before the predictions": kills.before_predictions,
    "before the results": functools.partial(kills.inside_file, "results.json"),
}
# the others differ from one of these in the step alone
OFTEN = ("before any file", "between checkpoints", "inside the file of weights", "before a checkpoint is marked",
         "inside the final evaluation", "before the results")  # fmt: skip


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    return write_recipe(tmp_path_factory.mktemp("recipe"), size=8, length_buckets=2, sampling="epochs")


@pytest.fixture(scope="module")
def whole(recipe, tmp_path_factory):
    """The run that nobody killed."""
    folder = tmp_path_factory.mktemp("whole")
    done = train_process([str(recipe), "output_dir=run"], folder)
    assert done.status == 0, done.err
    return folder / "run"


def numbers(run_dir) -> dict:
    """Results without times. Counting epochs starts anew with a process; no batch depends on it."""
    record = json.loads((run_dir / "results.json").read_text())
    return {key: value for key, value in record.items() if key not in ("train_seconds", "starts")}


def checkpoints(run_dir) -> set[str]:
    return {path.name for path in run_dir.glob("checkpoint-*")}


def resumed_to_the_same(arguments, folder, whole):
    """The process that trains on; its run ends as one that nothing disturbed."""
    again = train_process(arguments, folder)
    assert again.status == 0, again.err
    run_dir = folder / "run"
    assert weights(run_dir / "model") == weights(whole / "model")
    assert (run_dir / "predictions.jsonl").read_bytes() == (whole / "predictions.jsonl").read_bytes()
    assert numbers(run_dir) == numbers(whole)
    assert checkpoints(run_dir) == checkpoints(whole)
    return again


@pytest.mark.parametrize(
    "moment", [moment if moment in OFTEN else pytest.param(moment, marks=pytest.mark.slow) for moment in MOMENTS]
)
def test_killed_once(moment, recipe, whole, tmp_path):
    arguments = [str(recipe), "output_dir=run"]
    killed = train_process(arguments, tmp_path, MOMENTS[moment])
    assert killed.status == -signal.SIGKILL
    assert not (tmp_path / "run" / "results.json").exists()
    again = resumed_to_the_same(arguments, tmp_path, whole)
    assert "Traceback" not in again.err


@pytest.mark.parametrize(
    "number", [30, 130, *(pytest.param(number, marks=pytest.mark.slow) for number in range(1, 300, 6))]
)
def test_killed_at_an_event_of_the_file_system(number, recipe, whole, tmp_path):
    """Whichever file it is about to touch. A late one may not come: then the run ends, and the next finds it so."""
    arguments = [str(recipe), "output_dir=run"]
    killed = train_process(arguments, tmp_path, functools.partial(kills.at_event, number))
    assert killed.status in (-signal.SIGKILL, 0) if number > 130 else killed.status == -signal.SIGKILL
    resumed_to_the_same(arguments, tmp_path, whole)


def test_killed_again_and_again(recipe, whole, tmp_path):
    """Also seconds of training add up over all starts."""
    arguments = [str(recipe), "output_dir=run"]
    for moment in ("between checkpoints", "inside the file of weights", "before the results"):
        assert train_process(arguments, tmp_path, MOMENTS[moment]).status == -signal.SIGKILL
    run_dir = tmp_path / "run"
    state = json.loads((run_dir / "checkpoint-6" / "trainer_state.json").read_text())
    before = state["stateful_callbacks"]["Clock"]["args"]["seconds"]
    assert train_process(arguments, tmp_path).status == 0
    assert weights(run_dir / "model") == weights(whole / "model")
    record = json.loads((run_dir / "results.json").read_text())
    assert record["train_seconds"] >= round(before, 2) > 0
    assert [start["step"] for start in record["starts"]] == [0, 4, 6]


def test_a_resumed_run_does_not_start_over(recipe, tmp_path):
    """A run that ignored its checkpoint would pass everything above."""
    arguments = [str(recipe), "output_dir=run"]
    train_process(arguments, tmp_path, MOMENTS["between checkpoints"])
    # its first evaluation, at step 3, is behind the checkpoint of step 4
    assert checkpoints(tmp_path / "run") == {"checkpoint-2", "checkpoint-4"}
    again = train_process(arguments, tmp_path)
    assert "step 6/6" in again.err
    assert "step 3/6" not in again.err


def test_a_checkpoint_without_its_mark_is_not_used(recipe, whole, tmp_path):
    """The newest checkpoint looks whole and holds other weights; only the mark is missing."""
    arguments = [str(recipe), "output_dir=run"]
    train_process(arguments, tmp_path, MOMENTS["before the results"])
    newest = tmp_path / "run" / "checkpoint-6"
    (newest / "complete").unlink()
    tensors = load_file(newest / "model.safetensors")
    save_file({name: tensor + 1 for name, tensor in tensors.items()}, newest / "model.safetensors", {"format": "pt"})
    assert train_process(arguments, tmp_path).status == 0
    assert weights(tmp_path / "run" / "model") == weights(whole / "model")


def cut(file) -> None:
    file.write_bytes(file.read_bytes()[:100])


def flip(file) -> None:
    """One bit, where no format has a checksum of its own."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.fixture(scope="module")
def interrupted(recipe, tmp_path_factory):
    """The folder of a run that was killed, with the checkpoints of steps 2 and 4."""
    folder = tmp_path_factory.mktemp("interrupted")
    train_process([str(recipe), "output_dir=run"], folder, MOMENTS["between checkpoints"])
    return folder / "run"


@pytest.mark.parametrize("damage", [cut, flip, Path.unlink])
@pytest.mark.parametrize(
    "name", ["model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json"]
)
def test_a_damaged_checkpoint_is_named(name, damage, recipe, interrupted, tmp_path, few_examples, capsys):
    run_dir = shutil.copytree(interrupted, tmp_path / "run")
    newest = run_dir / "checkpoint-4"
    damage(newest / name)
    before = snapshot(newest)
    assert main([str(recipe), f"output_dir={run_dir}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {newest / name} is {'missing' if damage is Path.unlink else 'damaged'}")
    assert f": remove {newest}," in line
    assert snapshot(newest) == before


def test_a_checkpoint_marked_by_sizes_alone_is_resumed(recipe, whole, interrupted, tmp_path):
    """As older versions marked theirs; those wrote the Trainer's state again where the run was moved."""
    run_dir = shutil.copytree(interrupted, tmp_path / "run")
    mark = run_dir / "checkpoint-4" / "complete"
    lines = [line.split() for line in mark.read_text().splitlines()]
    assert all(len(checksum) == 64 for _, checksum, _ in lines)
    mark.write_text("".join(f"{size} {name}\n" for size, _, name in lines))
    state = mark.with_name("trainer_state.json")
    state.write_text(json.dumps(json.loads(state.read_text())))
    assert train_process([str(recipe), "output_dir=run"], tmp_path).status == 0
    assert weights(run_dir / "model") == weights(whole / "model")


def test_what_is_said_of_a_damaged_checkpoint_holds(recipe, whole, interrupted, tmp_path):
    run_dir = shutil.copytree(interrupted, tmp_path / "run")
    arguments = [str(recipe), "output_dir=run"]
    for step in (4, 2):
        cut(run_dir / f"checkpoint-{step}" / "optimizer.pt")
    for step in (4, 2):
        refused = train_process(arguments, tmp_path)
        assert refused.status == 2
        assert f"remove run/checkpoint-{step}," in refused.err
        shutil.rmtree(run_dir / f"checkpoint-{step}")
    assert train_process(arguments, tmp_path).status == 0
    assert weights(run_dir / "model") == weights(whole / "model")


def test_a_checkpoint_is_on_the_disk_before_its_mark(tmp_path, monkeypatch):
    done = []
    monkeypatch.setattr(
        files.os, "fsync", lambda handle: done.append(Path(os.readlink(f"/proc/self/fd/{handle}")).name)
    )
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    # another process's unfinished mark, which is gone when it is looked at
    (tmp_path / ".complete.0").symlink_to("gone")
    write_manifest(tmp_path)
    (tmp_path / ".complete.0").unlink()
    assert done[0] == "model.safetensors"
    assert done[-1].startswith(".complete.")
    checksum = hashlib.sha256(b"weights").hexdigest()
    assert (tmp_path / "complete").read_text() == f"7 {checksum} model.safetensors\n"


def test_no_mark_without_the_disk(tmp_path, monkeypatch):
    """A full disk is heard of when it is asked for; a file system that cannot be asked is none."""
    for number, marked in ((errno.ENOSPC, False), (errno.EIO, False), (errno.EINVAL, True)):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "model.safetensors").touch()
        with monkeypatch.context() as patch:
            patch.setattr(files.os, "fsync", lambda handle, number=number: (_ for _ in ()).throw(OSError(number, "")))
            with contextlib.nullcontext() if marked else pytest.raises(OSError, match=f"Errno {number}"):
                write_manifest(folder)
        assert (folder / "complete").exists() == marked


def test_errors_are_not_blamed_on_a_checkpoint_that_was_replaced(tmp_path):
    (tmp_path / "checkpoint-4").mkdir()
    (tmp_path / "checkpoint-4" / "left").touch()
    with pytest.raises(RuntimeError, match="out of memory"), report_damage(tmp_path / "checkpoint-4"):
        raise RuntimeError("out of memory")


@pytest.mark.parametrize("size", [10, 600, 1500, 4000, 20_000, 40_000, 60_000])
def test_a_full_disk_ends_in_a_line(size, recipe, whole, tmp_path, few_examples, capsys):
    """Whichever file is the first that the disk has no room for; with room again the same command goes on."""
    arguments = [str(recipe), f"output_dir={tmp_path / 'run'}"]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        status = main(arguments)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    lines = lines_beside_progress(capsys.readouterr().err)
    assert (status in (1, 2), len(lines)) == (True, 1), lines
    assert lines[0].startswith("error: ")
    assert main(arguments) == 0
    assert weights(tmp_path / "run" / "model") == weights(whole / "model")


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.pt", "trainer_state.json", "complete"])
def test_a_file_that_may_not_be_read_is_not_called_damaged(
    name, recipe, interrupted, tmp_path, few_examples, monkeypatch, capsys
):
    """Whoever runs this may read everything, so `open` says what the system would."""
    run_dir = shutil.copytree(interrupted, tmp_path / "run")
    opened = io.open

    def refused(file, *args, **kwargs):
        if str(file).endswith(f"checkpoint-4/{name}"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(file))
        return opened(file, *args, **kwargs)

    monkeypatch.setattr(io, "open", refused)
    monkeypatch.setattr("builtins.open", refused)
    assert main([str(recipe), f"output_dir={run_dir}"]) in (1, 2)
    (line,) = capsys.readouterr().err.splitlines()
    assert name in line
    assert "ermission" in line
    assert "remove" not in line
    assert "damaged" not in line


def test_an_error_of_another_cause_is_not_called_damage(interrupted):
    with pytest.raises(ZeroDivisionError), report_damage(interrupted / "checkpoint-4"):
        raise ZeroDivisionError


@pytest.mark.slow
def test_killed_in_earnest(tmp_path):
    """The real command on the real data, killed from outside when its progress shows."""
    path = write_recipe(tmp_path, config="length_cutoff_40", max_steps=12, eval_steps=4, save_steps=3, batch_size=512)
    words = ["-m", "hf_sysgen.train", str(path)]
    with subprocess.Popen(
        [sys.executable, *words, "output_dir=killed"], cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        for line in process.stderr:
            if line.startswith("step 8/12"):
                process.kill()
                break
    assert process.returncode == -signal.SIGKILL
    for name in ("killed", "whole"):
        done = command([*words, f"output_dir={name}"], tmp_path)
        assert done.returncode == 0, done.stderr
    assert weights(tmp_path / "killed" / "model") == weights(tmp_path / "whole" / "model")
    predictions = [(tmp_path / name / "predictions.jsonl").read_bytes() for name in ("killed", "whole")]
    assert predictions[0] == predictions[1]
