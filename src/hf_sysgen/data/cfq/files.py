"""Read CFQ: its archive record by record, its preprocessed text files, and the two forms that models read.

The archive holds `cfq/dataset.json`, one JSON array of more than a gigabyte, and `cfq/splits/<name>.json`, lists of
positions in it. A record's question and query are the fields `questionPatternModEntities` and
`sparqlPatternModEntities`: entities are written M0 to M9.

    original        Did M2 's actor edit M0       SELECT count(*) WHERE {\\n?x0 ns:film.editor.film M0 .\\n...}
    preprocessed    Did M2 ' s actor edit M0      SELECT count ( * ) WHERE { ?x0 film.editor.film M0 . ... }
"""

from __future__ import annotations

import codecs
import json
import random
import re
import string
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from hf_sysgen.data.archives import open_member
from hf_sysgen.data.errors import DamagedData
from hf_sysgen.data.fetch import read_lines
from hf_sysgen.errors import one_line

# (question, query)
Pair = tuple[str, str]

QUESTION, QUERY = "questionPatternModEntities", "sparqlPatternModEntities"
DATASET = "cfq/dataset.json"
# our split -> its key in a file of splits; CFQ's dev is drawn like its test set
SPLIT_KEYS = {"train": "trainIdxs", "validation": "devIdxs", "test": "testIdxs"}

_PUNCTUATION = re.compile(f"([{re.escape(string.punctuation)}])")
_BLANKS = " \t\r\n"
# bytes per read, and a length that no record has: a longer one means that the array is damaged
_CHUNK, _LONGEST_RECORD = 1 << 20, 1 << 24
# Edge Transformer: seed of the held-out examples, their number, and the length that no training query reaches
_EDGE_SEED, EDGE_VALIDATION, EDGE_QUERY_LIMIT = 42, 1000, 50


def preprocess_question(question: str) -> str:
    """Each punctuation character becomes a token."""
    return " ".join(_PUNCTUATION.sub(r" \1 ", question).split())


def preprocess_query(query: str) -> str:
    """Tokens without the prefix "ns:", Freebase ids as "m_...", and "count(*)" in four tokens."""
    tokens = (token.removeprefix("ns:") for token in query.replace("count(*)", "count ( * )").split())
    return " ".join(f"m_{token[2:]}" if token.startswith("m.") else token for token in tokens)


def original_question(question: str) -> str:
    """A preprocessed question in CFQ's original form. Only the apostrophe is written without a blank before it."""
    return question.replace(" ' s", " 's")


def original_query(query: str) -> str:
    """A preprocessed query in CFQ's original form, on one line."""
    return " ".join(_with_namespace(token) for token in query.replace("count ( * )", "count(*)").split())


def _with_namespace(token: str) -> str:
    if token.startswith("m_"):
        return f"ns:m.{token[2:]}"
    # relations and types have a dot inside; inverse relations ("^ns:...") kept their prefix
    return f"ns:{token}" if "." in token[1:] and not token.startswith("^") else token


def read_records(stream: BinaryIO, where: str) -> Iterator[dict[str, Any]]:
    """The records of a JSON array of objects, one at a time. Memory holds one record and a chunk of the file.

    Args:
        stream: the array's bytes.
        where: name of the stream, for messages.

    Raises:
        DataError: it is not such an array, or is cut short.
    """
    decoder, text = json.JSONDecoder(), codecs.getincrementaldecoder("utf-8")()
    buffer, position, ended, number = "", 0, False, 0

    def damaged(reason: object) -> DamagedData:
        return DamagedData(f"{where}: record {number} of the JSON array cannot be read ({reason}); replace the file")

    while True:
        position = _skip(buffer, position, _BLANKS + ("," if number else "["))
        try:
            if position == len(buffer):
                raise ValueError("it is cut short")
            if buffer[position] == "]":
                return
            # a record ends with a brace, so a partial one never decodes
            record, position = decoder.raw_decode(buffer, position)
        except ValueError as error:
            if ended or len(buffer) - position > _LONGEST_RECORD:
                raise damaged(error) from error
            chunk = stream.read(_CHUNK)
            ended = not chunk
            try:
                buffer, position = buffer[position:] + text.decode(chunk, final=ended), 0
            except UnicodeDecodeError as bad_text:
                raise damaged(bad_text) from bad_text
            continue
        if not isinstance(record, dict):
            raise damaged(f"a {type(record).__name__}, not an object")
        yield record
        number += 1


def _skip(text: str, position: int, characters: str) -> int:
    while position < len(text) and text[position] in characters:
        position += 1
    return position


def read_archive(archive: str | Path, split: str) -> dict[str, list[Pair]]:
    """The pairs of a split family in their original form, in the order of CFQ's file of that family.

    Reads the whole archive at most twice, and keeps only the pairs that are asked for.

    Args:
        archive: path of cfq.tar.gz.
        split: name of a file in the archive's folder of splits, such as "mcd1" or "random_split".

    Returns:
        "train", "validation" and "test".

    Raises:
        DataError: the archive is damaged, or lacks the split or a record of it.
    """
    positions = _read_positions(archive, f"cfq/splits/{split}.json")
    pairs: dict[int, Pair | None] = dict.fromkeys(position for part in positions.values() for position in part)
    where = f"{archive}: member {DATASET}"
    number = -1
    with open_member(archive, DATASET) as stream:
        for number, record in enumerate(read_records(stream, where)):
            if number in pairs:
                try:
                    pairs[number] = record[QUESTION], record[QUERY]
                except KeyError as error:
                    raise DamagedData(f"{where}: record {number} has no field {error}; replace the file") from error
    found = {position: pair for position, pair in pairs.items() if pair is not None}
    if len(found) < len(pairs):
        absent = next(position for position, pair in pairs.items() if pair is None)
        raise DamagedData(
            f"{where}: has {number + 1} records, but split {split} names number {absent}; replace the file"
        )
    return {part: [found[position] for position in numbers] for part, numbers in positions.items()}


def _read_positions(archive: str | Path, member: str) -> dict[str, list[int]]:
    with open_member(archive, member) as stream:
        try:
            splits = json.load(stream)
            return {part: [int(number) for number in splits[key]] for part, key in SPLIT_KEYS.items()}
        except (ValueError, KeyError, TypeError) as error:
            expected = ", ".join(SPLIT_KEYS.values())
            raise DamagedData(
                f"{archive}: member {member}: is no JSON object with lists of numbers {expected} ({one_line(error)}); "
                "replace it"
            ) from error


def read_texts(files: Mapping[str, str]) -> dict[str, list[Pair]]:
    """The preprocessed pairs of line-aligned text files.

    Args:
        files: path by "<part>_input" and "<part>_target", for the parts of `SPLIT_KEYS`.

    Returns:
        "train", "validation" and "test".
    """
    return {
        part: list(zip(read_lines(files[f"{part}_input"]), read_lines(files[f"{part}_target"]), strict=True))
        for part in SPLIT_KEYS
    }


def preprocess(pair: Pair) -> Pair:
    return preprocess_question(pair[0]), preprocess_query(pair[1])


def original(pair: Pair) -> Pair:
    return original_question(pair[0]), original_query(pair[1])


def edge_form(pair: Pair) -> Pair:
    """The tokens that the Edge Transformer reads: the original form in lower case, joined by single blanks."""
    question, query = pair
    return " ".join(question.lower().split()), " ".join(query.lower().split())


def edge_parts(parts: Mapping[str, list[Pair]], validation_from: str, filtered: bool = True) -> dict[str, list[Pair]]:
    """The selection of Bergen et al. 2021 (`cfq-semantic-parsing/train.py:214-240` of their code, seed 42).

    Args:
        parts: the pairs in `edge_form`.
        validation_from: the part from which 1,000 examples become validation: "train" (then only queries of up to 49
            tokens) or "test".
        filtered: whether "train" has only queries of up to 49 tokens. The other two parts do not depend on it.

    Returns:
        "train", "validation" and "test".
    """
    short = [row for row, (_, query) in enumerate(parts["train"]) if len(query.split()) < EDGE_QUERY_LIMIT]
    rows: dict[str, Sequence[int]] = {part: range(len(parts[part])) for part in ("train", "test")}
    pool = short if validation_from == "train" else rows["test"]
    held_out = sorted(random.Random(_EDGE_SEED).sample(pool, EDGE_VALIDATION))
    if filtered:
        rows["train"] = short
    rows[validation_from] = sorted(set(rows[validation_from]) - set(held_out))
    return {
        "train": [parts["train"][row] for row in rows["train"]],
        "validation": [parts[validation_from][row] for row in held_out],
        "test": [parts["test"][row] for row in rows["test"]],
    }
