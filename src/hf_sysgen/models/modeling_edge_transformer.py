"""The Edge Transformer of Bergen et al. 2021: the encoder, and what is predicted from edges."""

# B batch, N nodes, E edge width, S source length, T target length, V tokens

from typing import Any

import torch
from transformers.modeling_outputs import (
    BaseModelOutput,
    Seq2SeqLMOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from transformers.utils import can_return_tuple

from .base import accept_past_key_values
from .configuration_edge_transformer import EdgeDependencyParserConfig, EdgeTransformerConfig
from .edge_cache import EdgeCache
from .edge_decoder import EdgeDecoder
from .edge_encoder import EdgeEncoder, EdgePreTrainedModel
from .edge_layers import loops
from .generation import SysgenGenerationMixin
from .readout import Readout, RelationHead, edge_state, linear_readout, mean_cross_entropy
from .registry import register
from .seq2seq import ShiftedLabels, token_loss
from .word_graph import WordGraphHeads


@register
class EdgeTransformerModel(EdgeEncoder):
    """The encoder without a head."""

    config_class = EdgeTransformerConfig


@register
class EdgeTransformerForConditionalGeneration(ShiftedLabels, EdgePreTrainedModel, SysgenGenerationMixin):
    """Encoder, decoder and logits, with a loss and `generate`; one table of embeddings for source and target."""

    # the loss divides by `num_items_in_batch`, so that accumulated and sharded batches have one loss
    accepts_loss_kwargs = True
    # the edge cache grows with every token, so a static cache cannot replace it
    _can_compile_fullgraph = False

    def __init__(self, config):
        if config.input_form != "sequence":
            raise ValueError(f"input_form={config.input_form!r}, but sequences need input_form='sequence'")
        config.is_encoder_decoder = True
        super().__init__(config)
        self.model = EdgeTransformerModel(config)
        self.decoder = EdgeDecoder(config)
        self.lm_head = linear_readout(config, config.vocab_size, bias=False)
        self.post_init()

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        return False  # the cache of this model is its own

    def _prepare_cache_for_generation(self, generation_config, model_kwargs: dict[str, Any], *args, **kwargs):
        super()._prepare_cache_for_generation(generation_config, model_kwargs, *args, **kwargs)
        if generation_config.use_cache is not False and model_kwargs.get("cache") is None:
            model_kwargs["cache"] = EdgeCache(self.config.decoder_layers)

    def get_encoder(self, *args, **kwargs) -> EdgeTransformerModel:
        return self.model

    @accept_past_key_values
    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.LongTensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        encoder_outputs: BaseModelOutput | tuple | None = None,
        cache: EdgeCache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        decoder_inputs_embeds: torch.Tensor | None = None,
        labels: torch.LongTensor | None = None,
        use_cache: bool | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        **kwargs,
    ) -> Seq2SeqLMOutput:
        """
        Arguments and outputs as in [`Seq2SeqLM`], except:

        Args:
            input_ids: source ids (B, S), ending in EOS, without a start symbol.
            decoder_input_ids: (B, T); with a cache that holds a beginning, the new ones only.
            decoder_attention_mask: shape (B, all positions so far), 1 = real, with padding on the right alone.

        Raises:
            ValueError: if the decoder gets no input, both of ids and embeddings, or a mask with padding before words.
        """
        # a token never attends to later tokens
        mask = decoder_attention_mask
        if mask is not None and (mask[:, :-1] < mask[:, 1:]).any():
            raise ValueError("decoder_attention_mask: the target must be padded on the right, which needs no mask")
        if labels is not None:
            use_cache = False
            if decoder_input_ids is None and decoder_inputs_embeds is None:
                decoder_input_ids = self.training_input(labels)
        if (decoder_input_ids is None) == (decoder_inputs_embeds is None):
            raise ValueError("give exactly one of decoder_input_ids and decoder_inputs_embeds, or labels")
        if encoder_outputs is None:
            encoder_outputs = self.model(input_ids, attention_mask, inputs_embeds=inputs_embeds, **kwargs)
        elif not isinstance(encoder_outputs, BaseModelOutput):
            encoder_outputs = BaseModelOutput(*encoder_outputs[:3])
        if decoder_inputs_embeds is None:
            decoder_inputs_embeds = self.model.embed_tokens(decoder_input_ids)
        if use_cache is None:
            use_cache = self.config.use_cache and not self.training
        if use_cache and cache is None:
            cache = EdgeCache(self.config.decoder_layers)
        decoded = self.decoder(
            decoder_inputs_embeds,
            encoder_outputs.last_hidden_state,
            attention_mask,
            cache,
            **kwargs,
        )
        logits = self.lm_head(decoded.last_hidden_state)
        loss = None if labels is None else token_loss(logits, labels, num_items_in_batch)
        return Seq2SeqLMOutput(
            loss=loss,
            logits=logits,
            cache=cache if use_cache else None,
            decoder_hidden_states=decoded.hidden_states,
            decoder_attentions=decoded.attentions,
            encoder_last_hidden_state=encoder_outputs.last_hidden_state,
            encoder_hidden_states=encoder_outputs.hidden_states,
            encoder_attentions=encoder_outputs.attentions,
        )


@register
class EdgeTransformerForGraphParsing(WordGraphHeads, EdgePreTrainedModel):
    """
    Semantic graphs over tokens (COGS): role, category, noun type and verb from a token's loop edge, its parent from
    the edges from it, of which the one to the parent scores highest; a token without a parent is its own
    (cogs/model.py:491-506; the paper says the edges to it).
    """

    def __init__(self, config):
        super().__init__(config)
        self.model = EdgeTransformerModel(config)
        self.add_heads(config)
        self.parent_head = linear_readout(config, 1)
        self.post_init()

    def read(self, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return loops(states), self.parent_head(states).squeeze(-1)


@register
class EdgeTransformerForRelationClassification(RelationHead, EdgePreTrainedModel):
    """The relation from one node to another, read from their edge (CLUTRR): `config.num_labels` classes."""

    def __init__(self, config):
        super().__init__(config)
        self.model = EdgeTransformerModel(config)
        self.classifier = Readout(config.hidden_size, config.num_labels)
        self.main_input_name = self.model.main_input_name
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        edge_ids: torch.LongTensor | None = None,
        node_mask: torch.Tensor | None = None,
        query: torch.LongTensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.LongTensor | None = None,
        **kwargs,
    ) -> SequenceClassifierOutput:
        """
        Arguments as in [`EdgeEncoder`], and:

        Args:
            query: (B, 2), the first and the second node of the pair in question.
            labels: (B,), the right class, or -100.

        Returns:
            logits (B, num_labels) and, with labels, loss: mean cross-entropy in nats.
        """
        inputs = input_ids, attention_mask, edge_ids, node_mask, inputs_embeds
        return self.classify(edge_state, query, labels, *inputs, **kwargs)


@register
class EdgeDependencyParserModel(EdgeEncoder):
    """The encoder without a head."""

    config_class = EdgeDependencyParserConfig


@register
class EdgeTransformerForDependencyParsing(EdgePreTrainedModel):
    """
    Labelled arcs between tokens (CFQ): edge (dependent, head) carries one of `config.num_labels` labels, of which 0
    means "no arc". A sentence's root is a token of its own, which the caller puts first.

    The released code has no dependency parser. The direction of edges and the score of an arc
    ([`dependency_scores.arc_scores`]), which the paper leaves open, are ours.
    """

    config_class = EdgeDependencyParserConfig

    def __init__(self, config):
        super().__init__(config)
        self.model = EdgeDependencyParserModel(config)
        self.label_head = linear_readout(config, config.num_labels)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.LongTensor | None = None,
        **kwargs,
    ) -> TokenClassifierOutput:
        """
        Arguments as in [`EdgeEncoder`], and:

        Args:
            labels: (B, N, N) by dependent and head, -100 where there is no loss, as at padding.

        Returns:
            logits (B, N, N, num_labels) and, with labels, loss: mean cross-entropy in nats over pairs.
        """
        outputs = self.model(input_ids, attention_mask, inputs_embeds=inputs_embeds, **kwargs)
        logits = self.label_head(outputs.last_hidden_state)
        loss = None if labels is None else mean_cross_entropy(logits, labels)
        return TokenClassifierOutput(loss, logits, outputs.hidden_states, outputs.attentions)


__all__ = [
    "EdgeDependencyParserModel",
    "EdgeTransformerForConditionalGeneration",
    "EdgeTransformerForDependencyParsing",
    "EdgeTransformerForGraphParsing",
    "EdgeTransformerForRelationClassification",
    "EdgeTransformerModel",
]
