"""Graphs of relations between people, and a notation for them: "Bob wife Ann, Ann daughter Cy, Bob ? Cy"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hf_sysgen.errors import UserError


@dataclass(frozen=True)
class Story:
    """
    A story.

    Attributes:
        people: their names.
        edges: pairs of their numbers.
        relations: for each edge the relation of the second person to the first.
        query: the pair of the question.
        answer: the gold relation, if it is known.
    """

    people: list[str]
    edges: list[tuple[int, int]]
    relations: list[str]
    query: tuple[int, int]
    answer: str | None = None


def parse_story(text: str) -> Story:
    """
    A story in the form "Bob wife Ann, Ann daughter Cy, Bob ? Cy": Ann is Bob's wife, and the question is what Cy is to
    Bob. People are numbered in order of first occurrence.

    Raises:
        UserError: a part has not three words, a relation is of a person to themself, two are of the same pair, there is
            not one question, or it is about a person without a relation.
    """
    people: dict[str, int] = {}
    edges, relations, queries = [], [], []
    for part in text.split(","):
        words = part.split()
        if len(words) != 3 or words[0] == words[2]:
            raise UserError(f'{part.strip()!r}: expected "PERSON relation PERSON", as in "Bob wife Ann, Bob ? Ann"')
        first, relation, last = words
        edge = (people.setdefault(first, len(people)), people.setdefault(last, len(people)))
        if relation == "?":
            queries.append(edge)
        else:
            edges.append(edge)
            relations.append(relation)
    if len(queries) != 1 or not edges:
        raise UserError(f'{text!r}: expected relations and one question, as in "Bob wife Ann, Ann son Cy, Bob ? Cy"')
    names = list(people)
    for edge in edges:
        if edges.count(edge) > 1:
            raise UserError(f"{text!r}: two relations of {names[edge[1]]} to {names[edge[0]]}; give one")
    for person in queries[0]:
        if all(person not in edge for edge in edges):
            raise UserError(f"{text!r}: {names[person]} has no relation to anybody")
    return Story(names, edges, relations, queries[0])


def story_of(example: Mapping[str, Any]) -> Story:
    """An example of the benchmark `clutrr` as a story."""
    edges = [(first, last) for first, last in example["edges"]]
    size = 1 + max(node for edge in edges for node in edge)
    first, last = example["query_edge"]
    return Story(list(example["names"])[:size], edges, list(example["edge_types"]), (first, last), example["target"])
