"""LSTM layers whose state does not change at padding."""

# B batch, L length, S source length, T target length, E units of a layer, I width of its input

import math
from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch._higher_order_ops.scan import scan
from transformers import initialization as init
from transformers.modeling_layers import GradientCheckpointingLayer

from .dropout import dropout
from .linear import uniform_linear

# hidden and cell, each (B, E)
State = tuple[torch.Tensor, torch.Tensor]
# the states of all layers. The type has a name, because torch.compile cannot read `list[State]` in inner functions
States = list[State]


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
        """[`project`] without a state, else [`step`]; via `forward`, because offloaded weights are loaded there."""
        return self.project(inputs) if state is None else self.step(inputs, state, rest)

    def project(self, inputs: torch.Tensor) -> torch.Tensor:
        """
        Inputs (..., at most I) -> their contribution and that of the biases to the gates (..., 4E). A narrower input is
        the first part of the full input; [`step`] adds the rest.
        """
        return nn.functional.linear(inputs, self.weight_ih[:, : inputs.shape[-1]], self.bias_ih + self.bias_hh)

    def step(self, projected: torch.Tensor, state: State, rest: torch.Tensor | None = None) -> State:
        """Projected input (B, 4E), previous state, and the part of the input not projected yet -> next state."""
        hidden, cell = state
        gates = projected + nn.functional.linear(hidden, self.weight_hh)
        if rest is not None:
            gates = gates + nn.functional.linear(rest, self.weight_ih[:, -rest.shape[-1] :])
        i, f, g, o = gates.chunk(4, dim=-1)
        cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
        return o.sigmoid() * cell.tanh(), cell


def keep_padding_state(real: torch.Tensor | None, after: State, before: State) -> State:
    """The new state for real rows (B,), the previous state for padding."""
    if real is None:
        return after
    moved = real[:, None]
    return torch.where(moved, after[0], before[0]), torch.where(moved, after[1], before[1])


def scan_columns(
    step: Callable[[States, torch.Tensor, torch.Tensor | None], tuple[States, Sequence[torch.Tensor]]],
    states: States,
    inputs: torch.Tensor,
    real: torch.Tensor | None,
) -> list[torch.Tensor]:
    """
    Apply a step to each column in turn. In an exported program this is one loop of dynamic length.

    Args:
        step: from the states before a column, the column (B, ...) and which rows are real (B,), the states after it and
            any outputs (B, ...).
        inputs, real: columns (B, L, ...) and (B, L).

    Returns:
        each output, (B, L, ...).
    """
    if torch.compiler.is_exporting():
        columns = [inputs.transpose(0, 1), *([] if real is None else [real.transpose(0, 1)])]

        def one(carry: list[torch.Tensor], column: list[torch.Tensor]):
            before = list(zip(carry[::2], carry[1::2], strict=True))
            after, outputs = step(before, column[0], column[1] if real is not None else None)
            # `scan` refuses a tensor that is returned twice, or unchanged
            return [part.clone() for state in after for part in state], [output.clone() for output in outputs]

        _, found = scan(one, [part.contiguous() for state in states for part in state], columns)
        return [output.transpose(0, 1) for output in found]
    collected = []
    for column in range(inputs.shape[1]):
        states, outputs = step(states, inputs[:, column], None if real is None else real[:, column])
        collected.append(outputs)
    return [torch.stack(parts, dim=1) for parts in zip(*collected, strict=True)]


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

        def step(states: States, projected: torch.Tensor, moved: torch.Tensor | None):
            state = keep_padding_state(moved, self.cell(projected, states[0]), states[0])
            return [state], state

        zeros = inputs.new_zeros(inputs.shape[0], self.cell.hidden_size)
        hidden, cells = scan_columns(step, [(zeros, zeros.clone())], self.cell(inputs), real)
        return hidden, cells


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

        def step(states: States, projected: torch.Tensor, moved: torch.Tensor | None):
            found, found_weights = None, []
            if self.attention is not None:
                found, weights = self.attention(states[-1][0], keys, values, source_real)
                found_weights.append(weights)
            states = [keep_padding_state(moved, self.cells[0](projected, states[0], found), states[0]), *states[1:]]
            for layer, cell in enumerate(self.cells[1:], start=1):
                below = cell(dropout(states[layer - 1][0], self.dropout, self.training))
                states[layer] = keep_padding_state(moved, cell(below, states[layer]), states[layer])
            top = states[-1][0]
            output = top if found is None else torch.cat((top, found.to(top.dtype)), dim=-1)
            hidden, cells = (torch.stack(parts, dim=1) for parts in zip(*states, strict=True))
            return states, (output, hidden, cells, *found_weights)

        before = list(zip(hidden.unbind(1), cells.unbind(1), strict=True))
        output, hidden, cells, *weights = scan_columns(step, before, self.cells[0](inputs), real)
        return output, weights[0][:, None] if weights else None, hidden.transpose(1, 2), cells.transpose(1, 2)
