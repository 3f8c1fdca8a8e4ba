"""CFQ as a `datasets` builder: questions to SPARQL queries."""

from __future__ import annotations

from collections.abc import Iterator

import datasets

from hf_sysgen.data.builder import BenchmarkBuilder, Check, Examples, builder_configs, check_none
from hf_sysgen.data.cfq.files import (
    EDGE_QUERY_LIMIT,
    Pair,
    edge_form,
    edge_parts,
    original,
    preprocess,
    read_archive,
    read_texts,
)
from hf_sysgen.data.cfq.splits import EDGE, FAMILIES, family_of, split_names
from hf_sysgen.data.info import read_info

# words of all questions and queries (Csordas et al. 2021, table 10)
_VOCABULARY = 181


class Cfq(BenchmarkBuilder):
    """CFQ (Keysers et al. 2020, arXiv:1912.09713): questions to SPARQL queries.

    Columns: `input`, a question of up to 30 tokens, and `target`, a query of up to 107; tokens are joined by single
    blanks, without an end symbol. Entities are M0 to M9. The order is that of CFQ's files of splits.

    Configs (the description of each names its compositional test): mcd1, mcd2, mcd3, query_complexity (the "output
        length" split of Csordas et al. 2021, arXiv:2108.12284), question_complexity, question_pattern, query_pattern,
        random: the splits of Keysers et al. The text is
            preprocessed as by CFQ's own `preprocess.py`, which Csordas et al. follow: punctuation and "count(*)" in
            tokens of their own, no "ns:", Freebase ids as "m_...". What CFQ calls dev is drawn like test, hence
            `validation_generalization`, except in random.
        mcd1_edge, mcd2_edge, mcd3_edge, random_edge: the same test questions as the Edge Transformer sees them (Bergen
            et al. 2021, arXiv:2112.00578, section 4.3; `cfq-semantic-parsing/train.py:214-240` of their code, seed 42):
            original tokens in lower case ("'s", "count(*)" and "ns:..." are one token each), training queries of less
            than 50 tokens, and 1,000 of the training examples as `validation`. random_edge takes these from test. These
            are the authors' examples if they had them in the order of CFQ's file of splits.
        mcd1_edge_unfiltered, mcd2_edge_unfiltered, mcd3_edge_unfiltered, random_edge_unfiltered: the same validation
        and test, but train also has queries of 50 tokens and more (1,689 in mcd1, up to 92 tokens).

    mcd1, mcd1_edge and mcd1_edge_unfiltered are made of preprocessed text files (3 MB in a pinned repository). All
    others need CFQ's archive (268 MB), which is streamed: nothing is unpacked.
    """

    BENCHMARK = read_info(__file__, "cfq")
    BUILDER_CONFIGS = builder_configs(BENCHMARK, version="1.0.0")

    def _generate_examples(self, files: dict[str, str], split: str) -> Examples:
        for row, (question, query) in enumerate(self.part(split, lambda: read_parts(self.config.name, files))):
            yield row, {"input": question, "target": query}

    def checks(self, dataset: datasets.DatasetDict) -> Iterator[Check]:
        yield from super().checks(dataset)
        name = self.config.name
        # a random split divides examples, and two of them may have the same question
        if "test" in self.benchmark_config.of_kind("compositional"):
            yield from disjoint_from_train(dataset)
        if name in EDGE:
            validation_from, filtered = EDGE[name]
            if filtered:
                yield check_none(*_long_queries(dataset, "train"))
            if validation_from == "train":
                yield check_none(*_long_queries(dataset, "validation"))
            return
        words = set().union(*map(_words, dataset.values()))
        # the paper counts one vocabulary over all splits that it uses
        whole = len(words) == _VOCABULARY if FAMILIES[name].lengths else len(words) <= _VOCABULARY
        yield Check(f"{_VOCABULARY} words in questions and queries", whole, "" if whole else f"{len(words)}")
        for split, expected in FAMILIES[name].lengths.items():
            found = tuple(max(map(_length, dataset[split][column][:])) for column in ("input", "target"))
            fact = f"up to {expected[0]} tokens in the questions of {split}, up to {expected[1]} in its queries"
            yield Check(fact, found == expected, "" if found == expected else f"{found[0]} and {found[1]}")


def read_parts(config: str, files: dict[str, str]) -> dict[str, list[Pair]]:
    """Split name -> pairs of a config, from its files by role."""
    family = family_of(config)
    from_archive = "archive" in files
    parts = read_archive(files["archive"], FAMILIES[family].split) if from_archive else read_texts(files)
    if config in EDGE:
        forms = {
            part: [edge_form(pair if from_archive else original(pair)) for pair in pairs]
            for part, pairs in parts.items()
        }
        return edge_parts(forms, *EDGE[config])
    return {
        split_names(family)[part]: list(map(preprocess, pairs)) if from_archive else pairs
        for part, pairs in parts.items()
    }


def disjoint_from_train(dataset: datasets.DatasetDict) -> Iterator[Check]:
    """Check that no question of another split is in train."""
    known = set(dataset["train"]["input"][:])
    for split, part in dataset.items():
        if split != "train":
            shared = (question for question in part["input"][:] if question in known)
            yield check_none(f"no question of {split} is in train", shared)


def _long_queries(dataset: datasets.DatasetDict, split: str) -> tuple[str, Iterator[str]]:
    """Check that a split has no long query; the exceptions are shown."""
    queries = (query for query in dataset[split]["target"][:] if _length(query) >= EDGE_QUERY_LIMIT)
    return f"no query of {split} has {EDGE_QUERY_LIMIT} tokens or more", queries


def _words(part: datasets.Dataset) -> set[str]:
    return {word for column in ("input", "target") for text in part[column][:] for word in text.split()}


def _length(text: str) -> int:
    return text.count(" ") + 1
