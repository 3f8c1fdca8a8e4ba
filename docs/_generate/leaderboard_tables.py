"""The leaderboard, and the card of each of its rows, from the records in results/."""

from __future__ import annotations

import contextlib
import itertools
import re
import statistics
from functools import cache

from kept import cells, kept
from leaderboard import FINE_TUNED, IN_CONTEXT, KINDS, TRAINED, LeaderboardRow, best, leaderboard_rows

from hf_sysgen.data import benchmark_info
from hf_sysgen.errors import UserError
from hf_sysgen.files import file_name
from hf_sysgen.hub.publish_model import run_card
from hf_sysgen.reports.report import without_learning
from hf_sysgen.results.cells import labels
from hf_sysgen.tables import markdown

HEADER = ("model", "score", "seeds", "parameters", "steps", "card")
TITLES = {TRAINED: "Trained from scratch", FINE_TUNED: "Fine-tuned", IN_CONTEXT: "In-context examples"}


@cache
def _rows() -> list[LeaderboardRow]:
    return leaderboard_rows(kept().records)


def _groups() -> list[tuple[tuple[str, str, str], list[LeaderboardRow]]]:
    grouped = itertools.groupby(_rows(), key=lambda one: (one.benchmark, one.config, one.split))
    return [(key, list(found)) for key, found in grouped]


@cache
def cards() -> dict[str, str]:
    """The card of each row's recipe, without its front matter, by file name; none of records of older versions, which
    have no example for it."""
    found = {}
    for one in _rows():
        path, record = one.records[0]
        with contextlib.suppress(UserError):
            text = run_card(path)
            found[_card_names()[record.cell_key]] = text.split("\n---\n", 1)[1] if text.startswith("---\n") else text
    return found


@cache
def _card_names() -> dict[tuple[str, str], str]:
    """The file of each cell's card, without what a link cannot have."""
    names = labels(list(cells().values()))
    return {
        key: f"{re.sub('[^A-Za-z0-9._-]', '-', file_name(name))}.md" for key, name in zip(cells(), names, strict=True)
    }


def leaderboard_overview() -> str:
    """A row for each split: the best of each kind."""
    rows = []
    for (benchmark, config, split), found in _groups():
        cells = [_score(top) if (top := best(found, kind)) else "-" for kind in KINDS]
        rows.append((f"[{benchmark} `{config}`](#{_anchor(benchmark, config, split)})", split, *cells))
    return markdown(("benchmark", "split", *(TITLES[kind] for kind in KINDS)), rows)


def leaderboard() -> str:
    """For each split a table of each kind, the best first."""
    parts = []
    for (benchmark, config, split), found in _groups():
        parts.append(f"## {benchmark} `{config}`, {split} {{ #{_anchor(benchmark, config, split)} }}")
        parts.append(benchmark_info(benchmark).config(config).description)
        for kind in KINDS:
            rows = [_row(one) for one in found if one.kind == kind]
            if rows:
                parts += [f"**{TITLES[kind]}**", markdown(HEADER, rows)]
    return "\n\n".join(parts)


def _row(one: LeaderboardRow) -> tuple[str, ...]:
    record = one.records[0][1]
    name, file = record.file.rpartition("/")[2], _card_names()[record.cell_key]
    card = f"[{name}](cards/{file})" if file in cards() else name
    seeds = f"{len(one.scores)}{without_learning(other for _, other in one.records)}"
    return (one.model, _score(one), seeds, f"{record.num_parameters:,}", f"{record.steps:,}", card)


def _score(one: LeaderboardRow) -> str:
    spread = f" ± {statistics.stdev(one.scores):.1f}" if len(one.scores) > 1 else ""
    return f"{one.mean:.1f}{spread}{' BLEU' * (one.metric == 'bleu')}"


def _anchor(benchmark: str, config: str, split: str) -> str:
    return f"{benchmark}-{config}-{split}".replace("_", "-")


TABLES = (leaderboard_overview, leaderboard)
