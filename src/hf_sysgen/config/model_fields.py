"""The section `model` of a recipe, checked with the config class of its model type."""

from __future__ import annotations

import dataclasses
import typing
from pathlib import Path
from typing import Any, Literal

from huggingface_hub.errors import StrictDataclassError
from transformers import PreTrainedConfig

from hf_sysgen.config.errors import RecipeError, none_of
from hf_sysgen.config.fields import FIELDS
from hf_sysgen.config.recipe import Recipe, build_recipe, unknown_key
from hf_sysgen.errors import did_you_mean, one_line, shorten
from hf_sysgen.extensions import EXTENSIONS_VARIABLE
from hf_sysgen.model_types import config_class_of, is_transformers_model
from hf_sysgen.models import CONFIGS
from hf_sysgen.models.checked_config import CheckedConfig
from hf_sysgen.zoo import zoo_folder, zoo_names


def names_of(config_class: Any) -> set[str]:
    """All fields of a config class."""
    return {field.name for field in dataclasses.fields(config_class)}


def from_data(config_class: Any) -> dict[str, str]:
    """
    Field that the data decides -> what in the data decides it. For a config class of transformers, these are the fields
    that all config classes of this package share.
    """
    return dict(getattr(config_class, "from_data", CheckedConfig.from_data))


def own_fields(config_class: Any) -> set[str]:
    """Fields of a model's config class that a recipe may give: its own, without those that the data decides."""
    return names_of(config_class) - names_of(PreTrainedConfig) - set(from_data(config_class))


def known_fields(model_type: str) -> set[str]:
    """The `own_fields` of a model type; none for an unknown one."""
    return own_fields(CONFIGS[model_type]) if isinstance(model_type, str) and model_type in CONFIGS else set()


def flat_with_defaults(recipe: Recipe) -> dict[str, Any]:
    """`flat` with the fields of the model's config that are left out, where their defaults hold."""
    # a checkpoint to fine-tune decides what is left out
    return (_defaults(recipe) if recipe.model.pretrained is None else {}) | recipe.flat()


def _defaults(recipe: Recipe) -> dict[str, Any]:
    # of a variant whose file is not loaded, nothing is known; its records are read all the same
    if recipe.model.type not in CONFIGS and not is_transformers_model(recipe.model.type):
        return {}
    config_class: Any = config_class_of(recipe.model.type)
    own = own_fields(config_class)
    return {
        f"model.{f.name}": f.default if f.default_factory is dataclasses.MISSING else f.default_factory()
        for f in dataclasses.fields(config_class)
        if f.name in own
    }


def with_type(recipe: Recipe) -> Recipe:
    """
    The recipe with the model type that its checkpoint has, where it gives none.

    Raises:
        RecipeError: the checkpoint's config cannot be read, or is of no model that this package can train.
    """
    name = recipe.model.pretrained
    if recipe.model.type != "auto":
        return recipe
    if name is None:
        raise RecipeError("model.type is missing", "model.type")
    folder = zoo_folder(name) if name in zoo_names() else Path(name)
    folder = folder / "model" if (folder / "model" / "config.json").exists() else folder
    try:
        found = PreTrainedConfig.get_config_dict(str(folder), revision=recipe.model.revision)[0].get("model_type")
    except (OSError, ValueError) as error:
        raise RecipeError(
            f"model.pretrained={shorten(name)}: its config.json cannot be read ({one_line(error)}); give a "
            "model of the zoo, or a folder or hub id with the model's config, safetensors and tokenizer",
            "model.pretrained",
        ) from error
    if not isinstance(found, str) or (found not in CONFIGS and not is_transformers_model(found)):
        raise RecipeError(
            f"model.pretrained={shorten(name)}: is a {shorten(found)}, and neither this package nor transformers has a "
            "model of that type that writes text without code of the checkpoint's own",
            "model.pretrained",
        )
    sections: dict[str, Any] = recipe.to_dict()
    sections["model"]["type"] = found
    return build_recipe(sections, recipe.file, recipe.overrides)


def checked_config_class(recipe: Recipe) -> Any:
    """The config class of the recipe's model type. Raises RecipeError: there is no such type."""
    given = recipe.model.type
    if given not in CONFIGS and not is_transformers_model(given):
        raise RecipeError(
            f"model.type={shorten(given)} is no model{did_you_mean(given, CONFIGS)} Valid: "
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


def float_fields(config_class: Any) -> set[str]:
    """Fields of a config class that are floats."""
    types = (float, float | int, float | None)
    return {field.name for field in dataclasses.fields(config_class) if field.type in types}


def check_model_fields(recipe: Recipe, config_class: Any) -> None:
    """
    Raises:
        RecipeError: a field is unknown or decided by the data, its value is wrong or has no effect, or two values
            contradict each other.
    """
    fields, own, derived = recipe.model.fields, own_fields(config_class), from_data(config_class)
    choices = {
        field.name: typing.get_args(field.type)
        for field in dataclasses.fields(config_class)
        if typing.get_origin(field.type) is Literal
    }
    for name, value in fields.items():
        key = f"model.{name}"
        if name in derived:
            raise RecipeError(f"{key}: is derived from {derived[name]}, remove it", key)
        if name not in own:
            declared = [one.key for one in FIELDS if one.key.startswith("model.")]
            # for names that transformers has for ours
            ours = config_class.attribute_map.get(name)
            meant = f"model.{ours}" if ours in own else None
            raise unknown_key(key, [*declared, *(f"model.{one}" for one in sorted(own))], meant)
        if name in choices and value not in choices[name]:
            raise none_of(key, value, choices[name])
    if fields.get("share_all_embeddings") is True and not recipe.data.joint_vocabulary:
        raise RecipeError(
            "model.share_all_embeddings=true needs data.joint_vocabulary=true", "model.share_all_embeddings"
        )
    # fields from the data are not known yet; only whether both sides are alike
    joint = recipe.data.joint_vocabulary and "source_vocab_size" in names_of(config_class)
    try:
        config_class(**fields, **({"vocab_size": 7, "source_vocab_size": 7} if joint else {}))
    except StrictDataclassError as error:
        # the cause names the field, or both values of a contradiction
        said = " ".join(str(error.__cause__ or error).split())
        named = min((name for name in fields if name in said), key=said.index, default="type")
        said = said.removeprefix(f"Field {named!r} ")
        stated = f"model.{said}" if said.startswith(f"{named}=") else f"model.{named}: {said}"
        raise RecipeError(stated, f"model.{named}") from error
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
        # fields from a checkpoint are not known
        if key in fields and (other in fields or recipe.model.pretrained is None)
        and fields.get(other, getattr(config_class, other)) in values
    }  # fmt: skip


def with_size_class(recipe: Recipe, config_class: Any) -> Recipe:
    """
    The recipe with the sizes that `model.size_class` decides.

    Raises:
        RecipeError: the model has no size classes, or a given size contradicts its class.
    """
    name, fields = recipe.model.size_class, recipe.model.fields
    if name is None:
        return recipe
    key, sizes = "model.size_class", getattr(config_class, "class_sizes", ())
    if not sizes:
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
    return build_recipe(sections, recipe.file, recipe.overrides)
