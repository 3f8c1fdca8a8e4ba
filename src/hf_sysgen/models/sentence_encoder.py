"""Encoders of one sentence: a state for every word."""

# B batch, Q query length, K key length, N words, H heads, D head width, E = H * D model width, R largest distance

import math

import torch
from torch import nn
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from .attention import SelfAttention
from .dropout import dropout
from .layers import EncoderLayer, GlorotFeedForward
from .linear import uniform_linear
from .lstm import LstmLayer
from .positions import TokenEmbedding, sinusoids
from .seq2seq import Encoder, Seq2SeqPreTrainedModel, Stack


class ClippedDistances(nn.Embedding):
    """
    A vector (D,) and a number for every signed distance of a query from a key, clipped to +-R: row R + distance, the
    number in the last column. They start from U(+-0.05), Keras' default, which Ontañón et al. 2022 use.
    """

    def __init__(self, largest: int, width: int):
        super().__init__(2 * largest + 1, width + 1)
        self.largest = largest

    def reset_weights(self):
        init.uniform_(self.weight, -0.05, 0.05)

    def forward(self, query: torch.Tensor, key_length: int) -> torch.Tensor:
        """(..., Q, D) -> (..., Q, K): a query times the vector of its distance from each key, plus the number."""
        by_distance = query @ self.weight[:, :-1].T + self.weight[:, -1]  # (..., Q, 2R + 1)
        queries = torch.arange(query.shape[-2], device=query.device)
        distance = queries[:, None] - torch.arange(key_length, device=query.device)
        rows = self.largest + distance.clamp(-self.largest, self.largest)
        return by_distance.gather(-1, rows.expand(*by_distance.shape[:-1], key_length))


class BiasedSelfAttention(SelfAttention):
    """
    Identical to [`SelfAttention`] except:

    - projections have biases, 0 at the start.
    """

    def projection(self, parts: int = 1, in_features: int | None = None) -> nn.Linear:
        return uniform_linear(in_features or self.width, parts * self.width, self.weight_bound(), zero_bias=True)


class ClippedRelativeSelfAttention(BiasedSelfAttention):
    """
    Identical to [`BiasedSelfAttention`] except:

    - the score of query i and key j is `(q_i k_j + q_i r_{i-j} + b_{i-j}) / sqrt(D)`, with r and b of all heads from
      one [`ClippedDistances`] for each layer.
    """

    def __init__(self, config, is_causal: bool):
        super().__init__(config, is_causal)
        self.distances = ClippedDistances(config.max_relative_distance, self.head_dim)

    def position_bias(
        self, query: torch.Tensor, position_keys: None, key_length: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return query, self.distances(query, key_length) * self.scaling


class SentenceLayer(EncoderLayer):
    """[`EncoderLayer`] of these parts."""

    def make_self_attention(self, config, is_decoder: bool) -> nn.Module:
        if config.position_scheme == "absolute":
            return BiasedSelfAttention(config, is_decoder)
        return ClippedRelativeSelfAttention(config, is_decoder)

    def make_feed_forward(self, config, is_decoder: bool) -> nn.Module:
        return GlorotFeedForward(config, is_decoder)


class SentenceInput(nn.Module):
    """Embeddings times sqrt(d), plus sinusoids where positions are absolute, then dropout."""

    def __init__(self, config, is_decoder: bool = False):
        super().__init__()
        self.is_absolute = config.position_scheme == "absolute"
        self.token_scale = math.sqrt(config.hidden_size)
        self.dropout = config.dropout

    def forward(
        self, embeddings: torch.Tensor, first_position: int = 0, attention_mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """(B, N, E) -> (B, N, E); columns are counted from `first_position`, whether or not they are real."""
        hidden = embeddings * self.token_scale
        if self.is_absolute:
            positions = torch.arange(hidden.shape[1], device=hidden.device) + first_position
            hidden = hidden + sinusoids(positions, hidden.shape[2]).to(hidden.dtype)
        return dropout(hidden, self.dropout, self.training)


class SentenceTransformer(Encoder):
    """[`Encoder`] of these layers."""

    layer_class = SentenceLayer
    input_class = SentenceInput


class BiLstmLayer(nn.Module):
    """[`LstmLayer`] from left to right and another from right to left, beside each other: (B, N, E) -> (B, N, E)."""

    def __init__(self, width: int):
        super().__init__()
        self.forwards = LstmLayer(width, width // 2)
        self.backwards = LstmLayer(width, width // 2)

    def forward(self, hidden: torch.Tensor, real: torch.Tensor | None) -> torch.Tensor:
        """`real` (B, N), boolean: states pass padding unchanged, so that words at its edge start from zeros."""
        right, _ = self.forwards(hidden, real)
        left, _ = self.backwards(hidden.flip(1), None if real is None else real.flip(1))
        return torch.cat((right, left.flip(1)), dim=-1)


class BiLstmEncoder(Seq2SeqPreTrainedModel):
    """Layers of [`BiLstmLayer`], with dropout on what each reads and on what the last one says."""

    main_input_name = "input_ids"
    _no_split_modules = ["BiLstmLayer"]  # noqa: RUF012
    _can_record_outputs = {"hidden_states": BiLstmLayer}  # noqa: RUF012
    embed = Stack.embed

    def __init__(self, config):
        super().__init__(config)
        width = config.hidden_size
        self.embed_tokens = TokenEmbedding(config.vocab_size, width, "normal")
        self.layers = nn.ModuleList([BiLstmLayer(width) for _ in range(config.num_hidden_layers)])
        self.gradient_checkpointing = False
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs(tie_last_hidden_states=False)
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs,
    ) -> BaseModelOutput:
        """ids or embeddings of (B, N), mask (B, N) with 1 = real -> last_hidden_state (B, N, E)."""
        hidden = self.embed(input_ids, inputs_embeds, kwargs)
        real = None if attention_mask is None else attention_mask.bool()
        for layer in self.layers:
            hidden = layer(dropout(hidden, self.config.dropout, self.training), real)
        return BaseModelOutput(last_hidden_state=dropout(hidden, self.config.dropout, self.training))
