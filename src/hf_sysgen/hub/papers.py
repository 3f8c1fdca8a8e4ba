"""The five papers whose models this package has."""

from __future__ import annotations

from dataclasses import dataclass

from hf_sysgen.data.citations import bibtex
from hf_sysgen.reports.papers import papers


@dataclass(frozen=True)
class CitedPaper:
    """Authors and year, title, and BibTeX."""

    authors: str
    title: str
    citation: str


# BibTeX by the names of reports/papers/*.yaml; a model names its paper in its config class
ORIGINS = {
    "csordas2021": bibtex("csordas2021devil"),
    "chaabouni2021": bibtex("chaabouni2021can"),
    "bergen2021": bibtex("bergen2021edge"),
    "chakravarthy2022": bibtex("chakravarthy2022systematicity"),
    "petty2023": bibtex("petty2023impact"),
}


def cited(name: str) -> CitedPaper:
    """The paper of that name, one of `ORIGINS`."""
    paper = next(paper for paper in papers() if paper.id == name)
    return CitedPaper(paper.authors, paper.title, ORIGINS[name])


def paper_of(model_type: str) -> CitedPaper | None:
    """The paper that a model type is from; `None` for a user's own."""
    from hf_sysgen.models import CONFIGS

    # declared by the class itself: a user's variant may extend a config of a paper
    paper = vars(CONFIGS[model_type]).get("paper") if model_type in CONFIGS else None
    return None if paper is None else cited(paper)
