"""All records of a benchmark in one list: trained from scratch, fine-tuned, evaluated in context."""

from __future__ import annotations

import dataclasses
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hf_sysgen.config.recipe import Recipe
from hf_sysgen.data import benchmark_info
from hf_sysgen.models import CONFIGS
from hf_sysgen.results.cells import PRECISION, precision_of
from hf_sysgen.results.record import Record

# kinds of results, in the order of a list
TRAINED, FINE_TUNED, IN_CONTEXT = "trained from scratch", "fine-tuned", "in context"
KINDS = (TRAINED, FINE_TUNED, IN_CONTEXT)


def kind_of(recipe: Recipe) -> str:
    """Which of `KINDS` a recipe's results are."""
    if recipe.in_context is not None:
        return IN_CONTEXT
    return TRAINED if recipe.model.pretrained is None else FINE_TUNED


def switches(config: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the values that a config class has others of by default, other than sizes and rates."""
    found = {}
    for field in dataclasses.fields(config):
        value = values.get(field.name, field.default)
        types = {type(value), type(field.default)}
        if value != field.default and int not in types and types != {float}:
            found[field.name] = value
    return found


class LeaderboardRow(NamedTuple):
    """
    The runs of one recipe on a split.

    Attributes:
        kind: one of `KINDS`.
        metric: what the scores are.
        scores: by seed.
        records: by seed, with their files.
    """

    kind: str
    benchmark: str
    config: str
    split: str
    metric: str
    scores: tuple[float, ...]
    records: tuple[tuple[Path, Record], ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.scores)

    @property
    def model(self) -> str:
        """The model in words: its type, its switches, what it started from, and how it was judged."""
        record = self.records[0][1]
        recipe = record.recipe
        parts = [f"`{recipe.model.type}`"]
        if recipe.model.pretrained is not None:
            parts.append(f"of `{recipe.model.pretrained}`")
        if recipe.peft is not None:
            parts.append(f"LoRA r={recipe.peft.r}")
        if (how := recipe.in_context) is not None:
            parts.append(f"{how.shots} shots, {how.rule}{', constrained' * how.constrained}")
        config = CONFIGS.get(recipe.model.type)
        fields = switches(config, recipe.model.model_extra) if config else {}
        fields = {f"model.{key}": value for key, value in fields.items()} | record.overrides
        if recipe.data.role_scheme is not None:
            # it may come from the recipe itself
            fields["data.role_scheme"] = recipe.data.role_scheme
        if (precision := precision_of(recipe.training)) != "float32":
            parts.append(precision)
        shown = sorted((key, value) for key, value in fields.items() if key not in SHOWN)
        return ", ".join([*parts, *(f"`{key}={value}`" for key, value in shown)])


# overrides that a row has said already
SHOWN = ("model.type", "model.pretrained", "data.benchmark", "data.config", *PRECISION)


def leaderboard_rows(records: Iterable[tuple[Path, Record]]) -> list[LeaderboardRow]:
    """
    A row for each recipe on the test split of its benchmark, or where that has none, on its compositional splits;
    by benchmark, config, split and kind, the best first. Pretraining has none, as its perplexities depend on the text.
    """
    cells: dict[tuple[str, str], list[tuple[Path, Record]]] = defaultdict(list)
    for path, record in records:
        cells[record.cell_key].append((path, record))
    found = []
    for runs in cells.values():
        runs = sorted(runs, key=lambda one: one[1].seed)
        data = runs[0][1].recipe.data
        info = benchmark_info(data.benchmark)
        if info.task == "language_modeling":
            continue
        config = info.config(data.config)
        for split in ("test",) if "test" in config.splits else config.of_kind("compositional"):
            own = [(path, one) for path, one in runs if split in one.splits]
            metric = "bleu" if any("bleu" in one.splits[split].metrics for _, one in own) else "accuracy"
            scored = [(one, value) for one in own if (value := one[1].splits[split].metrics.get(metric)) is not None]
            if scored:
                kind = kind_of(runs[0][1].recipe)
                scores = tuple(value * (1 if metric == "bleu" else 100) for _, value in scored)
                kept = tuple(one for one, _ in scored)
                found.append(LeaderboardRow(kind, data.benchmark, data.config, split, metric, scores, kept))
    return sorted(found, key=lambda one: (one.benchmark, one.config, one.split, KINDS.index(one.kind), -one.mean))


def best(found: Sequence[LeaderboardRow], kind: str) -> LeaderboardRow | None:
    """The best of a kind; `None` if there is none."""
    return max((one for one in found if one.kind == kind), key=lambda one: one.mean, default=None)
