"""The records in results, by cell; the heads of recipes and the model cards that are written from them."""

from __future__ import annotations

import re
import statistics
import textwrap
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from hf_sysgen.config.io import read_recipe, shipped_files
from hf_sysgen.config.recipe import Recipe
from hf_sysgen.files import file_name
from hf_sysgen.hub.publish_model import one_cell, run_card
from hf_sysgen.reports.comparison import collect
from hf_sysgen.results.record import Record, SplitMetrics, write_record
from hf_sysgen.zoo import zoo_names

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RESULTS_FOLDER = ROOT / "results"
# what stands in a recipe's head until it is measured, or what was
MEASURED = re.compile(r"# Measured here: .*\n(?:#   .*\n)*")
# other ways to count, of the test split
WAYS = {"accuracy_oracle": "with oracle length", "exact_teacher": "under teacher forcing"}


def keep(record: Record, folder: Path = RESULTS_FOLDER) -> None:
    """Put a run's record beside those of other cells and seeds."""
    write_record(record.kept_at(folder), record)


def kept_records() -> list[Record]:
    """All of them. Raises SystemExit: a file is none."""
    found = collect([RESULTS_FOLDER])
    if found.skipped:
        raise SystemExit("\n".join(found.skipped))
    return [record for _, record in found.records]


def kept_cells() -> dict[str, list[Record]]:
    """The records of every cell by seed; a cell is a recipe file with overrides, here under its name."""
    cells: dict[str, list[Record]] = {}
    for record in kept_records():
        cells.setdefault(record.name, []).append(record)
    return {name: one_cell(cells[name], RESULTS_FOLDER) for name in sorted(cells, key=in_order)}


def in_order(text: str) -> list[tuple[str, int]]:
    """A key that sorts numbers within texts by their size."""
    return [(word, int(digits or -1)) for word, digits in re.findall(r"(\D*)(\d*)", text)]


def cards(cells: Mapping[str, Sequence[Record]]) -> dict[Path, str]:
    """The card of every cell with kept records, of the zoo's models where they are its."""
    return {
        ROOT / "model_cards" / f"{file_name(name)}.md": run_card(
            name if name in zoo_names() else records[0].kept_at(RESULTS_FOLDER)
        )
        for name, records in cells.items()
    }


def measured_heads(cells: Mapping[str, Sequence[Record]]) -> dict[Path, str]:
    """
    The text of every recipe with kept records, with their numbers in its head.

    Raises:
        SystemExit: records without their recipe, or of another state of it.
    """
    of_file: dict[str, list[Sequence[Record]]] = {}
    for records in cells.values():
        of_file.setdefault(records[0].file, []).append(records)
    paths = shipped_files()
    if gone := sorted(set(of_file) - set(paths)):
        raise SystemExit(f"no recipe {gone[0]}: remove its records from {RESULTS_FOLDER}")
    return {paths[file]: head(paths[file], changed) for file, changed in of_file.items()}


def head(path: Path, cells: Sequence[Sequence[Record]]) -> str:
    """The text of a recipe's file with the numbers of its cells, with what their runs change."""
    recipe, parts = read_recipe(path), []
    for records in cells:
        for record in records:
            check_state(recipe, record)
        changes = records[0].name.partition(",")[2]
        parts.append((f"{changes}: " if changes else "") + measured(records))
    parts[0] = f"# Measured here: {parts[0]}"
    parts[-1] += " (results)."
    # a folder that a change names is not to be broken, nor "%" to be parted from its number
    wrap = partial(textwrap.wrap, width=118, break_long_words=False, break_on_hyphens=False)
    lines = [
        line
        for number, part in enumerate(parts)
        for line in wrap(part, initial_indent="#   " if number else "", subsequent_indent="#   ")
    ]
    new = "\n".join(lines).replace("\u00a0", " ") + "\n"
    text, count = MEASURED.subn(lambda _: new, path.read_text(encoding="utf-8"), count=1)
    if not count:
        raise SystemExit(f"{path} needs a line `# Measured here: not yet.` in its head")
    return text


def check_state(recipe: Recipe, record: Record) -> None:
    """Raises SystemExit: a record of another state of the recipe than the file's, but for its overrides."""
    differing = [
        f"{key}={ours} for {theirs}"
        for key, (ours, theirs) in record.recipe.differences(recipe, "result").items()
        # a field of the model that a file leaves out has its default
        if key not in record.overrides and (theirs is not None or not key.startswith("model."))
    ]
    if differing:
        raise SystemExit(f"{record.title}: its recipe has {', '.join(differing)}; measure it again, or remove it")


def measured(records: Sequence[Record]) -> str:
    """Of all seeds of a cell: each split's accuracy, that of categories if they are few, or perplexity."""
    texts = []
    for name, split in records[0].splits.items():
        splits = [record.splits[name] for record in records]
        if split.perplexity is not None:
            perplexity = spread([one.metrics["perplexity"] for one in splits], 1)
            texts.append(f"{name} perplexity {perplexity} of {split.tokens:,} tokens")
            continue
        texts.append(f"{name} {percent(splits, 'accuracy')}")
        if name != "test":
            continue
        texts += [f"{words} {percent(splits, key)}" for key, words in WAYS.items() if key in split.metrics]
        if len(split.by_category) in range(2, 12):
            means = (
                f"{case} {100 * statistics.fmean(one.by_category[case].accuracy for one in splits):.1f}"
                for case in sorted(split.by_category, key=in_order)
            )
            texts.append(f"by category {' '.join(means)}")
    seeds = [str(record.seed) for record in records]
    which = f"seed {seeds[0]}" if len(seeds) == 1 else f"mean and standard deviation of seeds {', '.join(seeds)}"
    return f"{', '.join(texts)}; {which}, {records[0].num_parameters:,} parameters"


def percent(splits: Sequence[SplitMetrics], key: str) -> str:
    return f"{spread([100 * (split.metrics[key] or 0.0) for split in splits], 2)}\u00a0%"


def spread(values: Sequence[float], digits: int) -> str:
    deviation = f" +- {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.{digits}f}{deviation}"
