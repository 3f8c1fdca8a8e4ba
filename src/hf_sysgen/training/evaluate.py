"""What `hf-sysgen evaluate` does with models that decode no text: the evaluation at the end of their run, again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from tqdm.auto import tqdm

from hf_sysgen.config.recipe import Recipe
from hf_sysgen.data import benchmark_info
from hf_sysgen.errors import UserError
from hf_sysgen.evaluation.checkpoint_folders import (
    checkpoint_folder,
    data_folder,
    missing_file,
    record_of,
    run_folder,
)
from hf_sysgen.evaluation.checkpoints import load_any_checkpoint
from hf_sysgen.evaluation.commands import metrics_table, to_evaluate, write_measured
from hf_sysgen.results.predictions import Row
from hf_sysgen.results.record import RESULTS, Record, SplitMetrics
from hf_sysgen.training.run import quiet_libraries
from hf_sysgen.training.tasks.base import Task
from hf_sysgen.training.tasks.registry import prepare_task

# fields of configs that say which number a word or a label has
NUMBERED = ("vocab_size", "edge_labels", "id2label", "label_names")


def evaluate_by_task(
    checkpoint: str,
    benchmark: str,
    config: str | None,
    splits: list[str] | None,
    data_dir: Path | None,
    output: Path | None,
    batch_size: int | None,
) -> str:
    """
    Metrics of a checkpoint on a benchmark with labels of nodes, edges or graphs, or on text, as a table. How the
    examples are read is in the recipe in the run's results.json.

    Raises:
        UserError: there is no such record; it is of another model or for another task; a split is not judged; the model
            knows other words or labels.
        DataError, RecipeError: see `to_evaluate` and `prepare_task`.
    """
    quiet_libraries()
    config, names = to_evaluate(benchmark, config, splits, output)
    if "train" in names:
        raise UserError(f"the split train of {benchmark} is not judged; name another")
    # a name on the hub is looked up once
    folder = checkpoint_folder(checkpoint)
    model, tokenizer = load_any_checkpoint(folder)
    record = _record(checkpoint, folder, benchmark, model, tokenizer)
    task = prepare_task(_recipe(record, folder, benchmark, config, data_dir, batch_size))
    _check_same_words(checkpoint, record, model, tokenizer, task)
    _warn_of_other_examples(record, task)
    judged = {name: chosen for name in names if name in task.splits and len(chosen := task.judged_rows(name))}
    if splits and (lacking := [name for name in names if name not in judged]):
        raise UserError(f"{benchmark} {config}: no examples of {lacking[0]} are judged; name another split")
    metrics: dict[str, SplitMetrics] = {}
    rows: list[Row] = []
    for name, chosen in tqdm(judged.items(), unit="split", disable=not sys.stderr.isatty()):
        # one call for a split: random node states are then the same as in the run's evaluation
        records = task.evaluate(model, name, chosen, final=True, rank=0, world=1)
        found = task.to_rows(sorted(records, key=lambda record: record.row), name)
        metrics[name] = task.summarize(found, name)
        rows += found
    write_measured(output, rows, metrics)
    return metrics_table(metrics, ("examples", *dict.fromkeys(key for one in metrics.values() for key in one.metrics)))


def _record(checkpoint: str, folder: Path, benchmark: str, model: Any, tokenizer: Any) -> Record:
    """The record of the run that made the model. Raises UserError: see `evaluate_by_task`."""
    record, wanted = record_of(folder), benchmark_info(benchmark).task
    if record is None:
        raise UserError(
            f"{checkpoint}: {benchmark} needs the {RESULTS} of its run, which says how the examples are read; copy it "
            "beside the checkpoint"
        )
    recipe, model_type = record.recipe, model.config.model_type
    if recipe.model.type != model_type:
        raise UserError(
            f"{run_folder(folder) / RESULTS}: is of a {recipe.model.type}, and the checkpoint is a {model_type}; "
            "copy the one of its own run"
        )
    if benchmark_info(recipe.data.benchmark).task != wanted:
        raise UserError(
            f"{checkpoint}: was trained on {recipe.data.benchmark}; give a model for {wanted}, as {benchmark} needs it"
        )
    # stories have no words
    if tokenizer is None and wanted != "relation_classification":
        raise missing_file(folder, "tokenizer.json")
    return record


def _recipe(
    record: Record, folder: Path, benchmark: str, config: str, data_dir: Path | None, batch_size: int | None
) -> Recipe:
    """The run's recipe on that benchmark. Its folder of data, and its tokenizer's, may be another machine's."""
    files = data_dir or data_folder(folder, benchmark)
    given = {"data.benchmark": benchmark, "data.config": config, "data.data_dir": files and str(files)}
    if record.recipe.data.tokenizer is not None:
        given["data.tokenizer"] = str(folder)
    return record.recipe.replace(**given, **({} if batch_size is None else {"evaluation.batch_size": batch_size}))


def _warn_of_other_examples(record: Record, task: Task) -> None:
    """Other files under the same names would give other numbers without a word. Older runs did not keep the hash."""
    learned, given = record.recipe.data, task.recipe.data
    same_names = (learned.benchmark, learned.config) == (given.benchmark, given.config)
    if same_names and record.starts[0].data_sha256 not in (None, task.data_sha256()):
        text = f"warning: {given.benchmark} {given.config} here has other examples than the run had"
        print(text, file=sys.stderr)


def _check_same_words(checkpoint: str, record: Record, model: Any, tokenizer: Any, task: Task) -> None:
    """Raises UserError: words or labels have other numbers in the benchmark than in the model."""
    # without memory for weights
    with torch.device("meta"):
        built = task.build_model("eager").config
    made = getattr(task, "tokenizer", None)
    differing = [key for key in NUMBERED if getattr(model.config, key, None) != getattr(built, key, None)]
    if made is not None and tokenizer.get_vocab() != made.get_vocab():
        differing.append("tokenizer")
    if differing:
        learned, given = (f"{data.benchmark} {data.config}" for data in (record.recipe.data, task.recipe.data))
        raise UserError(
            f"{checkpoint}: its words or labels are not those of {given} ({', '.join(differing)}); "
            + (f"evaluate it on {learned}" if learned != given else "copy the whole folder again")
        )
