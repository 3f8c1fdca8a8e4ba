"""The papers' metrics for the `evaluate` library. Nothing is loaded from a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from hf_sysgen.errors import UserError
from hf_sysgen.evaluation.metrics.bleu import SETUPS, bleu
from hf_sysgen.evaluation.metrics.cogs_match import exact_match as form_match
from hf_sysgen.evaluation.metrics.cogs_match import renaming_match, semantic_match
from hf_sysgen.evaluation.metrics.comp import Comp, Rule, comp
from hf_sysgen.evaluation.metrics.parsing import attachment_scores
from hf_sysgen.evaluation.metrics.sequences import exact_match, oracle_length_match, perplexity, shares
from hf_sysgen.files import write_atomic

if TYPE_CHECKING:
    import evaluate


def _shares(**matches: Callable[[str, str], bool]) -> Callable[..., Mapping[str, object]]:
    """A metric of (predictions, references, categories=None): the share of examples that each function accepts."""
    return lambda predictions, references, categories=None: shares(matches, predictions, references, categories)


def _comp(predictions: Any, references: Any, pairs: Any, drop: bool = False, config: Any = None) -> Comp:
    return comp(predictions, references, pairs, config or "any_inflection", drop)


@dataclass(frozen=True)
class Spec:
    """
    A metric of `evaluate`.

    Attributes:
        about: what it measures.
        compute: takes the columns `features` and further keywords; with `configs` also `config`.
        features: column -> its type in `datasets`; a list of one type is a list.
        configs: valid values of `config_name`; without one, `compute` chooses.
        citation: its source.
    """

    about: str
    compute: Callable[..., Mapping[str, object]]
    features: dict[str, Any]
    configs: tuple[str, ...] = ()
    citation: str = ""


_TEXTS = {"predictions": "string", "references": "string"}
METRICS = {
    "bleu": Spec(
        "BLEU (sacrebleu) over the tokens of one of the setups of Chaabouni et al. 2021, `tokenized` by default.",
        lambda predictions, references, config=None: bleu(predictions, references, config or "tokenized"),
        _TEXTS,
        configs=tuple(SETUPS),
        citation="Post 2018, A Call for Clarity in Reporting BLEU Scores (arXiv:1804.08771)",
    ),
    "cogs_match": Spec(
        "The share of COGS logical forms that equal their reference: exactly, up to variable names, in meaning. "
        "Optional: `categories`, for shares by category.",
        _shares(exact_match=form_match, renaming_match=renaming_match, semantic_match=semantic_match),
        _TEXTS,
        citation="Wu, Manning and Potts 2023, ReCOGS (arXiv:2303.13716)",
    ),
    "comp": Spec(
        "The share of French predictions with both words of the held-out pair of adjective and noun. `pairs`: of each "
        'example its English pairs, e.g. ["new response"]; `drop` leaves out examples whose reference has another '
        "word. Configs: how words are matched.",
        _comp,
        {**_TEXTS, "pairs": ["string"]},
        configs=get_args(Rule),
        citation="Chaabouni, Dessi and Kharitonov 2021, section 5 (arXiv:2107.01366)",
    ),
    "dependency_parsing": Spec(
        "LAS, UAS and exact match of dependency trees, written as `head:label` for each token: heads are counted from "
        "1, 0 is the root. Optional: `content_words`, which tokens count for exact match.",
        lambda predictions, references, content_words=None: attachment_scores(predictions, references, content_words),
        _TEXTS,
        citation="Goodwin et al. 2022, Compositional Generalization in Dependency Parsing (arXiv:2110.06843)",
    ),
    "oracle_length": Spec(
        "Exact match with oracle output length: predictions, decoded without EOS, are cut at the reference's length. "
        "Optional: `categories`.",
        _shares(oracle_length=oracle_length_match),
        _TEXTS,
        citation="Newman, Hewitt, Liang and Manning 2020, The EOS Decision and Length Extrapolation (arXiv:2010.07174)",
    ),
    "perplexity": Spec(
        "The exponential of the mean loss per token. `losses`: mean nats per token of each text, e.g. `loss_teacher` "
        "of predictions.jsonl; `lengths`: how many tokens that mean is over.",
        perplexity,
        {"losses": "float64", "lengths": "int64"},
    ),
    "sequence_exact_match": Spec(
        "The share of predictions with exactly the tokens of their reference, the accuracy that the papers report. "
        "Optional: `categories`.",
        _shares(exact_match=exact_match),
        _TEXTS,
    ),
}


def load_metric(name: str, config_name: str | None = None, **kwargs: Any) -> evaluate.Metric:
    """
    A metric of `evaluate`, with `compute`, `add_batch`, `evaluate.combine` and processes.

    Args:
        name: one of `METRICS`.
        config_name: the setup of `bleu`, the rule of `comp`; the others have none.
        kwargs: arguments of `evaluate.Metric`, such as `num_process`, `process_id`, `keep_in_memory`.

    Raises:
        UserError: no such metric or config.
    """
    spec = _spec(name)
    if config_name not in (None, "default", *spec.configs):
        raise UserError(f"no config {config_name!r} of {name}; there are {', '.join(spec.configs) or 'none'}")
    return metric_class(name)(config_name=config_name, **kwargs)


def _spec(name: str) -> Spec:
    if name not in METRICS:
        raise UserError(f"no metric {name!r}; there are {', '.join(METRICS)}")
    return METRICS[name]


def metric_class(name: str) -> type[evaluate.Metric]:
    """The class of a metric, for the module that `evaluate.load` looks for. Raises UserError: no such metric."""
    import datasets
    import evaluate

    spec = _spec(name)

    def feature(kind: Any) -> Any:
        return datasets.List(feature(kind[0])) if isinstance(kind, list) else datasets.Value(kind)

    def info(self: Any) -> evaluate.MetricInfo:
        features = datasets.Features({column: feature(kind) for column, kind in spec.features.items()})
        return evaluate.MetricInfo(spec.about, spec.citation, features, inputs_description=spec.about)

    def compute(self: Any, **columns: Any) -> Mapping[str, object]:
        config = {"config": None if self.config_name == "default" else self.config_name} if spec.configs else {}
        return spec.compute(**columns, **config)

    return type(name, (evaluate.Metric,), {"_info": info, "_compute": compute})


def write_space(name: str, folder: Path) -> None:
    """
    A metric as a Space of the hub, for `evaluate.load("OWNER/NAME")` where this package is installed: upload the folder
    NAME that is made in `folder` by `hf upload OWNER/NAME FOLDER/NAME --repo-type space`.

    Raises:
        UserError: no such metric.
    """
    spec = _spec(name)
    head = f"---\ntitle: {name}\nsdk: static\ntags: [evaluate, metric, hf-sysgen]\n---\n"
    module = f"from hf_sysgen.evaluation.metrics.modules import metric_class\n\nMetric = metric_class({name!r})\n"
    about = "\n\n".join(filter(None, (head, f"# {name}", spec.about, spec.citation)))
    for file, content in (
        (f"{name}.py", module), ("README.md", f"{about}\n"), ("requirements.txt", "hf-sysgen\n"),
    ):  # fmt: skip
        write_atomic(folder / name / file, content)
