"""The part that all benchmarks' builders share."""

from __future__ import annotations

import errno
import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import datasets

from hf_sysgen.data.errors import DamagedData, DataError
from hf_sysgen.data.fetch import locate, mirror_folder
from hf_sysgen.data.info import BenchmarkInfo, ConfigInfo
from hf_sysgen.errors import causes, no_space, one_line
from hf_sysgen.files import is_complete, mark_complete, unlike_mark

# a folder that one may not use, or a file in its place
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST}


# prepared data of up to so many bytes is compared with its checksums whenever it is loaded, which takes under a second
LOADED_BYTES = 200_000_000


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


def check_none(fact: str, exceptions: Iterable[object]) -> Check:
    """The check that there is no exception to a fact; says how many there are and shows the first."""
    found = list(exceptions)
    return Check(fact, not found, f"{len(found):,} exceptions, the first: {found[0]}" if found else "")


class BenchmarkBuilder(datasets.GeneratorBasedBuilder):
    """Prepares a benchmark from its pinned files.

    A subclass sets `BENCHMARK` and `BUILDER_CONFIGS = builder_configs(BENCHMARK, version)`. The version must rise when
    the subclass makes other examples of the same files: prepared data is kept by benchmark, config, version and
    fingerprint. Of a benchmark of one's own the fingerprint has the code in it, too.

    Args:
        cache_dir: root of the cache, defaults to that of `datasets`.
        config_name: a name in `BENCHMARK.configs`; may be left out where there is only one.
        data_dir: a mirror folder to take the files from. The data does not depend on it, as every file is checked; so
            neither does the place where prepared data is kept.
        **kwargs: as in `datasets.DatasetBuilder`.

    Raises:
        DataError: unknown config; prepared data that was damaged; a cache that cannot be used; (on preparation) a file
            that cannot be had or is not the one expected.
    """

    BENCHMARK: ClassVar[BenchmarkInfo]
    # whether it is read as a stream, because a prepared form would be too large
    STREAMED: ClassVar[bool] = False

    def __init__(
        self,
        cache_dir: str | Path | None = None,
        config_name: str | None = None,
        data_dir: str | Path | None = None,
        **kwargs: Any,
    ) -> None:
        self.benchmark_config = self.config_info(config_name, data_dir)
        self._data_dir = data_dir
        self._sources_cache_dir = cache_dir
        self._files: dict[str, str] | None = None
        self._unread: dict[str, list[Any]] = {}
        # else `datasets` puts an `open` and a `Path` of its own into these modules, for streaming, and imports scipy
        for builder in type(self).__mro__:
            if issubclass(builder, BenchmarkBuilder):
                vars(sys.modules[builder.__module__])["_patched_for_streaming"] = True
        with self._intact():
            super().__init__(
                cache_dir=None if cache_dir is None else str(cache_dir),
                # without these two the cache folder is named after the module alone
                dataset_name=self.BENCHMARK.name,
                hash=self._fingerprint(),
                config_name=self.benchmark_config.name,
                **kwargs,
            )

    @classmethod
    def config_info(cls, config_name: str | None, data_dir: str | Path | None) -> ConfigInfo:
        """The split family of that name; a subclass may complete it by what only the files in `data_dir` say."""
        return cls.BENCHMARK.config(config_name)

    def _fingerprint(self) -> str:
        """Of the files, and of the code where it is not this package's: whoever writes it changes it all the time."""
        files, module = self.benchmark_config.fingerprint, type(self).__module__
        code = getattr(sys.modules[module], "__file__", None)
        if module.startswith("hf_sysgen.") or code is None:
            return files
        return hashlib.sha256(files.encode() + Path(code).read_bytes()).hexdigest()[:16]

    def locate_sources(self) -> dict[str, str]:
        """The config's files, by what they are for, on this machine and checked (once by each builder)."""
        if self._files is None:
            self._files = {
                role: str(locate(source, self._data_dir, self._sources_cache_dir))
                for role, source in self.benchmark_config.sources.items()
            }
        return self._files

    def part(self, split: str, read: Callable[[], dict[str, list[Any]]]) -> list[Any]:
        """What files that hold all splits have for one. They are read once; what was handed on is not kept."""
        if split not in self._unread:
            self._unread = read()
        return self._unread.pop(split)

    def download_and_prepare(self, *args: Any, **kwargs: Any) -> None:
        """As in `datasets.DatasetBuilder`. A `data_dir` is looked at also where the data is prepared already, and that
        the folder of `HF_SYSGEN_DATA_DIR` is there.

        Raises:
            DataError: a file is absent or wrong, an example cannot be made of it, the cache's disk is full or cannot be
                written to, or the benchmark's optional dependency is not installed. Nothing is left that could be taken
                for prepared data.
        """
        if self._data_dir is None:
            mirror_folder(self.BENCHMARK.name)
        else:
            self.locate_sources()
        try:
            super().download_and_prepare(*args, **kwargs)
            folder = Path(self.cache_dir)
            # what an older version prepared is trusted when it is first seen, unless it may only be read
            if self.is_prepared and not is_complete(folder) and os.access(folder, os.W_OK):
                mark_complete(folder, f"{self.BENCHMARK.name}-*.arrow")
        except (datasets.exceptions.DatasetGenerationError, ImportError, OSError) as error:
            # what a generator raises comes wrapped
            for cause in causes(error):
                if explained := self._explained(cause):
                    raise explained from error
            raise

    def as_dataset(self, *args: Any, **kwargs: Any) -> Any:
        """As in `datasets.DatasetBuilder`.

        Raises:
            DataError: the cache cannot be used; DamagedData: the prepared data cannot be read, or is not too large to
                compare with its checksums and has others.
        """
        with self._intact():
            if sum(path.stat().st_size for path in Path(self.cache_dir).glob("*.arrow")) <= LOADED_BYTES:
                self.check_prepared()
            return super().as_dataset(*args, **kwargs)

    def check_prepared(self) -> None:
        """Compare prepared data with its checksums. Raises DamagedData: it is not what was prepared."""
        if (found := unlike_mark(Path(self.cache_dir))) is not None:
            raise self._damaged(" ".join(found))

    @contextmanager
    def _intact(self) -> Iterator[None]:
        """What is raised where prepared data was damaged afterwards: it is never left half-written."""
        try:
            yield
        except Exception as error:  # what Arrow says, JSON, or `datasets` of fields that it does not know
            if unusable := self._unusable_cache(error):
                raise unusable from error
            folder = getattr(self, "_cache_dir", "")
            if isinstance(error, DataError) or not Path(folder, datasets.config.DATASET_INFO_FILENAME).is_file():
                raise
            raise self._damaged(one_line(error)) from error

    def _damaged(self, what: str) -> DamagedData:
        return DamagedData(
            f"{self.BENCHMARK.name} {self.benchmark_config.name}: the prepared data in {self._cache_dir} cannot be "
            f"read ({what}); delete that folder"
        )

    def _explained(self, error: BaseException) -> DataError | None:
        """What to tell a user about an error that is theirs to mend, None for any other."""
        what = f"{self.BENCHMARK.name} {self.benchmark_config.name}"
        if isinstance(error, DataError):
            return type(error)(str(error))
        # `datasets` looks before it writes, and says it in its own words
        if no_space(error) or (isinstance(error, OSError) and "Not enough disk space" in str(error)):
            return DataError(
                f"{what}: no space left in {self.cache_dir} ({one_line(error)}): its files have {self._num_bytes}; "
                "free some, or set HF_DATASETS_CACHE to a folder on another disk"
            )
        if unusable := self._unusable_cache(error):
            return unusable
        if isinstance(error, (ValueError, LookupError, EOFError, SyntaxError)):
            # what readers say of a file that is not laid out as the one that its checksum was made of
            files = ", ".join(dict.fromkeys(self._files.values())) if self._files else "its files"
            return DamagedData(f"{what}: cannot make examples of {files} ({one_line(error)}); replace them")
        if isinstance(error, ImportError) and self.BENCHMARK.extra:
            return DataError(f"{what}: {error}; pip install hf-sysgen[{self.BENCHMARK.extra}]")
        return None

    def _unusable_cache(self, error: BaseException) -> DataError | None:
        """What to tell a user who may not write where the cache is, or read there; None for any other error."""
        if not isinstance(error, OSError):
            return None
        root = Path(getattr(self, "_cache_dir_root", ""))
        # where nothing can be made, as in /proc, the root itself is what there is not
        if error.errno not in _FORBIDDEN and not (isinstance(error, FileNotFoundError) and not root.exists()):
            return None
        # Arrow names no file; where it is elsewhere, the cache is not to blame
        path = Path(str(error.filename or root))
        if not (path.is_relative_to(root) or root.is_relative_to(path)):
            return None
        return DataError(
            f"{self.BENCHMARK.name} {self.benchmark_config.name}: cannot use the cache {root} ({one_line(error)}); set "
            "HF_DATASETS_CACHE to a folder that you may write in"
        )

    @property
    def _num_bytes(self) -> str:
        sizes = [source.num_bytes for source in self.benchmark_config.sources.values()]
        total = f"{sum(filter(None, sizes)):,} bytes"
        return f"more than {total}" if None in sizes else total

    @property
    def is_prepared(self) -> bool:
        """Whether the cache has the config's data."""
        return Path(self.cache_dir, datasets.config.DATASET_INFO_FILENAME).is_file()

    def checks(self, dataset: datasets.DatasetDict) -> Iterator[Check]:
        """What `hf-sysgen data verify` looks at: here the counts, in a subclass also the definition of the splits.

        A subclass begins with `yield from super().checks(dataset)`, then gives what its paper states: which inputs are
        in one split only, what every example of a split has, how many of each kind. Reading `dataset[split][:]` at once
        is forty times as fast as going through a column.
        """
        for split, expected in self.benchmark_config.num_examples.items():
            if split not in dataset:
                yield Check(f"there is a split {split}", False, f"only {', '.join(dataset)}")
            elif expected is not None:
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
