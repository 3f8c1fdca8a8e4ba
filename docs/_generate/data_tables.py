"""Tables of benchmarks, from their info.yaml. No data is loaded."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from kept import shipped

from hf_sysgen.data import benchmark_info, list_benchmarks
from hf_sysgen.data.describe import counts_text
from hf_sysgen.data.info import ConfigInfo, Source
from hf_sysgen.hub.dataset_card import errata_lines
from hf_sysgen.tables import counted, markdown

# up to so many configs have a table each
FEW = 3


def benchmarks() -> str:
    """Every benchmark with its page."""
    rows = [
        (
            f"[`{one.name}`]({one.name}.md)",
            one.title,
            str(len(one.configs)),
            cited(one.citation),
            "yes" if one.restriction else "no",
        )
        for one in list_benchmarks()
    ]
    header = ("benchmark", "what it is", "configs", "paper", "publishing restricted")
    return markdown(header, rows, numbers=False)


def benchmark(name: str) -> str:
    """A benchmark's splits, licence, errata, files and citation."""
    info = benchmark_info(name)
    configs = list(info.configs.values())
    errata = "\n".join(f"- {line}" for line in errata_lines(info, configs))
    recipes = [file for file, recipe in shipped().items() if recipe.data.benchmark == name]
    licences = dict.fromkeys(licence for config in configs for licence in re.split(r"; (?![^(]*\))", config.licence))
    sources = dict.fromkeys(source for config in configs for source in config.sources.values())
    files = "\n".join(f"- {_source(source)}" for source in sources)
    citations = "\n".join(dict.fromkeys(filter(None, (info.citation, *(config.citation for config in configs)))))
    parts = [
        "## Splits",
        *([_table(configs)] if len(configs) > FEW else map(_config, configs)),
        "## Licence",
        "\n".join(f"- {text}" for text in licences),
        f"**Restricted.** {info.restriction}" if info.restriction else "",
        f"Preparing it needs `pip install hf-sysgen[{info.extra}]`." if info.extra else "",
        "## Known errors and gaps" if errata else "",
        errata,
        "## Recipes",
        _folded(counted(len(recipes), "recipe"), "\n".join(f"- `recipes/{one}.yaml`" for one in recipes))
        if recipes
        else "No recipe is shipped.",
        "## Source",
        info.homepage and f"<{info.homepage}>",
        _folded(counted(len(sources), "file"), files),
        _folded("Citation", f"```bibtex\n{citations}\n```"),
    ]
    return "\n\n".join(part for part in parts if part)


def _config(config: ConfigInfo) -> str:
    rows = [
        (f"`{split}`", config.meaning(split), "not known" if count is None else f"{count:,}")
        for split, count in config.num_examples.items()
    ]
    table = markdown(("split", "what it tests", "examples"), rows, numbers=False)
    return f"### `{config.name}`\n\n{config.description}\n\n{table}"


def _table(configs: Sequence[ConfigInfo]) -> str:
    """A row for each config; below, what each split tests, once for all configs with the same text."""
    rows = [
        (
            f"`{config.name}`",
            config.description.replace("|", "\\|"),
            counts_text(config).replace(" / ", "<br>").replace(" ", "&nbsp;"),
        )
        for config in configs
    ]
    table = markdown(("config", "what it is", "examples"), rows, numbers=False)
    tests: dict[tuple[str, str], list[str]] = {}
    for config in configs:
        for split in config.splits:
            if text := config.meaning(split):
                tests.setdefault((split, text), []).append(config.name)
    lines = "\n".join(
        f"- `{split}`{'' if len(names) == len(configs) else f' of {_joined(names)}'}: {text}"
        for (split, text), names in tests.items()
    )
    return f"{table}\n\n{_folded('What each split tests', lines)}"


def _joined(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _source(source: Source) -> str:
    if not source.url:
        return f"`{source.mirror}`, made on your machine"
    member = f", member `{source.path}`" if getattr(source, "archive", None) else ""
    checksum = f", {source.checksum_kind} `{source.checksum}`" if source.checksum else ""
    return f"<{source.url}>{member}{checksum}"


def _folded(title: str, text: str) -> str:
    lines = "\n".join(f"    {line}" if line else "" for line in text.splitlines())
    return f'??? note "{title}"\n\n{lines}'


def cited(citation: str) -> str:
    """Authors and year of the first BibTeX entry, as in a text."""
    entry = citation.split("\n@")[0]
    authors = re.search(r"author = \{(.+?)\},?\n", entry, flags=re.DOTALL)
    year = re.search(r"year = \{?(\d{4})", entry)
    if not authors or not year:
        raise KeyError(f"no author or year in the citation {entry!r}")
    names = [plain(name.partition(",")[0]) for name in re.split(r"\s+and\s+", authors[1])]
    return f"{' and '.join(names) if len(names) < 3 else f'{names[0]} et al.'} {year[1]}"


def plain(name: str) -> str:
    """A BibTeX name without its commands: {\\'e} is é."""
    accents = {"'": "\u0301", "`": "\u0300", '"': "\u0308", "~": "\u0303", "^": "\u0302"}
    text = re.sub(r"\{?\\(['`\"~^])\{?(\w)\}?\}?", lambda found: found[2] + accents[found[1]], name)
    return unicodedata.normalize("NFC", text)


TABLES = (benchmarks, benchmark)
