"""The structure of COGS' logical forms, and what is derived from it."""

from __future__ import annotations

import pytest
from upstream_files import Files

from hf_sysgen.data.cogs.files import Example, chain, has_modified_subject, parse, use
from hf_sysgen.data.cogs.forms import Conjunct, LogicalForm, is_name, parse_form

NEED = (
    "* girl ( x _ 1 ) ; "
    "need . agent ( x _ 2 , x _ 1 ) AND need . xcomp ( x _ 2 , x _ 4 ) AND cook . agent ( x _ 4 , x _ 1 )"
)


def test_sentence() -> None:
    target = (
        "* bag ( x _ 6 ) ; paint . agent ( x _ 1 , Ava ) AND paint . theme ( x _ 1 , x _ 3 ) AND cat ( x _ 3 ) AND "
    )
    form = parse_form(target + "cat . nmod . in ( x _ 3 , x _ 6 )")
    assert form.binders == ()
    assert form.conjuncts == (
        Conjunct("bag", "x _ 6", definite=True),
        Conjunct("paint . agent", "x _ 1", "Ava"),
        Conjunct("paint . theme", "x _ 1", "x _ 3"),
        Conjunct("cat", "x _ 3"),
        Conjunct("cat . nmod . in", "x _ 3", "x _ 6"),
    )
    assert [conjunct.head for conjunct in form.conjuncts] == ["bag", "paint", "paint", "cat", "cat"]
    assert [conjunct.role for conjunct in form.conjuncts] == ["", "agent", "theme", "", "nmod . in"]


def test_primitive() -> None:
    assert parse_form("LAMBDA a . LAMBDA e . cook . agent ( e , a )") == LogicalForm(
        (Conjunct("cook . agent", "e", "a"),), ("a", "e")
    )


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("Ava", "no conjunct of a logical form: 'Ava'"),
        ("", "no conjunct of a logical form: ''"),
        ("girl ( x _ 1 ) ; run . agent ( x _ 2 , x _ 1 )", "only a definite noun"),
        ("* run . agent ( x _ 2 , x _ 1 ) ; girl ( x _ 1 )", "only a definite noun"),
        ("run . agent ( x _ 2 , x _ 1 ) AND * girl ( x _ 1 )", "'* girl ( x _ 1 )'"),
        ("run . agent ( x _ 2 , x _ 1", "'run . agent ( x _ 2 , x _ 1'"),
        ("run . agent ( Ava , x _ 1 )", "'run . agent ( Ava , x _ 1 )'"),
        ("run . agent ( x _ 2 , x _ 1 ) AND", "no conjunct"),
        ("a . b . c . d ( x _ 2 )", "no conjunct"),
        ("LAMBDA a . LAMBDA a . cook ( a )", "LAMBDA must bind each variable once"),
        ("LAMBDA a . cook . agent ( e , a )", "LAMBDA must bind each variable once"),
        ("LAMBDA a cook ( a )", "no variable after LAMBDA"),
    ],
)
def test_malformed(target: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]*$") as caught:
        parse_form(target)
    assert message in str(caught.value)


def test_names() -> None:
    assert [word for word in ("Ava", "cat", "TV", "") if is_name(word)] == ["Ava"]


def test_use() -> None:
    sentence = "The girl needed to cook ."
    assert use(sentence, parse_form(NEED), "girl") == {"agent in agent V xcomp", "agent in agent V"}
    assert use(sentence, parse_form(NEED), "cook") == {"xcomp: agent V"}
    assert use(sentence, parse_form(NEED), "need") == {"agent V xcomp"}
    assert use(sentence, parse_form(NEED), "boy") == set()
    passive = parse_form("cake ( x _ 1 ) AND give . theme ( x _ 3 , x _ 1 ) AND give . recipient ( x _ 3 , Ava )")
    assert use("A cake was given to Ava .", passive, "give") == {"theme was V recipient"}
    assert use("A cake was given to Ava .", passive, "Ava") == {"recipient in theme was V recipient"}


def test_depth() -> None:
    nested = "see . theme ( x _ 1 , x _ 3 ) AND cat ( x _ 3 ) AND cat . nmod . in ( x _ 3 , x _ 6 ) AND box ( x _ 6 )"
    form = parse_form(f"{nested} AND box . nmod . on ( x _ 6 , x _ 9 ) AND table ( x _ 9 )")
    assert (chain(form, "nmod"), chain(form, "ccomp"), has_modified_subject(form)) == (2, 0, False)
    subject = parse_form(
        "cat ( x _ 1 ) AND cat . nmod . in ( x _ 1 , x _ 4 ) AND box ( x _ 4 ) AND run . agent ( x _ 5 , x _ 1 )"
    )
    assert (chain(subject, "nmod"), has_modified_subject(subject)) == (1, True)
    assert chain(parse_form("a . ccomp ( x _ 1 , x _ 2 ) AND a . ccomp ( x _ 2 , x _ 1 )"), "ccomp") == 0


def test_files() -> None:
    assert parse(b"Ava ran .\trun . agent ( x _ 1 , Ava )\tin_distribution\n") == [
        Example("Ava ran .", "run . agent ( x _ 1 , Ava )", "in_distribution")
    ]
    with pytest.raises(ValueError, match="line 2 has 2 columns"):
        parse(b"a\tb\tc\nd\te\n")


def test_every_target_is_a_form(files: Files) -> None:
    examples = [example for name in ("train", "dev") for example in parse(files.read(f"cogs/{name}.tsv"))]
    names = 0
    for sentence, target, category in examples:
        if target == sentence:
            assert category == "primitive"
            assert is_name(target)
            names += 1
            continue
        form = parse_form(target)
        parts = [
            f"{'* ' * conjunct.definite}{conjunct.predicate} ( {' , '.join(filter(None, conjunct[1:3]))} )"
            for conjunct in form.conjuncts
        ]
        definite = sum(conjunct.definite for conjunct in form.conjuncts)
        written = " ; ".join([*parts[:definite], " AND ".join(parts[definite:])])
        assert "".join(f"LAMBDA {variable} . " for variable in form.binders) + written == target
    assert names == 21
