"""FSDP2 on the CPU, where accelerate leaves it out. Passed to processes by name, like `kills`."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

import yaml
from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import DistributedType
from tiny_runs import ROOT
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

import hf_sysgen.training.trainer as trainer

LAUNCH_FILE = ROOT / "recipes" / "accelerate" / "fsdp.yaml"


def shard(then: Callable[[], None] | None = None) -> None:
    """Shard as recipes/accelerate/fsdp.yaml says: accelerate does so for what it takes for GPUs."""
    settings = yaml.safe_load(LAUNCH_FILE.read_text(encoding="utf-8"))["fsdp_config"]
    os.environ |= {key.upper(): str(value) for key, value in settings.items()}
    os.environ |= {"ACCELERATE_USE_FSDP": "true", "FSDP_AUTO_WRAP_POLICY": settings["fsdp_auto_wrap_policy"]}
    set_up = AcceleratorState.__init__

    def as_gpus(self, *args, **kwargs):
        if not AcceleratorState._shared_state:
            PartialState(cpu=True)
            PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU
        set_up(self, *args, **kwargs)

    AcceleratorState.__init__ = as_gpus
    training_step = trainer.SysgenTrainer.training_step

    def looked_at(self, model, *args, **kwargs):
        # else everything here would hold for plain data parallelism
        assert isinstance(model, FSDPModule)
        # hooks that gather weights do not bring back all logits
        assert model.head_is_plain
        if not self.state.global_step:
            # after an evaluation some wait for the next step as they are
            assert all(isinstance(one, DTensor) for one in model.parameters())
            own = sum(one.to_local().numel() for one in model.parameters())
            assert own < 0.6 * sum(one.numel() for one in model.parameters())
        return training_step(self, model, *args, **kwargs)

    trainer.SysgenTrainer.training_step = looked_at
    if then is not None:
        then()


def trace_only(then: Callable[[], None] | None = None) -> None:
    """Let `torch_compile` trace the model without generating code for it, which takes long."""
    arguments = trainer.Seq2SeqTrainingArguments
    trainer.Seq2SeqTrainingArguments = functools.partial(arguments, torch_compile_backend="aot_eager")
    if then is not None:
        then()
