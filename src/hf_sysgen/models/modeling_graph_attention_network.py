"""The graph attention network on CLUTRR, a baseline of Sinha et al. 2019 that Bergen et al. 2021 quote in Figure 3."""

# B batch, N nodes, H heads, I width of a node before and E after a layer, L width of an edge

import math

import torch
from torch import nn
from transformers import initialization as init
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutput, SequenceClassifierOutput
from transformers.utils import can_return_tuple
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .base import SysgenPreTrainedModel
from .configuration_graph_attention_network import GraphAttentionNetworkConfig
from .dropout import dropout
from .linear import uniform_linear
from .positions import TokenEmbedding
from .readout import Readout, RelationHead, node_states
from .registry import register


class GraphAttentionPreTrainedModel(SysgenPreTrainedModel):
    """Shared class attributes."""

    config_class = GraphAttentionNetworkConfig
    main_input_name = "edge_ids"
    _no_split_modules = ["GraphAttentionLayer"]  # noqa: RUF012


class GraphAttentionLayer(GradientCheckpointingLayer):
    """
    A node i gathers from the nodes j that its edges (i, j) lead to, and from itself by a loop whose edge is zero:

        s_ij = LeakyReLU(a [W x_i; W x_j; e_ij]),  alpha = softmax of s_i over those j
        x'_i = U mean over heads of sum_j alpha_ij [W x_j; e_ij] + b

    with W and a of each head. W, a and U start Glorot-uniform, b at 0.
    """

    def __init__(self, config, is_last: bool):
        super().__init__()
        width, edge = config.hidden_size, config.edge_size
        self.num_heads = heads = 1 if is_last else config.num_attention_heads
        self.negative_slope = config.negative_slope
        self.dropout = config.dropout
        self.attention_dropout = 0.0 if is_last else config.dropout
        self.node_proj = uniform_linear(width, heads * width, math.sqrt(6 / (width + heads * width)), bias=False)
        self.attention = nn.Parameter(torch.zeros(heads, 2 * width + edge))
        self.o_proj = uniform_linear(width + edge, width, math.sqrt(6 / (2 * width + edge)), zero_bias=True)

    def reset_weights(self):
        bound = math.sqrt(6 / sum(self.attention.shape))
        init.uniform_(self.attention, -bound, bound)

    def forward(
        self, nodes: torch.Tensor, edges: torch.Tensor, neighbours: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """
        Args:
            nodes: shape (B, N, I).
            edges: shape (B, N, N, L), zero where there is none and on loops.
            neighbours: shape (B, N, N), boolean: what each node gathers from.

        Returns:
            nodes (B, N, E) and weights (B, H, N, N).
        """
        nodes = dropout(nodes, self.dropout, self.training)
        heads = self.node_proj(nodes).unflatten(-1, (self.num_heads, -1))  # (B, N, H, E)
        width = heads.shape[-1]
        own, other, edge = self.attention.split((width, width, edges.shape[-1]), dim=1)
        scores = (heads * own).sum(-1)[:, :, None] + (heads * other).sum(-1)[:, None]  # (B, N, N, H)
        scores = nn.functional.leaky_relu(scores + edges @ edge.T, self.negative_slope).permute(0, 3, 1, 2)
        scores = scores.masked_fill(~neighbours[:, None], torch.finfo(scores.dtype).min)
        weights = scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32)).to(heads.dtype)
        weights = dropout(weights, self.attention_dropout, self.training)
        gathered = torch.einsum("bhij,bjhe->bie", weights, heads)
        labels = torch.einsum("bhij,bijl->bil", weights, edges.to(weights.dtype))
        return self.o_proj(torch.cat((gathered, labels), dim=-1) / self.num_heads), weights


class FixedNodes(nn.Module):
    """Random vectors from N(0, 1) by the number of a node, which are saved and never trained."""

    weight: torch.Tensor

    def __init__(self, config):
        super().__init__()
        # this is no parameter, because loading makes parameters trainable. It is drawn here too, as by nn.Embedding, so
        # that a seed gives the layers after it the weights that it always gave
        self.register_buffer("weight", torch.randn(config.max_nodes, config.hidden_size))

    def reset_weights(self):
        init.normal_(self.weight)

    def forward(self, batch: int, count: int) -> torch.Tensor:
        """
        (batch, count, E); in training each graph draws `count` of all vectors in a random order.

        Raises:
            ValueError: for more nodes than vectors.
        """
        vectors = self.weight
        if count > len(vectors):
            raise ValueError(f"a graph of {count} nodes, but config.max_nodes={len(vectors)}")
        if not self.training:
            return vectors[:count].expand(batch, -1, -1)
        return vectors[torch.rand(batch, len(vectors), device=vectors.device).argsort(1)[:, :count]]


@register
class GraphAttentionNetworkModel(GraphAttentionPreTrainedModel):
    """Nodes of a graph. Without a head."""

    _keys_to_ignore_on_load_unexpected = [r"^classifier\."]  # noqa: RUF012  a checkpoint of the model with its head
    _can_record_outputs = {  # noqa: RUF012
        "hidden_states": GraphAttentionLayer,
        "attentions": OutputRecorder(GraphAttentionLayer, index=1),
    }

    def __init__(self, config):
        super().__init__(config)
        self.embed_edges = TokenEmbedding(config.edge_vocab_size, config.edge_size, "glorot_uniform")
        self.embed_nodes = FixedNodes(config) if config.node_init == "fixed" else None
        last = config.num_hidden_layers - 1
        self.layers = nn.ModuleList([GraphAttentionLayer(config, depth == last) for depth in range(last + 1)])
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.embed_edges

    def set_input_embeddings(self, value: nn.Module):
        self.embed_edges = value

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self, edge_ids: torch.LongTensor | None = None, node_mask: torch.Tensor | None = None, **kwargs
    ) -> BaseModelOutput:
        """
        Args:
            edge_ids: labels (B, N, N) of edges, 0 = no edge. Nodes gather along the edges given, not against them:
                whether the authors' graphs had edges backwards too is not known.
            node_mask: (B, N), 1 = real; padding has no edges.

        Returns:
            last_hidden_state (B, N, E).
        """
        if edge_ids is None:
            raise ValueError("give edge_ids, the labels (B, N, N) of all edges")
        batch, count, _ = edge_ids.shape
        is_edge = edge_ids != 0
        if node_mask is not None:
            real = node_mask.bool()
            is_edge = is_edge & real[:, None] & real[:, :, None]
        edges = self.embed_edges(edge_ids) * is_edge[..., None]
        loops = torch.eye(count, dtype=torch.bool, device=edge_ids.device)
        if self.embed_nodes is None:
            nodes = edges.new_zeros(batch, count, self.config.hidden_size)
        else:
            nodes = self.embed_nodes(batch, count)
        for depth, layer in enumerate(self.layers):
            nodes, _ = layer(nn.functional.elu(nodes) if depth else nodes, edges, is_edge | loops)
        return BaseModelOutput(last_hidden_state=nodes)


@register
class GraphAttentionNetworkForRelationClassification(RelationHead, GraphAttentionPreTrainedModel):
    """The relation from one node to another (CLUTRR), from the mean of all nodes and both of the pair."""

    def __init__(self, config):
        super().__init__(config)
        self.model = GraphAttentionNetworkModel(config)
        self.classifier = Readout(3 * config.hidden_size, config.num_labels)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        edge_ids: torch.LongTensor | None = None,
        node_mask: torch.Tensor | None = None,
        query: torch.LongTensor | None = None,
        labels: torch.LongTensor | None = None,
        **kwargs,
    ) -> SequenceClassifierOutput:
        """
        Arguments as in [`GraphAttentionNetworkModel`], and:

        Args:
            query: (B, 2), the first and the second node of the pair in question.
            labels: (B,), the right class, or -100.

        Returns:
            logits (B, num_labels) and, with labels, loss: mean cross-entropy in nats.
        """

        def read(nodes: torch.Tensor, first: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
            real = torch.ones_like(nodes[..., 0]) if node_mask is None else node_mask.to(nodes.dtype)
            mean = torch.einsum("bn,bne->be", real, nodes) / real.sum(1, keepdim=True).clamp(min=1)
            return torch.cat((mean, node_states(nodes, first, last)), dim=-1)

        return self.classify(read, query, labels, edge_ids, node_mask, **kwargs)


__all__ = ["GraphAttentionNetworkForRelationClassification", "GraphAttentionNetworkModel"]
