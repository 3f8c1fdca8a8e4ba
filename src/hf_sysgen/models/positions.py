"""Sinusoidal positions, and embeddings that add them."""

# B batch, L length, E model width

import math

import torch
from torch import nn
from transformers import initialization as init

from .dropout import dropout


def sinusoids(positions: torch.Tensor, width: int) -> torch.Tensor:
    """
    Sines on even channels, cosines on odd ones; channels 2m and 2m+1 turn at 10000^(-2m / width) radians a position.

    Computed in float32 in the authors' order of operations (framework/layers/positional_encoding.py:11-13), so that
    the rows are theirs bit for bit; nothing is stored, so nothing is lost by loading on the meta device.

    Args:
        positions: signed integer positions or distances, shape (L,).
        width: number of channels, even.

    Returns:
        float32 tensor of shape (L, width).
    """
    frequencies = torch.exp(
        torch.arange(0, width, 2, dtype=torch.float32, device=positions.device) * (-math.log(10000.0) / width)
    )
    angles = positions[:, None].to(torch.float32) * frequencies  # (L, width / 2)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)


class TokenEmbedding(nn.Embedding):
    """
    A table that covers token ids `[id_offset, id_offset + num_embeddings)`.

    Raises:
        IndexError: on CPU, for an id outside that range.
    """

    def __init__(self, num_embeddings: int, width: int, distribution: str, id_offset: int = 0):
        super().__init__(num_embeddings, width)
        self.distribution = distribution
        self.id_offset = id_offset

    def reset_weights(self):
        rows, width = self.weight.shape
        if self.distribution == "glorot_uniform":
            bound = math.sqrt(6 / (rows + width))
            init.uniform_(self.weight, -bound, bound)
        else:
            std = {"normal": 1.0, "kaiming_normal": math.sqrt(2 / width), "scaled_normal": math.sqrt(1 / width)}
            init.normal_(self.weight, std=std[self.distribution])

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """ids (B, L) -> embeddings (B, L, E)."""
        return super().forward(input_ids - self.id_offset if self.id_offset else input_ids)


class EmbeddingInput(nn.Module):
    """
    What enters a stack: scaled embeddings plus scaled absolute sinusoids, then dropout
    (models/transformer_enc_dec.py:62-66); with relative positions the embeddings pass without dropout, because the
    authors' dropout lives in the position module that relative variants replace by an identity.
    """

    def __init__(self, config):
        super().__init__()
        root = math.sqrt(config.hidden_size)
        self.is_absolute = config.position_scheme == "absolute"
        self.token_scale = root if config.embedding_scaling == "teu" else 1.0
        self.position_scale = 1 / root if config.embedding_scaling == "ped" else 1.0
        self.dropout = config.dropout

    def forward(self, embeddings: torch.Tensor, first_position: int | torch.Tensor = 0) -> torch.Tensor:
        """
        Args:
            embeddings: shape (B, L, E).
            first_position: absolute position of the first column, counted from 0.
        """
        hidden = embeddings * self.token_scale if self.token_scale != 1.0 else embeddings
        if not self.is_absolute:
            return hidden
        positions = torch.arange(hidden.shape[1], device=hidden.device) + first_position
        table = sinusoids(positions, hidden.shape[2]).to(hidden.dtype)  # (L, E)
        return dropout(hidden + table * self.position_scale, self.dropout, self.training)
