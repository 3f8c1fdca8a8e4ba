"""The layers of the convolutional encoder-decoder (Gehring et al. 2017), as fairseq's `fconv` builds them."""

# B batch, S source length, T target length, E width, K kernel width

import math

import torch
from torch import nn
from transformers import initialization as init
from transformers.cache_utils import Cache, EncoderDecoderCache
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .attention import eager_attention_forward
from .dropout import dropout
from .weight_norm import WeightNormConvolution, WeightNormLinear

HALF = math.sqrt(0.5)


class NarrowEmbedding(nn.Embedding):
    """A table that starts as N(0, 0.1^2) and covers ids `[id_offset, id_offset + num_embeddings)`."""

    def __init__(self, num_embeddings: int, width: int, id_offset: int = 0):
        super().__init__(num_embeddings, width)
        self.id_offset = id_offset

    def reset_weights(self):
        init.normal_(self.weight, std=0.1)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """ids (B, L) -> embeddings (B, L, E)."""
        return super().forward(input_ids - self.id_offset if self.id_offset else input_ids)


class LearnedPositionInput(nn.Module):
    """What enters a stack: embeddings plus learned positions, then dropout. Positions count real columns only."""

    def __init__(self, config):
        super().__init__()
        self.dropout = config.dropout
        self.table = NarrowEmbedding(config.max_position_embeddings, config.hidden_size)

    def forward(
        self, embeddings: torch.Tensor, real: torch.Tensor | None, first_column: int | torch.Tensor = 0
    ) -> torch.Tensor:
        """
        Args:
            embeddings: shape (B, L, E).
            real: shape (B, at least first_column + L), boolean, or None where all columns are real.
            first_column: how many columns of `real` came before.

        Raises:
            ValueError: more columns than the table has rows, unless only a GPU knows `first_column`.
        """
        length, rows = embeddings.shape[1], self.table.num_embeddings
        on_device = isinstance(first_column, torch.Tensor)
        is_known = not on_device or (first_column.is_cpu and not torch.compiler.is_compiling())
        # `int` would fix a size that is to be dynamic
        if is_known and (count := first_column + length) > rows:
            raise ValueError(
                f"{int(count)} positions are more than max_position_embeddings={rows}; shorten the input, "
                "or train with a larger max_position_embeddings"
            )
        columns = torch.arange(length, device=embeddings.device) + first_column
        positions = columns if real is None else (real.long().cumsum(1)[:, columns] - 1).clamp(min=0)
        return dropout(embeddings + self.table(positions), self.dropout, self.training)


class GatedConvolution(nn.Module):
    """(conv(dropout(x)) A half) * sigmoid(the B half), over K positions of which padding is read as zeros."""

    def __init__(self, config, kernel_size: int):
        super().__init__()
        self.dropout = config.dropout
        # gates lose half of the variance, and dropout will scale what is kept
        gain = 4 * (1 - config.dropout)
        self.convolution = WeightNormConvolution(config.hidden_size, 2 * config.hidden_size, kernel_size, gain)
        self.kernel_size = kernel_size

    def prepare(self, hidden: torch.Tensor, real: torch.Tensor | None) -> torch.Tensor:
        """What the kernel reads (B, L, E)."""
        hidden = dropout(hidden, self.dropout, self.training)
        return hidden if real is None else hidden.masked_fill(~real[..., None], 0.0)

    def forward(self, window: torch.Tensor) -> torch.Tensor:
        """(B, L + K - 1, E) -> (B, L, E)."""
        return nn.functional.glu(self.convolution(window), dim=-1)


class ConvEncoderLayer(GradientCheckpointingLayer):
    """x = (x + gated convolution of x) sqrt(1/2)."""

    def __init__(self, config):
        super().__init__()
        self.gated = GatedConvolution(config, config.kernel_size)

    def forward(self, hidden: torch.Tensor, real: torch.Tensor | None) -> torch.Tensor:
        """States (B, S, E), and which of them are real (B, S) or None -> (B, S, E)."""
        before = (self.gated.kernel_size - 1) // 2
        window = nn.functional.pad(
            self.gated.prepare(hidden, real), (0, 0, before, self.gated.kernel_size - 1 - before)
        )
        return (hidden + self.gated(window)) * HALF


class ConvAttention(nn.Module):
    """
    One head over the source: x = (x + W_out(mean)) sqrt(1/2), with queries (W_in x + embedding) sqrt(1/2) and the mean
    of values times the root of the source's length, which keeps its variance if weights are even.
    """

    is_causal = False

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.in_proj = WeightNormLinear(config.hidden_size, config.hidden_size)
        self.out_proj = WeightNormLinear(config.hidden_size, config.hidden_size)

    def forward(
        self,
        hidden: torch.Tensor,
        embedded: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        source_real: torch.Tensor | None,
        **kwargs,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """
        Args:
            hidden, embedded: states and what entered the stack, each (B, T, E).
            keys, values: shape (B, S, E); source_real (B, S), boolean, or None where all are real.

        Returns:
            output (B, T, E) and, with eager attention, weights (B, 1, T, S).
        """
        query = (self.in_proj(hidden) + embedded) * HALF
        mask, lengths = None, keys.new_tensor(keys.shape[1])
        if source_real is not None:
            mask = source_real[:, None, None].expand(-1, 1, query.shape[1], -1)
            lengths = source_real.sum(1)[:, None, None].to(keys.dtype)
        attention = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager_attention_forward)
        # autocast makes the query narrower than what it is compared with
        query, keys = query.to(values.dtype), keys.to(values.dtype)
        mean, weights = attention(
            self, query[:, None], keys[:, None], values[:, None], mask, scaling=1.0, dropout=0.0, **kwargs
        )
        return (self.out_proj(mean[:, :, 0] * lengths.sqrt()) + hidden) * HALF, weights


class ConvDecoderLayer(GradientCheckpointingLayer):
    """x = (x + attention(gated convolution of x and its past)) sqrt(1/2)."""

    def __init__(self, config):
        super().__init__()
        self.gated = GatedConvolution(config, config.decoder_kernel_size)
        self.cross_attn = ConvAttention(config)

    def window(self, read: torch.Tensor, cache: Cache | None, layer_idx: int, past: int | torch.Tensor) -> torch.Tensor:
        """The K - 1 positions before those that are read (B, T, E), and these; zeros before the first of all."""
        before = self.gated.kernel_size - 1
        if cache is None:
            return nn.functional.pad(read, (0, 0, before, 0))
        if isinstance(cache, EncoderDecoderCache):
            cache = cache.self_attention_cache
        cached, _ = cache.update(read[:, None], read[:, None, :, :0], layer_idx)  # (B, 1, positions, E)
        columns = torch.arange(read.shape[1] + before, device=read.device) + past - before
        return cached[:, 0, columns.clamp(min=0)].masked_fill((columns < 0)[:, None], 0.0)

    def forward(
        self,
        hidden: torch.Tensor,
        embedded: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        real: torch.Tensor | None,
        source_real: torch.Tensor | None,
        layer_idx: int,
        past: int | torch.Tensor = 0,
        cache: Cache | None = None,
        **kwargs,
    ) -> torch.Tensor:
        """
        Args:
            hidden: states (B, T, E); real (B, T), boolean, or None where all are real.
            embedded, keys, values, source_real: as in [`ConvAttention`].
            layer_idx: depth, the cache's slot, which holds what the kernel has read as keys, and no values.
            past: positions that are cached.
        """
        window = self.window(self.gated.prepare(hidden, real), cache, layer_idx, past)
        update, _ = self.cross_attn(self.gated(window), embedded, keys, values, source_real, **kwargs)
        return (hidden + update) * HALF
