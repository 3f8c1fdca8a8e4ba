"""The Universal Transformer with relative positions of Csordas et al. 2021."""

from .configuration_relative_universal_transformer import RelativeUniversalTransformerConfig
from .seq2seq import Seq2SeqLM, Seq2SeqModel


class RelativeUniversalTransformerModel(Seq2SeqModel):
    """
    Identical to the relative Transformer except:
    - one layer per stack, applied at every depth.

    The model without a head.
    """

    config_class = RelativeUniversalTransformerConfig


class RelativeUniversalTransformerForConditionalGeneration(Seq2SeqLM):
    """
    Identical to the relative Transformer except:
    - one layer per stack, applied at every depth.

    With logits, loss and `generate`.
    """

    config_class = RelativeUniversalTransformerConfig
    model_class = RelativeUniversalTransformerModel


__all__ = ["RelativeUniversalTransformerForConditionalGeneration", "RelativeUniversalTransformerModel"]
