"""When a predicted logical form of COGS counts as right: three equivalences, each wider than the one before.

`exact_match`: the same tokens. What the papers on COGS report.

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
# what LAMBDA binds stands after LAMBDA, "(" or ","
_BOUND = re.compile(r"(?<=LAMBDA )\S+|(?<=\( )\S+|(?<=, )\S+")


def renaming_match(prediction: str, reference: str) -> bool:
    """
    Whether a one to one renaming of variables makes the prediction the reference, token by token.

    A variable is "x _ <digits>", or in a form that begins with LAMBDA what it binds. A name is no variable.
    """
    return _renamed(prediction) == _renamed(reference)


def semantic_match(prediction: str, reference: str) -> bool:
    """
    Whether a one to one renaming of variables makes the conjuncts of the prediction those of the reference.

    Both must be well formed (`parse_form`): definite nouns in front, each with a star and followed by ";", the others
    joined by "AND". A malformed prediction never matches, but as a `renaming_match`. Conjuncts are compared as a
    multiset: a repeated conjunct is an error, as a missing one is. A conjunct keeps its predicate, its star and the
    order of its arguments. The order of LAMBDAs is kept, as it is the order in which arguments are taken.

    The time is polynomial for every reference in which what is said of the variables, and of those they are linked to,
    tells all variables apart, as in every form of COGS, whatever the prediction. For others the candidates that are
    left are tried in turn.
    """
    if renaming_match(prediction, reference):
        return True
    try:
        facts = [_facts(parse_form(text)) for text in (prediction, reference)]
    except ValueError:
        return False
    if Counter(fact.label for fact in facts[0]) != Counter(fact.label for fact in facts[1]):
        return False
    # from here on a variable is known by its form, 0 or 1, and its name there
    both = [
        _Fact(fact.label, tuple((form, variable) for variable in fact.variables))
        for form in (0, 1)
        for fact in facts[form]
    ]
    return _same(both, {variable: 0 for fact in both for variable in fact.variables})


_Variable = tuple[int, str]


class _Fact(NamedTuple):
    """A conjunct or a LAMBDA: what it says (predicate, star, name), and of which variables."""

    label: tuple[str, bool, str]
    variables: tuple


def _renamed(text: str) -> str:
    """The form with its variables numbered in the order in which they are met, tokens spaced by one blank."""
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
    """Whether the facts of form 0 become those of form 1 when variables are renamed to ones of the same colour."""
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
    """Colours split until all variables of one colour have the same said of them, and of those they share facts with.

    Where each form has one variable of each colour, the renaming that keeps colours keeps all facts.
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
