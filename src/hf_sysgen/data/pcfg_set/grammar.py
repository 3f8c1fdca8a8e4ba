"""The functions of PCFG SET (Hupkes et al. 2020, arXiv:1908.08351): the meaning of a source.

A source is written in prefix notation without brackets; a comma separates the two arguments of a binary function:

    source    call | string
    call      unary source | binary source , source
    string    1 or more of the 520 symbols A1, ..., Z20

A source of the data starts with a function, and its strings have 2 to 5 symbols.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

Symbols = list[str]

UNARY: dict[str, Callable[[Symbols], Symbols]] = {
    "copy": lambda symbols: symbols,
    "reverse": lambda symbols: symbols[::-1],
    "shift": lambda symbols: symbols[1:] + symbols[:1],
    "echo": lambda symbols: symbols + symbols[-1:],
    # one symbol becomes two, as in the authors' code; the data has no such source
    "swap_first_last": lambda symbols: symbols[-1:] + symbols[1:-1] + symbols[:1],
    "repeat": lambda symbols: symbols + symbols,
}
BINARY: dict[str, Callable[[Symbols, Symbols], Symbols]] = {
    "append": lambda first, second: first + second,
    "prepend": lambda first, second: second + first,
    "remove_first": lambda first, second: second,
    "remove_second": lambda first, second: first,
}
FUNCTIONS = (*UNARY, *BINARY)
SYMBOLS = tuple(f"{letter}{number}" for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" for number in range(1, 21))
SEPARATOR = ","

# synonyms of four functions in the substitutivity test
SYNONYMS = {f"{function}_twin": function for function in ("swap_first_last", "repeat", "append", "remove_second")}
# pairs of adjacent functions in the overgeneralisation test -> the pair whose meaning they have in an exception
EXCEPTIONS = {
    ("reverse", "echo"): ("echo", "copy"),
    ("prepend", "remove_first"): ("remove_second", "append"),
    ("echo", "remove_first"): ("copy", "append"),
    ("prepend", "reverse"): ("remove_second", "echo"),
}

_FUNCTIONS = frozenset(FUNCTIONS)
_SYMBOLS = frozenset(SYMBOLS)


def interpret(source: str) -> str:
    """The target of a source: the symbols that it evaluates to.

    Raises:
        ValueError: the source is not of the grammar.
    """
    # reading starts at the right, so that arguments come before their function; None is a separator
    values: list[Symbols | None] = []
    string: Symbols = []
    for word in reversed(source.split()):
        if word in _SYMBOLS:
            string.append(word)
            continue
        if string:
            _push(values, string[::-1], source)
            string = []
        if word == SEPARATOR:
            if not values or values[-1] is None:
                raise ValueError(f"PCFG SET: nothing follows a comma in {source!r}")
            values.append(None)
        elif unary := UNARY.get(word):
            _push(values, unary(_argument(values, word, source)), source)
        elif binary := BINARY.get(word):
            first = _argument(values, word, source)
            if not values:
                raise ValueError(f"PCFG SET: {word} has one argument in {source!r}")
            values.pop()
            _push(values, binary(first, _argument(values, word, source)), source)
        else:
            raise ValueError(f"PCFG SET: unknown word {word!r} in {source!r}")
    if string:
        _push(values, string[::-1], source)
    if len(values) != 1 or values[0] is None:
        raise ValueError(f"PCFG SET: {source!r} is not one expression")
    return " ".join(values[0])


def functions(source: str) -> list[str]:
    """The functions of a source, in order; their number is its length in the productivity test."""
    return [word for word in source.split() if word in _FUNCTIONS]


def adjacent_functions(source: str) -> set[tuple[str, str]]:
    """The pairs of adjacent functions: the second makes the (first) argument of the first."""
    return {pair for pair in pairwise(source.split()) if _FUNCTIONS.issuperset(pair)}


def without_synonyms(source: str) -> str:
    """A source of the substitutivity test with the usual name of each function."""
    return " ".join(SYNONYMS.get(word, word) for word in source.split())


def exceptional_targets(source: str) -> set[str]:
    """The possible meanings of an exception in the overgeneralisation test, one for each of its `EXCEPTIONS`: only one
    pair of a source is exceptional, and the source does not show which."""
    present = adjacent_functions(source)
    return {
        interpret(source.replace(" ".join(pair), " ".join(meant)))
        for pair, meant in EXCEPTIONS.items()
        if pair in present
    }


def _push(values: list[Symbols | None], value: Symbols, source: str) -> None:
    if values and values[-1] is not None:
        raise ValueError(f"PCFG SET: two expressions without a comma between them in {source!r}")
    values.append(value)


def _argument(values: list[Symbols | None], function: str, source: str) -> Symbols:
    value = values.pop() if values else None
    if value is None:
        raise ValueError(f"PCFG SET: {function} lacks an argument in {source!r}")
    return value
