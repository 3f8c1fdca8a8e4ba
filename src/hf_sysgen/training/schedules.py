"""Learning rates by update, with the papers' exact formulas. Update numbers count from 0."""

from __future__ import annotations

import math
from collections.abc import Callable

from transformers import PreTrainedConfig

from hf_sysgen.config.errors import RecipeError
from hf_sysgen.config.recipe import Recipe
from hf_sysgen.config.sections import InverseSqrt, Linear, Noam


def noam(learning_rate: float, hidden_size: int, warmup_steps: int) -> Callable[[int], float]:
    """
    learning_rate * hidden_size^-1/2 * min((step + 1)^-1/2, (step + 1) * warmup_steps^-3/2)
    (optimizer/noam_lr_sched.py of Csordas et al. 2021).
    """
    scale = learning_rate / math.sqrt(hidden_size)

    def at(step: int) -> float:
        if step < warmup_steps:
            return scale * (step + 1) / warmup_steps**1.5
        return scale / math.sqrt(step + 1)

    return at


def inverse_sqrt(learning_rate: float, warmup_steps: int, warmup_init_lr: float = 0.0) -> Callable[[int], float]:
    """
    Linear from `warmup_init_lr` to `learning_rate` over `warmup_steps` updates, then learning_rate *
    (warmup_steps / step)^1/2 (fairseq 0.10.2, inverse_square_root_schedule.py:62-85).
    """

    def at(step: int) -> float:
        if step < warmup_steps:
            return warmup_init_lr + step * (learning_rate - warmup_init_lr) / warmup_steps
        return learning_rate * math.sqrt(warmup_steps / step)

    return at


def linear(learning_rate: float, warmup_steps: int, steps: int) -> Callable[[int], float]:
    """
    From 0 to `learning_rate` over `warmup_steps` updates, then down to 0 at update number `steps`
    (transformers' `get_linear_schedule_with_warmup`, which Bergen et al. 2021 use).
    """

    def at(step: int) -> float:
        if step < warmup_steps:
            return learning_rate * step / warmup_steps
        return learning_rate * max(0, steps - step) / (steps - warmup_steps)

    return at


def learning_rate_of(recipe: Recipe, config: PreTrainedConfig) -> Callable[[int], float]:
    """
    The recipe's learning rate as a function of the update number.

    Raises:
        RecipeError: it depends on the model's `hidden_size`, which its config lacks.
    """
    schedule, learning_rate = recipe.schedule, recipe.training.learning_rate
    if isinstance(schedule, Noam):
        if not hasattr(config, "hidden_size"):
            key = "schedule.type"
            raise RecipeError(f"{key}=noam needs a hidden_size, which a {config.model_type} has not", key)
        return noam(learning_rate, config.hidden_size, schedule.warmup_steps)
    if isinstance(schedule, InverseSqrt):
        return inverse_sqrt(learning_rate, schedule.warmup_steps, schedule.warmup_init_lr)
    if isinstance(schedule, Linear):
        return linear(learning_rate, schedule.warmup_steps, recipe.training.max_steps)
    return lambda step: learning_rate
