"""COMP as a metric of `evaluate`."""

from __future__ import annotations

from typing import Any, ClassVar, cast, get_args

import datasets

from hf_sysgen.evaluation.metrics.comp import Rule, comp
from hf_sysgen.evaluation.metrics.modules.base import TEXT, SysgenMetric


class Comp(SysgenMetric):
    """The share of French predictions that have both the adjective and the noun that were held out together.

    Configs: how words are matched, `any_inflection` (by default) or `same_form` as the reference.

    Args:
        predictions, references: French texts, with subwords or without.
        pairs: for each its English pairs, such as ["new response"].
        drop: whether examples are left out whose reference has another word.

    Returns:
        see `hf_sysgen.evaluation.metrics.comp.comp`.
    """

    FEATURES: ClassVar[dict[str, Any]] = {"predictions": TEXT, "references": TEXT, "pairs": datasets.List(TEXT)}
    CITATION = "Chaabouni, Dessi and Kharitonov 2021, section 5 (arXiv:2107.01366)"
    CONFIGS = get_args(Rule)

    def _compute(
        self, predictions: list[str], references: list[str], pairs: list[list[str]], drop: bool = False
    ) -> dict[str, Any]:
        rule = "any_inflection" if self.config_name == "default" else self.config_name
        return comp(predictions, references, pairs, cast(Rule, rule), drop)
