"""IWSLT14 German-English as a `datasets` builder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import datasets

from hf_sysgen.data.builder import BenchmarkBuilder, Check, Examples, builder_configs
from hf_sysgen.data.fetch import open_file
from hf_sysgen.data.info import read_info
from hf_sysgen.data.iwslt14.files import LANGUAGES, MAX_LENGTH, RATIO, git_blob_id, prepare
from hf_sysgen.data.text.translation import Pair, clean, paired, split_lines

_PUBLISHED = read_info(__file__).config("de-en")
# git ids of the lowercased tokens before byte pair encoding, German and English
GIT_BLOBS = {
    split: tuple(_PUBLISHED.sources[f"{split}.{language}"].git_blob for language in LANGUAGES)
    for split in _PUBLISHED.splits
}


class Iwslt14(BenchmarkBuilder):
    """IWSLT14 German-English (Cettolo et al. 2014) with fairseq's preprocessing, as in Chaabouni et al. 2021.

    Columns: `input` (German) and `target` (English), lowercased Moses tokens with their escapes (`&apos;`), joined by
    single spaces. The tokenizer makes byte pairs: `translation.learn_bpe` with 10,000 merges on train, German lines
    before English ones, gives the codes of fairseq's script.

    Configs: `de-en` reads the files that the script made; `de-en_from_archive` makes them. Both pass the same `checks`,
    down to the git id of each side of each split.

    Known problems upstream: the script keeps titles and descriptions of talks as training sentences, and takes every
    23rd training pair as validation, so validation has the talks of train.
    """

    BENCHMARK = read_info(__file__)
    BUILDER_CONFIGS = builder_configs(BENCHMARK, version="1.0.0")

    def _split_generators(self, dl_manager: datasets.DownloadManager) -> list[datasets.SplitGenerator]:
        files = self.locate_sources()
        if archive := files.get("archive"):
            parts = prepare(archive)
        else:
            parts = {split: _read(*(files[f"{split}.{language}"] for language in LANGUAGES)) for split in GIT_BLOBS}
        return [
            datasets.SplitGenerator(name=split, gen_kwargs={"pairs": tuple(pairs)}) for split, pairs in parts.items()
        ]

    def _generate_examples(self, pairs: tuple[Pair, ...]) -> Examples:
        for row, (source, target) in enumerate(pairs):
            yield row, {"input": source, "target": target}

    def checks(self, dataset: datasets.DatasetDict) -> Iterator[Check]:
        """The counts; each side of each split is byte for byte that of fairseq's script; train and validation are
        clean."""
        yield from super().checks(dataset)
        for split, blobs in GIT_BLOBS.items():
            for column, language, expected in zip(("input", "target"), LANGUAGES, blobs, strict=True):
                found = git_blob_id(dataset[split][column])
                yield Check(
                    f"{split}.{language} is the published file, git blob {expected[:12]}",
                    found == expected,
                    "" if found == expected else f"git blob {found[:12]}",
                )
        for split in ("train", "validation"):
            pairs = list(zip(dataset[split]["input"], dataset[split]["target"], strict=True))
            left_out = len(pairs) - sum(1 for _ in clean(pairs, MAX_LENGTH, ratio=RATIO))
            yield Check(
                f"{split} has sides of 1 to {MAX_LENGTH} tokens, none {RATIO} times longer than the other",
                not left_out,
                f"{left_out:,} pairs that are not so" if left_out else "",
            )


def _read(source_path: str, target_path: str) -> list[Pair]:
    sides = []
    for path in (source_path, target_path):
        with open_file(Path(path)) as stream:
            sides.append(split_lines(stream.read(), path))
    return paired(sides, source_path)
