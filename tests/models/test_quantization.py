"""What torch's own tools find in the models: they look for layers whose type is exactly `torch.nn.Linear`."""

from __future__ import annotations

import depth_width_tiny
import edge_tiny
import pytest
import tiny
import torch
from torch import nn
from torch.ao.nn.quantized import dynamic
from torch.ao.quantization import quantize_dynamic


def model_and_batch(name: str) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    if name in tiny.WRAPPED:
        model = tiny.tiny_model(name)
        return model, tiny.ragged_batch(model.config)
    if name in edge_tiny.MODELS:
        batch = edge_tiny.edge_batch(name, labels=name in edge_tiny.WRITERS)
        return edge_tiny.tiny_edge(name), batch
    return depth_width_tiny.tiny_decoder(name), {"input_ids": depth_width_tiny.random_ids()}


# the layers of the convolutional model are no linear ones: their weights are a direction and a length
NAMES = [name for name in (*tiny.WRAPPED, *edge_tiny.MODELS, *depth_width_tiny.VARIANTS) if name != "conv_seq2seq"]


@pytest.mark.filterwarnings("ignore:torch.ao.quantization is deprecated", "ignore::UserWarning:torch.ao.nn.quantized")
@pytest.mark.parametrize("name", NAMES)
def test_every_linear_layer_is_quantized(name: str) -> None:
    model, batch = model_and_batch(name)
    model = model.float()
    linear = {path for path, module in model.named_modules() if isinstance(module, nn.Linear)}
    assert linear
    with torch.no_grad():
        expected = model(**batch)[0]
        quantized = quantize_dynamic(model)
        answer = quantized(**batch)[0]
    assert linear == {path for path, module in quantized.named_modules() if isinstance(module, dynamic.Linear)}
    # with weights and states of 8 bits, the answer is nearly the same; what is masked says nothing
    seen = expected > -1e30
    error = (answer - expected)[seen].norm() / expected[seen].norm()
    assert 0 < error < 0.25
