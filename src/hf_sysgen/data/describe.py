"""
The texts of `hf-sysgen list benchmarks` and `hf-sysgen data describe`. Nothing here imports `datasets` before it is
needed.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hf_sysgen.data.errors import DataError
from hf_sysgen.data.info import BenchmarkInfo, ConfigInfo, Source
from hf_sysgen.data.registry import benchmark_builder, benchmark_info, list_benchmarks

if TYPE_CHECKING:
    import datasets

WIDTH = 100


def list_text() -> str:
    """Every benchmark with its configs, splits, counts and licence."""
    parts = []
    for benchmark in list_benchmarks():
        rows = [(name, counts_text(config)) for name, config in benchmark.configs.items()]
        parts.append("\n".join([_head(benchmark), _indented(_columns(rows))]))
    return "\n\n".join(parts)


def counts_text(config: ConfigInfo) -> str:
    """Splits with their counts, as "train 16,458 / validation 1,828 / test ?"."""
    counts = ((split, "?" if count is None else f"{count:,}") for split, count in config.num_examples.items())
    return " / ".join(f"{split} {count}" for split, count in counts)


def describe_text(
    name: str,
    config: str | None = None,
    *,
    lengths: bool = False,
    data_dir: str | Path | None = None,
    cache_dir: str | Path | None = None,
) -> str:
    """One page about a benchmark, or about one of its configs: what each split tests, sizes, files, errata, citation.

    Args:
        name: a benchmark.
        config: one of its configs. Without it, the only config, or a short description of all of them, without
            `lengths`.
        lengths: whether to show lengths and vocabulary, which prepares the data first if needed.
        data_dir: as in `load_benchmark`.
        cache_dir: as in `load_benchmark`.

    Raises:
        DataError: unknown name or config, or with `lengths` what `load_benchmark` raises.
    """
    benchmark = benchmark_info(name)
    if config is None and len(benchmark.configs) > 1 and not lengths:
        return _benchmark_page(benchmark)
    info = benchmark.config(config)
    parts = [
        f"{name} / {info.name}",
        _wrapped(f"{benchmark.title}. {benchmark.description} {info.description}"),
        _splits(info),
        *_about_data(name, info.name, lengths, data_dir, cache_dir),
    ]
    parts += [
        _section("Licence", info.licence),
        _section("Restriction", benchmark.restriction),
        _section("Needs", f"pip install hf-sysgen[{benchmark.extra}]" if benchmark.extra else ""),
        "Files\n" + "\n".join(_file(role, source) for role, source in info.sources.items()),
        _errata((*benchmark.errata, *info.errata)),
        _cite(benchmark.citation, info.citation),
    ]
    return "\n\n".join(filter(None, parts))


def _about_data(
    name: str, config: str, lengths: bool, data_dir: str | Path | None, cache_dir: str | Path | None
) -> Iterator[str]:
    """What the builder says, and the data if it is prepared or asked for."""
    try:
        builder = benchmark_builder(name, config, data_dir=data_dir, cache_dir=cache_dir)
    except DataError as error:
        # if a user makes the files, the columns are known only once they exist
        if lengths:
            raise
        yield _section("Columns, lengths and vocabulary", f"Not known without the data: {error}")
        return
    yield _section("Columns", ", ".join(builder.info.features))
    if builder.STREAMED:
        yield "Streamed, so lengths and vocabulary are not known"
    elif lengths or builder.is_prepared:
        builder.download_and_prepare()
        yield measured_text(builder.as_dataset())
    else:
        yield "Lengths and vocabulary: not prepared yet; add --lengths"


def _head(benchmark: BenchmarkInfo) -> str:
    about = f"{benchmark.name}: {benchmark.title}. {benchmark.description}"
    lines = [_wrapped(about), _wrapped(f"Licence: {benchmark.licence}", "  ")]
    if benchmark.restriction:
        lines.append(_wrapped(f"Restricted: {benchmark.restriction}", "  "))
    if benchmark.extra:
        lines.append(f"  Needs: pip install hf-sysgen[{benchmark.extra}]")
    return "\n".join(lines)


def _benchmark_page(benchmark: BenchmarkInfo) -> str:
    configs = [
        f"  {name}: {counts_text(config)}\n{_wrapped(config.description, '    ')}"
        for name, config in benchmark.configs.items()
    ]
    parts = [
        _head(benchmark),
        _section("Homepage", benchmark.homepage),
        "Configs, each with its own page\n" + "\n".join(configs),
        _errata(benchmark.errata),
        _cite(benchmark.citation),
    ]
    return "\n\n".join(filter(None, parts))


def _splits(config: ConfigInfo) -> str:
    rows = [
        (split, "not known" if count is None else f"{count:,}", config.meaning(split))
        for split, count in config.num_examples.items()
    ]
    return "Splits\n" + _indented(_columns(rows))


def measured_text(dataset: datasets.DatasetDict) -> str:
    """Lengths of the text columns by split, and their number of different words."""
    import pyarrow.compute

    rows = [("split", "column", "shortest", "median", "longest", "words in all")]
    vocabularies, known = [], set()
    for column in ("input", "target"):
        words: dict[str, set[str]] = {}
        for split, part in dataset.items():
            if getattr(part.features.get(column), "dtype", None) != "string":
                continue
            tokens = pyarrow.compute.utf8_split_whitespace(part.with_format("arrow")[:][column])
            sizes = pyarrow.compute.list_value_length(tokens)
            low, median, high = pyarrow.compute.quantile(sizes, [0, 0.5, 1], interpolation="nearest").to_pylist()
            rows.append(
                (split, column, f"{low:,}", f"{median:,}", f"{high:,}", f"{pyarrow.compute.sum(sizes).as_py():,}")
            )
            words[split] = set(pyarrow.compute.unique(pyarrow.compute.list_flatten(tokens)).to_pylist())
        if words:
            found = set().union(*words.values())
            known |= found
            vocabulary = f"{column}: {len(found):,} different words"
            if "train" in words:
                new = {split: len(part - words["train"]) for split, part in words.items() if split != "train"}
                unseen = ", ".join(f"{split} {count:,}" for split, count in new.items())
                vocabulary += f", not in train: {unseen}"
            vocabularies.append(vocabulary)
    if not vocabularies:
        return ""
    vocabularies.append(f"both: {len(known):,}")
    return (
        "Lengths, in words between spaces\n"
        + _indented(_columns(rows))
        + "\n\n"
        + _section("Vocabulary", "; ".join(vocabularies))
    )


def _file(role: str, source: Source) -> str:
    if not source.url:
        return f"  {role}: your own file\n    in the data folder: {source.mirror}"
    size = "size not known" if source.num_bytes is None else f"{source.num_bytes:,} bytes"
    pinned = (
        f"{source.checksum_kind} {source.checksum}" if source.checksum else "no checksum: the first download is trusted"
    )
    made = "generated, byte for byte the file at " if source.rebuild else ""
    lines = [f"{role}: {made}{source.url}"]
    if archive := source.archive:
        pinned = pinned if source.checksum else f"in an archive with {archive.checksum_kind} {archive.checksum}"
        lines.append(f"  its member {source.path}")
    lines += [f"  {size}, {pinned}", f"  in a mirror folder: {source.mirror}"]
    return _indented("\n".join(lines))


def _errata(errata: Iterable[str]) -> str:
    lines = "\n".join(_wrapped(text, "    ", "  - ") for text in errata)
    return f"Known errors and gaps\n{lines}" if lines else ""


def _section(title: str, text: str) -> str:
    return f"{title}\n{_wrapped(text, '  ')}" if text else ""


def _cite(*citations: str) -> str:
    found = "\n".join(filter(None, citations))
    return f"Cite\n{_indented(found)}" if found else ""


def _columns(rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns; the last one wraps below itself."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    before = sum(widths) + 2 * len(widths)
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if cell[:1].isdigit() else cell.ljust(width)
            for cell, width in zip(row, widths, strict=False)
        ]
        head = "".join(f"{cell}  " for cell in cells)
        lines.append(_wrapped(row[-1], " " * before, head) if row[-1] else head.rstrip())
    return "\n".join(lines)


def _wrapped(text: str, indent: str = "", first: str | None = None) -> str:
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _indented(text: str) -> str:
    return textwrap.indent(text, "  ")
