"""Generate the files of brendenlake/SCAN from the grammar, byte for byte.

Each upstream file is one of four shuffles, or a part of one that a rule selects:

    tasks.txt                         a shuffle of all commands
    template_split/*                  tasks.txt, filtered, in its order
    simple_split/*                    a second shuffle of all commands, cut after 80 %
    length_split/*                    the second shuffle, stably sorted by number of actions, cut after 22
    add_prim_split/tasks_test_*       the second shuffle, filtered, in its order
    add_prim_split/tasks_train_*      two more shuffles, of the rest with repeated copies of the primitive

Only the shuffles are random, so `order.npz` has just these: for each line of a shuffle the command's position in
`scan.grammar.commands()`. To write it again from a copy of the upstream repository:

    python -m hf_sysgen.data.scan.files --write-order SCAN_FOLDER order.npz

The orders are taken from SCAN, https://github.com/brendenlake/SCAN, Copyright (c) 2016-present, Facebook, Inc. All
rights reserved. SCAN is distributed under a 3-clause BSD licence (its file LICENSE), which also holds for `order.npz`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from hf_sysgen.data.scan.grammar import PRIMITIVES, commands, interpret

ORDER_FILE = Path(__file__).with_name("order.npz")

# name of a shuffle in the order file -> the upstream files whose concatenated lines are that shuffle
SHUFFLES = {
    "tasks": ("tasks.txt",),
    "simple": ("simple_split/tasks_train_simple.txt", "simple_split/tasks_test_simple.txt"),
    "addprim_jump": ("add_prim_split/tasks_train_addprim_jump.txt",),
    "addprim_turn_left": ("add_prim_split/tasks_train_addprim_turn_left.txt",),
}
# lines of simple_split/tasks_train_simple.txt
SIMPLE_TRAIN = 16_728
# maximum of actions in length_split/tasks_train_length.txt
LENGTH_TRAIN = 22
# split -> actions, and manner and direction, whose combination is only in the test file
TEMPLATES = {
    "around_right": (tuple(PRIMITIVES), "around right"),
    "jump_around_right": (("jump",), "around right"),
    "opposite_right": (tuple(PRIMITIVES), "opposite right"),
    "right": (tuple(PRIMITIVES), "right"),
}

PARTS = ("train", "test")

Pair = tuple[str, str]


def rebuild(path: str) -> bytes:
    """The content of the upstream file at `path`: lines "IN: <command> OUT: <actions>".

    Raises:
        KeyError: no rule makes a file with that path.
    """
    return "".join(f"IN: {command} OUT: {actions}\n" for command, actions in _RULES[path]()).encode()


def parse(content: bytes) -> list[Pair]:
    """The (command, actions) pairs of a file's lines, in order."""
    pairs = []
    for line in content.decode("ascii").splitlines():
        command, _, actions = line.removeprefix("IN: ").partition(" OUT: ")
        pairs.append((command, actions))
    return pairs


def num_actions(pair: Pair) -> int:
    """Length of an example as the papers count it: actions, without the end symbol."""
    return pair[1].count(" ") + 1


def write_order(folder: Path, output: Path) -> None:
    """Write the order file from the upstream files below `folder`."""
    import numpy as np

    position = {command: index for index, command in enumerate(commands())}
    orders: dict[str, Any] = {}
    for name, paths in SHUFFLES.items():
        pairs = [pair for path in paths for pair in parse((folder / path).read_bytes())]
        orders[name] = np.array([position[command] for command, _ in pairs], dtype="<u2")
    np.savez_compressed(output, **orders)


@cache
def examples() -> list[Pair]:
    """Every command with its actions, in the grammar's order."""
    return [(command, interpret(command)) for command in commands()]


def _shuffle(name: str) -> list[Pair]:
    import numpy as np

    pairs = examples()
    with np.load(ORDER_FILE) as orders:
        return [pairs[position] for position in orders[name].tolist()]


def _simple(part: str) -> list[Pair]:
    pairs = _shuffle("simple")
    return pairs[:SIMPLE_TRAIN] if part == "train" else pairs[SIMPLE_TRAIN:]


def _length(part: str) -> list[Pair]:
    by_length = sorted(_shuffle("simple"), key=num_actions)
    return [pair for pair in by_length if (num_actions(pair) <= LENGTH_TRAIN) == (part == "train")]


def _addprim_test(primitive: str) -> list[Pair]:
    return [pair for pair in _shuffle("simple") if primitive in pair[0] and primitive != pair[0]]


def _template(split: str, part: str) -> list[Pair]:
    actions, template = TEMPLATES[split]
    held_out = [f"{action} {template}" for action in actions]
    # upstream has the 1,209 commands with "turn" in the template in neither file
    pairs = [pair for pair in _shuffle("tasks") if f"turn {template}" not in pair[0]]
    return [pair for pair in pairs if any(phrase in pair[0] for phrase in held_out) == (part == "test")]


_RULES: dict[str, Callable[[], list[Pair]]] = {
    "tasks.txt": partial(_shuffle, "tasks"),
    "add_prim_split/tasks_train_addprim_jump.txt": partial(_shuffle, "addprim_jump"),
    "add_prim_split/tasks_test_addprim_jump.txt": partial(_addprim_test, "jump"),
    "add_prim_split/tasks_train_addprim_turn_left.txt": partial(_shuffle, "addprim_turn_left"),
    "add_prim_split/tasks_test_addprim_turn_left.txt": partial(_addprim_test, "turn left"),
    **{f"simple_split/tasks_{part}_simple.txt": partial(_simple, part) for part in PARTS},
    **{f"length_split/tasks_{part}_length.txt": partial(_length, part) for part in PARTS},
    **{
        f"template_split/tasks_{part}_template_{split}.txt": partial(_template, split, part)
        for split in TEMPLATES
        for part in PARTS
    },
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m hf_sysgen.data.scan.files", description=write_order.__doc__)
    parser.add_argument("--write-order", nargs=2, type=Path, metavar=("SCAN_FOLDER", "OUTPUT"), required=True)
    folder, output = parser.parse_args(arguments).write_order
    write_order(folder, output)


if __name__ == "__main__":
    main()
