"""A run's folder: which recipe's run it holds, whether that is finished, and whether a process trains there."""

from __future__ import annotations

from pathlib import Path

from hf_sysgen.config.errors import RecipeError
from hf_sysgen.config.fields import effect_of
from hf_sysgen.config.io import read_recipe
from hf_sysgen.config.model_fields import flat_with_defaults
from hf_sysgen.config.recipe import Recipe
from hf_sysgen.data.registry import benchmark_info
from hf_sysgen.errors import shorten
from hf_sysgen.files import is_unfinished, locked
from hf_sysgen.results.reading import read_record
from hf_sysgen.results.record import RESULTS, Record
from hf_sysgen.training.checkpointing import complete_checkpoints, report_damage
from hf_sysgen.training.tasks.pretraining import require_text_of_run

RECIPE_COPY = "recipe.yaml"
LOCK = ".lock"
# which checkpoint the run started from, for when it resumes
PRETRAINED = "pretrained.json"


def reads_stream(recipe: Recipe) -> bool:
    """Whether the benchmark is a stream of text, as in pretraining."""
    return benchmark_info(recipe.data.benchmark).task == "language_modeling"


def is_training(run_dir: Path) -> bool:
    """Whether a process trains in this folder, however it was started."""
    if not (run_dir / LOCK).exists():
        return False
    with locked(run_dir / LOCK) as lock:
        return lock is None


def check_run_dir(recipe: Recipe) -> Path:
    """
    The run's folder. Nothing is written yet, because the recipe may still be refused. Pretraining may resume with other
    values of fields that change only rounding; its record has the last ones.

    Raises:
        RecipeError: the folder holds a run of another recipe or on other streamed text, a run without the example
            losses that this recipe saves, or files of no run.
    """
    run_dir = recipe.run_dir
    copy = run_dir / RECIPE_COPY
    if copy.exists():
        other = read_recipe(copy)
        recipe = recipe.settled(other.training.bf16)
        ours, theirs = flat_with_defaults(recipe), flat_with_defaults(other)
        free = ("nothing", "rounding") if reads_stream(recipe) else ("nothing",)
        differing = sorted(
            key for key in {*ours, *theirs} if ours.get(key) != theirs.get(key) and effect_of(key) not in free
        )
        if differing:
            changes = ", ".join(
                f"{key}: {shorten(theirs.get(key))} there, {shorten(ours.get(key))} here" for key in differing
            )
            raise RecipeError(
                f"output_dir: {run_dir} holds a run of another recipe ({changes}); choose another output_dir, or "
                "remove that folder",
                "output_dir",
            )
        checkpoints = complete_checkpoints(run_dir)
        if recipe.data.data_dir != other.data.data_dir and checkpoints:
            # this also checks a finished run; the same text may have been moved
            checkpoint = checkpoints[-1]
            with report_damage(checkpoint):
                require_text_of_run(recipe, checkpoint)
        if recipe.evaluation.save_example_losses and not other.evaluation.save_example_losses:
            key = "evaluation.save_example_losses"
            raise RecipeError(
                f"{key}=true: {run_dir} holds a run that was started without it and has saved no losses; choose "
                "another output_dir, or remove that folder",
                key,
            )
        return run_dir
    if run_dir.exists() and (
        not run_dir.is_dir()
        or any(
            # another process of this run may be writing its copy just now
            file not in (copy, run_dir / LOCK) and not is_unfinished(copy, file)
            for file in run_dir.iterdir()
        )
    ):
        raise RecipeError(
            f"output_dir: {run_dir} exists and is not a run of this package; choose another output_dir, or remove it",
            "output_dir",
        )
    return run_dir


def finished_results(recipe: Recipe) -> Record | None:
    """The record of this recipe's run, if it is finished. Errors as `check_run_dir` and `read_record`."""
    run_dir = check_run_dir(recipe)
    return read_record(run_dir / RESULTS) if (run_dir / RESULTS).exists() else None
