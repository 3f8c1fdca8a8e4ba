"""Logical forms of COGS as a structure. The converters and the metric use it.

A form is a conjunction. Its definite nouns come first, each with a star and followed by ";", the other conjuncts are
joined by "AND". A noun is a predicate of one variable. A role of a verb or a modifier of a noun relates a variable to a
variable or a name. A variable's number is the position of its word in the sentence, from 0.

    * girl ( x _ 1 ) ; need . agent ( x _ 2 , x _ 1 ) AND need . xcomp ( x _ 2 , x _ 4 ) AND
    cook . agent ( x _ 4 , x _ 1 )

A word alone ("primitive") has a name, or a form with LAMBDA, as its target:

    LAMBDA a . LAMBDA e . cook . agent ( e , a )
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Conjunct(NamedTuple):
    """One conjunct of a form.

    Attributes:
        predicate: its words before the bracket, joined by single spaces: "girl", "need . agent", "cake . nmod . in".
        variable: the first argument.
        argument: the second argument, a variable or a name; "" if there is none.
        definite: whether it has a star.
    """

    predicate: str
    variable: str
    argument: str = ""
    definite: bool = False

    @property
    def head(self) -> str:
        """The noun or verb."""
        return self.predicate.partition(" ")[0]

    @property
    def role(self) -> str:
        """The predicate without its head: "agent", "nmod . in"; "" for a noun."""
        return self.predicate.partition(" . ")[2]


class LogicalForm(NamedTuple):
    """The parts of a form, in order.

    Attributes:
        conjuncts: all conjuncts, the definite nouns first. Variables are as written: "x _ 3", or a bound letter.
        binders: the variables bound by LAMBDA, from the left; none in a sentence's form.
    """

    conjuncts: tuple[Conjunct, ...]
    binders: tuple[str, ...] = ()


_WORD = r"[^\s().,;*]+"
_TERM = rf"(?P<predicate>{_WORD}(?: \. {_WORD}){{0,2}}) \( (?P<variable>%s)(?: , (?P<argument>%s))? \)"
VARIABLE = r"x _ \d+"
_SENTENCE_TERM = re.compile(_TERM % (VARIABLE, rf"{VARIABLE}|{_WORD}"))
_LAMBDA_TERM = re.compile(_TERM % (_WORD, _WORD))
_BINDERS = re.compile(rf"(?:LAMBDA {_WORD} \. )+")


def parse_form(target: str) -> LogicalForm:
    """Parse the target of a sentence, or of a primitive that has LAMBDA.

    Raises:
        ValueError: the text is not such a form; the message names the wrong part. A name alone is not one.
    """
    if target.startswith("LAMBDA "):
        return _parse_lambda(target)
    *definite, rest = target.split(" ; ")
    conjuncts = [_parse_term(_SENTENCE_TERM, part.removeprefix("* "), part.startswith("* ")) for part in definite]
    if not all(conjunct.definite and not conjunct.argument for conjunct in conjuncts):
        raise ValueError(f"only a definite noun ('* noun ( x _ 1 )') may stand before ';' in {target!r}")
    conjuncts += [_parse_term(_SENTENCE_TERM, part) for part in rest.split(" AND ")]
    return LogicalForm(tuple(conjuncts))


def is_variable(argument: str) -> bool:
    """Whether an argument in a sentence's form is a variable: no name has a space."""
    return argument.startswith("x _ ")


def is_name(word: str) -> bool:
    """Whether a word of a form is a proper name. COGS capitalizes only names and "TV"."""
    return word[:1].isupper() and word != "TV"


def position(variable: str) -> int:
    """The position in the sentence, from 0, of the word that a variable stands for."""
    return int(variable[4:])


def _parse_lambda(target: str) -> LogicalForm:
    prefix = _BINDERS.match(target)
    if prefix is None:
        raise ValueError(f"no variable after LAMBDA in {target!r}")
    binders = tuple(prefix[0].split()[1::3])
    conjuncts = tuple(_parse_term(_LAMBDA_TERM, part) for part in target[prefix.end() :].split(" AND "))
    used = {argument for conjunct in conjuncts for argument in conjunct[1:3] if argument}
    if len(set(binders)) < len(binders) or not used <= set(binders):
        raise ValueError(f"LAMBDA must bind each variable once in {target!r}")
    return LogicalForm(conjuncts, binders)


def _parse_term(pattern: re.Pattern, text: str, definite: bool = False) -> Conjunct:
    match = pattern.fullmatch(text)
    if match is None:
        raise ValueError(f"no conjunct of a logical form: {text!r}")
    return Conjunct(match["predicate"], match["variable"], match["argument"] or "", definite)
