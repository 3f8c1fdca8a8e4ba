"""The second check of a recipe: what needs the model's config class, transformers and the benchmark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hf_sysgen.config.errors import RecipeError
from hf_sysgen.config.fields import FIELDS
from hf_sysgen.config.model_fields import (
    check_model_fields,
    checked_config_class,
    float_fields,
    names_of,
    with_size_class,
    with_type,
)
from hf_sysgen.config.recipe import Recipe, build_recipe, task_of
from hf_sysgen.config.trainer_fields import check_trainer_fields, float_arguments
from hf_sysgen.errors import shorten
from hf_sysgen.model_types import is_decoder, is_transformers_model, text_auto_class
from hf_sysgen.models import CONFIGS
from hf_sysgen.zoo import zoo_names


def check_recipe(recipe: Recipe) -> Recipe:
    """
    Check what the schema alone cannot.

    Returns:
        the recipe, with the model type of `model.pretrained` and the sizes that `model.size_class` decides put in, and
        whole numbers as floats where fields of the model or the Trainer are floats.

    Raises:
        RecipeError: names the key.
    """
    recipe = with_type(recipe)
    config_class = checked_config_class(recipe)
    recipe = _with_floats(recipe, config_class)
    check_trainer_fields(recipe)
    task = task_of(recipe)
    flat = recipe.flat()
    if recipe.evaluation.early_stopping is not None:
        # `flat` has this key only if it is null, and otherwise its fields
        flat["evaluation.early_stopping"] = recipe.evaluation.early_stopping.model_dump()
    for field in FIELDS:
        if field.tasks and task not in field.tasks and flat.get(field.key, field.default) != field.default:
            raise RecipeError(
                f"{field.key}={shorten(flat[field.key])} has no effect on data.benchmark={recipe.data.benchmark}, "
                f"whose task is {task}; remove it",
                field.key,
            )
    check_model_fields(recipe, config_class)
    _check_text(recipe, config_class, task)
    _check_batches(recipe, config_class, task)
    _check_roles(recipe, config_class)
    _check_label_smoothing(recipe, config_class, task)
    _check_checkpoint(recipe, task)
    return with_size_class(recipe, config_class)


def _with_floats(recipe: Recipe, config_class: Any) -> Recipe:
    """The recipe with 0.0 for 0 where a field is a float: they would be two cells."""
    found = {
        "model": (recipe.model.fields, float_fields(config_class)),
        "training": (recipe.training.passed_through, float_arguments()),
    }
    whole = {
        section: {name: float(value) for name, value in values.items() if name in floats and type(value) is int}
        for section, (values, floats) in found.items()
    }
    if not any(whole.values()):
        return recipe
    sections = recipe.to_dict()
    return build_recipe(
        {**sections, **{one: sections[one] | whole[one] for one in whole}}, recipe.file, recipe.overrides
    )


def _check_text(recipe: Recipe, config_class: Any, task: str) -> None:
    """How text becomes ids."""
    data = recipe.data
    subword = data.tokenization in ("bpe", "sentencepiece")
    if task in ("seq2seq", "translation") and (task == "translation") != subword:
        right = "bpe or sentencepiece" if task == "translation" else "words or characters"
        raise RecipeError(
            f"data.tokenization={data.tokenization} does not go with data.benchmark={data.benchmark}; use {right}",
            "data.tokenization",
        )
    if subword and data.subwords is None:
        raise RecipeError(
            f"data.subwords is missing, which data.tokenization={data.tokenization} needs", "data.subwords"
        )
    if data.tokenization == "sentencepiece" and not data.joint_vocabulary:
        raise RecipeError(
            "data.tokenization=sentencepiece is learned for both sides: set data.joint_vocabulary=true",
            "data.joint_vocabulary",
        )
    has_one_table = recipe.model.type in CONFIGS and "source_vocab_size" not in names_of(config_class)
    writes = task in ("seq2seq", "translation") and text_auto_class(recipe.model.type) is not None
    if writes and has_one_table and not data.joint_vocabulary:
        raise RecipeError(
            f"model.type={recipe.model.type} has one table for source and target: set data.joint_vocabulary=true",
            "data.joint_vocabulary",
        )
    if data.source_start is not None and "source_vocab_size" not in names_of(config_class):
        raise RecipeError(
            f"data.source_start={data.source_start} has no effect on model.type={recipe.model.type}; remove it",
            "data.source_start",
        )
    if task == "language_modeling" and data.tokenizer is None:
        raise RecipeError(
            f"data.tokenizer is missing, which data.benchmark={data.benchmark} needs; give a folder of `hf-sysgen "
            "data tokenizer`, or a hub id, e.g. google-t5/t5-base",
            "data.tokenizer",
        )


def _check_batches(recipe: Recipe, config_class: Any, task: str) -> None:
    """How examples become batches, and that predictions do not depend on it."""
    data = recipe.data
    if task == "language_modeling" and recipe.batches.sampling != "with_replacement":
        raise RecipeError(
            f"batches.sampling={recipe.batches.sampling} does not go with data.benchmark={data.benchmark}, a "
            "stream; use with_replacement",
            "batches.sampling",
        )
    if "mask_memory" in names_of(config_class) and not recipe.model.fields.get("mask_memory", config_class.mask_memory):
        raise RecipeError(
            "model.mask_memory=false: predictions would depend on the padding of a batch; set it to true",
            "model.mask_memory",
        )


def _reads_roles(config_class: Any) -> bool:
    return "role_map" in names_of(config_class)


def _check_roles(recipe: Recipe, config_class: Any) -> None:
    """What goes with a model that reads roles beside words, and only with it."""
    data, model = recipe.data, recipe.model
    if data.role_scheme is None:
        return
    if not _reads_roles(config_class):
        raise RecipeError(
            f"data.role_scheme={shorten(data.role_scheme)} has no effect on model.type={model.type}; remove it",
            "data.role_scheme",
        )
    if data.joint_vocabulary or data.tokenization != "words":
        raise RecipeError(
            "data.role_scheme needs words and separate vocabularies: set data.joint_vocabulary=false and "
            "data.tokenization=words",
            "data.role_scheme",
        )


def _check_label_smoothing(recipe: Recipe, config_class: Any, task: str) -> None:
    if not recipe.training.label_smoothing_factor:
        return
    key = "training.label_smoothing_factor"
    if _reads_roles(config_class):
        why = ", whose loss has rows for roles too"
    elif task == "seq2seq" and is_decoder(recipe.model.type):
        why = ", a decoder"
    else:
        return
    raise RecipeError(f"{key} does not go with model.type={recipe.model.type}{why}; use 0", key)


def _check_checkpoint(recipe: Recipe, task: str) -> None:
    """The pretrained checkpoint; in-context evaluation and prompts, which only models of transformers have."""
    data, model = recipe.data, recipe.model
    of_transformers = is_transformers_model(model.type)
    if model.pretrained is not None:
        _check_pretrained(recipe, task)
    if model.revision is not None and model.pretrained is None:
        raise RecipeError("model.revision has no effect without model.pretrained; remove it", "model.revision")
    if model.revision is not None and (Path(str(model.pretrained)).is_dir() or model.pretrained in zoo_names()):
        raise RecipeError(
            f"model.revision={model.revision} has no effect on {model.pretrained}, which is not on the hub; remove it",
            "model.revision",
        )
    if recipe.peft is not None and model.pretrained is None:
        raise RecipeError("peft: adapters need a pretrained model; set model.pretrained", "peft")
    if recipe.in_context is not None and not of_transformers:
        raise RecipeError(
            f"in_context: model.type={model.type} cannot be evaluated with examples in the prompt; set "
            "model.pretrained to a model of transformers",
            "in_context",
        )
    if recipe.in_context is not None and recipe.peft is not None:
        raise RecipeError("peft has no effect with in_context, which trains nothing; remove it", "peft")
    if data.prompt is None:
        return
    if not of_transformers:
        raise RecipeError(
            f"data.prompt has no effect on model.type={model.type}, which reads the input as it is; remove it",
            "data.prompt",
        )
    if data.prompt.count("{input}") != 1:
        raise RecipeError(f"data.prompt={shorten(data.prompt)} must contain {{input}} exactly once", "data.prompt")


def _check_pretrained(recipe: Recipe, task: str) -> None:
    able = [name for name in CONFIGS if is_decoder(name)]
    known = recipe.model.type in able or is_transformers_model(recipe.model.type)
    if not known or task != "seq2seq":
        why = f"data.benchmark={recipe.data.benchmark}" if known else f"model.type={recipe.model.type}"
        raise RecipeError(
            f"model.pretrained is for fine-tuning {', '.join(able)} and models of transformers that write text, on "
            f"benchmarks from text to text, not for {why}; remove it",
            "model.pretrained",
        )
    if recipe.data.joint_vocabulary and is_transformers_model(recipe.model.type):
        raise RecipeError(
            f"data.joint_vocabulary=true has no effect on model.type={recipe.model.type}, which brings its own "
            "tokenizer; remove it",
            "data.joint_vocabulary",
        )
    if recipe.data.tokenization != "words":
        raise RecipeError(
            f"data.tokenization={recipe.data.tokenization} has no effect with model.pretrained, which brings its own "
            "tokenizer; remove it",
            "data.tokenization",
        )
