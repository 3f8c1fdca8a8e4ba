"""SLOG as a `datasets` builder: sentences and logical forms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import datasets

from hf_sysgen.data.builder import STRING, BenchmarkBuilder, Check, Examples, builder_configs, check_none
from hf_sysgen.data.cogs.builder import examples, read
from hf_sysgen.data.info import read_info
from hf_sysgen.data.slog.files import (
    CASES,
    DEPTHS,
    MEMBERS,
    TRAIN_DEPTHS,
    depths,
    generalization_set,
    predicates,
)

PER_CASE = 1_000


class Slog(BenchmarkBuilder):
    """SLOG (Li et al. 2023, arXiv:2310.15040): sentences to logical forms, 17 structural cases.

    Columns, with words joined by single spaces and without an end symbol: input: a sentence with its full stop or
        question mark; in train also a word or a noun phrase alone. target: its logical form, see `cogs.forms` and
        `cogs.variable_free_forms`; the answer of a question is `?`. category: in test one of the 17 `slog.files.CASES`,
        elsewhere upstream's kind of sentence. group: in test one of the 4 `slog.files.GROUPS`, elsewhere
        "in_distribution".

    Configs: varfree and cogs_lf have the same sentences. Upstream keeps the generalization set in an archive with a
    password, to keep it out of training text; it is read in memory.
    """

    BENCHMARK = read_info(__file__)
    BUILDER_CONFIGS = builder_configs(BENCHMARK, version="1.0.0")
    CASES = tuple(CASES)
    FEATURES = dict.fromkeys(("input", "target", "category", "group"), STRING)

    def _generate_examples(self, files: dict[str, str], split: str) -> Examples:
        rows = generalization_set(files[split], self.config.name) if split == "test" else read(files[split])
        for row, example in enumerate(rows):
            yield (
                row,
                {
                    "input": example.sentence,
                    "target": example.target,
                    "category": example.category,
                    "group": CASES.get(example.category, "in_distribution") if split == "test" else "in_distribution",
                },
            )

    def checks(self, dataset: datasets.DatasetDict) -> Iterator[Check]:
        """The counts, the depths of the sentences, and that both logical forms have the same verbs and nouns."""
        yield from super().checks(dataset)
        splits = examples(dataset)
        counts = Counter(example.category for example in splits["test"])
        wrong = {case: counts[case] for case in {*CASES, *counts} if counts[case] != PER_CASE or case not in CASES}
        yield check_none(f"test has {len(CASES)} cases of {PER_CASE:,} examples", wrong.items())
        test = {example.sentence for example in splits["test"]}
        for split in ("train", "validation", "test_iid"):
            known = {example.sentence for example in splits[split]}
            yield check_none(f"no sentence of test is in {split}", known & test)
            yield check_none(
                f"PP, CP and centre embedding have no depth but {', '.join(map(str, TRAIN_DEPTHS))} in {split}",
                (example for example in splits[split] if not set(depths(example.sentence).values()) <= {*TRAIN_DEPTHS}),
            )
        for case, (kind, least, most) in DEPTHS.items():
            yield check_none(
                f"{case}: depth {least}" + (f" to {most}" if most > least else ""),
                (
                    example
                    for example in splits["test"]
                    if example.category == case and not least <= depths(example.sentence)[kind] <= most
                ),
            )
        words = {word for example in splits["train"] for word in f"{example.sentence} {example.target}".split()}
        found = {word for example in splits["test"] for word in f"{example.sentence} {example.target}".split()}
        yield check_none("train has every word of test", found - words)
        both = [generalization_set(self.locate_sources()["test"], config) for config in MEMBERS]
        yield check_none(
            "both kinds of logical forms are of the same sentences, verbs and nouns",
            (
                one
                for one, other in zip(*both, strict=True)
                if one.sentence != other.sentence or predicates(one.target) != predicates(other.target)
            ),
        )
