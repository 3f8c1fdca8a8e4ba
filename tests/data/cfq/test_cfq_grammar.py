"""The trees of CFQ's questions: by hand, well formed for all sentences of the grammar, and its rules."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from upstream_files import Files

from hf_sysgen.data.cfq.files import original_question
from hf_sysgen.data.cfq.grammar import Rule, parse, rules, words
from hf_sysgen.data.cfq.trees import is_tree

BY_PARENT: dict[str, list[Rule]] = {}
for _rule in rules():
    BY_PARENT.setdefault(_rule.parent, []).append(_rule)
WORDS_OF: dict[str, list[str]] = {}
for _word, _symbols in sorted(words().items()):
    for _symbol in _symbols:
        WORDS_OF.setdefault(_symbol, []).append(_word)

BY_HAND = [
    # "did" helps "direct", whose object is the head of the coordinated names
    ("Did M0 direct M1 , M2 , and M3", "3:AUX 3:NSUBJ 0:ROOT 3:OBJ 6:PUNCT 4:CONJ 9:PUNCT 9:CC 4:CONJ"),
    ("Was a film director M0 's spouse", "7:COP 4:DET 4:COMPOUND 7:NSUBJ 7:NMOD 5:CASE 0:ROOT"),
    ("Was M0 Dutch", "3:COP 3:NSUBJ 0:ROOT"),
    ("What was influenced by M1", "3:NSUBJ 3:AUX 0:ROOT 3:CASE 3:OBL"),
    ("Which actor that M1 married did M2 employ", "2:DET 8:OBJ 5:OBJ 5:NSUBJ 2:ACL 8:AUX 8:NSUBJ 0:ROOT"),
    # whose sibling: the owner depends on what is owned, not on the verb
    ("Who married a person whose sibling wrote M0", "2:NSUBJ 0:ROOT 4:DET 2:OBJ 6:NMOD 7:NSUBJ 4:ACL 7:OBJ"),
    ("Was M1 's country of nationality M0", "7:COP 4:NMOD 2:CASE 7:NSUBJ 6:CASE 4:NMOD 0:ROOT"),
    ("What was M0 's gender", "5:NSUBJ 5:COP 5:NMOD 3:CASE 0:ROOT"),
    # two passives that share what follows
    ("What was written and edited by M0", "3:NSUBJ 3:AUX 0:ROOT 5:CC 3:CONJ 3:CASE 3:OBL"),
    ("Who founded M0 and married M1", "2:NSUBJ 0:ROOT 2:OBJ 5:CC 2:CONJ 5:OBJ"),
]


@pytest.mark.parametrize(("question", "expected"), BY_HAND)
def test_by_hand(question: str, expected: str) -> None:
    tree = parse(question)
    assert tree is not None
    found = " ".join(f"{head}:{label}" for head, label in zip(tree.heads, tree.labels, strict=True))
    assert found == expected


@pytest.mark.parametrize(
    "question", ["", "Did M0", "M0 direct M1", "Did M0 direct M10", "did Did", "Did M0 direct M1 and"]
)
def test_no_question(question: str) -> None:
    assert parse(question) is None


# symbol: rules on the shortest way down to a word
HEIGHT = dict.fromkeys(WORDS_OF, 0)
while missing := set(BY_PARENT) - set(HEIGHT):
    for _parent in missing:
        if _below := [
            max(map(HEIGHT.__getitem__, r.children)) for r in BY_PARENT[_parent] if {*r.children} <= {*HEIGHT}
        ]:
            HEIGHT[_parent] = min(_below) + 1


def sentence(symbol: str, depth: int, rng: random.Random) -> list[str]:
    """A random expansion of a symbol; below a depth the shortest one."""
    allowed = [
        rule
        for rule in BY_PARENT.get(symbol, [])
        if depth > 0 or all(HEIGHT[child] < HEIGHT[symbol] for child in rule.children)
    ]
    chosen = rng.choice([*allowed, *WORDS_OF.get(symbol, [])])
    if isinstance(chosen, str):
        return [chosen]
    return [word for child in chosen.children for word in sentence(child, depth - 1, rng)]


@settings(max_examples=60)
@given(st.integers(0, 1 << 32))
def test_every_sentence_of_the_grammar_has_a_tree(seed: int) -> None:
    tokens = sentence("S", 4, random.Random(seed))
    assume(len(tokens) <= 20)
    tree = parse(" ".join(tokens))
    assert tree is not None
    assert len(tree.heads) == len(tree.labels) == len(tokens)
    check_tree(tree)


def check_tree(tree: tuple) -> None:
    heads, labels = tree
    assert is_tree(heads)
    assert [head for head, label in zip(heads, labels, strict=True) if label == "ROOT"] == [0]
    assert all(labels)
    # no two arcs cross: phrases are of adjacent words
    arcs = [tuple(sorted((token, head))) for token, head in enumerate(heads, start=1) if head]
    assert not any(a < c < b < d for a, b in arcs for c, d in arcs)


def test_rules_are_those_of_the_paper(data_dir: Path) -> None:
    text = (data_dir / "cfq_dependency" / "question_grammar.cfg").read_text()
    # this copy has one word broken over two lines
    text = text.replace("punctCom- monNoun", "punctCommonNoun")
    theirs: set[tuple[str, ...]] = set()
    lexicon: dict[str, set[str]] = {}
    for line in text.splitlines():
        parent, arrow, right = (part.strip() for part in line.partition("->"))
        if line.startswith("#") or not arrow:
            continue
        if quoted := re.findall(r"'([^']+)'(?= |$)|\"([^\"]+)\"", right):
            for word in quoted:
                lexicon.setdefault("".join(word), set()).add(parent)
        else:
            # names of helping symbols are not spelled alike throughout
            theirs.add((parent.lower(), *right.lower().split()))
    assert {(rule.parent.lower(), *(child.lower() for child in rule.children)) for rule in rules()} == theirs
    assert len(theirs) == 103
    # what they print cannot say "gender"
    assert {word: set(symbols) for word, symbols in words().items() if word != "gender"} == lexicon
    assert words()["gender"] == {"role"}


def test_heads_and_labels() -> None:
    for rule in rules():
        assert [child for child, label in enumerate(rule.labels) if not label] == [rule.head], rule
        assert rule.governors[rule.head] == rule.head
    assert {label for rule in rules() for label in rule.labels} - {""} == {
        *("ACL", "AMOD", "AUX", "CASE", "CC", "COMPOUND", "CONJ", "COP", "DET", "NMOD", "NSUBJ", "OBJ", "OBL", "PUNCT")
    }


def questions(files: Files, part: str) -> list[str]:
    return [original_question(line) for line in files.lines(f"cfq/mcd1/{part}/{part}_encode.txt")]


def test_real_questions(files: Files) -> None:
    for part in ("train", "dev", "test"):
        for question in questions(files, part)[:: 151 if files.whole else 1]:
            tree = parse(question)
            assert tree is not None, question
            check_tree(tree)


@pytest.mark.slow
def test_all_real_questions(data_dir: Path) -> None:
    for part in ("train", "dev", "test"):
        for question in questions(Files(data_dir, whole=True), part):
            tree = parse(question)
            assert tree is not None, question
            check_tree(tree)
