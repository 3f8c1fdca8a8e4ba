"""The Relation-aware Transformer on graphs (RAT), and the one that updates relations (RRAT): clutrr/rat.py."""

# B batch, N nodes, H heads, D head width, E = H * D model width

import math

import torch
from torch import nn
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutput, SequenceClassifierOutput
from transformers.utils import can_return_tuple
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .base import SysgenPreTrainedModel
from .configuration_relation_aware_transformer import RelationAwareTransformerConfig
from .dropout import dropout
from .edge_layers import EdgeFeedForward
from .linear import uniform_linear
from .positions import TokenEmbedding
from .readout import Readout, RelationHead, edge_state, node_states
from .registry import register


class RelationMaps(nn.Module):
    """What an edge adds to the keys and to the values of its nodes' attention."""

    def __init__(self, config):
        super().__init__()
        self.num_heads = config.num_attention_heads
        self.proj = uniform_linear(config.hidden_size, 2 * config.hidden_size, math.sqrt(3 / config.hidden_size))

    def forward(self, edges: torch.Tensor) -> torch.Tensor:
        """Edges (B, N, N, E) -> keys and values (B, N, N, 2, H, D)."""
        return self.proj(edges).unflatten(-1, (2, self.num_heads, -1))


class RelationAwareMixing(nn.Module):
    """
    Attention of nodes to nodes in which scores are `q_i (k_j + gk_ij) / sqrt(D)` and values `v_j + gv_ij`, with gk and
    gv from the edge (i, j). Weights start Glorot-uniform as E x E blocks.
    """

    def __init__(self, config):
        super().__init__()
        self.num_heads = config.num_attention_heads
        self.dropout = config.dropout
        width = config.hidden_size
        self.qkv_proj = uniform_linear(width, 3 * width, math.sqrt(3 / width))
        self.o_proj = uniform_linear(width, width, math.sqrt(3 / width))

    def forward(
        self, nodes: torch.Tensor, relations: torch.Tensor, node_mask: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """
        Args:
            nodes: shape (B, N, E).
            relations: from [`RelationMaps`].
            node_mask: (B, N), True = real.

        Returns:
            output (B, N, E), weights (B, H, N, N), and the heads before their projection (B, N, E).
        """
        query, node_maps = self.qkv_proj(nodes).unflatten(-1, (3, self.num_heads, -1)).split((1, 2), dim=2)
        # with few nodes, elementwise products and sums are several times faster than many small matrix products
        keys, values = (relations + node_maps[:, None]).unbind(3)  # (B, N, N, H, D)
        scores = (query * (1 / math.sqrt(query.shape[-1])) * keys).sum(-1)  # (B, N, N, H)
        if node_mask is not None:
            scores = scores.masked_fill(~node_mask[:, None, :, None], torch.finfo(scores.dtype).min)
        weights = scores.softmax(2, dtype=torch.promote_types(scores.dtype, torch.float32)).to(query.dtype)
        weights = dropout(weights, self.dropout, self.training)
        heads = (weights[..., None] * values).sum(2).flatten(2)
        weights = weights.permute(0, 3, 1, 2)
        return self.o_proj(heads), weights, heads


class Update(nn.Module):
    """Post-norm: x = LN(x + update), then x = LN(x + feed_forward(x)), with dropout on both updates."""

    def __init__(self, config):
        super().__init__()
        self.dropout = config.dropout
        self.norm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.feed_forward = EdgeFeedForward(config)
        self.feed_forward_norm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, states: torch.Tensor, update: torch.Tensor) -> torch.Tensor:
        """Both (..., E)."""
        states = self.norm(states + dropout(update, self.dropout, self.training))
        update = self.feed_forward(states)
        return self.feed_forward_norm(states + dropout(update, self.dropout, self.training))


class RelationAwareLayer(GradientCheckpointingLayer):
    """Updates nodes; in RRAT also edges, by a linear map of what their two nodes' heads gathered (rat.py:100-107)."""

    def __init__(self, config):
        super().__init__()
        self.mixing = RelationAwareMixing(config)
        self.node_update = Update(config)
        if config.update_relations:
            width = config.hidden_size
            self.relation_maps = RelationMaps(config)
            self.first_proj = uniform_linear(width, width, math.sqrt(3 / width))
            self.last_proj = uniform_linear(width, width, math.sqrt(3 / width))
            self.edge_update = Update(config)
        self.update_relations = config.update_relations

    def forward(
        self, nodes: torch.Tensor, edges: torch.Tensor, node_mask: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Nodes (B, N, E), and edges: of RRAT states (B, N, N, E), of RAT what [`RelationMaps`] made of them."""
        relations = self.relation_maps(edges) if self.update_relations else edges
        update, _, heads = self.mixing(nodes, relations, node_mask)
        nodes = self.node_update(nodes, update)
        if self.update_relations:
            edges = self.edge_update(edges, self.first_proj(heads)[:, :, None] + self.last_proj(heads)[:, None])
        return nodes, edges


class RelationAwarePreTrainedModel(SysgenPreTrainedModel):
    """Shared class attributes."""

    config_class = RelationAwareTransformerConfig
    main_input_name = "edge_ids"
    _no_split_modules = ["RelationAwareLayer"]  # noqa: RUF012


@register
class RelationAwareTransformerModel(RelationAwarePreTrainedModel):
    """Nodes, and in RRAT edges, of a graph. Without a head."""

    _keys_to_ignore_on_load_unexpected = [r"^classifier\."]  # noqa: RUF012  a checkpoint of the model with its head
    _can_record_outputs = {  # noqa: RUF012
        "hidden_states": RelationAwareLayer,
        "attentions": OutputRecorder(RelationAwareMixing, index=1, layer_name="mixing"),
    }

    def __init__(self, config):
        super().__init__(config)
        self.embed_edges = TokenEmbedding(config.edge_vocab_size, config.hidden_size, "glorot_uniform")
        # RAT makes these maps once for all depths, also where layers differ (rat.py:215-219)
        self.relation_maps = None if config.update_relations else RelationMaps(config)
        distinct = 1 if config.share_layers else config.num_hidden_layers
        self.layers = nn.ModuleList([RelationAwareLayer(config) for _ in range(distinct)])
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.embed_edges

    def set_input_embeddings(self, value: nn.Module):
        self.embed_edges = value

    def first_nodes(self, edges: torch.Tensor) -> torch.Tensor:
        """Edges (B, N, N, E) -> nodes (B, N, E) before the first layer."""
        shape = (*edges.shape[:2], edges.shape[3])
        return edges.new_zeros(shape) if self.config.node_init == "zeros" else torch.rand_like(edges[:, :, 0])

    @merge_with_config_defaults
    @capture_outputs(tie_last_hidden_states=False)
    def forward(
        self,
        edge_ids: torch.LongTensor | None = None,
        node_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs,
    ) -> BaseModelOutput:
        """
        Args:
            edge_ids: labels (B, N, N) of edges; or inputs_embeds, their states (B, N, N, E).
            node_mask: (B, N), 1 = real.

        Returns:
            last_hidden_state: nodes (B, N, E), of RRAT edges (B, N, N, E). hidden_states, where asked for, are those
            of nodes in both: before the first layer and after each.
        """
        if (edge_ids is None) == (inputs_embeds is None):
            raise ValueError("give exactly one of edge_ids and inputs_embeds")
        edges = self.embed_edges(edge_ids) if inputs_embeds is None else inputs_embeds
        nodes = self.first_nodes(edges)
        mask = None if node_mask is None else node_mask.bool()
        if self.relation_maps is not None:
            edges = self.relation_maps(edges)
        for depth in range(self.config.num_hidden_layers):
            nodes, edges = self.layers[depth % len(self.layers)](nodes, edges, mask)
        return BaseModelOutput(last_hidden_state=edges if self.config.update_relations else nodes)


@register
class RelationAwareTransformerForRelationClassification(RelationHead, RelationAwarePreTrainedModel):
    """The relation from one node to another (CLUTRR), from both nodes, or in RRAT from their edge."""

    def __init__(self, config):
        super().__init__(config)
        self.model = RelationAwareTransformerModel(config)
        self.classifier = Readout((1 if config.update_relations else 2) * config.hidden_size, config.num_labels)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        edge_ids: torch.LongTensor | None = None,
        node_mask: torch.Tensor | None = None,
        query: torch.LongTensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.LongTensor | None = None,
        **kwargs,
    ) -> SequenceClassifierOutput:
        """
        Arguments as in [`RelationAwareTransformerModel`], and:

        Args:
            query: (B, 2), the first and the second node of the pair in question.
            labels: (B,), the right class, or -100.

        Returns:
            logits (B, num_labels) and, with labels, loss: mean cross-entropy in nats.
        """
        read = edge_state if self.config.update_relations else node_states
        return self.classify(read, query, labels, edge_ids, node_mask, inputs_embeds, **kwargs)


__all__ = ["RelationAwareTransformerForRelationClassification", "RelationAwareTransformerModel"]
