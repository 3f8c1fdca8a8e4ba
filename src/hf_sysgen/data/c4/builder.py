"""C4 as a stream of documents, and of blocks of tokens (`PackedTokens`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import datasets

from hf_sysgen.data.builder import STRING, BenchmarkBuilder, Check, builder_configs
from hf_sysgen.data.c4.files import COLUMNS, NUM_SHARDS, read_documents, shard_addresses
from hf_sysgen.data.c4.packing import PackedTokens as PackedTokens
from hf_sysgen.data.info import read_info


class C4(BenchmarkBuilder):
    """C4 (Raffel et al. 2020, arXiv:1910.10683) in English, as allenai/c4 publishes it.

    `load_benchmark("c4")` gives an `IterableDatasetDict`: documents are streamed from the hub or from a folder of
    shards; nothing is prepared or kept. Columns: `text`, `timestamp`, `url`. To train on any number of processes and
    machines, each of which reads its own shards:

        documents = load_benchmark("c4")["train"]
        documents = datasets.distributed.split_dataset_by_node(documents, rank, world_size, strategy="shards")
        blocks = PackedTokens(documents, tokenizer, length=1024)

    If `world_size` does not divide the number of shards, some processes have one more than others: end training after a
    number of steps, not at the end of the data. The workers of a `DataLoader` divide a process's shards. Shards, and
    documents in shards, are in random order already, so nothing is shuffled here.

    Raises:
        DataError: unknown config; a `data_dir` without shards; (while streaming) a shard that cannot be read.
    """

    BENCHMARK = read_info(__file__)
    BUILDER_CONFIGS = builder_configs(BENCHMARK, version="1.0.0")
    STREAMED = True
    FEATURES = dict.fromkeys(COLUMNS, STRING)
    # the splits that are asked for; empty for all
    _wanted: Sequence[str] = ()

    def _split_generators(self, dl_manager: datasets.DownloadManager) -> list[datasets.SplitGenerator]:
        return [
            datasets.SplitGenerator(name=split, gen_kwargs={"shards": shard_addresses(split, self._data_dir)})
            for split in self._wanted or self.benchmark_config.splits
        ]

    def as_streaming_dataset(self, split: str | None = None, **kwargs: Any) -> Any:
        """As in `datasets.DatasetBuilder`. A folder need not have shards of the other splits."""
        parts = [part.strip() for part in split.split("+")] if split is not None else []
        self._wanted = [name for name in self.benchmark_config.splits if name in parts]
        return super().as_streaming_dataset(split, **kwargs)

    def _generate_examples(self, shards: list[str]) -> Iterator[tuple[str, dict[str, str]]]:
        for shard in shards:
            for line, document in enumerate(read_documents(shard)):
                yield f"{shard} {line}", document

    def download_and_prepare(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: the data is not prepared, as its 305 GB would become 830 GB."""

    def as_dataset(self, split: str | None = None, **_: Any) -> Any:
        """The stream of a split, or of all of them by name."""
        return self.as_streaming_dataset(split)

    def checks(self, dataset: Any) -> Iterator[Check]:
        """The shards, and the first document of each split. To count all would take a day."""
        for split, documents in dataset.items():
            found = documents.num_shards
            yield Check(f"{split} has {NUM_SHARDS[split]:,} shards", found == NUM_SHARDS[split], f"{found:,}")
            document = next(iter(documents))
            whole = all(isinstance(document[column], str) and document[column] for column in COLUMNS)
            yield Check(f"the first document of {split} has text, time and address", whole, f"{document}")
