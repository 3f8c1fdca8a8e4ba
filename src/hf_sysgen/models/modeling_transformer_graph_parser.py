"""The Transformer of Ontanon et al. 2021 that predicts graphs over words, a baseline of Bergen et al. 2021."""

# B batch, N words, E model width

import math

import torch

from .base import SysgenPreTrainedModel
from .configuration_transformer_graph_parser import TransformerGraphParserConfig
from .linear import UniformLinear
from .sentence_encoder import ClippedDistances, SentenceTransformer
from .word_graph import WordGraphHeads


class TransformerGraphParserModel(SentenceTransformer):
    """The encoder without a head."""

    config_class = TransformerGraphParserConfig
    _keys_to_ignore_on_load_unexpected = [r"^\w+_(head|query|key|distances)\."]  # noqa: RUF012


class TransformerForGraphParsing(WordGraphHeads, SysgenPreTrainedModel):
    """
    Semantic graphs over tokens (COGS): role, category, noun type and verb from a token's state; its parent is what one
    head of attention, with its own distances, looks at most ("attention decoder").
    """

    config_class = TransformerGraphParserConfig
    _no_split_modules = ["SentenceLayer"]  # noqa: RUF012
    _supports_sdpa = True

    def __init__(self, config):
        super().__init__(config)
        self.model = TransformerGraphParserModel(config)
        self.add_heads(config)
        width = config.hidden_size
        self.parent_query = UniformLinear(width, width, math.sqrt(3 / width), zero_bias=True)
        self.parent_key = UniformLinear(width, width, math.sqrt(3 / width), zero_bias=True)
        is_relative = config.position_scheme == "clipped_relative"
        self.parent_distances = ClippedDistances(config.max_relative_distance, width) if is_relative else None
        self.post_init()

    def read(self, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        query, key = self.parent_query(states), self.parent_key(states)  # (B, N, E)
        scores = query @ key.transpose(1, 2)  # (B, child, parent)
        if self.parent_distances is not None:
            scores = scores + self.parent_distances(query, key.shape[1])
        return states, scores / math.sqrt(states.shape[-1])


__all__ = ["TransformerForGraphParsing", "TransformerGraphParserModel"]
