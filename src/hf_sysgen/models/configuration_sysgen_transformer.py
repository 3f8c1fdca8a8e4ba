"""Configuration of the encoder-decoder Transformer of Csordas et al. 2021, "The Devil is in the Detail"."""

from typing import Literal

from huggingface_hub.dataclasses import strict

from .configuration_encoder_decoder import EncoderDecoderConfig, StackSettings


@strict
class SysgenTransformerConfig(EncoderDecoderConfig):
    r"""
    Post-norm encoder-decoder Transformer. Without arguments: the paper's SCAN model (Table 4), 992,007 parameters.

    Sizes, vocabularies and special ids are those of [`EncoderDecoderConfig`].

    Args:
        share_layers: one layer per stack, applied at every depth (the paper's "universal" variants).
        position_scheme: `"absolute"` adds sinusoids to the embeddings; `"relative"` scores signed distances inside
            self-attention (Appendix C; Dai et al. 2019) and adds nothing to the embeddings. Absolute positions count
            columns, as the authors', who pad on the right: padding on the left changes what is computed.
        embedding_scaling: what is multiplied before tokens and positions are summed (Appendix D): `"teu"` the
            embeddings by sqrt(d), `"ped"` the positions by 1/sqrt(d), `"none"` neither. With relative positions only
            `"none"` and `"teu"` have a meaning.
        embedding_init: distribution of both tables; `None` takes the one that the authors pair with the scaling:
            `"normal"` N(0, 1) for `none`, `"kaiming_normal"` std sqrt(2/d) for `ped` (the paper's text says
            `"scaled_normal"`, std 1/sqrt(d)), `"glorot_uniform"` for `teu` and for relative positions (the paper
            calls these "no scaling", i.e. `"normal"`). The defaults are what the authors ran
            (models/transformer_enc_dec.py:93-95, tasks/transformer_mixin.py:9-18).
        attention_scale: scores are divided by the square root of this width: `"head_dim"` as the authors ran
            (multi_head_attention.py:22,51), `"hidden_size"` as Appendix C prints.
        dropout: on attention weights, sub-layer outputs, inside the feed-forward block, and on embeddings plus
            absolute positions. The authors always ran 0.1, whatever their config files say.
    """

    model_type = "sysgen_transformer"
    title = 'the encoder-decoder Transformer of Csordas et al. 2021, "The Devil is in the Detail"'
    paper = "csordas2021"

    position_scheme: Literal["absolute", "relative"] = "absolute"
    embedding_scaling: Literal["none", "teu", "ped"] = "ped"
    embedding_init: Literal["normal", "kaiming_normal", "scaled_normal", "glorot_uniform"] | None = None
    attention_scale: Literal["head_dim", "hidden_size"] = "head_dim"

    def __post_init__(self, **kwargs):
        if self.embedding_init is None:
            by_scaling = {"none": "normal", "ped": "kaiming_normal", "teu": "glorot_uniform"}
            relative = self.position_scheme == "relative"
            self.embedding_init = "glorot_uniform" if relative else by_scaling[self.embedding_scaling]
        super().__post_init__(**kwargs)

    def stack_settings(self, is_decoder: bool) -> StackSettings:
        settings = super().stack_settings(is_decoder)._replace(embedding_init=self.embedding_init)
        if self.attention_scale == "hidden_size":
            settings = settings._replace(score_width=self.hidden_size)
        return settings

    def validate_architecture(self):
        super().validate_architecture()
        if self.position_scheme == "relative" and self.embedding_scaling == "ped":
            raise ValueError(
                "embedding_scaling='ped' scales absolute positions, but position_scheme='relative' adds none; "
                "use embedding_scaling='none' or 'teu'"
            )


@strict
class UniversalTransformerConfig(SysgenTransformerConfig):
    r"""
    Identical to [`SysgenTransformerConfig`] except:

    - one layer per stack is applied at every depth; no adaptive computation time, no timestep embedding (section 2.2).
    """

    model_type = "universal_transformer"
    title = "the Universal Transformer of Csordas et al. 2021"
    paper = "csordas2021"

    share_layers: bool = True


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
    title = "the Transformer with relative positions of Csordas et al. 2021"
    paper = "csordas2021"

    position_scheme: Literal["absolute", "relative"] = "relative"
    embedding_scaling: Literal["none", "teu", "ped"] = "none"


@strict
class RelativeUniversalTransformerConfig(RelativeTransformerConfig):
    r"""
    Identical to [`RelativeTransformerConfig`] except:

    - one layer per stack is applied at every depth, with its distance weights and biases (section 2.2).
    """

    model_type = "relative_universal_transformer"
    title = "the Universal Transformer with relative positions of Csordas et al. 2021"
    paper = "csordas2021"

    share_layers: bool = True


__all__ = [
    "RelativeTransformerConfig",
    "RelativeUniversalTransformerConfig",
    "SysgenTransformerConfig",
    "UniversalTransformerConfig",
]
