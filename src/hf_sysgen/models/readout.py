"""What is read from states, and its loss."""

# B batch, N nodes, E width of states, V labels

import math
from collections.abc import Callable

import torch
from torch import nn
from transformers.modeling_outputs import SequenceClassifierOutput

from .linear import uniform_linear


class Readout(nn.Module):
    """Linear, ReLU, Linear: (..., width) -> (..., labels). PyTorch's default start (clutrr/model.py:272-307)."""

    def __init__(self, width: int, labels: int):
        super().__init__()
        self.fc1 = uniform_linear(width, width, 1 / math.sqrt(width))
        self.fc2 = uniform_linear(width, labels, 1 / math.sqrt(width))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return self.fc2(nn.functional.relu(self.fc1(states)))


def linear_readout(config, labels: int, bias: bool = True) -> nn.Linear:
    """(..., E) -> (..., labels), with PyTorch's default start."""
    return uniform_linear(config.hidden_size, labels, 1 / math.sqrt(config.hidden_size), bias)


def mean_cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Mean in nats over the labels that are not -100: logits (..., V), labels (...)."""
    scores = logits.flatten(0, -2).to(torch.promote_types(logits.dtype, torch.float32))
    return nn.functional.cross_entropy(scores, labels.flatten().to(logits.device))


def cross_entropies(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The loss of each label in nats, 0 where it is -100: logits (..., V), labels (...) -> (...)."""
    scores = logits.flatten(0, -2).to(torch.promote_types(logits.dtype, torch.float32))
    losses = nn.functional.cross_entropy(scores, labels.flatten().to(logits.device), reduction="none")
    return losses.view(labels.shape)


def edge_state(edges: torch.Tensor, first: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
    """The edge between each pair of nodes (B,), (B,): (B, N, N, E) -> (B, E)."""
    return edges[torch.arange(edges.shape[0], device=edges.device), first, last]


def node_states(nodes: torch.Tensor, first: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
    """Both states of each pair of nodes (B,), (B,), joined: (B, N, E) -> (B, 2E)."""
    rows = torch.arange(nodes.shape[0], device=nodes.device)
    return torch.cat((nodes[rows, first], nodes[rows, last]), dim=-1)


class RelationHead:
    """The relation from one node to another, for a `model` of nodes or edges and a `classifier` of what is read."""

    model: nn.Module
    classifier: nn.Module

    def classify(
        self, read: Callable, query: torch.Tensor | None, labels: torch.Tensor | None, *inputs, **kwargs
    ) -> SequenceClassifierOutput:
        """
        Args:
            read: what the classifier sees of a pair, as [`edge_state`] and [`node_states`].
            query: (B, 2), the first and the second node of the pair in question.
            labels: (B,), the right class, or -100.
            inputs, kwargs: of `model`.

        Returns:
            logits (B, num_labels) and, with labels, loss: mean cross-entropy in nats.

        Raises:
            ValueError: there is no query.
        """
        if query is None:
            raise ValueError("give query, the two nodes (B, 2) of the relation in question")
        outputs = self.model(*inputs, **kwargs)
        logits = self.classifier(read(outputs.last_hidden_state, query[:, 0], query[:, 1]))
        loss = None if labels is None else mean_cross_entropy(logits, labels)
        return SequenceClassifierOutput(loss, logits, outputs.hidden_states, outputs.attentions)
