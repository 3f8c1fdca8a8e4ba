"""Positions of a causal decoder: rotary queries and keys, or a learned bias of the score by distance."""

# B batch, L length, Q query length, K key length, H heads, D head width

import math

import torch
from torch import nn
from transformers import initialization as init


def rotary_angles(positions: torch.Tensor, head_dim: int, base: float, like: torch.Tensor) -> torch.Tensor:
    """
    Cosines and sines (2, ..., L, 1, D / 2) of the angles of channels m and m + D / 2: position times base^(-2m / D), in
    radians (Su et al. 2021). Nothing is stored, so loading on the meta device loses nothing.

    Args:
        positions: whole numbers (..., L).
        head_dim: D, even.
        like: a tensor whose device the table shares; float64 for float64, else float32.
    """
    dtype = torch.promote_types(like.dtype, torch.float32)
    channels = torch.arange(0, head_dim, 2, device=like.device, dtype=dtype)
    angles = positions.to(dtype)[..., None] * torch.exp(channels * (-math.log(base) / head_dim))
    return torch.stack((angles.cos(), angles.sin())).unsqueeze(-2)


def apply_rotary(vectors: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
    """Rotate channels m and m + D / 2 of queries or keys (B, L, H, D) by the angles (..., L, 1, D / 2)."""
    first, second = vectors.chunk(2, dim=-1)
    pair = (
        torch.addcmul(first * cosines, second, sines, value=-1),
        torch.addcmul(second * cosines, first, sines),
    )
    return torch.cat(pair, dim=-1).to(vectors.dtype)


class BucketedBias(nn.Module):
    """
    Learned bias of the score by the distance from a key to its later query, per head: half of the buckets hold one
    distance each, the others ranges that grow exponentially up to a maximum, the last one open (Raffel et al. 2020,
    section 2.1). Biases start at 0; T5's start is not in its paper.
    """

    def __init__(self, config):
        super().__init__()
        self.max_distance = config.relative_max_distance
        self.weight = nn.Parameter(torch.zeros(config.num_attention_heads, config.relative_buckets))

    def reset_weights(self):
        init.zeros_(self.weight)

    def buckets(self, distances: torch.Tensor) -> torch.Tensor:
        """Bucket of every distance >= 0."""
        exact = self.weight.shape[1] // 2
        # the smallest distance that has no bucket of its own is `exact`
        growth = torch.log(
            distances.clamp(min=exact).to(torch.float64 if distances.device.type == "cpu" else torch.float32) / exact
        )
        ranges = exact + (growth / math.log(self.max_distance / exact) * exact).long()
        return torch.where(distances < exact, distances, ranges.clamp(max=2 * exact - 1))

    def forward(self, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        """
        Biases (B, H, Q, K) of queries and keys at the positions (B, Q) and (B, K), or (1, H, Q, K) of (Q,) and (K,);
        later keys get bucket 0's.
        """
        distances = (queries[..., :, None] - keys[..., None, :]).clamp(min=0)
        biases = self.weight[:, self.buckets(distances)]
        return biases[None] if distances.dim() == 2 else biases.transpose(0, 1)


def paged_positions(first_keys: torch.Tensor, key_length: int) -> torch.Tensor:
    """Positions (K,) of keys of several texts one after the other, which start at the columns `first_keys` (N + 1,)."""
    columns = torch.arange(key_length, device=first_keys.device)
    texts = torch.searchsorted(first_keys[1:], columns, right=True).clamp(max=len(first_keys) - 2)
    return columns - first_keys[texts]
