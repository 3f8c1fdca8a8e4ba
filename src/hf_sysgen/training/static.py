"""Updates of one fixed shape on data that stays on the device, replayed as a CUDA graph where there is a GPU."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from hf_sysgen.training.batches import StepBatches

# PyTorch asks for some updates outside the graph before capture; these are the run's own first ones
EAGER_UPDATES = 3
CHUNK = 1000


class StaticUpdates:
    """
    The same updates as the Trainer's inner loop makes of [`StepBatches`], without its work between them.

    For a small model a step on a GPU is shorter than the Python around it. Here the whole split lies on the device,
    padded to one shape, and an update (rows, forward, backward, clipping, optimizer) is one graph launch that reads
    which rows to take from a list on the device.

    Args:
        model: what is called with a batch to get a loss; on the device, in training mode when `run` is called.
        optimizer: its step must be capturable on a GPU.
        batches: what to draw; one part per update, of one size.
        max_grad_norm: as in a recipe; 0 for no clipping.
        autocast: context of the forward pass, e.g. the Trainer's.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        batches: StepBatches,
        max_grad_norm: float = 0.0,
        autocast: Callable[[], contextlib.AbstractContextManager] = contextlib.nullcontext,
    ):
        self.model, self.optimizer, self.batches = model, optimizer, batches
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.max_grad_norm, self.autocast = max_grad_norm, autocast
        self.device = self.parameters[0].device
        everything = batches.split[np.arange(len(batches.split))]
        self.data = {name: tensor.to(self.device) for name, tensor in everything.items()}
        self.rows = torch.zeros(CHUNK, batches.batch_size, dtype=torch.int64, device=self.device)
        self.cursor = torch.zeros(1, dtype=torch.int64, device=self.device)
        self.loss_sum = torch.zeros((), device=self.device)
        self.eager_updates = 0
        self.graph: torch.cuda.CUDAGraph | None = None

    def run(self, first_step: int, count: int, after_each: Callable[[], None]) -> torch.Tensor:
        """Make `count` updates from `first_step` on, `after_each` following each; returns the sum of their losses."""
        self.loss_sum.zero_()
        for start in range(first_step, first_step + count, CHUNK):
            steps = range(start, min(start + CHUNK, first_step + count))
            rows = np.stack([self.batches.rows(step) for step in steps])
            self.rows[: len(steps)].copy_(torch.from_numpy(rows))
            self.cursor.zero_()
            for _ in steps:
                self._update()
                after_each()
        return self.loss_sum.clone()

    def _update(self) -> None:
        if self.device.type != "cuda":
            self._work()
        elif self.graph is not None:
            self.graph.replay()
        elif self.eager_updates < EAGER_UPDATES:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                self._work()
            torch.cuda.current_stream().wait_stream(side)
            self.eager_updates += 1
        else:
            self.graph = torch.cuda.CUDAGraph()
            # gradients must be made inside the capture, in the graph's own memory
            self.optimizer.zero_grad(set_to_none=True)
            with torch.cuda.graph(self.graph):
                self._work()
            self.graph.replay()  # capturing records, it does not compute

    def _work(self) -> None:
        rows = self.rows.index_select(0, self.cursor).squeeze(0)
        batch = {name: tensor.index_select(0, rows) for name, tensor in self.data.items()}
        self.optimizer.zero_grad(set_to_none=True)
        with self.autocast():
            loss = self.model(**batch).loss
        loss.backward()
        if self.max_grad_norm:
            nn.utils.clip_grad_norm_(self.parameters, self.max_grad_norm)
        self.optimizer.step()
        self.loss_sum += loss.detach()
        self.cursor += 1
