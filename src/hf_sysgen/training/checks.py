"""What is checked of a run before its first update, so that an error shows before hours of training."""

from __future__ import annotations

import contextlib
import copy
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from transformers.integrations import get_available_reporting_integrations
from transformers.utils import is_liger_kernel_available

from hf_sysgen.config.errors import RecipeError
from hf_sysgen.config.fields import BY_KEY
from hf_sysgen.config.recipe import Recipe
from hf_sysgen.config.trainer_fields import THEIRS
from hf_sysgen.data import benchmark_info
from hf_sysgen.errors import RunFailed, UserError, is_out_of_memory, one_line, shorten
from hf_sysgen.evaluation.evaluate import evaluating, keeping_random_state
from hf_sysgen.results.environment import RunStart
from hf_sysgen.training.run_folder import reads_stream
from hf_sysgen.training.tasks.base import Task
from hf_sysgen.training.trainer import SysgenTrainer


def check_installed(recipe: Recipe) -> None:
    """
    Raises:
        RecipeError: a tracker that `training.report_to` names, or what `training.use_liger_kernel` needs, is not
            installed.
    """
    if recipe.training.passed_through.get("use_liger_kernel") and not is_liger_kernel_available():
        key = "training.use_liger_kernel"
        raise RecipeError(f"{key}=true needs liger-kernel: pip install liger-kernel, or remove it", key)
    given, key = recipe.training.report_to, "training.report_to"
    for name in (given,) if isinstance(given, str) else given:
        if name not in ("none", "all", *get_available_reporting_integrations()):
            raise RecipeError(f"{key}={name} is not installed: pip install {name}, or give another one, or none", key)


@contextlib.contextmanager
def naming_fields(recipe: Recipe, usual: str | None = None) -> Iterator[None]:
    """
    Turn errors of the Trainer and of batches into one that names a field of the recipe.

    Args:
        usual: the field of `training` that is meant where the message has neither a field's name nor its value.

    Raises:
        RecipeError: the message names a field, there is a usual one, or it is a ValueError.
        OSError: as it was, if it is of the run's folder.
    """
    try:
        yield
    except (UserError, RunFailed):
        raise
    except Exception as error:
        if isinstance(error, OSError) and Path(str(error.filename)).is_relative_to(recipe.run_dir):
            # the folder's name has names of fields
            raise
        given, said = recipe.training.model_dump(exclude_defaults=True), one_line(error)
        if isinstance(error, ValueError) and (key := str(error).partition("=")[0]) in BY_KEY:
            # the error is ours, e.g. for batches that do not divide
            raise RecipeError(str(error), key) from error
        # names of one word are words of other messages too
        names = [*given, *(name for name in THEIRS if "_" in name)]
        found = [name for name in names if re.search(rf"\b{re.escape(name)}\b", said, re.IGNORECASE)]
        # short values may be words of any message
        found += [name for name, value in given.items() if isinstance(value, str) and len(value) > 4 and value in said]
        if (name := next(iter(found), usual)) is not None:
            value = getattr(recipe.training, name, None)
            raise RecipeError(f"training.{name}={shorten(value)}: {said}", f"training.{name}") from error
        if isinstance(error, ValueError):
            raise RecipeError(f"training: {said}", "training") from error
        raise


def check_optimizer(trainer: SysgenTrainer) -> None:
    """
    Create the optimizer, which the Trainer keeps, where it does so before it wraps the model.

    Raises:
        RecipeError: its package is not installed, or an argument is wrong or has no effect.
    """
    fsdp = trainer.accelerator.state.fsdp_plugin if trainer.is_fsdp_enabled else None
    if trainer.is_deepspeed_enabled or (fsdp is not None and fsdp.fsdp_version == 1):
        return
    with naming_fields(trainer.recipe, "optim" if trainer.args.optim_args is None else "optim_args"):
        trainer.create_optimizer()
        for name in ("optim_args", "optim_target_modules", "adam_beta1", "adam_beta2", "adam_epsilon"):
            if getattr(trainer.args, name) != THEIRS[name].default and not _matters(trainer, name):
                key, given = f"training.{name}", shorten(getattr(trainer.recipe.training, name))
                optim = trainer.recipe.training.optim
                raise RecipeError(f"{key}={given} has no effect under training.optim={optim}; remove it", key)


def _matters(trainer: SysgenTrainer, name: str) -> bool:
    """Whether the optimizer is another one, or cannot be made, without that argument of the Trainer."""
    without = copy.copy(trainer.args)
    setattr(without, name, None)
    try:
        found = [trainer.get_optimizer_cls_and_kwargs(one, trainer.unwrapped_model) for one in (trainer.args, without)]
    except Exception:
        return True
    return found[0] != found[1]


def check_early_stopping(recipe: Recipe, task: type[Task]) -> None:
    """
    Raises:
        RecipeError: the benchmark has no validation split, or the metric that stops is not measured on it.
    """
    if (stopping := recipe.evaluation.early_stopping) is None:
        return
    if "validation" not in benchmark_info(recipe.data.benchmark).config(recipe.data.config).splits:
        raise RecipeError(
            f"evaluation.early_stopping needs the split `validation`, which {recipe.data.benchmark} "
            f"{recipe.data.config} lacks; use null",
            "evaluation.early_stopping",
        )
    if stopping.metric not in task.eval_metrics:
        key = "evaluation.early_stopping.metric"
        known = [name for name in task.eval_metrics if name in BY_KEY[key].choices]
        raise RecipeError(
            f"{key}={stopping.metric} is not measured on {recipe.data.benchmark} during training; use one of "
            f"{', '.join(known)}",
            key,
        )


def check_sharding(trainer: SysgenTrainer) -> None:
    """
    Raises:
        RecipeError: the weights are sharded, and this is not pretraining.
    """
    recipe = trainer.recipe
    if trainer.is_fsdp_enabled and not reads_stream(recipe):
        # of sharded weights every pass gathers parts from all processes, and these decode different numbers of batches
        raise RecipeError(
            f"{recipe.data.benchmark} cannot be evaluated with sharded weights; FSDP is for pretraining, use "
            "recipes/accelerate/multi_gpu.yaml",
            "training.fsdp",
        )


def check_longest_examples(trainer: SysgenTrainer) -> None:
    """
    Run the model on the longest examples of each split, so that an error shows before hours of training.

    Raises:
        RecipeError: it cannot.
    """
    model = trainer.unwrapped_model
    device = next(model.parameters()).device
    if device.type != trainer.args.device.type or reads_stream(trainer.recipe):
        # the weights are not distributed yet, or every example has the recipe's own length
        return
    with torch.no_grad(), evaluating(model), keeping_random_state(device):
        for name, split in trainer.splits.items():
            longest = np.unique([lengths.argmax() for lengths in split.source_target_lengths()])
            batch = {key: tensor.to(device) for key, tensor in split[longest].items()}
            try:
                model(**batch)
            except (ValueError, RuntimeError, IndexError) as error:
                if is_out_of_memory(error):
                    raise
                raise RecipeError(f"model: cannot read an example of {name} ({one_line(error)})", "model") from error


def check_same_examples(recipe: Recipe, starts: Sequence[RunStart]) -> None:
    """
    Args:
        starts: of the run, this one last.

    Raises:
        RecipeError: the run began with other examples than this start reads.
    """
    # runs that an older version began do not have it
    if starts[0].data_sha256 not in (None, starts[-1].data_sha256):
        files = [f"data.{key}" for key in ("role_scheme", "tokenizer", "data_dir") if getattr(recipe.data, key)]
        keys = files or ["data.benchmark"]
        raise RecipeError(
            f"{keys[0]}: {recipe.run_dir} holds a run on other examples; what {' or '.join(keys)} names has changed "
            "since it began: put it back, or choose another output_dir",
            keys[0],
        )
