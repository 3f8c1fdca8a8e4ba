"""Reverse as a `datasets` builder."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import datasets

from hf_sysgen.data.builder import BenchmarkBuilder, Check, builder_configs, check_none
from hf_sysgen.data.fetch import read_lines
from hf_sysgen.data.info import read_info

# letters of the longest sequence in train
LONGEST = 4


class Reverse(BenchmarkBuilder):
    """All sequences of 1 to 5 of three letters; `target` has the letters of `input` from last to first."""

    BENCHMARK = read_info(__file__)
    BUILDER_CONFIGS = builder_configs(BENCHMARK, version="1.0.0")

    def _info(self) -> datasets.DatasetInfo:
        return self.describe(datasets.Features({"input": datasets.Value("string"), "target": datasets.Value("string")}))

    def _split_generators(self, dl_manager: datasets.DownloadManager) -> list[datasets.SplitGenerator]:
        path = self.locate_sources()["all"]
        return [
            datasets.SplitGenerator(name=split, gen_kwargs={"path": path, "split": split})
            for split in self.benchmark_config.splits
        ]

    def _generate_examples(self, path: str, split: str) -> Iterator[tuple[int, dict[str, str]]]:
        for row, line in enumerate(read_lines(path)):
            if is_long(line) == (split == "test"):
                yield row, {"input": line, "target": line[::-1]}

    def checks(self, dataset: datasets.DatasetDict) -> Iterator[Check]:
        yield from super().checks(dataset)
        for split, part in dataset.items():
            wrong = (line for line in part["input"][:] if is_long(line) != (split == "test"))
            yield check_none(
                f"inputs of {split} have {'more than' if split == 'test' else 'up to'} {LONGEST} letters", wrong
            )


def is_long(line: str) -> bool:
    return len(line.split()) > LONGEST


def sequences(path: str) -> bytes:
    """The file: a sequence in each line, the short ones first."""
    lines = (line for length in range(1, LONGEST + 2) for line in itertools.product("abc", repeat=length))
    return "".join(" ".join(line) + "\n" for line in lines).encode()
