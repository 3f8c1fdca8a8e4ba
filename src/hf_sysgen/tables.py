"""Tables for the terminal and in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[object]], numbers: bool = True) -> str:
    """A table for the terminal, two blanks between columns: the first left-aligned, the others right-aligned if they
    are `numbers`."""
    lines = [[str(cell) for cell in row] for row in [header, *rows]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]

    def aligned(line: list[str]) -> str:
        first, *others = zip(line, widths, strict=True)
        cells = [cell.rjust(width) if numbers else cell.ljust(width) for cell, width in others]
        return "  ".join([first[0].ljust(first[1]), *cells]).rstrip()

    return "\n".join(aligned(line) for line in lines)


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]], numbers: bool = True) -> str:
    """A Markdown table: the first column left-aligned, the others right-aligned if they are `numbers`."""
    lines = [header, ("---", *["---:" if numbers else "---"] * (len(header) - 1)), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def counted(number: int, thing: str) -> str:
    """A number of things in words: "1 run", "2 runs"."""
    return f"{number:,} {thing}{'s' * (number != 1)}"


def plain(text: object) -> str:
    """Text that Markdown shows as it is: tags and entities are escaped."""
    return re.sub(r"&(?=#?\w+;)", "&amp;", str(text)).replace("<", "&lt;").replace(">", "&gt;")


def plain_cell(text: object) -> str:
    """The same for a cell of a Markdown table: "|" and line breaks are escaped."""
    return plain(text).replace("|", "\\|").replace("\n", " ")
