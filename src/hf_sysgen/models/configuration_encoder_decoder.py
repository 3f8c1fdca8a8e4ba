"""Base configurations of sequence-to-sequence models."""

from typing import NamedTuple

from huggingface_hub.dataclasses import strict

from .checked_config import CheckedConfig


class StackSettings(NamedTuple):
    """
    Sizes and options of the layers of one stack.

    Attributes:
        hidden_size, intermediate_size, num_attention_heads: as in [`EncoderDecoderConfig`].
        score_width: attention scores are divided by its square root.
        attention_dropout, activation_dropout, dropout: on attention weights, after the feed-forward block's ReLU, and
            everywhere else.
        normalize_before: LayerNorm stands before each sub-layer instead of after its residual.
        final_norm: a LayerNorm follows the last layer.
        embedding_init: how the table starts, see [`TokenEmbedding`].
        zero_id: token whose row starts as zeros.
    """

    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    score_width: int
    attention_dropout: float
    activation_dropout: float
    dropout: float
    normalize_before: bool = False
    final_norm: bool = False
    embedding_init: str = "scaled_normal"
    zero_id: int | None = None


@strict
class Seq2SeqConfig(CheckedConfig):
    r"""
    Vocabularies, special ids and sizes of a sequence-to-sequence model.

    Token ids live in one space that the tokenizer owns. The decoder table covers ids `[0, vocab_size)`, the encoder
    table covers `[source_id_offset, source_id_offset + source_vocab_size)`; the two ranges overlap in the words that
    both languages use. A joint vocabulary is `source_id_offset=0`.

    Attributes:
        source_starts: whether the authors put SOS before each source; the default of recipes.

    Args:
        vocab_size: rows of the decoder table: target words and the symbol that is both SOS and EOS.
        source_vocab_size: rows of the encoder table: source words, EOS and, where a paper has one, the encoder's SOS.
        source_id_offset: first token id that the encoder table covers.
        hidden_size: model width.
        encoder_layers, decoder_layers: depth of each stack.
        dropout: probability of zeroing an element, at every place with dropout.
        pad_token_id, eos_token_id, decoder_start_token_id: `None` means `vocab_size - 1`: the decoder starts with
            EOS. Padding is read from attention masks, never from an id.

    Errors as in [`CheckedConfig`].
    """

    attribute_map = {"num_hidden_layers": "encoder_layers"}  # noqa: RUF012
    source_starts = True
    from_data = {  # noqa: RUF012
        **CheckedConfig.from_data,
        "source_vocab_size": "the benchmark's words",
        "source_id_offset": "the benchmark's words",
    }

    vocab_size: int = 7
    source_vocab_size: int = 15
    source_id_offset: int = 0
    hidden_size: int = 128
    encoder_layers: int = 3
    decoder_layers: int = 3
    dropout: float | int = 0.1
    use_cache: bool = True
    is_encoder_decoder: bool = True
    tie_word_embeddings: bool = False
    pad_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    decoder_start_token_id: int | None = None

    def __post_init__(self, **kwargs):
        last = self.vocab_size - 1
        self.pad_token_id = last if self.pad_token_id is None else self.pad_token_id
        self.eos_token_id = last if self.eos_token_id is None else self.eos_token_id
        self.decoder_start_token_id = last if self.decoder_start_token_id is None else self.decoder_start_token_id
        super().__post_init__(**kwargs)

    @property
    def decoder_rows(self) -> int:
        """Rows of the decoder's table, of which the first `vocab_size` are its words'."""
        return self.vocab_size

    def validate_architecture(self):
        self.check_sizes("vocab_size", "source_vocab_size", "hidden_size", "encoder_layers", "decoder_layers")
        if self.source_id_offset < 0:
            raise ValueError(f"source_id_offset={self.source_id_offset} must not be negative")
        self.check_probabilities("dropout")


@strict
class EncoderDecoderConfig(Seq2SeqConfig):
    r"""
    Sizes of an encoder-decoder model of attention layers. Vocabularies and special ids are those of
    [`Seq2SeqConfig`].

    Args:
        hidden_size: model width `d_model`, also the width of all heads together.
        intermediate_size: feed-forward width `d_FF`.
        num_attention_heads: heads; must divide `hidden_size`.
        encoder_layers, decoder_layers: depth of each stack, counted in applications.
        share_layers: one layer per stack, applied at every depth (a "universal" Transformer).
        layer_norm_eps: epsilon of every LayerNorm.
    """

    intermediate_size: int = 256
    num_attention_heads: int = 8
    share_layers: bool = False
    layer_norm_eps: float = 1e-5
    tie_word_embeddings: bool = True

    def stack_settings(self, is_decoder: bool) -> StackSettings:
        """Sizes and options of the encoder's or the decoder's layers."""
        return StackSettings(
            hidden_size=self.hidden_size,
            intermediate_size=self.intermediate_size,
            num_attention_heads=self.num_attention_heads,
            score_width=self.hidden_size // self.num_attention_heads,
            attention_dropout=self.dropout,
            activation_dropout=self.dropout,
            dropout=self.dropout,
        )

    def validate_architecture(self):
        super().validate_architecture()
        self.check_sizes("intermediate_size", "num_attention_heads")
        self.check_heads()
        self.check_sinusoids()


__all__ = ["EncoderDecoderConfig", "Seq2SeqConfig"]
