"""The graph form of COGS (Ontañón et al. 2022, arXiv:2108.04378), on which Bergen et al. 2021 (arXiv:2112.00578) train.

The nodes are the words of the sentence. A word has at most one parent, and four labels; together they stand for the
logical form. Two things are lost: the agent of an infinitive ("to cook"), which is that of the verb above it, and the
arguments of a word alone ("primitive"), which keeps only its category.
"""

from __future__ import annotations

from typing import NamedTuple

from hf_sysgen.data.cogs.forms import LogicalForm, is_name, is_variable, parse_form, position

NO_PARENT = -1
_ARTICLES = frozenset({"A", "An", "The"})


class Graph(NamedTuple):
    """A sentence as a graph: lists with one entry for each token, "" or -1 where nothing applies.

    Attributes:
        tokens: the words.
        parents: position, from 0, of the word that a word depends on.
        roles: how it depends on it: agent, theme, recipient, ccomp, xcomp, PREP (preposition on its noun), PP_NOUN
            (noun on its preposition).
        word_categories: CNOUN (common noun), PNOUN (name), VERB.
        noun_types: DEF or INDEF, of common nouns.
        verb_names: the lemma, of verbs.
    """

    tokens: list[str]
    parents: list[int]
    roles: list[str]
    word_categories: list[str]
    noun_types: list[str]
    verb_names: list[str]


def to_graph(sentence: str, target: str) -> Graph:
    """
    The graph of a sentence and its logical form, or of a word alone and its meaning.

    Raises:
        ValueError: the form is malformed, does not fit the sentence, or gives a word two parents.
    """
    tokens = sentence.split(" ")
    size = len(tokens)
    graph = Graph(tokens, [NO_PARENT] * size, [""] * size, [""] * size, [""] * size, [""] * size)
    if target.startswith("LAMBDA ") or target == sentence:
        _label_primitive(graph, target)
        return graph
    for index, token in enumerate(tokens):
        if is_name(token) and token not in _ARTICLES:
            graph.word_categories[index] = "PNOUN"
    try:
        _label_sentence(graph, parse_form(target))
    except IndexError as error:
        raise ValueError(f"a variable of {target!r} stands for no word of {sentence!r}") from error
    return graph


def _label_primitive(graph: Graph, target: str) -> None:
    binders = target.count("LAMBDA")
    graph.word_categories[0] = ("PNOUN", "CNOUN", "VERB")[min(binders, 2)]
    if binders >= 2:
        graph.verb_names[0] = graph.tokens[0]


def _label_sentence(graph: Graph, form: LogicalForm) -> None:
    agents = {conjunct.variable: conjunct.argument for conjunct in form.conjuncts if conjunct.role == "agent"}
    controllers = {conjunct.argument: conjunct.variable for conjunct in form.conjuncts if conjunct.role == "xcomp"}
    for conjunct in form.conjuncts:
        index = position(conjunct.variable)
        if not conjunct.argument:
            graph.word_categories[index] = "CNOUN"
            graph.noun_types[index] = "DEF" if conjunct.definite else "INDEF"
        elif conjunct.role.startswith("nmod"):
            noun = position(conjunct.argument)
            preposition = _find(graph, conjunct.role.removeprefix("nmod . "), index + 1, noun)
            _attach(graph, noun, preposition, "PP_NOUN")
            _attach(graph, preposition, index, "PREP")
        elif conjunct.role == "agent" and agents.get(controllers.get(conjunct.variable, "")) == conjunct.argument:
            # the agent of an infinitive is attached only to the verb above it
            graph.verb_names[index] = graph.tokens[index]
        else:
            graph.word_categories[index] = "VERB"
            graph.verb_names[index] = conjunct.head
            child = position(conjunct.argument) if is_variable(conjunct.argument) else _find(graph, conjunct.argument)
            _attach(graph, child, index, conjunct.role)
            if conjunct.role == "xcomp":
                graph.verb_names[child] = graph.tokens[child]


def _find(graph: Graph, word: str, start: int = 0, end: int | None = None) -> int:
    """Position of the word in a part of the sentence, where it must occur once."""
    end = len(graph.tokens) if end is None else end
    if graph.tokens[start:end].count(word) != 1:
        raise ValueError(f"expected {word!r} once among tokens {start} to {end - 1} of {' '.join(graph.tokens)!r}")
    return graph.tokens.index(word, start)


def _attach(graph: Graph, child: int, parent: int, role: str) -> None:
    if graph.roles[child]:
        raise ValueError(f"token {child} has two parents in {' '.join(graph.tokens)!r}")
    graph.parents[child] = parent
    graph.roles[child] = role
