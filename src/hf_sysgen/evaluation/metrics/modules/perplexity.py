"""Perplexity as a metric of `evaluate`."""

from __future__ import annotations

from typing import Any, ClassVar

import datasets

from hf_sysgen.evaluation.metrics.modules.base import SysgenMetric
from hf_sysgen.evaluation.metrics.sequences import perplexity


class Perplexity(SysgenMetric):
    """The exponential of the mean nats per token, every token of every text counting alike.

    Args:
        losses: mean nats per token of each text, such as `loss_teacher` of predictions.jsonl.
        lengths: tokens of each text that the mean is over: words and, where it is predicted, the end symbol.

    Returns:
        `perplexity`, `loss` and `tokens`.
    """

    FEATURES: ClassVar[dict[str, Any]] = {"losses": datasets.Value("float64"), "lengths": datasets.Value("int64")}

    def _compute(self, losses: list[float], lengths: list[int]) -> dict[str, Any]:
        return perplexity(losses, lengths)
