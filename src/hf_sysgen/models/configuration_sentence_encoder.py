"""What the configurations of models over the words of one sentence share."""

from typing import Literal

from huggingface_hub.dataclasses import strict

from .checked_config import CheckedConfig
from .configuration_encoder_decoder import StackSettings


@strict
class SentenceEncoderConfig(CheckedConfig):
    r"""
    Sizes of an encoder of words, after the one in which Ontanon et al. 2021 ("Making Transformers Solve Compositional
    Tasks") predict graphs: post-norm, biases everywhere, embeddings times sqrt(d).

    Args:
        vocab_size: words, padding and other symbols included.
        hidden_size: model width `d`, also the width of all heads together.
        intermediate_size: feed-forward width; `None` means `4 * hidden_size`.
        num_attention_heads: heads; must divide `hidden_size`.
        num_hidden_layers: depth, counted in applications.
        share_layers: one layer, applied at every depth (a "universal" Transformer).
        position_scheme: `"absolute"` adds sinusoids to the embeddings; `"clipped_relative"` gives every signed distance
            of a query from a key a vector, which the query is multiplied with, and a number, both added to the score
            (Shaw et al. 2018, without their values).
        max_relative_distance: distances beyond it share their vector and number.
        dropout: on embeddings and sub-layer outputs.
        attention_dropout, activation_dropout: on attention weights, and inside the feed-forward block: Ontanon et al.
            have neither.
        layer_norm_eps: epsilon of every LayerNorm.
        pad_token_id: padding is known from masks, never from an id.

    Raises:
        huggingface_hub.errors.StrictDataclassClassValidationError: for sizes or settings that contradict each other,
            with both values.
        huggingface_hub.errors.StrictDataclassFieldValidationError: for a value of the wrong type.
    """

    # the names under which an encoder-decoder's encoder asks for its sizes
    attribute_map = {"encoder_layers": "num_hidden_layers", "source_vocab_size": "vocab_size"}  # noqa: RUF012
    source_id_offset = 0
    no_effect = {"max_relative_distance": ("position_scheme", ("absolute",))}  # noqa: RUF012

    vocab_size: int = 746
    hidden_size: int = 64
    intermediate_size: int | None = None
    num_attention_heads: int = 4
    num_hidden_layers: int = 2
    share_layers: bool = False
    position_scheme: Literal["absolute", "clipped_relative"] = "absolute"
    max_relative_distance: int = 16
    dropout: float | int = 0.1
    attention_dropout: float | int = 0.0
    activation_dropout: float | int = 0.0
    layer_norm_eps: float = 1e-6
    tie_word_embeddings: bool = False
    pad_token_id: int | None = 0

    def __post_init__(self, **kwargs):
        if self.intermediate_size is None:
            self.intermediate_size = 4 * self.hidden_size
        super().__post_init__(**kwargs)

    @property
    def has_attention(self) -> bool:
        """Whether heads and positions are used at all."""
        return True

    def stack_settings(self, is_decoder: bool) -> StackSettings:
        """What the layers are built from."""
        return StackSettings(
            hidden_size=self.hidden_size,
            intermediate_size=self.intermediate_size,
            num_attention_heads=self.num_attention_heads,
            score_width=self.hidden_size // self.num_attention_heads,
            attention_dropout=self.attention_dropout,
            activation_dropout=self.activation_dropout,
            dropout=self.dropout,
            embedding_init="glorot_uniform",
        )

    def validate_architecture(self):
        self.check_sizes(
            "vocab_size", "hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers",
            "max_relative_distance",
        )  # fmt: skip
        if self.has_attention:
            self.check_heads()
            if self.position_scheme == "absolute":
                self.check_sinusoids()
        self.check_probabilities("dropout", "attention_dropout", "activation_dropout")
        self.check_untied()


__all__ = ["SentenceEncoderConfig"]
