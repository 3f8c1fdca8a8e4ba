"""The Mathematics Dataset as a `datasets` builder: two modules, published or generated."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import datasets

from hf_sysgen.data.builder import BenchmarkBuilder, Check, Examples, builder_configs
from hf_sysgen.data.errors import DamagedData, DataError
from hf_sysgen.data.fetch import DATA_DIR, DATA_DIR_VARIABLE, open_file, with_found_checksum
from hf_sysgen.data.info import ConfigInfo, read_info
from hf_sysgen.data.mathematics.files import Pair, longest_number, read_pairs, solve, split_module

# suffix of configs of generated files
SUFFIX = "_generated"


class Mathematics(BenchmarkBuilder):
    """The Mathematics Dataset (Saxton et al. 2019, arXiv:1904.01557) as in Csordas et al. 2021 (arXiv:2108.12284).

    Columns: `input`, the question, and `target`, its answer, as upstream writes them. Models read characters, and
    blanks are characters too.

    Configs: arithmetic__add_or_sub and numbers__place_value, from the published archive (2.3 GB, read once for each of
    its five files); the same with "_generated", from files that `mathematics.generate` wrote into `data_dir`.

    Raises:
        DataError: unknown config; generated files that are missing; (on preparation) a file that is missing, is not the
            expected one, or has a question without an answer.
    """

    BENCHMARK = read_info(__file__)
    BUILDER_CONFIGS = builder_configs(BENCHMARK, version="1.0.0")

    @classmethod
    def config_info(cls, config_name: str | None, data_dir: str | Path | None) -> ConfigInfo:
        config = super().config_info(config_name, data_dir)
        return _with_checksums(config, data_dir) if config.name.endswith(SUFFIX) else config

    def _generate_examples(self, files: dict[str, str], split: str) -> Examples:
        for row, (question, answer) in enumerate(self.part(split, lambda: self._parts(files))):
            yield row, {"input": question, "target": answer}

    def _parts(self, files: dict[str, str]) -> dict[str, list[Pair]]:
        """The pairs of each split, in order."""
        parts: dict[str, list[Pair]] = {split: [] for split in self.benchmark_config.splits}
        for split, pair in split_module({role: _pairs(path) for role, path in files.items()}):
            parts[split].append(pair)
        return parts

    def checks(self, dataset: datasets.DatasetDict) -> Iterator[Check]:
        yield from super().checks(dataset)
        questions = {split: part["input"][:] for split, part in dataset.items()}
        total = sum(map(len, questions.values()))
        distinct = len({question for part in questions.values() for question in part})
        yield Check("no question is there twice, in one split or in two", total == distinct, f"{total - distinct} are")
        for split in ("validation", "test_iid", "test"):
            answers = dataset[split]["target"][:]
            wrong = sum(
                solve(question) != Decimal(answer) for question, answer in zip(questions[split], answers, strict=True)
            )
            yield Check(f"every answer of {split} is right", not wrong, f"{wrong} are not")
        train, test = longest_number(questions["train"]), longest_number(questions["test"])
        yield Check("test has longer numbers than train", test > train, f"{test} and {train} digits")


def _pairs(path: str) -> Iterator[Pair]:
    with open_file(path) as stream, io.TextIOWrapper(stream, encoding="utf-8") as lines:
        try:
            yield from read_pairs(lines)
        except ValueError as error:
            raise DamagedData(f"{path}: {error}; this is not a file of the Mathematics Dataset") from error


def _with_checksums(config: ConfigInfo, data_dir: str | Path | None) -> ConfigInfo:
    """The config with the checksums of the generated files, which are known only now."""
    sources = {}
    for role, source in config.sources.items():
        found = with_found_checksum(source, data_dir)
        if found is None:
            folder = data_dir or os.environ.get(DATA_DIR_VARIABLE) or "any folder"
            raise DataError(
                f"mathematics {config.name}: no file {source.mirror}[.gz] in {folder}; make it with "
                f"python -m hf_sysgen.data.mathematics.generate --output FOLDER, then give that FOLDER as {DATA_DIR}"
            )
        sources[role] = found
    return replace(config, sources=sources)
