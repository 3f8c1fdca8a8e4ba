"""Configuration of dependency parsers with a biaffine head, baselines of Bergen et al. 2021."""

from typing import Literal

from huggingface_hub.dataclasses import strict

from .configuration_sentence_encoder import SentenceEncoderConfig


@strict
class BiaffineDependencyParserConfig(SentenceEncoderConfig):
    r"""
    An encoder of words, and scores of every pair of words that are biaffine in their states (Dozat & Manning 2017).
    Without arguments: the Transformer of Bergen et al. 2021 on CFQ (Table 1); the Universal Transformer is
    `share_layers=True, num_hidden_layers=8`. What else an encoder needs, the paper leaves open.

    Sizes are those of [`SentenceEncoderConfig`].

    Args:
        encoder: `"transformer"`, or `"bilstm"`: LSTM layers in both directions, `hidden_size / 2` units each, which
            have neither heads nor positions nor a feed-forward block.
        biaffine_size: width of a word as dependent and as head before they meet (400 in Stanza's parser).
        biaffine_dropout: on these.
        objective: `"pairs"` gives every pair a label or "no arc", as Bergen et al. train (section 4.2); `"heads"`
            chooses the head of each word, and a label given the head (Dozat & Manning 2017; Stanza).

    The number of labels, of which 0 means "no arc", is `num_labels`.
    """

    model_type = "biaffine_dependency_parser"
    no_effect = {  # noqa: RUF012
        **SentenceEncoderConfig.no_effect,
        "position_scheme": ("encoder", ("bilstm",)),
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


__all__ = ["BiaffineDependencyParserConfig"]
