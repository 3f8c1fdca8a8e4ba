"""The benchmarks of this package: what there is, and how to load it."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from hf_sysgen.data.c4.sources import C4
from hf_sysgen.data.cfq.dependencies_sources import CFQ_DEPENDENCIES
from hf_sysgen.data.cfq.sources import CFQ
from hf_sysgen.data.clutrr.sources import CLUTRR
from hf_sysgen.data.cogs.sources import COGS, COGS_GRAPH, COGS_VF
from hf_sysgen.data.english_passivization.sources import ENGLISH_PASSIVIZATION
from hf_sysgen.data.flores.sources import FLORES
from hf_sysgen.data.geoquery.sources import GEOQUERY
from hf_sysgen.data.info import BenchmarkInfo, unknown
from hf_sysgen.data.iwslt14.sources import IWSLT14
from hf_sysgen.data.mathematics.sources import MATHEMATICS
from hf_sysgen.data.noun_adjective.sources import NOUN_ADJECTIVE
from hf_sysgen.data.pcfg_set.sources import PCFG_SET
from hf_sysgen.data.scan.sources import SCAN
from hf_sysgen.extensions import own_benchmarks

if TYPE_CHECKING:
    import datasets

    from hf_sysgen.data.builder import BenchmarkBuilder

_BENCHMARKS = {
    benchmark.name: benchmark
    for benchmark in (
        C4,
        CFQ,
        CFQ_DEPENDENCIES,
        CLUTRR,
        COGS,
        COGS_GRAPH,
        COGS_VF,
        ENGLISH_PASSIVIZATION,
        FLORES,
        GEOQUERY,
        IWSLT14,
        MATHEMATICS,
        NOUN_ADJECTIVE,
        PCFG_SET,
        SCAN,
    )
}  # fmt: skip


def list_benchmarks() -> list[BenchmarkInfo]:
    """All benchmarks with their configs, splits, sizes, licences and sources. Loads no data, imports no `datasets`."""
    return list(_BENCHMARKS.values())


def benchmark_info(name: str) -> BenchmarkInfo:
    """The benchmark of that name.

    Raises:
        DataError: there is none.
    """
    if name not in _BENCHMARKS:
        raise unknown("benchmark", name, _BENCHMARKS)
    return _BENCHMARKS[name]


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
        config: its split family; may be left out where there is only one.
        data_dir: folder with the upstream files, laid out like the mirror that `HF_SYSGEN_DATA_DIR` may name. It must
            hold them even where the data is prepared already.
        cache_dir: root of the cache, defaults to that of `datasets`.

    Returns:
        `train`, `validation` (drawn like `train`) and `test` (the generalization set), as far as the config has them.
        Of c4, which is too large to prepare, an `IterableDatasetDict`.

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
    # a wrong name is told before the second that this import takes
    module, _, class_name = benchmark.builder.partition(":")
    builder_class = getattr(importlib.import_module(module), class_name)
    return builder_class(config_name=config_name, data_dir=data_dir, cache_dir=cache_dir)


# at the end, as these files may use what stands above
_BENCHMARKS |= own_benchmarks(_BENCHMARKS)
