"""The Universal Transformer of Csordas et al. 2021."""

from .configuration_universal_transformer import UniversalTransformerConfig
from .seq2seq import Seq2SeqLM, Seq2SeqModel


class UniversalTransformerModel(Seq2SeqModel):
    """
    Identical to the Sysgen Transformer except:
    - one layer per stack, applied at every depth.

    The model without a head.
    """

    config_class = UniversalTransformerConfig


class UniversalTransformerForConditionalGeneration(Seq2SeqLM):
    """
    Identical to the Sysgen Transformer except:
    - one layer per stack, applied at every depth.

    With logits, loss and `generate`.
    """

    config_class = UniversalTransformerConfig
    model_class = UniversalTransformerModel


__all__ = ["UniversalTransformerForConditionalGeneration", "UniversalTransformerModel"]
