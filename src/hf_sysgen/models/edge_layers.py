"""Layers of the Edge Transformer, and the state that enters them (Bergen et al. 2021, section 3)."""

# B batch, N nodes, E edge width, R largest distance, S source nodes

import math

import torch
from torch import nn
from transformers import initialization as init
from transformers.modeling_layers import GradientCheckpointingLayer

from .dropout import dropout
from .linear import uniform_linear
from .positions import TokenEmbedding
from .triangular_attention import TriangularAttention


class EdgeFeedForward(nn.Module):
    """Linear, ReLU, dropout, Linear on every edge: (..., E) -> (..., E). Weights start Glorot-uniform."""

    def __init__(self, config):
        super().__init__()
        self.dropout = config.dropout
        bound = math.sqrt(6 / (config.hidden_size + config.intermediate_size))
        self.fc1 = uniform_linear(config.hidden_size, config.intermediate_size, bound)
        self.fc2 = uniform_linear(config.intermediate_size, config.hidden_size, bound)

    def forward(self, edges: torch.Tensor) -> torch.Tensor:
        edges = nn.functional.relu(self.fc1(edges))
        return self.fc2(dropout(edges, self.dropout, self.training))


class EdgeLayer(GradientCheckpointingLayer):
    """
    One round. As released (clutrr/model.py:179-189): `y = LN(x); y = LN(y + attention(y)); y + feed_forward(y)`, so
    that the state before normalization is dropped. Equation 3: `feed_forward(LN(x + attention(LN(x))))`. In both,
    LayerNorm is the usual one over the channels of an edge, whatever the paper's wording.
    """

    def __init__(self, config):
        super().__init__()
        self.dropout = config.dropout
        self.is_released_form = config.layer_form == "released"
        self.attention_norm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.attention = TriangularAttention(config)
        self.feed_forward_norm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.feed_forward = EdgeFeedForward(config)

    def forward(
        self,
        edges: torch.Tensor,
        node_mask: torch.Tensor | None,
        source_length: int | None = None,
        slot=None,
        with_weights: bool = False,
    ) -> torch.Tensor:
        """Arguments as in [`TriangularAttention`]; returns states of the same shape as `edges`."""
        normed = self.attention_norm(edges)
        update, _ = self.attention(normed, node_mask, source_length, slot, with_weights)
        edges = (normed if self.is_released_form else edges) + dropout(update, self.dropout, self.training)
        edges = self.feed_forward_norm(edges)
        update = dropout(self.feed_forward(edges), self.dropout, self.training)
        return edges + update if self.is_released_form else update


class EdgeRounds(nn.Module):
    """
    `depth` rounds; one layer, applied again and again, where they share their weights. Every round reads them again:
    on a CPU less than a thousandth of a training batch's time, and about a hundredth of one short sentence's
    (perf/tied_rounds.py).
    """

    def __init__(self, config, depth: int):
        super().__init__()
        self.depth = depth
        self.layers = nn.ModuleList([EdgeLayer(config) for _ in range(1 if config.share_layers else depth)])

    def forward(
        self,
        edges: torch.Tensor,
        node_mask: torch.Tensor | None,
        source_length: int | None = None,
        cache=None,
        with_weights: bool = False,
    ) -> torch.Tensor:
        """As [`EdgeLayer`]; `cache` is an [`EdgeCache`], with a slot for every round."""
        for depth in range(self.depth):
            slot = None if cache is None else cache.layers[depth]
            edges = self.layers[depth % len(self.layers)](edges, node_mask, source_length, slot, with_weights)
        return edges


class WordEmbedding(nn.Embedding):
    """Token embeddings from N(0, 1); one row may be zero and stay so."""

    def __init__(self, config):
        super().__init__(config.vocab_size, config.hidden_size, padding_idx=config.frozen_token_id)

    def reset_weights(self):
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with torch.no_grad():
                init.zeros_(self.weight[self.padding_idx])


class BosVector(nn.Module):
    """A learned vector, zero at the start, added to the first real token of each row (cfq/model.py:174)."""

    def __init__(self, config):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(config.hidden_size))

    def reset_weights(self):
        init.zeros_(self.weight)

    def forward(self, embeddings: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """(B, N, E), and which tokens are real (B, N), by default all -> (B, N, E)."""
        if mask is None:
            return torch.cat((embeddings[:, :1] + self.weight, embeddings[:, 1:]), dim=1)
        batch, _, width = embeddings.shape
        first = mask.int().argmax(1)[:, None, None].expand(-1, 1, width)
        added = torch.zeros_like(embeddings).scatter(1, first, self.weight.to(embeddings.dtype).expand(batch, 1, -1))
        return embeddings + added


class RelationTable(TokenEmbedding):
    """
    Embeddings of signed distances clipped to +-R, row R + distance; with a source beside the sequence also of its
    edges to the sequence (row 2R + 1) and back (row 2R + 2; cfq/model.py:131-138). Glorot-uniform.
    """

    def __init__(self, config, has_source: bool = False):
        self.largest = config.max_relative_distance
        rows = 2 * self.largest + (3 if has_source else 1)
        super().__init__(rows, config.hidden_size, "glorot_uniform")

    def between(self, first: torch.Tensor, last: torch.Tensor, source_length: int = 0) -> torch.Tensor:
        """
        Relations from nodes `first` (I,) to nodes `last` (J,): (I, J, E).

        The distance is that of the last from the first node (cogs/model.py:270-289; the paper writes it the other way
        round). Nodes below `source_length` are the source's.
        """
        distance = last - first[:, None]
        rows = self.largest + distance.clamp(-self.largest, self.largest)
        if source_length:
            from_source, to_source = first[:, None] < source_length, last < source_length
            rows = torch.where(from_source & ~to_source, 2 * self.largest + 1, rows)
            rows = torch.where(~from_source & to_source, 2 * self.largest + 2, rows)
        return self(rows)


def add_to_loops(relations: torch.Tensor, embeddings: torch.Tensor) -> torch.Tensor:
    """Relations (N, N, E), and embeddings (B, N, E) added on loop edges: (B, N, N, E)."""
    # nothing is written in place, which cannot be exported to ONNX
    return relations.to(embeddings.dtype) + torch.diag_embed(embeddings.transpose(1, 2), dim1=1, dim2=2)


def loops(edges: torch.Tensor) -> torch.Tensor:
    """The states of loop edges: (B, N, N, E) -> (B, N, E)."""
    return edges.diagonal(dim1=1, dim2=2).transpose(1, 2)
