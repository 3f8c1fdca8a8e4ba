"""BLEU as a metric of `evaluate`."""

from __future__ import annotations

from typing import Any

from hf_sysgen.evaluation.metrics.bleu import SETUPS, bleu
from hf_sysgen.evaluation.metrics.modules.base import SysgenMetric


class Bleu(SysgenMetric):
    """BLEU through sacrebleu, over the tokens that a setup of Chaabouni et al. 2021 takes it over.

    Configs: the setups of `hf_sysgen.evaluation.metrics.bleu.SETUPS`; `tokenized` by default.

    Args:
        predictions, references: texts, with subwords or without; one reference each.

    Returns:
        see `hf_sysgen.evaluation.metrics.bleu.bleu`.
    """

    CITATION = "Post 2018, A Call for Clarity in Reporting BLEU Scores (arXiv:1804.08771)"
    CONFIGS = tuple(SETUPS)

    def _compute(self, predictions: list[str], references: list[str]) -> dict[str, Any]:
        setup = "tokenized" if self.config_name == "default" else self.config_name
        return bleu(predictions, references, setup)
