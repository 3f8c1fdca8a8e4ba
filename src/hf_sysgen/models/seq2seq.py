"""The encoder-decoder wrapper: stacks, loss, caches and generation. A variant replaces parts, never `forward`."""

# B batch, S source length, T target length, E model width, V rows of the decoder table

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from transformers import initialization as init
from transformers.cache_utils import Cache, DynamicCache, EncoderDecoderCache
from transformers.masking_utils import create_bidirectional_mask, create_causal_mask
from transformers.modeling_outputs import (
    BaseModelOutput,
    BaseModelOutputWithPastAndCrossAttentions,
    Seq2SeqLMOutput,
    Seq2SeqModelOutput,
)
from transformers.utils import can_return_tuple
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .attention import CrossAttention, SelfAttention
from .base import SysgenPreTrainedModel, accept_past_key_values
from .generation import SysgenGenerationMixin
from .layers import DecoderLayer, EncoderLayer
from .linear import linear
from .positions import EmbeddingInput, TokenEmbedding, reset_table

# what the encoder reads, by its names in `forward`
SOURCE_INPUTS = ("input_ids", "attention_mask", "encoder_outputs", "inputs_embeds")


def shift_right(labels: torch.Tensor, start_id: int, pad_id: int) -> torch.Tensor:
    """Decoder input for teacher forcing: `start_id`, then all labels (B, T) but the last; -100 becomes `pad_id`."""
    shifted = labels.roll(1, dims=-1).masked_fill(labels.roll(1, dims=-1) == -100, pad_id)
    shifted[:, 0] = start_id
    return shifted


class ShiftedLabels:
    """Decoder input from labels (teacher forcing)."""

    config: Any

    def check_labels(self, labels: torch.Tensor) -> None:
        """
        Check that the target vocabulary has every id. Only on a CPU and not while compiling, because it costs time.

        Raises:
            ValueError: an id is outside the vocabulary.
        """
        if labels.device.type != "cpu" or torch.compiler.is_compiling() or not labels.numel():
            return
        size = self.config.vocab_size
        if (highest := int(labels.max())) >= size:
            raise ValueError(
                f"labels contain the id {highest}, but the decoder has only {size} ids: labels are the target's words "
                "and EOS, without the start symbol that text_target adds; use "
                "tokenizer(target, add_special_tokens=False).input_ids + [tokenizer.eos_token_id]"
            )

    def prepare_decoder_input_ids_from_labels(self, labels: torch.Tensor) -> torch.Tensor:
        self.check_labels(labels)
        return shift_right(labels, self.config.decoder_start_token_id, self.config.pad_token_id)

    def training_input(self, labels: torch.Tensor, **source) -> torch.Tensor:
        """Decoder input for labels (B, T), with the [`SOURCE_INPUTS`] that the encoder reads."""
        return self.prepare_decoder_input_ids_from_labels(labels)


def token_loss(
    logits: torch.Tensor, labels: torch.Tensor, num_items_in_batch: torch.Tensor | int | None = None
) -> torch.Tensor:
    """
    Cross-entropy of logits (B, T, V), summed over the labels (B, T) that are not -100, and divided by their number or,
    with gradient accumulation, by the number in the whole batch.
    """
    reduction = "mean" if num_items_in_batch is None else "sum"
    scores = logits.flatten(0, 1).to(torch.promote_types(logits.dtype, torch.float32))
    loss = nn.functional.cross_entropy(scores, labels.flatten().to(logits.device), reduction=reduction)
    if num_items_in_batch is not None:
        loss = loss / torch.as_tensor(num_items_in_batch, device=loss.device)
    return loss


class Seq2SeqPreTrainedModel(SysgenPreTrainedModel):
    """Shared class attributes."""

    _no_split_modules = [  # noqa: RUF012
        "EncoderLayer", "DecoderLayer", "FairseqEncoderLayer", "FairseqDecoderLayer",
        "RoleFillerEncoderLayer", "RoleFillerDecoderLayer", "TorchEncoderLayer", "TorchDecoderLayer",
    ]  # fmt: skip
    _supports_sdpa = True


class Stack(Seq2SeqPreTrainedModel):
    """
    Embeddings, then a layer at each depth: `layers` holds one module where depths share their weights, so that
    nothing is stored twice, and what a layer computes from weights alone is computed once.
    """

    layer_class: type[nn.Module]
    input_class: type[nn.Module] = EmbeddingInput

    def __init__(self, config, is_decoder: bool, depth: int, rows: int, id_offset: int = 0):
        super().__init__(config)
        settings = config.stack_settings(is_decoder)
        self.embed_tokens = self.make_table(
            rows, settings.hidden_size, settings.embedding_init, id_offset, settings.zero_id
        )
        self.embed_input = self.input_class(config, is_decoder)
        self.depth = depth
        self.layers = nn.ModuleList([self.layer_class(config) for _ in range(1 if config.share_layers else depth)])
        self.final_norm = (
            nn.LayerNorm(settings.hidden_size, config.layer_norm_eps) if settings.final_norm else nn.Identity()
        )
        self.gradient_checkpointing = False
        self.post_init()

    def make_table(self, *args) -> TokenEmbedding:
        """The table of words, from the arguments of [`TokenEmbedding`]."""
        return TokenEmbedding(*args)

    def embed(self, input_ids: torch.Tensor | None, inputs_embeds: torch.Tensor | None, inputs: dict) -> torch.Tensor:
        """
        Unscaled embeddings (B, L, E) from exactly one of ids (B, L) and embeddings. A stack that reads more takes it
        out of `inputs`, the other keywords of `forward`.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give exactly one of token ids and embeddings")
        return self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds

    def position_keys(self, hidden_states: torch.Tensor, key_length: int, first_position: int | torch.Tensor) -> list:
        """What self-attention of each distinct layer knows of positions; arguments as in [`SelfAttention`]."""
        attentions = [layer.self_attn for layer in self.layers]
        return attentions[0].position_keys_of(attentions, hidden_states, key_length, first_position)

    def layer_at(self, depth: int) -> tuple[nn.Module, int]:
        """The layer applied at `depth`, and its index among the distinct layers."""
        index = depth % len(self.layers)
        return self.layers[index], index


class Encoder(Stack):
    """Bidirectional stack over the source."""

    main_input_name = "input_ids"
    _can_record_outputs = {  # noqa: RUF012
        "hidden_states": EncoderLayer,
        "attentions": OutputRecorder(SelfAttention, index=1, layer_name="self_attn"),
    }

    layer_class = EncoderLayer

    def __init__(self, config):
        super().__init__(config, False, config.encoder_layers, config.source_vocab_size, config.source_id_offset)

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs,
    ) -> BaseModelOutput:
        """ids or unscaled embeddings of (B, S), mask (B, S) with 1 = real -> last_hidden_state (B, S, E)."""
        hidden_states = self.embed_input(self.embed(input_ids, inputs_embeds, kwargs), 0, attention_mask)
        mask = create_bidirectional_mask(config=self.config, inputs_embeds=hidden_states, attention_mask=attention_mask)
        length = hidden_states.shape[1]
        position_keys = self.position_keys(hidden_states, length, 0)
        for depth in range(self.depth):
            layer, index = self.layer_at(depth)
            hidden_states = layer(hidden_states, mask, position_keys[index], depth, **kwargs)
        return BaseModelOutput(last_hidden_state=self.final_norm(hidden_states))


class Decoder(Stack):
    """Causal stack over the target, with attention to the encoder's output."""

    main_input_name = "input_ids"
    _can_record_outputs = {  # noqa: RUF012
        "hidden_states": DecoderLayer,
        "attentions": OutputRecorder(SelfAttention, index=1, layer_name="self_attn"),
        "cross_attentions": OutputRecorder(CrossAttention, index=1, layer_name="cross_attn"),
    }

    layer_class = DecoderLayer

    def __init__(self, config):
        super().__init__(config, True, config.decoder_layers, config.decoder_rows)

    def project_memory(self, memory: torch.Tensor, cache: Cache | None) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Keys and values of the encoder's output for each distinct layer, from the cache where it has them."""
        caching = isinstance(cache, EncoderDecoderCache)
        projected = []
        for index, layer in enumerate(self.layers):
            if caching and cache.is_updated.get(index):
                cached = cache.cross_attention_cache.layers[index]
                projected.append((cached.keys, cached.values))
                continue
            keys_values = layer.cross_attn.project_memory(memory)
            if caching:
                keys_values = cache.cross_attention_cache.update(*keys_values, index)
                cache.is_updated[index] = True
            projected.append(keys_values)
        return projected

    @merge_with_config_defaults
    @capture_outputs
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
            input_ids, inputs_embeds: ids or unscaled embeddings of (B, T); with a cache, of the new positions only.
            attention_mask: shape (B, all positions so far), 1 = real.
            encoder_hidden_states: shape (B, S, E); its mask (B, S).
            cache: of earlier positions; self-attention has one slot for every depth,
                cross-attention one for every distinct layer.
        """
        if encoder_hidden_states is None:
            raise ValueError("the decoder needs encoder_hidden_states; call the whole model, or the encoder first")
        embeddings = self.embed(input_ids, inputs_embeds, kwargs)
        if use_cache and cache is None:
            cache = EncoderDecoderCache(DynamicCache(config=self.config), DynamicCache(config=self.config))
        length = embeddings.shape[1]
        past, key_length = 0, length
        if cache is not None:
            past = cache.get_seq_length()
            key_length, _ = cache.get_mask_sizes(length, 0)

        hidden_states = self.embed_input(embeddings, past, attention_mask)
        position_keys = self.position_keys(hidden_states, key_length, past)
        mask = create_causal_mask(
            config=self.config,
            inputs_embeds=hidden_states,
            attention_mask=attention_mask,
            cache=cache,
            # scores that carry a bias need the causal mask in the same additive term
            allow_is_causal_skip=not self.layers[0].self_attn.has_position_bias,
        )
        memory_mask = create_bidirectional_mask(
            config=self.config,
            inputs_embeds=hidden_states,
            attention_mask=encoder_attention_mask,
            encoder_hidden_states=encoder_hidden_states,
        )
        memory = self.project_memory(encoder_hidden_states, cache)
        for depth in range(self.depth):
            layer, index = self.layer_at(depth)
            hidden_states = layer(
                hidden_states, mask, position_keys[index], depth, *memory[index], memory_mask, cache, **kwargs
            )
        return BaseModelOutputWithPastAndCrossAttentions(
            last_hidden_state=self.final_norm(hidden_states), cache=cache if use_cache else None
        )


class Seq2SeqModel(Seq2SeqPreTrainedModel):
    """Encoder and decoder without a head; each has its own table of embeddings."""

    _keys_to_ignore_on_load_unexpected = [r"^lm_head\."]  # noqa: RUF012  a checkpoint of the model with its head
    encoder_class: type[Stack] = Encoder
    decoder_class: type[Stack] = Decoder

    def __init__(self, config):
        super().__init__(config)
        self.encoder = self.encoder_class(config)
        self.decoder = self.decoder_class(config)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.encoder.embed_tokens

    def set_input_embeddings(self, value: nn.Module):
        self.encoder.embed_tokens = value

    def refuse_resizing(self):
        """Raises ValueError where the tables cannot be resized."""
        if self.config.source_id_offset:
            raise ValueError(
                f"cannot resize: source words start at id {self.config.source_id_offset}, so target ids have no room "
                "to grow; build a new tokenizer and model, or use a joint vocabulary (source_id_offset=0)"
            )

    def resize_other_tables(self, rows: int, mean_resizing: bool):
        """Brings the tables that transformers does not know to the size of the encoder's."""
        decoder = self.decoder
        decoder.embed_tokens = self._get_resized_embeddings(decoder.embed_tokens, rows, mean_resizing=mean_resizing)
        self.config.source_vocab_size = rows

    def _resize_token_embeddings(self, new_num_tokens, pad_to_multiple_of=None, mean_resizing=True):
        self.refuse_resizing()
        resized = super()._resize_token_embeddings(new_num_tokens, pad_to_multiple_of, mean_resizing)
        self.resize_other_tables(resized.weight.shape[0], mean_resizing)
        return resized

    @accept_past_key_values
    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.LongTensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        encoder_outputs: BaseModelOutput | tuple | None = None,
        cache: Cache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        decoder_inputs_embeds: torch.Tensor | None = None,
        use_cache: bool | None = None,
        **kwargs,
    ) -> Seq2SeqModelOutput:
        """
        Args:
            input_ids: source ids (B, S) `[SOS, words, EOS]`; attention_mask (B, S) with 1 = real.
            decoder_input_ids: target ids (B, T), starting with `decoder_start_token_id`.
            encoder_outputs: what the encoder returned for this source, to skip it.

        Returns:
            last_hidden_state (B, T, E) and what was asked for.

        Raises:
            ValueError: if the decoder gets no input, or both of ids and embeddings.
        """
        if encoder_outputs is None:
            encoder_outputs = self.encoder(
                input_ids=input_ids, attention_mask=attention_mask, inputs_embeds=inputs_embeds, **kwargs
            )
        elif not isinstance(encoder_outputs, BaseModelOutput):
            encoder_outputs = BaseModelOutput(*encoder_outputs[:3])
        decoded = self.decoder(
            input_ids=decoder_input_ids,
            attention_mask=decoder_attention_mask,
            encoder_hidden_states=encoder_outputs.last_hidden_state,
            encoder_attention_mask=attention_mask,
            cache=cache,
            inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        return Seq2SeqModelOutput(
            last_hidden_state=decoded.last_hidden_state,
            cache=decoded.cache,
            decoder_hidden_states=decoded.hidden_states,
            decoder_attentions=decoded.attentions,
            cross_attentions=decoded.cross_attentions,
            encoder_last_hidden_state=encoder_outputs.last_hidden_state,
            encoder_hidden_states=encoder_outputs.hidden_states,
            encoder_attentions=encoder_outputs.attentions,
        )


def table_head(config, bias: Callable[[torch.Tensor], Any] | None = init.zeros_) -> nn.Linear:
    """The decoder's own table, transposed, plus a bias (layers/tied_embedding.py:6-15); `bias` as in [`linear`]."""
    settings = config.stack_settings(True)
    # these values matter only if the table is not tied
    start = partial(reset_table, distribution=settings.embedding_init)
    return linear(settings.hidden_size, config.decoder_rows, start, bias)


def other_outputs(outputs: Seq2SeqModelOutput) -> dict[str, Any]:
    """The bare model's outputs that a model with a head returns too: all but the states that the head has read."""
    return {name: value for name, value in outputs.items() if name != "last_hidden_state"}


class Seq2SeqLM(ShiftedLabels, Seq2SeqPreTrainedModel, SysgenGenerationMixin):
    """[`Seq2SeqModel`] with logits over the decoder's table, a loss and `generate`."""

    _tied_weights_keys = {"lm_head.weight": "model.decoder.embed_tokens.weight"}  # noqa: RUF012
    model_class: type[Seq2SeqModel] = Seq2SeqModel
    # the loss divides by `num_items_in_batch`, so that accumulated and sharded batches have one loss
    accepts_loss_kwargs = True

    def __init__(self, config):
        super().__init__(config)
        self.model = self.model_class(config)
        self.lm_head = self.make_head(config)
        self.post_init()

    def make_head(self, config) -> nn.Module:
        """The layer that makes logits (B, T, V) from decoder states (B, T, E)."""
        return table_head(config)

    def _resize_token_embeddings(self, new_num_tokens, pad_to_multiple_of=None, mean_resizing=True):
        self.model.refuse_resizing()
        resized = super()._resize_token_embeddings(new_num_tokens, pad_to_multiple_of, mean_resizing)
        self.model.resize_other_tables(resized.weight.shape[0], mean_resizing)
        return resized

    def states(self, labels: torch.Tensor | None, use_cache: bool | None, **inputs) -> Seq2SeqModelOutput:
        """
        What [`Seq2SeqModel`] returns for its `inputs`. With labels no cache is kept, and without decoder input the
        labels make it.
        """
        if labels is not None:
            use_cache = False
            if inputs["decoder_input_ids"] is None and inputs["decoder_inputs_embeds"] is None:
                source = {name: inputs[name] for name in SOURCE_INPUTS}
                inputs["decoder_input_ids"] = self.training_input(labels, **source)
            else:
                self.check_labels(labels)
        return self.model(use_cache=use_cache, **inputs)

    @accept_past_key_values
    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.LongTensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        encoder_outputs: BaseModelOutput | tuple | None = None,
        cache: Cache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        decoder_inputs_embeds: torch.Tensor | None = None,
        labels: torch.LongTensor | None = None,
        use_cache: bool | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        **kwargs,
    ) -> Seq2SeqLMOutput:
        """
        Arguments as in [`Seq2SeqModel`], and:

        Args:
            labels: target ids (B, T) ending in EOS, -100 where there is no loss; without decoder input they
                are shifted right to make it.
            num_items_in_batch: number of labels that count in the whole batch, of which this may be a part;
                `None` means those here.

        Returns:
            logits (B, T, V) and, with labels, loss: cross-entropy summed over labels, divided by their number
            (nats per token, EOS included; interfaces/transformer/encoder_decoder_interface.py:17-41).
        """
        outputs = self.states(
            labels,
            use_cache,
            input_ids=input_ids,
            attention_mask=attention_mask,
            decoder_input_ids=decoder_input_ids,
            decoder_attention_mask=decoder_attention_mask,
            encoder_outputs=encoder_outputs,
            cache=cache,
            inputs_embeds=inputs_embeds,
            decoder_inputs_embeds=decoder_inputs_embeds,
            **kwargs,
        )
        logits = self.lm_head(outputs.last_hidden_state)
        loss = None if labels is None else token_loss(logits, labels, num_items_in_batch)
        return Seq2SeqLMOutput(loss=loss, logits=logits, **other_outputs(outputs))
