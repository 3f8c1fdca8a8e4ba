"""Configuration of the Transformer with relative positions of Csordas et al. 2021."""

from typing import Literal

from huggingface_hub.dataclasses import strict

from .configuration_sysgen_transformer import SysgenTransformerConfig


@strict
class RelativeTransformerConfig(SysgenTransformerConfig):
    r"""
    Identical to [`SysgenTransformerConfig`] except:
    - self-attention scores signed distances; nothing is added to the embeddings, which have no dropout (Appendix C).
    - embeddings are not scaled and start Glorot-uniform (tasks/transformer_mixin.py:9,17-18).
    - self-attention projections start at PyTorch's Linear default, U(+-1/sqrt(d)), because the authors' Glorot reset
      is never called (multi_head_relative_pos_attention.py:52-66).
    """

    model_type = "relative_transformer"

    position_scheme: Literal["absolute", "relative"] = "relative"
    embedding_scaling: Literal["none", "teu", "ped"] = "none"


__all__ = ["RelativeTransformerConfig"]
