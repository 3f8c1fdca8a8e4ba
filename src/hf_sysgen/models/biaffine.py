"""Scores of pairs of words that are biaffine in their states (Dozat & Manning 2017)."""

# B batch, N words, E model width, D width before words meet, L scores of a pair

import math

import torch
from torch import nn
from transformers import initialization as init

from .dropout import dropout
from .linear import UniformLinear


class Bilinear(nn.Module):
    """`[x; 1] U_l [y; 1]` for every x, y and l: a bilinear form, and with the ones two linear ones and a bias."""

    def __init__(self, width: int, outputs: int):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(outputs, width + 1, width + 1))

    def reset_weights(self):
        # as in Stanza's parser, so that all pairs score alike at the start
        init.zeros_(self.weight)

    def forward(self, first: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
        """(B, N, D) twice -> (B, N, N, L)."""
        first, last = (nn.functional.pad(states, (0, 1), value=1.0) for states in (first, last))
        return torch.einsum("bid,lde,bje->bijl", first, self.weight, last)


class Biaffine(nn.Module):
    """Words as dependents and as heads, each by a linear layer, ReLU and dropout, then [`Bilinear`]."""

    def __init__(self, config, outputs: int):
        super().__init__()
        width, size = config.hidden_size, config.biaffine_size
        self.dropout = config.biaffine_dropout
        self.dependent_proj = UniformLinear(width, size, 1 / math.sqrt(width))
        self.head_proj = UniformLinear(width, size, 1 / math.sqrt(width))
        self.bilinear = Bilinear(size, outputs)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """(B, N, E) -> (B, dependent, head, L)."""
        dependents, heads = (
            dropout(nn.functional.relu(proj(words)), self.dropout, self.training)
            for proj in (self.dependent_proj, self.head_proj)
        )
        return self.bilinear(dependents, heads)
