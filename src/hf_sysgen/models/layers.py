"""Post-norm Transformer layers (layers/transformer/transformer.py of Csordas et al. 2021)."""

# B batch, S source length, T target length, E model width, F feed-forward width

import math

import torch
from torch import nn
from transformers.cache_utils import Cache
from transformers.modeling_layers import GradientCheckpointingLayer

from .attention import CrossAttention, SelfAttention
from .dropout import dropout
from .linear import UniformLinear
from .relative_attention import RelativeSelfAttention

SELF_ATTENTION = {"absolute": SelfAttention, "relative": RelativeSelfAttention}


class FeedForward(nn.Module):
    """
    Linear, ReLU, dropout, Linear: (B, L, E) -> (B, L, E) through width F. Weights start Glorot-uniform, with gain
    sqrt(2) before the ReLU (transformer.py:37-40).
    """

    def __init__(self, config):
        super().__init__()
        self.dropout = config.dropout
        bound = math.sqrt(6 / (config.hidden_size + config.intermediate_size))
        self.fc1 = UniformLinear(config.hidden_size, config.intermediate_size, math.sqrt(2) * bound)
        self.fc2 = UniformLinear(config.intermediate_size, config.hidden_size, bound)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        hidden_states = nn.functional.relu(self.fc1(hidden_states))
        return self.fc2(dropout(hidden_states, self.dropout, self.training))


class EncoderLayer(GradientCheckpointingLayer):
    """x = LN(x + dropout(sub-layer(x))) for self-attention, then the feed-forward block."""

    def __init__(self, config, is_causal: bool = False):
        super().__init__()
        self.dropout = config.dropout
        self.self_attn = SELF_ATTENTION[config.position_scheme](config, is_causal)
        self.self_attn_norm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)

    def residual(self, hidden_states: torch.Tensor, update: torch.Tensor, norm: nn.LayerNorm) -> torch.Tensor:
        return norm(hidden_states + dropout(update, self.dropout, self.training))

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None,
        position_keys: torch.Tensor | None,
        layer_idx: int,
        **kwargs,
    ) -> torch.Tensor:
        """hidden_states (B, S, E) -> (B, S, E); the other arguments as in [`SelfAttention`]."""
        update, _ = self.self_attn(hidden_states, attention_mask, position_keys, layer_idx=layer_idx, **kwargs)
        hidden_states = self.residual(hidden_states, update, self.self_attn_norm)
        return self.residual(hidden_states, self.feed_forward(hidden_states), self.feed_forward_norm)


class DecoderLayer(EncoderLayer):
    """
    Identical to [`EncoderLayer`] except:
    - self-attention is causal.
    - cross-attention to the encoder's output stands between self-attention and the feed-forward block.
    """

    def __init__(self, config):
        super().__init__(config, is_causal=True)
        self.cross_attn = CrossAttention(config)
        self.cross_attn_norm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None,
        position_keys: torch.Tensor | None,
        layer_idx: int,
        memory_keys: torch.Tensor,
        memory_values: torch.Tensor,
        memory_mask: torch.Tensor | None,
        past_key_values: Cache | None = None,
        **kwargs,
    ) -> torch.Tensor:
        """
        hidden_states (B, T, E), keys and values from [`CrossAttention.project_memory`] -> (B, T, E).

        Keys and values are two arguments, not a pair: re-entrant checkpointing sees no tensor inside a tuple.
        """
        update, _ = self.self_attn(hidden_states, attention_mask, position_keys, past_key_values, layer_idx, **kwargs)
        hidden_states = self.residual(hidden_states, update, self.self_attn_norm)
        update, _ = self.cross_attn(hidden_states, (memory_keys, memory_values), memory_mask, **kwargs)
        hidden_states = self.residual(hidden_states, update, self.cross_attn_norm)
        return self.residual(hidden_states, self.feed_forward(hidden_states), self.feed_forward_norm)
