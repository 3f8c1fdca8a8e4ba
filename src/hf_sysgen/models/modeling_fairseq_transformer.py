"""The vanilla Transformer of Chaabouni et al. 2021."""

from .configuration_fairseq_transformer import FairseqTransformerConfig
from .fairseq_seq2seq import FairseqLM, FairseqModel


class FairseqTransformerModel(FairseqModel):
    """
    The encoder-decoder Transformer of fairseq v0.10.2.

    The model without a head.
    """

    config_class = FairseqTransformerConfig


class FairseqTransformerForConditionalGeneration(FairseqLM):
    """
    The encoder-decoder Transformer of fairseq v0.10.2.

    With logits, loss and `generate`.
    """

    config_class = FairseqTransformerConfig
    model_class = FairseqTransformerModel


__all__ = ["FairseqTransformerForConditionalGeneration", "FairseqTransformerModel"]
