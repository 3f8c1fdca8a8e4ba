"""Configuration of the Transformer with a self-attention gate (SAG) of Chaabouni et al. 2021."""

from huggingface_hub.dataclasses import strict

from .configuration_fairseq_transformer import FairseqTransformerConfig


@strict
class SagTransformerConfig(FairseqTransformerConfig):
    r"""
    Identical to [`FairseqTransformerConfig`] except:
    - the output of self-attention is multiplied by a learned sigmoid(beta) in every layer (section 3, Algorithm 1).
    """

    model_type = "sag_transformer"

    self_attention_gate: bool = True


__all__ = ["SagTransformerConfig"]
