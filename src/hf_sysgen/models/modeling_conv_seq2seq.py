"""The convolutional encoder-decoder of Gehring et al. 2017, the baseline of Dessi & Baroni 2019 on SCAN."""

# B batch, S source length, T target length, E width, V rows of the decoder table

import torch
from torch import nn
from transformers.cache_utils import Cache, DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput, BaseModelOutputWithPastAndCrossAttentions
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .configuration_conv_seq2seq import ConvSeq2SeqConfig
from .dropout import dropout
from .gated_convolution import (
    HALF,
    ConvAttention,
    ConvDecoderLayer,
    ConvEncoderLayer,
    LearnedPositionInput,
    NarrowEmbedding,
)
from .positions import real_columns
from .registry import register
from .seq2seq import Seq2SeqLM, Seq2SeqModel, Seq2SeqPreTrainedModel, Stack
from .weight_norm import WeightNormLinear


def scale_gradient(hidden: torch.Tensor, scale: float) -> torch.Tensor:
    """The same numbers, with a gradient times `scale`."""
    return hidden.detach() + (hidden - hidden.detach()) * scale


class ConvPreTrainedModel(Seq2SeqPreTrainedModel):
    """Initialization and capabilities."""

    config_class = ConvSeq2SeqConfig
    _no_split_modules = ["ConvEncoderLayer", "ConvDecoderLayer"]  # noqa: RUF012

    embed = Stack.embed


class ConvEncoder(ConvPreTrainedModel):
    """Embeddings with positions, a linear layer, gated convolutions, a linear layer."""

    main_input_name = "input_ids"
    _can_record_outputs = {"hidden_states": ConvEncoderLayer}  # noqa: RUF012

    def __init__(self, config: ConvSeq2SeqConfig):
        super().__init__(config)
        width = config.hidden_size
        self.embed_tokens = NarrowEmbedding(config.source_vocab_size, width, config.source_id_offset)
        self.embed_input = LearnedPositionInput(config)
        self.fc1 = WeightNormLinear(width, width, 1 - config.dropout)
        self.layers = nn.ModuleList([ConvEncoderLayer(config) for _ in range(config.encoder_layers)])
        self.fc2 = WeightNormLinear(width, width)
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
        ids or embeddings of (B, S), mask (B, S) with 1 = real -> last_hidden_state (B, S, 2E): what the decoder's
        attention compares with, then what it reads, to which the embeddings are added (Gehring et al., section 3.3).
        """
        real = None if attention_mask is None else attention_mask.bool()
        embedded = self.embed_input(self.embed(input_ids, inputs_embeds, kwargs), real)
        hidden = self.fc1(embedded)
        for layer in self.layers:
            hidden = layer(hidden, real)
        # every attention of the decoder adds to this gradient
        keys = scale_gradient(self.fc2(hidden), 1 / (2 * self.config.decoder_layers))
        values = (keys + embedded) * HALF
        return BaseModelOutput(last_hidden_state=torch.cat((keys.to(values.dtype), values), dim=-1))


class ConvDecoder(ConvPreTrainedModel):
    """As the encoder, with convolutions that see no later position and attention in every layer."""

    main_input_name = "input_ids"
    _can_record_outputs = {  # noqa: RUF012
        "hidden_states": ConvDecoderLayer,
        "cross_attentions": OutputRecorder(ConvAttention, index=1),
    }

    def __init__(self, config: ConvSeq2SeqConfig):
        super().__init__(config)
        width = config.hidden_size
        self.embed_tokens = NarrowEmbedding(config.vocab_size, width)
        self.embed_input = LearnedPositionInput(config)
        self.fc1 = WeightNormLinear(width, width, 1 - config.dropout)
        self.layers = nn.ModuleList([ConvDecoderLayer(config) for _ in range(config.decoder_layers)])
        self.fc2 = WeightNormLinear(width, width)
        self.gradient_checkpointing = False
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs(tie_last_hidden_states=False)
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        encoder_hidden_states: torch.Tensor | None = None,
        encoder_attention_mask: torch.Tensor | None = None,
        cache: Cache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        use_cache: bool | None = None,
        **kwargs,
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        """
        Args:
            input_ids, inputs_embeds: ids or embeddings of (B, T); with a cache, of the new positions only.
            attention_mask: shape (B, all positions so far), 1 = real.
            encoder_hidden_states: shape (B, S, 2E), see [`ConvEncoder`]; its mask (B, S).
            cache: what the kernels have read, with one slot for every layer; a step reads the last K - 1.
        """
        if encoder_hidden_states is None:
            raise ValueError("the decoder needs encoder_hidden_states; call the whole model, or the encoder first")
        hidden = self.embed(input_ids, inputs_embeds, kwargs)
        if use_cache and cache is None:
            cache = EncoderDecoderCache(DynamicCache(config=self.config), DynamicCache(config=self.config))
        past: int | torch.Tensor = 0
        if cache is not None:
            past = cache.get_seq_length()
            # a static cache moves its own count while layers are still to read it
            past = past.clone() if isinstance(past, torch.Tensor) else past
        real = None if attention_mask is None else real_columns(attention_mask)
        embedded = self.embed_input(hidden, real, past)
        if real is not None:
            real = real[:, torch.arange(hidden.shape[1], device=hidden.device) + past]
        source_real = None if encoder_attention_mask is None else encoder_attention_mask.bool()
        keys, values = encoder_hidden_states.chunk(2, dim=-1)
        hidden = self.fc1(embedded)
        for depth, layer in enumerate(self.layers):
            hidden = layer(
                hidden,
                embedded,
                keys,
                values,
                real,
                source_real,
                depth,
                past,
                cache=cache,
                **kwargs,
            )
        hidden = dropout(self.fc2(hidden), self.config.dropout, self.training)
        return BaseModelOutputWithPastAndCrossAttentions(last_hidden_state=hidden, cache=cache if use_cache else None)


@register
class ConvSeq2SeqModel(ConvPreTrainedModel, Seq2SeqModel):
    """Convolutional encoder and decoder. Without a head."""

    encoder_class = ConvEncoder
    decoder_class = ConvDecoder


@register
class ConvSeq2SeqForConditionalGeneration(ConvPreTrainedModel, Seq2SeqLM):
    """Convolutional encoder and decoder. With logits, loss and `generate`."""

    _tied_weights_keys = None
    model_class = ConvSeq2SeqModel

    def make_head(self, config) -> nn.Module:
        return WeightNormLinear(config.hidden_size, config.vocab_size, 1 - config.dropout)

    def _get_resized_lm_head(self, old_lm_head, new_num_tokens=None, transposed=False, mean_resizing=True):
        """The first rows of the old head; new ones are the mean of these, or fresh."""
        old = old_lm_head
        kept = min(len(old.bias), new_num_tokens)
        new = WeightNormLinear(old.direction.shape[1], new_num_tokens, old.gain).to(old.bias)
        new.reset_weights()
        with torch.no_grad():
            if mean_resizing:
                mean = old.weight.mean(0)
                new.direction.copy_(mean.expand_as(new.direction))
                new.length.copy_(new.norms())
                new.bias.fill_(old.bias.mean())
            for name in ("direction", "length", "bias"):
                getattr(new, name)[:kept] = getattr(old, name)[:kept]
        return new


__all__ = ["ConvSeq2SeqForConditionalGeneration", "ConvSeq2SeqModel"]
