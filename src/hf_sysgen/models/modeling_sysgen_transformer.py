"""The Transformers of Csordas et al. 2021. All differ in their configuration alone."""

# shapes are those of seq2seq.py: B batch, S source length, T target length, E model width, V rows of the decoder table

from .configuration_sysgen_transformer import (
    RelativeTransformerConfig,
    RelativeUniversalTransformerConfig,
    SysgenTransformerConfig,
    UniversalTransformerConfig,
)
from .registry import register
from .seq2seq import Seq2SeqLM, Seq2SeqModel


@register
class SysgenTransformerModel(Seq2SeqModel):
    """Post-norm Transformer with absolute positions. Without a head."""

    config_class = SysgenTransformerConfig


@register
class SysgenTransformerForConditionalGeneration(Seq2SeqLM):
    """Post-norm Transformer with absolute positions. With logits, loss and `generate`."""

    config_class = SysgenTransformerConfig
    model_class = SysgenTransformerModel


@register
class UniversalTransformerModel(Seq2SeqModel):
    """Identical to the Sysgen Transformer except: one layer per stack, applied at every depth. Without a head."""

    config_class = UniversalTransformerConfig


@register
class UniversalTransformerForConditionalGeneration(Seq2SeqLM):
    """
    Identical to the Sysgen Transformer except: one layer per stack, applied at every depth.

    With logits, loss and `generate`.
    """

    config_class = UniversalTransformerConfig
    model_class = UniversalTransformerModel


@register
class RelativeTransformerModel(Seq2SeqModel):
    """Identical to the Sysgen Transformer except: relative positions, in self-attention. Without a head."""

    config_class = RelativeTransformerConfig


@register
class RelativeTransformerForConditionalGeneration(Seq2SeqLM):
    """
    Identical to the Sysgen Transformer except: relative positions, in self-attention.

    With logits, loss and `generate`.
    """

    config_class = RelativeTransformerConfig
    model_class = RelativeTransformerModel


@register
class RelativeUniversalTransformerModel(Seq2SeqModel):
    """Identical to the relative Transformer except: one layer per stack, applied at every depth. Without a head."""

    config_class = RelativeUniversalTransformerConfig


@register
class RelativeUniversalTransformerForConditionalGeneration(Seq2SeqLM):
    """
    Identical to the relative Transformer except: one layer per stack, applied at every depth.

    With logits, loss and `generate`.
    """

    config_class = RelativeUniversalTransformerConfig
    model_class = RelativeUniversalTransformerModel


__all__ = [
    "RelativeTransformerForConditionalGeneration",
    "RelativeTransformerModel",
    "RelativeUniversalTransformerForConditionalGeneration",
    "RelativeUniversalTransformerModel",
    "SysgenTransformerForConditionalGeneration",
    "SysgenTransformerModel",
    "UniversalTransformerForConditionalGeneration",
    "UniversalTransformerModel",
]
