"""The Transformer with a self-attention gate of Chaabouni et al. 2021."""

from .configuration_sag_transformer import SagTransformerConfig
from .fairseq_seq2seq import FairseqLM, FairseqModel


class SagTransformerModel(FairseqModel):
    """
    Identical to the fairseq Transformer except:
    - the output of self-attention is multiplied by a learned sigmoid(beta).

    The model without a head.
    """

    config_class = SagTransformerConfig


class SagTransformerForConditionalGeneration(FairseqLM):
    """
    Identical to the fairseq Transformer except:
    - the output of self-attention is multiplied by a learned sigmoid(beta).

    With logits, loss and `generate`.
    """

    config_class = SagTransformerConfig
    model_class = SagTransformerModel


__all__ = ["SagTransformerForConditionalGeneration", "SagTransformerModel"]
