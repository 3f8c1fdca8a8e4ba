"""The gated Transformer with T5 attention of Chaabouni et al. 2021."""

from .configuration_sag_t5_transformer import SagT5TransformerConfig
from .fairseq_seq2seq import FairseqLM, FairseqModel


class SagT5TransformerModel(FairseqModel):
    """
    Identical to the gated Transformer except:
    - scores gain a learned bias for the signed distance.

    The model without a head.
    """

    config_class = SagT5TransformerConfig


class SagT5TransformerForConditionalGeneration(FairseqLM):
    """
    Identical to the gated Transformer except:
    - scores gain a learned bias for the signed distance.

    With logits, loss and `generate`.
    """

    config_class = SagT5TransformerConfig
    model_class = SagT5TransformerModel


__all__ = ["SagT5TransformerForConditionalGeneration", "SagT5TransformerModel"]
