"""A benchmark of one's own tables, in three lines: docs/new_benchmark.md."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from hf_sysgen.data.builder import STRING, BenchmarkBuilder, Examples, builder_configs
from hf_sysgen.data.errors import DataError
from hf_sysgen.data.fetch import DATA_DIR_VARIABLE, open_file, with_found_checksum
from hf_sysgen.data.info import BenchmarkInfo, ConfigInfo, Source
from hf_sysgen.errors import one_line, shorten


class TableBenchmark(BenchmarkBuilder):
    """
    Examples in tables, one file for each split: .jsonl, or .csv or .tsv (without quotes) whose first line names the
    columns. In a folder of extensions, a subclass is a benchmark. Its name is that of the class in snake case, and its
    only config is `default`. The files are looked for as those of other benchmarks. They are not pinned: when one
    changes, the data is prepared again.

    Class attributes of a subclass:

    - `FILES`: split -> its file, relative to the data folder; it may be gzipped there, with ".gz" appended.
    - `COLUMNS`: column of the examples -> column of the tables. `category` may be added, for scores by category.
    - `DESCRIPTION`, `HOMEPAGE`, `CITATION` (BibTeX), `LICENCE`: what cards say of the data.

    Raises:
        DataError: (on preparation) a file is missing, is not UTF-8, or lacks a column.
    """

    FILES: ClassVar[Mapping[str, str]]
    COLUMNS: ClassVar[Mapping[str, str]] = {"input": "input", "target": "target"}
    DESCRIPTION: ClassVar[str] = ""
    HOMEPAGE: ClassVar[str] = ""
    CITATION: ClassVar[str] = ""
    LICENCE: ClassVar[str] = "not stated"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if wrong := [file for file in cls.FILES.values() if Path(file).suffix not in ROWS]:
            raise ValueError(f"FILES: {wrong[0]!r} must end in one of {', '.join(ROWS)}")
        name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()
        sources = {
            split: Source(name, "", file, None, None, cls.LICENCE, mirror=file, address="")
            for split, file in cls.FILES.items()
        }
        config = ConfigInfo("default", "", dict.fromkeys(cls.FILES), sources)
        cls.BENCHMARK = BenchmarkInfo(
            name=name,
            title=cls.__name__,
            description=cls.DESCRIPTION,
            homepage=cls.HOMEPAGE,
            citation=cls.CITATION,
            builder=f"{cls.__module__}:{cls.__name__}",
            configs={config.name: config},
        )
        cls.BUILDER_CONFIGS = builder_configs(cls.BENCHMARK, version="1.0.0")
        cls.FEATURES = dict.fromkeys(cls.COLUMNS, STRING)

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
                    f"{self._what}: no file {source.mirror}[.gz]{f' in {where}' if where else ''}; name the folder of "
                    f"the tables with data_dir, or with {DATA_DIR_VARIABLE}"
                )
        return super().locate_sources()

    def _generate_examples(self, files: Mapping[str, str], split: str) -> Examples:
        path = files[split]
        rows = ROWS[Path(self.FILES[split]).suffix]
        try:
            with open_file(path) as stream, io.TextIOWrapper(stream, "utf-8-sig", newline="") as lines:
                for number, row in enumerate(rows(lines)):
                    if not isinstance(row, dict):
                        found = shorten(row, quoted=True)
                        raise DataError(f"{path}: row {number + 1} is {found}, and should be an object")
                    if None in row:  # where `csv` puts the rest
                        raise DataError(f"{path}: row {number + 1} has more columns than the first line; correct it")
                    if missing := [name for name in self.COLUMNS.values() if name not in row]:
                        raise DataError(
                            f"{path}: row {number + 1} has no column {missing[0]!r}; it has "
                            f"{', '.join(map(str, row))}: correct it, or name the columns in COLUMNS"
                        )
                    yield number, {ours: row[theirs] for ours, theirs in self.COLUMNS.items()}
        except (UnicodeDecodeError, csv.Error, json.JSONDecodeError) as error:
            raise DataError(f"{path}: cannot be read ({one_line(error)}); correct it") from error


def _csv_rows(lines: io.TextIOWrapper) -> Iterator[dict[Any, Any]]:
    # with `strict`, an open quote is an error
    return iter(csv.DictReader(lines, strict=True))


def _tsv_rows(lines: io.TextIOWrapper) -> Iterator[dict[Any, Any]]:
    return iter(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


def _jsonl_rows(lines: io.TextIOWrapper) -> Iterator[Any]:
    return (json.loads(line) for line in lines if line.strip())


# the end of a file's name -> what reads its rows
ROWS: Mapping[str, Callable[[io.TextIOWrapper], Iterator[Any]]] = {
    ".csv": _csv_rows,
    ".tsv": _tsv_rows,
    ".jsonl": _jsonl_rows,
}
