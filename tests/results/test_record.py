"""Results records: typed, whole or absent; version 1 is read; what cannot be read is told in a line."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from made_records import made_record, made_rows, shipped
from pydantic import ValidationError

from hf_sysgen.errors import UserError
from hf_sysgen.files import write_atomic
from hf_sysgen.reports.curves import plot_accuracies
from hf_sysgen.results import environment as surroundings
from hf_sysgen.results.cells import distinct_labels
from hf_sysgen.results.environment import RunStart, starts_of, write_starts
from hf_sysgen.results.predictions import (
    ROW,
    GraphRow,
    ModelingRow,
    TextRow,
    TreeRow,
    read_predictions,
    write_predictions,
)
from hf_sysgen.results.reading import read_record
from hf_sysgen.results.record import LogEntry, Record, write_record
from hf_sysgen.tables import table

KEPT = Path(__file__).parents[2] / "results"


@pytest.fixture
def record() -> Record:
    splits = {
        "validation": 0.75,
        "test": {
            "accuracy": 0.5,
            "loss": 1.0,
            "las": 0.25,
            "by_length": [[1, 3, 0.5]],
            "by_category": {"k=2": [4, 1.0]},
        },
    }
    history = [
        {"step": 1, "loss": 0.5, "evaluations": {"test": {"accuracy": 0.25}}},
        {"step": 2, "evaluations": {"test": {"accuracy": 0.5}}},
    ]
    return made_record(splits=splits, history=history, overrides={"model.hidden_size": 16})


@pytest.fixture
def content(record, tmp_path) -> dict[str, Any]:
    """The record as its file has it."""
    write_record(tmp_path / "results.json", record)
    return json.loads((tmp_path / "results.json").read_text())


def read(content: Any, folder: Path) -> Record:
    path = folder / "read.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return read_record(path)


def test_round_trip(record, tmp_path):
    path = tmp_path / "deep" / "results.json"
    write_record(path, record)
    back = read_record(path)
    assert back == record
    assert (back.recipe.file, back.recipe.overrides) == ("cell", {"model.hidden_size": 16})
    assert back.name == "cell,model.hidden_size=16"
    assert back.splits["test"].metrics == {"accuracy": 0.5, "loss": 1.0, "las": 0.25}
    assert back.splits["test"].by_length[0].length == 1
    assert back.splits["test"].by_category["k=2"].examples == 4
    assert back.curve("test", "accuracy") == [(1, 0.25), (2, 0.5)]
    assert [file.name for file in path.parent.iterdir()] == ["results.json"]


@pytest.mark.parametrize(("losses", "learned"), [((), True), ((2.0,), True), ((2.0, 0.5), True), ((2.0, 1.5), False)])
def test_a_run_that_did_not_learn(losses, learned):
    history = [{"step": step, "loss": loss} for step, loss in enumerate(losses)]
    assert made_record(splits={}, history=history).learned is learned
    text = {"validation": {"examples": 1, "accuracy": 0.1, "perplexity": 90.0}}
    assert made_record(splits=text, history=history).learned
    assert made_record(splits={}, history=history, recipe_values={"model.pretrained": "a/b"}).learned


def test_what_was_not_measured_is_not_written(content):
    assert content["splits"]["validation"] == {"examples": 10, "accuracy": 0.75}
    assert content["history"][1] == {"step": 2, "evaluations": {"test": {"accuracy": 0.5}}}


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("seed", "0"),
        ("seed", True),
        ("steps", 1.5),
        ("file", None),
        ("splits.test.accuracy", 50.0),
        ("splits.test.accuracy", "0.5"),
        ("splits.test.examples", -1),
        ("splits.test.by_length.0", "abc"),
        ("splits.test.by_length.0.2", "a"),
        ("splits.test.by_category.k=2", [1]),
        ("splits.test.las", "x"),
        ("history.0", None),
        ("history.0.step", None),
        ("history.0.evaluations", []),
        ("starts", []),
        ("starts.0.versions", {"torch": 2}),
        ("environment.device", 7),
        ("recipe.training.max_steps", "many"),
        ("recipe.model", 5),
        ("recipe.nonsense", 5),
        ("unknown", 1),
    ],
)
def test_a_wrong_value_is_named(content, place, value, tmp_path):
    inner: Any = content
    *keys, last = (int(key) if key.isdigit() else key for key in place.split("."))
    for key in keys:
        inner = inner[key]
    inner[last] = value
    with pytest.raises(UserError) as caught:
        read(content, tmp_path)
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"{tmp_path / 'read.json'}: {place.split('.')[0]}")


@pytest.mark.parametrize("key", ["file", "recipe", "splits", "history", "starts", "environment", "seed", "steps"])
def test_a_missing_key_is_named(content, key, tmp_path):
    del content[key]
    with pytest.raises(UserError, match=key):
        read(content, tmp_path)


def damaged(text: str, seed: int) -> str | bytes:
    """The text of a record with some of its values replaced by what a file may hold, or cut short."""
    chance = random.Random(seed)
    worst: list[Any] = [None, [], {}, "x", -1, 1e300, True, "\ud800", [None], 10**19, {"a": {"b": []}}, ["a", "b", "c"]]
    content = json.loads(text)

    def spoil(value: Any) -> Any:
        if chance.random() < 0.02:
            return chance.choice(worst)
        if isinstance(value, dict):
            return {key: spoil(one) for key, one in value.items() if chance.random() > 0.003}
        return [spoil(one) for one in value] if isinstance(value, list) else value

    spoilt = json.dumps(spoil(content))
    if seed % 3 == 0:
        place = chance.randrange(len(spoilt))
        return spoilt[:place] + chance.choice(["", "9" * 5000, "[" * 3000, "NaN", "\x00", "{"]) + spoilt[place + 5 :]
    return spoilt


@pytest.mark.parametrize("version", [1, 2])
def test_nothing_else_escapes(version, content, tmp_path):
    text = json.dumps(content) if version == 2 else json.dumps(VERSION_1)
    outcomes = set()
    for seed in range(300):
        path = tmp_path / "damaged.json"
        path.write_text(damaged(text, seed))
        message = None
        try:
            read_record(path)
        except UserError as error:
            message = str(error)
        outcomes.add(message is None)
        if message is not None:
            assert len(message.splitlines()) == 1
            assert len(message) < 400
            message.encode()
    assert outcomes == {True, False}


def test_unreadable_files(record, content, tmp_path):
    for text in (
        json.dumps(content)[:-20],
        "[]",
        "",
        "[" * 100_000,
        '{"schema_version": 3}',
        '{"a": ' + "9" * 5000 + "}",
    ):
        with pytest.raises(UserError):
            read(text, tmp_path)
    with pytest.raises(UserError, match="absent"):
        read_record(tmp_path / "absent.json")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError):
        read_record(tmp_path / "bytes.json")


def test_numbers_that_json_lacks_become_null(tmp_path):
    splits = {"test": {"accuracy": 0.5, "loss": math.inf, "other": math.nan}}
    history = [LogEntry.of({"step": 9, "loss": math.nan, "eval_test_loss": math.inf}, ["test"])]
    write_record(tmp_path / "r.json", made_record(splits=splits, history=history))
    text = (tmp_path / "r.json").read_text()
    assert "NaN" not in text
    assert "Infinity" not in text
    assert read_record(tmp_path / "r.json").splits["test"].metrics == {"accuracy": 0.5, "loss": None, "other": None}


def test_logged_metrics_belong_to_their_split():
    entry = {"step": 5, "eval_test_iid_accuracy": 0.5, "eval_test_loss_teacher": 1.0, "eval_new_loss": 2.0, "note": "x"}
    logged = LogEntry.of(entry, ["test", "test_iid", "validation"])
    assert logged.evaluations == {"test_iid": {"accuracy": 0.5}, "test": {"loss_teacher": 1.0}, "new": {"loss": 2.0}}
    assert logged.model_extra == {}


# version 1

SPLIT_1 = {"examples": 3, "accuracy": 0.5, "loss": 1.0, "las": 0.5, "by_length": [[1, 3, 0.5]]}
VERSION_1 = {
    "schema_version": 1,
    "name": "cogs_transformer,batch_size=64,dropout=0.3",
    "recipe": {
        "model": "sysgen_transformer", "benchmark": "cogs", "config": "current", "steps": 10, "learning_rate": 0.001,
        "batch_size": 64, "dropout": 0.3, "early_stopping": "none", "precision": "fp32", "static_batches": False,
    },
    "recipe_hash": "0" * 16,
    "git_commit": "abc",
    "versions": {"torch": "2"},
    "seed": 3,
    "steps": 10,
    "num_parameters": 7,
    "splits": {"test": SPLIT_1, "test_iid": SPLIT_1},
    "history": [{"step": 1, "eval_test_iid_accuracy": 0.25}, {"step": 2, "loss": 0.5}],
    "train_seconds": 1.5,
    "device": "CPU",
    "num_processes": 1,
    "num_threads": 1,
}  # fmt: skip


def test_version_1_is_read(tmp_path):
    record = read(VERSION_1, tmp_path)
    assert record.file == "csordas2021/cogs_transformer"
    assert record.overrides == {"batches.size": 64, "model.dropout": 0.3}
    assert record.name == "cogs_transformer,batches.size=64,model.dropout=0.3"
    assert (record.recipe.training.max_steps, record.recipe.batches.size) == (10, 64)
    assert record.recipe_hash == record.recipe.hash
    assert record.curve("test_iid", "accuracy") == [(1, 0.25)]
    assert (record.commit, record.versions, record.starts[0].step) == ("abc", {"torch": "2"}, None)
    assert (record.environment.device, record.example) == ("CPU", None)
    write_record(tmp_path / "new.json", record)
    assert read_record(tmp_path / "new.json") == record


def test_a_name_of_version_1_that_was_cut_has_its_overrides(tmp_path):
    """Keys that the name has lost are those in which the recipe differs from the shipped file."""
    words = ",".join(f"config=current,{key}={value}" for key, value in (("dropout", 0.3), ("x" * 120, 1)))
    name = f"cogs_transformer,{words}"[:150].ljust(151, "-") + "0123abcd"
    recipe = shipped("cogs_transformer").to_dict()
    old = VERSION_1["recipe"] | {"steps": recipe["training"]["max_steps"], "batch_size": recipe["batches"]["size"]}
    record = read({**VERSION_1, "name": name, "recipe": old}, tmp_path)
    assert {"model.dropout", "training.learning_rate"} <= record.overrides.keys()
    assert not {"training.max_steps", "batches.size", "seed"} & record.overrides.keys()


def test_static_batches_of_version_1_are_refused(tmp_path):
    recipe = VERSION_1["recipe"] | {"static_batches": True}
    with pytest.raises(UserError, match="static_batches"):
        read({**VERSION_1, "recipe": recipe}, tmp_path)


def test_kept_records_are_of_this_version_and_in_their_place():
    paths = sorted(KEPT.rglob("*.json"))
    assert len(paths) > 50
    for path in paths:
        assert json.loads(path.read_text())["schema_version"] == 2
        record = read_record(path)
        assert record.kept_at(KEPT) == path
        assert record.recipe_hash == record.recipe.hash
        assert record.recipe.output_dir is None


# starts


def test_every_start_whose_updates_are_kept_is_named(tmp_path):
    def starts(step, commit):
        return starts_of(tmp_path, RunStart(commit=commit, versions={"torch": "1"}, step=step))

    write_starts(tmp_path, starts(0, "a"))
    # killed before its first checkpoint
    write_starts(tmp_path, starts(0, "b"))
    write_starts(tmp_path, starts(500, "c"))
    write_starts(tmp_path, starts(900, "d"))
    # the last checkpoint was lost
    found = starts(500, "e")
    assert [(start.commit, start.step) for start in found] == [("b", 0), ("e", 500)]
    # of a version that did not write the step
    (tmp_path / "starts.json").write_text('[{"commit": "old", "versions": {}, "step": null}]')
    assert [start.commit for start in starts(1, "a")] == ["old", "a"]
    (tmp_path / "starts.json").write_text("{")
    for step in (1, 500):
        assert [start.commit for start in starts(step, "a")] == [None, "a"]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("processor\t: 0\nmodel name\t: One: of 2 GHz\nmodel\t: 7\n", "One: of 2 GHz"),
        ("processor\t: 0\n", "by its platform"),
        (None, "by its platform"),
    ],
)
def test_the_processor_s_name(text, name, monkeypatch):
    def read_text(path):
        assert str(path) == "/proc/cpuinfo"
        if text is None:
            raise FileNotFoundError
        return text

    monkeypatch.setattr(Path, "read_text", read_text)
    monkeypatch.setattr(surroundings.platform, "processor", lambda: "by its platform")
    assert surroundings.cpu_name() == name


def test_the_number_of_threads(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert surroundings.environment("cpu").num_threads == 3


def test_the_commit_is_that_of_our_own_checkout_only(tmp_path, monkeypatch):
    repository = tmp_path / "theirs"
    installed = repository / "venv" / "hf_sysgen" / "results" / "environment.py"
    model = repository / "venv" / "hf_sysgen" / "models" / "model.py"
    for path in (installed, model):
        path.parent.mkdir(parents=True)
        path.touch()
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], [*who, "commit", "-q", "--allow-empty", "-m", "theirs"]):
        subprocess.run(["git", *words], cwd=repository, check=True)
    monkeypatch.setattr(surroundings, "__file__", str(installed))
    assert surroundings.git_commit() is None
    for words in (["add", "."], [*who, "commit", "-q", "-m", "ours"]):
        subprocess.run(["git", *words], cwd=repository, check=True)
    commit = surroundings.git_commit()
    assert len(commit) == 40
    model.write_text("changed")
    assert surroundings.git_commit() == commit + "+"


# predictions


def test_a_row_has_the_type_of_its_task(tmp_path):
    rows = [
        {"split": "test", "row": 0, "prediction": "a", "target": "a", "exact": True, "loss": math.inf},
        {
            "split": "test",
            "row": 1,
            "prediction": "0:R",
            "exact": True,
            "tokens": 1,
            "correct_heads": 1,
            "correct_arcs": 1,
        },
        {"split": "test", "row": 2, "prediction": {"roles": ["x"]}, "exact": False, "role_exact": True},
        {"split": "other", "row": 0, "nats": 1.5, "correct": 1, "tokens": 2, "input": "a b"},
    ]
    write_predictions(tmp_path / "p.jsonl", made_rows(rows))
    lines = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert lines == [{**rows[0], "loss": None}, *rows[1:]]
    found = read_predictions(tmp_path / "p.jsonl")
    assert [type(row) for row in found] == [TextRow, TreeRow, GraphRow, ModelingRow]
    assert math.isnan(found[0].loss)
    assert found[2].numbers() == {"row": 2, "exact": False, "role_exact": True}
    assert [row.row for row in read_predictions(tmp_path / "p.jsonl", "other")] == [0]
    for wrong in ({"split": "test", "row": 3}, {**rows[0], "exact": "yes"}, {**rows[3], "nats": math.nan}):
        with pytest.raises(ValidationError):
            ROW.validate_python(wrong)


# files and tables


def test_a_failed_write_leaves_the_old_file_alone(tmp_path, monkeypatch):
    path = tmp_path / "file.txt"
    write_atomic(path, "old")

    def fail(*args):
        raise OSError("no space left")

    monkeypatch.setattr("hf_sysgen.files.os.replace", fail)
    with pytest.raises(OSError, match="no space"):
        write_atomic(path, "new")
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["file.txt"]


def test_a_link_is_written_through(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "elsewhere" / "file.json")
    for text in ("one", "two"):
        write_atomic(link, text)
        assert link.is_symlink()
        assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["file.json"]
        assert (tmp_path / "elsewhere" / "file.json").read_text() == text


def test_what_is_no_file_is_not_replaced(tmp_path):
    """A pipe does not block."""
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "null").symlink_to("/dev/null")

    def entries() -> dict:
        # reading a link sets its access time
        found = {path.name: path.lstat() for path in tmp_path.iterdir()}
        return {name: (*stat[:7], stat.st_mtime_ns, stat.st_ctime_ns) for name, stat in found.items()}

    before = entries()
    for name in ("folder", "pipe", "loop", "null", "nul\0", "surrogate\ud800", "a" * 300):
        with pytest.raises(OSError) as caught:  # noqa: PT011  whichever the system has
            write_atomic(tmp_path / name, "new")
        assert isinstance(caught.value.errno, int)
    assert entries() == before


def test_table_is_aligned():
    assert table(("name", "n"), [("a", 1), ("long", 234)]) == "name    n\na       1\nlong  234"


def test_plot(record, tmp_path):
    path = tmp_path / "plots" / "accuracy.png"
    plot_accuracies([record], path)
    plot_accuracies([made_record(splits={"test": 0.5})], tmp_path / "empty.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size > (tmp_path / "empty.png").stat().st_size


def test_runs_of_one_model_are_called_by_their_names():
    records = [made_record(file=file, seed=seed, splits={}) for file, seed in (("a", 0), ("b", 0), ("b", 1))]
    assert distinct_labels(["x", "y"], records[:2]) == ["x", "y"]
    assert distinct_labels(["x", "x"], records[:2]) == ["a", "b"]
    assert distinct_labels(["x", "x", "x"], records) == ["a seed 0", "b seed 0", "b seed 1"]
