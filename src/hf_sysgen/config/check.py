"""The second check of a recipe: what needs the model's config class, transformers and the benchmark."""

from __future__ import annotations

import dataclasses
import functools
import typing
from pathlib import Path
from typing import Any

from huggingface_hub.errors import StrictDataclassError
from pydantic import ConfigDict, TypeAdapter, ValidationError
from transformers import AutoModelForCausalLM, PreTrainedConfig, Seq2SeqTrainingArguments

from hf_sysgen.config.errors import RecipeError, cut
from hf_sysgen.config.fields import FIELDS
from hf_sysgen.config.recipe import Recipe, recipe_of, unknown_key
from hf_sysgen.data import benchmark_info
from hf_sysgen.errors import UserError, did_you_mean, one_line
from hf_sysgen.extensions import EXTENSIONS_VARIABLE
from hf_sysgen.model_types import config_class_of, is_other, writer_of
from hf_sysgen.models import CONFIGS, MODELS

# fields of a model's config that the data decides, and what decides them
DERIVED_FIELDS = {
    "vocab_size": "the benchmark's words",
    "source_vocab_size": "the benchmark's words",
    "source_id_offset": "the benchmark's words",
    "pad_token_id": "the vocabulary",
    "eos_token_id": "the vocabulary",
    "decoder_start_token_id": "the vocabulary",
    "input_form": "the benchmark's task",
    "prompt_template": "the tokenizer, and data.prompt",
    "role_map": "data.role_scheme",
    "source_role_map": "data.role_scheme",
    "role_vocab_size": "data.role_scheme",
    "source_role_vocab_size": "data.role_scheme",
    "source_row_map": "the benchmark's words and `separate_tables`",
    "edge_vocab_size": "the benchmark's labels",
    "num_roles": "the benchmark's labels",
    "num_categories": "the benchmark's labels",
    "num_noun_types": "the benchmark's labels",
    "num_verbs": "the benchmark's labels",
}
# fields of Seq2SeqTrainingArguments that the runner decides, and from what
OWNED = {
    "output_dir": "output_dir at the top",
    "seed": "seed at the top",
    "data_seed": "seed at the top",
    "num_train_epochs": "batches.epochs",
    "per_device_train_batch_size": "batches",
    "auto_find_batch_size": "batches",
    "gradient_accumulation_steps": "batches.length_buckets",
    "average_tokens_across_devices": "the runner",
    "train_sampling_strategy": "batches.sampling",
    "length_column_name": "batches.length_buckets",
    "sortish_sampler": "batches.length_buckets",
    "dataloader_drop_last": "batches",
    "dataloader_num_workers": "the runner",
    "dataloader_pin_memory": "the runner",
    "lr_scheduler_type": "schedule.type",
    "lr_scheduler_kwargs": "schedule",
    "warmup_steps": "schedule.warmup_steps",
    "activation_checkpointing": "training.gradient_checkpointing",
    "bf16_full_eval": "the runner: evaluation is in float32",
    "fp16_full_eval": "the runner: evaluation is in float32",
    "eval_strategy": "training.eval_steps",
    "per_device_eval_batch_size": "evaluation.batch_size",
    "prediction_loss_only": "the runner",
    "eval_do_concat_batches": "the runner",
    "eval_use_gather_object": "the runner",
    "eval_accumulation_steps": "the runner",
    "include_for_metrics": "the runner",
    "batch_eval_metrics": "the runner",
    "save_strategy": "training.save_steps",
    "save_total_limit": "the runner: the newest and the best checkpoint are kept",
    "save_only_model": "the runner",
    "load_best_model_at_end": "evaluation.early_stopping",
    "metric_for_best_model": "evaluation.early_stopping",
    "greater_is_better": "evaluation.early_stopping",
    "logging_strategy": "training.logging_steps",
    "logging_nan_inf_filter": "the runner",
    "ignore_data_skip": "the runner",
    "restore_callback_states_from_checkpoint": "the runner",
    "resume_from_checkpoint": "the runner: a killed run goes on by itself",
    "ddp_find_unused_parameters": "the runner",
    "use_cpu": "the runner: `accelerate launch --cpu` trains on the CPU",
    "local_rank": "the launcher",
    "remove_unused_columns": "the runner",
    "label_names": "the runner",
    "disable_tqdm": "the runner",
    "do_train": "the runner",
    "do_eval": "the runner",
    "do_predict": "the runner",
    "predict_with_generate": "the runner",
    "generation_max_length": "the benchmark",
    "generation_num_beams": "evaluation.num_beams",
    "generation_config": "evaluation",
}


def check_recipe(recipe: Recipe) -> Recipe:
    """
    Check what the schema alone cannot.

    Returns:
        the recipe, with the model type of `model.pretrained` and the sizes that `model.size_class` decides put in.

    Raises:
        RecipeError: names the key.
    """
    recipe = _with_type(recipe)
    config_class = _config_class(recipe)
    _check_trainer_fields(recipe)
    task = _task_of(recipe)
    flat = recipe.flat()
    if recipe.evaluation.early_stopping is not None:
        # it is flat only where it is null
        flat["evaluation.early_stopping"] = recipe.evaluation.early_stopping.model_dump()
    for field in FIELDS:
        if field.tasks and task not in field.tasks and flat.get(field.key, field.default) != field.default:
            raise RecipeError(
                f"{field.key}={cut(flat[field.key])} has no effect on data.benchmark={recipe.data.benchmark}, "
                f"whose task is {task}; remove it",
                field.key,
            )
    _check_model_fields(recipe, config_class)
    _check_data(recipe, config_class, task)
    return _with_size_class(recipe, config_class)


def own_fields(config_class: Any) -> set[str]:
    """Fields of a model's config class that a recipe may give: those of its own that the data does not decide."""
    return _names(config_class) - _names(PreTrainedConfig) - set(DERIVED_FIELDS)


def known_fields(model_type: str) -> set[str]:
    """As `own_fields`, by model type; none for an unknown one."""
    return own_fields(CONFIGS[model_type]) if isinstance(model_type, str) and model_type in CONFIGS else set()


def filled(recipe: Recipe) -> dict[str, Any]:
    """`flat` with the fields of the model's config that are left out, where their defaults hold."""
    # a checkpoint to fine-tune decides what is left out
    return (_defaults(recipe) if recipe.model.pretrained is None else {}) | recipe.flat()


def _defaults(recipe: Recipe) -> dict[str, Any]:
    config_class: Any = config_class_of(recipe.model.type)
    own = own_fields(config_class)
    return {
        f"model.{f.name}": f.default if f.default_factory is dataclasses.MISSING else f.default_factory()
        for f in dataclasses.fields(config_class)
        if f.name in own
    }


def _names(config_class: Any) -> set[str]:
    return {f.name for f in dataclasses.fields(config_class)}


def _config_class(recipe: Recipe) -> Any:
    given = recipe.model.type
    if given not in CONFIGS and not is_other(given):
        raise RecipeError(
            f"model.type={cut(given)} is no model{did_you_mean(given, CONFIGS)} Valid: "
            f"{', '.join(CONFIGS)}, those in the folder that {EXTENSIONS_VARIABLE} names, and beside model.pretrained "
            "those of transformers that write text",
            "model.type",
        )
    if given not in CONFIGS and recipe.model.pretrained is None:
        raise RecipeError(
            f"model.type={given} is a model type of transformers: set model.pretrained to a hub id or a folder",
            "model.pretrained",
        )
    return config_class_of(given)


def _with_type(recipe: Recipe) -> Recipe:
    """The recipe with the model type that its checkpoint has, where it gives none."""
    name = recipe.model.pretrained
    if recipe.model.type != "auto":
        return recipe
    if name is None:
        raise RecipeError("model.type is missing", "model.type")
    folder = Path(name) / "model" if (Path(name) / "model" / "config.json").exists() else name
    try:
        found = PreTrainedConfig.get_config_dict(folder, revision=recipe.model.revision)[0].get("model_type")
    except (OSError, ValueError) as error:
        raise RecipeError(
            f"model.pretrained={cut(name)}: its config.json cannot be read ({one_line(error)}); give a folder or hub "
            "id with the model's config, safetensors and tokenizer",
            "model.pretrained",
        ) from error
    if not isinstance(found, str) or (found not in CONFIGS and not is_other(found)):
        raise RecipeError(
            f"model.pretrained={cut(name)}: is a {cut(found)}, and neither this package nor transformers has a model "
            "of that type that writes text without code of the checkpoint's own",
            "model.pretrained",
        )
    sections: dict[str, Any] = recipe.to_dict()
    sections["model"]["type"] = found
    return recipe_of(sections, recipe.file, recipe.overrides)


def _task_of(recipe: Recipe) -> str:
    """The benchmark's task."""
    key = "data.benchmark"
    try:
        info = benchmark_info(recipe.data.benchmark)
        key = "data.config"
        info.config(recipe.data.config)
    except UserError as error:
        raise RecipeError(f"{key}: {error}", key) from error
    return info.task


def _check_trainer_fields(recipe: Recipe) -> None:
    known = _names(Seq2SeqTrainingArguments)
    for name, value in recipe.training.passed_through.items():
        key = f"training.{name}"
        if name in OWNED:
            raise RecipeError(f"{key}: is decided by {OWNED[name]}, remove it", key)
        if name not in known:
            declared = [one.key for one in FIELDS if one.key.startswith("training.")]
            raise unknown_key(key, [*declared, *(f"training.{one}" for one in known - set(OWNED))])
        try:
            _adapter(name).validate_python(value, strict=True)
        except ValidationError as error:
            said = error.errors(include_url=False)[0]["msg"]
            raise RecipeError(f"{key}={cut(value)}: {said[0].lower()}{said[1:]}", key) from None


@functools.cache
def _adapter(name: str) -> TypeAdapter[Any]:
    hint = typing.get_type_hints(Seq2SeqTrainingArguments)[name]
    return TypeAdapter(hint, config=ConfigDict(arbitrary_types_allowed=True))


def _check_model_fields(recipe: Recipe, config_class: Any) -> None:
    fields = recipe.model.fields
    for name in fields:
        key = f"model.{name}"
        if name in DERIVED_FIELDS:
            raise RecipeError(f"{key}: is derived from {DERIVED_FIELDS[name]}, remove it", key)
        if name not in own_fields(config_class):
            declared = [one.key for one in FIELDS if one.key.startswith("model.")]
            raise unknown_key(key, [*declared, *(f"model.{one}" for one in own_fields(config_class))])
    if fields.get("share_all_embeddings") is True and not recipe.data.joint_vocabulary:
        raise RecipeError(
            "model.share_all_embeddings=true needs data.joint_vocabulary=true", "model.share_all_embeddings"
        )
    # what the data decides is not known yet, but whether both sides are alike
    joint = recipe.data.joint_vocabulary and "source_vocab_size" in _names(config_class)
    try:
        config_class(**fields, **({"vocab_size": 7, "source_vocab_size": 7} if joint else {}))
    except StrictDataclassError as error:
        # the cause names the field, or both values of a contradiction
        said = " ".join(str(error.__cause__ or error).split())
        named = min((name for name in fields if name in said), key=said.index, default="type")
        raise RecipeError(f"model: {said}", f"model.{named}") from error
    for name, other in _idle(recipe, config_class).items():
        if fields[name] != getattr(config_class, name):
            value = fields.get(other, getattr(config_class, other))
            raise RecipeError(
                f"model.{name}={fields[name]} has no effect under model.{other}={value}; remove it", f"model.{name}"
            )


def _idle(recipe: Recipe, config_class: Any) -> dict[str, str]:
    """Given fields without effect, each with the one whose value makes it so, if that is known yet."""
    fields, table = recipe.model.fields, getattr(config_class, "no_effect", {})
    return {
        key: other
        for key, (other, values) in table.items()
        # what a checkpoint decides is not known
        if key in fields and (other in fields or recipe.model.pretrained is None)
        and fields.get(other, getattr(config_class, other)) in values
    }  # fmt: skip


def _with_size_class(recipe: Recipe, config_class: Any) -> Recipe:
    name, fields = recipe.model.size_class, recipe.model.fields
    if name is None:
        return recipe
    sizes = ("num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads")
    key = "model.size_class"
    if not hasattr(config_class, "from_size_class"):
        raise RecipeError(f"{key}={name} has no effect on model.type={recipe.model.type}; remove it", key)
    others = {one: value for one, value in fields.items() if one not in sizes}
    try:
        config = config_class.from_size_class(name, fields.get("num_hidden_layers"), **others)
    except ValueError as error:
        raise RecipeError(f"{key}={name}: {error}", key) from error
    decided = {one: getattr(config, one) for one in sizes}
    for one, value in decided.items():
        if fields.get(one, value) != value:
            raise RecipeError(
                f"model.{one}={fields[one]} contradicts {key}={name} with "
                f"model.num_hidden_layers={config.num_hidden_layers}, where it is {value}; remove one",
                f"model.{one}",
            )
    sections: dict[str, Any] = recipe.to_dict()
    sections["model"] |= decided
    return recipe_of(sections, recipe.file, recipe.overrides)


def _check_data(recipe: Recipe, config_class: Any, task: str) -> None:
    data, model = recipe.data, recipe.model
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
    if data.source_start is not None and "source_vocab_size" not in _names(config_class):
        raise RecipeError(
            f"data.source_start={data.source_start} has no effect on model.type={model.type}; remove it",
            "data.source_start",
        )
    reads_roles = "role_map" in _names(config_class)
    if reads_roles and recipe.training.label_smoothing_factor and model.fields.get("role_loss", True):
        raise RecipeError(
            "training.label_smoothing_factor does not go with the loss of roles; use 0 or model.role_loss=false",
            "training.label_smoothing_factor",
        )
    if data.role_scheme is not None:
        if not reads_roles:
            raise RecipeError(
                f"data.role_scheme={cut(data.role_scheme)} has no effect on model.type={model.type}; remove it",
                "data.role_scheme",
            )
        if data.joint_vocabulary or data.tokenization != "words":
            raise RecipeError(
                "data.role_scheme is of words, source and target apart: set data.joint_vocabulary=false and "
                "data.tokenization=words",
                "data.role_scheme",
            )
    if model.pretrained is not None:
        _check_pretrained(recipe, task)
    if model.revision is not None and model.pretrained is None:
        raise RecipeError("model.revision has no effect without model.pretrained; remove it", "model.revision")
    if recipe.peft is not None and model.pretrained is None:
        raise RecipeError("peft: adapters need model.pretrained, whose weights they leave as they are", "peft")
    if recipe.in_context is not None and not is_other(model.type):
        raise RecipeError(
            f"in_context: model.type={model.type} is trained on its benchmark; only models of transformers are judged "
            "by examples in their prompts",
            "in_context",
        )
    if recipe.in_context is not None and recipe.peft is not None:
        raise RecipeError("peft has no effect beside in_context, which trains nothing; remove it", "peft")
    if data.prompt is not None:
        if not is_other(model.type):
            raise RecipeError(
                f"data.prompt has no effect on model.type={model.type}, which reads the input as it is; remove it",
                "data.prompt",
            )
        if data.prompt.count("{input}") != 1:
            raise RecipeError(f"data.prompt={cut(data.prompt)} must have {{input}} in it, once", "data.prompt")
    if task == "language_modeling":
        if recipe.batches.sampling != "with_replacement":
            raise RecipeError(
                f"batches.sampling={recipe.batches.sampling} does not go with data.benchmark={data.benchmark}, a "
                "stream; use with_replacement",
                "batches.sampling",
            )
        if data.tokenizer is None:
            raise RecipeError(
                f"data.tokenizer is missing, which data.benchmark={data.benchmark} needs; give a folder of `hf-sysgen "
                "data tokenizer`, or a hub id, e.g. google-t5/t5-base",
                "data.tokenizer",
            )


def _check_pretrained(recipe: Recipe, task: str) -> None:
    able = [config.model_type for config, classes in MODELS.items() if AutoModelForCausalLM in classes]
    known = recipe.model.type in able or is_other(recipe.model.type)
    if not known or task != "seq2seq":
        why = f"data.benchmark={recipe.data.benchmark}" if known else f"model.type={recipe.model.type}"
        raise RecipeError(
            f"model.pretrained is for fine-tuning {', '.join(able)} and models of transformers that write text, on "
            f"benchmarks from text to text, not for {why}; remove it",
            "model.pretrained",
        )
    if recipe.training.label_smoothing_factor and writer_of(recipe.model.type) is AutoModelForCausalLM:
        key = "training.label_smoothing_factor"
        raise RecipeError(f"{key} does not go with model.type={recipe.model.type}, a decoder; use 0", key)
    if recipe.data.tokenization != "words":
        raise RecipeError(
            f"data.tokenization={recipe.data.tokenization} has no effect beside model.pretrained, whose tokenizer "
            "decides; remove it",
            "data.tokenization",
        )
