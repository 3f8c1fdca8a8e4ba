"""Configuration of the Universal Transformer with relative positions of Csordas et al. 2021."""

from huggingface_hub.dataclasses import strict

from .configuration_relative_transformer import RelativeTransformerConfig
from .configuration_sysgen_transformer import SysgenTransformerConfig  # noqa: F401  old loaders copy only direct imports


@strict
class RelativeUniversalTransformerConfig(RelativeTransformerConfig):
    r"""
    Identical to [`RelativeTransformerConfig`] except:
    - one layer per stack is applied at every depth, with its distance weights and biases (section 2.2).
    """

    model_type = "relative_universal_transformer"

    share_layers: bool = True


__all__ = ["RelativeUniversalTransformerConfig"]
