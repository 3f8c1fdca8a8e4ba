"""Multi-head attention as fairseq v0.10.2 parametrises it (modules/multihead_attention.py)."""

# E model width

import math

from torch import nn

from .attention import CrossAttention, MultiHeadAttention, SelfAttention
from .linear import UniformLinear


class FairseqProjections(MultiHeadAttention):
    """
    Identical to [`MultiHeadAttention`] except:
    - every projection has a bias: PyTorch's default, and 0 for the output's.
    - projections start Glorot-uniform; queries, keys and values with gain 1/sqrt(2) where all are made of states of one
      width (:98-112).
    """

    def projection(self, parts: int = 1, in_features: int | None = None) -> UniformLinear:
        width = in_features or self.width
        gain = math.sqrt(0.5) if self.memory_width == self.width else 1.0
        return UniformLinear(width, parts * self.width, gain * math.sqrt(6 / (width + self.width)))

    def output_projection(self) -> nn.Module:
        return UniformLinear(self.width, self.width, math.sqrt(3 / self.width), zero_bias=True)


class FairseqSelfAttention(FairseqProjections, SelfAttention):
    """Attention of a sequence to itself."""


class FairseqCrossAttention(FairseqProjections, CrossAttention):
    """Attention to the encoder's output, whose width may be another."""
