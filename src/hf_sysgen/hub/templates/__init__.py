"""The texts of cards. Whatever comes from a record, a recipe or a benchmark is escaped unless a template says not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from hf_sysgen.tables import markdown, plain, plain_cell


def render(template: str, metadata: str, /, **values: Any) -> str:
    """
    A card: its metadata in YAML, then what the template of that name makes of the values.

    Args:
        metadata: `to_yaml()` of huggingface_hub's card data.
    """
    body = _environment().get_template(template).render(**values)
    parts = ("---", metadata.strip(), "---", "", re.sub(r"\n{3,}", "\n\n", body).strip(), "")
    return "\n".join(parts)


@cache
def _environment() -> jinja2.Environment:
    """It keeps the compiled templates."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=jinja2.StrictUndefined,
        finalize=_text, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {"fenced": fenced, "table": table}
    return environment


def _text(value: Any) -> Markup:
    return value if isinstance(value, Markup) else Markup(plain(value))


def fenced(text: str, language: str = "") -> Markup:
    """A block of code that its text cannot end."""
    longest = max(map(len, re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return Markup(f"{fence}{language}\n{text.rstrip(chr(10))}\n{fence}")


def table(rows: Iterable[Sequence[object]], header: Sequence[str], numbers: bool = True) -> Markup:
    """A Markdown table, whose cells cannot end it."""
    cells = ([plain_cell(cell) for cell in row] for row in rows)
    return Markup(markdown(header, cells, numbers))
