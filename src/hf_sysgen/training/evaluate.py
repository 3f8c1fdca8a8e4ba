"""What `hf-sysgen evaluate` does with models that decode no text: the evaluation at the end of their run, again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from hf_sysgen.config.recipe import Recipe
from hf_sysgen.data import benchmark_info
from hf_sysgen.errors import UserError
from hf_sysgen.evaluation.checkpoints import checkpoint_folder, load_any_checkpoint, record_of
from hf_sysgen.evaluation.commands import metrics_table, to_evaluate, write_measured
from hf_sysgen.results.predictions import Row
from hf_sysgen.results.record import RESULTS, SplitMetrics
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
        UserError: there is no such record; its model is for another task, or reads other words or labels.
        DataError, RecipeError: see `to_evaluate` and `prepare_task`.
    """
    quiet_libraries()
    config, names = to_evaluate(benchmark, config, splits, output)
    model, tokenizer = load_any_checkpoint(checkpoint)
    task = prepare_task(_recipe(checkpoint, benchmark, config, data_dir, batch_size))
    _check_same_words(checkpoint, model, tokenizer, task)
    metrics: dict[str, SplitMetrics] = {}
    rows: list[Row] = []
    judged = {name: chosen for name in names if len(chosen := task.judged_rows(name))}
    if not judged:
        raise UserError(f"{benchmark} {config}: no examples of {', '.join(names)} are judged; name another split")
    for name, chosen in tqdm(judged.items(), unit="split", disable=not sys.stderr.isatty()):
        # one call for a split: random node states are then those of the run's evaluation
        records = task.evaluate(model, name, chosen, final=True, rank=0, world=1)
        found = task.to_rows(sorted(records, key=lambda record: record.row), name)
        metrics[name] = task.summarize(found, name)
        rows += found
    write_measured(output, rows, metrics)
    return metrics_table(metrics, ("examples", *dict.fromkeys(key for one in metrics.values() for key in one.metrics)))


def _recipe(checkpoint: str, benchmark: str, config: str, data_dir: Path | None, batch_size: int | None) -> Recipe:
    record = record_of(checkpoint)
    if record is None:
        raise UserError(
            f"{checkpoint}: {benchmark} needs the {RESULTS} of its run, which says how the examples are read; copy it "
            "beside the checkpoint"
        )
    wanted, learned = benchmark_info(benchmark).task, record.recipe.data.benchmark
    if benchmark_info(learned).task != wanted:
        raise UserError(f"{checkpoint}: was trained on {learned}; {benchmark} needs a model for {wanted}")
    # the run's folders of data and tokenizer may be another machine's
    given = {"data.benchmark": benchmark, "data.config": config, "data.data_dir": data_dir and str(data_dir)}
    if record.recipe.data.tokenizer is not None:
        given["data.tokenizer"] = str(checkpoint_folder(checkpoint))
    return record.recipe.replace(**given, **({} if batch_size is None else {"evaluation.batch_size": batch_size}))


def _check_same_words(checkpoint: str, model: Any, tokenizer: Any, task: Task) -> None:
    """Raises UserError: words or labels have other numbers in the benchmark than in the model."""
    made, built = getattr(task, "tokenizer", None), task.build_model("eager").config
    differing = [key for key in NUMBERED if getattr(model.config, key, None) != getattr(built, key, None)]
    if made is not None and (tokenizer is None or tokenizer.get_vocab() != made.get_vocab()):
        differing.append("tokenizer")
    if differing:
        data = task.recipe.data
        raise UserError(
            f"{checkpoint}: learned other words or labels than those of {data.benchmark} {data.config}; "
            f"what differs: {', '.join(differing)}"
        )
