"""Callbacks of the trainer: the time of training, its progress on a terminal, calls after updates and checkpoints."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tqdm.auto import tqdm
from transformers import TrainerCallback, TrainerState, TrainingArguments
from transformers.trainer_callback import ExportableState

from hf_sysgen.results.cells import precision_of

if TYPE_CHECKING:
    from hf_sysgen.training.trainer import SysgenTrainer


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
    First what the run computes on. Then steps, the training loss, and the accuracy or perplexity on each evaluated
    split: one bar on a terminal, elsewhere a line at the start, at each evaluation, and at least every half minute.
    """

    EVERY_SECONDS = 30

    def __init__(self):
        self.bar: tqdm | None = None
        self.shown: dict[str, str] = {}
        self.last_line = time.monotonic()

    def on_train_begin(self, args, state, control, **kwargs):
        if not state.is_world_process_zero:
            return
        self.tell(f"training on {self.machine(args)}")
        if sys.stderr.isatty():
            self.bar = tqdm(total=state.max_steps, initial=state.global_step, unit="step", dynamic_ncols=True)
        else:
            self.line_if_due(state, due=True)

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
            self.tell(f"step {state.global_step}/{state.max_steps}{numbers}")

    @staticmethod
    def tell(line: str) -> None:
        """A line on standard error. Training goes on when nobody reads it any more, e.g. after the sweep was killed."""
        with contextlib.suppress(BrokenPipeError):
            print(line, file=sys.stderr, flush=True)

    @staticmethod
    def machine(arguments: TrainingArguments) -> str:
        """The kind of device, the number of processes and the precision: a GPU that is not found shows here."""
        count, device = arguments.world_size, arguments.device.type
        precision = precision_of(arguments, device)
        if arguments.fp16 and precision != "float16":
            precision += " in spite of fp16"
        return f"{device} ({count} process{'es' * (count > 1)}, {precision})"

    @staticmethod
    def evaluated(logs: Mapping[str, float]) -> bool:
        return any(key.startswith("eval_") for key in logs)

    def on_train_end(self, args, state, control, **kwargs):
        if self.bar is not None:
            self.bar.close()
            self.bar = None


class UpdateHooks(TrainerCallback):
    """Calls the trainer after each update and each checkpoint."""

    def __init__(self, trainer: SysgenTrainer):
        self.trainer = trainer

    def on_step_end(self, args, state, control, **kwargs):
        self.trainer.after_update(control)

    def on_save(self, args, state, control, **kwargs):
        self.trainer.complete_checkpoint()
