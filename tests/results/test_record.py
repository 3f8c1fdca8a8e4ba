"""Results records: every key is checked, files are whole or absent."""

from __future__ import annotations

import copy
import json
import subprocess

import pytest

from hf_sysgen.files import write_whole
from hf_sysgen.reports.curves import plot_accuracies, told_apart
from hf_sysgen.reports.report import table
from hf_sysgen.results.record import (
    RECORD,
    SCHEMA_VERSION,
    SPLIT,
    ResultsError,
    check_record,
    environment,
    read_results,
    write_results,
)


@pytest.fixture
def record() -> dict:
    split = {"examples": 3, "accuracy": 0.5, "loss": 1.0, "loss_teacher": 0.5, "by_length": [[1, 3, 0.5]]}
    return {
        "schema_version": SCHEMA_VERSION,
        "name": "tiny",
        "recipe": {"model": "universal_transformer", "benchmark": "scan", "config": "simple"},
        "recipe_hash": "0" * 16,
        "seed": 0,
        "steps": 2,
        "num_parameters": 7,
        "splits": {"test": split},
        "history": [{"step": 1, "eval_test_accuracy": 0.25}, {"step": 2, "eval_test_accuracy": 0.5}],
        "train_seconds": 1.5,
        "num_processes": 1,
        **environment(),
    }


def test_round_trip(record, tmp_path):
    path = tmp_path / "deep" / "results.json"
    write_results(path, record)
    assert read_results(path) == record
    assert [file.name for file in path.parent.iterdir()] == ["results.json"]


@pytest.mark.parametrize("key", RECORD)
def test_a_missing_or_wrong_key_is_named(record, key):
    for change in ("missing", "wrong"):
        broken = copy.deepcopy(record)
        if change == "missing":
            del broken[key]
        else:
            broken[key] = True
        with pytest.raises(ResultsError, match=key):
            check_record(broken)


@pytest.mark.parametrize("key", SPLIT)
def test_a_missing_or_wrong_key_of_a_split_is_named(record, key):
    for value in ([], "text") if key != "by_length" else (None, "text"):
        broken = copy.deepcopy(record)
        broken["splits"]["test"][key] = value
        with pytest.raises(ResultsError, match=rf"splits\.test: '{key}'"):
            check_record(broken)
    del record["splits"]["test"][key]
    with pytest.raises(ResultsError, match=key):
        check_record(record)


def test_accuracy_outside_its_range(record):
    record["splits"]["test"]["accuracy"] = 50.0
    with pytest.raises(ResultsError, match=r"50\.0 is not in \[0, 1\]"):
        check_record(record)


def test_unreadable_files(record, tmp_path):
    path = tmp_path / "results.json"
    with pytest.raises(ResultsError, match=r"results\.json: cannot read"):
        read_results(path)
    path.write_text(json.dumps(record)[:-20])
    with pytest.raises(ResultsError, match=r"results\.json: cannot read"):
        read_results(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ResultsError, match=r"results\.json: cannot read"):
        read_results(path)
    path.write_text("[]")
    with pytest.raises(ResultsError, match="expected a JSON object"):
        read_results(path)


def test_nothing_is_written_of_a_wrong_record(record, tmp_path):
    path = tmp_path / "results.json"
    del record["seed"]
    with pytest.raises(ResultsError):
        write_results(path, record)
    assert list(tmp_path.iterdir()) == []


def test_numbers_that_json_lacks_become_null(record, tmp_path):
    record["splits"]["test"]["loss"] = float("inf")
    record["history"].append({"step": 9, "loss": float("nan")})
    write_results(tmp_path / "r.json", record)
    text = (tmp_path / "r.json").read_text()
    assert "NaN" not in text
    assert "Infinity" not in text
    assert read_results(tmp_path / "r.json")["splits"]["test"]["loss"] is None


def test_the_commit_is_that_of_our_own_checkout_only(tmp_path, monkeypatch):
    import hf_sysgen.results.record as results

    repository = tmp_path / "theirs"
    installed = repository / "venv" / "results.py"
    installed.parent.mkdir(parents=True)
    installed.touch()
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], [*who, "commit", "-q", "--allow-empty", "-m", "theirs"]):
        subprocess.run(["git", *words], cwd=repository, check=True)
    monkeypatch.setattr(results, "__file__", str(installed))
    assert results._git_commit() is None
    for words in (["add", "."], [*who, "commit", "-q", "-m", "ours"]):
        subprocess.run(["git", *words], cwd=repository, check=True)
    commit = results._git_commit()
    assert len(commit) == 40
    installed.write_text("changed")
    assert results._git_commit() == commit + "+"


def test_a_failed_write_leaves_the_old_file_alone(tmp_path, monkeypatch):
    path = tmp_path / "file.txt"
    write_whole(path, "old")

    def fail(*args):
        raise OSError("no space left")

    monkeypatch.setattr("hf_sysgen.files.os.replace", fail)
    with pytest.raises(OSError, match="no space"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["file.txt"]


def test_table_is_aligned():
    assert table(("name", "n"), [("a", 1), ("long", 234)]) == "name    n\na       1\nlong  234"


def test_plot(record, tmp_path):
    path = tmp_path / "plots" / "accuracy.png"
    plot_accuracies([record], path)
    empty = dict(record, history=[])
    plot_accuracies([empty], tmp_path / "empty.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size > (tmp_path / "empty.png").stat().st_size


def test_runs_of_one_model_are_called_by_their_names():
    runs = [("a", 0), ("b", 0), ("b", 1)]
    records = [{"name": name, "seed": seed} for name, seed in runs]
    assert told_apart(["x", "y"], records[:2]) == ["x", "y"]
    assert told_apart(["x", "x"], records[:2]) == ["a", "b"]
    assert told_apart(["x", "x", "x"], records) == ["a seed 0", "b seed 0", "b seed 1"]
