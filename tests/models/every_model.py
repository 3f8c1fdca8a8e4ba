"""Every model type of the package with each of its heads: small, in evaluation mode and float64, with a batch."""

from __future__ import annotations

import depth_width_tiny
import edge_tiny
import tiny
import torch
from torch import nn

NAMES = (*tiny.WRAPPED, *edge_tiny.MODELS, *depth_width_tiny.VARIANTS)
# what `generate` writes sequences with: from a source, and without one
SEQ2SEQ = (*tiny.WRAPPED, *edge_tiny.WRITERS)
DECODERS = tuple(depth_width_tiny.VARIANTS)
# of whose outputs a loss is made
TRAINED = tuple(name for name in NAMES if name not in ("graph", "sequence", "rat nodes"))


def model_and_batch(name: str, **changes) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """The model of that name, and inputs for its logits."""
    if name in tiny.WRAPPED:
        model = tiny.tiny_model(name, **changes)
        return model, tiny.ragged_batch(model.config)
    if name in edge_tiny.MODELS:
        batch = edge_tiny.edge_batch(name, labels=name in edge_tiny.WRITERS)
        if "labels" in batch:
            batch["decoder_input_ids"] = batch.pop("labels").clamp(min=0)
        return edge_tiny.tiny_edge(name, **changes), batch
    return depth_width_tiny.tiny_decoder(name, **changes), {"input_ids": depth_width_tiny.random_ids()}


def with_labels(name: str, config) -> dict[str, torch.Tensor]:
    """Inputs for the loss of the model of that name."""
    if name in tiny.WRAPPED:
        return {**tiny.ragged_batch(config), "labels": tiny.ragged_labels(config)}
    if name in edge_tiny.MODELS:
        return edge_tiny.edge_batch(name)
    ids = depth_width_tiny.random_ids()
    return {"input_ids": ids, "labels": depth_width_tiny.ragged_labels(ids)}


def answer(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Logits, or else the first output, without gradients and with 0 where a mask says that nothing may be said."""
    with torch.no_grad():
        outputs = model(**batch)
    scores = outputs["logits"] if "logits" in outputs else outputs[0]
    return scores.masked_fill(scores < -1e30, 0.0)
