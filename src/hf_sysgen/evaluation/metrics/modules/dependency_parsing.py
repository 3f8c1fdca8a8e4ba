"""Attachment scores of dependency trees as a metric of `evaluate`."""

from __future__ import annotations

from hf_sysgen.evaluation.metrics.modules.base import SysgenMetric
from hf_sysgen.evaluation.metrics.parsing import attachment_scores


class DependencyParsing(SysgenMetric):
    """LAS and UAS, the shares of tokens with the right head and label or the right head, and exact match of trees.

    Args:
        predictions, references: trees as texts, one `head:label` for each token, heads counted from 1, 0 for the root,
            such as `prediction` of predictions.jsonl.
        content_words: for each tree, which of its tokens count for exact match; all if it is not given.

    Returns:
        see `hf_sysgen.evaluation.metrics.parsing.attachment_scores`.
    """

    CITATION = "Goodwin et al. 2022, Compositional Generalization in Dependency Parsing (arXiv:2110.06843)"

    def _compute(
        self, predictions: list[str], references: list[str], content_words: list[list[bool]] | None = None
    ) -> dict[str, float]:
        return attachment_scores(predictions, references, content_words)
