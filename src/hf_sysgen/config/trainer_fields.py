"""The section `training` of a recipe, checked with transformers' Seq2SeqTrainingArguments."""

from __future__ import annotations

import dataclasses
import functools
import typing
from enum import Enum
from typing import Any

from accelerate.utils import DynamoBackend
from pydantic import ConfigDict, TypeAdapter, ValidationError
from transformers import Seq2SeqTrainingArguments
from transformers.integrations import INTEGRATION_TO_CALLBACK
from transformers.trainer_utils import FSDPOption

from hf_sysgen.config.errors import RecipeError, none_of
from hf_sysgen.config.fields import FIELDS
from hf_sysgen.config.recipe import Recipe, unknown_key
from hf_sysgen.errors import shorten

# fields that have an effect only with another one
_NEEDS = {
    "liger_kernel_config": "use_liger_kernel",
    "gradient_checkpointing_kwargs": "gradient_checkpointing",
}
THEIRS = {field.name: field for field in dataclasses.fields(Seq2SeqTrainingArguments)}
_OWNERS = {
    "output_dir": "output_dir",
    "seed": "seed data_seed",
    "batches": (
        "per_device_train_batch_size auto_find_batch_size gradient_accumulation_steps dataloader_drop_last "
        "sortish_sampler length_column_name accelerator_config"
    ),
    "batches.epochs": "num_train_epochs",
    "batches.sampling": "train_sampling_strategy",
    "schedule": "lr_scheduler_type lr_scheduler_kwargs",
    "schedule.warmup_steps": "warmup_steps",
    "training.gradient_checkpointing": "activation_checkpointing",
    "training.eval_steps": "eval_strategy eval_delay",
    "training.save_steps": "save_strategy",
    "training.logging_steps": "logging_strategy",
    "evaluation": "generation_config",
    "evaluation.batch_size": "per_device_eval_batch_size",
    "evaluation.num_beams": "generation_num_beams",
    "evaluation.early_stopping": "load_best_model_at_end metric_for_best_model greater_is_better",
    "the benchmark": "generation_max_length",
    "the launcher": "local_rank",
    "the command `hf-sysgen publish`, which sends a finished run with its code and card": (
        "push_to_hub hub_model_id hub_strategy hub_token hub_private_repo hub_always_push hub_revision"
    ),
    "the runner: evaluation is in float32": "bf16_full_eval fp16_full_eval",
    "the runner: the newest and the best checkpoint are kept": "save_total_limit",
    "the runner: a killed run goes on by itself": "resume_from_checkpoint enable_jit_checkpoint",
    "the runner: `accelerate launch --cpu` trains on the CPU": "use_cpu",
    "the runner: a loss that is not finite ends the run": "debug",
    "the runner": (
        "do_train do_eval do_predict predict_with_generate prediction_loss_only remove_unused_columns label_names "
        "eval_do_concat_batches eval_use_gather_object eval_accumulation_steps include_for_metrics batch_eval_metrics "
        "average_tokens_across_devices dataloader_num_workers dataloader_pin_memory dataloader_persistent_workers "
        "dataloader_prefetch_factor dataloader_multiprocessing_context dataloader_in_order ddp_find_unused_parameters "
        "use_cache save_only_model ignore_data_skip restore_callback_states_from_checkpoint logging_nan_inf_filter "
        "disable_tqdm"
    ),
}
# fields of Seq2SeqTrainingArguments that a recipe cannot give, and what decides each
OWNED = {name: owner for owner, names in _OWNERS.items() for name in names.split()}


def check_trainer_fields(recipe: Recipe) -> None:
    """
    Raises:
        RecipeError: a field of the Trainer's arguments is unknown or decided elsewhere, or its value is wrong.
    """
    for name, value in recipe.training.passed_through.items():
        key = f"training.{name}"
        if name in OWNED:
            raise RecipeError(f"{key}: is decided by {OWNED[name]}, remove it", key)
        if name not in THEIRS:
            declared = [one.key for one in FIELDS if one.key.startswith("training.")]
            raise unknown_key(key, [*declared, *(f"training.{one}" for one in THEIRS if one not in OWNED)])
        try:
            _adapter(name).validate_python(value, strict=True)
        except ValidationError as error:
            said = error.errors(include_url=False)[0]["msg"]
            raise RecipeError(f"{key}={shorten(value)}: {said[0].lower()}{said[1:]}", key) from None
        if name == "neftune_noise_alpha" and value is not None and not 0 < value < float("inf"):
            # the Trainer would fail in the first update
            raise RecipeError(f"{key}={value}: must be above 0; leave it out for no noise", key)
    given = recipe.training.model_dump()
    for name, needed in _NEEDS.items():
        if name in given and not given.get(needed):
            key = f"training.{name}"
            raise RecipeError(f"{key} has no effect without training.{needed}=true; remove it", key)
    for name in THEIRS.keys() & given.keys():
        words = given[name].split(" ") if isinstance(given[name], str) else given[name]
        if given[name] == THEIRS[name].default or not isinstance(words, list | tuple):
            continue
        if name == "torch_compile_mode" and given.get("torch_compile_backend", "inductor") != "inductor":
            # other backends have modes of their own
            continue
        choices = _choices(name)
        for word in words:
            if choices and word not in choices:
                raise none_of(f"training.{name}", word, choices)


@functools.cache
def float_arguments() -> set[str]:
    """Fields of Seq2SeqTrainingArguments that are floats."""
    return {name for name, hint in _hints().items() if hint in (float, float | None)}


@functools.cache
def _hints() -> dict[str, Any]:
    return typing.get_type_hints(Seq2SeqTrainingArguments)


@functools.cache
def _adapter(name: str) -> TypeAdapter[Any]:
    return TypeAdapter(_hints()[name], config=ConfigDict(arbitrary_types_allowed=True))


@functools.cache
def _choices(name: str) -> list[str]:
    """The words that a field accepts, one or several (a list, or separated by spaces); none if it accepts any text."""
    # transformers does not declare the choices of these fields
    if name == "report_to":
        return ["none", "all", *INTEGRATION_TO_CALLBACK]
    if name == "fsdp":
        return [one.value for one in FSDPOption]
    if name == "torch_compile_backend":
        return [one.value.lower() for one in DynamoBackend]
    if name == "torch_compile_mode":
        # this import takes seconds
        from torch._inductor import list_mode_options

        return list(list_mode_options())
    types = [one for part in typing.get_args(_hints()[name]) for one in (part, *typing.get_args(part))]
    enums = [one for one in types if isinstance(one, type) and issubclass(one, Enum)]
    return [str(one.value) for enum in enums for one in enum] or list(THEIRS[name].metadata.get("choices", ()))
