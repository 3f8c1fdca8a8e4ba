"""Keeps what a process trains on. Passed to processes by name, like `kills`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import hf_sysgen.training.trainer as trainer

FILE = "seen.jsonl"


def record(then: Callable[[], None] | None = None) -> None:
    """Append update and examples of every training step to a file of this process."""
    training_step = trainer.SysgenTrainer.training_step

    def recorded(self, model, inputs, *args, **kwargs):
        with open(f"{os.environ.get('RANK', '0')}.{FILE}", "a", encoding="utf-8") as file:
            for example in inputs["input_ids"].tolist():
                file.write(json.dumps([self.state.global_step, example]) + "\n")
        return training_step(self, model, inputs, *args, **kwargs)

    trainer.SysgenTrainer.training_step = recorded
    if then is not None:
        then()
