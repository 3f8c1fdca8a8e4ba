"""A run's curves in trackers of experiments, without a network: what they have kept is what results.json says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import command, write_recipe


def run(folder: Path, tracker: str, *words: str, **environment: str) -> tuple[list[tuple[int, float]], ...]:
    """Train with a tracker; steps and losses in training, steps and losses on test, as results.json has them."""
    pytest.importorskip(tracker)
    recipe = write_recipe(folder, output_dir=str(folder / "run"), report_to=tracker)
    done = command(["-m", "hf_sysgen.train", str(recipe), *words], folder, HF_HUB_OFFLINE="1", **environment)
    assert done.returncode == 0, done.stderr
    history: list[dict[str, Any]] = json.loads((folder / "run" / "results.json").read_text())["history"]
    losses = [(entry["step"], entry["loss"]) for entry in history if "loss" in entry]
    tests = [(entry["step"], entry["evaluations"]["test"]["loss"]) for entry in history if "evaluations" in entry]
    assert (len(losses), len(tests)) == (6, 2)
    return losses, tests


def test_trackio(tmp_path: Path) -> None:
    """training.report_to=trackio"""
    own = {"TRACKIO_DIR": str(tmp_path / "trackio")}
    losses, tests = run(tmp_path, "trackio", "training.project=ours", **own)
    program = """
import json
from trackio.sqlite_storage import SQLiteStorage
(run,) = SQLiteStorage.get_runs("ours")
print(json.dumps(SQLiteStorage.get_logs("ours", run)))
"""
    read = command(["-c", program], tmp_path, HF_HUB_OFFLINE="1", **own)
    assert read.returncode == 0, read.stderr
    for key, expected in (("train/loss", losses), ("eval/test_loss", tests)):
        assert [(one["train/global_step"], one[key]) for one in json.loads(read.stdout) if key in one] == expected


def test_mlflow(tmp_path: Path) -> None:
    """training.report_to=mlflow, with a folder of files as its server"""
    own = {"MLFLOW_TRACKING_URI": (tmp_path / "mlflow").as_uri(), "MLFLOW_ALLOW_FILE_STORE": "true"}
    losses, tests = run(tmp_path, "mlflow", **own)
    for name, expected in (("loss", losses), ("eval_test_loss", tests)):
        (file,) = (tmp_path / "mlflow").glob(f"*/*/metrics/{name}")
        rows = [line.split() for line in file.read_text().splitlines()]
        assert [(int(step), float(value)) for _, value, step in rows] == expected


def test_wandb(tmp_path: Path) -> None:
    """training.report_to=wandb, offline: its log has the numbers as text between its records"""
    losses, tests = run(tmp_path, "wandb", WANDB_MODE="offline")
    (file,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    content = file.read_bytes()
    for _, value in losses + tests:
        assert repr(value).encode() in content
