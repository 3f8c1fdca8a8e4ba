"""One run, from a recipe to a results record and a checkpoint that travels."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import datasets
import torch
import transformers
from accelerate.utils import broadcast_object_list
from huggingface_hub.errors import StrictDataclassError
from pydantic import ValidationError
from transformers import AutoModel, PreTrainedConfig, PreTrainedModel

from hf_sysgen.config.errors import RecipeError
from hf_sysgen.config.io import dump_recipe, read_recipe
from hf_sysgen.config.model_fields import flat_with_defaults, own_fields
from hf_sysgen.config.recipe import Recipe
from hf_sysgen.cpu import keep_memory
from hf_sysgen.errors import RunFailed, describe_os_error, is_disk_full, writing_to
from hf_sysgen.evaluation.checkpoint_folders import checkpoint_folder, is_hub_id, weight_files
from hf_sysgen.files import locked, sha256_of, write_atomic
from hf_sysgen.model_types import model_classes
from hf_sysgen.results.cells import precision_of
from hf_sysgen.results.environment import environment, start_after, starts_of, write_starts
from hf_sysgen.results.predictions import Row, write_predictions
from hf_sysgen.results.record import (
    MODEL,
    PREDICTIONS,
    RESULTS,
    LogEntry,
    Pretrained,
    Record,
    write_record,
)
from hf_sysgen.training.adapters import with_adapters
from hf_sysgen.training.batches import Batches
from hf_sysgen.training.checkpointing import last_checkpoint, report_damage, step_of
from hf_sysgen.training.checks import (
    check_early_stopping,
    check_installed,
    check_longest_examples,
    check_optimizer,
    check_same_examples,
    check_sharding,
    naming_fields,
)
from hf_sysgen.training.precision import faster_in_bf16
from hf_sysgen.training.run_folder import LOCK, PRETRAINED, RECIPE_COPY, finished_results, reads_stream
from hf_sysgen.training.tasks.base import Task
from hf_sysgen.training.tasks.registry import prepare_task, task_class
from hf_sysgen.training.trainer import (
    SysgenTrainer,
    fastest_attention,
    on_cpu,
    read_history,
    training_arguments,
)

logger = logging.getLogger(__name__)

# `is_training` itself holds the lock, for a moment
ATTEMPTS, WAIT_SECONDS = 5, 0.1
# tokens of an example from which SDPA is the faster attention on a CPU (perf/cpu_attention.py)
LONG = 512


def quiet_libraries() -> None:
    """Hide the libraries' progress bars, and their log below warnings."""
    datasets.disable_progress_bars()
    transformers.utils.logging.disable_progress_bar()


def attention_of(recipe: Recipe) -> str:
    """
    The implementation of attention that a recipe means.

    Raises:
        RecipeError: the model has no such one.
    """
    fastest = fastest_attention(model_classes(recipe.model.type)[AutoModel])
    if recipe.model.attn_implementation == "sdpa" and fastest != "sdpa":
        key = "model.attn_implementation"
        raise RecipeError(f"{key}=sdpa: {recipe.model.type} has no such attention; use auto or eager", key)
    if recipe.model.attn_implementation != "auto":
        return recipe.model.attn_implementation
    fields = flat_with_defaults(recipe)
    # the rate is None if the checkpoint to fine-tune decides it
    rate = fields.get("model.attention_dropout", fields.get("model.dropout"))
    is_long = reads_stream(recipe) and recipe.data.context_length >= LONG
    # PyTorch has no fused CPU kernel with dropout; its fallback is slower than the plain form. Its kernel without
    # dropout takes 45 ms more for each call with the products of `fast_products`
    return "eager" if on_cpu() and (rate != 0 or not is_long) else fastest


def settle_precision(recipe: Recipe) -> Recipe:
    """
    The recipe with true or false in place of `training.bf16: auto`: what the run in its folder began with, or else what
    is faster here. The first process decides for all.
    """
    if recipe.training.bf16 != "auto":
        return recipe
    # this also joins the processes
    arguments, taken = training_arguments(recipe.settled(False)), None
    # the measurement sets threads too, which may change how MKL splits work; a resumed run must round the same
    torch.set_num_threads(torch.get_num_threads())
    if arguments.process_index == 0:
        copy = recipe.run_dir / RECIPE_COPY
        taken, why = read_recipe(copy).training.bf16 if copy.exists() else "auto", "as this run began"
        if taken == "auto":
            taken, why = faster_in_bf16(arguments.device)
        print(f"training.bf16=auto takes {str(taken).lower()}: {why}", file=sys.stderr, flush=True)
    return recipe.settled(broadcast_object_list([taken])[0])


def run_recipe(recipe: Recipe) -> Record:
    """
    Train, evaluate on every split, and leave in the run's folder: `results.json`, `predictions.jsonl`, `recipe.yaml`
    and `model/` (weights, config, code, tokenizer). A killed run resumes from its last checkpoint and ends with the
    same weights. Of a finished run only the record is read.

    Returns:
        the results record.

    Raises:
        RecipeError, DataError, UserError: see `load_recipe`, `load_benchmark`, `check_run_dir`, `read_record`.
        RecipeError: another process is training in the folder.
        UserError: the last checkpoint is damaged.
        RunFailed: the loss became infinite or NaN, or a disk is full.
    """
    if (record := finished_results(recipe)) is not None:
        logger.info("%s is finished, nothing to do", recipe.run_dir)
        return record
    check_installed(recipe)
    with naming_fields(recipe):
        recipe = settle_precision(recipe)
        # errors show here, before minutes of preparing the data; the Trainer's arguments are made later
        training_arguments(recipe)
    check_early_stopping(recipe, task_class(recipe))
    attention = attention_of(recipe)
    keep_memory()
    task = prepare_task(recipe)
    try:
        model = task.build_model(attention)
    except StrictDataclassError as error:
        # a field may be right only for other data, e.g. the id of a word
        raise RecipeError(f"model: {error.__cause__ or error}", "model") from error
    if recipe.peft is not None:
        model = with_adapters(model, recipe.peft)
    with _without_empty_folders(recipe.run_dir):
        try:
            with naming_fields(recipe):
                trainer = SysgenTrainer(recipe, model, task)
                # raises here, before any work, if the processes cannot share a batch
                batches = trainer.step_batches(first_step=0) if recipe.in_context is None else None
        except OSError as error:
            raise _unwritable(recipe.run_dir, error) from error
        check_sharding(trainer)
        if recipe.in_context is None:
            check_optimizer(trainer)
            check_longest_examples(trainer)
    with _locked_folder(recipe.run_dir, trainer):
        # another process may have finished it meanwhile; the first process decides for all, since views of a shared
        # folder may differ
        first = trainer.args.process_index == 0
        if (record := broadcast_object_list([finished_results(recipe) if first else None])[0]) is not None:
            return record
        with writing_to(recipe.run_dir):
            return _train_and_judge(recipe, model, task, trainer, batches)


def _unwritable(run_dir: Path, error: OSError) -> RecipeError | RunFailed:
    # errors of transformers have no number
    said = describe_os_error(error) or str(error)
    said = f"cannot write to {said if str(run_dir) in said else f'{run_dir}: {said}'}"
    return RunFailed(said) if is_disk_full(error) else RecipeError(f"output_dir: {said}", "output_dir")


@contextlib.contextmanager
def _without_empty_folders(run_dir: Path) -> Iterator[None]:
    """Remove the folders that the Trainer makes, if the run ends before there is anything in them."""
    missing = [folder for folder in (run_dir, *run_dir.parents) if not folder.exists()]
    try:
        yield
    except BaseException:
        for folder in missing:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


@contextlib.contextmanager
def _locked_folder(run_dir: Path, trainer: SysgenTrainer) -> Iterator[None]:
    """
    Lock the folder against other runs. The first process locks it for all processes of this run.

    Raises:
        RecipeError, RunFailed: on every process: another run is in there, or the folder cannot be written to.
    """
    with contextlib.ExitStack() as held:
        refusal: Exception | None = None
        if trainer.args.process_index == 0:
            try:
                for earlier in range(ATTEMPTS):
                    time.sleep(WAIT_SECONDS if earlier else 0)
                    with contextlib.ExitStack() as attempt:
                        if attempt.enter_context(locked(run_dir / LOCK)) is not None:
                            held.push(attempt.pop_all())
                            break
                else:
                    busy = f"another process is training in {run_dir}; wait for it, or give another output_dir"
                    refusal = RecipeError(f"output_dir: {busy}", "output_dir")
            except OSError as error:
                refusal = _unwritable(run_dir, error)
        if (refusal := broadcast_object_list([refusal])[0]) is not None:
            raise refusal
        yield


def _train_and_judge(
    recipe: Recipe, model: PreTrainedModel, task: Task, trainer: SysgenTrainer, batches: Batches | None
) -> Record:
    with trainer.accelerator.main_process_first():
        checkpoint = last_checkpoint(recipe.run_dir)
    if checkpoint is not None and batches is not None:
        # this raises, before anything is written, if the checkpoint is of other text
        with report_damage(checkpoint):
            batches.load(checkpoint)
    # these are read now, because the pretrained checkpoint and the checkout may change during training
    resumes, is_first = checkpoint is not None, trainer.args.process_index == 0
    pretrained = broadcast_object_list([_pretrained(recipe, resumes) if is_first else None])[0]
    try:
        starts = starts_of(recipe.run_dir, start_after(step_of(checkpoint) if checkpoint else 0, task.data_sha256()))
        check_same_examples(recipe, starts)
        device = trainer.args.device.type
        machine = environment(device, precision=precision_of(trainer.args, device))
        if trainer.args.should_save:
            write_atomic(recipe.run_dir / RECIPE_COPY, dump_recipe(recipe))
            write_starts(recipe.run_dir, starts)
            if pretrained is not None:
                write_atomic(recipe.run_dir / PRETRAINED, pretrained.model_dump_json(indent=1) + "\n")
    except OSError as error:
        raise _unwritable(recipe.run_dir, error) from error
    if checkpoint is not None:
        logger.info("resuming from %s", checkpoint)
    if recipe.in_context is None:
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)

    summaries = {}
    rows: list[Row] = []
    for name in task.splits:
        if not len(judged := task.judged_rows(name)):
            continue
        records = task.to_rows(trainer.predict_split(name, judged, final=True), name)
        summaries[name] = task.summarize(records, name)
        rows += records
    if recipe.in_context is None:
        trainer.save_weights(recipe.run_dir / MODEL)
    if trainer.args.should_save:
        write_predictions(recipe.run_dir / PREDICTIONS, rows)
    record = Record(
        file=recipe.file,
        overrides=recipe.overrides,
        recipe=recipe,
        recipe_hash=recipe.hash,
        pretrained=pretrained,
        pretrained_fields=_pretrained_fields(recipe, model.config),
        seed=recipe.seed,
        steps=trainer.state.global_step,
        # with early stopping, the weights come from an earlier step
        best_step=trainer.state.best_global_step if recipe.evaluation.early_stopping is not None else None,
        num_parameters=model.num_parameters(),
        trained_parameters=None if recipe.peft is None else model.num_parameters(only_trainable=True),
        example=_example(rows),
        splits=summaries,
        history=[LogEntry.of(entry, task.splits) for entry in read_history(trainer.state)],
        train_seconds=round(trainer.clock.seconds, 2),
        num_processes=trainer.args.world_size,
        starts=starts,
        environment=machine,
    )
    if trainer.args.should_save:
        # the record comes last, because it marks the run as finished
        write_record(recipe.run_dir / RESULTS, record)
    trainer.accelerator.wait_for_everyone()
    return record


def _pretrained(recipe: Recipe, resumes: bool) -> Pretrained | None:
    """Which checkpoint the run started from, also where another one has its name by now."""
    name = recipe.model.pretrained
    if name is None:
        return None
    if resumes:
        # older versions did not write it
        with contextlib.suppress(OSError, ValidationError):
            return Pretrained.model_validate_json((recipe.run_dir / PRETRAINED).read_bytes())
    folder = checkpoint_folder(name, recipe.model.revision)
    hashes = [sha256_of(file) for file in weight_files(folder)]
    whole = hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()
    return Pretrained(name=name, commit=folder.name if is_hub_id(name) else None, sha256=whole)


def _pretrained_fields(recipe: Recipe, config: PreTrainedConfig) -> dict[str, Any]:
    """Fields of the model's config that come from the checkpoint that is fine-tuned."""
    if recipe.model.pretrained is None:
        return {}
    return {key: getattr(config, key) for key in sorted(own_fields(type(config)) - set(recipe.model.fields))}


def _example(rows: Sequence[Row]) -> str | None:
    """An input for the model's card, from the last split: one that the model gets right, if there is one."""
    last = [row for row in rows if row.split == rows[-1].split]
    return next((row for row in last if row.exact), last[0]).input if last else None
