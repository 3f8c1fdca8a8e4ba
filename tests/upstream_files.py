"""The upstream files of the benchmarks: small parts in this repository, and the whole ones where a machine has them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import datasets
import pytest

from hf_sysgen.data import benchmark_info
from hf_sysgen.data.builder import BenchmarkBuilder
from hf_sysgen.data.fetch import DATA_DIR_VARIABLE, open_file, with_found_checksum
from hf_sysgen.data.registry import benchmark_builder

SAMPLE = Path(__file__).parent / "fixtures" / "upstream"
# read when imported, as tests start without the variable
_NAMED = Path(os.environ.get(DATA_DIR_VARIABLE) or "nowhere")
WHOLE = _NAMED if (_NAMED / "scan" / "tasks.txt").is_file() else None


@dataclass(frozen=True)
class Files:
    """A folder in the layout that `data_dir` has.

    Attributes:
        folder: the folder; its files may be gzipped.
        whole: whether its files are upstream's, byte for byte, or have a part of their lines.
    """

    folder: Path
    whole: bool

    def path(self, name: str | Path) -> Path:
        path = self.folder / name
        return path if path.exists() else path.with_name(path.name + ".gz")

    def read(self, name: str | Path) -> bytes:
        with open_file(self.path(name)) as stream:
            return stream.read()

    def lines(self, name: str | Path) -> list[str]:
        return self.read(name).decode("utf-8").removesuffix("\n").split("\n")

    @contextmanager
    def pinned(self, name: str, *configs: str) -> Iterator[None]:
        """Within this context, these configs accept this folder's files as upstream's, with any number of examples."""
        with pytest.MonkeyPatch.context() as patch:
            for config in () if self.whole else configs:
                info = benchmark_info(name).configs[config]
                found = {role: with_found_checksum(source, self.folder) for role, source in info.sources.items()}
                sources = {role: source for role, source in found.items() if source is not None}
                assert sources.keys() == info.sources.keys()
                sizes = dict.fromkeys(info.num_examples)
                patch.setitem(benchmark_info(name).configs, config, replace(info, sources=sources, num_examples=sizes))  # type: ignore[arg-type]
            yield

    def builder(self, name: str, config: str, cache_dir: Path) -> BenchmarkBuilder:
        with self.pinned(name, config):
            return benchmark_builder(name, config, data_dir=self.folder, cache_dir=cache_dir)

    def load(self, name: str, config: str, cache_dir: Path) -> datasets.DatasetDict:
        builder = self.builder(name, config, cache_dir)
        builder.download_and_prepare()
        return builder.as_dataset()


FOLDERS = [Files(SAMPLE, whole=False), *([Files(WHOLE, whole=True)] if WHOLE else [])]
