"""What no kind of task may change: that a killed run ends as the whole one, and that two processes train as one."""

from __future__ import annotations

import functools
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kills
import pytest
from tiny_runs import SMALL, train_process, weights

from hf_sysgen.config.recipe import Recipe
from hf_sysgen.results.reading import read_record
from hf_sysgen.training.run import run_recipe

# an epsilon above the gradients makes Adam momentum, so that rounding errors stay what they are
SMOOTH = {"dropout": 0.0, "adam_epsilon": 1.0, "learning_rate": 1.0, "max_grad_norm": 1.0}
# of 61 examples, an epoch ends on a batch of 13
SHARED_BATCHES = {**SMOOTH, "sampling": "epochs", "size": 24, "eval_steps": None}


def curve(record: Mapping[str, Any]) -> list[float]:
    """Loss and norm of the gradient, of each update."""
    return [value for entry in record.history if entry.loss is not None for value in (entry.loss, entry.grad_norm)]


def assert_a_kill_leaves_no_trace(recipe: Path, folder: Path) -> None:
    """A short run bit for bit, of which the last checkpoint is cut short."""
    whole, killed = folder / "whole", folder / "killed"
    whole.mkdir()
    killed.mkdir()
    arguments = [str(recipe), "output_dir=run"]
    assert train_process(arguments, whole).status == 0
    doomed = functools.partial(kills.inside_model_file, 6)
    assert train_process(arguments, killed, doomed).status == -signal.SIGKILL
    again = train_process(arguments, killed)
    assert again.status == 0, again.err
    assert weights(killed / "run" / "model") == weights(whole / "run" / "model")
    predictions = [(path / "run" / "predictions.jsonl").read_bytes() for path in (whole, killed)]
    assert predictions[0] == predictions[1]


def assert_a_lost_end_comes_back(recipe: Recipe) -> None:
    """A run that lost its end goes on from its last checkpoint, of update 4 of 6, to the same bits."""
    whole, folder = run_recipe(recipe), recipe.run_dir
    before = weights(folder / "model"), (folder / "predictions.jsonl").read_bytes()
    (folder / "results.json").unlink()
    shutil.rmtree(folder / "model")
    shutil.rmtree(folder / "checkpoint-6")
    assert [path.name for path in folder.glob("checkpoint-*")] == ["checkpoint-4"]
    assert curve(run_recipe(recipe)) == curve(whole)
    assert (weights(folder / "model"), (folder / "predictions.jsonl").read_bytes()) == before


def assert_losses_are_the_same(plain: Recipe, other: Recipe) -> None:
    """Of four updates, but for rounding."""
    records = [run_recipe(recipe) for recipe in (plain, other)]
    curves = [[entry.loss for entry in record.history if entry.loss is not None] for record in records]
    assert len(curves[0]) == 4
    assert curves[1] == pytest.approx(curves[0], rel=1e-4)


def assert_two_processes_train_as_one(alone: Mapping[str, Any], recipe: Path, folder: Path) -> None:
    """
    Args:
        alone: the record of one process with the recipe, whose keys are those of `SHARED_BATCHES`.
    """
    done = train_process([str(recipe), "output_dir=two"], folder, processes=2)
    assert done.status == 0, done.err
    shared = read_record(folder / "two" / "results.json")
    assert (alone.num_processes, shared.num_processes) == (1, 2)
    assert len(curve(alone)) == 12
    assert curve(shared) == pytest.approx(curve(alone), rel=1e-4)
    for split in ("validation", "test"):
        assert shared.splits[split].examples == SMALL[split]
        assert shared.splits[split].metrics["loss"] == pytest.approx(alone.splits[split].metrics["loss"], rel=1e-3)
