"""Seq2SeqTrainer with the papers' batches, schedules and evaluation, and with runs that survive being killed."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object
from torch.distributed.fsdp import FSDPModule
from torch.optim.lr_scheduler import LambdaLR
from tqdm.auto import tqdm
from transformers import (
    EarlyStoppingCallback,
    PreTrainedModel,
    ProgressCallback,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    TrainerCallback,
    TrainerState,
)
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_callback import ExportableState, PrinterCallback

from hf_sysgen.config.recipe import MaxTokens, Recipe, RecipeError
from hf_sysgen.errors import RunFailed
from hf_sysgen.files import COMPLETE, is_complete, mark_complete, replace_marked
from hf_sysgen.models.seq2seq import SOURCE_INPUTS
from hf_sysgen.results.evaluations import write_evaluation
from hf_sysgen.training.batches import Batches, StepBatches, parts_of_max_tokens
from hf_sysgen.training.checkpointing import check_best, check_whole, checkpoints_of, going_on_from, step_of
from hf_sysgen.training.schedules import learning_rate_of
from hf_sysgen.training.tasks.base import Task


class TrainingDiverged(RunFailed):
    """The loss or a weight is no longer a finite number."""


class Clock(TrainerCallback, ExportableState):
    """Seconds of training, evaluation excluded, over all starts of a run."""

    def __init__(self, seconds: float = 0.0):
        self.seconds = seconds
        self._since: float | None = None

    def state(self) -> dict[str, Any]:
        self.pause()
        self.resume()
        return {"args": {"seconds": self.seconds}, "attributes": {}}

    def pause(self) -> None:
        if self._since is not None:
            self.seconds += time.perf_counter() - self._since
        self._since = None

    def resume(self) -> None:
        self._since = time.perf_counter()

    def on_train_begin(self, args, state, control, **kwargs):
        self.resume()

    def on_train_end(self, args, state, control, **kwargs):
        self.pause()


class Progress(TrainerCallback):
    """
    Steps, the training loss, and the accuracy or perplexity on each evaluated split: one bar on a terminal, elsewhere a
    line at each evaluation and at least every half minute.
    """

    EVERY_SECONDS = 30

    def __init__(self):
        self.bar: tqdm | None = None
        self.shown: dict[str, str] = {}
        self.last_line = time.monotonic()

    def on_train_begin(self, args, state, control, **kwargs):
        if state.is_world_process_zero and sys.stderr.isatty():
            self.bar = tqdm(total=state.max_steps, initial=state.global_step, unit="step", dynamic_ncols=True)

    def on_step_end(self, args, state, control, **kwargs):
        if self.bar is not None:
            self.bar.update(state.global_step - self.bar.n)
        elif state.is_world_process_zero and not control.should_log:
            self.line_if_due(state)

    def on_log(self, args, state, control, logs=None, **kwargs):
        if not logs or not state.is_world_process_zero:
            return
        for key, value in logs.items():
            if key == "loss":
                self.shown["loss"] = f"{value:.3f}"
            elif key.endswith(("_accuracy", "_bleu")):
                self.shown[key.removeprefix("eval_").removesuffix("_accuracy")] = f"{value:.3f}"
            elif key.endswith("_perplexity"):
                self.shown[key.removeprefix("eval_")] = f"{value:.2f}"
        if self.bar is not None:
            self.bar.set_postfix(self.shown)
        else:
            self.line_if_due(state, self.evaluated(logs))

    def line_if_due(self, state: TrainerState, due: bool = False) -> None:
        if due or time.monotonic() - self.last_line > self.EVERY_SECONDS:
            self.last_line = time.monotonic()
            numbers = "".join(f" {name}={value}" for name, value in self.shown.items())
            print(f"step {state.global_step}/{state.max_steps}{numbers}", file=sys.stderr, flush=True)

    @staticmethod
    def evaluated(logs: Mapping[str, float]) -> bool:
        return any(key.startswith("eval_") for key in logs)

    def on_train_end(self, args, state, control, **kwargs):
        if self.bar is not None:
            self.bar.close()
            self.bar = None


class SysgenTrainer(Seq2SeqTrainer):
    """
    Identical to [`Seq2SeqTrainer`] except:
    - batches come from [`StepBatches`]: a function of seed and update, shared between processes.
    - the learning rate follows the recipe's schedule.
    - weight decay is of all parameters, biases and norms included.
    - evaluation is the task's, over exactly the examples of every split, on any number of processes.
    - a checkpoint counts only once it is complete, so that a run killed at any moment resumes.
    - a loss or weight that is not finite raises [`TrainingDiverged`] before another checkpoint is written.

    Args:
        recipe: a checked recipe.
        model: what to train.
        task: its split `train` is trained on, the others are evaluated.

    Raises:
        RecipeError: one of `training.kept_steps` lies behind the last epoch.
    """

    def __init__(self, recipe: Recipe, model: PreTrainedModel, task: Task):
        steps, kept = steps_of(recipe, task), recipe.training.kept_steps
        if kept and kept[-1] > steps:
            raise RecipeError(
                f"training.kept_steps={list(kept)} must end by step {steps}, where batches.epochs={recipe.epochs} do",
                "training.kept_steps",
            )
        recipe = recipe.with_(**{"training.max_steps": steps})
        self.recipe, self.task, self.splits = recipe, task, task.splits
        callbacks: list[TrainerCallback] = [Clock(), Progress()]
        if (stopping := recipe.evaluation.early_stopping) is not None:
            callbacks.append(EarlyStoppingCallback(stopping.patience))
        super().__init__(
            model=model,
            args=training_arguments(recipe),
            train_dataset=task.splits["train"],
            eval_dataset=task.splits["train"],  # only so that evaluation is on; `evaluate` takes the splits itself
            callbacks=callbacks,
            compute_loss_func=self.smoothed_loss if recipe.training.label_smoothing_factor else task.loss,
        )
        for unwanted in (ProgressCallback, PrinterCallback):
            self.remove_callback(unwanted)

    def smoothed_loss(self, outputs, labels: torch.Tensor, num_items_in_batch: torch.Tensor | int) -> torch.Tensor:
        """(1 - eps) * cross-entropy + eps * its mean over the vocabulary, a mean over the whole batch."""
        scores = outputs.logits.flatten(0, 1)
        loss = torch.nn.functional.cross_entropy(
            scores.to(torch.promote_types(scores.dtype, torch.float32)),
            labels.flatten(),
            label_smoothing=self.recipe.training.label_smoothing_factor,
            reduction="sum",
        )
        return loss / num_items_in_batch

    def compute_loss(self, model, inputs, *args, **kwargs):
        if self.recipe.training.label_smoothing_factor:
            # the Trainer keeps the labels to itself, from which the model would make its decoder input
            source = {name: inputs[name] for name in SOURCE_INPUTS if name in inputs}
            plain = self.accelerator.unwrap_model(model, keep_torch_compile=False)
            read = plain.training_input(inputs["labels"], **source)
            inputs = {**inputs, "decoder_input_ids": read}
        return super().compute_loss(model, inputs, *args, **kwargs)

    @property
    def plain_model(self) -> Any:
        """The model without what is put around it; sharded and compiled, `model` is the compiled wrapper."""
        return self.accelerator.unwrap_model(self.model, keep_torch_compile=False)

    @property
    def clock(self) -> Clock:
        return next(callback for callback in self.callback_handler.callbacks if isinstance(callback, Clock))

    def step_batches(self, first_step: int) -> Batches:
        """What this process works through from an update on. Errors as [`StepBatches`]."""
        batches = self.task.batches(self.args.max_steps, self.args.process_index, self.args.world_size)
        batches.first_step = first_step
        return batches

    def get_train_dataloader(self):
        self.batches = self.step_batches(self.first_step)
        if self.resumed_from is not None:
            self.batches.load(self.resumed_from)
        return self.batches.loader()

    def get_decay_parameter_names(self, model) -> list[str]:
        # as the optimizers of the papers that have weight decay: fairseq 0.10.2 (adam.py:200-217), torch's AdamW
        return [name for name, _ in model.named_parameters()]

    def create_scheduler(self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None):
        if self.lr_scheduler is None:
            at = learning_rate_of(self.recipe, self.model.config.hidden_size)
            base = self.recipe.training.learning_rate
            self.lr_scheduler = LambdaLR(optimizer or self.optimizer, lambda step: at(step) / base)
        return self.lr_scheduler

    def train(self, resume_from_checkpoint: str | None = None, **kwargs):
        self.first_step, self.resumed_from = 0, None
        if resume_from_checkpoint is None:
            return super().train(**kwargs)
        checkpoint = Path(resume_from_checkpoint)
        # before all others, since the Trainer passes over some files that are absent
        check_whole(checkpoint)
        with going_on_from(checkpoint):
            state: Any = state_to_resume(checkpoint)
            with self.accelerator.main_process_first():
                point_to_best(checkpoint, state)
            self.first_step, self.resumed_from = state.global_step, checkpoint
            if state.stateful_callbacks["TrainerControl"]["args"]["should_training_stop"]:
                # early stopping had ended the training when the run was killed
                self.args.max_steps = state.global_step
            return super().train(resume_from_checkpoint=resume_from_checkpoint, **kwargs)

    def predict_split(self, name: str, rows: np.ndarray | None = None, final: bool = False) -> list[dict[str, Any]]:
        """Records of every example of a split, in its order, from all processes; see [`Task.evaluate`]."""
        split = self.splits[name]
        rows = np.arange(len(split)) if rows is None else rows
        attention, compiled = self.recipe.model.attn_implementation, self.recipe.training.torch_compile
        with (
            without_autocast(self.plain_model) as model,
            # what training chose for its dropout is not what is fastest without
            with_attention(model, fastest_attention(model) if attention == "auto" else attention),
            # sharded weights are gathered where the wrapper is called, which would compile the model again
            torch.compiler.set_stance("force_eager") if compiled else contextlib.nullcontext(),
        ):
            records = self.task.evaluate(
                self.model, name, rows, final, rank=self.args.process_index, world=self.args.world_size
            )
        if self.args.world_size > 1:
            records = gather_object(records)
        records.sort(key=lambda record: record["row"])
        if [record["row"] for record in records] != sorted(rows.tolist()):
            raise RuntimeError(f"evaluation of {name} returned {len(records)} records for {len(rows)} examples")
        return records

    def evaluate(self, eval_dataset=None, ignore_keys=None, metric_key_prefix="eval", **kwargs) -> dict[str, float]:
        """Accuracy and losses on all splits but `train`, on the recipe's `eval_examples` of each."""
        self.clock.pause()
        metrics: dict[str, float] = {}
        for name, split in self.splits.items():
            if name == "train" or (self.task.watched is not None and name not in self.task.watched):
                continue
            records = self.predict_split(name, self._evaluated_rows(len(split)))
            if self.recipe.evaluation.save_example_losses and self.args.should_save:
                write_evaluation(self.recipe.run_dir, name, self.state.global_step, records)
            summary = self.task.summarize(records, name)
            for metric in self.task.monitored:
                metrics[f"{metric_key_prefix}_{name}_{metric}"] = summary[metric]
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        self.clock.resume()
        return metrics

    def _evaluated_rows(self, total: int) -> np.ndarray:
        if self.recipe.evaluation.examples is None or self.recipe.evaluation.examples >= total:
            return np.arange(total)
        return np.sort(np.random.default_rng(0).choice(total, self.recipe.evaluation.examples, replace=False))

    def _require_finite(self) -> None:
        # NaN stays in the running sum until it is logged, so looking here misses no step; a finite loss may still have
        # had a gradient that was not
        if not all(tensor.isfinite().all() for tensor in (self._tr_loss, *self.model.parameters())):
            raise TrainingDiverged(
                f"the loss ({float(self._tr_loss)}) or a weight is not finite at or before step "
                f"{self.state.global_step}; good checkpoints are kept in {self.args.output_dir}. Try a lower "
                "training.learning_rate, training.max_grad_norm, or neither bf16 nor fp16"
            )

    def _maybe_log_save_evaluate(self, tr_loss, *args, **kwargs):
        kept = self.state.global_step in self.recipe.training.kept_steps
        self.control.should_evaluate |= kept
        # it may be the best one, whose weights must be among the saved ones
        self.control.should_save |= kept and self.recipe.evaluation.early_stopping is not None
        if self.control.should_log or self.control.should_save or self.control.should_evaluate:
            self._require_finite()
        if kept:
            # before the checkpoint of this step, from which a killed run would not come back here
            self.save_weights(Path(self.args.output_dir) / f"step-{self.state.global_step}")
        super()._maybe_log_save_evaluate(tr_loss, *args, **kwargs)

    def _issue_warnings_after_load(self, load_result) -> None:
        # a tied weight is stored once, under its other name
        tied = self.model.all_tied_weights_keys
        load_result.missing_keys[:] = [key for key in load_result.missing_keys if key not in tied]
        super()._issue_warnings_after_load(load_result)

    def _save_checkpoint(self, model, trial) -> None:
        super()._save_checkpoint(model, trial)
        checkpoint = Path(self.args.output_dir) / f"checkpoint-{self.state.global_step}"
        self.batches.save(checkpoint)
        self.accelerator.wait_for_everyone()
        if self.args.should_save:
            mark_complete(checkpoint)
            # only now: until then a killed run has the older ones alone
            remove_old_checkpoints(checkpoint.parent, self.state.best_global_step)

    def save_weights(self, folder: Path) -> None:
        """The model as a checkpoint that travels, with what its task adds; whole or not at all."""
        model, weights = self.plain_model, None
        if self.is_fsdp_enabled:
            # put together, by all processes; the class of what is sharded is one of torch's, whose code would be saved
            weights = self.accelerator.get_state_dict(self.model_wrapped)
            whole: Any = next(one for one in type(model).__mro__ if not issubclass(one, FSDPModule))
            generation_config = model.generation_config
            with torch.device("meta"):
                model = whole(model.config)
            model.generation_config = generation_config
        if self.args.should_save:
            unfinished = folder.with_name(f".{folder.name}")
            for old in (unfinished, folder):
                shutil.rmtree(old, ignore_errors=True)
            model.save_pretrained(unfinished, state_dict=weights)
            self.task.save(unfinished)
            mark_complete(unfinished)
            unfinished.rename(folder)
        self.accelerator.wait_for_everyone()


@contextlib.contextmanager
def without_autocast(model: PreTrainedModel) -> Iterator[PreTrainedModel]:
    """The model as it was before accelerate put autocast around its `forward`, which is an attribute of its own."""
    wrapped = model.__dict__.pop("forward", None)
    try:
        yield model
    finally:
        if wrapped is not None:
            model.forward = wrapped


@contextlib.contextmanager
def with_attention(model: PreTrainedModel, implementation: str) -> Iterator[None]:
    """The model with another implementation of attention for a while."""
    before = model.config._attn_implementation
    model.set_attn_implementation(implementation)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def fastest_attention(model: PreTrainedModel | type[PreTrainedModel]) -> str:
    """The implementation that is fastest where no dropout is drawn; scores of edges, e.g., are none of SDPA's."""
    return "sdpa" if model._supports_sdpa else "eager"


def on_cpu() -> bool:
    """Whether a run takes place on the CPU: there is nothing else, or accelerate's launcher was told so."""
    return not torch.accelerator.is_available() or os.environ.get("ACCELERATE_USE_CPU", "").lower() in ("true", "1")


def training_arguments(recipe: Recipe) -> Seq2SeqTrainingArguments:
    """
    The recipe's section `training` with what the runner owns; batch size and data order are [`StepBatches`]'s own
    business, as is label smoothing.
    """
    training, stopping = recipe.training, recipe.evaluation.early_stopping
    given = training.model_dump(exclude={"kept_steps", "gradient_checkpointing", "label_smoothing_factor"})
    trackers = [given["report_to"]] if isinstance(given["report_to"], str) else list(given["report_to"])
    owned: dict[str, Any] = {
        "output_dir": str(recipe.run_dir),
        # told outright: otherwise bf16 is refused, and several processes would each train alone
        "use_cpu": on_cpu(),
        "per_device_train_batch_size": 1,
        "gradient_accumulation_steps": getattr(recipe.batches, "length_buckets", 1),
        "average_tokens_across_devices": True,
        # every update uses every parameter
        "ddp_find_unused_parameters": False,
        # the name that is not deprecated
        "activation_checkpointing": training.gradient_checkpointing,
        "eval_strategy": "no" if training.eval_steps is None else "steps",
        "save_strategy": "steps",
        # the Trainer removes older checkpoints before the new one is complete; `remove_old_checkpoints` does after
        "save_total_limit": None,
        "logging_nan_inf_filter": False,
        "ignore_data_skip": True,
        "restore_callback_states_from_checkpoint": True,
        "dataloader_pin_memory": False,
        "remove_unused_columns": False,
        "seed": recipe.seed,
        "report_to": [] if trackers == ["none"] else trackers,
        "disable_tqdm": True,
    }
    if stopping is not None:
        owned |= {
            "load_best_model_at_end": True,
            "metric_for_best_model": f"eval_validation_{stopping.metric}",
            "greater_is_better": stopping.metric != "loss",
            # the best checkpoint must be among the saved ones
            "save_steps": training.eval_steps,
        }
    arguments = Seq2SeqTrainingArguments(**{**given, **owned})
    if isinstance(recipe.batches, MaxTokens):
        # only now is it known how many processes there are
        arguments.gradient_accumulation_steps = parts_of_max_tokens(recipe.batches.per_update, arguments.world_size)
    return arguments


def steps_of(recipe: Recipe, task: Task) -> int:
    """Updates of the whole run: the recipe's, or where these are fewer those of its epochs."""
    if recipe.epochs is None:
        return recipe.training.max_steps
    batches = task.batches(recipe.training.max_steps, rank=0, world=1)
    # those of streamed text have no epochs, and their recipes none either
    assert isinstance(batches, StepBatches)
    return min(recipe.training.max_steps, recipe.epochs * batches.updates_per_epoch)


def last_checkpoint(run_dir: Path) -> Path | None:
    """The newest complete checkpoint of a run; incomplete ones, which a kill left behind, are removed."""
    last = None
    for folder in checkpoints_of(run_dir):
        if is_complete(folder):
            last = folder
        elif not folder.is_symlink():
            shutil.rmtree(folder, ignore_errors=True)
    return last


def state_to_resume(checkpoint: Path) -> TrainerState:
    """
    The Trainer's state in a checkpoint. It holds the best checkpoint as a path, which is made to lie beside this one:
    the run's folder may have been moved since.

    Raises:
        RunFailed: the best checkpoint is absent.
        CheckpointDamaged: it is not whole.
    """
    state = TrainerState.load_from_json(str(checkpoint / TRAINER_STATE_NAME))
    if state.best_global_step:
        best = checkpoint.with_name(f"checkpoint-{state.best_global_step}")
        if not best.is_dir():
            raise RunFailed(
                f"{best}, which holds the best weights so far, is absent: put it back, or remove "
                f"{checkpoint.parent} to start anew"
            )
        check_best(best)
        state.best_model_checkpoint = str(best)
    return state


def point_to_best(checkpoint: Path, state: TrainerState) -> None:
    """Make the checkpoint's file say where the best one is, as `state` does: the Trainer reads it from there."""
    file = checkpoint / TRAINER_STATE_NAME
    if TrainerState.load_from_json(str(file)).best_model_checkpoint != state.best_model_checkpoint:
        replace_marked(checkpoint, file.name, json.dumps(dataclasses.asdict(state), indent=2, sort_keys=True) + "\n")


def remove_old_checkpoints(run_dir: Path, best_step: int | None) -> None:
    """Of a run's checkpoints keep the newest and the best one, or where that makes one alone the newest two."""
    *older, _ = [folder for folder in checkpoints_of(run_dir) if is_complete(folder)]
    best = [folder for folder in older if step_of(folder) == best_step]
    for folder in older:
        if folder not in (best or older[-1:]):
            # first, so that what a kill leaves of it is not taken for a checkpoint
            (folder / COMPLETE).unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)


def read_history(state: TrainerState) -> list[dict[str, float]]:
    """What the Trainer logged, as a results record stores it."""
    # the Trainer's own sums at the end count batches as if each were one example, and only since the last start
    own = ("epoch", "total_flos", "train_loss", "train_runtime", "train_samples_per_second", "train_steps_per_second")
    entries = [{key: value for key, value in entry.items() if key not in own} for entry in state.log_history]
    return [entry for entry in json.loads(json.dumps(entries)) if set(entry) != {"step"}]
