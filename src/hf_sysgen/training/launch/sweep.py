"""A sweep: one flat YAML document that names recipes and the values of their keys to cross; the states of its runs."""

from __future__ import annotations

import dataclasses
import difflib
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hf_sysgen.config.recipe import (
    Recipe,
    RecipeError,
    find_shipped,
    override_recipe,
    parse_overrides,
    read_mapping,
    write_override,
)
from hf_sysgen.errors import UserError
from hf_sysgen.files import locked

SWEEP_KEYS = ("recipes", "axes", "cells", "seeds", "select")
# seeds have a key of their own, and runs that share a folder would be one run
NOT_AXES = {"seed": "`seeds`", "output_dir": "the folder that you start in"}
STATES = ("finished", "running", "resumable", "failed", "new")
ENDED = "exit status "


class SweepError(UserError):
    """A sweep that cannot be run: says which key, what is wrong, and what would be right."""


@dataclass(frozen=True)
class Run:
    """One run of a sweep.

    Attributes:
        file, overrides: what `python -m hf_sysgen.train` is given.
        recipe: what that makes of it.
    """

    file: Path
    overrides: tuple[str, ...]
    recipe: Recipe

    @property
    def name(self) -> str:
        """Its folder."""
        return str(self.recipe.run_dir)

    @property
    def short_name(self) -> str:
        """The end of the name, which tells the runs of a sweep apart, for a line of a terminal."""
        return self.name if len(self.name) <= 50 else f"...{self.name[-47:]}"

    @property
    def log(self) -> Path:
        """What it printed, in all attempts. Beside the folder, which belongs to the run."""
        return self.recipe.run_dir.with_name(self.recipe.run_dir.name + ".log")


@dataclass(frozen=True)
class Selection:
    """The rule by which the paper picks one of several cells: the best mean over seeds of a split's metric."""

    split: str
    metric: str

    @property
    def lowest(self) -> bool:
        return "loss" in self.metric or "perplexity" in self.metric


@dataclass(frozen=True)
class Sweep:
    """
    Attributes:
        path: the file.
        runs: every cell with every seed: cells in the order of the file, of each all seeds.
        select: see `Selection`; None where the file has none.
        whole: whether these are all its runs.
    """

    path: Path
    runs: tuple[Run, ...]
    select: Selection | None
    whole: bool = True

    @property
    def folder(self) -> Path:
        """What belongs to the sweep as a whole, named after the file and, of recipes/PAPER/sweeps/FILE, its paper."""
        parts = self.path.resolve().with_suffix("").parts
        return Path("runs") / "sweeps" / (f"{parts[-3]}-{parts[-1]}" if parts[-2] == "sweeps" else parts[-1])

    def only(self, names: Iterable[str]) -> Sweep:
        """
        These runs of it.

        Raises:
            SweepError: a name is none of its runs'.
        """
        known = {run.name: run for run in self.runs}
        for name in names:
            if name not in known:
                closest = difflib.get_close_matches(name, known, n=1, cutoff=0.0)[0]
                raise SweepError(f"{self.path} has no run {name!r}, did you mean {closest!r}? See --dry-run")
        return dataclasses.replace(self, runs=tuple(known[name] for name in dict.fromkeys(names)), whole=False)


def load_sweep(path: str | Path, overrides: Iterable[str] = ()) -> Sweep:
    """
    Read a sweep file and check every run of it. Its keys:

    - `recipes`: recipe files, relative to the sweep file;
    - `axes`: key of a recipe -> list of values, crossed with each other and with what follows;
    - `cells`: list of mappings from keys to values that go together; `{}` is the recipe as it stands;
    - `seeds`: list;
    - `select`: split and metric, such as `test accuracy`: of the cells that differ neither in the recipe nor in the
      benchmark's config, the paper reports the one with the best mean over seeds.

    Args:
        path: the file, or the path of one of `shipped_recipes`, with or without the leading "recipes/".
        overrides: `key=value` texts; of the keys above they replace the file's, of a recipe's keys those of all runs,
            and an axis of that key falls away.

    Raises:
        SweepError: the file is no such mapping; two runs have one folder; a recipe, or a cell of it, is wrong.
    """
    path = find_shipped(path)
    try:
        given = parse_overrides(overrides)
        keys = read_mapping(path, "sweep")
    except RecipeError as error:
        raise SweepError(str(error)) from error
    try:
        for key in keys:
            if key not in SWEEP_KEYS:
                closest = difflib.get_close_matches(str(key), SWEEP_KEYS, n=1, cutoff=0.0)[0]
                raise SweepError(f"unknown key {key!r}, did you mean {closest!r}? Keys of recipes belong to `axes`")
        keys |= {key: given.pop(key) for key in SWEEP_KEYS if key in given}
        runs = tuple(_runs(path, keys, given))
        _check_folders(runs)
        return Sweep(path, runs, _selection(keys.get("select"), runs))
    except UserError as error:
        raise SweepError(f"{path}: {error}") from error


def _runs(path: Path, keys: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[Run]:
    from hf_sysgen.data import benchmark_info

    files = _list(keys, "recipes", str, "paths of recipes")
    seeds = _list(keys, "seeds", int, "whole numbers")
    if not 0 <= min(seeds) <= max(seeds) < 2**32:
        raise SweepError(f"seeds: {seeds} are not all in [0, 2^32)")
    cells = _list(keys, "cells", dict, "mappings") if "cells" in keys else [{}]
    axes = keys.get("axes", {})
    if not isinstance(axes, dict):
        raise SweepError("axes: expected `key: [values]` lines")
    for key in (*given, *axes, *(key for cell in cells for key in cell)):
        if not isinstance(key, str):
            raise SweepError(f"{key!r}: keys are words")
        if key in NOT_AXES:
            raise SweepError(f"{key}: is decided by {NOT_AXES[key]}, remove it")
    for key in axes:
        _list(axes, key, object, "values")
        if any(key in cell for cell in cells):
            raise SweepError(f"{key}: stands in `axes` and in `cells`, where only one of them can decide it")
    # what an override decides is no axis any more
    axes = {key: values for key, values in axes.items() if key not in given}
    crossed = []
    for cell in _distinct([cell | given for cell in cells]):
        for values in itertools.product(*axes.values()):
            # sorted, because a run's name has them in order: the same cell of two sweeps is one run
            crossed.append(sorted((cell | dict(zip(axes, values, strict=True))).items()))
    for file in files:
        recipe_file = Path(os.path.normpath(path.parent / file))
        file_keys = read_mapping(recipe_file, "recipe")
        for cell in crossed:
            texts = tuple(write_override(key, value) for key, value in cell)
            recipe = override_recipe(recipe_file, file_keys, dict(cell))
            benchmark_info(recipe.benchmark).config(recipe.config)
            for seed in seeds:
                yield Run(recipe_file, (*texts, f"seed={seed}"), dataclasses.replace(recipe, seed=seed))


def _list(keys: Mapping[str, Any], key: str, kind: type, what: str) -> list[Any]:
    if key not in keys:
        raise SweepError(f"`{key}` is missing")
    values = keys[key]
    if not isinstance(values, list) or not values:
        raise SweepError(f"{key}: expected a list of {what}, got {values!r}")
    for value in values:
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
            raise SweepError(f"{key}: expected a list of {what}, {value!r} is none")
    if len(_distinct(values)) < len(values):
        raise SweepError(f"{key}: a value stands twice in {values!r}")
    return values


def _distinct(values: list[Any]) -> list[Any]:
    return [value for index, value in enumerate(values) if value not in values[:index]]


def _check_folders(runs: Sequence[Run]) -> None:
    seen: dict[Path, Run] = {}
    for run in runs:
        other = seen.setdefault(run.recipe.run_dir, run)
        if other is not run:
            first, second = (f"{one.file} {' '.join(one.overrides)}" for one in (other, run))
            raise SweepError(f"two runs are one, in {run.name}: {first}, and {second}")


def _selection(text: Any, runs: Sequence[Run]) -> Selection | None:
    if text is None:
        return None
    words = text.split() if isinstance(text, str) else []
    if len(words) != 2:
        raise SweepError(f"select: expected a split and a metric, such as `validation accuracy`, got {text!r}")
    if words[0] == "train":
        raise SweepError("select: what is trained on is not measured; name another split")
    from hf_sysgen.data import benchmark_info

    for recipe in (run.recipe for run in runs):
        splits = benchmark_info(recipe.benchmark).config(recipe.config).splits
        if words[0] not in splits:
            raise SweepError(
                f"select: {recipe.benchmark} {recipe.config} has no split {words[0]!r}; it has {', '.join(splits)}"
            )
    return Selection(*words)


def state_of(run: Run) -> tuple[str, str]:
    """One of `STATES`, and what more there is to say: of a failed run its last error."""
    from hf_sysgen.training.run import RECIPE_COPY, being_trained, finished_results

    try:
        if finished_results(run.recipe) is not None:
            return "finished", ""
    except UserError as error:
        return "failed", str(error)
    if run.log.exists():
        with locked(run.log) as file:
            if file is None:
                return "running", last_line(run.log)
    if being_trained(run.recipe.run_dir):
        return "running", "by a command of its own"
    if run.log.exists() and (failure := failure_of(run.log)) is not None:
        return "failed", failure
    return ("resumable" if (run.recipe.run_dir / RECIPE_COPY).exists() else "new"), ""


def failure_of(log: Path) -> str | None:
    """The last error of a log whose last attempt failed."""
    *lines, last = ["", *_tail(log)]
    # what ended well has failed nowhere, though its folder may have been removed since
    if not last.startswith(ENDED) or last == f"{ENDED}0":
        return None
    # what we print ends in one such line; of a traceback the last line says most
    errors = [line for line in lines if line.startswith("error: ")]
    return errors[-1].removeprefix("error: ") if errors else lines[-1] or last


def last_line(log: Path) -> str:
    return _tail(log)[-1] if log.exists() and _tail(log) else ""


def _tail(log: Path) -> list[str]:
    """The last attempt's lines, of a long one the last ones."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 65536))
        text = file.read().decode(errors="replace")
    return [line for line in text.rpartition("\n$ ")[2].splitlines() if line.strip()]


def cells_of(runs: Iterable[Run]) -> list[list[Run]]:
    """The runs by cell: those that differ in the seed alone."""
    return [list(group) for _, group in itertools.groupby(runs, key=lambda run: (run.file, run.overrides[:-1]))]
