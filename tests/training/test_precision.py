"""`training.bf16: auto`: measured once, and from then on as if the answer had been given."""

from __future__ import annotations

import functools
import os
import signal
from pathlib import Path

import kills
import pytest
import torch
from tiny_runs import train_process, weights, write_recipe

import hf_sysgen.training.precision as precision
import hf_sysgen.training.run as run
from hf_sysgen.config.errors import RecipeError
from hf_sysgen.config.io import load_recipe, read_recipe
from hf_sysgen.config.sweep import load_sweep
from hf_sysgen.results.cells import PRECISION
from hf_sysgen.results.reading import read_record
from hf_sysgen.training.launch.states import state_of
from hf_sysgen.training.run import run_recipe
from hf_sysgen.training.run_folder import finished_results

AUTO = "training.bf16=auto"


def says(*answers: bool, moment=None) -> None:
    """Measuring in a process has the answer of its rank; with `moment` the process is killed then."""
    rank, settle = int(os.environ.get("RANK", "0")), run.settle_precision

    def noted(recipe):
        settled = settle(recipe)
        Path(f"rank{rank}.txt").write_text(str(settled.training.bf16))
        return settled

    run.faster_in_bf16 = lambda device: (answers[rank], "it was told")
    run.settle_precision = noted
    if moment is not None:
        moment()


@pytest.fixture
def answer(monkeypatch):
    """Sets what measuring says; None if nothing may be measured."""

    def chosen(faster: bool | None) -> None:
        def measured(device):
            assert faster is not None
            return faster, "it was told"

        monkeypatch.setattr(run, "faster_in_bf16", measured)

    return chosen


@pytest.mark.parametrize("faster", [True, False])
def test_the_run_is_as_if_the_answer_had_been_given(faster, tmp_path, few_examples, monkeypatch, answer, capsys):
    """And is measured once."""
    answer(faster)
    monkeypatch.chdir(tmp_path)
    path = write_recipe(tmp_path)
    auto, given = (load_recipe(path, [f"training.bf16={value}", "seed=3"]) for value in ("auto", str(faster).lower()))
    assert auto.run_dir != given.run_dir
    ours, theirs = (run_recipe(recipe) for recipe in (auto, given))
    assert ours.recipe.training.bf16 is ours.overrides["training.bf16"] is faster
    assert set(ours.recipe.differences(theirs.recipe, "nothing")) == {"output_dir"}
    assert (ours.recipe_hash, ours.cell_key) == (theirs.recipe_hash, theirs.cell_key)
    assert read_recipe(auto.run_dir / "recipe.yaml").hash == given.hash
    assert weights(auto.run_dir / "model") == weights(given.run_dir / "model")
    assert capsys.readouterr().err.count(f"{AUTO} takes {str(faster).lower()}: it was told\n") == 1
    answer(None)
    assert run_recipe(auto) == finished_results(auto) == ours
    with pytest.raises(RecipeError) as caught:
        run_recipe(load_recipe(path, [f"training.bf16={not faster}".lower(), "seed=3", f"output_dir={auto.run_dir}"]))
    assert caught.value.key == "output_dir"


@pytest.mark.parametrize("overrides", [[], ["training.max_steps=5"]])
def test_auto_of_a_file(overrides, tmp_path):
    recipe = load_recipe(write_recipe(tmp_path, bf16="auto"), overrides)
    settled = recipe.settled(True)
    assert settled.training.bf16 is True
    assert (settled.overrides, settled.run_dir) == (recipe.overrides, recipe.run_dir)


@pytest.mark.parametrize("step", [1, 5], ids=["before the first checkpoint", "between checkpoints"])
def test_a_killed_run_keeps_its_precision(step, tmp_path):
    """Where measuring would now say something else."""
    path = write_recipe(tmp_path)
    for name, value, prepare in (
        ("whole", "true", None),
        ("killed", "auto", functools.partial(says, True, moment=functools.partial(kills.after_step, step))),
        ("killed", "auto", functools.partial(says, False)),
    ):
        done = train_process([str(path), f"training.bf16={value}", f"output_dir={name}"], tmp_path, prepare)
        assert done.status in (0, -signal.SIGKILL), done.err
    record = read_record(tmp_path / "killed" / "results.json")
    assert record.recipe.training.bf16 is True
    assert len(record.starts) == (1 if step == 1 else 2)
    for file in ("model/model.safetensors", "predictions.jsonl"):
        assert (tmp_path / "killed" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


def test_processes_take_the_answer_of_the_first(tmp_path):
    words = [str(write_recipe(tmp_path)), AUTO, "output_dir=run"]
    done = train_process(words, tmp_path, functools.partial(says, False, True), processes=2)
    assert done.status == 0, done.err
    assert [(tmp_path / f"rank{rank}.txt").read_text() for rank in (0, 1)] == ["False", "False"]
    record = read_record(tmp_path / "run" / "results.json")
    assert (record.num_processes, record.recipe.training.bf16) == (2, False)


def test_sweeps(tmp_path, few_examples, monkeypatch, answer):
    """A run's folder is known before anything is measured, and each run has its own answer."""
    monkeypatch.chdir(tmp_path)
    write_recipe(tmp_path)
    path = tmp_path / "sweep.yaml"
    path.write_text("recipes: [tiny.yaml]\naxes: {training.bf16: [auto, true]}\nseeds: [0, 1]\n")
    answer(None)
    runs = load_sweep(path).runs
    assert len({run.recipe.run_dir for run in runs}) == 4
    for run_, faster in zip(runs, (True, False), strict=False):
        answer(faster)
        run_recipe(load_recipe(run_.path, run_.overrides))
    answer(None)
    assert [state_of(run)[0] for run in load_sweep(path).runs] == ["finished"] * 2 + ["new"] * 2
    assert [finished_results(run.recipe).recipe.training.bf16 for run in runs[:2]] == [True, False]


def test_no_hash_before_a_run(tmp_path):
    """It would be a third one, which no record has."""
    recipe, *given = (load_recipe(write_recipe(tmp_path, bf16=value)) for value in ("auto", True, False))
    for name in ("hash", "cell", "cell_key"):
        with pytest.raises(RecipeError) as caught:
            getattr(recipe, name)
        assert caught.value.key == "training.bf16"
    assert {one.cell_without(*PRECISION) for one in given} == {recipe.cell_without(*PRECISION)}
    assert [recipe.settled(value) for value in (True, False)] == given


# measuring


@pytest.mark.parametrize(("full", "half", "faster"), [(2.0, 1.0, True), (1.0, 1.0, False), (1.0, 2.0, False)])
def test_a_processor_is_timed(full, half, faster, monkeypatch):
    monkeypatch.setattr(precision, "seconds_of_layer", lambda: (full, half))
    assert precision.faster_in_bf16(torch.device("cpu"))[0] is faster


@pytest.mark.parametrize("able", [True, False])
def test_a_gpu_is_asked(able, monkeypatch):
    monkeypatch.setattr(precision, "seconds_of_layer", lambda: pytest.fail("timed"))
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: able or including_emulation)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    assert precision.faster_in_bf16(torch.device("cuda", 0))[0] is able
    assert precision.faster_in_bf16(torch.device("mps"))[0] is False


def test_measuring_leaves_no_trace():
    def settings() -> tuple:
        return torch.get_num_threads(), torch.get_float32_matmul_precision(), torch.get_rng_state().tolist()

    before = settings()
    assert all(seconds > 0 for seconds in precision.seconds_of_layer())
    assert settings() == before
    assert not torch.is_autocast_enabled("cpu")
