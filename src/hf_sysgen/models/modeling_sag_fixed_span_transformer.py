"""The gated Transformer with fixed-span self-attention of Chaabouni et al. 2021."""

from .configuration_sag_fixed_span_transformer import SagFixedSpanTransformerConfig
from .fairseq_seq2seq import FairseqLM, FairseqModel


class SagFixedSpanTransformerModel(FairseqModel):
    """
    Identical to the gated Transformer except:
    - self-attention reaches a fixed distance.

    The model without a head.
    """

    config_class = SagFixedSpanTransformerConfig


class SagFixedSpanTransformerForConditionalGeneration(FairseqLM):
    """
    Identical to the gated Transformer except:
    - self-attention reaches a fixed distance.

    With logits, loss and `generate`.
    """

    config_class = SagFixedSpanTransformerConfig
    model_class = SagFixedSpanTransformerModel


__all__ = ["SagFixedSpanTransformerForConditionalGeneration", "SagFixedSpanTransformerModel"]
