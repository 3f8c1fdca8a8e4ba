"""Choose the training examples in a prompt, and the tokens allowed in an answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np


class Shots:
    """
    Examples for the prompts of a benchmark, chosen by a rule.

    Args:
        inputs: the inputs of the training split.
        rule: `random`, `same-length` or `similar`, see the section `in_context` of a recipe.
        count: examples per prompt.
        seed: random seed; combined with the example's number.
    """

    def __init__(self, inputs: Sequence[str], rule: str, count: int, seed: int):
        self.inputs, self.rule, self.count, self.seed = inputs, rule, count, seed
        words = [text.split() for text in inputs]
        self.lengths = np.array([len(one) for one in words])
        self.distinct = np.array([len(set(one)) for one in words])
        rows: dict[str, list[int]] = defaultdict(list)
        for row, one in enumerate(words):
            for word in set(one):
                rows[word].append(row)
        self.rows = {word: np.array(found) for word, found in rows.items()}

    def rows_for(self, text: str, number: int) -> list[int]:
        """
        Rows of the training split, the most similar last. Rows with the same input are excluded.

        Args:
            text: the test input.
            number: position of the example in its split.
        """
        order = np.random.default_rng((self.seed, number)).permutation(len(self.inputs))
        if self.rule == "same-length":
            order = order[np.argsort(abs(self.lengths[order] - len(text.split())), kind="stable")]
        elif self.rule == "similar":
            order = order[np.argsort(-self.similarity(text)[order], kind="stable")]
        chosen: list[int] = []
        for row in order.tolist():
            if len(chosen) == self.count:
                break
            if self.inputs[row] != text:
                chosen.append(row)
        return chosen[::-1]

    def similarity(self, text: str) -> np.ndarray:
        """The Jaccard index of the words of a text and those of each input, (N,)."""
        words = set(text.split())
        shared = np.zeros(len(self.inputs), np.int64)
        for word in words:
            shared[self.rows.get(word, np.empty(0, np.int64))] += 1
        return shared / (self.distinct + len(words) - shared)


class AllowedTokens:
    """
    The tokens that can follow in an answer of known words.

    Args:
        words: the ids of each word as an answer has it, with the blank before it.
        ends: ids that end an answer.
    """

    def __init__(self, words: Iterable[Sequence[int]], ends: Iterable[int]):
        self.ends, self.after_word = sorted(set(ends)), -1
        self.root: dict[int, dict] = {}
        for ids in words:
            node = self.root
            for token in ids:
                node = node.setdefault(token, {})
            # no token has this id
            node[self.after_word] = {}

    def __call__(self, written: Sequence[int]) -> list[int]:
        """The ids that may follow these; the ends alone if nothing fits."""
        states, ended = [self.root], False
        for token in written:
            states = [state[token] for state in states if token in state]
            ended = any(self.after_word in state for state in states)
            states += [self.root] * ended
        allowed = {token for state in states for token in state} - {self.after_word}
        return sorted(allowed | set(self.ends)) if ended or not allowed else sorted(allowed)
