"""Configuration of the gated Transformer with convolution as self-attention of Chaabouni et al. 2021."""

from typing import Literal

from huggingface_hub.dataclasses import strict

from .configuration_fairseq_transformer import FairseqTransformerConfig  # noqa: F401  old loaders copy only direct imports
from .configuration_sag_transformer import SagTransformerConfig


@strict
class SagConvTransformerConfig(SagTransformerConfig):
    r"""
    Identical to [`SagTransformerConfig`] except:
    - a convolution stands where self-attention stood (section 3).
    """

    model_type = "sag_conv_transformer"

    self_attention: Literal["full", "fixed_span", "t5", "convolution"] = "convolution"


__all__ = ["SagConvTransformerConfig"]
