"""The Transformer with relative positions of Csordas et al. 2021."""

from .configuration_relative_transformer import RelativeTransformerConfig
from .seq2seq import Seq2SeqLM, Seq2SeqModel


class RelativeTransformerModel(Seq2SeqModel):
    """
    Identical to the Sysgen Transformer except:
    - self-attention scores signed distances; nothing is added to the embeddings.

    The model without a head.
    """

    config_class = RelativeTransformerConfig


class RelativeTransformerForConditionalGeneration(Seq2SeqLM):
    """
    Identical to the Sysgen Transformer except:
    - self-attention scores signed distances; nothing is added to the embeddings.

    With logits, loss and `generate`.
    """

    config_class = RelativeTransformerConfig
    model_class = RelativeTransformerModel


__all__ = ["RelativeTransformerForConditionalGeneration", "RelativeTransformerModel"]
