"""Texts to texts with any pretrained encoder-decoder or decoder of transformers, and its own tokenizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from transformers import GenerationConfig, PreTrainedModel, set_seed

from hf_sysgen.config.recipe import Recipe
from hf_sysgen.data.text.splits import IGNORED, TokenizedSplit
from hf_sysgen.data.text.vocabulary import Vocabulary
from hf_sysgen.evaluation.prompts import INPUT, TEMPLATE_FIELD, Prompts, unencodable_words
from hf_sysgen.model_types import is_decoder
from hf_sysgen.models.seq2seq import token_loss
from hf_sysgen.training.tasks.causal import PromptedSplit
from hf_sysgen.training.tasks.checkpoints import (
    check_encodable,
    load_pretrained,
    load_tokenizer,
    padded_on_the_left,
    pretrained_folder,
)
from hf_sysgen.training.tasks.seq2seq import Seq2SeqTask

if TYPE_CHECKING:
    from datasets import DatasetDict


class PretrainedTask(Seq2SeqTask):
    """
    Identical to [`Seq2SeqTask`] except:

    - weights, config and tokenizer are those of the checkpoint `model.pretrained`. Characters that its tokenizer cannot
      write, such as the braces of CFQ for T5, become tokens of their own, whose embeddings are learned.
    - inputs are put into the template `data.prompt`. A decoder goes on with `target EOS`, which alone is learned.
    - a prediction is right if its words are those of the target, in whatever pieces it is written; lengths are words.

    Raises:
        RecipeError: see `load_pretrained`; or adapters cannot learn a token that targets need.
    """

    def __init__(self, recipe: Recipe, benchmark: DatasetDict):
        self.decoder = is_decoder(recipe.model.type)
        self.split_class = PromptedSplit if self.decoder else TokenizedSplit
        super().__init__(recipe, benchmark)

    def make_vocabulary(self, sources: list[str], targets: list[str]) -> Vocabulary:
        tokenizer = pretrained_tokenizer(self.recipe)
        if self.recipe.peft is not None:
            check_encodable(tokenizer, targets, str(self.recipe.model.pretrained))
        elif unknown := unencodable_words(tokenizer, targets):
            letters = unencodable_words(tokenizer, {letter for word in unknown for letter in word})
            tokenizer.add_tokens(letters or unknown)
        self.prompts = Prompts(tokenizer, self.decoder, self.recipe.data.prompt)
        return Vocabulary(tokenizer, len(tokenizer), len(tokenizer), source_id_offset=0)

    def encode(self, sources: list[str], targets: list[str]) -> tuple[list[list[int]], list[list[int]]]:
        return self.prompts.encode_pairs([self.prompts.prompt(text) for text in sources], targets)

    def build_model(self, attention: str) -> PreTrainedModel:
        tokenizer = self.vocabulary.tokenizer
        model: Any = load_pretrained(self.recipe, attention)
        # new embeddings and adapters are random
        set_seed(self.recipe.seed)
        if len(tokenizer) > model.get_input_embeddings().num_embeddings:
            model.resize_token_embeddings(len(tokenizer))
        ids = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
        if not self.decoder:
            ids["decoder_start_token_id"] = model.config.decoder_start_token_id
        for name, value in ids.items():
            setattr(model.config, name, value)
        setattr(model.config, TEMPLATE_FIELD, self.prompts.prompt(INPUT))
        model.generation_config = GenerationConfig(max_new_tokens=self.longest_target, **ids)
        return model

    def loss(self, outputs: Any, labels: torch.Tensor, num_items_in_batch: torch.Tensor | int) -> torch.Tensor:
        """Not every model of transformers divides by the tokens of the whole batch."""
        if self.decoder:
            labels = torch.nn.functional.pad(labels[:, 1:], (0, 1), value=IGNORED)
        return token_loss(outputs.logits, labels, num_items_in_batch)


def pretrained_tokenizer(recipe: Recipe) -> Any:
    """
    The tokenizer of `model.pretrained`. Without a padding token of its own, it pads with EOS; a decoder's pads on the
    left. Raises RecipeError: it cannot be used.
    """
    tokenizer: Any = load_tokenizer(str(pretrained_folder(recipe)))
    # the spaces of an answer must stay
    tokenizer.clean_up_tokenization_spaces = False
    if tokenizer.pad_token is None:
        # padding is known from masks
        tokenizer.pad_token = tokenizer.eos_token
    return padded_on_the_left(tokenizer) if is_decoder(recipe.model.type) else tokenizer
