"""BibTeX of papers that several models or benchmarks cite, from `papers.bib`."""

from __future__ import annotations

from functools import cache
from pathlib import Path


def bibtex(key: str) -> str:
    """The entry of that key.

    Raises:
        KeyError: there is none.
    """
    return _entries()[key]


@cache
def _entries() -> dict[str, str]:
    text = Path(__file__).with_name("papers.bib").read_text(encoding="utf-8").strip()
    return {entry.partition("{")[2].partition(",")[0]: entry for entry in text.split("\n\n")}
