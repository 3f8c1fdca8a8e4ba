"""Matches on real forms, and on small ones compared with a search over all renamings."""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from reference.cogs_logical_form import to_logical_form
from upstream_files import Files

from hf_sysgen.data.cogs.files import parse
from hf_sysgen.data.cogs.forms import is_variable, parse_form
from hf_sysgen.data.cogs.variable_free_forms import to_variable_free
from hf_sysgen.evaluation.metrics.cogs_match import exact_match, renaming_match, semantic_match

NEED = (
    "* girl ( x _ 1 ) ; "
    "need . agent ( x _ 2 , x _ 1 ) AND need . xcomp ( x _ 2 , x _ 4 ) AND cook . agent ( x _ 4 , x _ 1 )"
)
COOK = "LAMBDA a . LAMBDA b . LAMBDA e . cook . agent ( e , b ) AND cook . theme ( e , a )"


@pytest.fixture(scope="module")
def gold(files: Files) -> list[str]:
    """Targets of the generalization set, and the longest ones."""
    targets = [example.target for example in parse(files.read("cogs/gen.tsv"))]
    return [*targets[:: 20 if files.whole else 1], *sorted(targets, key=len)[-20:]]


def split(form: str) -> tuple[list[str], list[str]]:
    *definite, rest = form.split(" ; ")
    return definite, rest.split(" AND ")


def join(definite: list[str], others: list[str]) -> str:
    return " ; ".join([*definite, " AND ".join(others)])


def renamed(form: str, source: random.Random) -> str:
    names = sorted(set(re.findall(r"x _ \d+", form)))
    numbers = dict(zip(names, source.sample(range(120), len(names)), strict=True))
    return re.sub(r"x _ \d+", lambda name: f"x _ {numbers[name[0]]}", form)


def reordered(form: str, source: random.Random) -> str:
    parts = split(form)
    for part in parts:
        source.shuffle(part)
    return join(*parts)


@given(st.integers(0, 10**6), st.randoms(use_true_random=False))
@settings(max_examples=150)
def test_same_meaning(gold: list[str], row: int, source: random.Random) -> None:
    form = gold[row % len(gold)]
    other = renamed(form, source)
    assert renaming_match(other, form)
    assert semantic_match(other, form)
    assert renaming_match(form, other)
    mixed = reordered(other, source)
    assert semantic_match(mixed, form)
    assert semantic_match(form, mixed)
    assert exact_match(mixed, form) == (mixed == form)
    # renaming keeps the order
    assert renaming_match(mixed, form) == (reorder_free(mixed) == reorder_free(form))


def reorder_free(form: str) -> str:
    """The form with variables numbered by first occurrence: an independent version of `renaming_match`."""
    order = list(dict.fromkeys(re.findall(r"x _ \d+", form)))
    return re.sub(r"x _ \d+", lambda name: f"v{order.index(name[0])}", form)


CHANGES = ("role", "predicate", "name", "star", "drop", "repeat", "merge", "split")


@given(st.integers(0, 10**6), st.sampled_from(CHANGES), st.randoms(use_true_random=False))
@settings(max_examples=300)
def test_other_meaning(gold: list[str], row: int, change: str, source: random.Random) -> None:
    form = gold[row % len(gold)]
    definite, others = split(form)
    place = source.randrange(len(others))
    tokens = others[place].split()
    if change == "role":
        assume(tokens[1] == ".")
        tokens[tokens.index("(") - 1] = "beside" if tokens[2] == "nmod" and tokens[4] != "beside" else "patient"
    elif change == "predicate":
        tokens[0] = "unicorn"
    elif change == "name":
        assume(tokens[-2][0].isupper())
        tokens[-2] = "Nobody"
    others[place] = " ".join(tokens)
    if change == "star":
        assume(definite)
        others.append(definite.pop(source.randrange(len(definite))).removeprefix("* "))
    elif change == "drop":
        assume(len(others) > 1)
        del others[place]
    elif change == "repeat":
        others.append(others[place])
    variables = sorted(set(re.findall(r"x _ \d+", form)))
    other = join(definite, others)
    if change == "merge":
        assume(len(variables) > 1)
        first, second = source.sample(variables, 2)
        other = re.sub(rf"{first}\b", second, other)
    elif change == "split":
        # one occurrence of a variable that occurs again
        several = [name for name, count in Counter(re.findall(r"x _ \d+", form)).items() if count > 1]
        assume(several)
        other = re.sub(rf"{source.choice(several)}\b", "x _ 999", other, count=1)
    assert other != form
    other = reordered(renamed(other, source), source)
    assert not semantic_match(other, form)
    assert not semantic_match(form, other)
    assert not renaming_match(other, form)


def brute_force(prediction: str, reference: str) -> bool:
    """All one to one renamings, one after the other."""
    ours, theirs = (parse_form(text).conjuncts for text in (prediction, reference))
    names = [
        sorted({word for conjunct in conjuncts for word in conjunct[1:3] if is_variable(word)})
        for conjuncts in (ours, theirs)
    ]
    if len(names[0]) != len(names[1]):
        return False
    wanted = Counter(theirs)
    for permuted in itertools.permutations(names[1]):
        renaming = dict(zip(names[0], permuted, strict=True))
        new = [c._replace(variable=renaming[c.variable], argument=renaming.get(c.argument, c.argument)) for c in ours]
        if Counter(new) == wanted:
            return True
    return False


variables = st.integers(1, 5).map("x _ {}".format)
nouns = st.builds("{} ( {} )".format, st.sampled_from(["cat", "dog"]), variables)
links = st.builds(
    "see . {} ( {} , {} )".format, st.sampled_from(["agent", "theme"]), variables, variables | st.just("Ava")
)
forms = st.builds(join, st.lists(nouns.map("* {}".format), max_size=2), st.lists(nouns | links, min_size=1, max_size=7))


@given(forms, forms, st.booleans(), st.booleans(), st.randoms(use_true_random=False))
@settings(max_examples=400)
def test_as_all_renamings(form: str, other: str, same: bool, redirect: bool, source: random.Random) -> None:
    if same:
        other = reordered(renamed(form, source), source)
        names = re.findall(r"x _ \d+", other)
        if redirect:
            # the same predicates, and often the same number of everything
            other = re.sub(r"x _ \d+", lambda _: source.choice(names), other)
    assert semantic_match(other, form) == brute_force(other, form)


def test_alike_variables() -> None:
    # two triangles and a hexagon: what is said of each variable and its neighbours is the same
    def ring(*nodes: int) -> list[str]:
        return [f"see . theme ( x _ {a} , x _ {b} )" for a, b in zip(nodes, (*nodes[1:], nodes[0]), strict=True)]

    triangles, hexagon = ring(1, 2, 3) + ring(4, 5, 6), ring(1, 2, 3, 4, 5, 6)
    assert not semantic_match(join([], triangles), join([], hexagon))
    assert semantic_match(join([], ring(6, 2, 4, 1, 3, 5)), join([], hexagon))
    assert semantic_match(join([], ring(4, 2, 6) + ring(1, 5, 3)), join([], triangles))
    # a variable of the triangles may be renamed to some of those that are alike, not to all
    for seed in range(12):
        source = random.Random(seed)
        both = join([], triangles + ring(7, 8, 9, 10, 11, 12))
        assert semantic_match(reordered(renamed(both, source), source), both)


@pytest.mark.parametrize("length", range(1, 7))
def test_difference_far_away(length: int) -> None:
    # what is said of a variable and those near it is the same in both; which chain ends in the dog is not
    def chains(first: str, second: str) -> str:
        steps = [*range(2, 2 + length), *range(12, 12 + length)]
        links = [f"box . nmod . in ( x _ {node} , x _ {node + 1} )" for node in steps]
        ends = [f"{first} ( x _ {2 + length} )", f"{second} ( x _ {12 + length} )"]
        return join([], ["see . agent ( x _ 1 , x _ 2 )", "see . theme ( x _ 1 , x _ 12 )", *links, *ends])

    assert not semantic_match(chains("cat", "dog"), chains("dog", "cat"))
    source = random.Random(3)
    assert semantic_match(reordered(renamed(chains("cat", "dog"), source), source), chains("cat", "dog"))


def test_real_forms_renamed_and_reordered(gold: list[str]) -> None:
    source = random.Random(5)
    pairs = [(reordered(renamed(form, source), source), form) for form in gold]
    pairs = [pair for pair in pairs if not renaming_match(*pair)]
    assert len(pairs) > 0.75 * len(gold)
    assert all(semantic_match(*pair) for pair in pairs)


def test_round_trip_of_variable_free_form(gold: list[str]) -> None:
    for form in gold:
        assert semantic_match(to_logical_form(to_variable_free(form)), form)


@pytest.mark.parametrize(
    ("prediction", "reference", "exact", "renaming", "semantic"),
    [
        (NEED, NEED, True, True, True),
        (f"  {NEED.replace(' AND ', '   AND ')} ", NEED, True, True, True),
        (NEED.replace("x _ 4", "x _ 11"), NEED, False, True, True),
        # not one to one
        (NEED.replace("x _ 4", "x _ 2"), NEED, False, False, False),
        (NEED.replace("* girl ( x _ 1 ) ; ", "") + " AND * girl ( x _ 1 )", NEED, False, False, False),
        (NEED.replace("* girl ( x _ 1 ) ; ", "") + " AND girl ( x _ 1 )", NEED, False, False, False),
        (NEED + " AND", NEED, False, False, False),
        ("", NEED, False, False, False),
        ("Ava", "Ava", True, True, True),
        ("Ava", "Mia", False, False, False),
        (COOK.replace(" e ", " c "), COOK, False, True, True),
        # a becomes b and b becomes a
        (COOK.replace(" a ", " z ").replace(" b ", " a ").replace(" z ", " b "), COOK, False, True, True),
        (
            "LAMBDA a . LAMBDA b . LAMBDA e . cook . theme ( e , a ) AND cook . agent ( e , b )",
            COOK,
            False,
            False,
            True,
        ),
        # agent and theme are taken in the other order
        (
            "LAMBDA a . LAMBDA b . LAMBDA e . cook . agent ( e , a ) AND cook . theme ( e , b )",
            COOK,
            False,
            False,
            False,
        ),
        ("LAMBDA a . LAMBDA e . cook . agent ( e , a )", COOK, False, False, False),
        ("cook . agent ( x _ 1 , x _ 2 ) AND cook . theme ( x _ 1 , x _ 3 )", COOK, False, False, False),
    ],
)
def test_by_hand(prediction: str, reference: str, exact: bool, renaming: bool, semantic: bool) -> None:
    assert exact_match(prediction, reference) is exact
    assert renaming_match(prediction, reference) is renaming
    assert semantic_match(prediction, reference) is semantic
