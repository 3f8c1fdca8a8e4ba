"""Configuration of fairseq's Transformer (v0.10.2), the base of Chaabouni et al. 2021."""

from typing import Literal

from huggingface_hub.dataclasses import strict

from .configuration_encoder_decoder import EncoderDecoderConfig, StackSettings


@strict
class FairseqTransformerConfig(EncoderDecoderConfig):
    r"""
    Encoder-decoder Transformer as fairseq v0.10.2 builds it, with what Chaabouni et al. 2021 change as fields. Without
    arguments: a vanilla Transformer of the paper's SCAN grid (Appendix A.1, which does not say what won).

    Sizes, vocabularies and special ids are those of [`EncoderDecoderConfig`]; `hidden_size`, `intermediate_size` and
    `num_attention_heads` are the encoder's.

    Args:
        decoder_hidden_size, decoder_intermediate_size, decoder_attention_heads: sizes of the decoder, which the paper
            varies independently on SCAN; `None` means as in the encoder.
        encoder_normalize_before, decoder_normalize_before: pre-norm, with a LayerNorm after the stack (FLoRes runs;
            searched on the other translation tasks).
        attention_dropout: on attention weights, cross-attention's included (Appendix A.1: 0.1 on SCAN).
        activation_dropout: after the ReLU (0.2 on FLoRes).
        dropout: on embeddings plus positions, and on sub-layer outputs.
        tie_word_embeddings: logits are computed with the decoder's table (IWSLT); on SCAN with a matrix of their own.
        share_all_embeddings: one table for source, target and logits (FLoRes, WMT); needs a joint vocabulary.
        self_attention: what self-attention is in both stacks (section 3): `"full"`; `"fixed_span"`, within a distance
            of `attention_span`; `"t5"`, full with a learned bias for each signed distance, head and layer;
            `"convolution"`, replaced by one.
        attention_span: positions `s` to each side: the largest distance of `"fixed_span"`, the largest distance with
            a bias of its own in `"t5"`, and a kernel of 2s + 1 in `"convolution"` (searched in {2, 4, 6}).
        self_attention_gate: the output of self-attention is multiplied by sigmoid(beta), one learned number per layer
            (Algorithm 1).
        encoder_gate_start, decoder_gate_start: where beta starts (beta_0: -1 on SCAN; for translation searched in
            {-2, -1, 0} and {0, 1, 2}).
        t5_bias_init: how biases of distances start. The paper is silent; the authors' older code drew from N(0, 1)
            (robertodessi/fairseq f85f0b88, ctronn_attention.py:30). `"zeros"` starts as the vanilla model.
        convolution_groups: `"depthwise"`, one kernel per channel, has fewer parameters than self-attention as section 3
            says; `"full"`, from all channels to all, has more. The paper does not say which it used.
        causal_convolution: what the decoder's kernel covers. The paper is silent: `"shifted"` is all 2s + 1 taps on
            positions i - 2s ... i, `"truncated"` the s + 1 taps on i - s ... i that a fixed span leaves.
    """

    model_type = "fairseq_transformer"
    title = "fairseq's Transformer (v0.10.2), the base of Chaabouni et al. 2021"
    paper = "chaabouni2021"
    # fairseq reads `words </s>` (data/dictionary.py:292-317 of 0.10.2)
    source_starts = False
    no_effect = {  # noqa: RUF012
        "attention_span": ("self_attention", ("full",)),
        "t5_bias_init": ("self_attention", ("full", "fixed_span", "convolution")),
        "convolution_groups": ("self_attention", ("full", "fixed_span", "t5")),
        "causal_convolution": ("self_attention", ("full", "fixed_span", "t5")),
        "encoder_gate_start": ("self_attention_gate", (False,)),
        "decoder_gate_start": ("self_attention_gate", (False,)),
    }

    source_vocab_size: int = 14
    num_attention_heads: int = 4
    encoder_layers: int = 4
    decoder_layers: int = 4
    decoder_hidden_size: int | None = None
    decoder_intermediate_size: int | None = None
    decoder_attention_heads: int | None = None
    encoder_normalize_before: bool = False
    decoder_normalize_before: bool = False
    attention_dropout: float | int = 0.1
    activation_dropout: float | int = 0.0
    tie_word_embeddings: bool = False
    share_all_embeddings: bool = False
    self_attention: Literal["full", "fixed_span", "t5", "convolution"] = "full"
    attention_span: int = 2
    self_attention_gate: bool = False
    encoder_gate_start: float | int = -1.0
    decoder_gate_start: float | int = -1.0
    t5_bias_init: Literal["normal", "zeros"] = "normal"
    convolution_groups: Literal["depthwise", "full"] = "depthwise"
    causal_convolution: Literal["shifted", "truncated"] = "shifted"

    def __post_init__(self, **kwargs):
        for name, encoder in (
            ("decoder_hidden_size", self.hidden_size),
            ("decoder_intermediate_size", self.intermediate_size),
            ("decoder_attention_heads", self.num_attention_heads),
        ):
            if getattr(self, name) is None:
                setattr(self, name, encoder)
        super().__post_init__(**kwargs)

    def stack_settings(self, is_decoder: bool) -> StackSettings:
        width = self.decoder_hidden_size if is_decoder else self.hidden_size
        heads = self.decoder_attention_heads if is_decoder else self.num_attention_heads
        normalize_before = self.decoder_normalize_before if is_decoder else self.encoder_normalize_before
        # a symbol that is also read or written as something else is no mere padding
        ends = self.eos_token_id if isinstance(self.eos_token_id, list) else [self.eos_token_id]
        is_symbol = self.pad_token_id in (*ends, self.decoder_start_token_id)
        return StackSettings(
            hidden_size=width,
            intermediate_size=self.decoder_intermediate_size if is_decoder else self.intermediate_size,
            num_attention_heads=heads,
            score_width=width // heads,
            attention_dropout=self.attention_dropout,
            activation_dropout=self.activation_dropout,
            dropout=self.dropout,
            normalize_before=normalize_before,
            final_norm=normalize_before,
            zero_id=None if is_symbol else self.pad_token_id,
        )

    def validate_architecture(self):
        super().validate_architecture()
        self.check_sizes(
            "decoder_hidden_size", "decoder_intermediate_size", "decoder_attention_heads", "attention_span"
        )
        self.check_heads("decoder_hidden_size", "decoder_attention_heads")
        self.check_sinusoids("decoder_hidden_size")
        for name in ("hidden_size", "decoder_hidden_size"):
            if getattr(self, name) < 4:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 4: two sines and two cosines")
        self.check_probabilities("attention_dropout", "activation_dropout")
        if self.share_all_embeddings:
            for name, wanted in (
                ("tie_word_embeddings", True),
                ("source_id_offset", 0),
                ("source_vocab_size", self.vocab_size),
                ("decoder_hidden_size", self.hidden_size),
            ):
                if getattr(self, name) != wanted:
                    raise ValueError(f"share_all_embeddings=True needs {name}={wanted}, not {getattr(self, name)}")


@strict
class SagTransformerConfig(FairseqTransformerConfig):
    r"""
    Identical to [`FairseqTransformerConfig`] except:

    - the output of self-attention is multiplied by a learned sigmoid(beta) in every layer (section 3, Algorithm 1).
    """

    model_type = "sag_transformer"
    title = "the Transformer with a self-attention gate (SAG) of Chaabouni et al. 2021"
    paper = "chaabouni2021"

    self_attention_gate: bool = True


@strict
class SagConvTransformerConfig(SagTransformerConfig):
    r"""
    Identical to [`SagTransformerConfig`] except:

    - a convolution stands where self-attention stood (section 3).
    """

    model_type = "sag_conv_transformer"
    title = "the gated Transformer with convolution as self-attention of Chaabouni et al. 2021"
    paper = "chaabouni2021"

    self_attention: Literal["full", "fixed_span", "t5", "convolution"] = "convolution"


@strict
class SagFixedSpanTransformerConfig(SagTransformerConfig):
    r"""
    Identical to [`SagTransformerConfig`] except:

    - self-attention reaches `attention_span` positions to each side, in the decoder to the left (section 3).
    """

    model_type = "sag_fixed_span_transformer"
    title = "the gated Transformer with fixed-span self-attention of Chaabouni et al. 2021"
    paper = "chaabouni2021"

    self_attention: Literal["full", "fixed_span", "t5", "convolution"] = "fixed_span"


@strict
class SagT5TransformerConfig(SagTransformerConfig):
    r"""
    Identical to [`SagTransformerConfig`] except:

    - each head of each layer adds a learned bias for the signed distance to its scores (section 3).
    """

    model_type = "sag_t5_transformer"
    title = "the gated Transformer with T5 attention of Chaabouni et al. 2021"
    paper = "chaabouni2021"

    self_attention: Literal["full", "fixed_span", "t5", "convolution"] = "t5"


__all__ = [
    "FairseqTransformerConfig",
    "SagConvTransformerConfig",
    "SagFixedSpanTransformerConfig",
    "SagT5TransformerConfig",
    "SagTransformerConfig",
]
