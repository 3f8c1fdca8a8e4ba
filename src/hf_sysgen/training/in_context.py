"""A checkpoint of somebody else's judged by examples in its prompts, as one run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hf_sysgen.config.fields import effect_of, nest
from hf_sysgen.config.io import parse_recipe
from hf_sysgen.config.recipe import build_recipe
from hf_sysgen.data import benchmark_info
from hf_sysgen.evaluation.commands import metrics_table
from hf_sysgen.training.run import quiet_libraries, run_recipe


def evaluate_in_context(checkpoint: str, benchmark: str, config: str | None, given: Mapping[str, Any]) -> str:
    """
    Run the recipe that judges a checkpoint by examples in its prompts.

    Args:
        given: further fields of the recipe by dotted key, `in_context.shots` among them.

    Returns:
        a table of the scores, and where the record is.

    Raises:
        RecipeError, DataError, UserError: as `run_recipe`.
    """
    quiet_libraries()
    config = benchmark_info(benchmark).config(config).name
    data = {"data.benchmark": benchmark, "data.config": config}
    given = {"model.pretrained": checkpoint, **{key: value for key, value in given.items() if value is not None}}
    overrides = {key: value for key, value in given.items() if effect_of(key) == "result"}
    recipe = parse_recipe(nest({**data, **given}))
    recipe = build_recipe(recipe.to_dict(), f"in_context/{benchmark}_{config}", overrides)
    record = run_recipe(recipe)
    return f"{metrics_table(record.splits, ('examples', 'accuracy'))}\n{recipe.run_dir}"
