"""CFQ's split families, and what Bergen et al. 2021 use of them."""

from __future__ import annotations

from typing import NamedTuple


class Family(NamedTuple):
    """A split family of CFQ.

    Attributes:
        split: name of its file in the archive.
        lengths: most tokens of a question and of a query, in train and in test (Csordas et al. 2021, table 10).
    """

    split: str
    lengths: dict[str, tuple[int, int]] = {}  # noqa: RUF012


FAMILIES = {
    "mcd1": Family("mcd1", lengths={"train": (29, 95), "test": (30, 103)}),
    "mcd2": Family("mcd2", lengths={"train": (29, 107), "test": (30, 91)}),
    "mcd3": Family("mcd3", lengths={"train": (29, 107), "test": (30, 103)}),
    "random": Family("random_split"),
    "question_complexity": Family("question_complexity_split"),
    "query_complexity": Family("query_complexity_split", lengths={"train": (29, 77), "test": (29, 107)}),
    "question_pattern": Family("question_pattern_split"),
    "query_pattern": Family("query_pattern_split"),
}


class Selection(NamedTuple):
    """What Bergen et al. 2021 use of a family.

    Attributes:
        validation_from: the part from which validation examples are taken.
        filtered: whether training queries of 50 tokens and more are left out, as in their code.
    """

    validation_from: str
    filtered: bool


EDGE = {
    f"{family}_edge{suffix}": Selection("test" if family == "random" else "train", filtered=not suffix)
    for suffix in ("", "_unfiltered")
    for family in ("mcd1", "mcd2", "mcd3", "random")
}


def family_of(config: str) -> str:
    return config.partition("_edge")[0]


def split_names(family: str) -> dict[str, str]:
    """Our names of CFQ's three parts: its dev set is drawn like its test set."""
    validation = "validation" if family == "random" else "validation_generalization"
    return {"train": "train", "validation": validation, "test": "test"}
