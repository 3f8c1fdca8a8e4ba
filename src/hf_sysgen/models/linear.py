"""Linear layers with their own initial distribution."""

import math

from torch import nn
from transformers import initialization as init


class UniformLinear(nn.Linear):
    """
    [`torch.nn.Linear`] with weights from U(-bound, bound), and biases at PyTorch's default U(+-1/sqrt(fan-in)), or at
    0 with `zero_bias`.

    It is a class because transformers initialises, in code from outside its package, only modules that have
    parameters of their own: an attention or feed-forward module cannot initialise its projections.
    """

    def __init__(self, in_features: int, out_features: int, bound: float, bias: bool = True, zero_bias: bool = False):
        super().__init__(in_features, out_features, bias)
        self.bound = bound
        self.zero_bias = zero_bias

    def reset_weights(self):
        init.uniform_(self.weight, -self.bound, self.bound)
        if self.bias is not None:
            limit = 0.0 if self.zero_bias else 1 / math.sqrt(self.in_features)
            init.uniform_(self.bias, -limit, limit)


class FanInLinear(nn.Linear):
    """[`torch.nn.Linear`] without biases whose weights come from N(0, 1 / fan-in), so that it keeps a variance of 1."""

    def __init__(self, in_features: int, out_features: int):
        super().__init__(in_features, out_features, bias=False)

    def reset_weights(self):
        init.normal_(self.weight, std=1 / math.sqrt(self.in_features))
