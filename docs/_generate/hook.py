"""
What mkdocs runs while it builds the site: `<!-- table: NAME ARGUMENTS -->` becomes that table, made from the package
and its records; `$$...$$` and `$...$` become MathML, so that no page needs a script from elsewhere; plots of records are drawn; CONTRIBUTING.md is
a page.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import api
import data
import latex2mathml.converter
import models
import performance
import pictures
import recipes
import results
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File
from records import ROOT

TABLES: dict[str, Callable[..., str]] = {
    function.__name__: function
    for module in (api, data, models, performance, recipes, results)
    for function in module.TABLES
}
MARK = re.compile(r"^<!-- table: (\S+)((?: \S+)*) -->$", re.MULTILINE)
CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
MATH = re.compile(r"\$\$(?P<block>.+?)\$\$|\$(?P<inline>[^$\n]+?)\$", re.DOTALL)


def filled(markdown: str) -> str:
    """A page's Markdown with its tables. Raises KeyError: there is no such table."""
    return MARK.sub(lambda found: TABLES[found[1]](*found[2].split()), markdown)


def with_math(markdown: str) -> str:
    """Formulas outside of code as MathML."""
    parts = CODE.split(markdown)
    return "".join(part if part.startswith("`") else MATH.sub(_formula, part) for part in parts)


def _formula(found: re.Match[str]) -> str:
    if found["inline"]:
        return latex2mathml.converter.convert(found["inline"])
    formula = latex2mathml.converter.convert(" ".join(found["block"].split()), display="block")
    return f'<div class="formula">{formula}</div>'


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    try:
        return with_math(filled(markdown)).replace("](../CONTRIBUTING.md", "](contributing.md")
    except KeyError as error:
        raise PluginError(f"{page.file.src_uri}: no table or entry {error}") from error


def on_files(files: Any, config: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        for name, draw in pictures.PICTURES.items():
            path = Path(folder) / name
            draw(path)
            files.append(File.generated(config, f"images/{name}", content=path.read_bytes()))
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").replace("](docs/", "](")
    files.append(File.generated(config, "contributing.md", content=text))
    return files
