"""What torch's own tools find in the models: they look for layers whose type is exactly `torch.nn.Linear`."""

from __future__ import annotations

import pytest
from every_model import NAMES, answer, model_and_batch
from torch import nn
from torch.ao.nn.quantized import dynamic
from torch.ao.quantization import quantize_dynamic

TOOL = "torch"
# the layers of the convolutional model are no linear ones: their weights are a direction and a length
LINEAR = [name for name in NAMES if name != "conv_seq2seq"]


@pytest.mark.filterwarnings("ignore:torch.ao.quantization is deprecated", "ignore::UserWarning:torch.ao.nn.quantized")
@pytest.mark.parametrize("name", LINEAR)
def test_every_linear_layer_is_quantized(name: str) -> None:
    """quantize_dynamic on every linear layer"""
    model, batch = model_and_batch(name)
    model = model.float()
    linear = {path for path, module in model.named_modules() if isinstance(module, nn.Linear)}
    assert linear
    expected = answer(model, batch)
    quantized = quantize_dynamic(model)
    assert linear == {path for path, module in quantized.named_modules() if isinstance(module, dynamic.Linear)}
    # with weights and states of 8 bits, the answer is nearly the same
    error = (answer(quantized, batch) - expected).norm() / expected.norm()
    assert 0 < error < 0.25
