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


def halved_sinusoids(positions: torch.Tensor, width: int) -> torch.Tensor:
    """
    Sines on the first half of the channels, cosines on the second; channel m of each half turns at
    10000^(-m / (width / 2 - 1)) radians a position (fairseq v0.10.2, modules/sinusoidal_positional_embedding.py:36-58).

    Args:
        positions: integer positions of any shape (...).
        width: number of channels, even, at least 4.

    Returns:
        float32 tensor of shape (..., width).
    """
    half = width // 2
    steps = torch.arange(half, dtype=torch.float32, device=positions.device)
    angles = positions[..., None].to(torch.float32) * torch.exp(steps * -(math.log(10000.0) / (half - 1)))
    return torch.cat((angles.sin(), angles.cos()), dim=-1)


def real_columns(attention_mask: torch.Tensor) -> torch.Tensor:
    """
    Which key positions are real, boolean (B, K).

    Args:
        attention_mask: (B, K) with 1 = real, or (B, 1, Q, K), boolean or additive, whose last row sees all of them.
    """
    last = attention_mask[:, 0, -1] if attention_mask.dim() == 4 else attention_mask
    return last >= 0 if attention_mask.dim() == 4 and last.is_floating_point() else last.bool()


def reset_table(weight: torch.Tensor, distribution: str):
    """Set the initial values of a table (rows, width) of token embeddings."""
    rows, width = weight.shape
    if distribution == "glorot_uniform":
        bound = math.sqrt(6 / (rows + width))
        init.uniform_(weight, -bound, bound)
    else:
        std = {"normal": 1.0, "kaiming_normal": math.sqrt(2 / width), "scaled_normal": math.sqrt(1 / width)}
        init.normal_(weight, std=std[distribution])


class TokenEmbedding(nn.Embedding):
    """
    A table that covers token ids `[id_offset, id_offset + num_embeddings)`. The row of `zero_id` starts as zeros.

    Raises:
        IndexError: on CPU, for an id outside that range.
    """

    def __init__(
        self, num_embeddings: int, width: int, distribution: str, id_offset: int = 0, zero_id: int | None = None
    ):
        super().__init__(num_embeddings, width)
        self.distribution = distribution
        self.id_offset = id_offset
        self.zero_id = zero_id

    def reset_weights(self):
        reset_table(self.weight, self.distribution)
        # checked here, because a row does not know whether its table was loaded
        if self.zero_id is not None and not getattr(self.weight, "_is_hf_initialized", False):
            row = self.zero_id - self.id_offset
            if 0 <= row < len(self.weight):
                init.zeros_(self.weight[row])

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """ids (B, L) -> embeddings (B, L, E)."""
        return super().forward(input_ids - self.id_offset if self.id_offset else input_ids)


class EmbeddingInput(nn.Module):
    """
    What enters a stack: scaled embeddings plus scaled absolute sinusoids, then dropout
    (models/transformer_enc_dec.py:62-66); with relative positions the embeddings pass without dropout, because the
    authors' dropout lives in the position module that relative variants replace by an identity.
    """

    def __init__(self, config, is_decoder: bool = False):
        super().__init__()
        root = math.sqrt(config.hidden_size)
        self.is_absolute = config.position_scheme == "absolute"
        self.token_scale = root if config.embedding_scaling == "teu" else 1.0
        self.position_scale = 1 / root if config.embedding_scaling == "ped" else 1.0
        self.dropout = config.dropout

    def forward(
        self,
        embeddings: torch.Tensor,
        first_position: int | torch.Tensor = 0,
        attention_mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """
        Args:
            embeddings: shape (B, L, E).
            first_position: absolute position of the first column, counted from 0.
            attention_mask: ignored: positions count all columns, padding included.
        """
        hidden = embeddings * self.token_scale if self.token_scale != 1.0 else embeddings
        if not self.is_absolute:
            return hidden
        positions = torch.arange(hidden.shape[1], device=hidden.device) + first_position
        # scaled before it takes the states' type: the authors keep scaled rows, in float32
        table = sinusoids(positions, hidden.shape[2]) * self.position_scale  # (L, E)
        return dropout(hidden + table.to(hidden.dtype), self.dropout, self.training)


class CountedEmbeddingInput(nn.Module):
    """
    What enters a stack of fairseq's: embeddings times sqrt(d), plus sinusoids, then dropout. Positions count real
    tokens only, so that padding on either side changes nothing, and start at 2, because fairseq keeps 0 and 1 for
    padding; padding itself gets no position (transformer.py:374-378, utils.py:235-245 of v0.10.2).
    """

    def __init__(self, config, is_decoder: bool):
        super().__init__()
        settings = config.stack_settings(is_decoder)
        self.token_scale = math.sqrt(settings.hidden_size)
        self.dropout = settings.dropout

    def forward(
        self,
        embeddings: torch.Tensor,
        first_position: int | torch.Tensor = 0,
        attention_mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """
        Args:
            embeddings: shape (B, L, E).
            first_position: how many columns of `attention_mask` came before.
            attention_mask: shape (B, at least first_position + L), 1 = real, or the four-dimensional mask made of it;
                `None` means that all columns are real.
        """
        columns = torch.arange(embeddings.shape[1], device=embeddings.device) + first_position
        if attention_mask is None:
            positions = halved_sinusoids(columns + 2, embeddings.shape[2])
        else:
            real = real_columns(attention_mask)
            counted = real.long().cumsum(1)[:, columns] + 1
            positions = halved_sinusoids(counted, embeddings.shape[2]) * real[:, columns, None]
        return dropout(embeddings * self.token_scale + positions.to(embeddings.dtype), self.dropout, self.training)
