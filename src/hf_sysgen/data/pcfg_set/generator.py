"""New examples of PCFG SET, drawn from its grammar.

The published examples were drawn from a probabilistic grammar and then selected to have the lengths and depths of
English sentences, so no rates of the grammar alone give their lengths. Here the number of functions is drawn first,
from its frequencies in the published files, and then a source with that many functions.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType

from hf_sysgen.data.pcfg_set.grammar import BINARY, SEPARATOR, SYMBOLS, UNARY, interpret

# number of functions -> sources with it in the base dev and test files, 14,581 in all
PUBLISHED_LENGTHS: Mapping[int, int] = MappingProxyType(
    {
        1: 225, 2: 1870, 3: 2827, 4: 2745, 5: 1931, 6: 1495, 7: 967, 8: 740, 9: 500, 10: 366, 11: 279, 12: 215, 13: 118,
        14: 99, 15: 63, 16: 31, 17: 23, 18: 27, 19: 16, 20: 10, 21: 10, 22: 8, 23: 6, 24: 5, 25: 2, 28: 2, 30: 1,
    }
)  # fmt: skip

_STRING_LENGTHS = (2, 3, 4, 5)
_UNARY, _BINARY = tuple(UNARY), tuple(BINARY)
# draws of a source before giving up, as its number of functions and of words may be incompatible
_ATTEMPTS = 10_000


@dataclass(frozen=True)
class Rates:
    """Probabilities of the rules of the grammar. The defaults are the shares of each choice in the published base dev
    and test sources. As there, functions with the same number of arguments are equally likely, and so are symbols.

    Attributes:
        unary_first: that the first function is unary.
        unary: that any other function is unary.
        function_in_unary: that the argument of a unary function starts with a function.
        function_in_binary: the same for each argument of a binary function.
        string_lengths: weights of strings with 2, 3, 4 and 5 symbols; they need not sum to 1.

    Raises:
        ValueError: a rate is not between 0 and 1, or a share is negative.
    """

    unary_first: float = 0.504
    unary: float = 0.627
    function_in_unary: float = 0.643
    function_in_binary: float = 0.527
    string_lengths: tuple[float, float, float, float] = (0.159, 0.297, 0.277, 0.267)

    def __post_init__(self) -> None:
        for rate in fields(self)[:-1]:
            value = getattr(self, rate.name)
            if not 0 < value < 1:
                raise ValueError(f"PCFG SET: {rate.name}={value} must be between 0 and 1")
        if min(self.string_lengths) < 0 or sum(self.string_lengths) <= 0:
            raise ValueError(f"PCFG SET: string_lengths={self.string_lengths} must be shares of 0 or more")


def generate(
    num_examples: int,
    seed: int = 0,
    lengths: Mapping[int, float] = PUBLISHED_LENGTHS,
    rates: Rates | None = None,
    max_words: int = 71,
) -> Iterator[tuple[str, str]]:
    """New (source, target) pairs. As in the published files, no string of symbols stands in two places.

    Args:
        num_examples: how many.
        seed: the same seed gives the same pairs; a longer list starts with the same pairs.
        lengths: number of functions -> its weight; weights need not sum to 1.
        rates: probabilities of the rules; given the number of functions, they decide the shape of a source.
        max_words: maximum of words in a source, commas included, as in the published files. A longer source is drawn
            again, with the same number of functions.

    Raises:
        ValueError: a length is below 1, or no source with that many functions and at most `max_words` words was found.
    """
    if min(lengths) < 1:
        raise ValueError(f"PCFG SET: a source with {min(lengths)} functions is not one; lengths start at 1")
    rng = random.Random(seed)
    grammar = _Grammar(rng, rates or Rates(), max(lengths))
    counts, weights = list(lengths), list(lengths.values())
    for _ in range(num_examples):
        (num_functions,) = rng.choices(counts, weights)
        source = grammar.source(num_functions, max_words)
        yield source, interpret(source)


class _Grammar:
    """Draws sources with a given number of functions, with their exact conditional probabilities under the rates."""

    def __init__(self, rng: random.Random, rates: Rates, most: int) -> None:
        self._rng = rng
        self._rates = rates
        self._strings: set[tuple[str, ...]] = set()
        # n -> probability that an argument of a unary, or of a binary function has n functions in all
        self._in_unary = [1 - rates.function_in_unary]
        self._in_binary = [1 - rates.function_in_binary]
        for num_functions in range(1, most + 1):
            call = sum(self._splits(num_functions, rates.unary))
            self._in_unary.append(rates.function_in_unary * call)
            self._in_binary.append(rates.function_in_binary * call)

    def source(self, num_functions: int, max_words: int) -> str:
        for _ in range(_ATTEMPTS):
            words, strings = self._draw(num_functions)
            if len(words) <= max_words:
                self._strings |= strings
                return " ".join(words)
        raise ValueError(
            f"PCFG SET: found no source with {num_functions} functions and at most {max_words} words; raise max_words"
        )

    def _splits(self, num_functions: int, unary: float) -> list[float]:
        """Weights of the ways to distribute a call's functions: all in one argument, or k in the first of two."""
        rest = num_functions - 1
        in_two = [self._in_binary[k] * self._in_binary[rest - k] for k in range(num_functions)]
        return [unary * self._in_unary[rest], *((1 - unary) * weight for weight in in_two)]

    def _draw(self, num_functions: int) -> tuple[list[str], set[tuple[str, ...]]]:
        words: list[str] = []
        strings: set[tuple[str, ...]] = set()
        # items still to write, the next one last: a word, or the number of functions of an expression
        pending: list[str | int] = [num_functions]
        while pending:
            item = pending.pop()
            if isinstance(item, str):
                words.append(item)
            elif item == 0:
                words += self._string(strings)
            else:
                splits = self._splits(item, self._rates.unary if words else self._rates.unary_first)
                (split,) = self._rng.choices(range(item + 1), splits)
                words.append(self._rng.choice(_BINARY if split else _UNARY))
                pending += [item - split, SEPARATOR, split - 1] if split else [item - 1]
        return words, strings

    def _string(self, own: set[tuple[str, ...]]) -> tuple[str, ...]:
        """A new string for this source; it is added to the source's strings. Raises ValueError: none is left."""
        for _ in range(_ATTEMPTS):
            (length,) = self._rng.choices(_STRING_LENGTHS, self._rates.string_lengths)
            string = tuple(self._rng.choices(SYMBOLS, k=length))
            if string not in self._strings and string not in own:
                own.add(string)
                return string
        raise ValueError(
            "PCFG SET: nearly all strings of these lengths are taken; ask for fewer examples or longer strings"
        )
