"""The encoder-decoder Transformer of Csordas et al. 2021."""

from .configuration_sysgen_transformer import SysgenTransformerConfig
from .seq2seq import Seq2SeqLM, Seq2SeqModel


class SysgenTransformerModel(Seq2SeqModel):
    """Post-norm encoder-decoder Transformer with absolute positions. Without a head."""

    config_class = SysgenTransformerConfig


class SysgenTransformerForConditionalGeneration(Seq2SeqLM):
    """Post-norm encoder-decoder Transformer with absolute positions. With logits, loss and `generate`."""

    config_class = SysgenTransformerConfig
    model_class = SysgenTransformerModel


__all__ = ["SysgenTransformerForConditionalGeneration", "SysgenTransformerModel"]
