"""Weights of 8 bits by optimum-quanto."""

from __future__ import annotations

import pytest
from every_model import NAMES, answer, model_and_batch
from torch import nn

TOOL = "optimum-quanto"


@pytest.mark.parametrize("name", [name for name in NAMES if name != "conv_seq2seq"])
def test_every_linear_layer(name: str) -> None:
    """Linear layers with weights of 8 bits"""
    from optimum.quanto import QLinear, freeze, qint8, quantize

    model, batch = model_and_batch(name)
    model = model.float()
    linear = {path for path, module in model.named_modules() if isinstance(module, nn.Linear)}
    expected = answer(model, batch)
    quantize(model, weights=qint8)
    freeze(model)
    assert {path for path, module in model.named_modules() if isinstance(module, QLinear)} == linear
    error = (answer(model, batch) - expected).norm() / expected.norm()
    assert 0 < error < 0.1
