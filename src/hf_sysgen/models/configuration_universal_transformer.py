"""Configuration of the Universal Transformer of Csordas et al. 2021."""

from huggingface_hub.dataclasses import strict

from .configuration_sysgen_transformer import SysgenTransformerConfig


@strict
class UniversalTransformerConfig(SysgenTransformerConfig):
    r"""
    Identical to [`SysgenTransformerConfig`] except:
    - one layer per stack is applied at every depth; no adaptive computation time, no timestep embedding (section 2.2).
    """

    model_type = "universal_transformer"

    share_layers: bool = True


__all__ = ["UniversalTransformerConfig"]
