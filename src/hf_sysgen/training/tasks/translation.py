"""Translation, from the text of a benchmark to BLEU: Chaabouni et al. 2021, sections 4.2 and 5."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hf_sysgen.config.errors import RecipeError
from hf_sysgen.config.recipe import Recipe
from hf_sysgen.data.text.subwords import bpe_vocabulary, encode_subwords, sentencepiece_vocabulary
from hf_sysgen.data.text.translation import library
from hf_sysgen.data.text.vocabulary import Vocabulary
from hf_sysgen.evaluation.translation import (
    Translation,
    evaluate_translations,
    fairseq_generation_kwargs,
    summarize_split,
    translation_rows,
    usable_rows,
)
from hf_sysgen.results.predictions import TextRow
from hf_sysgen.results.record import SplitMetrics
from hf_sysgen.training.tasks.seq2seq import Seq2SeqTask

if TYPE_CHECKING:
    from datasets import DatasetDict


class TranslationTask(Seq2SeqTask):
    """
    Identical to [`Seq2SeqTask`] except:

    - the vocabulary is of subwords, learned from the training split. What else is rare is `<unk>`.
    - pairs of unlikely lengths are left out, see `usable_rows`.
    - translations come from beam search and are judged by BLEU, and where pairs were held out by COMP. The checkpoint's
      config sets the search: `generate` needs no arguments.
    - during training only validation is evaluated, and translated only if BLEU decides which weights are kept.

    Raises:
        RecipeError: no training pair is left; DataError: see `bpe_vocabulary`, `sentencepiece_vocabulary`.
    """

    eval_splits = ("validation",)
    eval_metrics: tuple[str, ...] = ("loss", "loss_teacher", "bleu")

    def __init__(self, recipe: Recipe, benchmark: DatasetDict):
        # BLEU is needed at the end
        library("sacrebleu")
        super().__init__(recipe, benchmark)
        if not self.decodes:
            self.eval_metrics = ("loss", "loss_teacher")
        data = recipe.data
        self.usable = {
            name: usable_rows(split, data.benchmark, data.config, name) for name, split in self.splits.items()
        }
        for name, rows in self.usable.items():
            if not len(rows):
                raise RecipeError(
                    f"data.subwords={data.subwords}: no pair of {name} in {data.benchmark} {data.config} has a usable "
                    "number of subwords on both sides; take another number",
                    "data.subwords",
                )
        self.splits = {**self.splits, "train": self.splits["train"].take(self.usable["train"])}

    def judged_rows(self, name: str) -> np.ndarray:
        return super().judged_rows(name) if name == "train" else self.usable[name]

    @property
    def decodes(self) -> bool:
        """Whether evaluations during training translate."""
        stopping = self.recipe.evaluation.early_stopping
        return stopping is not None and stopping.metric == "bleu"

    def make_vocabulary(self, sources: list[str], targets: list[str]) -> Vocabulary:
        train = self.benchmark["train"]
        sides, size = (train["input"][:], train["target"][:]), self.recipe.data.subwords or 0
        if self.recipe.data.tokenization == "sentencepiece":
            return sentencepiece_vocabulary(*sides, size)
        return bpe_vocabulary(*sides, size, joint=self.recipe.data.joint_vocabulary)

    def encode(self, sources: list[str], targets: list[str]) -> tuple[list[list[int]], list[list[int]]]:
        tokenizer = self.vocabulary.tokenizer
        return encode_subwords(tokenizer, sources), encode_subwords(tokenizer, targets, self.vocabulary.vocab_size)

    def search(self, eos: int) -> dict[str, Any]:
        return fairseq_generation_kwargs(eos, self.recipe.evaluation.num_beams, self.recipe.evaluation.length_penalty)

    def evaluate(  # type: ignore[override]
        self, model: Any, name: str, rows: np.ndarray, final: bool, rank: int, world: int
    ) -> list[Translation]:
        return evaluate_translations(
            model,
            self.splits[name],
            self.vocabulary.tokenizer,
            self.benchmark[name]["target"][:],
            rows,
            batch_size=self.recipe.evaluation.batch_size,
            decode=final or self.decodes,
            brief=name == "validation",
            label_smoothing=self.recipe.training.label_smoothing_factor,
            rank=rank,
            world=world,
        )

    def summarize(self, records: Sequence[Any], name: str) -> SplitMetrics:
        data = self.recipe.data
        return summarize_split(records, self.benchmark[name], data.benchmark, data.config, name)

    def to_rows(self, records: Sequence[Any], name: str) -> list[TextRow]:
        return translation_rows(records, name, self.benchmark[name])
