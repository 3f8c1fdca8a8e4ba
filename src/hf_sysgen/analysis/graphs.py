"""Gold and predicted answers as graphs, from a row of `predictions.jsonl`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from hf_sysgen.data.cogs.graph_forms import NO_PARENT, Graph, to_graph
from hf_sysgen.errors import UserError
from hf_sysgen.results.predictions import GraphRow, TextRow, TreeRow


@dataclass(frozen=True)
class WordGraph:
    """
    Arcs between the words of a sentence.

    Attributes:
        words: the sentence.
        parents: position of each word's parent, -1 for none.
        roles: the label of the arc to the parent, or of a root.
        labels: other labels of each word, "" for none.
    """

    words: list[str]
    parents: list[int]
    roles: list[str]
    labels: list[str]


@dataclass(frozen=True)
class QueryGraph:
    """
    A SPARQL query as a graph.

    Attributes:
        selected: the variables that it returns; none if it only asks whether there is an answer.
        types: for each node (a variable or a name) the types that it must have.
        edges: (node, relation, node).
        filters: pairs of nodes that must differ.
    """

    selected: frozenset[str]
    types: Mapping[str, frozenset[str]]
    edges: frozenset[tuple[str, str, str]]
    filters: frozenset[frozenset[str]]


def cogs_labels(row: GraphRow) -> tuple[WordGraph, WordGraph]:
    """Gold and predicted graph of a `GraphRow` of `cogs_graph`."""
    words, names = (row.input or "").split(), Graph._fields[1:]
    gold = Graph(words, *(getattr(row, name) for name in names))
    return _word_graph(gold), _word_graph(Graph(words, *(cast(Any, row.prediction[name]) for name in names)))


def cogs_forms(row: TextRow) -> tuple[WordGraph, WordGraph | None]:
    """Gold and predicted graph of logical forms; no predicted graph if the prediction is malformed or is not a
    graph."""
    sentence = row.input or ""
    gold = _word_graph(to_graph(sentence, row.target or ""))
    try:
        return gold, _word_graph(to_graph(sentence, row.prediction))
    except ValueError:
        return gold, None


def _word_graph(graph: Graph) -> WordGraph:
    said = zip(graph.word_categories, graph.noun_types, graph.verb_names, strict=True)
    labels = [" ".join(filter(None, parts)) for parts in said]
    return WordGraph(graph.tokens, list(graph.parents), list(graph.roles), labels)


def trees(row: TreeRow) -> tuple[WordGraph, WordGraph]:
    """Gold and predicted dependency tree of a `cfq_dependencies` record."""
    words = (row.input or "").split()
    found = []
    for text in (row.target or "", row.prediction):
        arcs = [arc.partition(":") for arc in text.split()]
        # heads count words from 1, and 0 is the root
        parents = [int(head) - 1 if head != "0" else NO_PARENT for head, _, _ in arcs]
        found.append(WordGraph(words, parents, [label for _, _, label in arcs], [""] * len(words)))
    return found[0], found[1]


def queries(row: TextRow) -> tuple[QueryGraph, QueryGraph | None]:
    """Gold and predicted query of a `cfq` record; no predicted query if the prediction is not a query."""
    try:
        predicted = parse_query(row.prediction)
    except UserError:
        predicted = None
    return parse_query(row.target or ""), predicted


def parse_query(text: str) -> QueryGraph:
    """
    A query of CFQ, its words separated by blanks. Raises UserError: it is none.
    """
    # the Edge Transformer's queries are lower-case, with `count(*)` as one token
    pattern = r"SELECT (?:count ?\( ?\* ?\)|DISTINCT ((?:\?x\d+ ?)+)) ?WHERE \{ (.*) \}"
    whole = re.fullmatch(pattern, text.strip(), re.IGNORECASE)
    if whole is None:
        raise UserError(f"not a query of CFQ: {text!r}")
    types: dict[str, set[str]] = {}
    edges, filters = set(), set()
    for clause in whole[2].split(" . "):
        match clause.split():
            case ["FILTER" | "filter", "(", first, "!=", last, ")"]:
                filters.add(frozenset((first, last)))
            case [node, "a", kind]:
                types.setdefault(node, set()).add(kind)
            case [first, relation, last]:
                edges.add((first, relation, last))
            case _:
                raise UserError(f"not a clause of a query: {clause!r}")
    selected = frozenset((whole[1] or "").split())
    return QueryGraph(
        selected, {node: frozenset(kinds) for node, kinds in types.items()}, frozenset(edges), frozenset(filters)
    )


# benchmark -> function that reads graphs from its records
READERS: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "cogs_graph": cogs_labels,
    "cogs": cogs_forms,
    "cfq_dependencies": trees,
    "cfq": queries,
}
