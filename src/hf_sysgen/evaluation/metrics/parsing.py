"""Scores of dependency trees, and the best tree for given arc scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hf_sysgen.data.cfq.trees import is_tree
from hf_sysgen.errors import UserError
from hf_sysgen.evaluation.metrics.sequences import check_paired


def correct_heads(heads: Sequence[int], gold_heads: Sequence[int]) -> int:
    """Number of tokens with the right head: the numerator of UAS."""
    return sum(head == gold for head, gold in zip(heads, gold_heads, strict=True))


def correct_arcs(
    heads: Sequence[int], labels: Sequence[str], gold_heads: Sequence[int], gold_labels: Sequence[str]
) -> list[bool]:
    """Whether each token has the right head and label; LAS is their share. The part of a label after a colon is
    ignored, as in the metric of the CoNLL 2018 shared task, which Goodwin et al. 2022 use (`conll18_ud_eval.py` of
    their code).
    """
    arcs = zip(heads, labels, gold_heads, gold_labels, strict=True)
    return [head == gold_head and universal(label) == universal(gold) for head, label, gold_head, gold in arcs]


def attachment_scores(
    predictions: Sequence[str], references: Sequence[str], content_words: Sequence[Sequence[bool]] | None = None
) -> dict[str, float]:
    """
    LAS, UAS and exact match of trees.

    Args:
        predictions, references: trees as texts, one `head:label` for each token.
        content_words: for each tree, which tokens count for exact match, as Goodwin et al. 2022 leave out function
            words; all by default.

    Returns:
        `las`, `uas`: over all tokens; `exact_match`: over trees.

    Raises:
        UserError: no tree; a text is no tree; trees of one example differ in their tokens.
    """
    check_paired(predictions, references)
    if content_words is not None:
        check_paired(predictions, content_words, "content_words")
    arcs = heads = tokens = exact = 0
    for number, (prediction, reference) in enumerate(zip(predictions, references, strict=True)):
        (ours, labels), (gold, gold_labels) = _read_tree(prediction), _read_tree(reference)
        counts = content_words[number] if content_words is not None else [True] * len(gold)
        if not len(ours) == len(gold) == len(counts):
            raise UserError(f"{len(ours)} tokens in prediction {number}, {len(gold)} in its reference, not as many")
        right = correct_arcs(ours, labels, gold, gold_labels)
        tokens, arcs, heads = tokens + len(gold), arcs + sum(right), heads + correct_heads(ours, gold)
        exact += all(hit for hit, counted in zip(right, counts, strict=True) if counted)
    if not tokens:
        raise UserError("no tokens: there is nothing to measure")
    return {"las": arcs / tokens, "uas": heads / tokens, "exact_match": exact / len(references)}


def _read_tree(text: str) -> tuple[list[int], list[str]]:
    pairs = [token.partition(":")[::2] for token in text.split()]
    if not all(head.isdecimal() and label for head, label in pairs):
        raise UserError(f"{text!r} is not a tree: give one head:label for each token, such as '2:nsubj 0:root'")
    return [int(head) for head, _ in pairs], [label for _, label in pairs]


def universal(label: str) -> str:
    """A label without its subtype."""
    return label.partition(":")[0]


def spanning_tree(scores: np.ndarray) -> list[int]:
    """
    The heads of the tree with the greatest sum of scores, among trees in which exactly one token depends on the root.

    Args:
        scores: finite scores (n, n + 1) of the arc from token i + 1 to head j, where head 0 is the root and tokens are
            counted from 1; arcs from a token to itself are ignored.

    Returns:
        the head of each of the n tokens.
    """
    size = len(scores)
    scores = scores.astype(np.float64)
    tokens = np.arange(size)
    scores[tokens, tokens + 1] = -np.inf
    heads = scores.argmax(axis=1).tolist()
    # if the best heads of all tokens form a tree, it is the best tree
    return heads if is_tree(heads) else _best_tree(scores)


def _best_tree(scores: np.ndarray) -> list[int]:
    import networkx

    size = len(scores)
    finite = scores[np.isfinite(scores)]
    # larger than any gain from other arcs: every tree has one arc to the root, and a second one never pays
    penalty = (finite.max() - finite.min() + 1) * (size + 1)
    graph = networkx.DiGraph()
    for token in range(1, size + 1):
        for head in range(size + 1):
            if head != token:
                graph.add_edge(head, token, weight=scores[token - 1, head] - (penalty if head == 0 else 0))
    tree = networkx.maximum_spanning_arborescence(graph, attr="weight")
    heads = [0] * size
    for head, token in tree.edges:
        heads[token - 1] = head
    return heads
