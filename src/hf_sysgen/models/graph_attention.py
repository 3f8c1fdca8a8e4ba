"""Attention along the labelled edges of a graph (Velickovic et al. 2018, as Sinha et al. 2019 use it)."""

# B batch, N nodes, H heads, I width of a node before and E after a layer, L width of an edge

import math

import torch
from torch import nn
from transformers import initialization as init
from transformers.modeling_layers import GradientCheckpointingLayer

from .dropout import dropout
from .linear import UniformLinear


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
        self.node_proj = UniformLinear(width, heads * width, math.sqrt(6 / (width + heads * width)), bias=False)
        self.attention = nn.Parameter(torch.zeros(heads, 2 * width + edge))
        self.o_proj = UniformLinear(width + edge, width, math.sqrt(6 / (2 * width + edge)), zero_bias=True)

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
