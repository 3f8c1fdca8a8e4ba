"""Layers and stacks of fairseq's Transformer (v0.10.2, modules/transformer_layer.py and models/transformer.py)."""

import math

import torch
from torch import nn
from transformers import initialization as init

from .fairseq_attention import FairseqCrossAttention, FairseqSelfAttention
from .layers import DecoderLayer, EncoderLayer, FeedForward
from .local_attention import ConvolutionSelfAttention, FixedSpanSelfAttention, T5SelfAttention
from .positions import CountedEmbeddingInput
from .seq2seq import Decoder, Encoder, Seq2SeqLM, Seq2SeqModel

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


class FairseqModel(Seq2SeqModel):
    """
    Identical to [`Seq2SeqModel`] except:
    - layers, stacks and positions are fairseq's.
    - source and target may have one table.
    """

    encoder_class = FairseqEncoder
    decoder_class = FairseqDecoder

    def __init__(self, config):
        if config.share_all_embeddings:
            self._tied_weights_keys = {"encoder.embed_tokens.weight": "decoder.embed_tokens.weight"}
        super().__init__(config)


class FairseqLM(Seq2SeqLM):
    """
    Identical to [`Seq2SeqLM`] except:
    - logits have no bias.
    """

    output_bias = False
