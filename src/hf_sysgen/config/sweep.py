"""Sweeps: recipes crossed with values of their fields and with seeds, from one YAML file."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from hf_sysgen.config.errors import RecipeError
from hf_sysgen.config.io import (
    BASE,
    RecipeFile,
    add_path_to_errors,
    check_schema,
    find_shipped,
    parse_overrides,
    read_yaml,
    write_override,
)
from hf_sysgen.config.recipe import Recipe
from hf_sysgen.config.sections import Below32Bits
from hf_sysgen.data import benchmark_info
from hf_sysgen.errors import did_you_mean, shorten

# seeds have a key of their own, and runs that share a folder would be one run
NOT_AXES = {"seed": "`seeds`", "output_dir": "the folder that you start in"}


class SweepFile(BaseModel):
    """The keys of a sweep file."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)

    recipes: Annotated[list[str], Field(min_length=1)]
    """Recipe files, relative to the sweep file."""
    axes: dict[str, Annotated[list[Any], Field(min_length=1)]] = {}
    """Dotted key of a recipe -> its values, crossed with each other and with what follows."""
    cells: Annotated[list[dict[str, Any]], Field(min_length=1)] = [{}]
    """Values by dotted key that go together; `{}` is the recipe as it stands."""
    seeds: Annotated[list[Below32Bits], Field(min_length=1)]
    """Seeds of each cell."""
    select: str | None = None
    """Split and metric, such as `test accuracy`: of the cells that differ neither in the recipe nor in `data.config`,
    the paper reports the one with the best mean over seeds."""

    @field_validator("recipes", "seeds", "axes")
    @classmethod
    def _distinct(cls, value: Any) -> Any:
        for values in value.values() if isinstance(value, dict) else [value]:
            if len(distinct(values)) < len(values):
                raise ValueError(f"a value is repeated in {shorten(values)}")
        return value

    @model_validator(mode="after")
    def _keys_once(self) -> SweepFile:
        for key in self.axes:
            if any(key in cell for cell in self.cells):
                raise ValueError(f"axes: {key} is also in `cells`; remove one of them")
        return self


@dataclass(frozen=True)
class Run:
    """
    One run of a sweep.

    Attributes:
        path, overrides: what `python -m hf_sysgen.train` is given.
        recipe: what that makes of it.
    """

    path: Path
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
        folder = self.recipe.run_dir
        # `.` has no name
        folder = folder if folder.name else folder.absolute()
        return folder.with_name(f"{folder.name}.log")


@dataclass(frozen=True)
class Selection:
    """The rule by which the paper picks one of several cells: the best mean over seeds of a split's metric."""

    split: str
    metric: str

    @property
    def lower_is_better(self) -> bool:
        return "loss" in self.metric or "perplexity" in self.metric


@dataclass(frozen=True)
class Sweep:
    """
    Attributes:
        path: the file.
        runs: every cell with every seed: cells in the order of the file, of each all seeds.
        select: see `Selection`; None where the file has none.
        complete: whether these are all its runs.
    """

    path: Path
    runs: tuple[Run, ...]
    select: Selection | None
    complete: bool = True

    @property
    def folder(self) -> Path:
        """Where the files of the whole sweep go: named after the file and, for recipes/PAPER/sweeps/FILE, its paper."""
        parts = self.path.resolve().with_suffix("").parts
        return Path("runs") / "sweeps" / (f"{parts[-3]}-{parts[-1]}" if parts[-2] == "sweeps" else parts[-1])

    @property
    def lock(self) -> Path:
        """The file that a process locks which runs or submits the whole sweep."""
        return self.folder / "lock"

    def only(self, names: Iterable[str]) -> Sweep:
        """
        These runs of it.

        Raises:
            RecipeError: a name is none of its runs'.
        """
        known = {run.name: run for run in self.runs}
        for name in names:
            if name not in known:
                meant = did_you_mean(name, known)
                raise RecipeError(f"{self.path} has no run {name!r}{meant} See --dry-run", "run")
        return dataclasses.replace(self, runs=tuple(known[name] for name in dict.fromkeys(names)), complete=False)


def load_sweep(path: str | Path, overrides: Iterable[str] = ()) -> Sweep:
    """
    Read a sweep file and check every run of it.

    Args:
        path: the file, or the path of one of `shipped_recipes`, with or without the leading "recipes/".
        overrides: `key=value` texts. A key of the sweep file replaces the file's value. A dotted key of a recipe sets
            it in all runs, and removes an axis of that key.

    Raises:
        RecipeError: names the key: the file is wrong; two runs have one folder; a recipe, or a cell of it, is wrong.
    """
    path = find_shipped(path, "sweeps")
    with add_path_to_errors(path):
        given = parse_overrides(overrides)
        keys = read_yaml(path, "sweep")
        keys |= {key: given.pop(key) for key in SweepFile.model_fields if key in given}
        file = _parsed(keys)
        runs = tuple(_runs(path, file, given))
        check_folders(runs)
        return Sweep(path, runs, _selection(file.select, runs))


def distinct(values: list[Any]) -> list[Any]:
    """Each value once; values need not be hashable."""
    return [value for index, value in enumerate(values) if value not in values[:index]]


def cells_of(runs: Iterable[Run]) -> list[list[Run]]:
    """The runs by cell: those that differ in the seed alone."""
    return [list(group) for _, group in itertools.groupby(runs, key=lambda run: (run.path, run.overrides[:-1]))]


def _parsed(keys: Mapping[str, Any]) -> SweepFile:
    if "recipes" not in keys and {"model", "data", BASE} & keys.keys():
        raise RecipeError("is a recipe; `hf-sysgen train FILE` runs it")
    try:
        return SweepFile.model_validate(dict(keys))
    except ValidationError as error:
        first = min(error.errors(include_url=False), key=lambda one: one["type"] != "extra_forbidden")
        key = str(first["loc"][0]) if first["loc"] else None
        if first["type"] == "extra_forbidden":
            meant = did_you_mean(str(key), SweepFile.model_fields)
            raise RecipeError(f"unknown key {key!r}{meant} Keys of recipes belong to `axes`", key) from None
        if first["type"] == "missing":
            raise RecipeError(f"`{key}` is missing", key) from None
        said = first["msg"].removeprefix("Value error, ")
        where = ".".join(map(str, first["loc"]))
        raise RecipeError(f"{where}: {said}, got {shorten(first['input'])}" if where else said, key) from None


def _runs(path: Path, file: SweepFile, given: Mapping[str, Any]) -> Iterator[Run]:
    for key in (*given, *file.axes, *(key for cell in file.cells for key in cell)):
        if key in NOT_AXES:
            raise RecipeError(f"{key}: is decided by {NOT_AXES[key]}, remove it", key)
    # an override replaces the axis of its key
    axes = {key: values for key, values in file.axes.items() if key not in given}
    crossed = [
        # sorted, because a run's name has them in order: the same cell of two sweeps is one run
        dict(sorted((cell | dict(zip(axes, values, strict=True))).items()))
        for cell in distinct([cell | dict(given) for cell in file.cells])
        for values in itertools.product(*axes.values())
    ]
    paths = [Path(os.path.normpath(path.parent / name)) for name in file.recipes]
    for recipe_path in paths:
        check_schema(recipe_path, crossed[0])
    for recipe_path in paths:
        recipe_file = RecipeFile(recipe_path)
        for cell in crossed:
            texts = tuple(write_override(key, value) for key, value in cell.items())
            recipe = recipe_file.recipe(cell)
            for seed in file.seeds:
                yield Run(recipe_file.path, (*texts, f"seed={seed}"), recipe.replace(seed=seed))


def check_folders(runs: Sequence[Run]) -> None:
    """Raises RecipeError: two of the runs have one folder."""
    seen: dict[Path, Run] = {}
    for run in runs:
        other = seen.setdefault(run.recipe.run_dir, run)
        if other is not run:
            first, second = (f"{one.path} {' '.join(one.overrides)}" for one in (other, run))
            raise RecipeError(f"two runs are one, in {run.name}: {first}, and {second}")


def _selection(text: str | None, runs: Sequence[Run]) -> Selection | None:
    if text is None:
        return None
    words = text.split()
    if len(words) != 2:
        raise RecipeError(
            f"select: expected a split and a metric, such as `validation accuracy`, got {shorten(text)}", "select"
        )
    if words[0] == "train":
        raise RecipeError("select: the training split is not measured; name another split", "select")
    for data in (run.recipe.data for run in runs):
        splits = benchmark_info(data.benchmark).config(data.config).splits
        if words[0] not in splits:
            raise RecipeError(
                f"select: {data.benchmark} {data.config} has no split {words[0]!r}; it has {', '.join(splits)}",
                "select",
            )
    return Selection(*words)
