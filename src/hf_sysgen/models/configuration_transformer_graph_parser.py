"""Configuration of the Transformer that predicts graphs over words, a baseline of Bergen et al. 2021."""

from typing import Literal

from huggingface_hub.dataclasses import strict

from .configuration_sentence_encoder import SentenceEncoderConfig


@strict
class TransformerGraphParserConfig(SentenceEncoderConfig):
    r"""
    Transformer encoder with labels for every word and attention to its parent (Ontanon et al. 2021). Without arguments:
    the "Universal Transformer - Attention Decoder" of Bergen et al. 2021, Table 4; the plain Transformer is
    `share_layers=False`.

    Sizes are those of [`SentenceEncoderConfig`].

    Args:
        num_roles, num_categories, num_noun_types, num_verbs: label sets of semantic graphs (COGS), padding's
            id 0 and "none" included.
    """

    model_type = "transformer_graph_parser"

    share_layers: bool = True
    position_scheme: Literal["absolute", "clipped_relative"] = "clipped_relative"
    num_roles: int = 9
    num_categories: int = 5
    num_noun_types: int = 4
    num_verbs: int = 136

    def validate_architecture(self):
        super().validate_architecture()
        self.check_sizes("num_roles", "num_categories", "num_noun_types", "num_verbs")


__all__ = ["TransformerGraphParserConfig"]
