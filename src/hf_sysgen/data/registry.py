"""The benchmarks of this package, and how to load them.

Each folder with an `info.yaml` is a benchmark, or several. There is no other list.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from hf_sysgen.data.errors import DataError
from hf_sysgen.data.info import FILE, BenchmarkInfo, read_benchmarks, unknown_name_error
from hf_sysgen.errors import shorten
from hf_sysgen.extensions import own_benchmarks

if TYPE_CHECKING:
    import datasets

    from hf_sysgen.data.builder import BenchmarkBuilder

_BENCHMARKS: dict[str, BenchmarkInfo] = {}


def benchmarks() -> dict[str, BenchmarkInfo]:
    """The package's benchmarks by name, in alphabetical order, then the user's own. Read at the first call.

    Raises:
        UserError: a file of the folder that `HF_SYSGEN_EXTENSIONS` names cannot be used.
    """
    if not _BENCHMARKS:
        found: dict[str, BenchmarkInfo] = {}
        for path in Path(__file__).parent.glob(f"*/{FILE}"):
            found |= read_benchmarks(path)
        _BENCHMARKS.update(sorted(found.items()))
        # these files may use the benchmarks above
        try:
            _BENCHMARKS.update(own_benchmarks(tuple(found)))
        except Exception:
            _BENCHMARKS.clear()
            raise
    return _BENCHMARKS


def list_benchmarks() -> list[BenchmarkInfo]:
    """All benchmarks with their configs, splits, sizes, licences and sources. Loads no data, imports no `datasets`."""
    return list(benchmarks().values())


def benchmark_info(name: str) -> BenchmarkInfo:
    """The benchmark of that name.

    Raises:
        DataError: there is none.
    """
    if name not in benchmarks():
        raise unknown_name_error("benchmark", name, benchmarks())
    return benchmarks()[name]


Folder = str | Path | None


@overload
def load_benchmark(
    name: str, config: str | None = None, *,
    split: None = None, streaming: Literal[False] = False, data_dir: Folder = None, cache_dir: Folder = None,
) -> datasets.DatasetDict: ...  # fmt: skip
@overload
def load_benchmark(
    name: str, config: str | None = None, *,
    split: str, streaming: Literal[False] = False, data_dir: Folder = None, cache_dir: Folder = None,
) -> datasets.Dataset: ...  # fmt: skip
@overload
def load_benchmark(
    name: str, config: str | None = None, *,
    split: None = None, streaming: Literal[True], data_dir: Folder = None, cache_dir: Folder = None,
) -> datasets.IterableDatasetDict: ...  # fmt: skip
@overload
def load_benchmark(
    name: str, config: str | None = None, *,
    split: str, streaming: Literal[True], data_dir: Folder = None, cache_dir: Folder = None,
) -> datasets.IterableDataset: ...  # fmt: skip
def load_benchmark(
    name: str,
    config: str | None = None,
    *,
    split: str | None = None,
    streaming: bool = False,
    data_dir: Folder = None,
    cache_dir: Folder = None,
) -> Any:
    """Load a benchmark with the paper's split names, prepared once and then read from the cache.

    Args:
        name: a benchmark, see `list_benchmarks`.
        config: its split family; optional if there is only one.
        split: a split's name, several as "train+validation", or a part of one as "train[:10%]", as in
            `datasets.load_dataset`, but no list; None for all splits by name.
        streaming: whether to make examples from the files during iteration, without preparing data. The files are still
            downloaded and checked. Then `split` cannot name a part of a split.
        data_dir: folder with the upstream files, laid out like the mirror that `HF_SYSGEN_DATA_DIR` may name. The files
            must be there even if the data is prepared already.
        cache_dir: root of the cache, defaults to that of `datasets`.

    Returns:
        a `DatasetDict` of the config's splits (`ConfigInfo.kinds` says which is the compositional test), or with
        `split` a `Dataset`. With `streaming`, and always of c4, which is too large to prepare, an
        `IterableDatasetDict` or an `IterableDataset`.

    Raises:
        DataError: unknown name, config or split; a file that is missing, cannot be downloaded or has another sha256; a
            cache that is full or has damaged data.
    """
    builder = benchmark_builder(name, config, data_dir=data_dir, cache_dir=cache_dir)
    if isinstance(split, list | tuple | dict):
        raise DataError(f'split={shorten(split)} is not text; write several as "train+test", or leave it out for all')
    # it may be a `datasets.Split`; `datasets` takes no blanks
    split = None if split is None else "".join(str(split).split())
    builder.require_split(split, streaming or builder.STREAMED)
    if streaming:
        return builder.as_streaming_dataset(split)
    builder.download_and_prepare()
    return builder.as_dataset(split)


def benchmark_builder(
    name: str,
    config: str | None = None,
    *,
    data_dir: str | Path | None = None,
    cache_dir: str | Path | None = None,
) -> BenchmarkBuilder:
    """The builder that prepares and checks a config of a benchmark. Arguments and errors as in `load_benchmark`."""
    benchmark = benchmark_info(name)
    config_name = benchmark.config(config).name
    # this import takes a second, so it comes after the checks of the names
    return builder_class(benchmark)(config_name=config_name, data_dir=data_dir, cache_dir=cache_dir)


def builder_class(benchmark: BenchmarkInfo) -> type[BenchmarkBuilder]:
    """The class that prepares a benchmark, from its `builder`, "module:Class"."""
    module, _, class_name = benchmark.builder.partition(":")
    found: type[BenchmarkBuilder] = getattr(importlib.import_module(module), class_name)
    return found
