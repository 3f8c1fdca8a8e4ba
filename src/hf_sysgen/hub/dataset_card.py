"""The README of a published benchmark: what `load_dataset` reads in it, and what a person should know."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from huggingface_hub import DatasetCardData

from hf_sysgen.data.info import BenchmarkInfo, ConfigInfo, Source
from hf_sysgen.hub.repository import TAG
from hf_sysgen.hub.templates import render

# names that the hub's `license` field knows, among those that benchmarks have
_HUB_LICENCES = {"apache-2.0", "bsd-3-clause", "cc-by-4.0", "cc-by-nc-4.0", "cc-by-nc-nd-3.0", "gpl-2.0", "mit"}


def parquet_path(config: str, split: str) -> str:
    """Where a split stands in the repository."""
    return f"{config}/{split}.parquet"


def benchmark_tag(benchmark: BenchmarkInfo) -> str:
    return f"{TAG}-{benchmark.name}"


def dataset_card(
    benchmark: BenchmarkInfo, configs: Sequence[ConfigInfo], counts: Mapping[str, Mapping[str, int]], repo_id: str
) -> str:
    """The README's text.

    Args:
        benchmark: what is published.
        configs: its configs that are.
        counts: config to split to number of examples, in the order of the splits.
        repo_id: "owner/name".
    """
    licences = {hub_licence(config.licence) for config in configs}
    licence = licences.pop() if len(licences) == 1 else "other"
    data = DatasetCardData(
        pretty_name=benchmark.title,
        license=licence,
        license_name="see-below" if licence == "other" else None,
        tags=[TAG, benchmark_tag(benchmark), "systematic-generalization", "compositional-generalization"],
        configs=[
            {
                "config_name": config.name,
                "data_files": [
                    {"split": split, "path": parquet_path(config.name, split)} for split in counts[config.name]
                ],
            }
            for config in configs
        ],
    )
    return render(
        "dataset_card.md.jinja",
        data.to_yaml(),
        title=benchmark.title,
        benchmark=benchmark,
        code=f'from datasets import load_dataset\n\ndata = load_dataset("{repo_id}", "{configs[0].name}")',
        configs=[(config, count_rows(config, counts[config.name])) for config in configs],
        errata=errata_lines(benchmark, configs),
        licences=dict.fromkeys(config.licence for config in configs),
        sources=_sources(configs),
        citations=citations(benchmark, configs),
    )


def hub_licence(licence: str) -> str:
    """The hub's name for a `ConfigInfo.licence` that is one licence and where it is stated, "other" for any more."""
    found = re.fullmatch(r"(\S+) \([^()]*\)", licence)
    return found[1].lower() if found and found[1].lower() in _HUB_LICENCES else "other"


def count_rows(config: ConfigInfo, counts: Mapping[str, int]) -> list[tuple[str, str, str]]:
    """How many examples each split has, and what it tests; or why a split is not there."""
    return [
        (split, f"{count:,}", config.meaning(split))
        if (count := counts.get(split)) is not None
        else (split, "not here", f"{config.meaning(split)} Not here: {config.withheld[split]}.".strip())
        for split in dict.fromkeys((*counts, *config.withheld))
    ]


def errata_lines(benchmark: BenchmarkInfo, configs: Sequence[ConfigInfo]) -> list[str]:
    """What is known to be wrong with the data, with the configs that it holds for where not for all."""
    by_text: dict[str, list[str]] = {text: [] for text in benchmark.errata}
    for config in configs:
        for text in config.errata:
            by_text.setdefault(text, []).append(config.name)
    return [text + (f" ({', '.join(names)})" if names else "") for text, names in by_text.items()]


def _sources(configs: Sequence[ConfigInfo]) -> list[str]:
    return [_source(source) for source in dict.fromkeys(one for config in configs for one in config.sources.values())]


def _source(source: Source) -> str:
    if not source.url:
        return f"{source.name}, made for this"
    member = f", its member `{source.path}`" if source.archive else ""
    return f"{source.url}{member}" + (f" ({source.checksum_kind} `{source.checksum}`)" if source.checksum else "")


def citations(benchmark: BenchmarkInfo, configs: Sequence[ConfigInfo]) -> str:
    """BibTeX of a benchmark and these configs of it."""
    return "\n".join(dict.fromkeys(filter(None, (benchmark.citation, *(config.citation for config in configs)))))
