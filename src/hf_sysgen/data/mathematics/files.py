"""The files of the Mathematics Dataset: their layout, their splits, and the meaning of their questions.

Every file alternates between a line with a question and a line with its answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from itertools import zip_longest

DIFFICULTIES = ("train-easy", "train-medium", "train-hard")
# maximum of questions of one difficulty held out for validation
HELD_OUT = 10_000

PLACES = (
    "units",
    "tens",
    "hundreds",
    "thousands",
    "ten thousands",
    "hundred thousands",
    "millions",
    "ten millions",
    "hundred millions",
    "billions",
    "ten billions",
    "hundred billions",
)

Pair = tuple[str, str]


def read_pairs(lines: Iterable[str]) -> Iterator[Pair]:
    """The (question, answer) pairs of a file.

    Raises:
        ValueError: the last question has no answer, or a line is empty.
    """
    stripped = (line.strip() for line in lines)
    for number, (question, answer) in enumerate(zip_longest(stripped, stripped, fillvalue="")):
        if not (question and answer):
            raise ValueError(f"line {2 * number + 1}: a question or its answer is missing")
        yield question, answer


def split_module(files: dict[str, Iterable[Pair]]) -> Iterator[tuple[str, Pair]]:
    """The splits of one module, as Csordas et al. 2021 make them (`dataset/text/dm_math.py` of their code).

    Of equal questions only the first is kept, in the order of the files, so no question is in a split twice or in
    two splits. 10,000 of each difficulty are held out, or a tenth if there are fewer than 100,000.

    Args:
        files: pairs by role, all roles of a config, in their order.

    Yields:
        Split ("train", "validation", "test_iid", "test") and pair, role by role, each in the order of its file.
    """
    import numpy as np

    known: set[str] = set()
    for role in files:
        new = []
        for pair in files[role]:
            if pair[0] not in known:
                known.add(pair[0])
                new.append(pair)
        if role not in DIFFICULTIES:
            split = {"interpolate": "test_iid", "extrapolate": "test"}[role]
            yield from ((split, pair) for pair in new)
            continue
        # the authors restart the generator for each file
        size = min(HELD_OUT, len(new) // 10)
        held_out = set(np.random.RandomState(1234).choice(len(new), size, replace=False).tolist())
        for row, pair in enumerate(new):
            yield "validation" if row in held_out else "train", pair


def solve(question: str) -> Decimal:
    """The answer to a question of the two modules.

    Raises:
        ValueError: the question is of neither module.
    """
    if match := _PLACE.fullmatch(question):
        place, number = match.groups()
        return Decimal(number[-1 - PLACES.index(place)])
    for pattern, (first, second, kind) in _PATTERNS:
        if match := pattern.fullmatch(question):
            result = first * Decimal(match["a"]) + second * Decimal(match["b"])
            return abs(result) if kind == "distance" else result
    raise ValueError(f"not a question of these modules: {question!r}")


def longest_number(questions: Iterable[str]) -> int:
    """Most digits in one number of the questions."""
    return max(sum(map(str.isdigit, number)) for text in questions for number in _NUMBER.findall(text))


_NUMBER = re.compile(r"[\d.]+")
_PLACE = re.compile(rf"What is the ({'|'.join(PLACES)}) digit of (\d+)\?")
_SUM, _DIFFERENCE, _REVERSED, _DISTANCE = (1, 1, ""), (1, -1, ""), (-1, 1, ""), (1, -1, "distance")
# a and b are decimal numbers
_PHRASES = {
    "a + b": _SUM,
    "a+b": _SUM,
    "Work out a + b.": _SUM,
    "Add a and b.": _SUM,
    "Add together a and b.": _SUM,
    "Put together a and b.": _SUM,
    "Sum a and b.": _SUM,
    "Total of a and b.": _SUM,
    "What is a plus b?": _SUM,
    "Calculate a + b.": _SUM,
    "What is a + b?": _SUM,
    "a - b": _DIFFERENCE,
    "Work out a - b.": _DIFFERENCE,
    "What is a minus b?": _DIFFERENCE,
    "What is a take away b?": _DIFFERENCE,
    "What is a - b?": _DIFFERENCE,
    "Calculate a - b.": _DIFFERENCE,
    "Subtract a from b.": _REVERSED,
    "What is a less than b?": _REVERSED,
    "What is the distance between a and b?": _DISTANCE,
    "What is the difference between a and b?": _DISTANCE,
}
_PATTERNS = [
    (
        re.compile(re.sub(r"\b([ab])\b", r"(?P<\1>-?[0-9.]+?)", re.escape(phrase).replace(r"\ ", " "))),
        meaning,
    )
    for phrase, meaning in _PHRASES.items()
]
