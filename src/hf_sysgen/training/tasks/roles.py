"""Text to text with a role beside every word: Chakravarthy, Russin and O'Reilly 2022."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from hf_sysgen.config.recipe import Recipe
from hf_sysgen.data.text.roles import RoleScheme, Side, role_scheme
from hf_sysgen.data.text.splits import IGNORED, RaggedIds, TokenizedSplit
from hf_sysgen.data.text.vocabulary import EOS, SOS
from hf_sysgen.models.seq2seq import shift_right
from hf_sysgen.training.tasks.seq2seq import Seq2SeqTask


def frequency_ranks(counts: Mapping[str, int], roles: Mapping[str, str]) -> dict[str, int]:
    """
    Ranks of words and names of roles by their frequency in a text: the end symbol first, then the most frequent, equals
    in alphabetical order. A role occurs beside each of its words. A word that is a role too counts as both
    (data.py:234-244).

    Args:
        counts: how often each word occurs.
        roles: the name of each word's role; empty where words are their own roles.
    """
    both = Counter(counts)
    for word, count in counts.items():
        if word in roles:
            both[roles[word]] += count
    return {symbol: rank for rank, symbol in enumerate((EOS, *sorted(both, key=lambda s: (-both[s], s))))}


@dataclass(frozen=True)
class TableRows:
    """
    The rows of both languages' symbols in one table, or in two. Symbols of the target keep their order.

    Attributes:
        source: the row of each source symbol.
        source_size, target_size: rows of each language's table.
    """

    source: list[int]
    source_size: int
    target_size: int

    @classmethod
    def of(cls, source: Sequence[str], target: Sequence[str], ranks: Sequence[Mapping[str, int]] | None) -> TableRows:
        """
        Number the rows of two tables; or, with the ranks of source and target, of one table. In one table, symbols of
        the same rank share a row, whatever they mean (train.py:154, models/tf_separate.py:108-109), and symbols without
        a rank have a row of their own.
        """
        if ranks is None:
            return cls(list(range(len(source))), len(source), len(target))
        source_ranks, target_ranks = ranks
        taken = {target_ranks[symbol]: row for row, symbol in enumerate(target) if symbol in target_ranks}
        rows: list[int] = []
        size = len(target)
        for symbol in source:
            row = taken.get(source_ranks.get(symbol, -1), size)
            size = max(size, row + 1)
            rows.append(row)
        return cls(rows, size, size)


class RoleSplit(TokenizedSplit):
    """
    Identical to [`TokenizedSplit`] except:

    - a batch also has the roles of what the model reads, `role_ids` (B, S) and `decoder_role_ids` (B, T), and those
      of the labels, `role_labels` (B, T) with -100 where `labels` has it.

    Args:
        words: the split without roles.
        source_roles, target_roles: role of every source word, by its id from `source_id_offset` on, and of every
            target word.
        source_id_offset: id of the first source word.
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

    def batch(self, rows: np.ndarray) -> dict[str, torch.Tensor]:
        batch = super().batch(rows)
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
    - unless the recipe separates the tables, a source and a target word of one rank share a row, and so do two roles:
      of their rank in frequency among the words and roles of their language's training texts, as in the authors' code
      (data.py:234-244). There the symbols before the first words share one as well; here the target starts with its
      end symbol, and the source's start stands alone. In a joint vocabulary a word has the row of its id.
    - at the end a record also has `exact_teacher`, see [`RoleFillerTask.evaluate`].

    End symbols have roles of their own (data.py:246-253 of the authors' code).
    """

    splits: Mapping[str, RoleSplit]

    def __init__(self, recipe: Recipe, benchmark: Any):
        super().__init__(recipe, benchmark)
        scheme = None if recipe.data.role_scheme is None else role_scheme(recipe.data.role_scheme, benchmark)
        self.role_fields, *maps = self.rows_and_roles(scheme)
        offset, eos = self.vocabulary.source_id_offset, self.vocabulary.tokenizer.eos_token_id
        source_map, target_map = map(torch.tensor, maps)
        self.splits = {
            name: RoleSplit(split, source_map, target_map, offset, eos) for name, split in self.splits.items()
        }

    def rows_and_roles(self, scheme: RoleScheme | None) -> tuple[dict[str, Any], list[int], list[int]]:
        """Fields of the config that say which row each word and each role has; of source words and of target words the
        roles' rows."""
        tokenizer, offset = self.vocabulary.tokenizer, self.vocabulary.source_id_offset
        source_ids = range(offset, offset + self.vocabulary.source_vocab_size)
        source_words = [*tokenizer.convert_ids_to_tokens([*source_ids])]
        target_words = [*tokenizer.convert_ids_to_tokens([*range(self.vocabulary.vocab_size)])]
        config = super().model_config()
        ranks = None if config.separate_tables else self.ranks(scheme, source_words)
        symbols = source_words, target_words
        names = symbols if scheme is None else ([*scheme.source_names, EOS, SOS], [*scheme.target_names, EOS])
        named = names
        if config.swap_streams:
            # as in the authors' code, both tables have all symbols: a role shares the row of the word with its name
            named = symbols = [*dict.fromkeys(symbols[0] + names[0])], [*dict.fromkeys(symbols[1] + names[1])]
        words, roles = (TableRows.of(source, target, ranks) for source, target in (symbols, named))
        source_rows = words.source[: len(source_words)]
        fields: dict[str, Any] = {"source_row_map": None if config.separate_tables else source_rows}
        if scheme is None:
            return fields, source_rows, list(range(len(target_words)))
        of_source = dict(zip(named[0], roles.source, strict=True))
        source_roles = [of_source[names[0][role]] for role in scheme.role_map(source_words, "source", (EOS, SOS))]
        target_roles = [named[1].index(names[1][role]) for role in scheme.role_map(target_words, "target", (EOS,))]
        fields |= {
            "role_map": target_roles,
            "role_vocab_size": roles.target_size,
            "source_role_map": source_roles,
            "source_role_vocab_size": roles.source_size,
        }
        return fields, source_roles, target_roles

    def ranks(self, scheme: RoleScheme | None, source_words: Sequence[str]) -> list[dict[str, int]]:
        """Ranks of all symbols of the source, and of the target; in a joint vocabulary the index of a word."""
        if self.recipe.data.joint_vocabulary:
            return [{word: row for row, word in enumerate(source_words)}] * 2
        train = self.splits["train"]
        sides: dict[Side, RaggedIds] = {"source": train.sources, "target": train.targets}
        return [
            frequency_ranks(self.counts(ids), scheme.named_roles(side) if scheme else {}) for side, ids in sides.items()
        ]

    def counts(self, ids: RaggedIds) -> dict[str, int]:
        """How often each word stands in the texts, without the symbols around them."""
        found, counts = np.unique(ids.flat, return_counts=True)
        words = self.vocabulary.tokenizer.convert_ids_to_tokens(found.tolist())
        return {word: int(count) for word, count in zip(words, counts, strict=True) if word not in (EOS, SOS)}

    def model_config(self, **derived: Any) -> Any:
        return super().model_config(**derived, **self.role_fields)
