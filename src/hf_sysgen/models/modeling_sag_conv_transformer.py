"""The gated Transformer with convolution as self-attention of Chaabouni et al. 2021."""

from .configuration_sag_conv_transformer import SagConvTransformerConfig
from .fairseq_seq2seq import FairseqLM, FairseqModel


class SagConvTransformerModel(FairseqModel):
    """
    Identical to the gated Transformer except:
    - a convolution stands where self-attention stood.

    The model without a head.
    """

    config_class = SagConvTransformerConfig


class SagConvTransformerForConditionalGeneration(FairseqLM):
    """
    Identical to the gated Transformer except:
    - a convolution stands where self-attention stood.

    With logits, loss and `generate`.
    """

    config_class = SagConvTransformerConfig
    model_class = SagConvTransformerModel


__all__ = ["SagConvTransformerForConditionalGeneration", "SagConvTransformerModel"]
