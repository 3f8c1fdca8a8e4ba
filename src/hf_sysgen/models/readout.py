"""What is read from states, and its loss."""

# E width of states, V labels

import math

import torch
from torch import nn

from .linear import UniformLinear


class Readout(nn.Module):
    """Linear, ReLU, Linear: (..., width) -> (..., labels). PyTorch's default start (clutrr/model.py:272-307)."""

    def __init__(self, width: int, labels: int):
        super().__init__()
        self.fc1 = UniformLinear(width, width, 1 / math.sqrt(width))
        self.fc2 = UniformLinear(width, labels, 1 / math.sqrt(width))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return self.fc2(nn.functional.relu(self.fc1(states)))


def linear_readout(config, labels: int, bias: bool = True) -> UniformLinear:
    """(..., E) -> (..., labels), with PyTorch's default start."""
    return UniformLinear(config.hidden_size, labels, 1 / math.sqrt(config.hidden_size), bias)


def mean_cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Mean in nats over the labels that are not -100: logits (..., V), labels (...)."""
    scores = logits.flatten(0, -2).to(torch.promote_types(logits.dtype, torch.float32))
    return nn.functional.cross_entropy(scores, labels.flatten().to(logits.device))


def cross_entropies(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Of each label, in nats, 0 where it is -100: logits (..., V), labels (...) -> (...)."""
    scores = logits.flatten(0, -2).to(torch.promote_types(logits.dtype, torch.float32))
    losses = nn.functional.cross_entropy(scores, labels.flatten().to(logits.device), reduction="none")
    return losses.view(labels.shape)
