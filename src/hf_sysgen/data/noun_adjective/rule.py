"""Which sentences are held out by their noun-adjective pairs: the rule of Chaabouni et al. 2021, section 4.2."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hf_sysgen.data.conllu import Word

# noun -> its only adjective in train; French puts these after the noun ("backward")
BACKWARD = {
    "response": "specific",
    "institution": "particular",
    "organisation": "effective",
    "solution": "permanent",
}
# French puts these before the noun ("forward")
FORWARD = {"source": "new", "decision": "good", "responsibility": "big", "population": "first"}

# adjective, noun
TRAIN_PAIRS = tuple((adjective, noun) for noun, adjective in (BACKWARD | FORWARD).items())
# 32 pairs: nouns of one table with the adjectives of the other
HELD_OUT = tuple(
    (adjective, noun)
    for nouns, others in ((BACKWARD, FORWARD), (FORWARD, BACKWARD))
    for noun in nouns
    for adjective in others.values()
)

# lowercase form -> noun; Europarl has both organisation and organization
FORMS = {
    form: noun
    for noun in BACKWARD | FORWARD
    for singular in {noun, noun.replace("isation", "ization")}
    for form in (singular, f"{singular[:-1]}ies" if singular.endswith("y") else f"{singular}s")
}
_FORM = re.compile(rf"\b(?:{'|'.join(FORMS)})\b", re.IGNORECASE)


class Use(NamedTuple):
    """One of the eight nouns in a sentence, and the adjectives that modify it."""

    noun: str
    adjectives: frozenset[str]


def nouns(sentence: str) -> list[str]:
    """The eight nouns as far as they are in a sentence, with repetitions; parts of hyphenated words count."""
    return [FORMS[form.lower()] for form in _FORM.findall(sentence)]


def uses(sentence: str, parse: Sequence[Word]) -> list[Use]:
    """
    The uses of the eight nouns in a sentence.

    An adjective modifies a noun as its `amod`, or coordinated with one ("specific and effective responses"). A noun
    inside a longer token ("open-source") has no adjective.
    """
    found = []
    for number, word in enumerate(parse, 1):
        if noun := FORMS.get(word.form.lower()):
            adjectives = {at for at, other in enumerate(parse, 1) if other.head == number and other.relation == "amod"}
            while more := {
                at
                for at, other in enumerate(parse, 1)
                if other.head in adjectives and other.relation.startswith("conj") and at not in adjectives
            }:
                adjectives |= more
            found.append(Use(noun, frozenset(_base(parse[at - 1]) for at in adjectives)))
    inside = Counter(nouns(sentence)) - Counter(use.noun for use in found)
    return found + [Use(noun, frozenset()) for noun in inside.elements()]


def split_of(sentence_uses: Iterable[Use], bare: bool) -> str | None:
    """
    The split of a sentence.

    Args:
        sentence_uses: its uses of the eight nouns.
        bare: whether a noun without an adjective may be in any split; the paper does not say.

    Returns:
        "train" if each noun has its one adjective and no other; "test" if there is at least one noun and each has only
        adjectives of the other table; otherwise None: the sentence is left out.
    """
    modified = [use for use in sentence_uses if use.adjectives or not bare]
    held_out = set(HELD_OUT)
    if all(use.adjectives == {(BACKWARD | FORWARD)[use.noun]} for use in modified):
        return "train"
    if all(use.adjectives and all((word, use.noun) in held_out for word in use.adjectives) for use in modified):
        return "test"
    return None


def pairs_of(sentence_uses: Iterable[Use]) -> list[str]:
    """Adjective and noun of each modified use, such as "new response", sorted."""
    return sorted(f"{adjective} {use.noun}" for use in sentence_uses for adjective in use.adjectives)


def _base(word: Word) -> str:
    return (word.form if word.lemma == "_" else word.lemma).lower()
