"""Attention along the edges of a graph, node by node (Velickovic et al. 2018, section 2.1, with labels on edges)."""

from __future__ import annotations

import torch


def graph_attention(
    nodes: list[torch.Tensor],
    edges: dict[tuple[int, int], torch.Tensor],
    maps: list[torch.Tensor],
    vectors: list[torch.Tensor],
    update: torch.Tensor,
    bias: torch.Tensor,
    slope: float,
) -> list[torch.Tensor]:
    """
    Args:
        nodes: the state (I,) of each node.
        edges: the vector (L,) of the edge from one node to another, where there is one.
        maps, vectors: of each head W (E, I) and a (2E + L,).
        update, bias: of all heads together, (E, E + L) and (E,).
        slope: LeakyReLU's below zero.

    Returns:
        the new state (E,) of each node.
    """
    width = update.shape[1]
    no_edge = torch.zeros(width - len(bias), dtype=bias.dtype)
    found = []
    for i in range(len(nodes)):
        messages = torch.zeros(width, dtype=bias.dtype)
        for weight, vector in zip(maps, vectors, strict=True):
            scores, contents = [], []
            for j in range(len(nodes)):
                if i != j and (i, j) not in edges:
                    continue
                edge = edges.get((i, j), no_edge)
                parts = torch.cat((weight @ nodes[i], weight @ nodes[j], edge))
                score = sum((vector[c] * parts[c] for c in range(len(parts))), start=torch.zeros((), dtype=bias.dtype))
                scores.append(score if score > 0 else slope * score)
                contents.append(torch.cat((weight @ nodes[j], edge)))
            total = sum(score.exp() for score in scores)
            for score, content in zip(scores, contents, strict=True):
                messages = messages + score.exp() / total * content
        found.append(update @ (messages / len(maps)) + bias)
    return found
