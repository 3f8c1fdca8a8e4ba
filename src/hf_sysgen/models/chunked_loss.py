"""Cross-entropy of a language model without the logits of all its positions at once."""

# N positions, E model width, V words, C positions of a chunk

import torch
from torch.autograd.function import once_differentiable

# for memory: forward and backward of the 41M model on 2 x 1,024 tokens need 485 MiB, with all logits at once 1,033 MiB
# logits held at once: on a CPU few enough for its caches, elsewhere enough to fill the device
CHUNK_LOGITS = {"cpu": 2**23}
DEFAULT_CHUNK_LOGITS = 2**27


class _ChunkedCrossEntropy(torch.autograd.Function):
    """
    Gradients are made beside each chunk's logits, in the forward pass: the logits are neither kept nor computed again.
    So it can be differentiated once.
    """

    @staticmethod
    def forward(ctx, hidden, weight, targets, chunk: int, with_gradients: bool):
        wide = torch.promote_types(hidden.dtype, torch.float32)
        total = torch.zeros((), dtype=wide, device=hidden.device)
        grad_hidden = hidden.new_empty(hidden.shape if with_gradients else 0)
        grad_weight = None
        for start in range(0, hidden.shape[0], chunk):
            states, words = hidden[start : start + chunk], targets[start : start + chunk]
            real = words != -100
            index = words.masked_fill(~real, 0)[:, None]
            scores = torch.log_softmax(states @ weight.t(), dim=-1, dtype=wide)  # (C, V)
            total -= scores.gather(1, index)[:, 0].masked_fill(~real, 0.0).sum()
            if with_gradients:
                error = scores.exp_().scatter_add_(1, index, torch.full_like(index, -1, dtype=wide)).to(hidden.dtype)
                # positions without a target are removed here, where tensors are small
                counted = real[:, None].to(hidden.dtype)
                grad_hidden[start : start + chunk] = (error @ weight) * counted
                states = states * counted
                if grad_weight is None:
                    grad_weight = (error.t() @ states).to(wide)
                elif wide == hidden.dtype:
                    grad_weight.addmm_(error.t(), states)
                else:
                    grad_weight += error.t() @ states
        if with_gradients:
            if grad_weight is None:
                # the batch has no positions
                grad_weight = weight.new_zeros(weight.shape, dtype=wide)
            ctx.save_for_backward(grad_hidden, grad_weight)
        ctx.dtypes = hidden.dtype, weight.dtype
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        grad_hidden, grad_weight = ctx.saved_tensors
        if torch.compiler.is_compiling():
            grad_hidden, grad_weight = grad_hidden * grad, grad_weight * grad
        else:
            # this is in place to save memory; autograd refuses a second backward pass through the same graph
            grad_hidden.mul_(grad), grad_weight.mul_(grad)
        return grad_hidden.to(ctx.dtypes[0]), grad_weight.to(ctx.dtypes[1]), None, None, None


def chunked_cross_entropy(
    hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor, chunk: int | None = None
) -> torch.Tensor:
    """
    Cross-entropy of `hidden @ weight.T`, summed over positions: `softmax` in float32 or wider, products in the dtype of
    `hidden`, or that of autocast.

    Args:
        hidden: states of any leading shape (..., E).
        weight: output projection (V, E).
        targets: word of every position, leading shape of `hidden`; -100 where none counts.
        chunk: positions whose logits exist at once; `None` for what suits the device.

    Returns:
        a scalar, nats. It can be differentiated once.
    """
    device = hidden.device.type
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
        hidden, weight = hidden.to(dtype), weight.to(dtype)
    if chunk is None:
        chunk = max(1, CHUNK_LOGITS.get(device, DEFAULT_CHUNK_LOGITS) // weight.shape[0])
    with_gradients = torch.is_grad_enabled() and (hidden.requires_grad or weight.requires_grad)
    with torch.autocast(device, enabled=False):
        return _ChunkedCrossEntropy.apply(hidden.flatten(0, -2), weight, targets.flatten(), chunk, with_gradients)
