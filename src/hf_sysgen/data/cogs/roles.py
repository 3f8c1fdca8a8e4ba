"""Role schemes of COGS, to try attention by roles beyond SCAN (Chakravarthy et al. 2022 name it as the next step).

As with the verbs of SCAN, words of an open class share a role: nouns, names and verbs, and in the target also the
numbers of variables. The logical forms tell the class of a word; no word of COGS has two classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from hf_sysgen.data.cogs.forms import is_name, is_variable, parse_form, position
from hf_sysgen.data.errors import DataError
from hf_sysgen.data.text.roles import NamedScheme, RoleScheme

if TYPE_CHECKING:
    from datasets import Dataset

NOUN, NAME, VERB, NUMBER = "noun", "name", "verb", "number"
# more than any sentence has words
NUMBERS = 200
# capitals mark the start of a sentence, not another word
CASE = {"A": "a", "The": "the"}
PREPOSITIONS = dict.fromkeys(("in", "on", "beside"), "preposition")
CLOSED = {
    "source": {**dict.fromkeys(("a", "the"), "determiner"), **PREPOSITIONS},
    "target": {
        **PREPOSITIONS,
        **dict.fromkeys(("agent", "theme", "recipient"), "thematic"),
        **dict.fromkeys(("xcomp", "ccomp"), "complement"),
        # variables bound by LAMBDA
        **dict.fromkeys(("a", "b", "e"), "bound"),
    },
}


class Class(NamedTuple):
    """An open class of words, on one side."""

    side: str
    word: str
    role: str


def classes(sentence: str, target: str) -> Iterator[Class]:
    """
    The nouns, names and verbs of an example, as written in the sentence and in the logical form.

    Raises:
        ValueError: the target is not a logical form.
    """
    words = sentence.split(" ")
    if " " not in target and is_name(target):
        yield from (Class("source", sentence, NAME), Class("target", target, NAME))
        return
    form = parse_form(target)
    for conjunct in form.conjuncts:
        modifies = conjunct.role.startswith("nmod")
        role = VERB if conjunct.role and not modifies else NOUN
        yield Class("target", conjunct.head, role)
        if form.binders:
            # a word alone
            yield Class("source", words[0], role)
            continue
        yield Class("source", words[position(conjunct.variable)], role)
        if conjunct.argument and not is_variable(conjunct.argument):
            yield from (Class("source", conjunct.argument, NAME), Class("target", conjunct.argument, NAME))


def lexicon(examples: Iterable[tuple[str, str]]) -> dict[str, dict[str, str]]:
    """
    Side -> word -> class, for all words of the examples; a word of no open class is its own class.

    Args:
        examples: sentence and target.

    Raises:
        DataError: a word has two classes, or a target is not a logical form.
    """
    found: dict[str, dict[str, str]] = {"source": {}, "target": {}}
    everything: dict[str, set[str]] = {"source": set(), "target": set()}
    for sentence, target in examples:
        everything["source"].update(sentence.split(" "))
        everything["target"].update(target.split(" "))
        try:
            members = list(classes(sentence, target))
        except (ValueError, IndexError) as error:
            raise DataError(
                f"roles of COGS: {error}; they are for the config's logical forms, not another form"
            ) from error
        for side, word, role in members:
            if found[side].setdefault(word, role) != role:
                raise DataError(f"roles of COGS: the {side} word {word!r} is a {found[side][word]} and a {role}")
    for side, words in everything.items():
        found[side] = {word: found[side].get(word, CASE.get(word, word)) for word in sorted(words)}
    found["target"] |= {str(number): NUMBER for number in range(NUMBERS)}
    return found


def _scheme(name: str, closed: Mapping[str, Mapping[str, str]], dataset: Mapping[str, Dataset] | None) -> RoleScheme:
    if dataset is None:
        raise DataError(f"the role scheme {name} is made from the splits of COGS: give them as dataset")
    found = lexicon(
        chain.from_iterable(zip(part["input"][:], part["target"][:], strict=True) for part in dataset.values())
    )
    roles = {
        side: {word: closed.get(side, {}).get(role, role) for word, role in words.items()}
        for side, words in found.items()
    }
    return RoleScheme.from_names(roles["source"], roles["target"], name)


SCHEMES = {
    "cogs_category": NamedScheme(
        "one role each for nouns, names, verbs and numbers; every other word its own",
        partial(_scheme, "cogs_category", {}),
    ),
    "cogs_pos": NamedScheme(
        "also one role each for determiners, prepositions, thematic roles and complements",
        partial(_scheme, "cogs_pos", CLOSED),
    ),
}
