"""Root mean square normalisation (Zhang and Sennrich 2019)."""

# D width

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from transformers import initialization as init


class _RMSNorm(torch.autograd.Function):
    """
    The same numbers as [`torch.nn.functional.rms_norm`], which on a CPU is a chain of elementwise operations whose
    backward pass takes three times as long. It can be differentiated once.
    """

    @staticmethod
    def forward(ctx, hidden: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        length = torch.linalg.vector_norm(hidden, dim=-1, keepdim=True)
        scale = length.square_().div_(hidden.shape[-1]).add_(eps).rsqrt_()
        ctx.save_for_backward(hidden, weight, scale)
        return (hidden * scale).mul_(weight)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: torch.Tensor):
        hidden, weight, scale = ctx.saved_tensors
        product = grad * hidden
        # sums as matrix-vector products: nothing of the size of `hidden` is made for them
        grad_weight = scale.flatten() @ product.flatten(0, -2)
        mean = (product @ weight)[..., None] / hidden.shape[-1]
        grad_hidden = (grad * weight).mul_(scale).addcmul_(hidden, mean * scale**3, value=-1)
        return grad_hidden, grad_weight, None


class RMSNorm(nn.Module):
    """
    x / sqrt(mean(x^2) + eps) * weight, in float32 or wider, over the last axis; the weight starts at 1. On a CPU it can
    be differentiated once.
    """

    def __init__(self, width: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def reset_weights(self):
        init.ones_(self.weight)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """(..., D) -> (..., D)"""
        wide = hidden.dtype in (torch.float32, torch.float64) and hidden.dtype == self.weight.dtype
        if wide and hidden.device.type == "cpu" and not torch.compiler.is_compiling():
            return _RMSNorm.apply(hidden, self.weight, self.eps)
        return nn.functional.rms_norm(hidden, self.weight.shape, self.weight.to(hidden.dtype), self.eps)
