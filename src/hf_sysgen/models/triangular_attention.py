"""Triangular attention (Bergen et al. 2021, equations 4 to 9): the formula, its implementations, the module."""

# B batch, N nodes, I first, L middle and J last nodes of triangles i -> l -> j, H heads, D head width, E = H * D

import math

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from .dropout import dropout as apply_dropout
from .linear import uniform_linear
from .triangular_blocked import blocked_triangular_attention
from .triangular_kernels import can_run_triton, triton_triangular_attention


def mask_scores(scores: torch.Tensor, node_mask: torch.Tensor | None, source_length: int | None) -> torch.Tensor:
    """
    Scores (B, H, I, L, J) with the least number where a triangle does not count.

    No mask has all three indices: "l <= max(i, j)" is chosen from "l <= i" and "l <= j".

    Args:
        node_mask: (B, L), True = real: a triangle through padding does not count.
        source_length: with S source nodes before the target, i -> l -> j counts if l < S or l <= max(i, j), so that
            no state depends on later targets (cfq/model.py:256-259).
    """
    least = torch.finfo(scores.dtype).min
    if source_length is not None:
        first, middle, last = (torch.arange(size, device=scores.device) for size in scores.shape[2:])
        by_last = scores.masked_fill(middle[:, None] > last, least)
        seen = (middle < source_length) | (middle <= first[:, None])  # (I, L)
        scores = torch.where(seen[..., None], scores, by_last)
    if node_mask is not None:
        scores = scores.masked_fill(~node_mask[:, None, None, :, None], least)
    return scores


def reached_edges(node_mask: torch.Tensor, source_length: int | None) -> torch.Tensor:
    """Edges (i, j) of which some triangle i -> l -> j counts, broadcast to (B, I, J); arguments as of `mask_scores`."""
    if source_length is None:
        return node_mask.any(1)[:, None, None]
    positions = torch.arange(node_mask.shape[1], device=node_mask.device)
    # the first real node comes after so much padding
    earliest = (node_mask.int().cumsum(1) == 0).sum(1)[:, None, None]
    return (earliest < source_length) | (earliest <= torch.maximum(positions[:, None], positions))


def plain_triangular_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    left: torch.Tensor,
    right: torch.Tensor | None,
    node_mask: torch.Tensor | None = None,
    source_length: int | None = None,
    dropout: float = 0.0,
    attention_ablation: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    The formula itself, which holds several numbers for every triangle and head, and one for every channel.

    Scores are divided by sqrt(D), as the code runs, where equation 5 says sqrt(E) (clutrr/model.py:121). An edge that
    no triangle reaches gets zero; the authors give it a mean over padding, which nothing reads.

    Args:
        query, left: of edges (i, l), shape (B, I, L, H, D).
        key, right: of edges (l, j), shape (B, L, J, H, D). `right=None` is the value ablation; with the attention
            ablation `key` is of edges (i, j), shape (B, I, J, H, D).
        node_mask, source_length: as in [`mask_scores`].
        dropout: probability with which a weight is dropped.

    Returns:
        output (B, I, J, H, D) and weights (B, H, I, L, J).
    """
    query = query * (1 / math.sqrt(query.shape[-1]))
    scores = torch.einsum("bilhd,bijhd->bhilj" if attention_ablation else "bilhd,bljhd->bhilj", query, key)
    scores = mask_scores(scores, node_mask, source_length)
    weights = scores.softmax(dim=3, dtype=torch.promote_types(scores.dtype, torch.float32)).to(query.dtype)
    if node_mask is not None:
        # the weights of an edge without any triangle came out uniform
        weights = weights * reached_edges(node_mask, source_length)[:, None, :, None]
    dropped = apply_dropout(weights, dropout, training=True)
    if right is None:
        return torch.einsum("bhilj,bilhd->bijhd", dropped, left), weights
    values = left[:, :, :, None] * right[:, None]  # (B, I, L, J, H, D)
    return torch.einsum("bhilj,biljhd->bijhd", dropped, values), weights


def recomputed_triangular_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    left: torch.Tensor,
    right: torch.Tensor | None,
    node_mask: torch.Tensor | None,
    source_length: int | None,
    dropout: float,
    attention_ablation: bool,
) -> torch.Tensor:
    """The plain version of one example after the other, again in the backward pass: for the ablations."""
    outputs = []
    masks = [None] * len(query) if node_mask is None else node_mask.split(1)
    rights = [None] * len(query) if right is None else right.split(1)
    for row in zip(query.split(1), key.split(1), left.split(1), rights, masks, strict=True):
        options = (source_length, dropout, attention_ablation)
        output, _ = checkpoint(plain_triangular_attention, *row, *options, use_reentrant=False)
        outputs.append(output)
    return torch.cat(outputs)


# with an ablation, so few nodes are not worth a loop over examples
SMALL = 6
# numbers (B, N, N, N, H, D) up to which a GPU takes the plain version. With more it is still faster than blocks, but
# keeps several tensors of over 256 MiB in every round
PLAIN_NUMBERS = 2**26
# width of heads above which the kernels' backward pass is no faster than the plain version, as its tiles fill the
# registers
NARROW = 32


def chosen_implementation(
    configured: str, projected: torch.Tensor, ablated: bool, training: bool = False, with_weights: bool = False
) -> str:
    """What `"auto"` means for these projections (B, N, N, parts, H, D); any other value stays."""
    if configured != "auto":
        return configured
    if with_weights:
        return "plain"
    # an exported graph should hold no operator of ours, and the meta device has no time to save; PyTorch before 2026
    # calls a compiled graph exported too
    if torch.compiler.is_exporting() or projected.device.type == "meta":
        return "plain"
    batch, nodes, _, _, heads, width = projected.shape
    few = projected.device.type != "cpu" and batch * nodes**3 * heads * width <= PLAIN_NUMBERS
    # not by whether gradients are asked for: a reentrant checkpoint runs first without them, then with them
    if not ablated and can_run_triton(projected) and (width <= NARROW or not few or not training):
        return "triton"
    if ablated and torch.compiler.is_compiling():
        return "plain"  # a loop over examples would be unrolled
    if few or (ablated and nodes <= SMALL):
        return "plain"
    return "blocked"


class TriangularAttention(nn.Module):
    """
    Every edge (i, j) attends to the pairs of edges (i, l), (l, j). One matrix product makes query, key and both values;
    the projection that the released code computes and throws away (`linears.4`) does not exist.

    Weights start Glorot-uniform as E x E blocks; biases are drawn independently, where the authors' copies of one
    layer all start with the same ones.
    """

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.num_heads = config.num_attention_heads
        self.dropout = config.dropout
        self.parts = 3 if config.value_ablation else 4
        width = config.hidden_size
        bound = math.sqrt(3 / width)
        self.in_proj = uniform_linear(width, self.parts * width, bound, bias=config.attention_bias)
        self.o_proj = uniform_linear(width, width, bound, bias=config.attention_bias)

    def project(self, edges: torch.Tensor) -> torch.Tensor:
        """(..., E) -> query, key, left and, without the value ablation, right: (..., parts, H, D)."""
        return self.in_proj(edges).unflatten(-1, (self.parts, self.num_heads, -1))

    def split(self, projected: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """(..., parts, H, D) -> query, key, left, right of (..., H, D); right may be `None`."""
        parts = projected.unbind(-3)
        return parts if self.parts == 4 else (*parts, None)

    def forward(
        self,
        edges: torch.Tensor,
        node_mask: torch.Tensor | None = None,
        source_length: int | None = None,
        slot=None,
        with_weights: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """
        Args:
            edges: shape (B, N, N, E); or, with a slot that holds earlier edges, the 2N - 1 edges from and to the last
                node, shape (B, 2N - 1, E).
            node_mask, source_length: as in [`mask_scores`].
            slot: this round's part of an [`EdgeCache`], which is extended.
            with_weights: have `"auto"` take the plain implementation.

        Returns:
            output like `edges` and, from the plain implementation, weights (B, H, N, N, N).
        """
        projected = self.project(edges)
        if edges.dim() == 3:
            seen = slot.extend(self.split(projected))
            return self.o_proj(self.attend_last(seen, node_mask).flatten(2)), None
        if slot is not None:
            slot.fill(self.split(projected))
        ablated = self.config.value_ablation or self.config.attention_ablation
        implementation = chosen_implementation(
            self.config.triangular_implementation, projected, ablated, self.training, with_weights
        )
        rules = (node_mask, source_length, self.dropout if self.training else 0.0)
        weights = None
        if implementation == "triton":
            output = triton_triangular_attention(projected, *rules)
        elif implementation == "plain":
            parts = self.split(projected)
            output, weights = plain_triangular_attention(*parts, *rules, self.config.attention_ablation)
        elif ablated:
            parts = self.split(projected)
            output = recomputed_triangular_attention(*parts, *rules, self.config.attention_ablation)
        else:
            output = blocked_triangular_attention(projected, *rules)
        return self.o_proj(output.flatten(3)), weights

    def attend_last(self, projected: tuple, node_mask: torch.Tensor | None) -> torch.Tensor:
        """Output of the edges from the last node (N), then of those to it (N - 1): (B, 2N - 1, H, D)."""
        query, key, left, right = projected
        rest = query.shape[1] - 1
        ablated = self.config.attention_ablation
        keys = (key[:, rest:], key[:, :rest, rest:]) if ablated else (key, key[:, :, rest:])
        rights = (None, None) if right is None else (right, right[:, :, rest:])
        # the last node sees all nodes; nodes that see it see all nodes too
        options = {"node_mask": node_mask, "attention_ablation": ablated}
        from_last, _ = plain_triangular_attention(query[:, rest:], keys[0], left[:, rest:], rights[0], **options)
        to_last, _ = plain_triangular_attention(query[:, :rest], keys[1], left[:, :rest], rights[1], **options)
        return torch.cat((from_last.flatten(1, 2), to_last.flatten(1, 2)), dim=1)
