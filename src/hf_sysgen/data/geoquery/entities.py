"""GeoQuery's places, their names in questions, and how m0 and m1 replace them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from xml.etree import ElementTree

from hf_sysgen.data.geoquery.funql import Term, normalize, parse, replace, subterms, write

_FACT = re.compile(r"(state|city|river|mountain|highlow)\(")
_QUOTED = re.compile(r"'([^']*)'")
_COUNTRY = ("america", "continental us", "united states", "us", "usa", "country")


class Place(NamedTuple):
    """A place of the database.

    Attributes:
        identifier: in the corpus, such as stateid('ohio').
        names: its names in questions.
        rank: number of places before it in the database.
    """

    identifier: str
    names: tuple[str, ...]
    rank: int


def places(geobase: str) -> dict[str, Place]:
    """Identifier without quotes -> place of the database. A city is there twice: alone, and with its state, if the
    question names the state too.

    Args:
        geobase: the Prolog facts.
    """
    found: dict[str, Place] = {}

    def add(identifier: str, *names: str) -> None:
        found.setdefault(identifier.replace("'", ""), Place(identifier, names, len(found)))

    def add_city(name: str, state: str, short: str) -> None:
        add(f"cityid('{name}',_)", name)
        add(f"cityid('{name}','{short}')", f"{name} {state}", f"{name} {short}")

    for line in geobase.splitlines():
        if not (match := _FACT.match(line)):
            continue
        kind, words = match[1], _QUOTED.findall(line)
        if kind == "state":
            # the capital and four large cities
            state, short, *cities = words[:7]
            add(f"stateid('{state}')", state)
            for city in cities:
                add_city(city, state, short)
        elif kind == "city":
            state, short, city = words[:3]
            add_city(city, state, short)
        elif kind == "river":
            add(f"riverid('{words[0]}')", words[0])
        elif kind == "mountain":
            add(f"placeid('{words[2]}')", words[2])
        else:
            # the lowest and the highest point of a state
            add(f"placeid('{words[2]}')", words[2])
            add(f"placeid('{words[3]}')", words[3])
    # questions name it, but the database does not
    add_city("springfield", "south dakota", "sd")
    add("countryid(usa)", *_COUNTRY)
    return found


def anonymize(question: str, query: Term, known: Mapping[str, Place]) -> tuple[str, Term, list[str]]:
    """Replace the places of a query by m0, then m1, in the question and in the query.

    Args:
        question: words, blanks between them.
        query: a normalized query.
        known: what `places` gives.

    Returns:
        Question and query with placeholders, and the identifiers that these replace. A place that the question does not
        name stays. Longer identifiers come first, so m0 is not always the first in the question.
    """
    inside = {str(term) for term in subterms(query) if term.is_entity}
    words = question.split(" ")
    replaced: list[str] = []
    order = sorted((known[name] for name in inside if name in known), key=lambda p: (-len(p.identifier), p.rank))
    for place in order:
        mark = "m1" if replaced else "m0"
        for name in sorted(place.names, key=len, reverse=True):
            part = name.split(" ")
            starts = [start for start in range(len(words)) if words[start : start + len(part)] == part]
            if starts:
                words[starts[0] : starts[0] + len(part)] = [mark]
                query = replace(query, parse(place.identifier), Term(mark))
                replaced.append(place.identifier)
                break
    return " ".join(words), query, replaced


def convert(corpus: bytes, geobase: str) -> list[dict[str, Any]]:
    """The examples of the corpus as `input`, `target` and `entities`, in order.

    Raises:
        ValueError: the corpus is not such XML, or has a query that is not FunQL.
    """
    known = places(geobase)
    try:
        root = ElementTree.fromstring(corpus)
    except ElementTree.ParseError as error:
        raise ValueError(f"not XML ({error})") from error
    examples = []
    for example in root.iter("example"):
        question, text = _text(example, "nl", "en"), _text(example, "mrl", "geo-funql")
        words, query, replaced = anonymize(_plain(question), normalize(parse(text)), known)
        examples.append({"input": words, "target": write(query), "entities": replaced})
    return examples


def _text(example: ElementTree.Element, tag: str, language: str) -> str:
    for element in example.iter(tag):
        if element.get("lang") == language and element.text:
            return element.text.strip()
    raise ValueError(f"example {example.get('id')} has no {tag} in {language}")


def _plain(question: str) -> str:
    """Lower case, without the final punctuation mark, and with an apostrophe joined to the word before it: "What 's" is
    "whats"."""
    return question.lower().rstrip("?").rstrip(".").rstrip().replace(" '", "")
