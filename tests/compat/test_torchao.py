"""Weights of 8 bits by torchao."""

from __future__ import annotations

import pytest
from every_model import NAMES, answer, model_and_batch
from torch import nn

TOOL = "torchao"


@pytest.mark.parametrize("name", [name for name in NAMES if name != "conv_seq2seq"])
def test_every_linear_layer(name: str) -> None:
    """Linear layers with weights of 8 bits"""
    from torchao.quantization import Int8WeightOnlyConfig, quantize_
    from torchao.utils import TorchAOBaseTensor

    model, batch = model_and_batch(name)
    model = model.float()
    expected = answer(model, batch)
    quantize_(model, Int8WeightOnlyConfig())
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    assert linear
    assert all(isinstance(layer.weight, TorchAOBaseTensor) for layer in linear)
    error = (answer(model, batch) - expected).norm() / expected.norm()
    assert 0 < error < 0.1
