"""The LSTM encoder-decoder with attention of Lake & Baroni 2018."""

# B batch, S source length, T target length, E units of a layer, N layers, V rows of the decoder table

import math

import torch
from torch import nn
from transformers.cache_utils import CacheLayerMixin, DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput, BaseModelOutputWithPastAndCrossAttentions
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .configuration_lstm_seq2seq import LstmSeq2SeqConfig
from .dropout import dropout
from .linear import uniform_linear
from .lstm import LstmDecoderStack, LstmLayer
from .positions import TokenEmbedding, real_columns
from .registry import register
from .seq2seq import Seq2SeqLM, Seq2SeqModel, Seq2SeqPreTrainedModel, Stack


class LstmPreTrainedModel(Seq2SeqPreTrainedModel):
    """Attention is computed in one way, whichever implementation is asked for."""

    config_class = LstmSeq2SeqConfig
    _no_split_modules = ["LstmLayer", "LstmDecoderStack"]  # noqa: RUF012

    embed = Stack.embed


class LstmEncoder(LstmPreTrainedModel):
    """Layers of [`LstmLayer`] from left to right."""

    main_input_name = "input_ids"
    _can_record_outputs = {"hidden_states": LstmLayer}  # noqa: RUF012

    def __init__(self, config: LstmSeq2SeqConfig):
        super().__init__(config)
        width = config.hidden_size
        self.embed_tokens = TokenEmbedding(config.source_vocab_size, width, "normal", config.source_id_offset)
        self.layers = nn.ModuleList([LstmLayer(width, width) for _ in range(config.encoder_layers)])
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
        """
        ids or embeddings of (B, S), mask (B, S) with 1 = real -> last_hidden_state (B, S, 2NE): hidden state and cell
        of the first layer, then of the next ones. The last column holds the states after the last real word.
        """
        hidden = dropout(self.embed(input_ids, inputs_embeds, kwargs), self.config.dropout, self.training)
        real = None if attention_mask is None else attention_mask.bool()
        states: list[torch.Tensor] = []
        for layer in self.layers:
            if states:
                hidden = dropout(hidden, self.config.dropout, self.training)
            hidden, cells = layer(hidden, real)
            states += [hidden, cells]
        return BaseModelOutput(last_hidden_state=torch.cat(states, dim=-1))


def last_state(layer: CacheLayerMixin, hidden: torch.Tensor, cells: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Hidden states and cells (B, N, E) of the last position that is cached; those given where there is none."""
    if layer.keys is None or layer.values is None:
        return hidden, cells
    length: int | torch.Tensor = layer.get_seq_length()
    if not isinstance(length, torch.Tensor):
        return (layer.keys[:, :, length - 1], layer.values[:, :, length - 1]) if length else (hidden, cells)
    # a static cache knows its length on the device only
    place = (length - 1).clamp(min=0).reshape(1)
    old_hidden, old_cells = (stored.index_select(2, place)[:, :, 0] for stored in (layer.keys, layer.values))
    return torch.where(length > 0, old_hidden, hidden), torch.where(length > 0, old_cells, cells)


class LstmDecoder(LstmPreTrainedModel):
    """[`LstmDecoderStack`] over the target, with attention to the encoder's last layer."""

    main_input_name = "input_ids"
    _can_record_outputs = {"cross_attentions": OutputRecorder(LstmDecoderStack, index=1)}  # noqa: RUF012

    def __init__(self, config: LstmSeq2SeqConfig):
        super().__init__(config)
        self.embed_tokens = TokenEmbedding(config.vocab_size, config.hidden_size, "normal")
        self.stack = LstmDecoderStack(config)
        self.gradient_checkpointing = False
        self.post_init()

    def memory(
        self, states: torch.Tensor, cache: EncoderDecoderCache | None
    ) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Attention's keys and values (B, S, E) from the encoder's last layer (B, S, E), or from the cache."""
        attention = self.stack.attention
        if attention is None:
            return None, None
        if cache is None:
            return attention.k_proj(states), states
        if not cache.is_updated.get(0):
            cache.cross_attention_cache.update(attention.k_proj(states)[:, None], states[:, None], 0)
            cache.is_updated[0] = True
        keys, values = (cache.cross_attention_cache.layers[0].keys, cache.cross_attention_cache.layers[0].values)
        return keys.squeeze(1), values.squeeze(1)

    @merge_with_config_defaults
    @capture_outputs(tie_last_hidden_states=False)
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        encoder_hidden_states: torch.Tensor | None = None,
        encoder_attention_mask: torch.Tensor | None = None,
        cache: EncoderDecoderCache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        use_cache: bool | None = None,
        output_hidden_states: bool | None = None,
        **kwargs,
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        """
        Args:
            input_ids, inputs_embeds: ids or embeddings of (B, T); with a cache, of the new positions only.
            attention_mask: shape (B, all positions so far), 1 = real.
            encoder_hidden_states: shape (B, S, 2NE), see [`LstmEncoder`]; its mask (B, S).
            cache: states after every earlier position, of all layers in one slot: hidden states as keys,
                cells as values. A step reads the last of them. Attention's slot holds the projected source.

        Returns:
            last_hidden_state (B, T, 2E), without attention (B, T, E).
        """
        if encoder_hidden_states is None:
            raise ValueError("the decoder needs encoder_hidden_states; call the whole model, or the encoder first")
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        hidden = dropout(self.embed(input_ids, inputs_embeds, kwargs), self.config.dropout, self.training)
        if use_cache and cache is None:
            cache = EncoderDecoderCache(DynamicCache(config=self.config), DynamicCache(config=self.config))
        encoded = encoder_hidden_states.unflatten(-1, (-1, 2, self.config.hidden_size))  # (B, S, N, 2, E)
        state = encoded[:, -1, :, 0], encoded[:, -1, :, 1]
        past: int | torch.Tensor = 0
        if cache is not None:
            past = cache.get_seq_length()
            slots = cache.self_attention_cache.layers
            if slots:
                state = last_state(slots[0], *state)
        real = None
        if attention_mask is not None:
            real = real_columns(attention_mask)[:, torch.arange(hidden.shape[1], device=hidden.device) + past]
        keys, values = self.memory(encoded[:, :, -1, 0], cache)
        source_real = None if encoder_attention_mask is None else encoder_attention_mask.bool()
        output, _, *states = self.stack(hidden, real, keys, values, source_real, *state)
        if cache is not None:
            cache.self_attention_cache.update(*states, 0)
        return BaseModelOutputWithPastAndCrossAttentions(
            last_hidden_state=output,
            cache=cache if use_cache else None,
            # recorded by hand, because the layers take turns
            hidden_states=(hidden, *states[0].unbind(1)) if output_hidden_states else None,
        )


@register
class LstmSeq2SeqModel(LstmPreTrainedModel, Seq2SeqModel):
    """LSTM encoder and decoder. Without a head."""

    encoder_class = LstmEncoder
    decoder_class = LstmDecoder


@register
class LstmSeq2SeqForConditionalGeneration(LstmPreTrainedModel, Seq2SeqLM):
    """LSTM encoder and decoder. With logits, loss and `generate`."""

    _tied_weights_keys = None
    model_class = LstmSeq2SeqModel

    def make_head(self, config) -> nn.Module:
        width = config.hidden_size * (2 if config.source_attention == "additive" else 1)
        return uniform_linear(width, config.vocab_size, 1 / math.sqrt(width))

    def training_input(self, labels: torch.Tensor, **source) -> torch.Tensor:
        """In training, the model's own words instead of the labels' for some rows; see `teacher_forcing`."""
        given = super().training_input(labels, **source)
        if not self.training or self.config.teacher_forcing == 1:
            return given
        is_taught = torch.rand(len(given), 1, device=given.device) < self.config.teacher_forcing
        if not torch.compiler.is_compiling() and is_taught.all():
            # the model's own words take longer than the rest of an update; with one example, often none are needed
            return given
        with torch.no_grad():
            own = self.predicted_input(given[:, :1], given.shape[1], **source)
        return torch.where(is_taught, given, own)

    def predicted_input(
        self,
        start: torch.Tensor,
        length: int,
        attention_mask: torch.Tensor | None = None,
        encoder_outputs: BaseModelOutput | tuple | None = None,
        **source,
    ) -> torch.Tensor:
        """The start (B, 1) and the most likely words after it (B, length), with the dropout of this mode."""
        if encoder_outputs is None:
            encoder_outputs = self.model.encoder(attention_mask=attention_mask, **source)
        cache = EncoderDecoderCache(DynamicCache(config=self.config), DynamicCache(config=self.config))
        words = [start]
        for _ in range(length - 1):
            logits = self(
                attention_mask=attention_mask,
                encoder_outputs=encoder_outputs,
                decoder_input_ids=words[-1],
                cache=cache,
                use_cache=True,
            ).logits
            words.append(logits[:, -1:].argmax(-1))
        return torch.cat(words, dim=1)


__all__ = ["LstmSeq2SeqForConditionalGeneration", "LstmSeq2SeqModel"]
