"""Texts to texts with a decoder alone, new or pretrained: Petty et al. 2023, section 2.2.2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, GenerationConfig, PreTrainedModel, set_seed

from hf_sysgen.config.errors import RecipeError
from hf_sysgen.data.text.splits import IGNORED, RaggedIds, TokenizedSplit
from hf_sysgen.data.text.vocabulary import Vocabulary, build_vocabulary
from hf_sysgen.evaluation.prompts import INPUT, TEMPLATE_FIELD
from hf_sysgen.training.tasks.checkpoints import (
    check_encodable,
    load_pretrained,
    load_tokenizer,
    pretrained_folder,
    without_special_tokens,
)
from hf_sysgen.training.tasks.seq2seq import Seq2SeqTask


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

    def batch(self, rows: np.ndarray) -> dict[str, torch.Tensor]:
        """
        `input_ids` and `labels` (B, L). Padding is on the right, where no real token attends to it, so that no mask is
        needed and faster kernels can be used.
        """
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

    def source_target_lengths(self) -> tuple[np.ndarray, np.ndarray]:
        return self.joined.lengths, self.joined.lengths


class CausalSeq2SeqTask(Seq2SeqTask):
    """
    Identical to [`Seq2SeqTask`] except:

    - the model is a decoder. It reads `input separator` and continues with `target EOS`; only the latter has a loss
      (Petty et al. do not say). The separator is the tokenizer's start symbol, or EOS if it has none. The tokenizer
      adds no special tokens, so that likelihoods of continuations are correct. The separator is in the config's
      `prompt_template` and in the chat template.
    - with `pretrained`, weights, config and tokenizer are a checkpoint's.

    Raises:
        RecipeError: see `load_pretrained`; or targets have a word that the checkpoint's tokenizer cannot write.
    """

    split_class = PromptedSplit

    def make_vocabulary(self, sources: list[str], targets: list[str]) -> Vocabulary:
        if self.recipe.model.pretrained is None:
            characters = self.recipe.data.tokenization == "characters"
            tokenizer = build_vocabulary(sources, targets, joint=True, characters=characters).tokenizer
        else:
            tokenizer = load_tokenizer(str(pretrained_folder(self.recipe)))
            check_encodable(tokenizer, targets, self.recipe.model.pretrained)
        tokenizer = without_special_tokens(tokenizer)
        # a prompt has the separator in its text; a tokenizer for pretraining reads it there as other text
        tokenizer.split_special_tokens = tokenizer.init_kwargs["split_special_tokens"] = False
        # a tokenizer without padding pads with EOS: padding is known from masks
        tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
        self.separator = tokenizer.bos_token or tokenizer.eos_token
        tokenizer.chat_template = "{{ messages[-1]['content'] }}" + self.separator
        return Vocabulary(tokenizer, len(tokenizer), len(tokenizer), source_id_offset=0)

    def encode(self, sources: list[str], targets: list[str]) -> tuple[list[list[int]], list[list[int]]]:
        separator: Any = self.vocabulary.tokenizer.convert_tokens_to_ids(self.separator)
        prompts, answers = super().encode(sources, targets)
        return [[*ids, separator] for ids in prompts], answers

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
        setattr(model.config, TEMPLATE_FIELD, INPUT + self.separator)
        model.generation_config = GenerationConfig(max_new_tokens=self.longest_target, **ids)
        return model
