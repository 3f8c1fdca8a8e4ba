"""Layers and stacks as torch.nn builds them, started as Chakravarthy et al. 2022 start them (models/tf.py:199-202)."""

# E model width, F feed-forward width

import math

import torch
from torch import nn

from .attention import CrossAttention, MultiHeadAttention, SelfAttention
from .configuration_torch_transformer import TorchTransformerConfig
from .layers import DecoderLayer, EncoderLayer, GlorotFeedForward
from .linear import uniform, uniform_linear
from .registry import register
from .seq2seq import Decoder, Encoder, Seq2SeqLM, Seq2SeqModel, table_head


class TorchProjections(MultiHeadAttention):
    """
    Identical to [`MultiHeadAttention`] except:

    - projections have biases, which start at 0; those of queries, keys and values are one matrix to its Glorot start.
    """

    def projection(self, parts: int = 1, in_features: int | None = None) -> nn.Linear:
        return uniform_linear(self.width, parts * self.width, math.sqrt(1.5 / self.width), zero_bias=True)

    def output_projection(self) -> nn.Module:
        return uniform_linear(self.width, self.width, math.sqrt(3 / self.width), zero_bias=True)


class TorchSelfAttention(TorchProjections, SelfAttention):
    """Attention of a sequence to itself."""


class TorchCrossAttention(TorchProjections, CrossAttention):
    """Attention to the encoder's output, with its padding unless the config hides it."""

    def __init__(self, config):
        super().__init__(config)
        self.mask_memory = config.mask_memory

    def forward(self, hidden_states, memory, attention_mask=None, **kwargs) -> tuple[torch.Tensor, torch.Tensor | None]:
        return super().forward(hidden_states, memory, attention_mask if self.mask_memory else None, **kwargs)


class TorchParts:
    """What both kinds of layers are built from."""

    def make_self_attention(self, config, is_decoder: bool) -> nn.Module:
        return TorchSelfAttention(config, is_decoder)

    def make_cross_attention(self, config) -> nn.Module:
        return TorchCrossAttention(config)

    def make_feed_forward(self, config, is_decoder: bool) -> nn.Module:
        return GlorotFeedForward(config, is_decoder)


class TorchEncoderLayer(TorchParts, EncoderLayer):
    """[`EncoderLayer`] of these parts."""


class TorchDecoderLayer(TorchParts, DecoderLayer):
    """[`DecoderLayer`] of these parts."""


class TorchEncoder(Encoder):
    """[`Encoder`] of these layers."""

    layer_class = TorchEncoderLayer


class TorchDecoder(Decoder):
    """[`Decoder`] of these layers."""

    layer_class = TorchDecoderLayer


@register
class TorchTransformerModel(Seq2SeqModel):
    """[`Seq2SeqModel`] of these layers, with a LayerNorm after each stack."""

    config_class = TorchTransformerConfig
    encoder_class = TorchEncoder
    decoder_class = TorchDecoder


@register
class TorchTransformerForConditionalGeneration(Seq2SeqLM):
    """
    [`Seq2SeqLM`] of these layers, except:

    - the head's bias starts at PyTorch's Linear default.
    """

    config_class = TorchTransformerConfig
    model_class = TorchTransformerModel

    def make_head(self, config) -> nn.Module:
        return table_head(config, uniform(1 / math.sqrt(config.hidden_size)))


__all__ = ["TorchTransformerForConditionalGeneration", "TorchTransformerModel"]
