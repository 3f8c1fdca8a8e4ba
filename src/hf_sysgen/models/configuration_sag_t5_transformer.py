"""Configuration of the gated Transformer with T5 attention of Chaabouni et al. 2021."""

from typing import Literal

from huggingface_hub.dataclasses import strict

from .configuration_fairseq_transformer import FairseqTransformerConfig  # noqa: F401  old loaders copy only direct imports
from .configuration_sag_transformer import SagTransformerConfig


@strict
class SagT5TransformerConfig(SagTransformerConfig):
    r"""
    Identical to [`SagTransformerConfig`] except:
    - each head of each layer adds a learned bias for the signed distance to its scores (section 3).
    """

    model_type = "sag_t5_transformer"

    self_attention: Literal["full", "fixed_span", "t5", "convolution"] = "t5"


__all__ = ["SagT5TransformerConfig"]
