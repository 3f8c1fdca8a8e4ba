"""SCAN's commands and their meaning: the grammar and the interpretation function from the supplement of Lake & Baroni
2018 (arXiv:1711.00350).

A command is one phrase or two phrases joined by "and" or "after"; a phrase is an action, its manner and direction, and
how often it is done. `interpret` gives the actions, `commands` all 20,910 commands.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

PRIMITIVES = {"walk": "I_WALK", "look": "I_LOOK", "run": "I_RUN", "jump": "I_JUMP"}
TURNS = {"left": "I_TURN_LEFT", "right": "I_TURN_RIGHT"}
MANNERS = ("opposite", "around")
REPETITIONS = {"twice": 2, "thrice": 3}
CONJUNCTIONS = ("and", "after")


def commands() -> Iterator[str]:
    """All commands, each once, always in the same order: the 102 phrases, then 102^2 with "and", 102^2 with "after"."""
    bodies = list(PRIMITIVES)
    for manner in ("", *MANNERS):
        for action in (*PRIMITIVES, "turn"):
            bodies += [" ".join(filter(None, (action, manner, direction))) for direction in TURNS]
    phrases = [f"{body} {times}".rstrip() for body in bodies for times in ("", *REPETITIONS)]
    yield from phrases
    for conjunction in CONJUNCTIONS:
        yield from (f"{first} {conjunction} {second}" for first in phrases for second in phrases)


def interpret(command: str) -> str:
    """The actions of a command: words joined by single spaces, as in the upstream files.

    >>> interpret("jump opposite left after walk twice")
    'I_WALK I_WALK I_TURN_LEFT I_TURN_LEFT I_JUMP'

    Raises:
        ValueError: the command is not in the grammar; the message names the first word that is wrong.
    """
    words = _Words(command)
    actions = _phrase(words)
    conjunction = words.optional(CONJUNCTIONS)
    if conjunction == "and":
        actions = actions + _phrase(words)
    elif conjunction == "after":
        # the only rule that reverses: what is said last is done first
        actions = _phrase(words) + actions
    words.end()
    return " ".join(actions)


def _phrase(words: _Words) -> list[str]:
    action = words.required((*PRIMITIVES, "turn"))
    manner = words.optional(MANNERS)
    # "turn", "opposite" and "around" mean nothing without a direction
    direction = words.required(TURNS) if manner or action == "turn" else words.optional(TURNS)
    act = [PRIMITIVES[action]] if action in PRIMITIVES else []
    turn = [TURNS[direction]] if direction else []
    if manner == "around":
        actions = 4 * (turn + act)
    elif manner == "opposite":
        actions = 2 * turn + act
    else:
        actions = turn + act
    times = words.optional(REPETITIONS)
    return REPETITIONS[times] * actions if times else actions


class _Words:
    """A command's words, read from left to right."""

    def __init__(self, command: str) -> None:
        self.command = command
        # split at each space, so a double space gives an empty word, which no rule accepts
        self.words = command.split(" ")
        self.position = 0
        # all words accepted at this position, for the error
        self.accepted: list[str] = []

    def optional(self, accepted: Collection[str]) -> str | None:
        """The next word if it is accepted, else None."""
        if self.position < len(self.words) and self.words[self.position] in accepted:
            self.position += 1
            self.accepted = []
            return self.words[self.position - 1]
        self.accepted += accepted
        return None

    def required(self, accepted: Collection[str]) -> str:
        """The next word, which must be accepted."""
        word = self.optional(accepted)
        if word is None:
            raise self.error()
        return word

    def end(self) -> None:
        """Check that no word is left."""
        if self.position < len(self.words):
            raise self.error()

    def error(self) -> ValueError:
        if self.position < len(self.words):
            found = f"word {self.position + 1}, {self.words[self.position]!r}, is not allowed there"
        else:
            found = f"it ends after word {self.position}, {self.words[-1]!r}"
        expected = f"expected one of {', '.join(self.accepted)}" if self.accepted else "expected nothing more"
        return ValueError(f"not a SCAN command: {self.command!r}: {found}; {expected}")
