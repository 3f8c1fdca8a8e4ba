"""CLUTRR's relations, and how two of them compose to one. Nothing here reads a file."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

# relation -> kind of kin and gender ("m" or "f") of the person it leads to
RELATIONS = {
    "aunt": ("uncle", "f"),
    "brother": ("sibling", "m"),
    "daughter": ("child", "f"),
    "daughter-in-law": ("child-in-law", "f"),
    "father": ("parent", "m"),
    "father-in-law": ("parent-in-law", "m"),
    "granddaughter": ("grandchild", "f"),
    "grandfather": ("grandparent", "m"),
    "grandmother": ("grandparent", "f"),
    "grandson": ("grandchild", "m"),
    "husband": ("spouse", "m"),
    "mother": ("parent", "f"),
    "mother-in-law": ("parent-in-law", "f"),
    "nephew": ("nephew", "m"),
    "niece": ("nephew", "f"),
    "sister": ("sibling", "f"),
    "son": ("child", "m"),
    "son-in-law": ("child-in-law", "m"),
    "uncle": ("uncle", "m"),
    "wife": ("spouse", "f"),
}
# the id of a label is its index here (the Edge Transformer adds 1: 0 is "no edge"). Upstream code orders labels by the
# hash of strings, so differently in every run
EDGE_TYPES = (
    "aunt",
    "brother",
    "daughter",
    "father",
    "granddaughter",
    "grandfather",
    "grandmother",
    "grandson",
    "husband",
    "mother",
    "sister",
    "son",
    "uncle",
    "wife",
)
TARGETS = (
    "aunt",
    "brother",
    "daughter",
    "daughter-in-law",
    "father",
    "father-in-law",
    "granddaughter",
    "grandfather",
    "grandmother",
    "grandson",
    "mother",
    "mother-in-law",
    "nephew",
    "niece",
    "sister",
    "son",
    "son-in-law",
    "uncle",
)

# (a to b, b to c): a to c. From the proofs that upstream gives with each example; each pair has one answer. Nobody has
# half-siblings, a second spouse, or children with anyone but the spouse.
RULES = {
    ("child", "child"): "grandchild",
    ("child", "grandparent"): "parent",
    ("child", "sibling"): "child",
    ("child", "spouse"): "child-in-law",
    ("child", "uncle"): "sibling",
    ("grandchild", "sibling"): "grandchild",
    ("parent", "child"): "sibling",
    ("parent", "parent"): "grandparent",
    ("parent", "sibling"): "uncle",
    ("sibling", "child"): "nephew",
    ("sibling", "grandparent"): "grandparent",
    ("sibling", "parent"): "parent",
    ("sibling", "sibling"): "sibling",
    ("spouse", "child"): "child",
    ("spouse", "grandchild"): "grandchild",
    ("spouse", "parent"): "parent-in-law",
}
_NAMES = {meaning: name for name, meaning in RELATIONS.items()}


def compose(edge_types: Sequence[str]) -> set[str]:
    """The possible relations of the last person of a walk to the first.

    Args:
        edge_types: relations along the walk, each of the next person to the one before.

    Returns:
        All relations that `RULES` give in some order of application; empty if none gives an answer. The gender is that
        of the last relation, as it is the same person.

    Raises:
        KeyError: CLUTRR does not have a relation.
    """
    kinds = tuple(RELATIONS[name][0] for name in edge_types)
    gender = RELATIONS[edge_types[-1]][1]
    return {_NAMES[kind, gender] for kind in _compose_kinds(kinds)}


# a file has only a few hundred different chains
@cache
def _compose_kinds(kinds: tuple[str, ...]) -> set[str]:
    length = len(kinds)
    # possible relations of each part of the walk, shorter parts first
    found = {(start, start + 1): {kind} for start, kind in enumerate(kinds)}
    for width in range(2, length + 1):
        for start in range(length - width + 1):
            end = start + width
            found[start, end] = {
                RULES[left, right]
                for middle in range(start + 1, end)
                for left in found[start, middle]
                for right in found[middle, end]
                if (left, right) in RULES
            }
    return found[0, length]
