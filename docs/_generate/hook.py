"""
What mkdocs runs when it builds the site.

`<!-- table: NAME ARGUMENTS -->` becomes that table, made from the package and the records. Formulas become MathML, so
that no page loads a script from elsewhere. Plots of records are drawn, records become files of the site, so that tables
can link to them, and CONTRIBUTING.md becomes a page.
"""

from __future__ import annotations

import html
import re
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import api_blocks
import compat_tables
import data_tables
import growth_tables
import latex2mathml.converter
import leaderboard_tables
import model_tables
import pictures
import recipe_tables
import reliability_tables
import result_tables
import speed_tables
import speedrun_tables
from kept import ROOT, kept
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, InclusionLevel
from mkdocs.utils import get_relative_url

MODULES = (
    api_blocks, compat_tables, data_tables, growth_tables, leaderboard_tables, model_tables, recipe_tables,
    reliability_tables, result_tables, speed_tables, speedrun_tables,
)  # fmt: skip
TABLES: dict[str, Callable[..., str]] = {
    function.__name__: function for module in MODULES for function in module.TABLES
}
MARK = re.compile(r"^<!-- table: (\S+)((?: \S+)*) -->$", re.MULTILINE)
README = re.compile(r"^<!-- readme: (.+) -->$", re.MULTILINE)
# the form in which pymdownx.arithmatex leaves formulas
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.+?)\\[)\]]</\1>', re.DOTALL)

# the form in which docstrings name classes and functions, and their places on the pages
NAME = re.compile(r"\[(<code>([\w.]+)</code>)\]")
PLACE = re.compile(r'id="(hf_sysgen[\w.]*\.(\w+\.)?(\w+))"')


def readme_section(title: str) -> str:
    """The text of one of README's sections, with its links as on the site. Raises KeyError: there is none."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    sections = dict(part.partition("\n")[::2] for part in re.split(r"^#{1,2} ", text, flags=re.MULTILINE)[1:])
    return sections[title].strip().replace("](docs/", "](")


def render(markdown: str) -> str:
    """A page's Markdown with README's sections and its tables. Raises KeyError: there is no such section or table."""
    markdown = README.sub(lambda found: readme_section(found[1]), markdown)
    return MARK.sub(lambda found: TABLES[found[1]](*found[2].split()), markdown)


def with_math(content: str) -> str:
    """A page's HTML with its formulas as MathML."""
    return FORMULA.sub(_formula, content)


def _formula(found: re.Match[str]) -> str:
    tag, text = found[1], " ".join(html.unescape(found[2]).split())
    formula = latex2mathml.converter.convert(text, display="block" if tag == "div" else "inline")
    return f'<{tag} class="formula">{formula}</{tag}>'


def on_config(config: Any) -> Any:
    """Put the page of every data set into the navigation."""
    (pages,) = (part["Data sets"] for part in config.nav if "Data sets" in part)
    files = sorted((ROOT / "docs" / "data").glob("*.md"))
    pages += [f"data/{file.name}" for file in files if file.name != "index.md"]
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    try:
        return render(markdown).replace("](../CONTRIBUTING.md", "](contributing.md")
    except KeyError as error:
        raise PluginError(f"{page.file.src_uri}: no table or entry {error}") from error


def on_page_content(html: str, **_: Any) -> str:
    return with_math(html)


def on_env(env: Any, files: Any, **_: Any) -> Any:
    """Link the names in the API reference that it has a place for; the others lose their brackets."""
    pages = [file.page for file in files.documentation_pages() if file.src_uri.startswith("api/")]
    places: dict[str, tuple[Any, str]] = {}
    for page in pages:
        for place, owner, name in PLACE.findall(page.content):
            places.setdefault(name, (page, place))
            places.setdefault(f"{owner}{name}", (page, place))

    def link(name: re.Match[str], url: str) -> str:
        if name[2] not in places:
            return name[1]
        page, place = places[name[2]]
        return f'<a href="{get_relative_url(page.url, url)}#{place}">{name[1]}</a>'

    for page in pages:
        page.content = NAME.sub(partial(link, url=page.url), page.content)
    return env


def on_files(files: Any, config: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        for name, draw in pictures.PICTURES.items():
            path = Path(folder) / name
            draw(path)
            files.append(File.generated(config, f"images/{name}", content=path.read_bytes()))
    for name, text in leaderboard_tables.cards().items():
        inclusion = InclusionLevel.NOT_IN_NAV
        files.append(File.generated(config, f"results/cards/{name}", content=text, inclusion=inclusion))
    for path, _ in kept().records:
        files.append(File.generated(config, path.relative_to(ROOT).as_posix(), content=path.read_bytes()))
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").replace("](docs/", "](")
    files.append(File.generated(config, "contributing.md", content=text))
    return files
