"""GeoQuery as a `datasets` builder: eleven splits of the same 880 questions."""

from __future__ import annotations

import json
from collections.abc import Iterator

import datasets

from hf_sysgen.data.builder import STRING, BenchmarkBuilder, Check, Examples, builder_configs
from hf_sysgen.data.errors import DamagedData
from hf_sysgen.data.fetch import open_file
from hf_sysgen.data.geoquery.entities import convert
from hf_sysgen.data.geoquery.funql import atoms, divergence
from hf_sysgen.data.info import read_info

# config -> compound divergence from train of test and all other held-out examples; the paper maximises it
_DIVERGENCE = {"tmcd": 0.1902, "csl_tmcd_1": 0.1328, "csl_tmcd_2": 0.2376, "csl_tmcd_3": 0.1521}

# number of examples that the splits divide; the corpus has twelve more, from a later extension
NUM_EXAMPLES = 880


class Geoquery(BenchmarkBuilder):
    """GeoQuery (Zelle & Mooney 1996) in the FunQL form of Shaw et al. 2021 (arXiv:2010.12725).

    Columns: `input`, the question's words in lower case, and `target`, the query's names, brackets and commas, both
    joined by single blanks; places are m0 and m1 in both, and `entities` lists these places as the corpus writes them
    ("stateid('ohio')"). `geoquery.entities` makes them from the corpus and its database; each line is that of the
    authors' program. Examples are in the order of the files of split ids.

    Configs:
        standard: the random split of Zettlemoyer & Collins 2005, which Petty et al. 2023 report (section 2.3).
        template, tmcd, length: Shaw et al. 2021, section 4 (their files template_1, tmcd_1, length_1).
        csl_length, csl_template_1, ..., csl_tmcd_3: Qiu et al. 2022 (arXiv:2112.07610), three draws of a split each.
    """

    BENCHMARK = read_info(__file__)
    BUILDER_CONFIGS = builder_configs(BENCHMARK, version="1.0.0")
    FEATURES = datasets.Features({"input": STRING, "target": STRING, "entities": datasets.List(STRING)})

    def _generate_examples(self, files: dict[str, str], split: str) -> Examples:
        content = {}
        for role, path in files.items():
            with open_file(path) as stream:
                content[role] = stream.read()
        try:
            examples = convert(content["corpus"], content["geobase"].decode("latin-1"))[:NUM_EXAMPLES]
        except ValueError as error:
            raise DamagedData(f"{files['corpus']}: {error}; this is not the GeoQuery corpus") from error
        part = "dev" if split == "validation_generalization" else split
        for row, position in enumerate(split_ids(content["splits"], files["splits"], len(examples))[part]):
            yield row, examples[position]

    def checks(self, dataset: datasets.DatasetDict) -> Iterator[Check]:
        yield from super().checks(dataset)
        train = dataset["train"]
        held_out = datasets.concatenate_datasets([part for split, part in dataset.items() if split != "train"])
        total = len(train) + len(held_out)
        yield Check(f"all splits together have {NUM_EXAMPLES} examples", total == NUM_EXAMPLES, f"{total}")
        kind = self.config.name.removeprefix("csl_").partition("_")[0]
        if kind == "template":
            shared = set(train["target"]) & set(held_out["target"])
            yield Check("no query outside train is one of train's", not shared, f"{len(shared)} are")
        if kind == "length":
            longest = max(len(question.split()) for question in train["input"])
            shortest = min(len(question.split()) for question in held_out["input"])
            yield Check("train's questions have up to 7 words", longest == 7, f"{longest}")
            yield Check("all others have at least 7 words", shortest == 7, f"{shortest}")
        if kind == "tmcd":
            new = atoms(held_out["target"]) - atoms(train["target"])
            yield Check("train has all names of the other queries", not new, f"not {', '.join(sorted(new))}")
            expected = _DIVERGENCE[self.config.name]
            found = round(divergence(train["target"], held_out["target"]), 4)
            yield Check(f"compound divergence from train is {expected}", found == expected, f"{found}")


def split_ids(content: bytes, where: str, num_examples: int) -> dict[str, list[int]]:
    """The positions in the corpus of each part of a split.

    Args:
        content: the file, JSON.
        where: its name, for messages.
        num_examples: number of examples in the corpus.

    Raises:
        DataError: not JSON, or not each example once.
    """
    try:
        parts = json.loads(content)
        positions = sorted(position for part in parts.values() for position in part)
    except (ValueError, AttributeError, TypeError) as error:
        raise DamagedData(f"{where}: no lists of positions by part ({type(error).__name__}: {error})") from error
    if positions != list(range(num_examples)):
        raise DamagedData(f"{where}: its {len(positions)} positions are not each of 0 to {num_examples - 1} once")
    return parts
