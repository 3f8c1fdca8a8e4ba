"""Three ways to match logical forms of COGS, each wider than the one before.

`exact_match`: the same tokens. The papers on COGS report this.

`renaming_match`: the same tokens after the variables are renamed one to one.

`semantic_match`: in addition the order of the conjuncts is free. Wu et al. 2023 (arXiv:2303.13716, "ReCOGS") argue that
neither the numbers of the variables nor the order of the conjuncts is part of the meaning.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from hf_sysgen.data.cogs.forms import VARIABLE, LogicalForm, is_variable, parse_form
from hf_sysgen.evaluation.metrics.sequences import exact_match as exact_match

_FREE = re.compile(rf"(?<!\S){VARIABLE}(?!\S)")
# a variable bound by LAMBDA follows LAMBDA, "(" or ","
_BOUND = re.compile(r"(?<=LAMBDA )\S+|(?<=\( )\S+|(?<=, )\S+")


def renaming_match(prediction: str, reference: str) -> bool:
    """
    Whether a one to one renaming of variables makes the prediction the reference, token by token.

    A variable is "x _ <digits>", or one bound by LAMBDA at the start of the form. A name is not a variable.
    """
    return _renamed(prediction) == _renamed(reference)


def semantic_match(prediction: str, reference: str) -> bool:
    """
    Whether a one to one renaming of variables makes the conjuncts of the prediction those of the reference.

    Both must be well formed (`parse_form`): definite nouns in front, each with a star and followed by ";", the others
    joined by "AND". A malformed prediction matches only as a `renaming_match`. Conjuncts are compared as a
    multiset: a repeated or missing conjunct is an error. Predicate, star and order of arguments of a conjunct must
    match. The order of LAMBDAs must match, as it is the order of arguments.

    The time is polynomial if the facts about each variable and its neighbours distinguish all variables of the
    reference, as in every form of COGS. For other references the remaining candidates are tried in turn.
    """
    if renaming_match(prediction, reference):
        return True
    try:
        facts = [_facts(parse_form(text)) for text in (prediction, reference)]
    except ValueError:
        return False
    if Counter(fact.label for fact in facts[0]) != Counter(fact.label for fact in facts[1]):
        return False
    # below, a variable is the pair of its form (0 or 1) and its name there
    both = [
        _Fact(fact.label, tuple((form, variable) for variable in fact.variables))
        for form in (0, 1)
        for fact in facts[form]
    ]
    return _same(both, {variable: 0 for fact in both for variable in fact.variables})


_Variable = tuple[int, str]


class _Fact(NamedTuple):
    """A conjunct or a LAMBDA: its content (predicate, star, name) and its variables."""

    label: tuple[str, bool, str]
    variables: tuple


def _renamed(text: str) -> str:
    """The form with variables numbered by first occurrence, and with single blanks."""
    numbers: dict[str, int] = {}
    pattern = _BOUND if text.startswith("LAMBDA ") else _FREE
    return pattern.sub(lambda variable: f"\0{numbers.setdefault(variable[0], len(numbers))}", " ".join(text.split()))


def _facts(form: LogicalForm) -> list[_Fact]:
    facts = [_Fact((f"LAMBDA {place}", False, ""), (variable,)) for place, variable in enumerate(form.binders)]
    for predicate, variable, argument, definite in form.conjuncts:
        if argument and (form.binders or is_variable(argument)):
            facts.append(_Fact((predicate, definite, ""), (variable, argument)))
        else:
            facts.append(_Fact((predicate, definite, argument), (variable,)))
    return facts


def _same(facts: list[_Fact], colours: dict[_Variable, int]) -> bool:
    """Whether a renaming of variables within their colour turns the facts of form 0 into those of form 1."""
    colours = _refined(facts, colours)
    classes: dict[int, tuple[list[_Variable], list[_Variable]]] = {}
    for variable, colour in colours.items():
        classes.setdefault(colour, ([], []))[variable[0]].append(variable)
    if any(len(ours) != len(theirs) for ours, theirs in classes.values()):
        return False
    open_classes = [pair for pair in classes.values() if len(pair[0]) > 1]
    if not open_classes:
        return True
    (chosen, *_), partners = min(open_classes, key=lambda pair: len(pair[0]))
    return any(_same(facts, {**colours, chosen: -1, partner: -1}) for partner in partners)


def _refined(facts: list[_Fact], colours: dict[_Variable, int]) -> dict[_Variable, int]:
    """Split colours until all variables of a colour have the same facts, up to the colours of the other variables in
    them. If each form has one variable of each colour, the renaming by colour keeps all facts.
    """
    said: dict[_Variable, list[_Fact]] = {variable: [] for variable in colours}
    for fact in facts:
        for variable in dict.fromkeys(fact.variables):
            said[variable].append(fact)
    count = 0
    while True:
        palette: dict[tuple, int] = {}
        refined = {}
        for variable, known in said.items():
            neighbours = [(label, tuple(colours[other] for other in others)) for label, others in known]
            refined[variable] = palette.setdefault((colours[variable], tuple(sorted(neighbours))), len(palette))
        if len(palette) == count:
            return refined
        colours, count = refined, len(palette)
