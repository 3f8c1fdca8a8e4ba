"""What `hf-sysgen compare` refuses: before anything is trained, and of sentences to translate."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_records import made_record
from tiny_runs import write_recipe
from typer.testing import CliRunner

from hf_sysgen.cli.main import app
from hf_sysgen.training.launch import compare
from hf_sysgen.training.launch.processes import TrainingProcesses


@pytest.fixture
def trained(monkeypatch) -> list:
    """The recipes that training was asked for, which is done at once."""
    asked: list = []

    def done(self, work, items):
        asked.extend(items)
        return [(0, "")] * len(items)

    monkeypatch.setattr(TrainingProcesses, "map", done)
    return asked


def refused(*words: str | Path) -> str:
    result = CliRunner().invoke(app, ["compare", *map(str, words)])
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.splitlines()
    return line


def test_a_picture_that_could_not_be_written(trained, tmp_path):
    assert "a.txt: a picture's name ends in one of .png" in refused(
        write_recipe(tmp_path), "--plot", tmp_path / "a.txt"
    )
    assert trained == []


def test_the_best_of_several_metrics(trained, tmp_path):
    """Nobody knows which one that is."""
    recipes = [write_recipe(tmp_path, name, paper_metric=name, seed=0) for name in ("accuracy", "bleu")]
    assert "--translate needs one metric to choose the best recipe by, these have accuracy, bleu" in refused(
        *recipes, "--translate", "jump"
    )
    assert trained == []


def test_the_best_on_test_translates(tmp_path, monkeypatch):
    """One without any right answer is not the best."""
    files = [write_recipe(tmp_path, name, seed=seed) for seed, name in enumerate("abc")]
    records = iter([made_record(splits={"test": accuracy}) for accuracy in (0.0, 0.5, 0.25)])
    monkeypatch.setattr(compare, "run_sweep", lambda *_: 0)
    monkeypatch.setattr(compare, "read_record", lambda path: next(records))
    monkeypatch.setattr(compare, "_translate", lambda recipe, sentences: recipe.seed)
    assert compare.compare_recipes(files, sentences=["jump"]) == 1


def test_a_word_that_no_model_knows(trained, learned):
    line = refused(learned / "recipe.yaml", "--translate", "jump", "--translate", "foo jump")
    assert "'foo'" in line
    # it is finished
    assert trained == []
