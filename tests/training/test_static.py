"""Static batches make the updates that the Trainer's own loop makes."""

from __future__ import annotations

import shutil

import pytest
from safetensors.torch import load_file
from tiny_runs import tiny_recipe, weights

from hf_sysgen.config.recipe import RecipeError
from hf_sysgen.training.run import run_recipe

# with Adam's usual epsilon, gradients that are zero but for rounding would become steps of full size
SAME = {"adam_epsilon": 1e-2, "dropout": 0.0, "max_grad_norm": 1.0, "steps": 7, "eval_every": 3, "save_every": 2,
        "log_every": 5}  # fmt: skip


@pytest.mark.usefixtures("few_examples")
@pytest.mark.parametrize(
    "schedule", [{}, {"schedule": "noam", "warmup_steps": 4, "learning_rate": 0.5}], ids=["constant", "noam"]
)
def test_same_weights_and_history_as_the_trainer(tmp_path, schedule):
    changes = SAME | schedule
    ordinary = run_recipe(tiny_recipe(tmp_path / "a", **changes))
    static = run_recipe(tiny_recipe(tmp_path / "b", **changes, static_batches=True))
    ours, theirs = (load_file(tmp_path / side / "run" / "model" / "model.safetensors") for side in "ba")
    for name, tensor in theirs.items():
        # padding to one shape changes the order of float32 sums, nothing else
        assert (ours[name] - tensor).abs().max() < 1e-6, name
    for mine, other in zip(static["history"], ordinary["history"], strict=True):
        assert mine["step"] == other["step"]
        for key in ("loss", "learning_rate", "eval_test_loss", "eval_validation_accuracy"):
            assert (key in mine) == (key in other)
            if key in mine:
                assert mine[key] == pytest.approx(other[key], rel=1e-5)


@pytest.mark.usefixtures("few_examples")
def test_resumes_to_the_same_weights(tmp_path):
    changes = {**SAME, "dropout": 0.3, "static_batches": True}
    run_recipe(tiny_recipe(tmp_path / "whole", **changes))
    run_recipe(tiny_recipe(tmp_path / "cut", **changes))
    cut = tmp_path / "cut" / "run"
    for name in ("results.json", "predictions.jsonl"):
        (cut / name).unlink()
    shutil.rmtree(cut / "model")
    last = max(int(path.name.rpartition("-")[2]) for path in cut.glob("checkpoint-*"))
    shutil.rmtree(cut / f"checkpoint-{last}")
    run_recipe(tiny_recipe(tmp_path / "cut", **changes))
    assert weights(cut / "model") == weights(tmp_path / "whole" / "run" / "model")


@pytest.mark.usefixtures("few_examples")
def test_early_stopping_ends_the_loop(tmp_path):
    changes = {"static_batches": True, "early_stopping": "accuracy", "early_stopping_patience": 1, "steps": 30,
               "eval_every": 2, "learning_rate": 1e-9}  # fmt: skip
    results = run_recipe(tiny_recipe(tmp_path, **changes))
    assert results["steps"] == 4


def test_what_does_not_go_together(tmp_path):
    for key, value in {"length_groups": 2, "sampling": "epochs", "label_smoothing": 0.1, "precision": "fp16"}.items():
        with pytest.raises(RecipeError, match=rf"{key}.*does not go with static_batches"):
            tiny_recipe(tmp_path, static_batches=True, **{key: value})
