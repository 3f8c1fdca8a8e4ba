"""Configurations of parsers of one sentence, baselines of Bergen et al. 2021."""

from typing import Literal

from huggingface_hub.dataclasses import strict

from .checked_config import CheckedConfig
from .configuration_encoder_decoder import StackSettings


@strict
class SentenceEncoderConfig(CheckedConfig):
    r"""
    Sizes of an encoder of words, after the one in which Ontañón et al. 2022 ("Making Transformers Solve Compositional
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
        attention_dropout, activation_dropout: on attention weights, and inside the feed-forward block: Ontañón et al.
            have neither.
        layer_norm_eps: epsilon of every LayerNorm.
        pad_token_id: padding is read from masks, never from an id.

    Errors as in [`CheckedConfig`].
    """

    # names that an encoder-decoder's encoder uses
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


@strict
class TransformerGraphParserConfig(SentenceEncoderConfig):
    r"""
    Transformer encoder with labels for every word and attention to its parent (Ontañón et al. 2022). Without arguments:
    the "Universal Transformer - Attention Decoder" of Bergen et al. 2021, Table 4; the plain Transformer is
    `share_layers=False`.

    Sizes are those of [`SentenceEncoderConfig`].

    Args:
        num_roles, num_categories, num_noun_types, num_verbs: label sets of semantic graphs (COGS), padding's
            id 0 and "none" included.
    """

    model_type = "transformer_graph_parser"
    title = "the Transformer that predicts graphs over words, a baseline of Bergen et al. 2021"
    paper = "bergen2021"
    from_data = {  # noqa: RUF012
        **SentenceEncoderConfig.from_data,
        "num_roles": "the benchmark's labels",
        "num_categories": "the benchmark's labels",
        "num_noun_types": "the benchmark's labels",
        "num_verbs": "the benchmark's labels",
    }

    share_layers: bool = True
    position_scheme: Literal["absolute", "clipped_relative"] = "clipped_relative"
    num_roles: int = 9
    num_categories: int = 5
    num_noun_types: int = 4
    num_verbs: int = 136

    def validate_architecture(self):
        super().validate_architecture()
        self.check_sizes("num_roles", "num_categories", "num_noun_types", "num_verbs")


@strict
class BiaffineDependencyParserConfig(SentenceEncoderConfig):
    r"""
    An encoder of words, and scores of every pair of words that are biaffine in their states (Dozat & Manning 2017).
    Without arguments: the Transformer of Bergen et al. 2021 on CFQ (Table 1); the Universal Transformer is
    `share_layers=True, num_hidden_layers=8`. The paper does not give the encoder's other settings.

    Sizes are those of [`SentenceEncoderConfig`].

    Args:
        encoder: `"transformer"`, or `"bilstm"`: LSTM layers in both directions, `hidden_size / 2` units each, which
            have neither heads nor positions nor a feed-forward block.
        biaffine_size: width of a word as dependent and as head before they meet (400 in Stanza's parser).
        biaffine_dropout: on the vectors of these two.
        objective: `"pairs"` gives every pair a label or "no arc", as Bergen et al. train (section 4.2); `"heads"`
            chooses the head of each word, and a label given the head (Dozat & Manning 2017; Stanza).

    The number of labels, of which 0 means "no arc", is `num_labels`.
    """

    model_type = "biaffine_dependency_parser"
    title = "dependency parsers with a biaffine head, baselines of Bergen et al. 2021"
    paper = "bergen2021"
    no_effect = {  # noqa: RUF012
        **SentenceEncoderConfig.no_effect,
        "position_scheme": ("encoder", ("bilstm",)),
        "num_attention_heads": ("encoder", ("bilstm",)),
        "intermediate_size": ("encoder", ("bilstm",)),
        "layer_norm_eps": ("encoder", ("bilstm",)),
        "attention_dropout": ("encoder", ("bilstm",)),
        "activation_dropout": ("encoder", ("bilstm",)),
    }

    hidden_size: int = 360
    num_hidden_layers: int = 7
    encoder: Literal["transformer", "bilstm"] = "transformer"
    biaffine_size: int = 400
    biaffine_dropout: float | int = 0.1
    objective: Literal["pairs", "heads"] = "pairs"

    @property
    def has_attention(self) -> bool:
        return self.encoder == "transformer"

    def validate_architecture(self):
        super().validate_architecture()
        self.check_sizes("biaffine_size")
        self.check_probabilities("biaffine_dropout")
        if self.num_labels < 2:
            raise ValueError(f"num_labels={self.num_labels} must be at least 2: 'no arc' and a label")
        if self.encoder == "bilstm" and self.share_layers:
            raise ValueError("share_layers=True does not go with encoder='bilstm', whose layers are its own")
        if self.encoder == "bilstm" and self.hidden_size % 2:
            raise ValueError(
                f"hidden_size={self.hidden_size} must be even: encoder='bilstm' has half in each direction"
            )


__all__ = [
    "BiaffineDependencyParserConfig",
    "TransformerGraphParserConfig",
]
