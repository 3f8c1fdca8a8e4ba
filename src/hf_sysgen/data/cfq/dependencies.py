"""Dependency parsing of CFQ's questions as a `datasets` builder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import datasets

from hf_sysgen.data.builder import INT32, STRING, BenchmarkBuilder, Check, Examples, builder_configs, check_none
from hf_sysgen.data.cfq.builder import disjoint_from_train, read_parts
from hf_sysgen.data.cfq.files import original_question
from hf_sysgen.data.cfq.grammar import parse
from hf_sysgen.data.cfq.trees import Sentence, is_content, is_tree, read_trees
from hf_sysgen.data.errors import DataError
from hf_sysgen.data.fetch import open_file
from hf_sysgen.data.info import read_info

# suffix of configs whose trees have our heads and labels
OWN_HEADS = "_own_heads"


class CfqDependencies(BenchmarkBuilder):
    """CFQ's questions to trees (Goodwin et al. 2022, arXiv:2110.06843; Bergen et al. 2021, arXiv:2112.00578).

    Columns: `input`, the question's tokens joined by single blanks ("'s" is one token), `tokens`; for each token
    `heads` (number of the token that it depends on, counted from 1; 0 for the root), `labels` (of that dependency) and
    `content_word` (whether the papers' exact match counts it; exact match is the share of questions in which all these
    tokens are right); and
    `target`, heads and labels as a sequence of as many words: "2:NSUBJ 0:ROOT 2:OBJ". Splits and their order are those
    of `cfq`.

    Configs:
        mcd1, mcd2, mcd3, random: the published trees, looked up by question in a file of 105 MB for all of CFQ. The
            tokens are that file's.
        mcd1_own_heads, mcd2_own_heads, mcd3_own_heads, random_own_heads: trees that `cfq.grammar` makes with the heads
            and labels of THIS PACKAGE. They replace the file, but are not the papers' benchmark: do not compare numbers
            on them with the papers'.

    All but mcd1 and mcd1_own_heads need CFQ's archive (268 MB) for the splits, see `cfq`.

    Raises:
        DataError: unknown config, or (on preparation) a file that is missing or not the expected one, or a question
            without a tree.
    """

    BENCHMARK = read_info(__file__, "cfq_dependencies")
    BUILDER_CONFIGS = builder_configs(BENCHMARK, version="1.0.0")
    FEATURES = datasets.Features(
        {
            "input": STRING,
            "target": STRING,
            "tokens": datasets.List(STRING),
            "heads": datasets.List(INT32),
            "labels": datasets.List(STRING),
            "content_word": datasets.List(datasets.Value("bool")),
        }
    )

    def _generate_examples(self, files: dict[str, str], split: str) -> Examples:
        questions = self.part(split, lambda: _questions(self.config.name.removesuffix(OWN_HEADS), files))
        sentences = (
            read_published_trees(questions, files["parses"]) if "parses" in files else map(derive_tree, questions)
        )
        for row, sentence in enumerate(sentences):
            yield row, example(sentence)

    def checks(self, dataset: datasets.DatasetDict) -> Iterator[Check]:
        yield from super().checks(dataset)
        if "test" in self.benchmark_config.of_kind("compositional"):
            yield from disjoint_from_train(dataset)
        for split, part in dataset.items():
            columns = (part[name][:] for name in ("tokens", "heads", "labels", "content_word"))
            wrong = (row[0] for row in zip(*columns, strict=True) if not _consistent(*row))
            yield check_none(f"every question of {split} has a tree with one root, and a label for each token", wrong)


def _questions(config: str, files: dict[str, str]) -> dict[str, list[str]]:
    """Split -> CFQ's questions, as upstream writes them."""
    parts = read_parts(config, files)
    return {split: [original_question(question) for question, _ in pairs] for split, pairs in parts.items()}


def derive_tree(question: str) -> Sentence:
    """A question with the tree of our grammar.

    Raises:
        DataError: the grammar has no tree for it.
    """
    tree = parse(question)
    if tree is None:
        raise DataError(f"no tree for the CFQ question {question!r}: cfq/grammar.py lacks a rule or a word of it")
    return Sentence(tuple(question.split()), tree.heads, tree.labels)


def read_published_trees(questions: Sequence[str], path: str) -> Iterator[Sentence]:
    """The questions with their trees in a CoNLL-U file, in the order of the questions.

    Blanks are ignored, as the file may separate "'s" in another way. Only the trees of these questions are in memory.

    Raises:
        DataError: the file is not CoNLL-U, or lacks a question.
    """
    keys = [question.replace(" ", "") for question in questions]
    found: dict[str, Sentence | None] = dict.fromkeys(keys)
    with open_file(path) as lines:
        for sentence in read_trees(lines, path):
            if (key := "".join(sentence.tokens)) in found:
                found[key] = sentence
    for key, question in zip(keys, questions, strict=True):
        tree = found[key]
        if tree is None:
            raise DataError(f"{path}: has no tree for the CFQ question {question!r}; replace the file")
        yield tree


def example(sentence: Sentence) -> dict[str, Any]:
    """A row of the data set."""
    tokens, heads, labels = sentence
    return {
        "input": " ".join(tokens),
        "target": " ".join(f"{head}:{label}" for head, label in zip(heads, labels, strict=True)),
        "tokens": tokens,
        "heads": heads,
        "labels": labels,
        "content_word": [is_content(label) for label in labels],
    }


def _consistent(tokens: list[str], heads: list[int], labels: list[str], content_word: list[bool]) -> bool:
    return (
        len(tokens) == len(heads) == len(labels)
        and is_tree(heads)
        and content_word == [is_content(label) for label in labels]
    )
