"""COGS as a `datasets` builder: sentences and logical forms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import datasets

from hf_sysgen.data.builder import STRING, BenchmarkBuilder, Check, Examples, builder_configs
from hf_sysgen.data.cogs.checks import Splits, check_categories, check_definitions
from hf_sysgen.data.cogs.files import CATEGORIES, STRUCTURAL, Example, parse
from hf_sysgen.data.fetch import open_file
from hf_sysgen.data.info import read_info

COLUMNS = {"input": STRING, "target": STRING, "category": STRING, "is_structural": datasets.Value("bool")}


class Cogs(BenchmarkBuilder):
    """COGS (Kim & Linzen 2020, arXiv:2010.05465): sentences to logical forms.

    Columns, with words joined by single spaces and without an end symbol: input: a sentence with its full stop; in
        train also a word alone ("primitive"). target: its logical form, see `cogs.forms`. category: in test one of the
        21 `cogs.files.CATEGORIES`; in train "in_distribution", "primitive" or
            "exposure_example_..."; "in_distribution" in validation and test_iid.
        is_structural: whether the category is one of the 3 that test a structure, not a word.

    Configs: gen_2020 (the papers of before 2022-09-13: Kim & Linzen, Csordas et al. 2021) and current differ in 51
    targets of test; train_100_gen_2020 and train_100_current have the larger training file of their appendix. What is
    wrong upstream is in `errata` of the benchmark and of each config. Csordas et al. do not use test_iid, except that
    their vocabulary has its words.
    """

    BENCHMARK = read_info(__file__, "cogs")
    BUILDER_CONFIGS = builder_configs(BENCHMARK, version="1.0.0")
    CASES = CATEGORIES
    FEATURES = COLUMNS

    def _generate_examples(self, files: dict[str, str], split: str) -> Examples:
        for row, example in enumerate(read(files[split])):
            yield row, columns(example)

    def checks(self, dataset: datasets.DatasetDict) -> Iterator[Check]:
        yield from super().checks(dataset)
        splits = examples(dataset)
        yield from check_categories(splits, copies=100 if self.config.name.startswith("train_100") else 1)
        yield from check_definitions(splits)


def read(path: str) -> list[Example]:
    """The examples of a located file."""
    with open_file(path) as stream:
        return parse(stream.read())


def columns(example: Example) -> dict[str, Any]:
    """The columns that all three forms of COGS have."""
    return {
        "input": example.sentence,
        "target": example.target,
        "category": example.category,
        "is_structural": example.category in STRUCTURAL,
    }


def examples(dataset: Mapping[str, datasets.Dataset]) -> Splits:
    """The examples of the four files of COGS, by split."""
    return {
        split: [
            Example(*row)
            for row in zip(*(dataset[split][name][:] for name in ("input", "target", "category")), strict=True)
        ]
        for split in ("train", "validation", "test_iid", "test")
    }
