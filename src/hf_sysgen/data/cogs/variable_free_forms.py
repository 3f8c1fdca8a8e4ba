"""The variable-free form of COGS (Qiu et al. 2022, arXiv:2112.07610), from logical forms.

    need . agent ( x _ 1 , Ava ) AND need . xcomp ( x _ 1 , x _ 3 ) AND cook . agent ( x _ 3 , Ava )
    need ( agent = Ava , xcomp = cook ( agent = Ava ) )

A verb is followed by its roles, a noun by its modifiers, each in the order of the logical form. A noun that is an
argument twice, of a verb and of its "xcomp", is written twice.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from hf_sysgen.data.cogs.forms import Conjunct, is_variable, parse_form


def to_variable_free(target: str) -> str:
    """
    The variable-free form of a sentence's logical form.

    Raises:
        ValueError: the text is not a logical form, has LAMBDA, or is not one verb with its dependents.
    """
    form = parse_form(target)
    if form.binders:
        raise ValueError(f"a form with LAMBDA has no variable-free form: {target!r}")
    words: dict[str, str] = {}
    roles: dict[str, list[Conjunct]] = defaultdict(list)
    arguments: set[str] = set()
    reached: set[str] = set()
    for conjunct in form.conjuncts:
        words.setdefault(conjunct.variable, f"* {conjunct.head}" if conjunct.definite else conjunct.head)
        if conjunct.argument:
            roles[conjunct.variable].append(conjunct)
            arguments.add(conjunct.argument)

    def written(variable: str, above: frozenset[str]) -> str:
        if not is_variable(variable):
            return variable
        if variable not in words or variable in above:
            raise ValueError(f"{variable} {'is below itself' if variable in above else 'has no word'} in {target!r}")
        reached.add(variable)
        below = above | {variable}
        parts = [f"{role.role} = {written(role.argument, below)}" for role in roles.get(variable, ())]
        return f"{words[variable]} ( {' , '.join(parts)} )" if parts else words[variable]

    roots = [variable for variable in words if variable not in arguments]
    if len(roots) != 1:
        raise ValueError(f"expected one root (a word that is not an argument), found {len(roots)} in {target!r}")
    text = written(roots[0], frozenset())
    if left := words.keys() - reached:
        raise ValueError(f"{min(left)} does not depend on the root {roots[0]} in {target!r}")
    return text


class Node(NamedTuple):
    """A word of a variable-free form.

    Attributes:
        word: a name, a noun or a verb's lemma.
        definite: whether it has a star.
        roles: (role, word below) in order.
    """

    word: str
    definite: bool
    roles: tuple[tuple[str, Node], ...]


def parse_variable_free(text: str) -> Node:
    """
    Parse a variable-free form.

    Raises:
        ValueError: the text is not such a form; the message names the token.
    """
    tokens = [*text.split(), ""]
    at = 0

    def take(expected: str = "") -> str:
        nonlocal at
        token = tokens[at]
        if (token != expected) if expected else (token in _SIGNS):
            raise ValueError(f"token {at + 1} is {token!r}, expected {expected or 'a word'!r}, in {text!r}")
        at += 1
        return token

    def node() -> Node:
        definite = tokens[at] == "*" and bool(take("*"))
        word = take()
        roles: list[tuple[str, Node]] = []
        if tokens[at] == "(":
            while not roles or tokens[at] == ",":
                take("," if roles else "(")
                role = take()
                if tokens[at] == ".":
                    role = f"{role} {take('.')} {take()}"
                take("=")
                roles.append((role, node()))
            take(")")
        return Node(word, definite, tuple(roles))

    root = node()
    if tokens[at]:
        raise ValueError(f"token {at + 1} is {tokens[at]!r}, expected the end, in {text!r}")
    return root


_SIGNS = frozenset({"", "*", "(", ")", ",", "=", "."})
