"""Learning rates equal the authors' numbers, as functions and as what the optimizer really used."""

from __future__ import annotations

import json
import math

import pytest
import torch
from tiny_runs import tiny_recipe
from transformers import PreTrainedConfig

from hf_sysgen.config.errors import RecipeError
from hf_sysgen.training.run import run_recipe
from hf_sysgen.training.schedules import inverse_sqrt, learning_rate_of, linear, noam


def test_noam_reproduces_the_authors(golden_dir):
    schedules = json.loads((golden_dir / "csordas" / "lr_schedule_golden.json").read_text())["schedules"]
    assert len(schedules) == 3
    for schedule in schedules.values():
        at = noam(schedule["lr"], schedule["d_model"], schedule["warmup"])
        for step, value in schedule["values"].items():
            assert at(int(step)) == pytest.approx(value, rel=1e-12)


def test_noam_by_hand():
    at = noam(2.0, hidden_size=16, warmup_steps=4)
    # 2/4 * (step + 1) / 4^1.5, then 2/4 / sqrt(step + 1)
    assert [at(step) for step in range(6)] == pytest.approx(
        [0.0625, 0.125, 0.1875, 0.25, 0.5 / math.sqrt(5), 0.5 / math.sqrt(6)], rel=1e-15
    )


def test_inverse_sqrt_by_hand():
    at = inverse_sqrt(0.5, warmup_steps=4, warmup_init_lr=0.1)
    assert at(0) == 0.1
    assert [at(step) for step in (1, 2, 3, 4)] == pytest.approx([0.2, 0.3, 0.4, 0.5], rel=1e-15)
    assert [at(step) for step in (16, 64, 400)] == pytest.approx([0.25, 0.125, 0.05], rel=1e-15)
    assert inverse_sqrt(0.5, warmup_steps=4)(0) == 0.0


def test_linear_by_hand():
    at = linear(0.6, warmup_steps=2, steps=8)
    assert [at(step) for step in range(9)] == pytest.approx([0, 0.3, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0], abs=1e-15)


def test_linear_is_that_of_transformers():
    from transformers import get_linear_schedule_with_warmup

    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.3)
    scheduler = get_linear_schedule_with_warmup(optimizer, num_warmup_steps=3, num_training_steps=11)
    at = linear(0.3, warmup_steps=3, steps=11)
    for step in range(11):
        assert at(step) == pytest.approx(scheduler.get_last_lr()[0], rel=1e-12)
        optimizer.step()
        scheduler.step()


KEYS = {
    "constant": {},
    "linear": {"schedule": "linear", "warmup_steps": 1},
    "noam": {"schedule": "noam", "warmup_steps": 2, "learning_rate": 0.5},
    "inverse_sqrt": {"schedule": "inverse_sqrt", "warmup_steps": 2, "warmup_init_lr": 0.001},
}


@pytest.mark.parametrize("schedule", KEYS)
def test_updates_use_the_schedule(schedule, tmp_path, few_examples):
    """What the optimizer's step saw, by update; the Trainer logs it."""
    recipe = tiny_recipe(tmp_path, eval_steps=None, **KEYS[schedule])
    record = run_recipe(recipe)
    used = {entry.step: entry.learning_rate for entry in record.history if entry.learning_rate is not None}
    at = learning_rate_of(recipe, PreTrainedConfig(hidden_size=16))
    assert used == pytest.approx({step + 1: at(step) for step in range(6)}, rel=1e-12)
    assert len(set(used.values())) == (1 if schedule == "constant" else 6)


def test_constant(tmp_path):
    at = learning_rate_of(tiny_recipe(tmp_path), PreTrainedConfig(hidden_size=16))
    assert {at(step) for step in (0, 1, 1000)} == {0.01}


def test_only_noam_needs_the_width(tmp_path):
    config = PreTrainedConfig()
    assert learning_rate_of(tiny_recipe(tmp_path), config)(3) == 0.01
    with pytest.raises(RecipeError, match=r"schedule\.type=noam"):
        learning_rate_of(tiny_recipe(tmp_path, schedule="noam", warmup_steps=2), config)
