"""Checkpoints of this package: load one, decode text with it."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoTokenizer

from hf_sysgen.data.text.vocabulary import encode_sources
from hf_sysgen.errors import UserError, is_out_of_memory, one_line, shorten
from hf_sysgen.evaluation.checkpoint_folders import (
    check_unchanged,
    checkpoint_folder,
    missing_file,
    record_of,
    weight_files,
)
from hf_sysgen.evaluation.decoding import is_sysgen_model
from hf_sysgen.evaluation.prompts import INPUT, TEMPLATE_FIELD, prompts_of
from hf_sysgen.files import read_whole
from hf_sysgen.model_types import is_transformers_model, model_classes, text_auto_class
from hf_sysgen.models import CONFIGS
from hf_sysgen.results.record import MODEL

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from hf_sysgen.models.seq2seq import Seq2SeqLM


# what transformers reports of weights that do not fit the config
_UNLIKE = {
    "missing_keys": "lacks",
    "mismatched_keys": "does not have the sizes in config.json for",
    "unexpected_keys": "has weights that config.json does not describe:",
}
# limit of an output's tokens if the checkpoint has none; `generate`'s default
NEW_TOKENS = 20


def load_checkpoint(path: str | Path) -> tuple[Seq2SeqLM, PreTrainedTokenizerFast]:
    """
    A text-to-text model of this package and its tokenizer, loaded by [`load_any_checkpoint`].

    Raises:
        UserError: a file is absent or cut short, or the model is of another type.
    """
    model, tokenizer = read_checkpoint(path, require_text_to_text=True)
    if tokenizer is None:
        raise missing_file(checkpoint_folder(path), "tokenizer.json")
    return _to_device(model), tokenizer


def load_any_checkpoint(path: str | Path, dtype: Any = torch.float32) -> tuple[Any, PreTrainedTokenizerFast | None]:
    """
    A model of this package with its head, in evaluation mode, on the GPU if there is one; and its
    tokenizer, if it has one.

    Args:
        path: see [`read_checkpoint`].
        dtype: dtype of the weights; "auto" keeps the checkpoint's.

    Raises:
        UserError: a file is missing or truncated, or the model is not one of this package.
    """
    model, tokenizer = read_checkpoint(path, dtype=dtype)
    return _to_device(model), tokenizer


def _to_device(model: Any) -> Any:
    return model.to("cuda" if torch.cuda.is_available() else "cpu")


def read_checkpoint(
    path: str | Path, require_text_to_text: bool = False, revision: str | None = None, **options: Any
) -> tuple[Any, PreTrainedTokenizerFast | None]:
    """
    Load a model of this package with its head, or a text model of transformers, and its tokenizer, if it has one. The
    model is in evaluation mode, on the CPU. A tokenizer without a padding symbol pads with EOS, because masks mark
    padding. Only safetensors are read, and only the packages' code runs, never the checkpoint's.

    Args:
        path: the folder `model` of a run (or the run's folder itself), a model of the zoo, or "owner/name" on the hub.
        require_text_to_text: whether other models are refused.
        revision: of a model of the hub; None for the newest.
        options: for `from_pretrained`, including fields of the config; `dtype` is float32 by default.

    Raises:
        UserError: a file is missing or truncated, the model is of another package, or it is not text-to-text and
            `require_text_to_text` is set.
    """
    folder = checkpoint_folder(path, revision)
    name, model_class, is_text_to_text = _class_of(folder)
    if require_text_to_text and not is_text_to_text:
        record = record_of(folder)
        made = (
            f"it was trained on {record.recipe.data.benchmark} {record.recipe.data.config}, and its"
            if record
            else "its"
        )
        raise UserError(f"{folder / 'config.json'}: {name} is not text-to-text; {made} card has an example of its use")
    if model_class is None:
        raise UserError(
            f"{folder / 'config.json'}: the model is a {name}, which is not a model with a head of this package"
        )
    if not weight_files(folder):
        raise missing_file(folder, "model.safetensors")
    check_unchanged(folder)
    with wrap_library_errors(f"{folder}: cannot be loaded, it may be cut short"):
        try:
            model, report = model_class.from_pretrained(
                folder,
                use_safetensors=True,
                output_loading_info=True,
                ignore_mismatched_sizes=True,
                **{"dtype": torch.float32, **options},
            )
        except StrictDataclassError as error:
            config_type = model_class.config_class.model_type
            raise UserError(f"{folder / 'config.json'}: not a {config_type}'s: {error}") from error
    own = is_sysgen_model(model)
    place = _tokenizer_folder(folder)
    if place is None and not own:
        # transformers would make an empty one
        raise missing_file(folder, "tokenizer.json")
    tokenizer = None if place is None else _tokenizer_of(place)
    for kind, said in _UNLIKE.items():
        if kind == "unexpected_keys" and not own:
            # many checkpoints of the hub have weights that their config does not describe
            continue
        # an entry is a name, or for another size the name and both shapes
        if names := sorted(one if isinstance(one, str) else one[0] for one in report[kind]):
            raise UserError(f"{folder}: model.safetensors {said} {', '.join(names[:5])}; copy the whole folder again")
    if tokenizer is not None and tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    if tokenizer is not None and not own:
        # the spaces of an answer must stay
        tokenizer.clean_up_tokenization_spaces = False
        # a config may have several end symbols, or none
        model.config.eos_token_id, model.config.pad_token_id = tokenizer.eos_token_id, tokenizer.pad_token_id
    return model, tokenizer


def _tokenizer_folder(folder: Path) -> Path | None:
    """Where the tokenizer is: in this folder, or for `checkpoint-N` of a run in the run's `model`; None for neither."""
    names = ("tokenizer.json", "tokenizer.model", "spiece.model", "vocab.json")
    places = (folder, folder.parent / MODEL)
    return next((place for place in places if any((place / name).exists() for name in names)), None)


def _tokenizer_of(folder: Path) -> Any:
    with wrap_library_errors(f"{folder / 'tokenizer.json'}: cannot be loaded, it may be cut short"):
        try:
            # without False, transformers asks on standard input whether to run such code
            return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        except ValueError as error:
            if "custom code" not in str(error):
                raise
            raise UserError(
                f"{folder / 'tokenizer_config.json'}: names the tokenizer's own code (auto_map), which is "
                "never run; use a checkpoint with a stock tokenizer"
            ) from error


@contextlib.contextmanager
def wrap_library_errors(
    otherwise: str = "the checkpoint's tokenizer or generation config cannot be used",
) -> Iterator[None]:
    """
    Raises UserError: a library failed on a checkpoint's files; each library has its own errors. What they print first,
    such as a backtrace of Rust, is dropped.

    Args:
        otherwise: the start of the message.
    """
    try:
        with _without_stderr():
            yield
    except BaseException as error:
        # PanicException of the tokenizers library is not an Exception; full memory is not the checkpoint's fault
        panics = type(error).__name__ == "PanicException"
        if isinstance(error, UserError) or is_out_of_memory(error) or not (panics or isinstance(error, Exception)):
            raise
        raise UserError(f"{otherwise}; copy it again ({one_line(error)})") from error


@contextlib.contextmanager
def _without_stderr() -> Iterator[None]:
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as null:
            os.dup2(null.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)


def _class_of(folder: Path) -> tuple[str, Any, bool]:
    """Name of the checkpoint's model, its class (`None` if unknown), and whether it is a text-to-text model."""
    config = folder / "config.json"
    try:
        keys = json.loads(read_whole(config))
        model_type, architectures = keys.get("model_type"), keys.get("architectures") or []
        if not isinstance(architectures, list) or not all(isinstance(one, str) for one in architectures):
            raise ValueError("architectures is no list of names")
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise UserError(f"{config}: cannot be read: {shorten(error)}") from error
    if not isinstance(model_type, str) or not (model_type in CONFIGS or is_transformers_model(model_type)):
        raise UserError(f"{config}: model_type is {unknown_model_type(model_type)}")
    by_auto_class = model_classes(model_type)
    auto_class = text_auto_class(model_type)
    text_model = by_auto_class.get(auto_class)
    if is_transformers_model(model_type):
        # transformers loads it with this head, whichever one it was saved with
        return text_model.__name__, text_model, True
    # a copy for `transformers serve` names the Auto class
    if text_model is not None and architectures in ([], [auto_class.__name__]):
        return text_model.__name__, text_model, True
    for model_class in by_auto_class.values():
        if [model_class.__name__] == architectures:
            return model_class.__name__, model_class, model_class is text_model
    return " ".join(architectures) or model_type, None, False


def unknown_model_type(model_type: Any) -> str:
    """A message for a model type that is not in `CONFIGS`."""
    return (
        f"{model_type!r}, which this package does not have ({', '.join(CONFIGS)}); if it is a variant of your own, let "
        "HF_SYSGEN_EXTENSIONS name the folder of its file"
    )


def source_ids(model: Seq2SeqLM) -> range:
    """Token ids of the encoder's embedding, which the decoder may share."""
    if not hasattr(model.config, "source_vocab_size"):
        return range(model.config.vocab_size)
    start = model.config.source_id_offset
    return range(start, start + model.config.source_vocab_size)


def encoded_sources(model: Any, tokenizer: PreTrainedTokenizerFast, texts: list[str]) -> list[list[int]]:
    """Ids of texts as the model reads them. Errors as `encode_sources`."""
    if is_sysgen_model(model):
        encoded = encode_sources(tokenizer, texts, source_ids(model))
        # a decoder's template adds a separator; in older checkpoints the tokenizer adds it
        template = getattr(model.config, TEMPLATE_FIELD, None) or INPUT
        behind = tokenizer(template.replace(INPUT, ""), add_special_tokens=False)["input_ids"]
        return [[*ids, *behind] for ids in encoded]
    prompts = prompts_of(model, tokenizer)
    return prompts.encode([prompts.prompt(text) for text in texts])


def most_new_tokens(model: PreTrainedModel, default: int = NEW_TOKENS) -> int:
    """The limit that a checkpoint gives to the length of an output, or else the default."""
    config = model.generation_config
    return config.max_new_tokens or config.max_length or default


def predict(
    model: Seq2SeqLM, tokenizer: PreTrainedTokenizerFast, texts: list[str], **options
) -> tuple[list[str], list[bool]]:
    """
    Decode an output for each text. Returns the outputs, and for each whether it ended with EOS, not at the length
    limit.

    Args:
        options: options of `generate`, e.g. `num_beams=5`, `max_new_tokens=60`.

    Raises:
        DataError: a text is empty or has a word outside the vocabulary. UserError: see [`wrap_library_errors`].
    """
    with wrap_library_errors():
        encoded = encoded_sources(model, tokenizer, texts)
        alone = not model.config.is_encoder_decoder
        side = "left" if alone else "right"
        batch = tokenizer.pad({"input_ids": encoded}, return_tensors="pt", padding_side=side).to(model.device)
        # a decoder's output starts with the source, an encoder-decoder's with the start symbol, which is EOS too
        generated = model.generate(**batch, **options)[:, batch["input_ids"].shape[1] if alone else 1 :]
        ended = (generated == tokenizer.eos_token_id).any(dim=1).tolist()
        return tokenizer.batch_decode(generated, skip_special_tokens=True), ended
