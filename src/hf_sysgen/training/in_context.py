"""A checkpoint of somebody else's judged by examples in its prompts, as one run."""

from __future__ import annotations

from pathlib import Path

from hf_sysgen.config.io import parse_recipe
from hf_sysgen.config.sections import InContext
from hf_sysgen.data import benchmark_info
from hf_sysgen.evaluation.commands import metrics_table
from hf_sysgen.training.run import quiet_libraries, run_recipe


def evaluate_in_context(
    checkpoint: str,
    benchmark: str,
    config: str | None,
    how: InContext,
    prompt: str | None,
    seed: int,
    data_dir: Path | None,
    output: Path | None,
    batch_size: int,
) -> str:
    """
    Run the recipe that judges a checkpoint by examples in its prompts.

    Args:
        how: the recipe's section `in_context`.
        output: the run's folder.

    Returns:
        a table of the scores, and where the record is.

    Raises:
        RecipeError, DataError, UserError: as `run_recipe`.
    """
    quiet_libraries()
    config = benchmark_info(benchmark).config(config).name
    rule = "" if how.rule == "random" else f"_{how.rule}"
    name = f"{benchmark}_{config}_{Path(checkpoint).name}_{how.shots}_shots{rule}"
    sections = {
        "model": {"pretrained": checkpoint},
        "data": {"benchmark": benchmark, "config": config, "prompt": prompt, "data_dir": data_dir and str(data_dir)},
        "in_context": how,
        "evaluation": {"batch_size": batch_size},
        "seed": seed,
        "output_dir": output and str(output),
    }
    recipe = parse_recipe(sections, f"in_context/{name}{'_constrained' * how.constrained}")
    record = run_recipe(recipe)
    return f"{metrics_table(record.splits, ('examples', 'accuracy'))}\n{recipe.run_dir}"
