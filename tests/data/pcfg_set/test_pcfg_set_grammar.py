"""PCFG SET's functions by hand, against a recursive version, and the distribution of new examples."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hf_sysgen.data.pcfg_set.generator
from hf_sysgen.data.pcfg_set.generator import PUBLISHED_LENGTHS, Rates, generate
from hf_sysgen.data.pcfg_set.grammar import (
    BINARY,
    FUNCTIONS,
    SYMBOLS,
    UNARY,
    adjacent_functions,
    exceptional_targets,
    functions,
    interpret,
    without_synonyms,
)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("copy A1 B2 C3", "A1 B2 C3"),
        ("reverse A1 B2 C3", "C3 B2 A1"),
        ("shift A1 B2 C3", "B2 C3 A1"),
        ("echo A1 B2 C3", "A1 B2 C3 C3"),
        ("swap_first_last A1 B2 C3 D4", "D4 B2 C3 A1"),
        ("swap_first_last A1 B2", "B2 A1"),
        ("repeat A1 B2", "A1 B2 A1 B2"),
        ("append A1 B2 , C3", "A1 B2 C3"),
        ("prepend A1 B2 , C3", "C3 A1 B2"),
        ("remove_first A1 B2 , C3", "C3"),
        ("remove_second A1 B2 , C3", "A1 B2"),
        # which comma belongs to which function
        ("append append A1 , B1 , C1", "A1 B1 C1"),
        ("append A1 , prepend B1 , C1", "A1 C1 B1"),
        ("prepend repeat A1 , remove_first shift B1 C1 , D1", "D1 A1 A1"),
        # Hupkes et al. 2020 and Csordas et al. 2021, section 3.1
        ("reverse copy O14 O4 C12 J14 W3", "W3 J14 C12 O4 O14"),
    ],
)
def test_interpret(source: str, target: str) -> None:
    assert interpret(source) == target


@pytest.mark.parametrize(
    "source",
    ["", "copy", "append A1", "append A1 ,", "append , A1", "append A1 , , B1", "A1 , B1", "copy A1 , B1", ", A1",
     "A1 copy B1", "append A1 , B1 , C1", "copy A21", "copy_twin A1"],
)  # fmt: skip
def test_not_of_the_grammar(source: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(source))):
        interpret(source)


Tree = tuple  # (function, argument, ...), or symbols
STRINGS = st.lists(st.sampled_from(SYMBOLS), min_size=2, max_size=5).map(tuple)
TREES = st.recursive(
    STRINGS,
    lambda inner: (
        st.tuples(st.sampled_from(list(UNARY)), inner) | st.tuples(st.sampled_from(list(BINARY)), inner, inner)
    ),
    max_leaves=13,
)


def written(tree: Tree) -> str:
    return f"{tree[0]} {' , '.join(map(written, tree[1:]))}" if tree[0] in FUNCTIONS else " ".join(tree)


def evaluated(tree: Tree) -> list[str]:
    """The same, as the paper defines it, symbol by symbol."""
    if tree[0] not in FUNCTIONS:
        return list(tree)
    x, *more = [evaluated(argument) for argument in tree[1:]]
    n = len(x)
    match tree[0]:
        case "copy":
            return [x[i] for i in range(n)]
        case "reverse":
            return [x[n - 1 - i] for i in range(n)]
        case "shift":
            return [x[(i + 1) % n] for i in range(n)]
        case "echo":
            return [x[min(i, n - 1)] for i in range(n + 1)]
        case "swap_first_last":
            return [x[{0: n - 1, n - 1: 0}.get(i, i)] for i in range(n)]
        case "repeat":
            return [x[i % n] for i in range(2 * n)]
        case "append":
            return [*x, *more[0]]
        case "prepend":
            return [*more[0], *x]
        case "remove_first":
            return more[0]
    return x


@given(TREES)
def test_interpret_is_the_recursive_definition(tree: Tree) -> None:
    assert interpret(written(tree)) == " ".join(evaluated(tree))


def test_deep_sources() -> None:
    assert interpret("shift " * 10_001 + "A1 B2") == "B2 A1"


def test_functions_of_a_source() -> None:
    source = "append repeat remove_second A1 , B1 , copy C1"
    assert functions(source) == ["append", "repeat", "remove_second", "copy"]
    # a function after a comma is not next to the one before it
    assert adjacent_functions(source) == {("append", "repeat"), ("repeat", "remove_second")}
    assert without_synonyms("append_twin repeat A1 , B1") == "append repeat A1 , B1"


def test_exceptions() -> None:
    # Hupkes et al. 2020: a pair means another pair; line 82,375 of upstream's train file with 0.1 % of exceptions
    assert exceptional_targets("prepend reverse R1 J11 , K8 L16 Y18") == {"R1 J11 J11"}
    assert exceptional_targets("reverse echo A1 B1") == {"A1 B1 B1"}
    assert exceptional_targets("echo remove_first A1 , B1") == {"A1 B1"}
    assert exceptional_targets("prepend remove_first A1 , B1 , C1") == {"A1 B1"}
    assert exceptional_targets("prepend reverse echo A1 B1 , C1") == {"A1 B1 B1 B1", "C1 A1 B1 B1"}
    assert exceptional_targets("echo reverse A1 B1") == set()


def test_generated() -> None:
    pairs = list(generate(3_001, seed=7))
    assert list(generate(11, seed=7)) == pairs[:11]
    assert next(generate(1, seed=8)) != pairs[0]
    sources = [source for source, _ in pairs]
    assert all(interpret(source) == target for source, target in pairs)
    assert max(len(source.split()) for source in sources) <= 71
    # no string of symbols stands in two places
    arguments = [words for source in sources for part in source.split(",") if (words := _symbols(part))]
    assert len(set(arguments)) == len(arguments)
    assert {len(words) for words in arguments} == {2, 3, 4, 5}


def _symbols(part: str) -> tuple[str, ...]:
    return tuple(word for word in part.split() if word not in FUNCTIONS)


def test_generated_lengths_and_shapes_are_the_published_ones() -> None:
    sources = [source for source, _ in generate(6_007)]
    found, published = Counter(len(functions(source)) for source in sources), PUBLISHED_LENGTHS
    total = sum(published.values())
    assert total == 14_581
    for length in range(1, 13):
        share = published[length] / total
        # 5 standard errors
        assert abs(found[length] / 6_007 - share) < 5 * (share * (1 - share) / 6_007) ** 0.5
    # means of the published base dev and test files: 18.3 words, 2.04 commas; 5 % either way
    assert sum(len(source.split()) for source in sources) / 6_007 == pytest.approx(18.3, rel=0.05)
    assert sum(source.count(",") for source in sources) / 6_007 == pytest.approx(2.04, rel=0.05)


def test_generated_with_given_lengths() -> None:
    sources = [source for source, _ in generate(101, lengths={9: 1, 11: 3}, rates=Rates(unary=0.9, unary_first=0.9))]
    assert {len(functions(source)) for source in sources} == {9, 11}
    calls = [function for source in sources for function in functions(source)]
    # far more than the 63 % of the default
    assert sum(function in UNARY for function in calls) > 0.75 * len(calls)


def test_strings_that_are_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """No string comes twice: of two symbols there are four of length two."""
    monkeypatch.setattr(hf_sysgen.data.pcfg_set.generator, "SYMBOLS", ("A1", "B1"))
    pairs = generate(9, lengths={1: 1}, rates=Rates(unary_first=1 - 1e-9, string_lengths=(1, 0, 0, 0)))
    assert len({next(pairs)[0].partition(" ")[2] for _ in range(4)}) == 4
    with pytest.raises(ValueError, match="strings"):
        next(pairs)


def test_what_cannot_be_generated() -> None:
    with pytest.raises(ValueError, match=r"3 functions .* 4 words"):
        next(generate(1, lengths={3: 1}, max_words=4))
    assert len(next(generate(1, lengths={3: 1}, max_words=5))[0].split()) == 5
    with pytest.raises(ValueError, match="lengths"):
        next(generate(1, lengths={0: 1, 1: 1}))
    with pytest.raises(ValueError, match=r"unary=1\.5"):
        Rates(unary=1.5)
    with pytest.raises(ValueError, match="string_lengths"):
        Rates(string_lengths=(0, 0, 0, 0))
    assert list(islice(generate(0), 1)) == []
