"""Transformer layers, post-norm as in layers/transformer/transformer.py of Csordas et al. 2021, or pre-norm."""

# B batch, S source length, T target length, E model width, F feed-forward width

import math

import torch
from torch import nn
from transformers.cache_utils import Cache
from transformers.modeling_layers import GradientCheckpointingLayer

from .attention import CrossAttention, SelfAttention
from .dropout import dropout
from .linear import uniform_linear
from .relative_attention import RelativeSelfAttention

SELF_ATTENTION = {"absolute": SelfAttention, "relative": RelativeSelfAttention}


class FeedForward(nn.Module):
    """
    Linear, ReLU, dropout, Linear: (B, L, E) -> (B, L, E) through width F. Weights start Glorot-uniform, with gain
    sqrt(2) before the ReLU (transformer.py:37-40).
    """

    def __init__(self, config, is_decoder: bool = False):
        super().__init__()
        settings = config.stack_settings(is_decoder)
        width, inner = settings.hidden_size, settings.intermediate_size
        self.dropout = settings.activation_dropout
        bounds = self.weight_bounds(width, inner)
        self.fc1 = uniform_linear(width, inner, bounds[0])
        self.fc2 = uniform_linear(inner, width, bounds[1])

    def weight_bounds(self, width: int, inner: int) -> tuple[float, float]:
        bound = math.sqrt(6 / (width + inner))
        return math.sqrt(2) * bound, bound

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        hidden_states = nn.functional.relu(self.fc1(hidden_states))
        return self.fc2(dropout(hidden_states, self.dropout, self.training))


class GlorotFeedForward(FeedForward):
    """
    Identical to [`FeedForward`] except:

    - weights before the ReLU start without gain.
    """

    def weight_bounds(self, width: int, inner: int) -> tuple[float, float]:
        bound = math.sqrt(6 / (width + inner))
        return bound, bound


class EncoderLayer(GradientCheckpointingLayer):
    """
    x = LN(x + dropout(sub-layer(x))), or x = x + dropout(sub-layer(LN(x))) where the stack normalizes before, for
    self-attention, then the feed-forward block.
    """

    def __init__(self, config, is_decoder: bool = False):
        super().__init__()
        settings = config.stack_settings(is_decoder)
        self.dropout = settings.dropout
        self.normalize_before = settings.normalize_before
        self.self_attn = self.make_self_attention(config, is_decoder)
        # applied to the output of self-attention before the residual
        self.self_attn_gate = self.make_gate(config, is_decoder)
        self.self_attn_norm = self.make_norm(config, is_decoder)
        self.feed_forward = self.make_feed_forward(config, is_decoder)
        self.feed_forward_norm = self.make_norm(config, is_decoder)

    def make_self_attention(self, config, is_decoder: bool) -> nn.Module:
        return SELF_ATTENTION[config.position_scheme](config, is_decoder)

    def make_norm(self, config, is_decoder: bool) -> nn.Module:
        return nn.LayerNorm(config.stack_settings(is_decoder).hidden_size, config.layer_norm_eps)

    def make_gate(self, config, is_decoder: bool) -> nn.Module:
        return nn.Identity()

    def make_feed_forward(self, config, is_decoder: bool) -> nn.Module:
        return FeedForward(config, is_decoder)

    def branch(self, hidden_states: torch.Tensor, norm: nn.Module) -> torch.Tensor:
        """Input of a sub-layer: normalized under pre-norm."""
        return norm(hidden_states) if self.normalize_before else hidden_states

    def residual(self, hidden_states: torch.Tensor, update: torch.Tensor, norm: nn.Module) -> torch.Tensor:
        """States with a sub-layer's output added."""
        hidden_states = hidden_states + dropout(update, self.dropout, self.training)
        return hidden_states if self.normalize_before else norm(hidden_states)

    def attend_to_self(self, hidden_states: torch.Tensor, *args, **kwargs) -> torch.Tensor:
        read = self.branch(hidden_states, self.self_attn_norm)
        update, _ = self.self_attn(read, *args, **kwargs)
        return self.residual(hidden_states, self.self_attn_gate(update), self.self_attn_norm)

    def feed(self, hidden_states: torch.Tensor) -> torch.Tensor:
        update = self.feed_forward(self.branch(hidden_states, self.feed_forward_norm))
        return self.residual(hidden_states, update, self.feed_forward_norm)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None,
        position_keys: torch.Tensor | None,
        layer_idx: int,
        **kwargs,
    ) -> torch.Tensor:
        """hidden_states (B, S, E) -> (B, S, E); the other arguments as in [`SelfAttention`]."""
        hidden_states = self.attend_to_self(hidden_states, attention_mask, position_keys, layer_idx=layer_idx, **kwargs)
        return self.feed(hidden_states)


class DecoderLayer(EncoderLayer):
    """
    Identical to [`EncoderLayer`] except:

    - self-attention is causal.
    - cross-attention to the encoder's output stands between self-attention and the feed-forward block.
    """

    def __init__(self, config):
        super().__init__(config, is_decoder=True)
        self.cross_attn = self.make_cross_attention(config)
        self.cross_attn_norm = self.make_norm(config, True)

    def make_cross_attention(self, config) -> nn.Module:
        return CrossAttention(config)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None,
        position_keys: torch.Tensor | None,
        layer_idx: int,
        memory_keys: torch.Tensor,
        memory_values: torch.Tensor,
        memory_mask: torch.Tensor | None,
        cache: Cache | None = None,
        **kwargs,
    ) -> torch.Tensor:
        """
        hidden_states (B, T, E), keys and values from [`CrossAttention.project_memory`] -> (B, T, E).

        Keys and values are two arguments, not a pair: re-entrant checkpointing sees no tensor inside a tuple.
        """
        hidden_states = self.attend_to_self(hidden_states, attention_mask, position_keys, cache, layer_idx, **kwargs)
        read = self.branch(hidden_states, self.cross_attn_norm)
        update, _ = self.cross_attn(read, (memory_keys, memory_values), memory_mask, **kwargs)
        hidden_states = self.residual(hidden_states, update, self.cross_attn_norm)
        return self.feed(hidden_states)
