"""Texts to texts, decoded greedily, with a vocabulary of the benchmark's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from transformers import AutoModelForSeq2SeqLM, GenerationConfig, PreTrainedModel

from hf_sysgen.config.recipe import Recipe
from hf_sysgen.data.text.splits import TokenizedSplit
from hf_sysgen.data.text.vocabulary import Vocabulary, build_vocabulary, encode_sources, encode_targets
from hf_sysgen.evaluation.evaluate import Decoded, judge_split, with_texts
from hf_sysgen.model_types import config_class_of
from hf_sysgen.models import CONFIGS
from hf_sysgen.results.predictions import Row
from hf_sysgen.training.tasks.base import Task

if TYPE_CHECKING:
    from datasets import DatasetDict


class Seq2SeqTask(Task):
    """
    Texts to texts, decoded greedily. The vocabulary covers all splits. For a model with one table for both sides (Edge
    Transformer, T5) it is joint and has no start symbol, because such a model needs none.

    Attributes:
        vocabulary: the tokenizer, and which ids the model's two tables cover.
    """

    splits: Mapping[str, TokenizedSplit]
    split_class = TokenizedSplit
    eval_metrics: tuple[str, ...] = ("accuracy", "loss", "loss_teacher")

    def __init__(self, recipe: Recipe, benchmark: DatasetDict):
        super().__init__(recipe, benchmark)
        self.has_source_table = hasattr(config_class_of(recipe.model.type), "source_vocab_size")
        columns = {name: (split["input"][:], split["target"][:]) for name, split in benchmark.items()}
        self.vocabulary = self.make_vocabulary(
            [text for sources, _ in columns.values() for text in sources],
            [text for _, targets in columns.values() for text in targets],
        )
        self.splits = {
            name: self.split_class(
                *self.encode(*texts), pad_id=self.vocabulary.tokenizer.pad_token_id, train_eos=recipe.data.train_eos
            )
            for name, texts in columns.items()
        }

    def make_vocabulary(self, sources: list[str], targets: list[str]) -> Vocabulary:
        return build_vocabulary(
            sources,
            targets,
            joint=self.recipe.data.joint_vocabulary,
            characters=self.recipe.data.tokenization == "characters",
            start=self.source_start,
        )

    @property
    def source_start(self) -> bool:
        """Whether a start symbol stands before each source."""
        if self.recipe.data.source_start is None:
            return self.has_source_table and getattr(CONFIGS[self.recipe.model.type], "source_starts", True)
        return self.recipe.data.source_start

    def encode(self, sources: list[str], targets: list[str]) -> tuple[list[list[int]], list[list[int]]]:
        """Ids of both sides of some examples."""
        tokenizer = self.vocabulary.tokenizer
        return encode_sources(tokenizer, sources), encode_targets(tokenizer, targets)

    @property
    def longest_target(self) -> int:
        """Words and EOS of the longest target in all splits."""
        return max(int(split.targets.lengths.max()) for split in self.splits.values())

    def build_model(self, attention: str) -> PreTrainedModel:
        eos = self.vocabulary.tokenizer.eos_token_id
        sides: dict[str, Any] = {}
        if self.has_source_table:
            sides["source_vocab_size"] = self.vocabulary.source_vocab_size
            sides["source_id_offset"] = self.vocabulary.source_id_offset
        config = self.model_config(
            vocab_size=self.vocabulary.vocab_size,
            **sides,
            pad_token_id=eos,
            eos_token_id=eos,
            decoder_start_token_id=eos,
        )
        model = self.from_config(AutoModelForSeq2SeqLM, config, attention)
        model.generation_config = GenerationConfig(
            **self.search(eos), eos_token_id=eos, pad_token_id=eos, decoder_start_token_id=eos
        )
        return model

    def search(self, eos: int) -> dict[str, Any]:
        """The default search of `generate`."""
        return {"max_new_tokens": self.longest_target}

    def evaluate(self, model: Any, name: str, rows: np.ndarray, final: bool, rank: int, world: int) -> list[Decoded]:
        size = self.recipe.evaluation.batch_size
        return judge_split(
            model,
            self.splits[name],
            self.benchmark[name],
            self.vocabulary.tokenizer,
            rows,
            batch_size=size,
            final=final,
            rank=rank,
            world=world,
        )

    def to_rows(self, records: Sequence[Any], name: str) -> Sequence[Row]:
        return with_texts(records, name, self.benchmark[name], self.vocabulary.tokenizer)

    def save(self, folder: Path) -> None:
        self.vocabulary.tokenizer.save_pretrained(folder)
