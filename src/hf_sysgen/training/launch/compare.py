"""Several recipes side by side: a sweep of them, one table, one plot."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Container, Sequence
from pathlib import Path

from hf_sysgen.analysis.plotting import check_picture
from hf_sysgen.config.errors import RecipeError
from hf_sysgen.config.io import load_recipe
from hf_sysgen.config.recipe import Recipe
from hf_sysgen.config.sweep import Run, Sweep, check_folders
from hf_sysgen.data import benchmark_info, load_benchmark
from hf_sysgen.data.text.vocabulary import encode_sources
from hf_sysgen.evaluation.checkpoints import load_checkpoint, source_ids
from hf_sysgen.reports.curves import plot_accuracies, told_apart
from hf_sysgen.results.reading import read_record
from hf_sysgen.results.record import MODEL, RESULTS, Record, SplitMetrics
from hf_sysgen.tables import table
from hf_sysgen.training.launch.sweep import run_sweep


def compare_recipes(
    files: Sequence[Path],
    overrides: Sequence[str] = (),
    plot: Path | None = None,
    sentences: Sequence[str] = (),
    processes: int | None = None,
) -> int:
    """
    Train the recipes and print their results beside the paper's.

    Args:
        files: recipe files; all are checked before the first one is trained.
        overrides: `key=value` for every recipe.
        plot: PNG file for the accuracies over training.
        sentences: translated by the checkpoint that generalizes best, in a process that cannot import this package.
        processes: runs at once; by default one per core, and one on each GPU.

    Returns:
        exit status, as of `run_sweep`; 1 also where the checkpoint does not load elsewhere.

    Raises:
        RecipeError: a recipe is wrong, two recipes share a folder, or they are judged by several metrics, so that no
            checkpoint is the best to translate.
        UserError: the plot's name ends otherwise, or that checkpoint writes no texts. DataError: it cannot read a
            sentence.
    """
    if plot is not None:
        check_picture(plot)
    runs = tuple(Run(file, tuple(overrides), load_recipe(file, overrides)) for file in files)
    check_folders(runs)
    recipes = [run.recipe for run in runs]
    for recipe in recipes:
        if "test" not in benchmark_info(recipe.data.benchmark).config(recipe.data.config).splits:
            raise RecipeError(
                f"{recipe.name}: {recipe.data.benchmark} {recipe.data.config} has no split `test` to compare on"
            )
    metrics = sorted({recipe.paper.metric for recipe in recipes})
    if sentences and len(metrics) > 1:
        raise RecipeError(
            f"--translate needs one metric to choose the best recipe by, these have {', '.join(metrics)}; leave it out"
        )
    # not complete, so that its folder, which it shares with other comparisons, is not locked
    if status := run_sweep(Sweep(Path("compare"), runs, select=None, complete=False), processes):
        return status
    records = [read_record(recipe.run_dir / RESULTS) for recipe in recipes]
    print("\n" + _table(recipes, records))
    if plot is not None:
        plot_accuracies(records, plot)
        print(f"\naccuracies over training: {plot}")
    if sentences:
        accuracies = [record.splits["test"].metrics[metrics[0]] or 0.0 for record in records]
        return _translate(recipes[accuracies.index(max(accuracies))], sentences)
    return 0


def _table(recipes: Sequence[Recipe], records: Sequence[Record]) -> str:
    # one metric for all rows: that of the first recipe's paper
    metric = recipes[0].paper.metric

    def paper(recipe: Recipe, value: float | None) -> str:
        return "-" if value is None or recipe.paper.metric != metric else f"{value:.2f}"

    def measured(split: SplitMetrics | None) -> str:
        value = None if split is None else split.metrics.get(metric)
        return "-" if value is None else f"{value:.4f}"

    rows = []
    called = told_apart([recipe.model.type for recipe in recipes], records)
    for name, recipe, record in zip(called, recipes, records, strict=True):
        iid, generalization = record.splits.get("validation"), record.splits["test"]
        rows.append(
            (
                name,
                measured(iid),
                paper(recipe, recipe.paper.validation),
                measured(generalization),
                paper(recipe, recipe.paper.test),
                f"{record.steps:,}",
                f"{record.train_seconds:.0f} s",
            )
        )
    header = (
        "exact match" if metric == "accuracy" else metric,
        "IID",
        "paper",
        "generalization",
        "paper",
        "steps",
        "training",
    )
    examples = ", ".join(f"{name} {split.examples:,}" for name, split in records[0].splits.items())
    cells = "\n".join(
        f"paper: {name}: {recipe.paper.cell}" for name, recipe in zip(called, recipes, strict=True) if recipe.paper.cell
    )
    return f"{table(header, rows)}\nexamples: {examples}\n{cells}".rstrip()


def _translate(recipe: Recipe, sentences: Sequence[str]) -> int:
    import hf_sysgen.hub

    checkpoint = recipe.run_dir / MODEL
    # raises here, in one line, if a word is unknown to the model
    model, tokenizer = load_checkpoint(checkpoint)
    encode_sources(tokenizer, list(sentences), source_ids(model))
    script = Path(hf_sysgen.hub.__file__).with_name("stranger.py")
    print(f"\n{checkpoint}, loaded with trust_remote_code=True in a process without this package:", flush=True)
    with tempfile.TemporaryDirectory() as elsewhere:
        done = subprocess.run(
            [sys.executable, "-I", str(script), str(checkpoint.resolve()), *sentences],
            cwd=elsewhere,
            env=os.environ | {"HF_MODULES_CACHE": elsewhere, "HF_HUB_OFFLINE": "1"},
            capture_output=True,
            text=True,
        )
    if done.returncode != 0:
        print(f"error: the checkpoint did not load elsewhere:\n{done.stderr}", file=sys.stderr)
        return 1
    references = _references(recipe, set(sentences))
    for sentence, translation in zip(sentences, done.stdout.splitlines(), strict=True):
        verdict = "not in the benchmark"
        if sentence in references:
            verdict = "right" if translation == references[sentence] else f"wrong, it is: {references[sentence]}"
        print(f"  {sentence}\n    {translation}\n    ({len(translation.split())} words, {verdict})")
    return 0


def _references(recipe: Recipe, sentences: Container[str]) -> dict[str, str]:
    """The benchmark's own targets of those sentences that it has."""
    benchmark = load_benchmark(recipe.data.benchmark, recipe.data.config, data_dir=recipe.data.data_dir)
    return {
        source: target
        for split in benchmark.values()
        for source, target in zip(split["input"], split["target"], strict=True)
        if source in sentences
    }
