"""The pretrained checkpoint that a recipe names: its model and its tokenizer, checked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerFast

from hf_sysgen.config.errors import RecipeError
from hf_sysgen.config.recipe import Recipe
from hf_sysgen.errors import UserError
from hf_sysgen.evaluation.checkpoint_folders import checkpoint_folder
from hf_sysgen.evaluation.checkpoints import read_checkpoint
from hf_sysgen.evaluation.prompts import unencodable_words
from hf_sysgen.model_types import config_class_of


def pretrained_folder(recipe: Recipe) -> Path:
    """The folder of `model.pretrained`. Raises RecipeError: there is none, or it cannot be downloaded."""
    try:
        return checkpoint_folder(str(recipe.model.pretrained), recipe.model.revision)
    except UserError as error:
        raise RecipeError(f"model.pretrained: {error}", "model.pretrained") from error


def without_special_tokens(tokenizer: PreTrainedTokenizerFast) -> PreTrainedTokenizerFast:
    """
    The tokenizer without special tokens around a text and with padding on the left, so that a decoder can continue the
    text. A tokenizer with its own class, such as T5's, is converted, because that class would add its special tokens
    again when it is loaded.
    """
    if type(tokenizer) is not PreTrainedTokenizerFast:
        tokenizer = PreTrainedTokenizerFast(
            tokenizer_object=tokenizer.backend_tokenizer,
            model_max_length=tokenizer.model_max_length,
            clean_up_tokenization_spaces=False,
            **tokenizer.special_tokens_map,
        )
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single="$A", pair="$A $B", special_tokens=[])
    return padded_on_the_left(tokenizer)


def padded_on_the_left(tokenizer: Any) -> Any:
    """The tokenizer, and what is saved of it, with padding on the left, so that a decoder can continue the text."""
    # `init_kwargs` are saved
    tokenizer.padding_side = tokenizer.init_kwargs["padding_side"] = "left"
    return tokenizer


def load_tokenizer(name: str, unusable: Callable[[str, str], RecipeError] | None = None) -> PreTrainedTokenizerFast:
    """
    The tokenizer of a folder or hub id.

    Args:
        unusable: makes an error of that name and a reason; by default of the key `pretrained`.

    Raises:
        RecipeError: there is none, or none that can be used here.
    """
    unusable = unusable or _unusable
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    except Exception as error:  # the tokenizers library raises bare Exception
        raise unusable(name, f"no tokenizer can be loaded: {error}") from error
    if not tokenizer.is_fast or tokenizer.eos_token is None:
        raise unusable(name, "its tokenizer must be a fast one with an eos_token")
    return tokenizer


def check_encodable(tokenizer: PreTrainedTokenizerFast, texts: list[str], pretrained: str) -> None:
    """Raises RecipeError: the tokenizer writes a word of the texts as unknown, so that no answer could be right."""
    for word in unencodable_words(tokenizer, texts):
        raise _unusable(pretrained, f"its tokenizer cannot write {word!r}, which targets have")


def load_pretrained(recipe: Recipe, attention: str) -> PreTrainedModel:
    """
    The checkpoint `model.pretrained` in float32, with the recipe's dropout.

    Raises:
        RecipeError: it cannot be loaded, lacks weights, or is not the model that the recipe describes.
    """
    # these fields change no weight and no score
    free = {key: value for key, value in recipe.model.fields.items() if "drop" in key or key == "use_cache"}
    options = {"revision": recipe.model.revision, "attn_implementation": attention, **free}
    try:
        model, _ = read_checkpoint(str(recipe.model.pretrained), require_text_to_text=True, **options)
    except UserError as error:
        raise RecipeError(f"model.pretrained: {error}", "model.pretrained") from error
    if not isinstance(model.config, config_class_of(recipe.model.type)):
        raise _unusable(recipe.model.pretrained, f"it holds a {model.config.model_type}, not a {recipe.model.type}")
    for key, value in recipe.model.fields.items():
        if getattr(model.config, key) != value:
            raise RecipeError(
                f"model.{key}={value} contradicts model.pretrained={recipe.model.pretrained}, which has "
                f"{getattr(model.config, key)}; remove one",
                f"model.{key}",
            )
    return model


def _unusable(pretrained: str | None, reason: str) -> RecipeError:
    return RecipeError(
        f"model.pretrained={pretrained}: {' '.join(reason.split())}; give a folder or hub id with the model's config, "
        "safetensors and tokenizer, e.g. the folder `model` of a run",
        "model.pretrained",
    )
