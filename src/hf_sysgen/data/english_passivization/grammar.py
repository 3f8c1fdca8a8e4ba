"""The sentences of English passivization (Mueller et al. 2022, arXiv:2203.09397) and their passive voice.

A sentence is "NP verb NP ."; an NP is a determiner and a noun, and maybe one prepositional phrase: a preposition, a
determiner and a noun. The source ends in the task: "decl", repeat the sentence, or "passiv", turn it into the passive
voice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

DETERMINERS = frozenset({"the", "some", "my", "your", "our", "her"})
PREPOSITIONS = frozenset({"around", "near", "with", "upon", "by", "behind", "above", "below"})
VERBS = frozenset(
    {
        "entertained",
        "amused",
        "annoyed",
        "applauded",
        "confused",
        "admired",
        "accepted",
        "remembered",
        "comforted",
    }
)
_SINGULAR = (
    "newt",
    "orangutan",
    "peacock",
    "quail",
    "raven",
    "salamander",
    "tyrannosaurus",
    "unicorn",
    "vulture",
    "walrus",
    "xylophone",
    "yak",
    "zebra",
)
# noun: whether it is plural
NOUNS = dict.fromkeys(_SINGULAR, False) | {
    f"{noun}es" if noun.endswith("s") else f"{noun}s": True for noun in _SINGULAR
}
TASKS = ("decl", "passiv")


def _any(words: Iterable[str]) -> str:
    return f"(?:{'|'.join(sorted(words))})"


_NOUN_PHRASE = f"{_any(DETERMINERS)} {_any(NOUNS)}"
_NOUN_PHRASE += f"(?: {_any(PREPOSITIONS)} {_NOUN_PHRASE})?"
_SOURCE = re.compile(rf"({_NOUN_PHRASE}) ({_any(VERBS)}) ({_NOUN_PHRASE}) \. ({_any(TASKS)})")


class Sentence(NamedTuple):
    """A parsed source.

    Attributes:
        subject: 2 words, or 5 with a prepositional phrase.
        verb: a word of `VERBS`.
        object: like the subject.
        task: one of `TASKS`.
    """

    subject: str
    verb: str
    object: str
    task: str

    @property
    def target(self) -> str:
        """The sentence itself, or its passive voice, as the task asks."""
        if self.task == "decl":
            return f"{self.subject} {self.verb} {self.object} ."
        # the auxiliary agrees with the head of the new subject, not with the nearest noun
        auxiliary = "were" if NOUNS[self.object.split()[1]] else "was"
        return f"{self.object} {auxiliary} {self.verb} by {self.subject} ."


def parse(source: str) -> Sentence:
    """Parse a source.

    >>> parse("some walruses near her yak amused my newt . passiv").target
    'my newt was amused by some walruses near her yak .'

    Raises:
        ValueError: it is not in the grammar.
    """
    found = _SOURCE.fullmatch(source)
    if found is None:
        raise ValueError(f"English passivization: {source!r} is not '<NP> <verb> <NP> . <task>'")
    return Sentence(*found.groups())
