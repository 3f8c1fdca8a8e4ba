"""The records in results, by cell; the heads of recipes and the model cards that are written from them."""

from __future__ import annotations

import dataclasses
import re
import statistics
import textwrap
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from hf_sysgen.config.io import load_recipe
from hf_sysgen.config.recipe import Recipe
from hf_sysgen.hub.publish_model import one_cell, run_card
from hf_sysgen.results.record import read_results, write_results
from hf_sysgen.zoo import zoo_names

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RESULTS_FOLDER = ROOT / "results"
# what stands in a recipe's head until it is measured, or what was
MEASURED = re.compile(r"# Measured here: .*\n(?:#   .*\n)*")
# other ways to count, of the test split
WAYS = {"accuracy_oracle": "with the length given", "exact_teacher": "under teacher forcing"}


def keep(record: dict, folder: Path = RESULTS_FOLDER) -> None:
    """Put a run's record beside those of other cells and seeds."""
    write_results(folder / record_file(record), record)


def record_file(record: dict) -> str:
    return f"{record['name']}-seed{record['seed']}.json"


def kept_cells() -> dict[str, list[dict]]:
    """The records of every cell by seed; a cell is a recipe's name, and what its runs change (NAME,KEY=VALUE)."""
    cells: dict[str, list[dict]] = {}
    for path in sorted(RESULTS_FOLDER.glob("*.json")):
        record = read_results(path)
        cells.setdefault(record["name"], []).append(record)
    return {name: one_cell(cells[name], RESULTS_FOLDER) for name in sorted(cells, key=in_order)}


def in_order(text: str) -> list[tuple[str, int]]:
    """A key that sorts numbers within texts by their size."""
    return [(word, int(digits or -1)) for word, digits in re.findall(r"(\D*)(\d*)", text)]


def cards(cells: Mapping[str, list[dict]]) -> dict[Path, str]:
    """The card of every cell with kept records, of the zoo's models where they are its."""
    return {
        ROOT / "model_cards" / f"{name}.md": run_card(
            name if name in zoo_names() else RESULTS_FOLDER / record_file(records[0])
        )
        for name, records in cells.items()
    }


def measured_heads(cells: Mapping[str, list[dict]]) -> dict[Path, str]:
    """
    The text of every recipe with kept records, with their numbers in its head.

    Raises:
        SystemExit: records without their recipe, or of another state of it.
    """
    of_recipe: dict[str, dict[str, list[dict]]] = {}
    for name, records in cells.items():
        recipe, _, changes = name.partition(",")
        of_recipe.setdefault(recipe, {})[changes] = records
    paths = {path.stem: path for path in (ROOT / "recipes").glob("*/*.yaml")}
    if gone := sorted(set(of_recipe) - set(paths)):
        raise SystemExit(f"no recipe {gone[0]}: remove its records from {RESULTS_FOLDER}")
    return {paths[name]: head(paths[name], changed) for name, changed in of_recipe.items()}


def head(path: Path, cells: dict[str, list[dict]]) -> str:
    """The text of a recipe's file with the numbers of its cells, by what their runs change."""
    recipe, parts = load_recipe(path), []
    for changes, records in cells.items():
        for record in records:
            check_state(recipe, changes, record)
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


def check_state(recipe: Recipe, changes: str, record: dict) -> None:
    """Raises SystemExit: a record of another state of the recipe than the file's, but for what its name says."""
    changed = {change.partition("=")[0] for change in changes.split(",")}
    defaults = {field.name: field.default for field in dataclasses.fields(Recipe)}
    theirs = record["recipe"]
    differing = [
        f"{key}={theirs.get(key, 'nothing')} for {value}"
        for key, value in recipe.to_dict().items()
        # a record of an older version lacks keys that are new since
        if key not in {*Recipe.SAME_CELL, *changed} and theirs.get(key, defaults.get(key, "nothing")) != value
    ]
    if differing:
        raise SystemExit(f"{record['name']}: its records have {', '.join(differing)}; measure it again, or remove them")


def measured(records: list[dict]) -> str:
    """Of all seeds of a cell: each split's accuracy, that of categories if they are few, or perplexity."""
    texts = []
    for name, split in records[0]["splits"].items():
        splits = [record["splits"][name] for record in records]
        if "perplexity" in split:
            perplexity = spread([one["perplexity"] for one in splits], 1)
            texts.append(f"{name} perplexity {perplexity} of {split['tokens']:,} tokens")
            continue
        texts.append(f"{name} {percent(splits, 'accuracy')}")
        if name != "test":
            continue
        texts += [f"{words} {percent(splits, key)}" for key, words in WAYS.items() if key in split]
        if len(categories := split.get("by_category", {})) in range(2, 12):
            means = (
                f"{category} {100 * statistics.fmean(one['by_category'][category][1] for one in splits):.1f}"
                for category in sorted(categories, key=in_order)
            )
            texts.append(f"by category {' '.join(means)}")
    seeds = [str(record["seed"]) for record in records]
    which = f"seed {seeds[0]}" if len(seeds) == 1 else f"mean and standard deviation of seeds {', '.join(seeds)}"
    return f"{', '.join(texts)}; {which}, {records[0]['num_parameters']:,} parameters"


def percent(splits: list[dict], key: str) -> str:
    return f"{spread([100 * split[key] for split in splits], 2)}\u00a0%"


def spread(values: list[float], digits: int) -> str:
    deviation = f" +- {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.{digits}f}{deviation}"
