"""The papers' tables and figures as printed, and which run of ours makes which cell.

One file a paper in papers/, all scalars text, so that a number keeps the digits it is printed with:

- `authors`, `title`; `reduced`: recipe -> the recipe whose cell it asks for with a smaller budget.
- `tables`: id -> table. Keys of a table:
  - `caption`, in words of ours; `columns`; `rows`: label -> the cells, "" where the paper has none, "?" where it cannot
    be read; `notes`, `errata`: sentences; `corrected`: row -> column -> what a misprint is compared as, like a cell.
  - `kind`: `results` (default), `count` (of parameters), `setup`, `text`, `figure`; only the first two are compared.
  - `unit`: `share` (0 to 1), `percent`, `bleu`, `perplexity`; `units`: row or column -> another one.
  - `statistic`: `mean` (default) or `median`; `spread`: what follows ±, `std` or `sem`; `seeds`: runs behind a number,
    left out where the paper does not say; `exceptions`: row -> `spread` and `seeds` of its own, "" for not said.
  - `selection`: how the authors chose on the test set: `best`, of several evaluations; `scaling`, of the embedding
    scalings. Ours are not chosen; beside them stands what the authors' way would have given.
  - `means`: column -> the columns that it is the mean of, of runs of one seed.
  - `runs`: `rows`, `columns`: label -> a part of the run. A row's `{}` takes the column's part, else that is appended;
    `cells`: row -> column -> the whole, also of a cell that the paper leaves empty. A run is "RECIPE dotted.key=value
    ... @MEASURE": a recipe file's name, overrides as they are given to it, and what is measured, a
    split and a metric of it; `test.accuracy` if none is given.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hf_sysgen.config.io import parse_overrides
from hf_sysgen.config.recipe import Recipe
from hf_sysgen.errors import UserError
from hf_sysgen.results.record import Record

FOLDER = Path(__file__).parent
COMPARED = ("results", "count")
MEASURE = "test.accuracy"
# "~" approximately; mean; what follows ±; what stands in brackets
PRINTED = re.compile(r"~?(?P<mean>\d*\.?\d*)(?P<scale>[kM]?)(?: ± (?P<spread>\d*\.?\d*))?(?: \((?P<aside>[\d.]+)\))?")
SCALES = {"": 1.0, "k": 1e3, "M": 1e6}


# what only says how long a run is; its share of the paper's is its budget
BUDGET = "training.max_steps"
# with or without mixed precision a run makes the same cell, and is marked
PRECISION = ("training.bf16", "training.fp16")
BEST, SCALING = "best", "scaling"
# what an authors' selection chooses among
CHOICES: dict[str | None, tuple[str, ...]] = {SCALING: ("model.embedding_scaling",)}


@dataclass(frozen=True)
class Run:
    """
    What has to be run for a cell.

    Attributes:
        recipe: name of the recipe file, without folder and ending.
        overrides: dotted key -> value that replaces the file's.
        measure: where the number stands in the record: a split, a metric of it, of `by_category` a category; or
            `num_parameters`.
        choices: keys that the authors chose the value of on the test set, so that a run may have another one.
    """

    recipe: str
    overrides: Mapping[str, Any]
    measure: str
    choices: tuple[str, ...] = ()

    def __str__(self) -> str:
        texts = (value if isinstance(value, str) else json.dumps(value) for value in self.overrides.values())
        return " ".join([self.recipe, *(f"{key}={text}" for key, text in zip(self.overrides, texts, strict=True))])

    def is_of(self, file: str, overrides: Mapping[str, Any]) -> bool:
        """Whether a run of this file with these overrides makes the cell; budget, precision and choices are free."""
        if self.recipe != whole_of(file):
            return False
        free = (BUDGET, *PRECISION, *self.choices)
        wanted, given = (
            {key: value for key, value in one.items() if key not in free} for one in (self.overrides, overrides)
        )
        return wanted == given

    def setup(self, recipe: Recipe) -> Recipe:
        """The paper's setup of the cell, made of the file's recipe."""
        return recipe.with_(**self.overrides)


@dataclass(frozen=True)
class Cell:
    """
    A cell of a table.

    Attributes:
        row, column: its labels.
        printed: the paper's text; "" where it has no number, "?" where it cannot be read.
        corrected: what ours is compared with instead, where the text is a misprint; the same forms.
        unit, deviation, seeds: see the module's first lines, where `deviation` is called `spread`.
        run: what makes it, `None` where nothing does.
        mean_of: the columns of its row that it is the mean of.
    """

    row: str
    column: str
    printed: str
    unit: str
    deviation: str | None
    seeds: int | None
    run: Run | None
    corrected: str | None = None
    mean_of: tuple[str, ...] = ()

    @property
    def able(self) -> bool:
        """Whether our recipes make it."""
        return self.run is not None or bool(self.mean_of)

    @property
    def _read(self) -> re.Match[str] | None:
        return PRINTED.fullmatch(self.printed if self.corrected is None else self.corrected)

    @property
    def mean(self) -> float | None:
        """The number in its unit, `None` where there is none."""
        match = self._read
        return float(match["mean"]) * SCALES[match["scale"]] if match and match["mean"].strip(".") else None

    @property
    def spread(self) -> float | None:
        """What is printed after ±."""
        match = self._read
        return float(match["spread"]) if match and match["spread"] else None

    @property
    def rounding(self) -> float:
        """Half a unit of the last printed digit: how far the number may be from what it was rounded from."""
        match = self._read
        if not match:
            return 0.0
        digits = len(match["mean"].partition(".")[2])
        return 0.5 * 10.0**-digits * SCALES[match["scale"]]


@dataclass(frozen=True)
class Table:
    """A table or figure of a paper; see the module's first lines. `id` is e.g. `csordas2021-table3`."""

    id: str
    caption: str
    kind: str
    columns: tuple[str, ...]
    cells: Mapping[str, tuple[Cell, ...]]
    statistic: str
    spread: str | None
    seeds: int | None
    notes: tuple[str, ...]
    errata: tuple[str, ...]
    selection: str | None = None

    @property
    def name(self) -> str:
        """As the paper calls it, e.g. "Table 3"."""
        kind, number = re.fullmatch(r"([a-z]+)([\d.]+)", self.id.partition("-")[2]).groups()  # type: ignore[union-attr]
        return f"{kind.capitalize()} {number}"

    @property
    def compared(self) -> bool:
        return self.kind in COMPARED and bool(self.cells)

    def __iter__(self) -> Iterator[Cell]:
        for cells in self.cells.values():
            yield from cells


@dataclass(frozen=True)
class Paper:
    """A paper. `reduced` is recipe -> the recipe that it makes smaller."""

    id: str
    authors: str
    title: str
    reduced: Mapping[str, str]
    tables: tuple[Table, ...]


@cache
def papers() -> tuple[Paper, ...]:
    """All papers, by their file's name."""
    return tuple(_read(path) for path in sorted(FOLDER.glob("*.yaml")))


def find_tables(name: str) -> list[tuple[Paper, Table]]:
    """
    The tables of a name: `all`, a paper (`csordas2021`), or one table of it (`csordas2021-table3`).

    Raises:
        UserError: nothing has that name.
    """
    found = [(paper, table) for paper in papers() for table in paper.tables if name in ("all", paper.id, table.id)]
    if not found:
        paper_ids = ", ".join(paper.id for paper in papers())
        same = [table.id for paper in papers() for table in paper.tables if paper.id == name.partition("-")[0]]
        known = f"{name.partition('-')[0]} has {', '.join(same)}" if same else f"tables of {paper_ids}, or all"
        raise UserError(f"no table {name!r}: {known}")
    return found


def _read(path: Path) -> Paper:
    import yaml

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    content = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)
    tables = tuple(_table(f"{path.stem}-{name}", keys) for name, keys in content["tables"].items())
    return Paper(path.stem, content["authors"], content["title"], content.get("reduced", {}), tables)


def _table(name: str, keys: dict[str, Any]) -> Table:
    columns = tuple(keys.get("columns", ()))
    units, unit, runs = keys.get("units", {}), keys.get("unit", ""), keys.get("runs", {})
    if keys.get("kind") == "count":
        unit = "count"
    spread, seeds = keys.get("spread"), keys.get("seeds")
    choices = CHOICES.get(keys.get("selection"), ())
    cells = {}
    for row, texts in keys.get("rows", {}).items():
        own = keys.get("exceptions", {}).get(row, {})
        cells[row] = tuple(
            Cell(
                row=row,
                column=column,
                printed=text,
                unit=units.get(row, units.get(column, unit)),
                deviation=own.get("spread", spread),
                seeds=_count(own.get("seeds", seeds)),
                run=_run(runs, row, column, bool(text), choices),
                corrected=keys.get("corrected", {}).get(row, {}).get(column),
                mean_of=tuple(keys.get("means", {}).get(column, ())) if row in runs.get("rows", {}) else (),
            )
            for column, text in zip(columns, texts, strict=True)
        )
    return Table(
        id=name,
        caption=keys["caption"],
        kind=keys.get("kind", "results"),
        columns=columns,
        cells=cells,
        statistic=keys.get("statistic", "mean"),
        spread=spread,
        seeds=_count(seeds),
        notes=tuple(keys.get("notes", ())),
        errata=tuple(keys.get("errata", ())),
        selection=keys.get("selection"),
    )


def _count(seeds: str | None) -> int | None:
    return int(seeds) if seeds else None


def _run(runs: Mapping[str, Any], row: str, column: str, filled: bool, choices: tuple[str, ...] = ()) -> Run | None:
    text = runs.get("cells", {}).get(row, {}).get(column)
    if text is None:
        # what the paper leaves out need not be possible: it must be asked for by itself
        if not filled:
            return None
        first, second = runs.get("rows", {}).get(row), runs.get("columns", {}).get(column)
        if first is None or second is None:
            return None
        text = first.replace("{}", second) if "{}" in first else f"{first} {second}"
    recipe, *words = text.split()
    measures = [word[1:] for word in words if word.startswith("@")]
    given = dict(word.split("=", 1) for word in words if not word.startswith("@"))
    overrides = {key: _value(value) for key, value in given.items()}
    return Run(recipe, overrides, measures[0] if measures else MEASURE, choices)


@cache
def _value(text: str) -> Any:
    return parse_overrides([f"value={text}"])["value"]


@cache
def whole_of(file: str) -> str:
    """The name of a recipe file; of one that asks for another's cell with a smaller budget, that one's name."""
    name = Path(file).name
    return next((paper.reduced[name] for paper in papers() if name in paper.reduced), name)


def measured(record: Record, measure: str) -> float | None:
    """The number of a record at `measure` (see `Run`), `None` where the record has none."""
    if measure == "num_parameters":
        return float(record.num_parameters)
    split, _, path = measure.partition(".")
    if split not in record.splits:
        return None
    metric, _, category = path.partition(".")
    if metric == "by_category":
        score = record.splits[split].by_category.get(category)
        return None if score is None else score.accuracy
    return record.splits[split].metrics.get(metric)


def best_measured(record: Record, measure: str) -> float | None:
    """The best of that number's evaluations, those during training and the last one; `None` as of [`measured`]."""
    last = measured(record, measure)
    split, _, metric = measure.partition(".")
    return None if last is None else max([last, *(value for _, value in record.curve(split, metric))])
