"""Configuration of the gated Transformer with fixed-span self-attention of Chaabouni et al. 2021."""

from typing import Literal

from huggingface_hub.dataclasses import strict

from .configuration_fairseq_transformer import FairseqTransformerConfig  # noqa: F401  old loaders copy only direct imports
from .configuration_sag_transformer import SagTransformerConfig


@strict
class SagFixedSpanTransformerConfig(SagTransformerConfig):
    r"""
    Identical to [`SagTransformerConfig`] except:
    - self-attention reaches `attention_span` positions to each side, in the decoder to the left (section 3).
    """

    model_type = "sag_fixed_span_transformer"

    self_attention: Literal["full", "fixed_span", "t5", "convolution"] = "fixed_span"


__all__ = ["SagFixedSpanTransformerConfig"]
