"""Files in the format of CLUTRR with text of our own: its licence does not allow redistribution."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator
from pathlib import Path

from hf_sysgen.data import benchmark_info
from hf_sysgen.data.clutrr.kinship import EDGE_TYPES, RELATIONS, TARGETS, compose

COLUMNS = ("id", "story", "query", "target", "task_name", "story_edges", "edge_types", "query_edge", "genders")
NAMES = {
    "m": ["Abe", "Bo", "Cy", "Dan", "Ed", "Finn", "Gus", "Hal", "Ira", "Jo", "Ken", "Lou"],
    "f": ["Ada", "Bea", "Cleo", "Dot", "Eve", "Fay", "Gia", "Hope", "Ida", "Joy", "Kay", "Liv"],
}
IN_TRAIN = {"gen_train23_test2to10": (2, 3), "gen_train234_test2to10": (2, 3, 4)}


def chains(draw: random.Random, length: int, count: int) -> Iterator[tuple[tuple[str, ...], str]]:
    """Different walks of that many relations, each with the relation of its ends."""
    seen = set()
    while len(seen) < count:
        types: tuple[str, ...] = (draw.choice(EDGE_TYPES),)
        # a walk that has an answer so far, so that what is drawn is not all in vain
        while len(types) < length and (longer := [walk for label in EDGE_TYPES if compose(walk := (*types, label))]):
            types = draw.choice(longer)
        if len(types) < length:
            continue
        targets = sorted(compose(types) & set(TARGETS))
        if targets and types not in seen:
            seen.add(types)
            yield types, targets[0]


def row(draw: random.Random, number: int, types: tuple[str, ...], target: str) -> dict[str, str]:
    genders = [draw.choice("mf"), *(RELATIONS[label][1] for label in types)]
    names = {gender: draw.sample(NAMES[gender], len(genders)) for gender in "mf"}
    people = [names[gender].pop() for gender in genders]
    steps = list(enumerate(types))
    edges = [(at, at + 1) for at, _ in steps]
    return {
        "id": str(number),
        "story": "  ".join(
            f"[{people[at]}] went for walk {number} with [{people[at + 1]}], the {label}." for at, label in steps
        ),
        "query": str((people[0], people[-1])),
        "target": target,
        "task_name": f"task_1.{len(types)}",
        "story_edges": str(edges),
        "edge_types": str(list(types)),
        "query_edge": str((0, len(types))),
        "genders": ",".join(
            f"{name}:{'male' if g == 'm' else 'female'}" for name, g in zip(people, genders, strict=True)
        ),
    }


def write_clutrr(folder: Path) -> Path:
    """The files of the configs of `IN_TRAIN`: all pairs of relations are in train, and no longer chain of a test is."""
    for config, lengths in IN_TRAIN.items():
        draw = random.Random(config)
        pairs = [
            ((a, b), min(compose((a, b)))) for a in EDGE_TYPES for b in EDGE_TYPES if compose((a, b)) & set(TARGETS)
        ]
        of_length = {length: list(chains(draw, length, 60 if length in lengths else 6)) for length in range(3, 11)}
        train = [*pairs, *(chain for length in lengths[1:] for chain in of_length[length][6:])]
        parts = {"train": train, "test_2": draw.sample(pairs, 6)}
        parts |= {f"test_{length}": found[:6] for length, found in of_length.items()}
        for part, (role, examples) in enumerate(parts.items()):
            path = folder / benchmark_info("clutrr").configs[config].sources[role].mirror
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, ["", *COLUMNS])
                writer.writeheader()
                for at, (types, target) in enumerate(examples):
                    writer.writerow({"": str(at), **row(draw, 1_000 * part + at, types, target)})
    return folder
