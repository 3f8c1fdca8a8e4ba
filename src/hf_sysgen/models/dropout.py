"""Dropout whose masks are cheap to draw on a CPU."""

import torch
from torch import nn


def dropout(hidden: torch.Tensor, p: float, training: bool) -> torch.Tensor:
    """
    [`torch.nn.functional.dropout`], with p rounded to a multiple of 2^-16 on a CPU.

    On a CPU PyTorch draws one Bernoulli number per element, which took a fifth of a training step. Here one 64-bit
    random integer decides four elements. Kept elements are scaled by the rounded probability, so the mean is exact.

    Args:
        hidden: any shape.
        p: probability of zeroing an element, in [0, 1).
        training: if False, `hidden` is returned unchanged.
    """
    if not training or p == 0.0:
        return hidden
    if hidden.device.type != "cpu" or torch.compiler.is_compiling():
        return nn.functional.dropout(hidden, p)
    dropped = min(round(p * 65536), 65535)
    count = hidden.numel()
    draws = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None).view(torch.int16)[:count]
    # compared in place, because booleans are slow to convert
    mask = draws.ge_(dropped - 32768).to(hidden.dtype).mul_(65536 / (65536 - dropped))
    return hidden * mask.view(hidden.shape)
