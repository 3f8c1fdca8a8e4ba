"""The grammar against hand-made answers. That it gives every upstream line is in test_scan_files.py."""

from __future__ import annotations

import random

import pytest

from hf_sysgen.data.scan.grammar import commands, interpret

JUMP, LOOK, RUN, WALK, LEFT, RIGHT = "I_JUMP", "I_LOOK", "I_RUN", "I_WALK", "I_TURN_LEFT", "I_TURN_RIGHT"


@pytest.mark.parametrize(
    ("command", "actions"),
    [
        # the examples of Lake & Baroni 2018, figure 1
        ("jump", [JUMP]),
        ("jump left", [LEFT, JUMP]),
        ("jump around right", [RIGHT, JUMP, RIGHT, JUMP, RIGHT, JUMP, RIGHT, JUMP]),
        ("turn left twice", [LEFT, LEFT]),
        ("jump thrice", [JUMP, JUMP, JUMP]),
        ("jump opposite left and walk thrice", [LEFT, LEFT, JUMP, WALK, WALK, WALK]),
        (
            "jump opposite left after walk around left",
            [LEFT, WALK, LEFT, WALK, LEFT, WALK, LEFT, WALK, LEFT, LEFT, JUMP],
        ),
        # what these leave out
        ("turn opposite right", [RIGHT, RIGHT]),
        ("turn around left", [LEFT, LEFT, LEFT, LEFT]),
        ("look right twice", [RIGHT, LOOK, RIGHT, LOOK]),
        ("run and turn right thrice", [RUN, RIGHT, RIGHT, RIGHT]),
    ],
)
def test_interpret(command: str, actions: list[str]) -> None:
    assert interpret(command) == " ".join(actions)


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        ("fly", ["word 1, 'fly'", "one of walk, look, run, jump, turn"]),
        ("turn", ["ends after word 1, 'turn'", "one of opposite, around, left, right"]),
        ("walk around twice", ["word 3, 'twice'", "one of left, right"]),
        ("walk twice thrice", ["word 3, 'thrice'", "one of and, after"]),
        ("walk after", ["ends after word 2, 'after'", "one of walk, look, run, jump, turn"]),
        ("walk and run and jump", ["word 4, 'and'", "one of opposite, around, left, right, twice, thrice"]),
        ("walk and run twice and", ["word 5, 'and'", "nothing more"]),
        ("Jump", ["word 1, 'Jump'"]),
        ("jump  twice", ["word 2, ''"]),
        ("jump ", ["word 2, ''"]),
        ("", ["word 1, ''"]),
    ],
)
def test_outside_the_grammar(command: str, parts: list[str]) -> None:
    with pytest.raises(ValueError, match="SCAN command") as caught:
        interpret(command)
    for part in (repr(command), *parts):
        assert part in str(caught.value)


def test_commands() -> None:
    everything = list(commands())
    assert len(everything) == len(set(everything)) == 20_910
    assert everything == list(commands())
    assert everything[0] == "walk"
    assert everything[-1] == "turn around right thrice after turn around right thrice"


def test_interpret_accepts_the_commands_and_nothing_else() -> None:
    everything = set(commands())
    words = sorted({word for command in everything for word in command.split()})
    draw = random.Random(0)
    for _ in range(20_000):
        command = " ".join(draw.choices(words, k=draw.randint(1, 4)))
        try:
            interpret(command)
        except ValueError:
            assert command not in everything
        else:
            assert command in everything
