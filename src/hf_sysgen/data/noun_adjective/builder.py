"""Noun-adjective ordering as a `datasets` builder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import datasets
import numpy as np

from hf_sysgen.data.builder import STRING, BenchmarkBuilder, Check, Examples, builder_configs, check_none
from hf_sysgen.data.conllu import Word
from hf_sysgen.data.errors import DataError
from hf_sysgen.data.fetch import DATA_DIR, DATA_DIR_VARIABLE, with_found_checksum
from hf_sysgen.data.info import ConfigInfo, Source, read_info
from hf_sysgen.data.noun_adjective.parses import ConlluParser, europarl_pairs, sentences_to_parse
from hf_sysgen.data.noun_adjective.rule import HELD_OUT, TRAIN_PAIRS, nouns, pairs_of, split_of, uses
from hf_sysgen.data.text.translation import moses_normalizer, moses_tokenizer

# made by the user; the splits depend on the parser
PARSES = Source(
    repository="a dependency parser",
    commit="",
    path="fr-en.conllu",
    sha256=None,
    num_bytes=None,
    licence="no restriction known to its makers (statmt.org/europarl)",
    mirror="mt/europarl/fr-en.conllu",
    address="",
)
# Chaabouni et al. 2021, section 4.2
PAPER_SIZES = {"train": 1_478_195, "validation": 163_486, "test": 659}


class NounAdjective(BenchmarkBuilder):
    """Noun-adjective ordering (Chaabouni et al. 2021, arXiv:2107.01366, section 4.2), built from Europarl v7.

    Columns: `input` (English) and `target` (French), Moses tokens with case and escapes, split at hyphens, after
    normalization of punctuation, joined by single spaces, as fairseq prepares WMT14 English-French; `pairs`, adjective
    and noun of the eight nouns, such as "new response". The tokenizer makes byte pairs: `translation.learn_bpe` with
    40,000 merges on both sides of train.

    Needs the parses of the sentences with one of the eight nouns, `mt/europarl/fr-en.conllu[.gz]` in `data_dir` (or
    `HF_SYSGEN_DATA_DIR`); `noun_adjective.parses` says how to make them. Europarl's archive is downloaded if it is not
    there too. Other parses give other data, which is kept separately.

    Configs: `modified` leaves out sentences in which one of the eight nouns has no adjective, `modified_or_bare` keeps
    them. The paper does not say which; other open questions are in `errata` of the benchmark.

    Raises:
        DataError: unknown config; no parses; (on preparation) a file that is missing or not the expected one, or parses
            of other sentences.
    """

    BENCHMARK = read_info(__file__)
    BUILDER_CONFIGS = builder_configs(BENCHMARK, version="1.0.0")
    FEATURES = datasets.Features({"input": STRING, "target": STRING, "pairs": datasets.List(STRING)})

    @classmethod
    def config_info(cls, config_name: str | None, data_dir: str | Path | None) -> ConfigInfo:
        config = super().config_info(config_name, data_dir)
        if parses := with_found_checksum(PARSES, data_dir):
            return replace(config, sources={**config.sources, "parses": parses})
        folder = data_dir or os.environ.get(DATA_DIR_VARIABLE) or "any folder"
        raise DataError(
            f"noun_adjective {config.name}: no file {PARSES.mirror}[.gz] in {folder}; make it as "
            f"python -m hf_sysgen.data.noun_adjective.parses --help says, then give the folder as {DATA_DIR}"
        )

    def _split_generators(self, dl_manager: datasets.DownloadManager) -> list[datasets.SplitGenerator]:
        files = self.locate_sources()
        archive = files["archive"]
        parses = ConlluParser(files["parses"]).parse(sentences_to_parse(europarl_pairs(archive)))
        english = (source for source, _ in europarl_pairs(archive))
        splits, pairs = assign(english, parses, bare=self.config.name == "modified_or_bare")
        # `datasets` cannot read an empty part
        if missing := [split for split in self.benchmark_config.splits if split not in splits]:
            raise DataError(
                f"{files['parses']}: with these parses no sentence is in {', '.join(missing)}; adjectives must depend "
                "on their nouns as amod, in basic dependencies"
            )
        return [
            datasets.SplitGenerator(
                name=split, gen_kwargs={"archive": archive, "split": split, "splits": splits, "pairs": pairs}
            )
            for split in self.benchmark_config.splits
        ]

    def _generate_examples(
        self, archive: str, split: str, splits: tuple[str | None, ...], pairs: dict[int, list[str]]
    ) -> Examples:
        normalize = {language: moses_normalizer(language) for language in ("en", "fr")}
        tokenize = {language: moses_tokenizer(language, aggressive=True) for language in ("en", "fr")}
        for row, (sides, part) in enumerate(zip(europarl_pairs(archive), splits, strict=True)):
            if part == split:
                source, target = (
                    tokenize[language](normalize[language](text))
                    for language, text in zip(("en", "fr"), sides, strict=True)
                )
                yield row, {"input": source, "target": target, "pairs": pairs.get(row, [])}

    def checks(self, dataset: datasets.DatasetDict) -> Iterator[Check]:
        """Train and validation have no held-out pair, test has nothing else; train has the adjectives with other
        nouns."""
        yield from super().checks(dataset)
        seen = {f"{adjective} {noun}" for adjective, noun in TRAIN_PAIRS}
        unseen = {f"{adjective} {noun}" for adjective, noun in HELD_OUT}
        for split, allowed in (("train", seen), ("validation", seen), ("test", unseen)):
            others = (pair for pairs in dataset[split]["pairs"] for pair in pairs if pair not in allowed)
            yield check_none(f"{split} has no noun-adjective pair but its {len(allowed)}", others)
            if self.config.name == "modified":
                rows = zip(dataset[split]["input"], dataset[split]["pairs"], strict=True)
                bare = (text for text, pairs in rows if set(nouns(text)) - {pair.split()[-1] for pair in pairs})
                yield check_none(f"{split} has none of the eight nouns without an adjective", bare)
        yield check_none(
            "every example of test has a held-out pair",
            (text for text, pairs in zip(dataset["test"]["input"], dataset["test"]["pairs"], strict=True) if not pairs),
        )
        known = {word for text in dataset["train"]["input"] if not nouns(text) for word in text.lower().split()}
        adjectives = {adjective for adjective, _ in TRAIN_PAIRS}
        yield check_none("the eight adjectives are in train without the eight nouns", sorted(adjectives - known))


def assign(
    sentences: Iterable[str], parses: Iterator[Sequence[Word]], bare: bool, seed: int = 0
) -> tuple[tuple[str | None, ...], dict[int, list[str]]]:
    """
    The split of each sentence (None if it is left out), and row -> noun-adjective pairs of the sentences that have any.

    Args:
        sentences: English.
        parses: of those with one of the eight nouns, in order.
        bare: whether the eight nouns may have no adjective, see `rule.split_of`.
        seed: for drawing validation from train.
    """
    splits: list[str | None] = []
    found: dict[int, list[str]] = {}
    for row, sentence in enumerate(sentences):
        if not nouns(sentence):
            splits.append("train")
            continue
        sentence_uses = uses(sentence, next(parses))
        splits.append(split_of(sentence_uses, bare))
        if pairs := pairs_of(sentence_uses):
            found[row] = pairs
    # the reader reports parses that are left over only at its end
    next(parses, None)
    kept = [row for row, split in enumerate(splits) if split == "train"]
    share = PAPER_SIZES["validation"] / (PAPER_SIZES["train"] + PAPER_SIZES["validation"])
    for position in np.random.RandomState(seed).permutation(len(kept))[: round(len(kept) * share)]:
        splits[kept[position]] = "validation"
    return tuple(splits), found
