"""COGS-vf as a `datasets` builder: sentences and logical forms without variables."""

from __future__ import annotations

from collections.abc import Iterator

import datasets

from hf_sysgen.data.builder import BenchmarkBuilder, Check, Examples, builder_configs, check_none
from hf_sysgen.data.cogs.builder import COLUMNS, columns, examples, read
from hf_sysgen.data.cogs.checks import check_categories
from hf_sysgen.data.cogs.files import CATEGORIES
from hf_sysgen.data.cogs.variable_free_forms import parse_variable_free, to_variable_free
from hf_sysgen.data.info import read_info


class CogsVf(BenchmarkBuilder):
    """COGS-vf (Qiu et al. 2022, arXiv:2112.07610): the sentences of COGS to forms without variables.

    Columns: as in `cogs.Cogs`; `target` is the variable-free form, see `variable_free_forms`, with words and signs
    joined by single spaces. In train, the target of a word alone is that word.

    Configs: gen_2020 and current are made from the files of COGS; with current, each line is that of Wu et al. 2023
    (and of Qiu et al., as far as their files are available). recogs has the files of Wu et al., where 122 words alone
    keep their COGS target with LAMBDA.
    """

    BENCHMARK = read_info(__file__, "cogs_vf")
    BUILDER_CONFIGS = builder_configs(BENCHMARK, version="1.0.0")
    CASES = CATEGORIES
    FEATURES = COLUMNS

    def _generate_examples(self, files: dict[str, str], split: str) -> Examples:
        for row, example in enumerate(read(files[split])):
            if self.config.name != "recogs":
                alone = example.category == "primitive"
                example = example._replace(target=example.sentence if alone else to_variable_free(example.target))
            yield row, columns(example)

    def checks(self, dataset: datasets.DatasetDict) -> Iterator[Check]:
        yield from super().checks(dataset)
        splits = examples(dataset)
        yield from check_categories(splits, copies=1)
        for split, rows in splits.items():
            yield check_none(
                f"every sentence of {split} has a variable-free form with a verb at its root",
                (row for row in rows if row.category != "primitive" and not _is_sentence_form(row.target)),
            )
        count = sum("LAMBDA" in row.target for row in splits["train"])
        expected = 122 if self.config.name == "recogs" else 0
        fact = f"train has {expected} targets with LAMBDA"
        yield Check(fact, count == expected, "" if count == expected else f"{count}")


def _is_sentence_form(target: str) -> bool:
    try:
        return bool(parse_variable_free(target).roles)
    except ValueError:
        return False
