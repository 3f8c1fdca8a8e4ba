"""Runs of T5 with one block, whose weights have many names: the vocabulary, what is learned, resuming, sharing."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest
from invariance import (
    SHARED_BATCHES,
    SMOOTH,
    assert_a_kill_leaves_no_trace,
    assert_a_lost_end_comes_back,
    assert_losses_are_the_same,
    assert_two_processes_train_as_one,
)
from tiny_runs import read_lines, short_scan, tiny_recipe, write_recipe

import hf_sysgen.training.tasks.registry
from hf_sysgen.config.errors import RecipeError
from hf_sysgen.evaluation.checkpoints import load_checkpoint, predict
from hf_sysgen.training.run import run_recipe
from hf_sysgen.training.tasks.registry import prepare_task

T5 = {"model": "universal_t5_transformer", "joint_vocabulary": True, "encoder_layers": 2, "decoder_layers": 3}


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that gets some examples right and some wrong."""
    folder = tmp_path_factory.mktemp("t5")
    recipe = tiny_recipe(
        folder, **T5, max_steps=200, size=32, hidden_size=32, intermediate_size=64, learning_rate=0.005,
        eval_steps=100, batch_size=8, save_steps=1000, dropout=0.0,
    )  # fmt: skip
    with mock.patch.object(hf_sysgen.training.tasks.registry, "load_benchmark", return_value=short_scan()):
        run_recipe(recipe)
    return folder / "run"


def test_one_table(tmp_path, few_examples):
    task = prepare_task(tiny_recipe(tmp_path, **T5))
    config, tokenizer = task.build_model("eager").config, task.vocabulary.tokenizer
    assert config.vocab_size == len(tokenizer)
    assert (config.pad_token_id, config.decoder_start_token_id) == (tokenizer.eos_token_id,) * 2
    assert not {"input_form", "source_vocab_size"} & config.to_dict().keys()
    for key in ("joint_vocabulary", "source_start"):
        with pytest.raises(RecipeError) as caught:
            prepare_task(tiny_recipe(tmp_path, **{**T5, key: False}))
        assert caught.value.key == f"data.{key}"


def test_a_stranger_generates(run_dir):
    """By `generate`, with another cache than evaluation's, and without what that knows of references."""
    model, tokenizer = load_checkpoint(run_dir)
    rows = read_lines(run_dir / "predictions.jsonl")
    texts, _ = predict(model, tokenizer, [row["input"] for row in rows])
    for row, text in zip(rows, texts, strict=True):
        assert text.split()[: row["target_length"] + 1] == row["prediction"].split()
    assert 0 < sum(row["exact"] for row in rows) < len(rows)


def test_resumed(tmp_path, few_examples):
    assert_a_lost_end_comes_back(tiny_recipe(tmp_path, **T5, sampling="epochs", length_buckets=2, eval_steps=None))


@pytest.mark.slow
def test_killed_once(tmp_path):
    assert_a_kill_leaves_no_trace(write_recipe(tmp_path, **T5, sampling="epochs", length_buckets=2), tmp_path)


def test_two_processes_make_the_updates_of_one(tmp_path, few_examples):
    keys = {**T5, **SHARED_BATCHES}
    alone = run_recipe(tiny_recipe(tmp_path / "one", **keys))
    assert_two_processes_train_as_one(alone, write_recipe(tmp_path, **keys), tmp_path)


@pytest.mark.parametrize(
    "change",
    [{"length_buckets": 4}, {"gradient_checkpointing": True}, {"attn_implementation": "sdpa"}],
    ids=lambda change: next(iter(change)),
)
def test_the_same_updates_in_another_way(change, tmp_path, few_examples):
    keys = {**T5, **SMOOTH, "size": 20, "max_steps": 4, "eval_steps": None, "attn_implementation": "eager"}
    assert_losses_are_the_same(
        *(tiny_recipe(tmp_path / name, **{**keys, **more}) for name, more in (("plain", {}), ("other", change)))
    )
