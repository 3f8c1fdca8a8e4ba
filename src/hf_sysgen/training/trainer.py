"""Seq2SeqTrainer with the papers' batches, schedules and evaluation, and with runs that survive being killed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object
from torch.distributed.fsdp import FSDPModule
from torch.optim.lr_scheduler import LambdaLR
from transformers import (
    EarlyStoppingCallback,
    PreTrainedModel,
    ProgressCallback,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    TrainerCallback,
    TrainerControl,
    TrainerState,
)
from transformers.trainer_callback import PrinterCallback

from hf_sysgen.config.errors import RecipeError
from hf_sysgen.config.recipe import Recipe
from hf_sysgen.config.sections import MaxTokens
from hf_sysgen.cpu import fast_products
from hf_sysgen.errors import RunFailed
from hf_sysgen.evaluation.evaluate import sample_rows, with_attention
from hf_sysgen.evaluation.metrics.summary import scores
from hf_sysgen.files import write_atomic, write_manifest
from hf_sysgen.models.seq2seq import SOURCE_INPUTS
from hf_sysgen.results.evaluations import write_evaluation
from hf_sysgen.results.predictions import Judged
from hf_sysgen.training.adapters import merged
from hf_sysgen.training.batches import Batches, OnGpu, StepBatches, parts_of_max_tokens
from hf_sysgen.training.callbacks import Clock, Progress, UpdateHooks
from hf_sysgen.training.checkpointing import (
    check_intact,
    complete_checkpoints,
    point_to_best,
    remove_old_checkpoints,
    report_damage,
    state_to_resume,
)
from hf_sysgen.training.schedules import learning_rate_of
from hf_sysgen.training.tasks.base import Task

# sums of losses since the last log, of each process, in a checkpoint
UNLOGGED = "unlogged_losses.json"
# modes and the backend of torch.compile that replay CUDA graphs
CUDA_GRAPHS = ("reduce-overhead", "max-autotune", "cudagraphs")


class SysgenTrainer(Seq2SeqTrainer):
    """
    Identical to [`Seq2SeqTrainer`] except:

    - batches come from [`StepBatches`]: a function of seed and update, shared between processes.
    - the learning rate follows the recipe's schedule.
    - weight decay applies to all parameters, biases and norms included.
    - a logged training loss is the mean since the last log, also if the run was resumed since then.
    - the task evaluates, on exactly the examples of every split, with any number of processes.
    - only complete checkpoints are used, so a run killed at any moment can resume.
    - a loss or weight that is not finite raises [`RunFailed`] before another checkpoint is written.

    Only public methods are overridden. The rest is done by callbacks and a hook of the model.

    Args:
        recipe: a checked recipe.
        model: what to train.
        task: its split `train` is trained on, the others are evaluated.

    Raises:
        RecipeError: one of `training.kept_steps` is after the last epoch.
    """

    def __init__(self, recipe: Recipe, model: PreTrainedModel, task: Task):
        steps, kept = steps_of(recipe, task), recipe.training.kept_steps
        if kept and kept[-1] > steps:
            raise RecipeError(
                f"training.kept_steps={list(kept)} must end by step {steps}, where batches.epochs={recipe.epochs} do",
                "training.kept_steps",
            )
        recipe = recipe.replace(**{"training.max_steps": steps})
        self.recipe, self.task, self.splits = recipe, task, task.splits
        callbacks: list[TrainerCallback] = [Clock(), Progress(), UpdateHooks(self)]
        if (stopping := recipe.evaluation.early_stopping) is not None:
            callbacks.append(EarlyStoppingCallback(stopping.patience))
        super().__init__(
            model=model,
            args=training_arguments(recipe),
            train_dataset=task.splits["train"],
            eval_dataset=task.splits["train"],  # this only turns evaluation on; `evaluate` has the splits
            callbacks=callbacks,
            compute_loss_func=self.smoothed_loss if recipe.training.label_smoothing_factor else task.loss,
        )
        if self.args.tf32 is False:
            # accelerate turns TF32 on for a compiled model in float32 (state.py), whatever the arguments say
            torch.backends.cuda.matmul.allow_tf32 = False
        for unwanted in (ProgressCallback, PrinterCallback):
            self.remove_callback(unwanted)
        model.register_load_state_dict_post_hook(drop_tied_keys)
        # of this process, since the step of the last log
        self.loss_sum, self.logged_step = torch.tensor(0.0, device=self.args.device), 0
        self.num_parameters = model.num_parameters(exclude_embeddings=True)

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
        plain = self.accelerator.unwrap_model(model, keep_torch_compile=False)
        if self.compute_loss_func is not None and hasattr(plain, "prepare_decoder_input_ids_from_labels"):
            # the Trainer does not pass on the labels, from which the model makes its decoder input
            source = {name: inputs[name] for name in SOURCE_INPUTS if name in inputs}
            if hasattr(plain, "training_input"):
                read = plain.training_input(inputs["labels"], **source)
            else:
                read = plain.prepare_decoder_input_ids_from_labels(inputs["labels"])
            inputs = {**inputs, "decoder_input_ids": read}
        return super().compute_loss(model, inputs, *args, **kwargs)

    @fast_products()
    def training_step(self, model, *args, **kwargs) -> torch.Tensor:
        compiled = self.args.torch_compile_mode, self.args.torch_compile_backend
        if self.args.gradient_accumulation_steps > 1 and any(way in CUDA_GRAPHS for way in compiled):
            # the first part's gradients would lie in memory of the graphs, which the second part writes again
            for parameter in model.parameters():
                if parameter.requires_grad and parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
        loss = super().training_step(model, *args, **kwargs)
        # NaN and infinity stay in the sum; it is read only now and then, because reading waits for the device
        self.loss_sum += loss
        return loss

    def log(self, logs: dict[str, float], *args, **kwargs) -> None:
        if "loss" in logs:
            total = self.accelerator.gather(self.loss_sum.reshape(1)).mean().item()
            logs["loss"] = total / (self.state.global_step - self.logged_step)
            self.loss_sum.zero_()
            self.logged_step = self.state.global_step
        super().log(logs, *args, **kwargs)

    def _load_losses(self, checkpoint: Path) -> None:
        """The sum of losses that no log had when the checkpoint was written."""
        # older versions did not write it
        if not (checkpoint / UNLOGGED).is_file():
            return
        unlogged = json.loads((checkpoint / UNLOGGED).read_text(encoding="utf-8"))
        sums, rank = unlogged["sums"], self.args.process_index
        # another number of processes: each has the mean
        self.loss_sum += sums[rank] if len(sums) == self.args.world_size else statistics.fmean(sums)
        self.logged_step = unlogged["since"]

    @property
    def unwrapped_model(self) -> Any:
        """The model without wrappers. Sharded and compiled, `model` is the compiled wrapper."""
        return self.accelerator.unwrap_model(self.model, keep_torch_compile=False)

    @property
    def clock(self) -> Clock:
        return next(callback for callback in self.callback_handler.callbacks if isinstance(callback, Clock))

    def step_batches(self, first_step: int) -> Batches:
        """The batches of this process from an update on. Errors as [`StepBatches`]."""
        batches = self.task.batches(self.args.max_steps, self.args.process_index, self.args.world_size)
        batches.first_step = first_step
        return batches

    def get_train_dataloader(self):
        self.batches = self.step_batches(self.first_step)
        self.loss_sum.zero_()
        self.logged_step = self.first_step
        if self.resumed_from is not None:
            self.batches.load(self.resumed_from)
            self._load_losses(self.resumed_from)
        loader = self.batches.loader()
        return OnGpu(loader, self.args.device) if self.args.device.type == "cuda" else loader

    def floating_point_ops(self, inputs: dict[str, Any]) -> int:
        # the Trainer would count the model's parameters in every update
        read = inputs.get(self.unwrapped_model.main_input_name)
        return 0 if read is None else 6 * read.numel() * self.num_parameters

    def get_decay_parameter_names(self, model) -> list[str]:
        # all parameters decay, as in the optimizers of the papers: fairseq 0.10.2 (adam.py:200-217), torch's AdamW
        return [name for name, _ in model.named_parameters()]

    def create_scheduler(self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None):
        if self.lr_scheduler is None:
            at = learning_rate_of(self.recipe, self.model.config)
            base = self.recipe.training.learning_rate
            self.lr_scheduler = LambdaLR(optimizer or self.optimizer, lambda step: at(step) / base)
        return self.lr_scheduler

    def train(self, resume_from_checkpoint: str | None = None, **kwargs):
        self.first_step, self.resumed_from = 0, None
        if resume_from_checkpoint is None:
            return super().train(**kwargs)
        checkpoint = Path(resume_from_checkpoint)
        # it was evaluated when the run began
        self.args.eval_on_start = False
        # this is checked here, because the Trainer ignores some missing files
        check_intact(checkpoint)
        # the first process may change a file that the others still check
        self.accelerator.wait_for_everyone()
        with report_damage(checkpoint):
            state: Any = state_to_resume(checkpoint)
            with self.accelerator.main_process_first():
                point_to_best(checkpoint, state)
                if self.args.should_save:
                    # the run may have been killed when it had come to this
                    remove_old_checkpoints(checkpoint.parent, state.best_global_step)
            self.first_step, self.resumed_from = state.global_step, checkpoint
            if state.stateful_callbacks["TrainerControl"]["args"]["should_training_stop"]:
                # early stopping had ended the training when the run was killed
                self.args.max_steps = state.global_step
            return super().train(resume_from_checkpoint=resume_from_checkpoint, **kwargs)

    def predict_split(self, name: str, rows: np.ndarray | None = None, final: bool = False) -> list[Judged]:
        """Records of examples of a split, by default of all that are judged, in its order, from all processes; see
        [`Task.evaluate`]."""
        rows = self.task.judged_rows(name) if rows is None else rows
        attention = self.recipe.model.attn_implementation
        with (
            without_autocast(self.unwrapped_model) as model,
            # the attention of training was chosen for its dropout; without dropout another one is fastest
            with_attention(model, fastest_attention(model) if attention == "auto" else attention),
            # calling the wrapper gathers sharded weights, but would compile the model again
            torch.compiler.set_stance("force_eager") if self.args.torch_compile else contextlib.nullcontext(),
        ):
            share = self.task.evaluate(
                self.model, name, rows, final, rank=self.args.process_index, world=self.args.world_size
            )
        records = list(share)
        if self.args.world_size > 1:
            records = gather_object(records)
        records.sort(key=lambda record: record.row)
        if [record.row for record in records] != sorted(rows.tolist()):
            raise RuntimeError(f"evaluation of {name} returned {len(records)} records for {len(rows)} examples")
        return records

    def evaluate(self, eval_dataset=None, ignore_keys=None, metric_key_prefix="eval", **kwargs) -> dict[str, float]:
        """Accuracy and losses on all splits but `train`, on `evaluation.examples` of each."""
        self.clock.pause()
        metrics: dict[str, float] = {}
        for name in self.splits:
            if name == "train" or (self.task.eval_splits is not None and name not in self.task.eval_splits):
                continue
            rows = sample_rows(self.task.judged_rows(name), self.recipe.evaluation.examples, seed=0)
            records = self.predict_split(name, rows)
            if self.recipe.evaluation.save_example_losses and self.args.should_save:
                write_evaluation(self.recipe.run_dir, name, self.state.global_step, records)
            found = scores(self.task.summarize(records, name))
            metrics |= {f"{metric_key_prefix}_{name}_{metric}": found[metric] for metric in self.task.eval_metrics}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        self.clock.resume()
        return metrics

    def after_update(self, control: TrainerControl) -> None:
        """
        Save the weights of a kept step and have it evaluated; check that all numbers are finite. The Trainer logs,
        evaluates and saves after this.

        Raises:
            RunFailed: the loss of an update, or a weight, is not finite.
        """
        kept = self.state.global_step in self.recipe.training.kept_steps
        control.should_evaluate |= kept
        # a kept step may be the best one, whose checkpoint must exist
        control.should_save |= kept and self.recipe.evaluation.early_stopping is not None
        due = control.should_log or control.should_save or control.should_evaluate
        if control.should_save or control.should_evaluate:
            # schedule-free optimizers then put the average in place of the weights, until the next update
            self.optimizer.eval()
        # a gradient may be infinite or NaN although the loss is finite
        if due and not all(tensor.isfinite().all() for tensor in (self.loss_sum, *self.model.parameters())):
            good = complete_checkpoints(Path(self.args.output_dir))
            left = f"the last good checkpoint is {good[-1]}" if good else f"{self.args.output_dir} has no checkpoint"
            raise RunFailed(
                f"the loss or a weight is not finite at or before step {self.state.global_step}; {left}. Try a lower "
                "training.learning_rate, training.max_grad_norm, or neither bf16 nor fp16"
            )
        if kept:
            # the weights are saved before this step's checkpoint: a run that resumes from that does not come here again
            self.save_weights(Path(self.args.output_dir) / f"step-{self.state.global_step}")

    def complete_checkpoint(self) -> None:
        """
        Add the position in the data and the losses that no log has yet to the checkpoint that the Trainer has written,
        and mark it as complete.
        """
        checkpoint = Path(self.args.output_dir) / f"checkpoint-{self.state.global_step}"
        self.batches.save(checkpoint)
        sums = self.accelerator.gather(self.loss_sum.reshape(1)).tolist()
        if self.args.should_save:
            write_atomic(checkpoint / UNLOGGED, json.dumps({"since": self.logged_step, "sums": sums}))
        self.accelerator.wait_for_everyone()
        if self.args.should_save:
            write_manifest(checkpoint)
            # a run that is killed before this line needs the older checkpoints
            remove_old_checkpoints(checkpoint.parent, self.state.best_global_step)

    def save_weights(self, folder: Path) -> None:
        """Save the model as a checkpoint that loads anywhere, with what its task adds; completely or not at all."""
        model, weights = merged(self.unwrapped_model), None
        if self.is_fsdp_enabled:
            # all processes gather the weights. A sharded model has a class of torch's, whose code would be saved
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
            write_manifest(unfinished)
            unfinished.rename(folder)
        self.accelerator.wait_for_everyone()


def drop_tied_keys(model: PreTrainedModel, incompatible: Any) -> None:
    """Take tied weights out of the missing keys: each is stored once, under its other name."""
    tied = model.all_tied_weights_keys
    incompatible.missing_keys[:] = [key for key in incompatible.missing_keys if key not in tied]


@contextlib.contextmanager
def without_autocast(model: PreTrainedModel) -> Iterator[PreTrainedModel]:
    """The model without the autocast that accelerate puts around its `forward`, an attribute of the instance."""
    wrapped = model.__dict__.pop("forward", None)
    try:
        yield model
    finally:
        if wrapped is not None:
            model.forward = wrapped


def fastest_attention(model: PreTrainedModel | type[PreTrainedModel]) -> str:
    """The fastest implementation without dropout. SDPA cannot compute, e.g., scores of edges."""
    return "sdpa" if model._supports_sdpa else "eager"


def on_cpu() -> bool:
    """Whether a run uses the CPU: there is no accelerator, or accelerate's launcher chose the CPU."""
    return not torch.accelerator.is_available() or os.environ.get("ACCELERATE_USE_CPU", "").lower() in ("true", "1")


def training_arguments(recipe: Recipe) -> Seq2SeqTrainingArguments:
    """
    The recipe's section `training` with what the runner decides. [`StepBatches`] decides batch size and data order, and
    [`SysgenTrainer`] smooths labels.
    """
    training, stopping = recipe.training, recipe.evaluation.early_stopping
    given = training.model_dump(exclude={"kept_steps", "gradient_checkpointing", "label_smoothing_factor"})
    trackers = [given["report_to"]] if isinstance(given["report_to"], str) else list(given["report_to"])
    owned: dict[str, Any] = {
        "output_dir": str(recipe.run_dir),
        # this must be explicit: otherwise bf16 is refused, and several processes would each train alone
        "use_cpu": on_cpu(),
        "per_device_train_batch_size": 1,
        "gradient_accumulation_steps": getattr(recipe.batches, "length_buckets", 1),
        "average_tokens_across_devices": True,
        # every update uses every parameter
        "ddp_find_unused_parameters": False,
        # the field's other name is deprecated
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
    # the Trainer also compiles where only a mode or a backend is given
    compiles = any(given.get(name) for name in ("torch_compile", "torch_compile_mode", "torch_compile_backend"))
    if compiles and given.get("tf32") is None:
        # the Trainer's default would then round the factors of float32 products to 10 bits on a GPU
        owned["tf32"] = False
    if stopping is not None:
        owned |= {
            "load_best_model_at_end": True,
            "metric_for_best_model": f"eval_validation_{stopping.metric}",
            "greater_is_better": stopping.metric != "loss",
            # the best checkpoint must be among the saved ones
            "save_steps": training.eval_steps,
        }
    arguments = Seq2SeqTrainingArguments(**{**given, **owned})
    # the launcher's own setting would count where the recipe gives neither
    arguments.mixed_precision = "fp16" if arguments.fp16 else "bf16" if arguments.bf16 else "no"
    # one process takes one GPU: the Trainer would spread its batches over all, and add up gradients that are means
    arguments._n_gpu = min(arguments.n_gpu, 1)
    if isinstance(recipe.batches, MaxTokens):
        # the number of processes is known only now
        arguments.gradient_accumulation_steps = parts_of_max_tokens(recipe.batches.per_update, arguments.world_size)
    return arguments


def steps_of(recipe: Recipe, task: Task) -> int:
    """Updates of the whole run: `max_steps`, or those of the recipe's epochs if they are fewer."""
    if recipe.epochs is None:
        return recipe.training.max_steps
    batches = task.batches(recipe.training.max_steps, rank=0, world=1)
    # streamed text has no epochs, and its recipes give none
    assert isinstance(batches, StepBatches)
    return min(recipe.training.max_steps, recipe.epochs * batches.updates_per_epoch)


def read_history(state: TrainerState) -> list[dict[str, float]]:
    """What the Trainer logged, as a results record stores it."""
    # the Trainer's totals count each batch as one example, and only since the last start
    own = ("epoch", "total_flos", "train_loss", "train_runtime", "train_samples_per_second", "train_steps_per_second")
    entries = [{key: value for key, value in entry.items() if key not in own} for entry in state.log_history]
    return [entry for entry in json.loads(json.dumps(entries)) if set(entry) != {"step"}]
