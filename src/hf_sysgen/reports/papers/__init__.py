"""The papers' tables and figures as printed, and the run of ours for each cell.

One file for each paper in papers/. All scalars are text, so that numbers keep their printed digits:

- `authors`, `title`; `citation`: key of its BibTeX in data/papers.bib; `reduced`: recipe -> the recipe whose cell it
  makes with a smaller budget.
- `tables`: id -> table. Keys of a table:
  - `caption`, in our words; `columns`; `rows`: label -> the cells, "" where the paper has none, "?" where it is
  illegible; `notes`, `errata`: sentences; `corrected`: row -> column -> the number to compare with instead of a
  misprint, written like a cell.
  - `kind`: `results` (default), `count` (of parameters), `setup`, `text`, `figure`; only the first two are compared.
  - `unit`: `share` (0 to 1), `percent`, `bleu`, `perplexity`; `units`: row or column -> another unit.
  - `numbers`: `printed` (default), or `ours` where the paper's are not quoted: every cell has a run and no number, and
  is left out of summaries.
  - `statistic`: `mean` (default) or `median`; `spread`: meaning of ±, `std` or `sem`; `seeds`: number of runs of a
  number, left out if the paper does not say; `exceptions`: row -> its own `spread` and `seeds`, "" if the paper does
  not say.
  - `selection`: how the authors chose on the test set: `best` of several evaluations, or `scaling`, the best embedding
  scaling. Our numbers are not chosen; a further row has the number that the authors' way gives.
  - `other_models`: rows whose numbers are of another model than our runs, so that only effects compare.
  - `means`: column -> the columns that it averages, for runs with one seed.
  - `runs`: `rows`, `columns`: label -> a part of the run. The column's part replaces `{}` in the row's part, or is
    appended; `cells`: row -> column -> the whole run, also for a cell that the paper leaves empty. A run is "RECIPE
    dotted.key=value ... @MEASURE": name of a recipe file, overrides, and split and metric; `test.accuracy` by default.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from hf_sysgen.config.io import parse_overrides, write_override
from hf_sysgen.config.recipe import Recipe
from hf_sysgen.data.citations import bibtex
from hf_sysgen.errors import UserError, did_you_mean
from hf_sysgen.results.cells import PRECISION
from hf_sysgen.results.record import Record

FOLDER = Path(__file__).parent
COMPARED = ("results", "count")
MEASURE = "test.accuracy"
# the measure of a number of parameters
SIZE = "num_parameters"
# "~" for approximately; mean; number after ±; number in brackets
PRINTED = re.compile(r"~?(?P<mean>\d*\.?\d*)(?P<scale>[kM]?)(?: ± (?P<spread>\d*\.?\d*))?(?: \((?P<aside>[\d.]+)\))?")
SCALES = {"": 1.0, "k": 1e3, "M": 1e6}


# the length of a run; its share of the paper's is the budget
BUDGET = "training.max_steps"
BATCH = "batches.size"
BEST, SCALING = "best", "scaling"
# selection -> keys that the authors chose
CHOICES: dict[str | None, tuple[str, ...]] = {SCALING: ("model.embedding_scaling",)}


@dataclass(frozen=True)
class Run:
    """
    The run of a cell.

    Attributes:
        recipe: name of the recipe file, without folder and ending.
        overrides: dotted key -> value that replaces the file's.
        measure: place of the number in the record: a split and its metric (with `by_category` a category), or
            `num_parameters`.
        choices: keys whose value the authors chose on the test set, so that a run may have another value.
    """

    recipe: str
    overrides: Mapping[str, Any]
    measure: str
    choices: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join([self.recipe, *(write_override(key, value) for key, value in self.overrides.items())])

    def matches(self, file: str, overrides: Mapping[str, Any]) -> bool:
        """
        Whether a run of this file with these overrides makes the cell; budget, precision and choices are free. A file
        with a smaller budget has a batch size of its own, so an override of the cell's need not be repeated.
        """
        if self.recipe != full_budget_recipe(file):
            return False
        free = [BUDGET, *PRECISION, *self.choices]
        if self.recipe != Path(file).name and BATCH not in overrides:
            free.append(BATCH)
        wanted, given = (
            {key: value for key, value in one.items() if key not in free} for one in (self.overrides, overrides)
        )
        return wanted == given

    def setup(self, recipe: Recipe) -> Recipe:
        """The paper's setup of the cell, made of the file's recipe."""
        return recipe.replace(**self.overrides)


@dataclass(frozen=True)
class Cell:
    """
    A cell of a table.

    Attributes:
        row, column: its labels.
        printed: the paper's text; "" if it has no number, "?" if it is illegible.
        corrected: the number to compare with if the text is a misprint, written in the same way.
        unit, deviation, seeds: see the module's first lines, where `deviation` is called `spread`.
        run: the run that makes it; `None` if there is none.
        mean_of: the columns of its row that it averages.
        other_model: whether the number is of another model than our run.
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
    other_model: bool = False

    @property
    def has_recipe(self) -> bool:
        """Whether our recipes make it."""
        return self.run is not None or bool(self.mean_of)

    @property
    def _read(self) -> re.Match[str] | None:
        return PRINTED.fullmatch(self.printed if self.corrected is None else self.corrected)

    @property
    def mean(self) -> float | None:
        """The number in its unit; `None` if there is none."""
        match = self._read
        return float(match["mean"]) * SCALES[match["scale"]] if match and match["mean"].strip(".") else None

    @property
    def spread(self) -> float | None:
        """The number printed after ±."""
        match = self._read
        return float(match["spread"]) if match and match["spread"] else None

    @property
    def rounding(self) -> float:
        """Half a unit of the last printed digit: the largest rounding error."""
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
    numbers: str = "printed"

    @property
    def name(self) -> str:
        """As the paper calls it, e.g. "Table 3"; one without a number has a benchmark's name."""
        tail = self.id.partition("-")[2]
        numbered = re.fullmatch(r"([a-z]+)([\d.]+)", tail)
        return f"{numbered[1].capitalize()} {numbered[2]}" if numbered else tail.upper()

    @property
    def compared(self) -> bool:
        return self.kind in COMPARED and bool(self.cells)

    def __iter__(self) -> Iterator[Cell]:
        for cells in self.cells.values():
            yield from cells


@dataclass(frozen=True)
class Paper:
    """
    A paper.

    Attributes:
        citation: BibTeX.
        reduced: recipe -> the recipe whose cell it makes with a smaller budget.
    """

    id: str
    authors: str
    title: str
    citation: str
    reduced: Mapping[str, str]
    tables: tuple[Table, ...]


@cache
def papers() -> tuple[Paper, ...]:
    """All papers, sorted by file name."""
    return tuple(_read(path) for path in sorted(FOLDER.glob("*.yaml")))


def paper_of(name: str) -> Paper | None:
    """The paper of that name, e.g. `csordas2021`."""
    return next((paper for paper in papers() if paper.id == name), None)


def find_tables(name: str) -> list[tuple[Paper, Table]]:
    """
    The tables of a name: `all`, a paper (`csordas2021`), one table of it (`csordas2021-table3`), or a benchmark whose
    cases make a table (`slog`).

    Raises:
        UserError: nothing has that name.
    """
    found = [
        (paper, table)
        for paper in papers()
        for table in paper.tables
        if name in ("all", paper.id, table.id) or (table.numbers == "ours" and table.id == f"{paper.id}-{name}")
    ]
    if not found:
        paper_ids = ", ".join(paper.id for paper in papers())
        same = [table.id for paper in papers() for table in paper.tables if paper.id == name.partition("-")[0]]
        known = f"{name.partition('-')[0]} has {', '.join(same)}" if same else f"tables of {paper_ids}, or all"
        names = [one for paper in papers() for one in (paper.id, *(table.id for table in paper.tables))]
        raise UserError(f"no table {name!r}: {known}{did_you_mean(name, names)}")
    return found


def _read(path: Path) -> Paper:
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    content = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)
    tables = tuple(_table(f"{path.stem}-{name}", keys) for name, keys in content["tables"].items())
    citation = bibtex(content["citation"])
    return Paper(path.stem, content["authors"], content["title"], citation, content.get("reduced", {}), tables)


def _table(name: str, keys: dict[str, Any]) -> Table:
    columns = tuple(keys.get("columns", ()))
    units, unit, runs = keys.get("units", {}), keys.get("unit", ""), keys.get("runs", {})
    if keys.get("kind") == "count":
        unit = "count"
    spread, seeds = keys.get("spread"), keys.get("seeds")
    choices = CHOICES.get(keys.get("selection"), ())
    cells = {}
    printed = keys.get("numbers", "printed") == "printed"
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
                run=_run(runs, row, column, bool(text) or not printed, choices),
                corrected=keys.get("corrected", {}).get(row, {}).get(column),
                mean_of=tuple(keys.get("means", {}).get(column, ())) if row in runs.get("rows", {}) else (),
                other_model=row in keys.get("other_models", ()),
            )
            for column, text in zip(columns, texts if printed else [""] * len(columns), strict=True)
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
        numbers=keys.get("numbers", "printed"),
    )


def _count(seeds: str | None) -> int | None:
    return int(seeds) if seeds else None


def _run(runs: Mapping[str, Any], row: str, column: str, filled: bool, choices: tuple[str, ...] = ()) -> Run | None:
    text = runs.get("cells", {}).get(row, {}).get(column)
    if text is None:
        # a cell that the paper leaves empty may be impossible, so `cells` must name it
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
def full_budget_recipe(file: str) -> str:
    """The name of a recipe file; for a recipe with a smaller budget, the recipe of the cell."""
    name = Path(file).name
    return next((paper.reduced[name] for paper in papers() if name in paper.reduced), name)


def measured(record: Record, measure: str) -> float | None:
    """The number of a record at `measure` (see `Run`), `None` where the record has none."""
    if measure == SIZE:
        return float(record.num_parameters)
    split, _, path = measure.partition(".")
    if split not in record.splits:
        return None
    metric, _, category = path.partition(".")
    if metric == "by_category":
        score = record.splits[split].by_category.get(category)
        return None if score is None else score.accuracy
    return record.splits[split].metrics.get(metric)


def evaluations(record: Record, measure: str) -> int:
    """How many evaluations [`best_measured`] chooses from."""
    split, _, metric = measure.partition(".")
    return 1 + len(record.curve(split, metric))


def best_measured(record: Record, measure: str) -> float | None:
    """The best of that number's evaluations, those during training and the last one; `None` as of [`measured`]."""
    last = measured(record, measure)
    split, _, metric = measure.partition(".")
    return None if last is None else max([last, *(value for _, value in record.curve(split, metric))])
