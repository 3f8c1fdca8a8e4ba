"""Dependency trees in the CoNLL-U format, and what Goodwin et al. 2022 (arXiv:2110.06843) count of them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from hf_sysgen.data.sources import DamagedData

# the content relations of Universal Dependencies as the CoNLL 2018 shared task lists them, and the root. Upper case, as
# in the trees: their metric counts no others (`conll18_ud_eval.py:113-127` of their code)
CONTENT_LABELS = frozenset(
    (
        "ACL", "ADVCL", "ADVMOD", "AMOD", "APPOS", "CCOMP", "COMPOUND", "CONJ", "CSUBJ", "DEP", "DISCOURSE",
        "DISLOCATED", "EXPL", "FIXED", "FLAT", "GOESWITH", "IOBJ", "LIST", "NMOD", "NSUBJ", "NUMMOD", "OBJ", "OBL",
        "ORPHAN", "PARATAXIS", "REPARANDUM", "ROOT", "VOCATIVE", "XCOMP",
    )
)  # fmt: skip
_COLUMNS = 10


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
    """Whether the metric counts a dependency of that label; what follows a colon is not looked at."""
    return label.partition(":")[0] in CONTENT_LABELS


def is_tree(heads: Sequence[int]) -> bool:
    """Whether exactly one token is the root, and every other leads to it."""
    if list(heads).count(0) != 1:
        return False
    # 0 is the root's head; what leads to a token that leads there does, too
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


def read_conllu(lines: Iterable[bytes], where: str) -> Iterator[Sentence]:
    """The sentences of a CoNLL-U file, one at a time. Only the columns ID, FORM, HEAD and DEPREL are read.

    Comments, ranges of multi-word tokens and empty nodes are left out.

    Args:
        lines: the file's lines, such as the opened file.
        where: what the file is, for messages.

    Raises:
        DataError: a line is no CoNLL-U, or a sentence no tree.
    """
    rows: list[tuple[str, int, str]] = []
    first = number = 0
    for number, line in enumerate(lines, start=1):
        try:
            text = line.decode("utf-8").rstrip("\r\n")
            if row := _row(text, len(rows) + 1):
                first = first if rows else number
                rows.append(row)
        except ValueError as error:
            raise DamagedData(f"{where}: line {number} is no CoNLL-U ({error}); replace the file") from error
        if not text and rows:
            yield _sentence(rows, where, first)
            rows = []
    if rows:
        yield _sentence(rows, where, first)


def _row(text: str, expected: int) -> tuple[str, int, str] | None:
    """FORM, HEAD and DEPREL of a line; None where it has no word."""
    if not text or text.startswith("#"):
        return None
    columns = text.split("\t")
    if len(columns) != _COLUMNS:
        raise ValueError(f"{len(columns)} columns, not {_COLUMNS}")
    if "-" in columns[0] or "." in columns[0]:
        return None
    if int(columns[0]) != expected:
        raise ValueError(f"word number {columns[0]}, not {expected}")
    # few different ones in a long file
    return sys.intern(columns[1]), int(columns[6]), sys.intern(columns[7])


def _sentence(rows: list[tuple[str, int, str]], where: str, line: int) -> Sentence:
    sentence = Sentence(*zip(*rows, strict=True))
    if not is_tree(sentence.heads):
        raise DamagedData(f"{where}: the sentence at line {line} is no tree with one root; replace the file")
    return sentence
