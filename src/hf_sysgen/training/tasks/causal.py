"""Texts to texts with a decoder alone, new or pretrained: Petty et al. 2023, section 2.2.2."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tokenizers.processors import TemplateProcessing
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, PreTrainedModel, set_seed

from hf_sysgen.config.recipe import Recipe, RecipeError
from hf_sysgen.data.text.splits import IGNORED, RaggedIds, TokenizedSplit, unlabelled
from hf_sysgen.data.text.vocabulary import Vocabulary, build_vocabulary
from hf_sysgen.errors import UserError
from hf_sysgen.evaluation.checkpoints import checkpoint_folder, read_checkpoint
from hf_sysgen.models import CONFIGS
from hf_sysgen.training.tasks.base import Seq2SeqTask

if TYPE_CHECKING:
    from datasets import DatasetDict
    from transformers import PreTrainedTokenizerFast

# fields that change no weight and no score, so that they may differ from those of a pretrained checkpoint
FREE_FIELDS = ("dropout", "use_cache")


class PromptedSplit(TokenizedSplit):
    """
    Identical to [`TokenizedSplit`] except:
    - a batch has each source, a prompt that ends in a separator, and its target as one sequence; labels are -100 on the
      prompt.
    - lengths are those of that sequence.

    Args:
        sources: `words separator` ids of every example; the others as there.
    """

    def __init__(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], pad_id: int, train_eos: bool = True
    ):
        super().__init__(sources, targets, pad_id, train_eos)
        self.joined = RaggedIds([[*source, *target] for source, target in zip(sources, targets, strict=True)])

    def __getitem__(self, rows: np.ndarray) -> dict[str, torch.Tensor]:
        """
        The batch of those rows: `input_ids` and `labels` (B, L), for no rows as there. Padding is on the right, where
        no real token attends to it, so that no mask is needed and faster kernels can be used.
        """
        rows = np.atleast_1d(rows)
        if not len(rows):
            return unlabelled(self[np.zeros(1, np.int64)])
        input_ids, _ = self.joined.padded(rows, self.pad_id)
        labels, _ = self.joined.padded(rows, IGNORED)
        prompts = torch.from_numpy(self.sources.lengths[rows])
        labels[torch.arange(labels.shape[1]) < prompts[:, None]] = IGNORED
        if not self.train_eos:
            labels[torch.arange(len(rows)), torch.from_numpy(self.joined.lengths[rows]) - 1] = IGNORED
        return {"input_ids": input_ids, "labels": labels}

    def by_length(self, rows: np.ndarray) -> np.ndarray:
        """The rows, sorted by the length of both together, then by the target's."""
        return rows[np.lexsort((self.targets.lengths[rows], self.joined.lengths[rows]))]

    def side_lengths(self) -> tuple[np.ndarray, np.ndarray]:
        return self.joined.lengths, self.joined.lengths


class CausalSeq2SeqTask(Seq2SeqTask):
    """
    Identical to [`Seq2SeqTask`] except:
    - the model is a decoder. It reads `input separator`, and goes on with `target EOS`, which alone is learned (Petty
      et al. are silent on this). The separator is the tokenizer's start symbol, or its EOS where it has none.
    - with `pretrained`, weights, config and tokenizer are a checkpoint's.

    Raises:
        RecipeError: see `load_pretrained`; or targets have a word that the checkpoint's tokenizer cannot write.
    """

    split_class = PromptedSplit

    def __init__(self, recipe: Recipe, benchmark: DatasetDict):
        if recipe.training.label_smoothing_factor:
            key = "training.label_smoothing_factor"
            raise RecipeError(f"{key} does not go with model.type={recipe.model.type}; use 0", key)
        super().__init__(recipe, benchmark)

    def make_vocabulary(self, sources: list[str], targets: list[str]) -> Vocabulary:
        if self.recipe.model.pretrained is None:
            characters = self.recipe.data.tokenization == "characters"
            tokenizer = build_vocabulary(sources, targets, joint=True, characters=characters).tokenizer
        else:
            try:
                folder = checkpoint_folder(self.recipe.model.pretrained)
            except UserError as error:
                raise RecipeError(f"model.pretrained: {error}", "model.pretrained") from error
            tokenizer = load_tokenizer(str(folder))
            require_written(tokenizer, targets, self.recipe.model.pretrained)
        write_prompts(tokenizer)
        return Vocabulary(tokenizer, len(tokenizer), len(tokenizer), source_id_offset=0)

    def build_model(self, attention: str) -> PreTrainedModel:
        tokenizer = self.vocabulary.tokenizer
        ids = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
        if self.recipe.model.pretrained is None:
            config = self.model_config(vocab_size=self.vocabulary.vocab_size, **ids)
            model = self.from_config(AutoModelForCausalLM, config, attention)
        else:
            model = load_pretrained(self.recipe, attention)
            if len(tokenizer) > model.config.vocab_size:
                raise RecipeError(
                    f"model.pretrained={self.recipe.model.pretrained}: its tokenizer has {len(tokenizer)} tokens, its "
                    f"model {model.config.vocab_size}; they do not belong together",
                    "model.pretrained",
                )
            for name, value in ids.items():
                setattr(model.config, name, value)
            set_seed(self.recipe.seed)
        model.generation_config = GenerationConfig(max_new_tokens=self.longest_target, **ids)
        return model


def write_prompts(tokenizer: PreTrainedTokenizerFast) -> None:
    """
    Make a tokenizer write a text as a prompt: `words separator`, padded on the left, which a decoder continues.
    A tokenizer without padding pads with EOS: padding is known from masks.
    """
    separator = tokenizer.bos_token or tokenizer.eos_token
    symbol = (separator, tokenizer.convert_tokens_to_ids(separator))
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single=f"$A {separator}", special_tokens=[symbol])
    # `init_kwargs` is what is saved
    tokenizer.padding_side = tokenizer.init_kwargs["padding_side"] = "left"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token


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


def require_written(tokenizer: PreTrainedTokenizerFast, texts: list[str], pretrained: str) -> None:
    """Raises RecipeError: the tokenizer writes a word of the texts as unknown, so that no answer could be right."""
    if tokenizer.unk_token_id is None:
        return
    for word in sorted({word for text in texts for word in text.split()}):
        if tokenizer.unk_token_id in tokenizer(word, add_special_tokens=False)["input_ids"]:
            raise _unusable(pretrained, f"its tokenizer cannot write {word!r}, which targets have")


def load_pretrained(recipe: Recipe, attention: str) -> PreTrainedModel:
    """
    The checkpoint `model.pretrained` in float32, with the recipe's dropout.

    Raises:
        RecipeError: it cannot be loaded, lacks weights, or is not the model that the recipe describes.
    """
    free = {key: value for key, value in recipe.model.fields.items() if key in FREE_FIELDS}
    try:
        model, _ = read_checkpoint(str(recipe.model.pretrained), writes=True, attn_implementation=attention, **free)
    except UserError as error:
        raise RecipeError(f"model.pretrained: {error}", "model.pretrained") from error
    if not isinstance(model.config, CONFIGS[recipe.model.type]):
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
