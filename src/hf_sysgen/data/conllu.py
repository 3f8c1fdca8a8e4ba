"""Read dependency parses in the CoNLL-U format of Universal Dependencies."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from hf_sysgen.data.errors import DamagedData

_COLUMNS = 10


class Word(NamedTuple):
    """One word of a dependency parse.

    Attributes:
        form: as written.
        lemma: its base form; "_" if the parser gives none.
        head: number of the word that it depends on, from 1; 0 for a root.
        relation: of the basic dependencies, such as `amod`.
    """

    form: str
    lemma: str
    head: int
    relation: str


def read_conllu(lines: Iterable[bytes], where: str) -> Iterator[list[Word]]:
    """The parses in a CoNLL-U file, one at a time. Comments, ranges of words and empty nodes are skipped.

    Args:
        lines: the file's lines, such as the opened file.
        where: what the file is, for messages.

    Raises:
        DamagedData: a line is not CoNLL-U.
    """
    parse: list[Word] = []
    for number, line in enumerate(lines, start=1):
        try:
            text = line.decode("utf-8").rstrip("\r\n")
            if word := _word(text, len(parse) + 1):
                parse.append(word)
        except ValueError as error:
            raise DamagedData(f"{where}: line {number:,} is not CoNLL-U ({error}); replace the file") from error
        if not text and parse:
            yield parse
            parse = []
    if parse:
        yield parse


def _word(text: str, expected: int) -> Word | None:
    """The word of a line; None if it has none."""
    if not text or text.startswith("#"):
        return None
    columns = text.split("\t")
    if len(columns) != _COLUMNS:
        raise ValueError(f"{len(columns)} columns, not {_COLUMNS}")
    if "-" in columns[0] or "." in columns[0]:
        return None
    if int(columns[0]) != expected:
        raise ValueError(f"word number {columns[0]}, not {expected}")
    # a long file has few different ones
    return Word(sys.intern(columns[1]), sys.intern(columns[2]), int(columns[6]), sys.intern(columns[7]))
