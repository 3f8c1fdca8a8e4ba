"""The benchmarks of this package: what there is, and how to load it.

Each folder with an `info.yaml` is a benchmark, or several. There is no other list.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from hf_sysgen.data.info import FILE, BenchmarkInfo, read_benchmarks, unknown
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
        # these files may ask for the benchmarks above
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
        raise unknown("benchmark", name, benchmarks())
    return benchmarks()[name]


def load_benchmark(
    name: str,
    config: str | None = None,
    *,
    data_dir: str | Path | None = None,
    cache_dir: str | Path | None = None,
) -> datasets.DatasetDict:
    """Load a benchmark with the paper's split names, prepared once and then read from the cache.

    Args:
        name: a benchmark, see `list_benchmarks`.
        config: its split family; may be left out if there is only one.
        data_dir: folder with the upstream files, laid out like the mirror that `HF_SYSGEN_DATA_DIR` may name. It must
            hold them even if the data is prepared already.
        cache_dir: root of the cache, defaults to that of `datasets`.

    Returns:
        `train`, `validation` (drawn like `train`) and `test` (the generalization set), as far as the config has them.
        For c4, which is too large to prepare, an `IterableDatasetDict`.

    Raises:
        DataError: unknown name or config; a file that is absent, cannot be downloaded or has another sha256; no space
            in the cache, or damaged data in it.
    """
    builder = benchmark_builder(name, config, data_dir=data_dir, cache_dir=cache_dir)
    builder.download_and_prepare()
    return builder.as_dataset()


def benchmark_builder(
    name: str,
    config: str | None = None,
    *,
    data_dir: str | Path | None = None,
    cache_dir: str | Path | None = None,
) -> BenchmarkBuilder:
    """What prepares and checks a config of a benchmark. Arguments and errors as in `load_benchmark`."""
    benchmark = benchmark_info(name)
    config_name = benchmark.config(config).name
    # after the names were checked, as this import takes a second
    module, _, class_name = benchmark.builder.partition(":")
    builder_class = getattr(importlib.import_module(module), class_name)
    return builder_class(config_name=config_name, data_dir=data_dir, cache_dir=cache_dir)
