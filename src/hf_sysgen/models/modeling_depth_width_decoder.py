"""The causal decoders of Petty et al. 2023: depth traded for width at an equal number of parameters."""

# B batch, L length, Q query length, K key length, H heads, D head width, E = H * D model width, F feed-forward width,
# V words

import math
from collections.abc import Callable, Mapping

import torch
from torch import nn
from transformers import initialization as init
from transformers.cache_utils import Cache, DynamicCache
from transformers.masking_utils import create_causal_mask
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.utils import can_return_tuple
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from .attention import eager_attention_forward, masked
from .base import SysgenPreTrainedModel, accept_past_key_values
from .causal_positions import BucketedBias, apply_rotary, paged_positions, rotary_angles
from .chunked_loss import chunked_cross_entropy
from .configuration_depth_width_decoder import DepthWidthConfig
from .dropout import dropout
from .generation import SysgenGenerationMixin
from .linear import fan_in_linear
from .positions import TokenEmbedding
from .registry import register


class RMSNorm(nn.RMSNorm):
    """x / sqrt(mean(x^2) + eps) * weight over the last axis, in float32 or wider; the weight starts at 1."""

    def reset_weights(self):
        init.ones_(self.weight)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """(..., E) -> (..., E), in the dtype of the states."""
        weight = self.weight.to(hidden_states.dtype)
        return nn.functional.rms_norm(hidden_states, self.normalized_shape, weight, self.eps)


class DepthWidthAttention(nn.Module):
    """Causal multi-head attention without biases; scores are divided by sqrt(D)."""

    is_causal = True

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.head_dim = config.head_dim
        self.scaling = 1 / math.sqrt(self.head_dim)
        self.qkv_proj = fan_in_linear(config.hidden_size, 3 * config.hidden_size)
        self.o_proj = fan_in_linear(config.hidden_size, config.hidden_size)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        angles: torch.Tensor | None = None,
        cache: Cache | None = None,
        layer_idx: int = 0,
        **kwargs,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """
        Args:
            hidden_states: shape (B, Q, E).
            attention_mask: boolean (True = attend) or additive, broadcast to (B, H, Q, K), with biases by distance.
            angles: from [`rotary_angles`], for the queries' positions.
            cache: holds the keys and values of earlier positions at `layer_idx`, and is extended.
            layer_idx: depth of this application; a shared layer has one cache slot for each.

        Returns:
            output (B, Q, E) and, with eager attention, weights (B, H, Q, K).
        """
        qkv = self.qkv_proj(hidden_states).unflatten(-1, (3, -1, self.head_dim))  # (B, Q, 3, H, D)
        query, key, value = qkv.unbind(2)
        if angles is not None:
            query, key = apply_rotary(query, *angles), apply_rotary(key, *angles)
        query, key, value = (part.transpose(1, 2) for part in (query, key, value))  # (B, H, Q, D)
        implementation = self.config._attn_implementation
        if cache is not None:
            key, value = cache.update(key, value, layer_idx, kwargs=kwargs)
            # continuous batching: transformers' implementations would use one index for all depths
            implementation = implementation.removeprefix("paged|")
        attention: Callable = ALL_ATTENTION_FUNCTIONS.get_interface(implementation, eager_attention_forward)
        rate = self.config.dropout if self.training else 0.0
        output, weights = attention(
            self, query, key, value, attention_mask, scaling=self.scaling, dropout=rate, **kwargs
        )
        return self.o_proj(output.flatten(2)), weights


class GatedFeedForward(nn.Module):
    """(act(x W_gate) * x W_up) W_down: (B, L, E) -> (B, L, E) through width F, without biases (Shazeer 2020)."""

    def __init__(self, config):
        super().__init__()
        self.dropout = config.dropout
        self.act = {"gelu": nn.functional.gelu, "silu": nn.functional.silu}[config.hidden_act]
        self.gate_up_proj = fan_in_linear(config.hidden_size, 2 * config.intermediate_size)
        self.down_proj = fan_in_linear(config.intermediate_size, config.hidden_size)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        gate, up = self.gate_up_proj(hidden_states).chunk(2, dim=-1)
        return self.down_proj(dropout(self.act(gate) * up, self.dropout, self.training))


class DepthWidthLayer(GradientCheckpointingLayer):
    """x = x + dropout(sub-layer(RMSNorm(x))) for self-attention, then the feed-forward block."""

    def __init__(self, config):
        super().__init__()
        self.dropout = config.dropout
        self.self_attn_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = DepthWidthAttention(config)
        self.feed_forward_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.feed_forward = GatedFeedForward(config)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None,
        angles: torch.Tensor | None,
        layer_idx: int,
        **kwargs,
    ) -> torch.Tensor:
        """hidden_states (B, Q, E) -> (B, Q, E); the other arguments as in [`DepthWidthAttention`]."""
        update, _ = self.self_attn(
            self.self_attn_norm(hidden_states), attention_mask, angles, layer_idx=layer_idx, **kwargs
        )
        hidden_states = hidden_states + dropout(update, self.dropout, self.training)
        update = self.feed_forward(self.feed_forward_norm(hidden_states))
        return hidden_states + dropout(update, self.dropout, self.training)


class DepthWidthPreTrainedModel(SysgenPreTrainedModel):
    """Shared class attributes."""

    config_class = DepthWidthConfig
    _no_split_modules = ["DepthWidthLayer"]  # noqa: RUF012
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _can_record_outputs = {  # noqa: RUF012
        "hidden_states": DepthWidthLayer,
        "attentions": DepthWidthAttention,
    }


@register
class DepthWidthModel(DepthWidthPreTrainedModel):
    """Embeddings, then a layer at each depth, then RMSNorm; `layers` holds one module where depths share weights."""

    _keys_to_ignore_on_load_unexpected = [r"^lm_head\."]  # noqa: RUF012  a checkpoint of the model with its head

    def __init__(self, config: DepthWidthConfig):
        super().__init__(config)
        # a tied table also makes the logits, whose variance starts at 1
        start = "scaled_normal" if config.tie_word_embeddings else "normal"
        self.embed_tokens = TokenEmbedding(config.vocab_size, config.hidden_size, start)
        self.relative_bias = BucketedBias(config) if config.position_scheme == "relative_bias" else None
        self.layers = nn.ModuleList([DepthWidthLayer(config) for _ in range(config.distinct_layers)])
        self.final_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.gradient_checkpointing = False
        self.post_init()

    def positions(
        self,
        hidden_states: torch.Tensor,
        key_length: int,
        first_position: int | torch.Tensor,
        position_ids: torch.Tensor | None = None,
        first_keys: Mapping[str, torch.Tensor] | None = None,
    ) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """
        Angles for rotary positions, or biases (B, H, Q, K); the other is None.

        Args:
            key_length, first_position: K, and the column of the first query.
            position_ids: (B, Q), where queries do not stand in their columns.
            first_keys: see [`paged_positions`], where the keys are of several texts.
        """
        device = hidden_states.device
        columns = torch.arange(hidden_states.shape[1], device=device) + first_position
        queries = columns if position_ids is None else position_ids
        if self.relative_bias is None:
            return rotary_angles(queries, self.config.head_dim, self.config.rotary_base, like=hidden_states), None
        if any(name in self.config._attn_implementation for name in ("flash", "flex")):
            raise ValueError(
                f"attn_implementation={self.config._attn_implementation!r} adds no biases to scores, but "
                "position_scheme='relative_bias' needs them; use 'sdpa'"
            )
        if first_keys is not None:
            keys = paged_positions(first_keys["full_attention"], key_length)[None]
        elif position_ids is None or key_length != hidden_states.shape[1]:
            # only the columns of cached keys are known; their distances are the same
            queries, keys = columns, torch.arange(key_length, device=device)
        else:
            keys = position_ids
        return None, self.relative_bias(queries, keys).to(hidden_states.dtype)

    @accept_past_key_values
    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        cache: Cache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        use_cache: bool | None = None,
        **kwargs,
    ) -> BaseModelOutputWithPast:
        """
        Args:
            input_ids, inputs_embeds: ids or embeddings of (B, L), exactly one of them; with a cache, of the new
                positions only.
            attention_mask: shape (B, all positions so far), 1 = real. Padding may be on either side: only distances
                between positions count.
            cache: of earlier positions, with one slot for every depth.
            position_ids: a keyword, (B, L): positions of the tokens, by default 0, 1, 2, ... Without mask and cache, a
                new document starts wherever positions do not increase by one, and attention does not cross that point
                (packed rows). It is not in the signature, because `generate` would then recompute positions for each
                row, which changes no distance.

        Returns:
            last_hidden_state (B, L, E) and what was asked for.

        Raises:
            ValueError: if neither or both of ids and embeddings are given.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give exactly one of token ids and embeddings")
        hidden_states = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        position_ids = kwargs.get("position_ids")
        # continuous batching has a cache of its own
        paged = cache is not None and not isinstance(cache, Cache)
        past, key_length = 0, hidden_states.shape[1]
        if isinstance(cache, Cache):
            past = cache.get_seq_length()
            key_length, _ = cache.get_mask_sizes(key_length, 0)
        elif paged and attention_mask is not None:
            key_length = attention_mask.shape[-1]

        mask = create_causal_mask(
            config=self.config,
            inputs_embeds=hidden_states,
            attention_mask=attention_mask,
            cache=None if paged else cache,
            position_ids=position_ids,
            # scores that carry a bias need the causal mask in the same additive term
            allow_is_causal_skip=self.relative_bias is None,
        )
        first_keys = kwargs["cu_seq_lens_k"] if paged else None
        angles, bias = self.positions(hidden_states, key_length, past, position_ids, first_keys)
        if bias is not None:
            mask = masked(bias, mask)
        # after the mask, which separates documents only where there is no cache
        if use_cache and cache is None:
            cache = DynamicCache(config=self.config)
        hidden_states = dropout(hidden_states, self.config.dropout, self.training)
        for depth in range(self.config.num_hidden_layers):
            layer = self.layers[depth % len(self.layers)]
            hidden_states = layer(hidden_states, mask, angles, depth, cache=cache, **kwargs)
        hidden_states = dropout(self.final_norm(hidden_states), self.config.dropout, self.training)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states, cache=cache if use_cache else None)


@register
class DepthWidthForCausalLM(DepthWidthPreTrainedModel, SysgenGenerationMixin):
    """[`DepthWidthModel`] with logits, a loss that never holds all of them, and `generate`."""

    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}  # noqa: RUF012
    # the loss divides by `num_items_in_batch`, so that accumulated and sharded batches have one loss
    accepts_loss_kwargs = True

    def __init__(self, config: DepthWidthConfig):
        super().__init__(config)
        self.model = DepthWidthModel(config)
        self.lm_head = fan_in_linear(config.hidden_size, config.vocab_size)
        self.post_init()

    @property
    def head_is_plain(self) -> bool:
        """Whether the head is its weight and nothing else: no adapter in its place, no hooks but those that shard."""
        head = self.lm_head
        # accelerate's own forward only brings weights and states together
        replaced = "forward" in vars(head) and not hasattr(head, "_hf_hook")
        if replaced or type(head).forward is not nn.Linear.forward:
            return False
        hooks = (*head._forward_pre_hooks.values(), *head._forward_hooks.values())
        return all(str(getattr(hook, "__module__", "")).startswith("torch.distributed.") for hook in hooks)

    def summed_loss(self, hidden_states: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Cross-entropy in nats of states (B, L, E), summed over the words (B, L) that are not -100."""
        if not self.head_is_plain or self.lm_head.weight.is_meta:
            # an offloaded weight is there only while the layer is called
            scores = self.lm_head(hidden_states).flatten(0, 1)
            scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
            return nn.functional.cross_entropy(scores, targets.flatten().to(scores.device), reduction="sum")
        weight = self.lm_head.weight
        return chunked_cross_entropy(hidden_states.to(weight.device), weight, targets.to(weight.device))

    @accept_past_key_values
    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        cache: Cache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.LongTensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | torch.Tensor = 0,
        skip_logits: bool | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        **kwargs,
    ) -> CausalLMOutputWithPast:
        """
        Arguments as in [`DepthWidthModel`], and:

        Args:
            labels: ids (B, L), usually the input's; position i learns the label of i + 1, -100 where nothing is to be
                learned.
            logits_to_keep: only the last so many positions get logits, or those of this index; 0 for all.
            skip_logits: return no logits; `None` means where labels are given in training, as the loss needs none.
            shift_labels: in the place of `labels`, ids that are moved already: position i learns its own. Among the
                keywords, because the Trainer takes every `label` in the signature for one that each batch has.
            num_items_in_batch: number of labels that count in the whole batch, of which this may be a part;
                `None` means those here.

        Returns:
            logits (B, L, V) unless skipped and, with labels, loss: cross-entropy summed over labels, divided by their
            number (nats per token).
        """
        shift_labels = kwargs.pop("shift_labels", None)
        if shift_labels is None and labels is not None:
            # labels are moved, not states: those are larger
            shift_labels = nn.functional.pad(labels[:, 1:], (0, 1), value=-100)
        if shift_labels is not None:
            use_cache = False
        outputs = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            cache=cache,
            inputs_embeds=inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        hidden_states = outputs.last_hidden_state
        loss = logits = None
        if shift_labels is not None:
            loss = self.summed_loss(hidden_states, shift_labels)
            count = (shift_labels != -100).sum() if num_items_in_batch is None else num_items_in_batch
            loss = loss / torch.as_tensor(count, device=loss.device)
        if skip_logits is None:
            skip_logits = self.training and loss is not None
        if not skip_logits:
            kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
            logits = self.lm_head(hidden_states[:, kept])
        return CausalLMOutputWithPast(
            loss=loss,
            logits=logits,
            cache=outputs.cache,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )


__all__ = ["DepthWidthForCausalLM", "DepthWidthModel"]
