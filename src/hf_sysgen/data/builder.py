"""What the builders of all benchmarks share."""

from __future__ import annotations

import errno
import functools
import hashlib
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeAlias

import datasets

from hf_sysgen.data.errors import DamagedData, DataError
from hf_sysgen.data.fetch import locate, mirror_folder
from hf_sysgen.data.info import BenchmarkInfo, ConfigInfo, unknown_name_error
from hf_sysgen.errors import causes, is_disk_full, one_line, shorten
from hf_sysgen.extensions import extension_files, line_in
from hf_sysgen.files import first_difference_from_manifest, is_complete, write_manifest

# errors of a folder without permission, or with a file in its place
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST}
# limits of the machine
_LIMITS = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}


STRING, INT32 = datasets.Value("string"), datasets.Value("int32")
# the number of each example in its split, and its columns
Examples: TypeAlias = Iterator[tuple[int, dict[str, Any]]]
# up to this size, in bytes, prepared data is compared with its checksums at each load, in under a second
LOADED_BYTES = 200_000_000


class Check(NamedTuple):
    """One fact that a prepared config must satisfy.

    Attributes:
        fact: what must hold, as a sentence.
        holds: whether it does.
        found: what was found; shown only where it does not hold.
    """

    fact: str
    holds: bool
    found: str = ""


def check_none(fact: str, exceptions: Iterable[object]) -> Check:
    """The check that a fact has no exceptions. If it has, it says how many and shows the first."""
    found = list(exceptions)
    return Check(fact, not found, f"{len(found):,} exceptions, the first: {found[0]}" if found else "")


class BenchmarkBuilder(datasets.GeneratorBasedBuilder):
    """Prepares a benchmark from its pinned files.

    A subclass sets `BENCHMARK`, `BUILDER_CONFIGS = builder_configs(BENCHMARK, version)` and, if its columns are not the
    texts `input` and `target`, `FEATURES`. It makes the examples of a split in `_generate_examples(files, split)`,
    where `files` has the path of each of the config's files by role. The version must rise when the subclass makes
    other examples of the same files: prepared data is kept by benchmark, config, version and fingerprint. For a user's
    own benchmark the fingerprint also covers the code.

    Args:
        cache_dir: root of the cache, defaults to that of `datasets`.
        config_name: a name in `BENCHMARK.configs`; optional if there is only one.
        data_dir: a mirror folder to take the files from. As every file is checked, the data does not depend on it, and
            neither does the folder of prepared data.
        **kwargs: as in `datasets.DatasetBuilder`.

    Raises:
        DataError: unknown config; damaged prepared data; a cache that cannot be used; (on preparation) a file that is
            not available or not the expected one.
    """

    BENCHMARK: ClassVar[BenchmarkInfo]
    # column -> its type
    FEATURES: ClassVar[Mapping[str, Any]] = {"input": STRING, "target": STRING}
    # whether the data is streamed, because it is too large to prepare
    STREAMED: ClassVar[bool] = False
    # values of `category` in the compositional test, if they name generalization cases
    CASES: ClassVar[tuple[str, ...]] = ()

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
        # without this, `datasets` replaces `open` and `Path` in these modules, for streaming, and imports scipy
        for builder in type(self).__mro__:
            if issubclass(builder, BenchmarkBuilder):
                vars(sys.modules[builder.__module__])["_patched_for_streaming"] = True
        with self._intact():
            super().__init__(
                cache_dir=None if cache_dir is None else str(cache_dir),
                # without these two, the name of the cache folder is that of the module alone
                dataset_name=self.BENCHMARK.name,
                hash=self._fingerprint(),
                config_name=self.benchmark_config.name,
                **kwargs,
            )
        # an attribute, because subclasses override the method
        self.__dict__["_generate_examples"] = functools.partial(self._checked, self._generate_examples)

    def _checked(
        self, generate: Callable[..., Iterator[tuple[Any, dict[str, Any]]]], *args: Any, **kwargs: Any
    ) -> Iterator[Any]:
        """
        The examples of a split. Raises DataError: there is none, the first one has other columns, or a text is none.
        """
        which = f"{self._what}: {kwargs.get('split', 'a split')}"
        examples = iter(generate(*args, **kwargs))
        if (first := next(examples, None)) is None:
            raise DataError(f"{which} has no examples")
        features = self.info.features or {}
        if first[1].keys() != features.keys():
            raise DataError(f"{which} has the columns {', '.join(first[1])}, but FEATURES has {', '.join(features)}")
        if features.get("category", STRING) != STRING:
            raise DataError(
                f"{which} has a 'category' of the type {features['category'].dtype}, and it should be a text"
            )
        # Arrow would write lists and numbers as texts
        texts = [column for column, feature in features.items() if feature == STRING]
        for key, example in itertools.chain([first], examples):
            for column in texts:
                # other columns may lack some
                if not isinstance(example[column], str if column in ("input", "target") else str | None):
                    found = shorten(example[column], quoted=True)
                    raise DataError(f"{which}: the {column!r} of example {key} is {found}, and should be a text")
            yield key, example

    @classmethod
    def config_info(cls, config_name: str | None, data_dir: str | Path | None) -> ConfigInfo:
        """The split family of that name. A subclass may add what only the files in `data_dir` say."""
        return cls.BENCHMARK.config(config_name)

    def _fingerprint(self) -> str:
        """Of the files; for a user's own benchmark also of the code, which changes often."""
        files, module = self.benchmark_config.fingerprint, type(self).__module__
        code = getattr(sys.modules[module], "__file__", None)
        if module.startswith("hf_sysgen.") or code is None:
            return files
        return hashlib.sha256(files.encode() + Path(code).read_bytes()).hexdigest()[:16]

    def locate_sources(self) -> dict[str, str]:
        """Role -> local path of the config's files. Each builder fetches and checks them once."""
        if self._files is None:
            self._files = {
                role: str(locate(source, self._data_dir, self._sources_cache_dir))
                for role, source in self.benchmark_config.sources.items()
            }
        return self._files

    def _split_generators(self, dl_manager: datasets.DownloadManager) -> list[datasets.SplitGenerator]:
        files = self.locate_sources()
        return [
            datasets.SplitGenerator(name=split, gen_kwargs={"files": files, "split": split})
            for split in self.benchmark_config.splits
        ]

    def part(self, split: str, read: Callable[[], dict[str, list[Any]]]) -> list[Any]:
        """One split from files that hold all splits. The files are read once; a split that was returned is not kept."""
        if split not in self._unread:
            self._unread = read()
        return self._unread.pop(split)

    def download_and_prepare(self, *args: Any, **kwargs: Any) -> None:
        """As in `datasets.DatasetBuilder`. If the data is prepared already, the files in `data_dir` are still checked,
        and that the folder of `HF_SYSGEN_DATA_DIR` exists.

        Raises:
            DataError: a file is missing or wrong, an example cannot be made from it, the cache's disk is full or
                read-only, or the benchmark's optional dependency is not installed. Nothing remains that looks like
                prepared data.
        """
        if self._data_dir is None:
            mirror_folder(self.BENCHMARK.name)
        else:
            self.locate_sources()
        try:
            super().download_and_prepare(*args, **kwargs)
            folder = Path(self.cache_dir)
            # data of an older version has no checksums: they are taken now, if the folder can be written to
            if self.is_prepared and not is_complete(folder) and os.access(folder, os.W_OK):
                write_manifest(folder, f"{self.BENCHMARK.name}-*.arrow")
        except (datasets.exceptions.DatasetGenerationError, ImportError, OSError) as error:
            # `datasets` wraps what a generator raises
            for cause in causes(error):
                if explained := self._explained(cause):
                    raise explained from error
            raise

    def require_split(self, split: str | None, streaming: bool = False) -> None:
        """
        Check a `split` of `load_benchmark` before any download.

        Raises:
            DataError: the config does not have the split, `datasets` cannot parse the text, or it names a part of a
                stream.
        """
        names = self.benchmark_config.splits
        for part in split.split("+") if split is not None else ():
            if (name := part.partition("[")[0].strip()) not in (*names, "all"):
                raise unknown_name_error(f"split of {self._what}", name, names)
            if streaming and "[" in part:
                raise DataError(
                    f"{self._what}: split {split!r}: a stream has no parts; leave streaming out, or use `take` and "
                    "`skip` of the stream"
                )
        if split is not None:
            with self._readable(split):
                datasets.ReadInstruction.from_spec(split)

    def as_dataset(self, split: Any = None, **kwargs: Any) -> Any:
        """As in `datasets.DatasetBuilder`.

        Raises:
            DataError: the part of a split has no examples; the cache cannot be used. DamagedData: the prepared data
                cannot be read, or is small enough to compare with its checksums and has others.
        """
        if split not in (None, "all") and not isinstance(split, list | tuple | dict):
            lengths = {name: part.num_examples for name, part in self.info.splits.items()}
            with self._readable(split):
                parts = datasets.ReadInstruction.from_spec(str(split)).to_absolute(lengths)
            if all(part.from_ >= part.to for part in parts):
                raise DataError(f"{self._what}: split {str(split)!r} has no examples")
        with self._intact():
            if sum(path.stat().st_size for path in Path(self.cache_dir).glob("*.arrow")) <= LOADED_BYTES:
                self.check_prepared()
            return super().as_dataset(split, **kwargs)

    @contextmanager
    def _readable(self, split: Any) -> Iterator[None]:
        try:
            yield
        except ValueError as error:
            raise DataError(f"{self._what}: split {str(split)!r}: {one_line(error)}") from error

    def check_prepared(self) -> None:
        """Compare prepared data with its checksums. Raises DamagedData: it is not what was prepared."""
        if (found := first_difference_from_manifest(Path(self.cache_dir))) is not None:
            raise self._damaged(" ".join(found))

    @contextmanager
    def _intact(self) -> Iterator[None]:
        """Raise DamagedData if prepared data was damaged later; it is never left half-written."""
        try:
            yield
        except Exception as error:  # from Arrow, from JSON, or from `datasets` for unknown fields
            if unusable := self._unusable_cache(error):
                raise unusable from error
            folder = getattr(self, "_cache_dir", "")
            if isinstance(error, (DataError, MemoryError)) or getattr(error, "errno", None) in _LIMITS:
                raise
            if not Path(folder, datasets.config.DATASET_INFO_FILENAME).is_file():
                raise
            raise self._damaged(one_line(error)) from error

    def _damaged(self, what: str) -> DamagedData:
        return DamagedData(
            f"{self._what}: the prepared data in {self._cache_dir} cannot be read ({what}); delete that folder"
        )

    def _explained(self, error: BaseException) -> DataError | None:
        """The message for an error that the user can fix; None for any other."""
        what = self._what
        if isinstance(error, DataError):
            return type(error)(str(error))
        # `datasets` checks the space before it writes and has its own message
        if is_disk_full(error) or (isinstance(error, OSError) and "Not enough disk space" in str(error)):
            return DataError(
                f"{what}: no space left in {self.cache_dir} ({one_line(error)}): its files have {self._num_bytes}; "
                "free some, or set HF_DATASETS_CACHE to a folder on another disk"
            )
        if unusable := self._unusable_cache(error):
            return unusable
        if explained := self.explained_in_own_code(error):
            return explained
        if isinstance(error, (ValueError, LookupError, EOFError, SyntaxError, RecursionError)):
            # errors of readers: the file has another layout than expected, or is nested too deep
            files = ", ".join(dict.fromkeys(self._files.values())) if self._files else "its files"
            return DamagedData(f"{what}: cannot make examples of {files} ({one_line(error)}); replace them")
        if isinstance(error, ImportError) and self.BENCHMARK.extra:
            return DataError(f"{what}: {error}; pip install hf-sysgen[{self.BENCHMARK.extra}]")
        return None

    def explained_in_own_code(self, error: BaseException) -> DataError | None:
        """The message for an error that passed through a user's own builder; None for any other."""
        for file in extension_files("benchmark"):
            if (line := line_in(file, error)) is not None:
                return DataError(f"{self._what}: {file}, line {line}: {one_line(error)}")
        return None

    def _unusable_cache(self, error: BaseException) -> DataError | None:
        """The message for a user without permission for the cache folder; None for any other error."""
        if not isinstance(error, OSError):
            return None
        root = Path(getattr(self, "_cache_dir_root", ""))
        # where nothing can be created, as in /proc, the missing path is the root itself
        if error.errno not in _FORBIDDEN and not (isinstance(error, FileNotFoundError) and not root.exists()):
            return None
        # Arrow names no file; a file elsewhere is not the cache's fault
        path = Path(str(error.filename or root))
        if not (path.is_relative_to(root) or root.is_relative_to(path)):
            return None
        return DataError(
            f"{self._what}: cannot use the cache {root} ({one_line(error)}); set HF_DATASETS_CACHE to a folder that "
            "you may write in"
        )

    @property
    def _what(self) -> str:
        return f"{self.BENCHMARK.name} {self.benchmark_config.name}"

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
        """The checks of `hf-sysgen data verify`: here the counts, in a subclass also the definition of the splits.

        A subclass starts with `yield from super().checks(dataset)`. Then it checks what its paper states: which inputs
        occur in one split only, what every example of a split has, how many there are of each kind. To read
        `dataset[split][:]` at once is forty times as fast as to iterate over a column.
        """
        for split, expected in self.benchmark_config.num_examples.items():
            if split not in dataset:
                yield Check(f"there is a split {split}", False, f"only {', '.join(dataset)}")
            elif expected is not None:
                found = len(dataset[split])
                fact = f"{split} has {expected:,} examples"
                yield Check(fact, found == expected, "" if found == expected else f"{found:,}")

    def _info(self) -> datasets.DatasetInfo:
        return self.describe(datasets.Features(self.FEATURES))

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
