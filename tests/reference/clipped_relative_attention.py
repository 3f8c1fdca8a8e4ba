"""Self-attention with vectors and numbers for clipped distances, number by number (Shaw et al. 2018, keys alone)."""

from __future__ import annotations

import math

import torch


def distance_score(query: torch.Tensor, distance: int, table: torch.Tensor, largest: int) -> torch.Tensor:
    """A query (D,) times the vector of its distance from a key, plus the distance's number: table (2R + 1, D + 1)."""
    row = table[largest + max(-largest, min(largest, distance))]
    return sum(query[d] * row[d] for d in range(len(query))) + row[-1]


def clipped_relative_attention(
    words: list[torch.Tensor],
    projections: list[tuple[torch.Tensor, torch.Tensor]],
    merge: tuple[torch.Tensor, torch.Tensor],
    table: torch.Tensor,
    largest: int,
    heads: int,
) -> list[torch.Tensor]:
    """
    Args:
        words: the state (E,) of each real word.
        projections: weight (E, E) and bias (E,) of queries, keys and values; merge: of what all heads found.

    Returns:
        the update (E,) of each word.
    """
    query, key, value = ([weight @ word + bias for word in words] for weight, bias in projections)
    size = len(words[0]) // heads
    found = []
    for i in range(len(words)):
        joined = []
        for head in range(heads):
            part = slice(head * size, (head + 1) * size)
            scores = [
                (query[i][part] @ key[j][part] + distance_score(query[i][part], i - j, table, largest))
                / math.sqrt(size)
                for j in range(len(words))
            ]
            total = sum(score.exp() for score in scores)
            joined.append(sum(score.exp() / total * value[j][part] for j, score in enumerate(scores)))
        found.append(merge[0] @ torch.cat(joined) + merge[1])
    return found
