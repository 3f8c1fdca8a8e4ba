"""Configuration of the encoder-decoder Transformer of Csordas et al. 2021, "The Devil is in the Detail"."""

from typing import Literal

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig


@strict
class SysgenTransformerConfig(PreTrainedConfig):
    r"""
    Post-norm encoder-decoder Transformer. Without arguments: the paper's SCAN model (Table 4), 992,007 parameters.

    Token ids live in one space that the tokenizer owns. The decoder table covers ids `[0, vocab_size)`, the encoder
    table covers `[source_id_offset, source_id_offset + source_vocab_size)`; the two ranges overlap in the words that
    both languages use. A joint vocabulary is `source_id_offset=0`.

    Args:
        vocab_size: rows of the decoder table: target words and the symbol that is both SOS and EOS.
        source_vocab_size: rows of the encoder table: source words, EOS and the encoder's own SOS.
        source_id_offset: first token id that the encoder table covers.
        hidden_size: model width `d_model`, also the width of all heads together.
        intermediate_size: feed-forward width `d_FF`.
        num_attention_heads: heads; must divide `hidden_size`.
        encoder_layers, decoder_layers: depth of each stack, counted in applications.
        share_layers: one layer per stack, applied at every depth (the paper's "universal" variants).
        position_scheme: `"absolute"` adds sinusoids to the embeddings; `"relative"` scores signed distances inside
            self-attention (Appendix C; Dai et al. 2019) and adds nothing to the embeddings.
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
        layer_norm_eps: epsilon of every LayerNorm.
        pad_token_id, eos_token_id, decoder_start_token_id: `None` means `vocab_size - 1`: the decoder starts from
            the symbol it ends with. Padding is known from attention masks, never from an id.

    Raises:
        huggingface_hub.errors.StrictDataclassClassValidationError: for sizes or settings that contradict each other,
            with both values.
        huggingface_hub.errors.StrictDataclassFieldValidationError: for a value of the wrong type.
    """

    model_type = "sysgen_transformer"
    keys_to_ignore_at_inference = ["past_key_values"]  # noqa: RUF012
    attribute_map = {"num_hidden_layers": "encoder_layers"}  # noqa: RUF012

    vocab_size: int = 7
    source_vocab_size: int = 15
    source_id_offset: int = 0
    hidden_size: int = 128
    intermediate_size: int = 256
    num_attention_heads: int = 8
    encoder_layers: int = 3
    decoder_layers: int = 3
    share_layers: bool = False
    position_scheme: Literal["absolute", "relative"] = "absolute"
    embedding_scaling: Literal["none", "teu", "ped"] = "ped"
    embedding_init: Literal["normal", "kaiming_normal", "scaled_normal", "glorot_uniform"] | None = None
    attention_scale: Literal["head_dim", "hidden_size"] = "head_dim"
    dropout: float | int = 0.1
    layer_norm_eps: float = 1e-5
    use_cache: bool = True
    is_encoder_decoder: bool = True
    tie_word_embeddings: bool = True
    pad_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    decoder_start_token_id: int | None = None

    def __post_init__(self, **kwargs):
        last = self.vocab_size - 1
        self.pad_token_id = last if self.pad_token_id is None else self.pad_token_id
        self.eos_token_id = last if self.eos_token_id is None else self.eos_token_id
        self.decoder_start_token_id = last if self.decoder_start_token_id is None else self.decoder_start_token_id
        if self.embedding_init is None:
            by_scaling = {"none": "normal", "ped": "kaiming_normal", "teu": "glorot_uniform"}
            relative = self.position_scheme == "relative"
            self.embedding_init = "glorot_uniform" if relative else by_scaling[self.embedding_scaling]
        super().__post_init__(**kwargs)

    def validate_architecture(self):
        for name in ("vocab_size", "source_vocab_size", "hidden_size", "intermediate_size", "num_attention_heads",
                     "encoder_layers", "decoder_layers"):  # fmt: skip
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        if self.source_id_offset < 0:
            raise ValueError(f"source_id_offset={self.source_id_offset} must not be negative")
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size={self.hidden_size} is not a multiple of num_attention_heads={self.num_attention_heads}"
            )
        if self.hidden_size % 2:
            raise ValueError(f"hidden_size={self.hidden_size} must be even: sinusoids come in sine/cosine pairs")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout={self.dropout} must be in [0, 1)")
        if self.position_scheme == "relative" and self.embedding_scaling == "ped":
            raise ValueError(
                "embedding_scaling='ped' scales absolute positions, but position_scheme='relative' adds none; "
                "use embedding_scaling='none' or 'teu'"
            )


__all__ = ["SysgenTransformerConfig"]
