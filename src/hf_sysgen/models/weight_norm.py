"""Layers whose weights are a direction times a learned length (Salimans & Kingma 2016)."""

import math

import torch
from torch import nn
from transformers import initialization as init


class WeightNormLayer(nn.Module):
    """
    A weight with one length for each output, stored as lengths and unnormalized directions. Directions start as
    N(0, gain / fan-in), lengths as theirs, biases as 0 (fairseq's ConvS2S).

    Args:
        shape: of the weight, outputs first.
        gain: variance that is kept.
    """

    def __init__(self, shape: tuple[int, ...], gain: float):
        super().__init__()
        self.gain = gain
        self.direction = nn.Parameter(torch.zeros(shape))
        self.length = nn.Parameter(torch.zeros(shape[0], *(1 for _ in shape[1:])))
        self.bias = nn.Parameter(torch.zeros(shape[0]))

    def norms(self) -> torch.Tensor:
        """Euclidean norm of the direction of every output, in float32 or wider."""
        wide = torch.promote_types(self.direction.dtype, torch.float32)
        axes = tuple(range(1, self.direction.dim()))
        return torch.linalg.vector_norm(self.direction, dim=axes, keepdim=True, dtype=wide)

    @property
    def weight(self) -> torch.Tensor:
        # the kernel of `torch.nn.utils.parametrizations.weight_norm`
        return torch._weight_norm(self.direction, self.length, 0)

    def reset_weights(self):
        init.normal_(self.direction, std=math.sqrt(self.gain / self.direction[0].numel()))
        with torch.no_grad():
            init.copy_(self.length, self.norms())
        init.zeros_(self.bias)


class WeightNormLinear(WeightNormLayer):
    """(..., I) -> (..., O)."""

    def __init__(self, in_features: int, out_features: int, gain: float = 1.0):
        super().__init__((out_features, in_features), gain)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(hidden, self.weight, self.bias)


class WeightNormConvolution(WeightNormLayer):
    """(B, L, I) -> (B, L - kernel + 1, O)."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, gain: float):
        super().__init__((out_channels, kernel_size, in_channels), gain)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        # one product over windows: with `conv1d` an update of scan_jump_conv takes 1.16 times as long on a CPU
        kernel_size = self.direction.shape[1]
        length = hidden.shape[1] - kernel_size + 1
        windows = torch.cat([hidden[:, place : place + length] for place in range(kernel_size)], dim=-1)
        return nn.functional.linear(windows, self.weight.flatten(1), self.bias)
