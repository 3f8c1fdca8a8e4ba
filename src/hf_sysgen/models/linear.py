"""Linear layers with initial values of their own."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from transformers import initialization as init


def uniform(bound: float) -> Callable[[torch.Tensor], Any]:
    """Values from U(-bound, bound)."""
    return partial(init.uniform_, a=-bound, b=bound)


def linear(
    in_features: int,
    out_features: int,
    weight: Callable[[torch.Tensor], Any],
    bias: Callable[[torch.Tensor], Any] | None = None,
) -> nn.Linear:
    """
    A plain [`torch.nn.Linear`], which quantization and adapters know, that carries what sets its initial values.

    Args:
        weight: sets the weight's initial values in place.
        bias: the same for the bias; None for a layer without.
    """
    layer = nn.Linear(in_features, out_features, bias is not None)
    # nn.Module types its attributes as tensors and modules, so this is no assignment
    vars(layer)["initial_values"] = weight, bias
    return layer


def uniform_linear(
    in_features: int, out_features: int, bound: float, bias: bool = True, zero_bias: bool = False
) -> nn.Linear:
    """
    [`linear`] with weights from U(-bound, bound), and biases at PyTorch's default U(+-1/sqrt(fan-in)), or at 0 with
    `zero_bias`.
    """
    limit = 0.0 if zero_bias else 1 / math.sqrt(in_features)
    return linear(in_features, out_features, uniform(bound), uniform(limit) if bias else None)


def fan_in_linear(in_features: int, out_features: int) -> nn.Linear:
    """[`linear`] without biases whose weights come from N(0, 1 / fan-in), so that it keeps a variance of 1."""
    return linear(in_features, out_features, partial(init.normal_, std=1 / math.sqrt(in_features)))
