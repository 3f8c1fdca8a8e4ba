"""The metrics of the papers for the `evaluate` library. Nothing is loaded from a network."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from hf_sysgen.evaluation.metrics.sequences import MetricError

if TYPE_CHECKING:
    import evaluate

# name, as evaluate has it: class in the module of that name
METRICS = {
    "bleu": "Bleu",
    "cogs_match": "CogsMatch",
    "comp": "Comp",
    "dependency_parsing": "DependencyParsing",
    "oracle_length": "OracleLength",
    "perplexity": "Perplexity",
    "sequence_exact_match": "SequenceExactMatch",
}


def load_metric(name: str, config_name: str | None = None, **kwargs: Any) -> evaluate.Metric:
    """
    A metric, with everything that `evaluate` does with one: `compute`, `add_batch`, `evaluate.combine`, processes.

    Args:
        name: one of `METRICS`.
        config_name: of `bleu` the setup, of `comp` the rule; the others have none.
        kwargs: of `evaluate.Metric`, such as `num_process`, `process_id`, `keep_in_memory`.

    Raises:
        MetricError: no such metric or config.
    """
    if name not in METRICS:
        raise MetricError(f"no metric {name!r}; there are {', '.join(METRICS)}")
    module = importlib.import_module(f"{__name__}.{name}")
    return getattr(module, METRICS[name])(config_name=config_name, **kwargs)
