"""In-context learning: a frozen model, with training examples in the prompt."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import GenerationConfig, PreTrainedModel

from hf_sysgen.config.errors import RecipeError
from hf_sysgen.config.recipe import Recipe
from hf_sysgen.config.sections import InContext
from hf_sysgen.evaluation.evaluate import Columns, chunks, evaluating, sample_rows
from hf_sysgen.evaluation.in_context import AllowedTokens, Shots
from hf_sysgen.evaluation.prompts import Prompts
from hf_sysgen.model_types import is_decoder
from hf_sysgen.results.predictions import TextRow
from hf_sysgen.training.tasks.base import Task
from hf_sysgen.training.tasks.checkpoints import check_encodable, load_pretrained
from hf_sysgen.training.tasks.pretrained import pretrained_tokenizer

if TYPE_CHECKING:
    from datasets import DatasetDict

# extra tokens that an answer may have: its words may be other tokens than the reference's
SPARE_TOKENS = 8


class InContextTask(Task):
    """
    Prompts of examples and an input; the answer is the first line that the model writes, greedily, as in the tasks for
    lm-evaluation-harness. It is right if its words are the target's. It ends after the tokens of its batch's longest
    reference and `SPARE_TOKENS`, because a longer one is wrong.

    Raises:
        RecipeError: there is no such split, too few examples, or a word of targets that the tokenizer cannot write.
    """

    def __init__(self, recipe: Recipe, benchmark: DatasetDict):
        super().__init__(recipe, benchmark)
        assert recipe.in_context is not None
        self.how: InContext = recipe.in_context
        for name in self.how.splits or ():
            if name not in benchmark:
                key = "in_context.splits"
                raise RecipeError(f"{key}: there is no {name!r}, but {', '.join(benchmark)}", key)
        self.train = benchmark["train"]
        if self.how.shots >= len(self.train):
            key = "in_context.shots"
            raise RecipeError(f"{key}={self.how.shots} is not less than the {len(self.train)} of train", key)
        self.splits: Any = benchmark
        self.decoder = is_decoder(recipe.model.type)
        tokenizer = pretrained_tokenizer(recipe)
        self.prompts = Prompts(tokenizer, self.decoder, recipe.data.prompt)
        self.targets = {name: split["target"][:] for name, split in benchmark.items()}
        texts = {text for name, found in self.targets.items() if name in self.judged for text in found}
        check_encodable(tokenizer, sorted(texts), str(recipe.model.pretrained))
        inputs, targets = self.train["input"][:], self.targets["train"]
        self.examples = list(zip(inputs, targets, strict=True))
        self.shots = Shots(inputs, self.how.rule, self.how.shots, recipe.seed)
        # an answer is one line
        self.line_ends = [token for token, text in enumerate(self._texts(tokenizer)) if "\n" in text]
        self.allowed = self._allowed(tokenizer) if self.how.constrained else None

    @property
    def judged(self) -> tuple[str, ...]:
        return self.how.splits or tuple(name for name in self.benchmark if name != "train")

    def data_sha256(self) -> str:
        """Of the texts of all splits."""
        texts = {name: [split["input"][:], self.targets[name]] for name, split in self.benchmark.items()}
        return hashlib.sha256(json.dumps(texts).encode()).hexdigest()

    @staticmethod
    def _texts(tokenizer: Any) -> list[str]:
        return tokenizer.batch_decode([[token] for token in range(len(tokenizer))])

    def _allowed(self, tokenizer: Any) -> AllowedTokens:
        words = sorted({word for texts in self.targets.values() for text in texts for word in text.split()})
        _, ids = self.prompts.encode_pairs([self.prompts.prompt("")] * len(words), words)
        blank = [token for token in self.line_ends if not str(tokenizer.decode([token])).strip()]
        return AllowedTokens([one[:-1] for one in ids], [*blank, tokenizer.eos_token_id])

    def judged_rows(self, name: str) -> np.ndarray:
        rows = np.arange(len(self.benchmark[name]) if name in self.judged else 0)
        return sample_rows(rows, self.how.examples, self.recipe.seed)

    def build_model(self, attention: str) -> PreTrainedModel:
        model: Any = load_pretrained(self.recipe, attention)
        tokenizer = self.prompts.tokenizer
        # a model may have several end symbols, e.g. one for chats
        ends = model.generation_config.eos_token_id or []
        ends = {*(ends if isinstance(ends, list) else [ends]), tokenizer.eos_token_id, *self.line_ends}
        ids: dict[str, Any] = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": sorted(ends)}
        if not self.decoder:
            ids["decoder_start_token_id"] = model.config.decoder_start_token_id
        model.generation_config = GenerationConfig(do_sample=False, **ids)
        return model

    @torch.inference_mode()
    def evaluate(self, model: Any, name: str, rows: np.ndarray, final: bool, rank: int, world: int) -> list[TextRow]:
        inputs = self.benchmark[name].select(rows)["input"][:]
        shots = {row: self.shots.rows_for(text, row) for row, text in zip(rows.tolist(), inputs, strict=True)}
        texts = [
            self.prompts.prompt(text, [self.examples[one] for one in shots[row]])
            for row, text in zip(rows.tolist(), inputs, strict=True)
        ]
        targets = [self.targets[name][row] for row in rows]
        encoded, references = self.prompts.encode_pairs(texts, targets)
        order = sorted(range(len(rows)), key=lambda index: (len(references[index]), len(encoded[index])))[rank::world]
        batches = [
            (some, max(len(references[index]) for index in some))
            for some in chunks(order, self.recipe.evaluation.batch_size)
        ]
        # in a batch, every prompt has room for the longest answer; a decoder has the same positions for both
        join = sum if self.decoder else max
        tokens = (join((max(len(encoded[index]) for index in some), longest)) for some, longest in batches)
        self._require_room(model, max(tokens, default=0))
        records = []
        with evaluating(model):
            for some, longest in batches:
                answers = self._answers(model, [encoded[index] for index in some], longest)
                for index, answer in zip(some, answers, strict=True):
                    row, words = int(rows[index]), targets[index].split()
                    records.append(
                        TextRow(
                            split=name,
                            row=row,
                            prediction=answer,
                            exact=answer.split() == words,
                            target_length=len(words),
                            shots=shots[row],
                        )
                    )
        return records

    def _require_room(self, model: Any, tokens: int) -> None:
        most = getattr(model.config, "max_position_embeddings", None)
        if most is not None and tokens + SPARE_TOKENS > most:
            raise RecipeError(
                f"in_context.shots={self.how.shots}: {tokens} tokens are to fit into the model's positions, "
                f"of which {most - SPARE_TOKENS} can be used; give fewer",
                "in_context.shots",
            )

    def _answers(self, model: Any, prompts: list[list[int]], longest: int) -> list[str]:
        tokenizer = self.prompts.tokenizer
        side = "left" if self.decoder else "right"
        batch = tokenizer.pad({"input_ids": prompts}, padding_side=side, return_tensors="pt").to(model.device)
        start = batch["input_ids"].shape[1] if self.decoder else 1
        allowed = self.allowed
        options: dict[str, Any] = {"max_new_tokens": longest + SPARE_TOKENS}
        if allowed is not None:
            options["prefix_allowed_tokens_fn"] = lambda _, ids: allowed(ids[start:].tolist())
        written = model.generate(**batch, **options)[:, start:]
        texts = tokenizer.batch_decode(written, skip_special_tokens=True)
        return [text.partition("\n")[0].strip() for text in texts]

    def to_rows(self, records: Sequence[TextRow], name: str) -> list[TextRow]:
        return Columns(self.benchmark[name]).added(records)
