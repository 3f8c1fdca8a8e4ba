"""The five papers whose models this package has."""

from __future__ import annotations

from dataclasses import dataclass

from hf_sysgen.data.citations import BERGEN, CHAABOUNI, CHAKRAVARTHY, CSORDAS, PETTY
from hf_sysgen.reports.papers import papers


@dataclass(frozen=True)
class Origin:
    """
    What of a paper is here.

    Attributes:
        citation: BibTeX of the paper.
        models: the model types that are from it, its baselines included.
    """

    citation: str
    models: tuple[str, ...]


@dataclass(frozen=True)
class CitedPaper:
    """Authors and year, title, and BibTeX."""

    authors: str
    title: str
    citation: str


# by the names of reports/papers/*.yaml
ORIGINS = {
    "csordas2021": Origin(
        CSORDAS,
        ("sysgen_transformer", "universal_transformer", "relative_transformer", "relative_universal_transformer"),
    ),
    "chaabouni2021": Origin(
        CHAABOUNI,
        (
            "fairseq_transformer",
            "sag_transformer",
            "sag_conv_transformer",
            "sag_fixed_span_transformer",
            "sag_t5_transformer",
            "lstm_seq2seq",
            "conv_seq2seq",
        ),
    ),
    "bergen2021": Origin(
        BERGEN,
        (
            "edge_transformer",
            "edge_dependency_parser",
            "relation_aware_transformer",
            "graph_attention_network",
            "transformer_graph_parser",
            "biaffine_dependency_parser",
            "universal_t5_transformer",
        ),
    ),
    "chakravarthy2022": Origin(
        CHAKRAVARTHY,
        ("role_filler_transformer", "torch_transformer"),
    ),
    "petty2023": Origin(
        PETTY,
        ("depth_width_decoder",),
    ),
}


def cited(name: str) -> CitedPaper:
    """The paper of that name, one of `ORIGINS`."""
    paper = next(paper for paper in papers() if paper.id == name)
    return CitedPaper(paper.authors, paper.title, ORIGINS[name].citation)


def paper_of(model_type: str) -> CitedPaper | None:
    """The paper that a model type is from; `None` for one of the reader's own."""
    return next((cited(name) for name, origin in ORIGINS.items() if model_type in origin.models), None)
