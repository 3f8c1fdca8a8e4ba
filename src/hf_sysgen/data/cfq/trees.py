"""Dependency trees, and which dependencies Goodwin et al. 2022 (arXiv:2110.06843) count."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from hf_sysgen.data.conllu import read_conllu
from hf_sysgen.data.errors import DamagedData

# the content relations of Universal Dependencies as the CoNLL 2018 shared task lists them, and the root. Upper case, as
# in the trees: their metric counts only these (`conll18_ud_eval.py:113-127` of their code)
CONTENT_LABELS = frozenset(
    (
        "ACL", "ADVCL", "ADVMOD", "AMOD", "APPOS", "CCOMP", "COMPOUND", "CONJ", "CSUBJ", "DEP", "DISCOURSE",
        "DISLOCATED", "EXPL", "FIXED", "FLAT", "GOESWITH", "IOBJ", "LIST", "NMOD", "NSUBJ", "NUMMOD", "OBJ", "OBL",
        "ORPHAN", "PARATAXIS", "REPARANDUM", "ROOT", "VOCATIVE", "XCOMP",
    )
)  # fmt: skip


class Sentence(NamedTuple):
    """A sentence and its dependency tree.

    Attributes:
        tokens: its tokens.
        heads: for each the number of the token that it depends on, counted from 1; 0 for the root.
        labels: for each the label of that dependency.
    """

    tokens: tuple[str, ...]
    heads: tuple[int, ...]
    labels: tuple[str, ...]


def is_content(label: str) -> bool:
    """Whether the metric counts a dependency with that label; a part after a colon is ignored."""
    return label.partition(":")[0] in CONTENT_LABELS


def is_tree(heads: Sequence[int]) -> bool:
    """Whether exactly one token is the root and all others lead to it."""
    if list(heads).count(0) != 1:
        return False
    # tokens known to lead to 0, the root's head
    rooted = {0}
    for token in range(1, len(heads) + 1):
        path: set[int] = set()
        while token not in rooted:
            if token in path or not 0 < token <= len(heads):
                return False
            path.add(token)
            token = heads[token - 1]
        rooted |= path
    return True


def read_trees(lines: Iterable[bytes], where: str) -> Iterator[Sentence]:
    """The sentences of a CoNLL-U file, one at a time.

    Args:
        lines: the file's lines, such as the opened file.
        where: what the file is, for messages.

    Raises:
        DamagedData: a line is not CoNLL-U, or a sentence is not a tree.
    """
    for number, words in enumerate(read_conllu(lines, where), start=1):
        sentence = Sentence(
            tuple(word.form for word in words),
            tuple(word.head for word in words),
            tuple(word.relation for word in words),
        )
        if not is_tree(sentence.heads):
            raise DamagedData(f"{where}: sentence {number:,} is no tree with one root; replace the file")
        yield sentence
