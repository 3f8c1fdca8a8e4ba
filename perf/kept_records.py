"""
`python perf/kept_records.py` writes what is made from the records in results: the numbers in the heads of recipes,
after "# Measured here:", and the cards of the models in the zoo and in checkpoints, with a link in model_cards. `--keep
RUN_DIR ...` first copies the records of these runs into results, `--keep-weights RUN_DIR ...` also their models into
checkpoints, one for each recipe and config; models over 4 MB are rounded to float16 if no accuracy changes. A test
holds that recipes, cards and records agree.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers.utils import SAFE_WEIGHTS_NAME

from hf_sysgen.config.io import read_recipe, shipped_files
from hf_sysgen.config.recipe import Recipe
from hf_sysgen.evaluation.checkpoints import load_any_checkpoint
from hf_sysgen.files import write_atomic
from hf_sysgen.hub.publish_model import one_cell, run_card
from hf_sysgen.results.cells import PRECISION, by_cell
from hf_sysgen.results.reading import collect, read_record
from hf_sysgen.results.record import MODEL, RESULTS, Record, SplitMetrics, write_record
from hf_sysgen.tables import counted
from hf_sysgen.training.tasks.registry import prepare_task
from hf_sysgen.training.trainer import SysgenTrainer
from hf_sysgen.zoo import CHECKPOINTS, zoo_folder, zoo_names

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RESULTS_FOLDER = ROOT / "results"
MODEL_CARDS = ROOT / "model_cards"
# the entry of a recipe's head, before and after it is measured
MEASURED = re.compile(r"# Measured here: .*\n(?:#   .*\n)*")
# how many settings of a recipe its head shows
MOST_SETTINGS = 3
# bytes of weights from which on float16 is tried
LARGE = 4_000_000
# other metrics of the test split
WAYS = {"accuracy_oracle": "with oracle length", "exact_teacher": "under teacher forcing"}


def keep(record: Record, folder: Path = RESULTS_FOLDER) -> None:
    """Write a run's record into results, without folders of this machine."""
    write_record(record.kept_at(folder), record.without_local_paths())


def check_commits(record: Record) -> None:
    """Raises SystemExit: code that the run's weights come from is not in this repository's history."""
    for commit in {start.commit for start in record.starts}:
        check_commit(commit, record.title)


def check_commit(commit: str | None, run: str) -> None:
    """Raises SystemExit: a run of this commit would not be kept, as it is not in this repository's history."""
    ancestor = ["git", "merge-base", "--is-ancestor", str(commit), "HEAD"]
    if subprocess.run(ancestor, cwd=ROOT, stderr=subprocess.DEVNULL).returncode:
        raise SystemExit(f"{run}: commit {commit} is not in the history; train in a clean checkout")


def keep_weights(run_dir: Path) -> None:
    """Copy a run's weights, config, tokenizer and record into checkpoints, in the place of another run's."""
    folder = CHECKPOINTS / checkpoint_name(read_record(run_dir / RESULTS))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for path in (*(run_dir / MODEL).glob("*.json"), *(run_dir / MODEL).glob("*.safetensors")):
        shutil.copy(path, folder / path.name)
    write_record(folder / RESULTS, read_record(run_dir / RESULTS).without_local_paths())
    if (folder / SAFE_WEIGHTS_NAME).stat().st_size > LARGE:
        round_weights(folder)


def round_weights(folder: Path) -> None:
    """Store a model of checkpoints in float16, unless an accuracy of its record changes. It computes in float32."""
    weights, record = folder / SAFE_WEIGHTS_NAME, read_record(folder / RESULTS)
    with safe_open(weights, "pt") as tensors:
        metadata = tensors.metadata()
    before = weights.read_bytes()
    save_file({name: tensor.half() for name, tensor in load_file(weights).items()}, weights, metadata)
    if accuracies(measure(folder, record)) != accuracies(record.splits):
        weights.write_bytes(before)
        print(f"{folder.name}: float16 changes an accuracy, so the weights stay in float32")


def measure(folder: Path, record: Record) -> dict[str, SplitMetrics]:
    """The scores of a folder's weights on each split of the run's recipe."""
    with tempfile.TemporaryDirectory() as output:
        recipe = record.recipe.replace(output_dir=output)
        task = prepare_task(recipe)
        trainer = SysgenTrainer(recipe, load_any_checkpoint(folder)[0], task)
        return {
            name: task.summarize(task.to_rows(trainer.predict_split(name, rows, final=True), name), name)
            for name in task.splits
            if len(rows := task.judged_rows(name))
        }


def accuracies(splits: Mapping[str, SplitMetrics]) -> dict[str, object]:
    """All scores but losses, which move in the fourth digit."""
    return {
        name: (split.by_category, [value for key, value in split.metrics.items() if not key.startswith("loss")])
        for name, split in splits.items()
    }


def checkpoint_name(record: Record) -> str:
    """The name of a recipe's model in checkpoints: the file's, and the config if an override gives another one."""
    return "_".join(filter(None, (Path(record.file).name, record.overrides.get("data.config"))))


def kept_records() -> list[Record]:
    """All records in results. Raises SystemExit: a file is no record."""
    found = collect([RESULTS_FOLDER])
    if found.skipped:
        raise SystemExit("\n".join(found.skipped))
    return [record for _, record in found.records]


def kept_cells() -> dict[tuple[str, str], list[Record]]:
    """The records of each cell, by seed, in the order of names; the key is what identifies the cell."""
    cells = sorted(by_cell(kept_records()), key=lambda cell: in_order(cell[0].name))
    return {cell[0].cell_key: one_cell(cell, RESULTS_FOLDER) for cell in cells}


def in_order(text: str) -> list[tuple[str, int]]:
    """A sort key that orders numbers in texts by value."""
    return [(word, int(digits or -1)) for word, digits in re.findall(r"(\D*)(\d*)", text)]


def cards() -> dict[Path, str]:
    """The card of each model whose weights are kept, beside them."""
    return {zoo_folder(name) / "README.md": run_card(name) for name in zoo_names()}


def link_cards() -> None:
    """A link to each card in model_cards, and none to a card that is gone."""
    for link in MODEL_CARDS.glob("*.md"):
        link.unlink()
    for name in zoo_names():
        (MODEL_CARDS / f"{name}.md").symlink_to(os.path.relpath(zoo_folder(name) / "README.md", MODEL_CARDS))


def keep_seeds(cells: Mapping[tuple[str, str], Sequence[Record]]) -> None:
    """Copy the records of other seeds to each model whose weights are kept, for its card."""
    for name in zoo_names():
        folder = zoo_folder(name)
        record = read_record(folder / RESULTS)
        for other in cells[record.cell_key]:
            if other.seed != record.seed:
                write_record(folder / f"seed{other.seed}" / RESULTS, other)


def measured_heads(cells: Mapping[tuple[str, str], Sequence[Record]]) -> dict[Path, str]:
    """
    The text of each recipe with kept records, with their numbers in its head.

    Raises:
        SystemExit: a record's recipe is gone or has changed since.
    """
    of_file: dict[str, list[Sequence[Record]]] = {}
    for records in cells.values():
        of_file.setdefault(records[0].file, []).append(records)
    paths = shipped_files()
    if gone := sorted(set(of_file) - set(paths)):
        raise SystemExit(f"no recipe {gone[0]}: remove its records from {RESULTS_FOLDER}")
    return {paths[file]: head(paths[file], changed) for file, changed in of_file.items()}


def head(path: Path, cells: Sequence[Sequence[Record]]) -> str:
    """The text of a recipe's file with the numbers of its cells, each after its overrides."""
    recipe, parts = read_recipe(path), []
    for record in (record for records in cells for record in records):
        check_state(recipe, record)
    # the recipe as it stands first, whatever its precision
    cells = sorted(cells, key=lambda records: len(records[0].overrides.keys() - set(PRECISION)))
    for records in cells[:MOST_SETTINGS]:
        changes = records[0].settings()
        parts.append((f"{changes}: " if changes else "") + measured(records))
    parts[0] = f"# Measured here: {parts[0]}"
    if more := len(cells) - len(parts):
        parts.append(f"and {counted(more, 'other setting')}")
    parts[-1] += f"; records in {cells[0][0].kept_at(RESULTS_FOLDER).parent.relative_to(ROOT).as_posix()}."
    # keeps paths in overrides whole, and "%" beside its number
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
    """Raises SystemExit: apart from the overrides, the record's recipe differs from the file."""
    settled = recipe.settled(record.recipe.training.bf16)
    differing = [
        f"{key}={ours} for {theirs}"
        for key, (ours, theirs) in record.recipe.differences(settled, "result").items()
        # where a file leaves out a field of the model, its default holds
        if key not in record.overrides and (theirs is not None or not key.startswith("model."))
    ]
    if differing:
        raise SystemExit(f"{record.title}: its recipe has {', '.join(differing)}; measure it again, or remove it")


def measured(records: Sequence[Record]) -> str:
    """Over the seeds of a cell: accuracy or perplexity of each split, and of categories if there are few."""
    texts = []
    for name, split in records[0].splits.items():
        splits = [record.splits[name] for record in records]
        if split.perplexity is not None:
            perplexity = spread([one.perplexity for one in splits if one.perplexity is not None], 1)
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
            texts.append(f"by category: {' '.join(means)}")
    seeds = [str(record.seed) for record in records]
    which = f"seed {seeds[0]}" if len(seeds) == 1 else f"mean and standard deviation of seeds {', '.join(seeds)}"
    return f"{', '.join(texts)}; {which}; {records[0].num_parameters:,} parameters"


def percent(splits: Sequence[SplitMetrics], key: str) -> str:
    return f"{spread([100 * (split.metrics[key] or 0.0) for split in splits], 2)}\u00a0%"


def spread(values: Sequence[float], digits: int) -> str:
    deviation = f" +- {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.{digits}f}{deviation}"


def texts() -> dict[Path, str]:
    """The text of each file that is made from records."""
    return measured_heads(kept_cells()) | cards()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, nargs="*", default=[], help="folders of runs whose records to keep")
    parser.add_argument("--keep-weights", type=Path, nargs="*", default=[], help="those whose weights to keep too")
    given = parser.parse_args()
    records = [read_record(run_dir / RESULTS) for run_dir in given.keep + given.keep_weights]
    for record in records:
        check_commits(record)
    for record in records:
        keep(record)
    for run_dir in given.keep_weights:
        keep_weights(run_dir)
    keep_seeds(kept_cells())
    # an error leaves all files as they were
    for path, text in texts().items():
        write_atomic(path, text)
    link_cards()


if __name__ == "__main__":
    main()
