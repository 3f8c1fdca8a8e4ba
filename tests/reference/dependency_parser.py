"""Biaffine scores of pairs of words, and what is learnt from them, number by number (Dozat & Manning 2017)."""

from __future__ import annotations

import torch


def biaffine(
    words: list[torch.Tensor],
    dependent: tuple[torch.Tensor, torch.Tensor],
    head: tuple[torch.Tensor, torch.Tensor],
    forms: torch.Tensor,
) -> dict[tuple[int, int, int], torch.Tensor]:
    """
    Args:
        words: the state (E,) of each word.
        dependent, head: weight (D, E) and bias (D,) of the layer before the ReLU.
        forms: a bilinear form (D + 1, D + 1) for each score, whose last row and column meet a one.

    Returns:
        the scores by (dependent, head, number of the form).
    """

    def projected(word: torch.Tensor, layer: tuple[torch.Tensor, torch.Tensor]) -> list[torch.Tensor]:
        weight, bias = layer
        sums = [sum(weight[d, e] * word[e] for e in range(len(word))) + bias[d] for d in range(len(bias))]
        return [value if value > 0 else value * 0 for value in sums] + [torch.ones((), dtype=word.dtype)]

    found = {}
    for i, one in enumerate(words):
        for j, other in enumerate(words):
            first, last = projected(one, dependent), projected(other, head)
            for number, form in enumerate(forms):
                found[i, j, number] = sum(
                    first[d] * form[d, e] * last[e] for d in range(len(first)) for e in range(len(last))
                )
    return found


def head_and_label_loss(
    arcs: dict[tuple[int, int, int], torch.Tensor],
    labels: dict[tuple[int, int, int], torch.Tensor],
    gold: dict[int, tuple[int, int]],
    words: int,
) -> torch.Tensor:
    """
    Mean in nats over words of minus the log-probability of the head among all other words, and of its label.

    Args:
        arcs, labels: scores by (dependent, head, number); labels are counted from 1 in `gold`.
        gold: head and label of a word.
    """
    total = 0
    count = 1 + max(number for _, _, number in labels)
    for word, (head, label) in gold.items():
        heads = sum(arcs[word, other, 0].exp() for other in range(words) if other != word)
        names = sum(labels[word, head, number].exp() for number in range(count))
        total = total - (arcs[word, head, 0].exp() / heads).log() - (labels[word, head, label - 1].exp() / names).log()
    return total / len(gold)
