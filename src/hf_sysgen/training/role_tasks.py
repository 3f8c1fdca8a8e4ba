"""Texts to texts by a model that reads a role beside every word: Russin et al. 2022."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from hf_sysgen.data.roles import role_scheme
from hf_sysgen.data.tokenization import EOS, SOS
from hf_sysgen.data.tokenized import IGNORED, TokenizedSplit
from hf_sysgen.evaluation.evaluate import mark_teacher_forced
from hf_sysgen.models.seq2seq import shift_right
from hf_sysgen.training.recipe import Recipe
from hf_sysgen.training.tasks import Seq2SeqTask


class RoleSplit(TokenizedSplit):
    """
    Identical to [`TokenizedSplit`] except:
    - a batch also has the roles of what the model reads, `role_ids` (B, S) and `decoder_role_ids` (B, T), and those
      of the labels, `role_labels` (B, T) with -100 where `labels` has it.

    Args:
        words: the split without roles.
        source_roles, target_roles: role of every row of the encoder's and of the decoder's table.
        source_id_offset: first id that the encoder's table covers.
        start_id: what the decoder reads first.
    """

    def __init__(
        self,
        words: TokenizedSplit,
        source_roles: torch.Tensor,
        target_roles: torch.Tensor,
        source_id_offset: int,
        start_id: int,
    ):
        self.sources, self.targets = words.sources, words.targets
        self.pad_id, self.train_eos = words.pad_id, words.train_eos
        self.source_roles, self.target_roles = source_roles, target_roles
        self.source_id_offset, self.start_id = source_id_offset, start_id

    def __getitem__(self, rows: np.ndarray) -> dict[str, torch.Tensor]:
        batch = super().__getitem__(rows)
        labels = batch["labels"]
        unlabelled = labels == IGNORED
        return {
            **batch,
            "role_ids": self.source_roles[batch["input_ids"] - self.source_id_offset],
            "decoder_role_ids": self.target_roles[shift_right(labels, self.start_id, self.pad_id)],
            "role_labels": self.target_roles[labels.masked_fill(unlabelled, 0)].masked_fill(unlabelled, IGNORED),
        }


class RoleFillerTask(Seq2SeqTask):
    """
    Identical to [`Seq2SeqTask`] except:
    - the model reads the roles of the recipe's scheme, or without one the words again. The config has them too, so
      that a checkpoint reads texts and writes them without the scheme.
    - at the end a record also has `exact_teacher`, see [`RoleFillerTask.evaluate`].

    End symbols have roles of their own (data.py:246-253 of the authors' code).
    """

    splits: Mapping[str, RoleSplit]

    def __init__(self, recipe: Recipe, benchmark: Any):
        super().__init__(recipe, benchmark)
        tokenizer, offset = self.vocabulary.tokenizer, self.vocabulary.source_id_offset
        # ids of one language's words are not the other's rows
        self.role_fields: dict[str, Any] = {"separate_tables": True}
        source_roles = list(range(self.vocabulary.source_vocab_size))
        target_roles = list(range(self.vocabulary.vocab_size))
        if recipe.role_scheme is not None:
            scheme = role_scheme(recipe.role_scheme, benchmark)
            source_words = tokenizer.convert_ids_to_tokens([offset + row for row in source_roles])
            source_roles = scheme.role_map(source_words, "source", (EOS, SOS))
            target_roles = scheme.role_map(tokenizer.convert_ids_to_tokens(target_roles), "target", (EOS,))
            self.role_fields |= {
                "role_map": target_roles,
                "role_vocab_size": len(scheme.target_names) + 1,
                "source_role_map": source_roles,
                "source_role_vocab_size": len(scheme.source_names) + 2,
            }
        maps = torch.tensor(source_roles), torch.tensor(target_roles)
        self.splits = {
            name: RoleSplit(split, *maps, offset, tokenizer.eos_token_id) for name, split in self.splits.items()
        }

    def model_config(self, **derived: Any) -> Any:
        return super().model_config(**derived, **self.role_fields)

    def evaluate(
        self, model: Any, name: str, rows: np.ndarray, final: bool, rank: int, world: int
    ) -> list[dict[str, Any]]:
        """
        As of any text, where roles follow from the words that the model itself wrote.

        With `final` also `exact_teacher`, as the authors count (test.py:63-104), see [`mark_teacher_forced`]. As a word
        has one role in every scheme, that is `exact` measured in another way; it can differ only where EOS is no label,
        or where a batch decides what a threshold does (`renormalization`).
        """
        records = super().evaluate(model, name, rows, final, rank, world)
        if final:
            mark_teacher_forced(model, self.splits[name], records, self.recipe.eval_batch_size)
        return records
