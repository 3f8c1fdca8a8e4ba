"""LSTM layers whose state does not change at padding."""

# B batch, L length, S source length, T target length, E units of a layer, I width of its input

import math

import torch
from torch import nn
from transformers import initialization as init
from transformers.modeling_layers import GradientCheckpointingLayer

from .dropout import dropout
from .linear import uniform_linear

# hidden and cell, each (B, E)
State = tuple[torch.Tensor, torch.Tensor]


class LstmCell(nn.RNNCellBase):
    """
    One step of an LSTM, with PyTorch's parameters (gates i, f, g, o) and initial values, U(+-1/sqrt(E)). The product
    with the input is computed for all steps at once.
    """

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__(input_size, hidden_size, bias=True, num_chunks=4)

    def reset_weights(self):
        bound = 1 / math.sqrt(self.hidden_size)
        for parameter in (self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh):
            init.uniform_(parameter, -bound, bound)

    def forward(self, inputs: torch.Tensor, state: State | None = None, rest: torch.Tensor | None = None):
        """[`project`] of inputs, or [`step`] where there is a state: offloaded weights are there only during a call."""
        return self.project(inputs) if state is None else self.step(inputs, state, rest)

    def project(self, inputs: torch.Tensor) -> torch.Tensor:
        """
        Inputs (..., at most I) -> what they and the biases add to the gates (..., 4E); a narrower input is the first
        part of one, the rest follows by [`step`].
        """
        return nn.functional.linear(inputs, self.weight_ih[:, : inputs.shape[-1]], self.bias_ih + self.bias_hh)

    def step(self, projected: torch.Tensor, state: State, rest: torch.Tensor | None = None) -> State:
        """projected (B, 4E), the state before, and the part of the input that was not projected -> the state after."""
        hidden, cell = state
        gates = projected + nn.functional.linear(hidden, self.weight_hh)
        if rest is not None:
            gates = gates + nn.functional.linear(rest, self.weight_ih[:, -rest.shape[-1] :])
        i, f, g, o = gates.chunk(4, dim=-1)
        cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
        return o.sigmoid() * cell.tanh(), cell


def kept(real: torch.Tensor | None, column: int, after: State, before: State) -> State:
    """The state after a step where the column of `real` (B, L) is real, elsewhere the state before it."""
    if real is None:
        return after
    moved = real[:, column, None]
    return torch.where(moved, after[0], before[0]), torch.where(moved, after[1], before[1])


class LstmLayer(GradientCheckpointingLayer):
    """An LSTM over a whole sequence, from a state of zeros."""

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__()
        self.cell = LstmCell(input_size, hidden_size)

    def forward(self, inputs: torch.Tensor, real: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        """
        Args:
            inputs: shape (B, L, I).
            real: shape (B, L), boolean; the state passes columns of padding unchanged. None where all are real.

        Returns:
            hidden states and cells, each (B, L, E).
        """
        projected = self.cell(inputs)
        zeros = inputs.new_zeros(inputs.shape[0], self.cell.hidden_size)
        state: State = (zeros, zeros)
        states = []
        for column in range(inputs.shape[1]):
            state = kept(real, column, self.cell(projected[:, column], state), state)
            states.append(state)
        hidden, cells = zip(*states, strict=True)
        return torch.stack(hidden, dim=1), torch.stack(cells, dim=1)


class AdditiveAttention(nn.Module):
    """
    v tanh(W g + U h), softmax over source positions, mean of h (Bahdanau et al. 2015). Linear layers start as
    PyTorch's do.
    """

    def __init__(self, width: int):
        super().__init__()
        bound = 1 / math.sqrt(width)
        self.q_proj = uniform_linear(width, width, bound, bias=False)
        self.k_proj = uniform_linear(width, width, bound)
        self.score = uniform_linear(width, 1, bound, bias=False)

    def forward(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, real: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """
        Args:
            query: a state (B, E).
            keys, values: `k_proj` of the source's states, and these states, each (B, S, E).
            real: shape (B, S), boolean, or None where all are real.

        Returns:
            the mean (B, E) and the weights (B, S).
        """
        scores = self.score(torch.tanh(self.q_proj(query)[:, None] + keys))[..., 0]
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        if real is not None:
            scores = scores.masked_fill(~real, torch.finfo(scores.dtype).min)
        weights = scores.softmax(-1).to(values.dtype)
        return torch.bmm(weights[:, None], values)[:, 0], weights


class LstmDecoderStack(GradientCheckpointingLayer):
    """
    All layers of the decoder, one target position after the other, because attention reads the state before a position
    and the first layer what attention found.
    """

    def __init__(self, config):
        super().__init__()
        width = config.hidden_size
        self.dropout = config.dropout
        self.attention = AdditiveAttention(width) if config.source_attention == "additive" else None
        below = [2 * width if self.attention is not None else width] + [width] * (config.decoder_layers - 1)
        self.cells = nn.ModuleList([LstmCell(size, width) for size in below])

    def forward(
        self,
        inputs: torch.Tensor,
        real: torch.Tensor | None,
        keys: torch.Tensor | None,
        values: torch.Tensor | None,
        source_real: torch.Tensor | None,
        hidden: torch.Tensor,
        cells: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor, torch.Tensor]:
        """
        Args:
            inputs: embeddings (B, T, E); real (B, T), boolean, or None: the state passes other columns unchanged.
            keys, values, source_real: what [`AdditiveAttention`] reads.
            hidden, cells: states before the first position (B, layers, E).

        Returns:
            the last layer's states, with what attention found beside them (B, T, 2E or E); attention weights
            (B, 1, T, S) or None; hidden states and cells after every position (B, layers, T, E).
        """
        states: list[State] = list(zip(hidden.unbind(1), cells.unbind(1), strict=True))
        projected = self.cells[0](inputs)
        outputs, all_weights, passed = [], [], []
        for column in range(inputs.shape[1]):
            found = None
            if self.attention is not None:
                found, weights = self.attention(states[-1][0], keys, values, source_real)
                all_weights.append(weights)
            after = self.cells[0](projected[:, column], states[0], found)
            states[0] = kept(real, column, after, states[0])
            for layer, cell in enumerate(self.cells[1:], start=1):
                below = cell(dropout(states[layer - 1][0], self.dropout, self.training))
                states[layer] = kept(real, column, cell(below, states[layer]), states[layer])
            top = states[-1][0]
            outputs.append(top if found is None else torch.cat((top, found.to(top.dtype)), dim=-1))
            passed.append(list(states))
        hidden = torch.stack([torch.stack([state[0] for state in layers], dim=1) for layers in passed], dim=2)
        cells = torch.stack([torch.stack([state[1] for state in layers], dim=1) for layers in passed], dim=2)
        weights = torch.stack(all_weights, dim=1)[:, None] if all_weights else None
        return torch.stack(outputs, dim=1), weights, hidden, cells
