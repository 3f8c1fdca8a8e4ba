"""FLoRes as a `datasets` builder: four directions of translation."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import datasets

from hf_sysgen.data.archives import open_member
from hf_sysgen.data.builder import STRING, BenchmarkBuilder, Check, Examples, builder_configs, check_none
from hf_sysgen.data.errors import DamagedData, DataError
from hf_sysgen.data.fetch import open_file, with_found_checksum
from hf_sysgen.data.info import ConfigInfo, Source, read_info
from hf_sysgen.data.text.translation import indic_tokenizer, paired, split_lines

# split -> upstream's name
UPSTREAM_SPLITS = {"validation": "dev", "test_iid": "devtest", "test": "test"}


class Flores(BenchmarkBuilder):
    """FLoRes (Guzman et al. 2019, arXiv:1902.01382), its first release, with the preprocessing of its README.

    Columns: `input` and `target`, Nepali and Sinhala normalized and tokenized by the Indic NLP Library, English as
    written, all with single spaces; `document`, the title of the sentence's article, "" in train. The tokenizer makes
    the pieces: `subwords.sentencepiece_vocabulary` of both sides of train, 5,000 of them. BLEU is on these tokens into
    Nepali and Sinhala, and by sacrebleu into English.

    Configs: `ne-en`, `en-ne`, `si-en`, `en-si`, each with the splits `validation` (FLoRes dev), `test_iid` (devtest)
    and `test` (test). All three are from Wikipedia, and no training corpus is; `test_iid` is drawn like `validation`.
    `train` exists only if the data folder has its two files, which users make from the corpora that FLoRes downloads.
    Some English sentences occur more than once, with different translations.

    Raises:
        DataError: unknown config, or (on preparation) a file that is missing or not the expected one, or the extra
            `translation` is not installed.
    """

    BENCHMARK = read_info(__file__)
    BUILDER_CONFIGS = builder_configs(BENCHMARK, version="1.0.0")
    FEATURES = dict.fromkeys(("input", "target", "document"), STRING)

    @classmethod
    def config_info(cls, config_name: str | None, data_dir: str | Path | None) -> ConfigInfo:
        config = super().config_info(config_name, data_dir)
        foreign = config.name.replace("en", "").strip("-")
        wanted = {f"train.{language}": training_source(foreign, language) for language in (foreign, "en")}
        found = {role: source for role, file in wanted.items() if (source := with_found_checksum(file, data_dir))}
        if not found:
            return config
        if missing := [file.mirror for role, file in wanted.items() if role not in found]:
            raise DataError(f"flores {config.name}: the data folder has one side of train, but no {missing[0]}[.gz]")
        return replace(
            config,
            num_examples={"train": None, **config.num_examples},
            sources={**config.sources, **found},
            what_it_tests={"train": "Made by users. Other text than the other splits.", **config.what_it_tests},
        )

    def _split_generators(self, dl_manager: datasets.DownloadManager) -> list[datasets.SplitGenerator]:
        # a copy: they are kept for the next split
        files = dict(self.locate_sources())
        archive = files.pop("archive")
        train = [datasets.SplitGenerator(name="train", gen_kwargs={"archive": archive, "part": "", "files": files})]
        return train * bool(files) + [
            datasets.SplitGenerator(name=split, gen_kwargs={"archive": archive, "part": part})
            for split, part in UPSTREAM_SPLITS.items()
        ]

    def _generate_examples(self, archive: str, part: str, files: dict[str, str] | None = None) -> Examples:
        source, target = self.config.name.split("-")
        foreign = target if source == "en" else source
        tokenize = indic_tokenizer(foreign)
        columns = self._training(foreign, files) if files else self._part(archive, part, foreign)
        columns[foreign] = [tokenize(line) for line in columns[foreign]]
        for row, (first, second, document) in enumerate(
            zip(columns[source], columns[target], columns["doc_id"], strict=True)
        ):
            yield row, {"input": " ".join(first.split()), "target": " ".join(second.split()), "document": document}

    @staticmethod
    def _training(foreign: str, files: dict[str, str]) -> dict[str, list[str]]:
        columns: dict[str, list[str]] = {}
        for language in (foreign, "en"):
            path = files[f"train.{language}"]
            with open_file(path) as stream:
                columns[language] = split_lines(stream.read(), path)
        pairs = paired([columns[foreign], columns["en"]], files[f"train.{foreign}"])
        return {**columns, "doc_id": [""] * len(pairs)}

    @staticmethod
    def _part(archive: str, part: str, foreign: str) -> dict[str, list[str]]:
        columns: dict[str, list[str]] = {}
        for kind in ("en", foreign, "doc_id"):
            member = f"wikipedia_en_ne_si_test_sets/wikipedia.{part}.{foreign}-en.{kind}"
            with open_member(archive, member) as stream:
                columns[kind] = split_lines(stream.read(), f"{archive}: member {member}")
        if len(set(map(len, columns.values()))) > 1:
            counts = ", ".join(f"{len(lines):,} of {kind}" for kind, lines in columns.items())
            raise DamagedData(f"{archive}: part {part} has {counts}, so its lines do not belong together; replace it")
        return columns

    def checks(self, dataset: datasets.DatasetDict) -> Iterator[Check]:
        """The counts; no sentence of either side is in two splits; no article is in both validation and test."""
        yield from super().checks(dataset)
        for column in ("input", "target"):
            for first, second in itertools.combinations(UPSTREAM_SPLITS, 2):
                shared = set(dataset[first][column]) & set(dataset[second][column])
                yield check_none(f"no {column} is in both {first} and {second}", sorted(shared))
        shared = set(dataset["validation"]["document"]) & set(dataset["test"]["document"])
        yield check_none("no article is in both validation and test", sorted(shared))


def training_source(foreign: str, language: str) -> Source:
    """One side of the training text, which users make: the concatenated corpora of `download-data.sh`."""
    name = f"train.{foreign}-en.{language}"
    return Source(
        repository="floresv1/download-data.sh",
        commit="",
        path=name,
        sha256=None,
        num_bytes=None,
        licence="that of each corpus",
        mirror=f"mt/flores/{name}",
        address="",
    )
