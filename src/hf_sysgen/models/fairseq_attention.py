"""Attention of fairseq v0.10.2 (modules/multihead_attention.py) and its variants (Chaabouni et al. 2021, section 3)."""

# B batch, Q query length, K key length, H heads, D head width, E = H * D model width, s span, C kernel width

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from transformers import initialization as init
from transformers.cache_utils import Cache, EncoderDecoderCache

from .attention import CrossAttention, MultiHeadAttention, SelfAttention
from .linear import uniform_linear
from .positions import real_columns


class FairseqProjections(MultiHeadAttention):
    """
    Identical to [`MultiHeadAttention`] except:

    - every projection has a bias: PyTorch's default, and 0 for the output's.
    - projections start Glorot-uniform; queries, keys and values with gain 1/sqrt(2) where all are made of states of one
      width (:98-112).
    """

    def projection(self, parts: int = 1, in_features: int | None = None) -> nn.Linear:
        width = in_features or self.width
        gain = math.sqrt(0.5) if self.memory_width == self.width else 1.0
        return uniform_linear(width, parts * self.width, gain * math.sqrt(6 / (width + self.width)))

    def output_projection(self) -> nn.Module:
        return uniform_linear(self.width, self.width, math.sqrt(3 / self.width), zero_bias=True)


class FairseqSelfAttention(FairseqProjections, SelfAttention):
    """Attention of a sequence to itself."""


class FairseqCrossAttention(FairseqProjections, CrossAttention):
    """Attention to the encoder's output, whose width may be another."""


def signed_distances(queries: int, keys: int, first_position: int | torch.Tensor, device: torch.device) -> torch.Tensor:
    """Position of a key minus position of a query, (Q, K)."""
    positions = torch.arange(queries, device=device) + first_position
    return torch.arange(keys, device=device) - positions[:, None]


class PositionsWithoutWeights:
    """Self-attention whose `position_keys` are the same in all layers of a stack, and computed for one."""

    def position_keys_of(
        self, layers: Sequence[Any], hidden_states: torch.Tensor, key_length: int, first_position: int | torch.Tensor
    ) -> list[torch.Tensor]:
        """Arguments as in [`SelfAttention`]."""
        return [layers[0].position_keys(hidden_states, key_length, first_position)] * len(layers)


class FixedSpanSelfAttention(PositionsWithoutWeights, FairseqSelfAttention):
    """
    Identical to [`FairseqSelfAttention`] except:

    - query i sees keys i - s ... i + s, and of these the causal ones in the decoder.
    - a query that sees nothing, because its window is all padding, reads zeros.
    """

    def __init__(self, config, is_causal: bool):
        super().__init__(config, is_causal)
        self.span = config.attention_span

    def position_keys(
        self, hidden_states: torch.Tensor, key_length: int, first_position: int | torch.Tensor
    ) -> torch.Tensor:
        """Boolean (1, 1, Q, K), True = within the span."""
        distances = signed_distances(hidden_states.shape[1], key_length, first_position, hidden_states.device)
        return (distances.abs() <= self.span)[None, None]

    def position_bias(
        self, query: torch.Tensor, position_keys: torch.Tensor, key_length: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return query, position_keys

    def read(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor,
        **kwargs,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        allowed = attention_mask if attention_mask.dtype == torch.bool else attention_mask >= 0
        fully_masked = ~allowed.any(-1)[..., None]  # (B, 1, Q, 1)
        # fully masked queries see everything, so that no kernel divides by a sum of zero; what they read is dropped
        output, weights = super().read(query, key, value, allowed | fully_masked, fully_masked=fully_masked, **kwargs)
        # returned weights are already zero for fully masked queries
        return output if weights is not None else output.masked_fill(fully_masked.transpose(1, 2), 0.0), weights


class T5SelfAttention(PositionsWithoutWeights, FairseqSelfAttention):
    """
    Identical to [`FairseqSelfAttention`] except:

    - the score of query i and key j gains a number learned for the head and the distance j - i, which is clipped to
      [-s, s]. The decoder's columns of positive distances are never used, but are counted and stored.
    """

    def __init__(self, config, is_causal: bool):
        super().__init__(config, is_causal)
        self.span = config.attention_span
        self.bias_init = config.t5_bias_init
        self.distance_bias = nn.Parameter(torch.zeros(self.num_heads, 2 * self.span + 1))

    def reset_weights(self):
        if self.bias_init == "normal":
            init.normal_(self.distance_bias)
        else:
            init.zeros_(self.distance_bias)

    def position_keys(
        self, hidden_states: torch.Tensor, key_length: int, first_position: int | torch.Tensor
    ) -> torch.Tensor:
        """The column (Q, K) of the biases that each pair of a query and a key has."""
        distances = signed_distances(hidden_states.shape[1], key_length, first_position, hidden_states.device)
        return distances.clamp(-self.span, self.span) + self.span

    def position_bias(
        self, query: torch.Tensor, position_keys: torch.Tensor, key_length: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        # read here, because offloaded weights are there only during `forward`
        return query, self.distance_bias[:, position_keys][None].to(query.dtype)


class ConvolutionSelfAttention(PositionsWithoutWeights, nn.Module):
    """
    A convolution over positions in the place of self-attention: its arguments, its cache, no projections. Padding is
    read as zeros. Weights start as PyTorch's convolutions do, U(+-1/sqrt(fan-in)); the paper is silent.

    Args of the config: `attention_span`, `convolution_groups`, `causal_convolution`.
    """

    has_position_bias = False

    def __init__(self, config, is_causal: bool):
        super().__init__()
        settings = config.stack_settings(is_causal)
        width, span = settings.hidden_size, config.attention_span
        self.num_heads = settings.num_attention_heads
        self.before = 2 * span if is_causal and config.causal_convolution == "shifted" else span
        self.after = 0 if is_causal else span
        self.groups = width if config.convolution_groups == "depthwise" else 1
        self.weight = nn.Parameter(torch.zeros(width, width // self.groups, self.before + self.after + 1))
        self.bias = nn.Parameter(torch.zeros(width))

    def reset_weights(self):
        bound = 1 / math.sqrt(self.weight[0].numel())
        init.uniform_(self.weight, -bound, bound)
        init.uniform_(self.bias, -bound, bound)

    def position_keys(
        self, hidden_states: torch.Tensor, key_length: int, first_position: int | torch.Tensor
    ) -> torch.Tensor:
        """The positions from the first that the first query reads to the last that the last one does (Q + C - 1,)."""
        length = hidden_states.shape[1] + self.before + self.after
        return torch.arange(length, device=hidden_states.device) + first_position - self.before

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None,
        position_keys: torch.Tensor,
        cache: Cache | None = None,
        layer_idx: int = 0,
        **kwargs,
    ) -> tuple[torch.Tensor, None]:
        """
        Arguments as in [`SelfAttention`]; a cache holds the states that were read, cut into heads, and no values.

        Returns:
            output (B, Q, E), and no weights.
        """
        batch, _, width = hidden_states.shape
        if cache is not None:
            if isinstance(cache, EncoderDecoderCache):
                cache = cache.self_attention_cache
            heads = hidden_states.unflatten(2, (self.num_heads, -1)).transpose(1, 2)  # (B, H, Q, D)
            heads, _ = cache.update(heads, heads[..., :0], layer_idx)
            hidden_states = heads.transpose(1, 2).reshape(batch, -1, width)  # (B, K, E)
        last = hidden_states.shape[1] - 1
        there = (position_keys >= 0) & (position_keys <= last)
        columns = position_keys.clamp(0, last)
        real = there if attention_mask is None else there & real_columns(attention_mask)[:, columns]
        read = hidden_states[:, columns].masked_fill(~real[..., None], 0.0)  # (B, Q + C - 1, E)
        output = nn.functional.conv1d(read.transpose(1, 2), self.weight, self.bias, groups=self.groups)
        return output.transpose(1, 2), None
