"""A benchmark of one's own tables, in a few lines: docs/new_benchmark.md."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from hf_sysgen.data.builder import STRING, BenchmarkBuilder, Examples, builder_configs
from hf_sysgen.data.errors import DataError
from hf_sysgen.data.fetch import DATA_DIR, DATA_DIR_VARIABLE, open_file, with_found_checksum
from hf_sysgen.data.info import BenchmarkInfo, ConfigInfo, Source
from hf_sysgen.errors import shorten


class TableBenchmark(BenchmarkBuilder):
    """
    Examples in tables, one file for each split: .jsonl, or .csv or .tsv whose first line names the columns. In a .tsv,
    quotes are letters like others. In a folder of extensions, a subclass with `FILES` is a benchmark. Its name is that
    of the class in snake case, and its only config is `default`. The files lie in `data_dir`, or in the folder that
    `HF_SYSGEN_DATA_DIR` names. They are not pinned: when one changes, the data is prepared again.

    Class attributes of a subclass:

    - `FILES`: split -> its file in the data folder; it may be gzipped there, with ".gz" appended to its name.
    - `COLUMNS`: column of the examples -> column of the tables. `category` may be added, for scores by category.
    - `DESCRIPTION`, `HOMEPAGE`, `CITATION` (BibTeX), `LICENCE`: what cards say of the data.

    Raises:
        ValueError: (when the class is made) one of these attributes is wrong.
        DataError: (on preparation) a file is missing or not UTF-8, or a line of it is wrong.
    """

    FILES: ClassVar[Mapping[str, str]]
    COLUMNS: ClassVar[Mapping[str, str]] = {"input": "input", "target": "target"}
    DESCRIPTION: ClassVar[str] = ""
    HOMEPAGE: ClassVar[str] = ""
    CITATION: ClassVar[str] = ""
    LICENCE: ClassVar[str] = "not stated"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not hasattr(cls, "FILES"):
            # what several benchmarks share
            return
        cls._check_attributes()
        name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", cls.__name__).lower()
        sources = {
            split: Source(name, "", file, None, None, cls.LICENCE, mirror=file, address="")
            for split, file in cls.FILES.items()
        }
        config = ConfigInfo("default", cls.DESCRIPTION, dict.fromkeys(cls.FILES), sources)
        cls.BENCHMARK = BenchmarkInfo(
            name=name,
            title=cls.__name__,
            description="",
            homepage=cls.HOMEPAGE,
            citation=cls.CITATION,
            builder=f"{cls.__module__}:{cls.__name__}",
            configs={config.name: config},
        )
        cls.BUILDER_CONFIGS = builder_configs(cls.BENCHMARK, version="1.0.0")
        cls.FEATURES = dict.fromkeys(cls.COLUMNS, STRING)

    @classmethod
    def _check_attributes(cls) -> None:
        for name in ("FILES", "COLUMNS"):
            value = getattr(cls, name)
            if not isinstance(value, Mapping) or not value or not all(map(_is_text, (*value, *value.values()))):
                raise ValueError(f"{name} of {cls.__name__} must be a dictionary of texts, not {shorten(value)}")
        if missing := [column for column in ("input", "target") if column not in cls.COLUMNS]:
            raise ValueError(f"COLUMNS of {cls.__name__} lacks {missing[0]!r}: it has our columns, each with yours")
        for split, file in cls.FILES.items():
            if not re.fullmatch(r"\w+", split) or split == "all":
                raise ValueError(f"FILES of {cls.__name__}: {split!r} is no name of a split; use letters, digits and _")
            if Path(file).suffix not in ROWS or Path(file).is_absolute():
                raise ValueError(
                    f"FILES of {cls.__name__}: {file!r} must be a path in the data folder that ends in one of "
                    f"{', '.join(ROWS)}"
                )
        for name in ("DESCRIPTION", "HOMEPAGE", "CITATION", "LICENCE"):
            if not _is_text(getattr(cls, name)):
                raise ValueError(f"{name} of {cls.__name__} must be a text, not {shorten(getattr(cls, name))}")

    @classmethod
    def config_info(cls, config_name: str | None, data_dir: str | Path | None) -> ConfigInfo:
        config = super().config_info(config_name, data_dir)
        found = {role: with_found_checksum(source, data_dir) or source for role, source in config.sources.items()}
        return replace(config, sources=found)

    def locate_sources(self) -> dict[str, str]:
        for source in self.benchmark_config.sources.values():
            if source.sha256 is None:
                where = self._data_dir or os.environ.get(DATA_DIR_VARIABLE)
                raise DataError(
                    f"{source.name}: no file {source.mirror}[.gz]{f' in {where}' if where else ''}; give the folder of "
                    f"the tables as {DATA_DIR}, or in {DATA_DIR_VARIABLE}"
                )
        return super().locate_sources()

    def _generate_examples(self, files: Mapping[str, str], split: str) -> Examples:
        path = files[split]
        rows, number = ROWS[Path(self.FILES[split]).suffix], None
        try:
            with open_file(path) as stream, io.TextIOWrapper(stream, "utf-8-sig", newline="") as lines:
                for number, (line, row) in enumerate(rows(lines, path, self.COLUMNS.values())):
                    yield number, self._example(row, f"{path}, line {line}")
        except UnicodeDecodeError as error:
            raise DataError(f"{path}: is not UTF-8 text; save it in that encoding") from error
        if number is None:
            raise DataError(f"{path}: has no examples; add some, or leave {split!r} out of FILES")

    def _example(self, row: Mapping[str, Any], where: str) -> dict[str, str]:
        for ours, theirs in self.COLUMNS.items():
            if not _is_text(row[theirs]):
                raise DataError(f"{where}: {theirs!r} is {shorten(row[theirs], quoted=True)}, and should be a text")
            if ours == "input" and not row[theirs].strip():
                raise DataError(f"{where}: {theirs!r} is empty; give at least one word")
        return {ours: row[theirs] for ours, theirs in self.COLUMNS.items()}


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


# lines of a file with their numbers
Rows = Iterator[tuple[int, Mapping[str, Any]]]


def _csv_rows(lines: io.TextIOWrapper, path: str, columns: Iterable[str]) -> Rows:
    # with `strict`, an open quote is an error
    reader = csv.reader(lines, strict=True)
    ended = 0

    def rows() -> Iterator[tuple[int, Sequence[str]]]:
        nonlocal ended
        for cells in reader:
            ended = reader.line_num
            yield ended, cells

    try:
        yield from _named(rows(), path, columns)
    except csv.Error as error:
        # an open quote takes in the lines after it, so the fault is where the row begins
        problem = str(error)
        if "unexpected end of data" in problem:
            problem = "a quote is not closed"
        elif "field limit" in problem:
            problem += ", perhaps as a quote is not closed"
        raise DataError(f"{path}, line {ended + 1}: {problem}; correct it") from error


def _tsv_rows(lines: io.TextIOWrapper, path: str, columns: Iterable[str]) -> Rows:
    stripped = (line.rstrip("\r\n") for line in lines)
    rows = ((number, line.split("\t") if line else []) for number, line in enumerate(stripped, 1))
    yield from _named(rows, path, columns)


def _named(rows: Iterator[tuple[int, Sequence[str]]], path: str, columns: Iterable[str]) -> Rows:
    """The rows after the first, which names the columns; without empty lines."""
    if (first := next(rows, None)) is None:
        return
    names = first[1]
    _require(columns, names, f"{path}, line 1")
    if (name := _repeated(names)) is not None:
        raise DataError(f"{path}, line 1: two columns are called {name!r}; rename one")
    for number, cells in rows:
        if cells and len(cells) != len(names):
            raise DataError(
                f"{path}, line {number}: {len(cells)} values for the {len(names)} columns of line 1; correct it"
            )
        if cells:
            yield number, dict(zip(names, cells, strict=True))


def _require(columns: Iterable[str], names: Iterable[str], where: str) -> None:
    """Raises DataError: one of the columns is not among the names."""
    if missing := [column for column in columns if column not in names]:
        has = ", ".join(map(repr, names))
        but = f"only {has}" if has else "and no other"
        raise DataError(f"{where}: no column {missing[0]!r}, {but}; correct it, or name yours in COLUMNS")


def _repeated(names: Iterable[str]) -> str | None:
    return next((name for name, times in Counter(names).items() if times > 1), None)


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these pairs. Raises ValueError: a name is repeated; `json` would keep the last value."""
    if (name := _repeated(name for name, _ in pairs)) is not None:
        raise ValueError(f"two values are called {name!r}; rename one")
    return dict(pairs)


def _jsonl_rows(lines: io.TextIOWrapper, path: str, columns: Iterable[str]) -> Rows:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line, object_pairs_hook=_once)
        except (json.JSONDecodeError, RecursionError) as error:
            raise DataError(f"{path}, line {number}: not JSON ({getattr(error, 'msg', error)}); correct it") from error
        except ValueError as error:
            raise DataError(f"{path}, line {number}: {error}") from error
        if not isinstance(row, dict):
            raise DataError(
                f'{path}, line {number}: {shorten(row, quoted=True)} should be an object, as {{"input": ...}}'
            )
        _require(columns, row, f"{path}, line {number}")
        yield number, row


# the end of a file's name -> what reads its rows
ROWS: Mapping[str, Callable[[io.TextIOWrapper, str, Iterable[str]], Rows]] = {
    ".csv": _csv_rows,
    ".tsv": _tsv_rows,
    ".jsonl": _jsonl_rows,
}
