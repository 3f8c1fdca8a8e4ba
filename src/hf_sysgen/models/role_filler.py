"""Layers and stacks of two streams (Chakravarthy et al. 2022, section 3; models/tf_separate.py of their code)."""

# B batch, L length, S source, T target, Q queries, K keys, H heads, D head width, E = H * D width of one stream.
# a state of both streams is one tensor of width 2E: first the role, then the filler

import math

import torch
from torch import nn
from transformers import initialization as init

from .attention import CrossAttention, MultiHeadAttention, SelfAttention, masked, softmax
from .dropout import dropout
from .layers import DecoderLayer, EncoderLayer, GlorotFeedForward
from .linear import uniform_linear
from .positions import TokenEmbedding, sinusoids
from .relative_attention import RelativeSelfAttention
from .seq2seq import Decoder, Encoder, Seq2SeqModel, Stack


class Streams(nn.Module):
    """Two modules of the same kind, one for each stream: (B, L, 2E) -> (B, L, 2E)."""

    def __init__(self, role: nn.Module, filler: nn.Module):
        super().__init__()
        self.role = role
        self.filler = filler

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        roles, fillers = states.chunk(2, dim=-1)
        return torch.cat((self.role(roles), self.filler(fillers)), dim=-1)


class TwoStreamAttention(MultiHeadAttention):
    """
    Identical to [`MultiHeadAttention`] except:

    - queries and keys come from roles, values from fillers; with the same weights the roles read their projected keys
      and the fillers their values (equation 2), each with an output projection of its own (487-586).
    - projections have biases and start at PyTorch's Linear default.
    """

    def projection(self, parts: int = 1, in_features: int | None = None) -> nn.Linear:
        width = in_features or self.width
        return uniform_linear(width, parts * self.width, 1 / math.sqrt(width))

    def output_projection(self) -> nn.Module:
        return Streams(self.projection(), self.projection())

    def attend(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *args, **kwargs):
        """Arguments of [`read`] -> both streams (B, Q, 2E), weights (B, H, Q, K) if eager."""
        output, weights = self.read(query, key, torch.cat((key, value), dim=-1), *args, **kwargs)  # (B, Q, H, 2D)
        roles, fillers = output.chunk(2, dim=-1)
        return self.o_proj(torch.cat((roles.flatten(2), fillers.flatten(2)), dim=-1)), weights


class RoleFillerSelfAttention(TwoStreamAttention, SelfAttention):
    """Attention of both streams to themselves, by roles."""

    def make_projections(self):
        self.qk_proj = self.projection(2)
        self.v_proj = self.projection()

    def project(self, hidden_states: torch.Tensor) -> tuple[torch.Tensor, ...]:
        roles, fillers = hidden_states.chunk(2, dim=-1)
        return *self.split_heads(self.qk_proj(roles), 2), *self.split_heads(self.v_proj(fillers), 1)


class RelativeRoleFillerSelfAttention(RoleFillerSelfAttention, RelativeSelfAttention):
    """
    Identical to [`RoleFillerSelfAttention`] except:

    - scores see signed distances as in [`RelativeSelfAttention`].
    """


class RoleFillerCrossAttention(TwoStreamAttention, CrossAttention):
    """Attention from roles (B, Q, E) to both streams of the encoder's output, whose small weights may be dropped."""

    def __init__(self, config):
        super().__init__(config)
        self.threshold = config.attention_threshold
        self.each_row = config.renormalization == "each_row"

    def make_projections(self):
        self.q_proj = self.projection()
        self.k_proj = self.projection()
        self.v_proj = self.projection()

    def project_memory(self, memory: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Encoder output (B, K, 2E) -> key and value (B, H, K, D), which every application reads."""
        roles, fillers = memory.chunk(2, dim=-1)
        return *self.split_heads(self.k_proj(roles), 1), *self.split_heads(self.v_proj(fillers), 1)

    def read(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        **kwargs,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        if self.threshold is None:
            return super().read(query, key, value, attention_mask, **kwargs)
        # no fused kernel changes weights between softmax and values
        scores = masked(torch.matmul(query * self.scaling, key.transpose(2, 3)), attention_mask)  # (B, H, Q, K)
        weights = threshold(softmax(scores), self.threshold, self.each_row).to(value.dtype)
        weights = dropout(weights, self.dropout, self.training)
        return torch.matmul(weights, value).transpose(1, 2), weights


def threshold(weights: torch.Tensor, limit: float, each_row: bool) -> torch.Tensor:
    """
    Attention weights (B, H, Q, K) without those that are not larger than `limit`, divided by their new sums.

    Args:
        each_row: a row that has kept something is divided, whatever the others did; otherwise none of the batch is
            divided if any row has kept nothing.
    """
    kept = torch.where(weights > limit, weights, 0.0)
    sums = kept.sum(-1, keepdim=True)
    empty = sums == 0
    divided = kept / torch.where(empty, 1.0, sums)
    return divided if each_row else torch.where(empty.any(), kept, divided)


class RoleFillerLayer(EncoderLayer):
    """
    What both kinds of layers share. Identical to [`EncoderLayer`] and [`DecoderLayer`] except:

    - a LayerNorm stands before self-attention and one after each residual, whose sum takes the states as they came.
    - the feed-forward block reads what attention returned, not the sum (279-300). Its weights start without a gain
      (642-646).
    - the roles that self-attention read ask the encoder's output, before they are added (436-465).
    """

    def __init__(self, config):
        super().__init__(config)
        self.input_norm = self.make_norm(config, False)

    def make_self_attention(self, config, is_decoder: bool) -> nn.Module:
        relative = config.position_scheme == "relative"
        return (RelativeRoleFillerSelfAttention if relative else RoleFillerSelfAttention)(config, is_decoder)

    def make_cross_attention(self, config) -> nn.Module:
        return RoleFillerCrossAttention(config)

    def make_feed_forward(self, config, is_decoder: bool) -> nn.Module:
        return Streams(GlorotFeedForward(config, is_decoder), GlorotFeedForward(config, is_decoder))

    def make_norm(self, config, is_decoder: bool) -> nn.Module:
        width = config.stack_settings(is_decoder).hidden_size
        return Streams(*(nn.LayerNorm(width, config.layer_norm_eps) for _ in range(2)))

    def read_self(self, hidden_states: torch.Tensor, *args, **kwargs) -> tuple[torch.Tensor, torch.Tensor]:
        """States (B, L, 2E) -> norm(states + attention output), and the attention output."""
        update, _ = self.self_attn(self.input_norm(hidden_states), *args, **kwargs)
        update = dropout(update, self.dropout, self.training)
        return self.self_attn_norm(hidden_states + update), update

    def feed_from(self, hidden_states: torch.Tensor, update: torch.Tensor) -> torch.Tensor:
        """Adds the feed-forward block of `update`."""
        return self.residual(hidden_states, self.feed_forward(update), self.feed_forward_norm)


class RoleFillerEncoderLayer(RoleFillerLayer):
    """Self-attention of both streams, and a feed-forward block of what it read."""

    def forward(self, hidden_states, attention_mask, position_keys, layer_idx, **kwargs) -> torch.Tensor:
        """Arguments as in [`EncoderLayer`], states of both streams (B, S, 2E)."""
        hidden_states, update = self.read_self(
            hidden_states, attention_mask, position_keys, layer_idx=layer_idx, **kwargs
        )
        return self.feed_from(hidden_states, update)


class RoleFillerDecoderLayer(RoleFillerLayer, DecoderLayer):
    """Self-attention, attention to the source by the roles that it read, and a feed-forward block of the answer."""

    def forward(
        self,
        hidden_states,
        attention_mask,
        position_keys,
        layer_idx,
        memory_keys,
        memory_values,
        memory_mask,
        cache=None,
        **kwargs,
    ) -> torch.Tensor:
        """Arguments as in [`DecoderLayer`], states of both streams (B, T, 2E)."""
        hidden_states, update = self.read_self(hidden_states, attention_mask, position_keys, cache, layer_idx, **kwargs)
        roles, _ = update.chunk(2, dim=-1)
        update, _ = self.cross_attn(roles, (memory_keys, memory_values), memory_mask, **kwargs)
        update = dropout(update, self.dropout, self.training)
        return self.feed_from(self.cross_attn_norm(hidden_states + update), update)


class RoleGate(nn.Module):
    """roles * (W roles + b + 1), elementwise (98-147; not in the paper): (B, L, E) -> (B, L, E)."""

    def __init__(self, width: int):
        super().__init__()
        linear = nn.Linear(width, width)
        self.weight, self.bias = linear.weight, linear.bias

    def reset_weights(self):
        bound = 1 / math.sqrt(len(self.weight))
        init.normal_(self.weight, std=bound)
        init.uniform_(self.bias, -bound, bound)

    def forward(self, roles: torch.Tensor) -> torch.Tensor:
        return roles * (nn.functional.linear(roles, self.weight, self.bias) + 1)


class RoleFillerEmbeddingInput(nn.Module):
    """
    What enters a stack, of embeddings of both streams (B, L, 2E): both times sqrt(E); roles with sinusoids added where
    positions are absolute, gated, with dropout (98-147).
    """

    def __init__(self, config, is_decoder: bool = False):
        super().__init__()
        width = config.hidden_size
        self.scale = math.sqrt(width)
        self.is_absolute = config.position_scheme == "absolute"
        self.gate = RoleGate(width)
        self.dropout = config.dropout

    def forward(
        self,
        embeddings: torch.Tensor,
        first_position: int | torch.Tensor = 0,
        attention_mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Arguments as in [`EmbeddingInput`]."""
        roles, fillers = (embeddings * self.scale).chunk(2, dim=-1)
        if self.is_absolute:
            positions = torch.arange(roles.shape[1], device=roles.device) + first_position
            roles = roles + sinusoids(positions, roles.shape[2]).to(roles.dtype)
        roles = dropout(self.gate(roles), self.dropout, self.training)
        return torch.cat((roles, fillers.to(roles.dtype)), dim=-1)


class TwoStreamStack(Stack):
    """
    Identical to [`Stack`] except:

    - a second table embeds roles.
    """

    embed_roles: nn.Module
    # name of the role ids among the keywords of `forward`
    role_key: str

    def default_roles(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Roles of words that are given without."""
        raise NotImplementedError

    def embed(self, input_ids: torch.Tensor | None, inputs_embeds: torch.Tensor | None, inputs: dict) -> torch.Tensor:
        """
        Unscaled embeddings of both streams (B, L, 2E), from words and roles (B, L), or as they are given. Embeddings of
        words alone (B, L, E) need the roles beside them.
        """
        given = {key: inputs.pop(key, None) for key in ("role_ids", "decoder_role_ids")}[self.role_key]
        fillers = super().embed(input_ids, inputs_embeds, inputs)
        width = self.config.hidden_size
        if input_ids is None and fillers.shape[-1] == 2 * width:
            if given is not None:
                raise ValueError(f"{self.role_key} has no effect with embeddings of both streams; leave it out")
            return fillers
        if input_ids is None and (given is None or fillers.shape[-1] != width):
            raise ValueError(
                f"embeddings have {fillers.shape[-1]} numbers: give both streams, {2 * width}, or those of words, "
                f"{width}, and {self.role_key}"
            )
        roles = self.default_roles(input_ids) if given is None else given
        if roles.shape != fillers.shape[:2]:
            raise ValueError(f"{self.role_key} has shape {tuple(roles.shape)}, its words {tuple(fillers.shape[:2])}")
        streams = self.embed_roles(roles), fillers
        return torch.cat(streams[::-1] if self.config.swap_streams else streams, dim=-1)


class MappedEmbedding(TokenEmbedding):
    """
    Identical to [`TokenEmbedding`] except:

    - a map says which row an id has, by its distance from `id_offset`.
    """

    def __init__(self, row_map: list[int], *args):
        super().__init__(*args)
        self.by_id = row_map
        # the tensor is made once, because a CUDA graph cannot make it
        self.register_buffer("row_map", torch.tensor(row_map)[:, None], persistent=False)

    def reset_weights(self):
        super().reset_weights()
        # loading makes buffers without their values
        init.copy_(self.row_map, torch.tensor(self.by_id)[:, None])

    def rows(self, input_ids: torch.Tensor) -> torch.Tensor:
        """ids (B, L) -> rows (B, L)."""
        # unlike an index, this refuses ids below the first
        return nn.functional.embedding(input_ids - self.id_offset, self.row_map).squeeze(-1)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """ids (B, L) -> embeddings (B, L, E)."""
        return nn.Embedding.forward(self, self.rows(input_ids))


class RoleFillerEncoder(TwoStreamStack, Encoder):
    """[`Encoder`] of these layers; `role_ids` (B, S) name the roles, by default those of `config.source_role_map`."""

    layer_class = RoleFillerEncoderLayer
    input_class = RoleFillerEmbeddingInput
    role_key = "role_ids"

    def __init__(self, config):
        super().__init__(config)
        self.embed_roles = TokenEmbedding(config.source_role_vocab_size, config.hidden_size, "scaled_normal")
        self.post_init()

    def make_table(self, rows: int, width: int, distribution: str, id_offset: int, zero_id: int | None):
        if (row_map := self.config.source_row_map) is None:
            return super().make_table(rows, width, distribution, id_offset, zero_id)
        return MappedEmbedding(row_map, self.config.decoder_rows, width, distribution, id_offset)

    def default_roles(self, input_ids: torch.Tensor) -> torch.Tensor:
        words = input_ids - self.config.source_id_offset
        if self.config.source_role_map is not None:
            return torch.tensor(self.config.source_role_map, device=input_ids.device)[words]
        if self.config.role_map is not None:
            raise ValueError(
                "the source's words have roles of their own (config.role_map is set, config.source_role_map is not): "
                "give role_ids"
            )
        return words if self.config.source_row_map is None else self.embed_tokens.rows(input_ids)


class RoleFillerDecoder(TwoStreamStack, Decoder):
    """[`Decoder`] of these layers; `decoder_role_ids` (B, T) name the roles, by default those of `config.role_map`."""

    layer_class = RoleFillerDecoderLayer
    input_class = RoleFillerEmbeddingInput
    role_key = "decoder_role_ids"

    def __init__(self, config):
        super().__init__(config)
        self.embed_roles = TokenEmbedding(config.role_vocab_size, config.hidden_size, "scaled_normal")
        self.post_init()

    def default_roles(self, input_ids: torch.Tensor) -> torch.Tensor:
        if self.config.role_map is None:
            return input_ids
        return torch.tensor(self.config.role_map, device=input_ids.device)[input_ids]


class RoleFillerModel(Seq2SeqModel):
    """
    Identical to [`Seq2SeqModel`] except:

    - states are of two streams, and `role_ids` and `decoder_role_ids` name the roles of the words.
    - source and target share the gate of roles and, unless the config separates them, the tables.
    """

    encoder_class = RoleFillerEncoder
    decoder_class = RoleFillerDecoder

    def __init__(self, config):
        shared = ["embed_input.gate.weight", "embed_input.gate.bias"]
        if not config.separate_tables:
            shared += ["embed_tokens.weight", "embed_roles.weight"]
        self._tied_weights_keys = {f"encoder.{name}": f"decoder.{name}" for name in shared}
        super().__init__(config)

    def refuse_resizing(self):
        super().refuse_resizing()
        for name, values in (("role_map", "roles"), ("source_row_map", "rows")):
            if (given := getattr(self.config, name)) is not None:
                raise ValueError(
                    f"cannot resize: config.{name} names the {values} of {len(given)} words, not of others; build a "
                    "new model"
                )

    def resize_other_tables(self, rows: int, mean_resizing: bool):
        super().resize_other_tables(rows, mean_resizing)
        # words are roles
        for stack in (self.encoder, self.decoder):
            stack.embed_roles = self._get_resized_embeddings(stack.embed_roles, rows, mean_resizing=mean_resizing)
        self.config.role_vocab_size = self.config.source_role_vocab_size = rows
