"""fairseq's Transformer (v0.10.2, modules/transformer_layer.py) with the changes of Chaabouni et al. 2021."""

# B batch, L length, E model width, F feed-forward width

import math

import torch
from torch import nn
from transformers import initialization as init

from .configuration_fairseq_transformer import (
    FairseqTransformerConfig,
    SagConvTransformerConfig,
    SagFixedSpanTransformerConfig,
    SagT5TransformerConfig,
    SagTransformerConfig,
)
from .fairseq_attention import (
    ConvolutionSelfAttention,
    FairseqCrossAttention,
    FairseqSelfAttention,
    FixedSpanSelfAttention,
    T5SelfAttention,
)
from .layers import DecoderLayer, EncoderLayer, FeedForward
from .positions import CountedEmbeddingInput
from .registry import register
from .seq2seq import Decoder, Encoder, Seq2SeqLM, Seq2SeqModel, table_head

SELF_ATTENTION = {
    "full": FairseqSelfAttention,
    "fixed_span": FixedSpanSelfAttention,
    "t5": T5SelfAttention,
    "convolution": ConvolutionSelfAttention,
}


class FairseqFeedForward(FeedForward):
    """
    Identical to [`FeedForward`] except:

    - weights start at PyTorch's Linear default, as in v0.10 (:68-76; in v0.9 they were Glorot-uniform).
    """

    def weight_bounds(self, width: int, inner: int) -> tuple[float, float]:
        return 1 / math.sqrt(width), 1 / math.sqrt(inner)


class SigmoidGate(nn.Module):
    """
    Multiplication by sigmoid(beta), one learned number (Chaabouni et al. 2021, Algorithm 1).

    Args:
        start: beta_0.
    """

    def __init__(self, start: float):
        super().__init__()
        self.start = start
        self.beta = nn.Parameter(torch.zeros(()))

    def reset_weights(self):
        init.constant_(self.beta, self.start)

    def forward(self, update: torch.Tensor) -> torch.Tensor:
        return update * self.beta.sigmoid()


class FairseqParts:
    """What both kinds of layers are built from."""

    def make_self_attention(self, config, is_decoder: bool) -> nn.Module:
        return SELF_ATTENTION[config.self_attention](config, is_decoder)

    def make_gate(self, config, is_decoder: bool) -> nn.Module:
        if not config.self_attention_gate:
            return nn.Identity()
        return SigmoidGate(config.decoder_gate_start if is_decoder else config.encoder_gate_start)

    def make_feed_forward(self, config, is_decoder: bool) -> nn.Module:
        return FairseqFeedForward(config, is_decoder)

    def make_cross_attention(self, config) -> nn.Module:
        return FairseqCrossAttention(config)


class FairseqEncoderLayer(FairseqParts, EncoderLayer):
    """[`EncoderLayer`] of these parts."""


class FairseqDecoderLayer(FairseqParts, DecoderLayer):
    """[`DecoderLayer`] of these parts."""


class FairseqEncoder(Encoder):
    """[`Encoder`] of these layers."""

    layer_class = FairseqEncoderLayer
    input_class = CountedEmbeddingInput


class FairseqDecoder(Decoder):
    """[`Decoder`] of these layers."""

    layer_class = FairseqDecoderLayer
    input_class = CountedEmbeddingInput


@register
class FairseqTransformerModel(Seq2SeqModel):
    """
    Identical to [`Seq2SeqModel`] except:

    - layers, stacks and positions are fairseq's.
    - source and target may have one table.
    """

    config_class = FairseqTransformerConfig
    encoder_class = FairseqEncoder
    decoder_class = FairseqDecoder

    def __init__(self, config):
        if config.share_all_embeddings:
            self._tied_weights_keys = {"encoder.embed_tokens.weight": "decoder.embed_tokens.weight"}
        super().__init__(config)


@register
class FairseqTransformerForConditionalGeneration(Seq2SeqLM):
    """
    Identical to [`Seq2SeqLM`] except:

    - logits have no bias.
    """

    config_class = FairseqTransformerConfig
    model_class = FairseqTransformerModel

    def make_head(self, config) -> nn.Module:
        return table_head(config, bias=None)


@register
class SagTransformerModel(FairseqTransformerModel):
    """
    Identical to fairseq's Transformer except: a learned sigmoid(beta) multiplies the output of self-attention.

    Without a head.
    """

    config_class = SagTransformerConfig


@register
class SagTransformerForConditionalGeneration(FairseqTransformerForConditionalGeneration):
    """
    Identical to fairseq's Transformer except: a learned sigmoid(beta) multiplies the output of self-attention.

    With logits, loss and `generate`.
    """

    config_class = SagTransformerConfig
    model_class = SagTransformerModel


@register
class SagConvTransformerModel(FairseqTransformerModel):
    """Identical to the gated Transformer except: a convolution replaces self-attention. Without a head."""

    config_class = SagConvTransformerConfig


@register
class SagConvTransformerForConditionalGeneration(FairseqTransformerForConditionalGeneration):
    """
    Identical to the gated Transformer except: a convolution replaces self-attention.

    With logits, loss and `generate`.
    """

    config_class = SagConvTransformerConfig
    model_class = SagConvTransformerModel


@register
class SagFixedSpanTransformerModel(FairseqTransformerModel):
    """Identical to the gated Transformer except: self-attention reaches `attention_span` positions. Without a head."""

    config_class = SagFixedSpanTransformerConfig


@register
class SagFixedSpanTransformerForConditionalGeneration(FairseqTransformerForConditionalGeneration):
    """
    Identical to the gated Transformer except: self-attention reaches `attention_span` positions.

    With logits, loss and `generate`.
    """

    config_class = SagFixedSpanTransformerConfig
    model_class = SagFixedSpanTransformerModel


@register
class SagT5TransformerModel(FairseqTransformerModel):
    """
    Identical to the gated Transformer except: each signed distance adds a learned bias to the score.

    Without a head.
    """

    config_class = SagT5TransformerConfig


@register
class SagT5TransformerForConditionalGeneration(FairseqTransformerForConditionalGeneration):
    """
    Identical to the gated Transformer except: each signed distance adds a learned bias to the score.

    With logits, loss and `generate`.
    """

    config_class = SagT5TransformerConfig
    model_class = SagT5TransformerModel


__all__ = [
    "FairseqTransformerForConditionalGeneration",
    "FairseqTransformerModel",
    "SagConvTransformerForConditionalGeneration",
    "SagConvTransformerModel",
    "SagFixedSpanTransformerForConditionalGeneration",
    "SagFixedSpanTransformerModel",
    "SagT5TransformerForConditionalGeneration",
    "SagT5TransformerModel",
    "SagTransformerForConditionalGeneration",
    "SagTransformerModel",
]
