"""Tables for the terminal and in Markdown."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[object]], numbers: bool = True) -> str:
    """A table for the terminal, two blanks between columns: the first left-aligned, the others right-aligned if they
    are `numbers`."""
    lines = [[str(cell) for cell in row] for row in [header, *rows]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    align = str.rjust if numbers else str.ljust

    def aligned(line: list[str]) -> str:
        cells = [align(cell, width) for cell, width in zip(line, widths, strict=True)]
        return "  ".join([line[0].ljust(widths[0]), *cells[1:]]).rstrip()

    return "\n".join(aligned(line) for line in lines)


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]], numbers: bool = True) -> str:
    """A Markdown table: the first column left-aligned, the others right-aligned if they are `numbers`."""
    lines = [header, ("---", *["---:" if numbers else "---"] * (len(header) - 1)), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def counted(number: int, thing: str) -> str:
    """A number of things in words: "1 run", "2 runs"."""
    return f"{number:,} {thing}{'s' * (number != 1)}"


def mean_and_deviation(values: Sequence[float]) -> str:
    """Of at least two numbers."""
    return f"{statistics.fmean(values):.4f} ± {statistics.stdev(values):.4f}"


def plain(text: object) -> str:
    """Text that Markdown shows as it is: tags and entities are escaped."""
    return re.sub(r"&(?=#?\w+;)", "&amp;", str(text)).replace("<", "&lt;").replace(">", "&gt;")


def plain_cell(text: object) -> str:
    """The same for a cell of a Markdown table: "|" and line breaks are escaped."""
    return plain(text).replace("|", "\\|").replace("\n", " ")
