"""Multi-head attention with fused projections: self-attention and cross-attention."""

# B batch, Q query length, K key length, H heads, D head width, E = H * D model width

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from transformers.cache_utils import Cache, EncoderDecoderCache
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .dropout import dropout as apply_dropout
from .linear import uniform_linear

# float32 numbers in a vector of AVX-512, the widest one
VECTOR = 16


def eager_attention_forward(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    fully_masked: torch.Tensor | None = None,
    **kwargs,
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    softmax(query key^T * scaling + attention_mask) value, with the weights: ((B, Q, H, D), (B, H, Q, K)). Queries that
    are `fully_masked` (B, H, Q, 1) have weights of zero.
    """
    scores = torch.matmul(query * scaling, key.transpose(2, 3))  # (B, H, Q, K)
    scores = masked(scores, attention_mask)
    weights = softmax(scores)
    if fully_masked is not None:
        weights = weights.masked_fill(fully_masked, 0.0)
    weights = apply_dropout(weights.to(query.dtype), dropout, module.training)
    return torch.matmul(weights, value).transpose(1, 2), weights


def softmax(scores: torch.Tensor) -> torch.Tensor:
    """Softmax over keys, (B, H, Q, K), in float32 or wider."""
    keys, dtype = scores.shape[-1], torch.promote_types(scores.dtype, torch.float32)
    if scores.device.type == "cpu" and keys < VECTOR and not torch.compiler.is_compiling():
        # PyTorch's softmax takes 7 to 15 times as long per element if the keys do not fill a vector
        padded = nn.functional.pad(scores, (0, VECTOR - keys), value=-torch.inf)
        return nn.functional.softmax(padded, dim=-1, dtype=dtype)[..., :keys]
    return nn.functional.softmax(scores, dim=-1, dtype=dtype)


def masked(scores: torch.Tensor, attention_mask: torch.Tensor | None) -> torch.Tensor:
    """
    Apply an attention mask (additive, boolean with True = attend, or None) to scores, to a bias of the scores, or to
    another boolean mask, each (B, H, Q, K).
    """
    if attention_mask is None:
        return scores
    if scores.dtype == torch.bool:
        if attention_mask.dtype == torch.bool:
            return scores & attention_mask
        return torch.where(scores, attention_mask, torch.finfo(attention_mask.dtype).min)
    if attention_mask.dtype == torch.bool:
        return torch.where(attention_mask, scores, torch.finfo(scores.dtype).min)
    return scores + attention_mask


class MultiHeadAttention(nn.Module):
    """What self- and cross-attention share. No projection has a bias (multi_head_attention.py:25,89-91)."""

    is_causal = False

    def __init__(self, config, is_decoder: bool, memory_width: int | None = None):
        super().__init__()
        settings = config.stack_settings(is_decoder)
        self.config = config
        self.width = settings.hidden_size
        # width of the states that keys and values are made from
        self.memory_width = memory_width or self.width
        self.num_heads = settings.num_attention_heads
        self.head_dim = self.width // self.num_heads
        self.scaling = 1 / math.sqrt(settings.score_width)
        self.dropout = settings.attention_dropout
        self.o_proj = self.output_projection()

    def weight_bound(self) -> float:
        """Half-width of the uniform start of every projection: Glorot on the E x E blocks (:107-112)."""
        return math.sqrt(3 / self.width)

    def projection(self, parts: int = 1, in_features: int | None = None) -> nn.Linear:
        """(B, L, E or `in_features`) -> (B, L, parts * E)."""
        return uniform_linear(in_features or self.width, parts * self.width, self.weight_bound(), bias=False)

    def output_projection(self) -> nn.Linear:
        """All heads together (B, L, E) -> (B, L, E)."""
        return self.projection()

    def split_heads(self, projected: torch.Tensor, parts: int) -> tuple[torch.Tensor, ...]:
        """(B, L, parts * E) -> `parts` tensors (B, H, L, D)."""
        batch, length, _ = projected.shape
        split = projected.view(batch, length, parts, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        # this is one copy for all parts, instead of one for each inside every batched product
        return split.contiguous().unbind(0)

    def read(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        **kwargs,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """query (B, H, Q, D), key and value (B, H, K, D) -> means (B, Q, H, D), weights (B, H, Q, K) if eager."""
        attention: Callable = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager_attention_forward
        )
        dropout = self.dropout if self.training else 0.0
        return attention(self, query, key, value, attention_mask, scaling=self.scaling, dropout=dropout, **kwargs)

    def attend(self, *args, **kwargs) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Arguments of [`read`] -> output (B, Q, E), weights (B, H, Q, K) if eager."""
        output, weights = self.read(*args, **kwargs)
        return self.o_proj(output.flatten(2)), weights


class SelfAttention(MultiHeadAttention):
    """Attention of a sequence to itself; where positions count, a subclass says how."""

    def __init__(self, config, is_causal: bool):
        super().__init__(config, is_decoder=is_causal)
        self.is_causal = is_causal
        self.make_projections()

    @property
    def has_position_bias(self) -> bool:
        """Whether positions have an effect on the scores, see [`position_bias`]."""
        return type(self).position_bias is not SelfAttention.position_bias

    def make_projections(self):
        self.qkv_proj = self.projection(3)

    def project(self, hidden_states: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """States (B, Q, E) -> query, key and value (B, H, Q, D)."""
        return self.split_heads(self.qkv_proj(hidden_states), 3)

    def position_keys(
        self, hidden_states: torch.Tensor, key_length: int, first_position: int | torch.Tensor
    ) -> torch.Tensor | None:
        """
        Terms that depend only on positions and weights: computed once even if the layer is applied at several depths.

        Args:
            hidden_states: the queries' states (B, Q, E), for their length, dtype and device.
            key_length: K, cached keys included.
            first_position: position of the first query.
        """
        return None

    def position_keys_of(
        self, layers: Sequence[Any], hidden_states: torch.Tensor, key_length: int, first_position: int | torch.Tensor
    ) -> list[torch.Tensor | None]:
        """[`position_keys`] of the distinct layers of a stack, of which this is one; computes once what they share."""
        return [layer.position_keys(hidden_states, key_length, first_position) for layer in layers]

    def position_bias(
        self, query: torch.Tensor, position_keys: torch.Tensor | None, key_length: int
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """
        The query (B, H, Q, D) for the content scores, and the effect of positions on the scaled scores (B, H, Q, K): an
        additive bias, a boolean mask, or None.
        """
        return query, None

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        position_keys: torch.Tensor | None = None,
        cache: Cache | None = None,
        layer_idx: int = 0,
        **kwargs,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """
        Args:
            hidden_states: shape (B, Q, E).
            attention_mask: boolean (True = attend) or additive, broadcast to (B, H, Q, K).
            position_keys: from [`position_keys`], for the length of all keys, cached ones included.
            cache: holds the keys and values of earlier positions at `layer_idx`, and is extended.
            layer_idx: depth of this application; a shared layer has one cache slot for each.

        Returns:
            output (B, Q, E) and, with eager attention, weights (B, H, Q, K).
        """
        query, key, value = self.project(hidden_states)
        if cache is not None:
            if isinstance(cache, EncoderDecoderCache):
                cache = cache.self_attention_cache
            key, value = cache.update(key, value, layer_idx)
        query, bias = self.position_bias(query, position_keys, key.shape[2])
        if bias is not None:
            attention_mask = masked(bias, attention_mask)
        return self.attend(query, key, value, attention_mask, **kwargs)


class CrossAttention(MultiHeadAttention):
    """Attention to the encoder's output, without positions."""

    def __init__(self, config):
        super().__init__(config, is_decoder=True, memory_width=config.stack_settings(False).hidden_size)
        self.make_projections()

    def make_projections(self):
        self.q_proj = self.projection()
        self.kv_proj = self.projection(2, self.memory_width)

    def project_memory(self, memory: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Encoder output (B, K, its width) -> key and value (B, H, K, D), which every application reads."""
        return self.split_heads(self.kv_proj(memory), 2)

    def forward(
        self,
        hidden_states: torch.Tensor,
        memory: tuple[torch.Tensor, torch.Tensor],
        attention_mask: torch.Tensor | None = None,
        **kwargs,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """States (B, Q, E) and memory from [`project_memory`] -> output (B, Q, E), weights (B, H, Q, K) if eager."""
        (query,) = self.split_heads(self.q_proj(hidden_states), 1)
        return self.attend(query, *memory, attention_mask, **kwargs)
