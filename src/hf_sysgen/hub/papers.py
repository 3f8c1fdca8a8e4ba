"""The five papers whose models this package has."""

from __future__ import annotations

from dataclasses import dataclass

from hf_sysgen.data.citations import BERGEN, CHAABOUNI, CHAKRAVARTHY, CSORDAS, PETTY


@dataclass(frozen=True)
class Paper:
    """A paper.

    Attributes:
        short: authors and year.
        title: its title.
        citation: BibTeX.
        models: the model types that are from it, its baselines included.
    """

    short: str
    title: str
    citation: str
    models: tuple[str, ...]


PAPERS = {
    "csordas2021": Paper(
        "Csordás et al. 2021",
        "The Devil is in the Detail: Simple Tricks Improve Systematic Generalization of Transformers",
        CSORDAS,
        ("sysgen_transformer", "universal_transformer", "relative_transformer", "relative_universal_transformer"),
    ),
    "chaabouni2021": Paper(
        "Chaabouni et al. 2021",
        "Can Transformers Jump Around Right in Natural Language? Assessing Performance Transfer from SCAN",
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
    "bergen2021": Paper(
        "Bergen et al. 2021",
        "Systematic Generalization with Edge Transformers",
        BERGEN,
        (
            "edge_transformer",
            "edge_dependency_parser",
            "relation_aware_transformer",
            "graph_attention_network",
            "transformer_graph_parser",
            "biaffine_dependency_parser",
        ),
    ),
    "russin2022": Paper(
        "Chakravarthy, Russin and O'Reilly 2022",
        "Systematicity Emerges in Transformers when Abstract Grammatical Roles Guide Attention",
        CHAKRAVARTHY,
        ("role_filler_transformer", "torch_transformer"),
    ),
    "petty2023": Paper(
        "Petty et al. 2023",
        "The Impact of Depth and Width on Transformer Language Model Generalization",
        PETTY,
        ("depth_width_decoder",),
    ),
}


def paper_of(model_type: str) -> Paper:
    """The paper that a model type is from."""
    return next(paper for paper in PAPERS.values() if model_type in paper.models)
