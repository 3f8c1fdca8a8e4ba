"""How well a decoder predicts text: loss in nats, and how often its first choice is right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from hf_sysgen.evaluation.evaluate import Measured, chunks, evaluating

if TYPE_CHECKING:
    from transformers import PreTrainedModel


# B examples, L tokens of each, V words


@dataclass(slots=True)
class Read(Measured):
    """
    An example that a language model read.

    Attributes:
        row: its number in the split.
        nats, correct: sums over its predicted tokens, of losses and of right first choices.
        tokens: predicted ones, L - 1.
    """

    row: int
    nats: float
    correct: int
    tokens: int
    exact: None = None


@torch.inference_mode()
def evaluate_text(
    model: PreTrainedModel, examples: torch.Tensor, rows: np.ndarray, batch_size: int, rank: int = 0, world: int = 1
) -> list[Read]:
    """
    Predict every token of each example, except the first, from the tokens before it.

    Args:
        model: a causal language model; its mode is restored.
        examples: token ids (N, L).
        rows: which of them.
        batch_size: examples per forward pass.
        rank, world: this process takes every world-th batch. All processes call the model equally often, which sharded
            weights need.

    Returns:
        a record for each of this process's examples.
    """
    batches = chunks(rows, batch_size)
    records = []
    with evaluating(model):
        for index in range(rank, -(-len(batches) // world) * world, world):
            taken = batches[index] if index < len(batches) else rows[:1]
            ids = examples[taken].to(model.device)
            logits = model(input_ids=ids, use_cache=False).logits[:, :-1]  # (B, L - 1, V)
            if index >= len(batches):
                continue
            for row, target, scores in zip(taken.tolist(), ids[:, 1:], logits, strict=True):
                losses = nn.functional.cross_entropy(scores.float(), target, reduction="none")
                correct = int((scores.argmax(dim=-1) == target).sum())
                records.append(Read(row, losses.double().sum().item(), correct, len(target)))
    return records
