"""What the metrics share: how a function of ours becomes a metric of `evaluate`."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

import datasets
import evaluate

from hf_sysgen.evaluation.metrics.sequences import MetricError

TEXT = datasets.Value("string")


class SysgenMetric(evaluate.Metric):
    """
    A metric whose subclass says what it takes and computes.

    Raises:
        MetricError: a config that the metric does not have.
    """

    FEATURES: ClassVar[dict[str, Any]] = {"predictions": TEXT, "references": TEXT}
    CITATION: ClassVar[str] = ""
    CONFIGS: ClassVar[tuple[str, ...]] = ()

    def _info(self) -> evaluate.MetricInfo:
        if self.config_name not in ("default", *self.CONFIGS):
            raise MetricError(
                f"no config {self.config_name!r} of this metric; there are {', '.join(self.CONFIGS) or 'none'}"
            )
        description, _, inputs = (type(self).__doc__ or "").partition("\n\n")
        return evaluate.MetricInfo(
            description=" ".join(description.split()),
            citation=self.CITATION,
            inputs_description=inspect.cleandoc(inputs),
            features=datasets.Features(self.FEATURES),
        )
