"""The Transformer that Russin et al. 2022 compare with."""

from .configuration_torch_transformer import TorchTransformerConfig
from .torch_layers import TorchLM, TorchModel


class TorchTransformerModel(TorchModel):
    """Post-norm Transformer of PyTorch's own layers. Without a head."""

    config_class = TorchTransformerConfig


class TorchTransformerForConditionalGeneration(TorchLM):
    """Post-norm Transformer of PyTorch's own layers. With logits, loss and `generate`."""

    config_class = TorchTransformerConfig
    model_class = TorchTransformerModel


__all__ = ["TorchTransformerForConditionalGeneration", "TorchTransformerModel"]
