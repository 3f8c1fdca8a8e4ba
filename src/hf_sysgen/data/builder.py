"""The part that all benchmarks' builders share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import datasets

from hf_sysgen.data.info import BenchmarkInfo
from hf_sysgen.data.sources import locate


class Check(NamedTuple):
    """One fact that a prepared config must satisfy.

    Attributes:
        fact: what must hold, as a sentence.
        holds: whether it does.
        found: what was found instead, "" where it holds.
    """

    fact: str
    holds: bool
    found: str = ""


class BenchmarkBuilder(datasets.GeneratorBasedBuilder):
    """Prepares a benchmark from its pinned files.

    A subclass sets `BENCHMARK` and `BUILDER_CONFIGS = builder_configs(BENCHMARK, version)`. The version must rise when
    the subclass makes other examples of the same files: prepared data is kept by benchmark, config, version and
    fingerprint.

    Args:
        cache_dir: root of the cache, defaults to that of `datasets`.
        config_name: a name in `BENCHMARK.configs`; may be left out where there is only one.
        data_dir: a mirror folder to take the files from. The data does not depend on it, as every file is checked; so
            neither does the place where prepared data is kept.
        **kwargs: as in `datasets.DatasetBuilder`.

    Raises:
        DataError: unknown config, or (on preparation) a file that cannot be had or is not the one expected.
    """

    BENCHMARK: ClassVar[BenchmarkInfo]

    def __init__(
        self,
        cache_dir: str | Path | None = None,
        config_name: str | None = None,
        data_dir: str | Path | None = None,
        **kwargs: Any,
    ) -> None:
        self.benchmark_config = self.BENCHMARK.config(config_name)
        self._data_dir = data_dir
        self._sources_cache_dir = cache_dir
        super().__init__(
            cache_dir=None if cache_dir is None else str(cache_dir),
            # without these two the cache folder is named after the module alone
            dataset_name=self.BENCHMARK.name,
            hash=self.benchmark_config.fingerprint,
            config_name=self.benchmark_config.name,
            **kwargs,
        )

    def locate_sources(self) -> dict[str, str]:
        """The config's files, by what they are for, on this machine and checked."""
        return {
            role: str(locate(source, self._data_dir, self._sources_cache_dir))
            for role, source in self.benchmark_config.sources.items()
        }

    def checks(self, dataset: datasets.DatasetDict) -> Iterator[Check]:
        """What `hf-sysgen data verify` looks at: here the counts, in a subclass also the definition of the splits.

        A subclass begins with `yield from super().checks(dataset)`, then gives what its paper states: which inputs are
        in one split only, what every example of a split has, how many of each kind.
        """
        for split, expected in self.benchmark_config.num_examples.items():
            if expected is not None:
                found = len(dataset[split])
                fact = f"{split} has {expected:,} examples"
                yield Check(fact, found == expected, "" if found == expected else f"{found:,}")

    def describe(self, features: datasets.Features) -> datasets.DatasetInfo:
        """The config's `DatasetInfo`."""
        config = self.benchmark_config
        return datasets.DatasetInfo(
            description=f"{self.BENCHMARK.description} {config.description}",
            features=features,
            homepage=self.BENCHMARK.homepage,
            citation="\n".join(filter(None, (self.BENCHMARK.citation, config.citation))),
            license=config.licence,
        )


def builder_configs(benchmark: BenchmarkInfo, version: str) -> list[datasets.BuilderConfig]:
    """One `BuilderConfig` per config of the benchmark."""
    return [
        datasets.BuilderConfig(name=config.name, version=version, description=config.description)
        for config in benchmark.configs.values()
    ]
