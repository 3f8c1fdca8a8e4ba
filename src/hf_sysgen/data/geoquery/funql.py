"""FunQL, the query language of GeoQuery, in the form that its compositional splits use. Nothing here reads a file. The
corpus nests all arguments. Shaw et al. 2021 (arXiv:2010.12725) give each operator its true number of arguments, so that
each query has one shape:

    city(all)                       city
    city(loc_2(X))                  intersection(city, loc_2(X))
    largest_one(area_1(X))          largest_one(area_1, X)
    most(state(loc_1(X)))           most(state, loc_1, X)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

RELATIONS = frozenset(
    [
        "area_1",
        "capital_1",
        "capital_2",
        "density_1",
        "elevation_1",
        "elevation_2",
        "high_point_1",
        "high_point_2",
        "higher_2",
        "len",
        "loc_1",
        "loc_2",
        "longer",
        "low_point_1",
        "low_point_2",
        "lower_2",
        "next_to_1",
        "next_to_2",
        "population_1",
        "size",
        "traverse_1",
        "traverse_2",
    ]
)
CLASSES = frozenset(["capital", "city", "lake", "major", "mountain", "place", "river", "state"])
ENTITIES = frozenset(["cityid", "countryid", "placeid", "riverid", "stateid"])
FILTERS = frozenset(["count", "highest", "largest", "longest", "lowest", "shortest", "smallest", "sum"])
SETS = frozenset(("intersection", "exclude"))
# operator -> how many of the names nested in its argument are its own arguments
COMPARISONS = {"largest_one": 1, "smallest_one": 1, "most": 2, "fewest": 2}
# the only constant that is not an entity
SEA_LEVEL = "0"

_TOKEN = re.compile(r"'([^']*)'|([^'(),]*[^'(),\s][^'(),]*)|([(),])")


class Term(NamedTuple):
    """A name and its arguments, none for a constant."""

    name: str
    arguments: tuple[Term, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}({','.join(map(str, self.arguments))})" if self.arguments else self.name

    @property
    def is_entity(self) -> bool:
        return self.name in ENTITIES and bool(self.arguments)


def parse(text: str) -> Term:
    """The tree of a query, with or without quotes around constants and blanks around symbols.

    Raises:
        ValueError: brackets do not match, or something is left over.
    """
    tokens = [match.groups() for match in _TOKEN.finditer(text)]
    position = 0

    def symbol() -> str | None:
        return tokens[position][2] if position < len(tokens) else None

    def term() -> Term:
        nonlocal position
        if position == len(tokens) or tokens[position][2]:
            raise ValueError(f"a name is missing in {text!r}")
        quoted, name, _ = tokens[position]
        position += 1
        arguments = []
        if symbol() == "(":
            while symbol() in ("(", ","):
                position += 1
                arguments.append(term())
            if symbol() != ")":
                raise ValueError(f"a closing bracket is missing in {text!r}")
            position += 1
        return Term(name.strip() if quoted is None else quoted, tuple(arguments))

    tree = term()
    if position < len(tokens):
        raise ValueError(f"something follows the query in {text!r}")
    return tree


def normalize(tree: Term) -> Term:
    """A query of the corpus in the form above.

    Raises:
        ValueError: FunQL does not have a name, or a name has a wrong number of arguments.
    """
    name, arguments = tree
    if tree.is_entity or tree == Term(SEA_LEVEL):
        return tree
    if len(arguments) != (2 if name in SETS else 1):
        raise ValueError(f"{tree}: {name} takes another number of arguments")
    if name in CLASSES:
        argument = arguments[0]
        return Term(name) if argument == Term("all") else Term("intersection", (Term(name), normalize(argument)))
    if name in COMPARISONS:
        own = []
        inner = arguments[0]
        for _ in range(COMPARISONS[name]):
            if len(inner.arguments) != 1:
                raise ValueError(f"{tree}: {inner.name} takes another number of arguments")
            own.append(Term(inner.name))
            inner = inner.arguments[0]
        return Term(name, (*own, normalize(inner)))
    if name == "answer" or name in RELATIONS or name in FILTERS or name in SETS:
        return Term(name, tuple(map(normalize, arguments)))
    raise ValueError(f"{tree}: FunQL has no {name}")


def write(tree: Term) -> str:
    """A query as tokens joined by single blanks: names, brackets, commas."""
    return " ".join(_pieces(tree))


def _pieces(tree: Term) -> Iterator[str]:
    yield tree.name
    for place, argument in enumerate(tree.arguments):
        yield "," if place else "("
        yield from _pieces(argument)
    if tree.arguments:
        yield ")"


def subterms(tree: Term) -> Iterator[Term]:
    """The term itself and everything in it."""
    yield tree
    for argument in tree.arguments:
        yield from subterms(argument)


def replace(tree: Term, old: Term, new: Term) -> Term:
    """The term with `new` wherever `old` stands."""
    if tree == old:
        return new
    return Term(tree.name, tuple(replace(argument, old, new) for argument in tree.arguments))


def atoms(targets: Iterable[str]) -> set[str]:
    """All names in the queries: the atoms for target maximum compound divergence."""
    return {term.name for target in targets for term in subterms(parse(target))}


def compounds(targets: Iterable[str]) -> Counter[tuple[str, int, int, str]]:
    """How often a name is directly inside another: (outer, its number of arguments, index of the argument, inner)."""
    return Counter(
        (term.name, len(term.arguments), place, argument.name)
        for target in targets
        for term in subterms(parse(target))
        for place, argument in enumerate(term.arguments)
    )


def divergence(train: Iterable[str], test: Iterable[str]) -> float:
    """Compound divergence of two sets of queries (Keysers et al. 2020, section 2.2): 0 for equal distributions, 1
    without common compounds. It is one minus the Chernoff coefficient of the compound frequencies, with weight 0.1 for
    train.
    """
    first, second = compounds(train), compounds(test)
    similarity = sum(
        (count / first.total()) ** 0.1 * (second[compound] / second.total()) ** 0.9 for compound, count in first.items()
    )
    return 1 - similarity
