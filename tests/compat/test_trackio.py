"""A run's curves in trackio, without a network."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny_runs import command, write_recipe

TOOL = "trackio"
READ = """
import json
from trackio.sqlite_storage import SQLiteStorage
(run,) = SQLiteStorage.get_runs("ours")
print(json.dumps(SQLiteStorage.get_logs("ours", run)))
"""


def test_curves(tmp_path: Path) -> None:
    """training.report_to=trackio: loss and accuracy of each step of results.json"""
    pytest.importorskip("trackio")
    recipe = write_recipe(tmp_path, output_dir=str(tmp_path / "run"), report_to="trackio")
    own = {"TRACKIO_DIR": str(tmp_path / "trackio"), "HF_HUB_OFFLINE": "1"}
    done = command(["-m", "hf_sysgen.train", str(recipe), "training.project=ours"], tmp_path, **own)
    assert done.returncode == 0, done.stderr
    read = command(["-c", READ], tmp_path, **own)
    assert read.returncode == 0, read.stderr
    logged = json.loads(read.stdout)
    history = json.loads((tmp_path / "run" / "results.json").read_text())["history"]
    losses = {entry["train/global_step"]: entry["train/loss"] for entry in logged if "train/loss" in entry}
    assert losses == {entry["step"]: entry["loss"] for entry in history if "loss" in entry}
    assert len(losses) == 6
    scores = [(entry["train/global_step"], entry["eval/test_loss"]) for entry in logged if "eval/test_loss" in entry]
    assert scores == [(e["step"], e["evaluations"]["test"]["loss"]) for e in history if "evaluations" in e]
