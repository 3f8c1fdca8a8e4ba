"""The description of a benchmark: names, splits, sizes, files, licences. Read from `info.yaml`, without importing
`datasets`.

`info.yaml` is in the benchmark's folder. It has the fields of `BenchmarkEntry` below. If several benchmarks use the
same files, it has `files` and a list `benchmarks` of such entries. An unknown key is an error.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import field
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator, model_validator
from pydantic.dataclasses import dataclass

from hf_sysgen.data.citations import bibtex
from hf_sysgen.data.errors import DataError
from hf_sysgen.errors import did_you_mean, one_line

FILE = "info.yaml"
GITHUB = "https://raw.githubusercontent.com"
# a split other than `train` is drawn like `train`, is the compositional test or drawn like that test, or is neither
SplitKind = Literal["in_distribution", "compositional", "other"]
# seq2seq: text to text, scored by exact match; translation: scored by BLEU
Task = Literal[
    "seq2seq", "translation", "relation_classification", "graph_parsing", "dependency_parsing", "language_modeling"
]


KIND_WORDS: dict[SplitKind, str] = {
    "in_distribution": "Drawn like train.",
    "compositional": "Compositional generalization.",
    "other": "Neither drawn like train nor a compositional test.",
}


@dataclass(frozen=True)
class Source:
    """One upstream file at one version.

    Attributes:
        repository: "owner/name" on GitHub, or who publishes the file.
        commit: full commit hash, or the publisher's version, or "".
        path: path in the repository or, with `archive`, in the archive.
        sha256: hexadecimal digest of the content, None if unknown.
        num_bytes: size of the content, None if unknown.
        licence: what upstream allows.
        mirror: path in a mirror folder. There the file may be gzipped, with ".gz" appended to its name.
        rebuild: makes the same bytes without a network.
        git_blob: id that git gives to the content. Upstream's tree lists it for every file, so it pins a file that was
            not available when `info.yaml` was written. Used only without `sha256`. Without either, the first download
            on a machine is trusted and pinned in its cache.
        address: full URL of a file that is not on GitHub, "" for a file that users make.
        archive: the archive that contains the file. `sha256` and `num_bytes` are still those of the file itself.
    """

    repository: str
    commit: str
    path: str
    sha256: str | None
    num_bytes: int | None
    licence: str
    mirror: str
    rebuild: Callable[[], bytes] | None = field(default=None, repr=False, compare=False)
    git_blob: str = field(default="", kw_only=True)
    address: str | None = field(default=None, kw_only=True)
    archive: Source | None = field(default=None, kw_only=True)

    @property
    def checksum(self) -> str:
        """The digest that pins the content: the sha256, else the git blob id, else ""."""
        return self.sha256 or self.git_blob

    @property
    def checksum_kind(self) -> str:
        return "git blob id" if self.git_blob and not self.sha256 else "sha256"

    @property
    def url(self) -> str:
        if self.archive:
            return self.archive.url
        if self.address is not None:
            return self.address
        return f"{GITHUB}/{self.repository}/{self.commit}/{quote(self.path)}"

    @property
    def name(self) -> str:
        """`repository@commit:path` with a short commit, for messages."""
        if self.archive:
            return f"{self.archive.name}!{self.path}"
        return f"{self.repository}{'@' + self.commit[:8] if self.commit else ''}:{self.path}"


@dataclass(frozen=True)
class ConfigInfo:
    """One split family of a benchmark.

    Attributes:
        name: the `config` of `load_benchmark`.
        description: where the split comes from, and which part is the compositional test.
        num_examples: split name to number of examples, in the order of the `DatasetDict`; None if unknown until the
            data is made.
        sources: role to file; the role is the split's name if the file holds just that split.
        citation: BibTeX of the papers that add this split family.
        what_it_tests: split name to one sentence on what the split tests, beside its kind.
        errata: known errors of upstream or the paper in this split family, one sentence each.
        withheld: split name to why it is never published anew, of splits that upstream keeps out of the open.
        kinds: name of each split but `train` to what it is.

    Raises:
        ValueError: one of these mappings names a split that `num_examples` has not.
    """

    name: str
    description: str
    num_examples: Mapping[str, int | None]
    sources: Mapping[str, Source]
    citation: str = ""
    what_it_tests: Mapping[str, str] = field(default_factory=dict)
    errata: tuple[str, ...] = ()
    withheld: Mapping[str, str] = field(default_factory=dict)
    kinds: Mapping[str, SplitKind] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for what in ("what_it_tests", "withheld", "kinds"):
            if unknown := [split for split in getattr(self, what) if split not in self.num_examples]:
                raise ValueError(
                    f"{what} of config {self.name} names {unknown[0]!r}; splits in num_examples: "
                    f"{', '.join(self.num_examples)}"
                )

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(self.num_examples)

    def of_kind(self, kind: SplitKind) -> tuple[str, ...]:
        """The splits of that kind, possibly none."""
        return tuple(split for split in self.splits if self.kinds.get(split) == kind)

    def meaning(self, split: str) -> str:
        """What a page says of a split: its kind, and what it tests."""
        kind = KIND_WORDS[self.kinds[split]] if split in self.kinds else ""
        return " ".join(filter(None, (kind, self.what_it_tests.get(split, ""))))

    @property
    def licence(self) -> str:
        return _joined(source.licence for source in self.sources.values())

    @property
    def fingerprint(self) -> str:
        """A hash of the content of the files. It separates prepared data of different files."""
        content = "\n".join(f"{role} {source.checksum or source.url}" for role, source in self.sources.items())
        return hashlib.sha256(content.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class BenchmarkInfo:
    """A benchmark and its split families.

    Attributes:
        name: the `name` of `load_benchmark`.
        title: its name in texts.
        description: one sentence.
        homepage: upstream address.
        citation: BibTeX of the paper that made the benchmark.
        builder: "module:class" of its `BenchmarkBuilder`, imported only to load it.
        configs: the split families by name.
        errata: known errors that hold for all configs, one sentence each.
        restriction: why publishing needs an explicit flag (a non-commercial licence, or one that forbids passing the
            data on), "" if it does not.
        extra: optional dependency of this package that preparing the data needs, "" for none.
        task: what a model learns.
    """

    name: str
    title: str
    description: str
    homepage: str
    citation: str
    builder: str
    configs: Mapping[str, ConfigInfo]
    errata: tuple[str, ...] = ()
    restriction: str = ""
    extra: str = ""
    task: Task = "seq2seq"

    @property
    def licence(self) -> str:
        return _joined(source.licence for config in self.configs.values() for source in config.sources.values())

    def config(self, name: str | None = None) -> ConfigInfo:
        """The split family of that name; the name is optional if there is only one.

        Raises:
            DataError: there is no such config, or no name is given and there are several.
        """
        if name is None and len(self.configs) == 1:
            return next(iter(self.configs.values()))
        if name is None:
            raise DataError(f"{self.name} has several configs, name one of: {', '.join(self.configs)}")
        if name not in self.configs:
            raise unknown_name_error(f"config of {self.name}", name, self.configs)
        return self.configs[name]


class Entry(BaseModel):
    model_config = ConfigDict(extra="forbid")


class FileEntry(Entry):
    """One file of a group.

    Attributes:
        path: its upstream path, if that is not its name in the group's `folder`.
        sha256, git_blob, bytes: of the content, see `Source`.
    """

    path: str | None = None
    sha256: str | None = None
    git_blob: str = ""
    bytes: int | None = None


class FileGroup(Entry):
    """Files of one upstream. A config names a file by its path in a mirror folder, `<mirror>/<name>`.

    Attributes:
        repository, commit, licence: see `Source`.
        folder: upstream folder of the files.
        mirror: the same folder in a mirror.
        address: URL before a file's path, with "{commit}" for the commit; "" for files that users make; left out for
            GitHub.
        archive: mirror path of the archive that contains the files.
        rebuild: "module:function" in the benchmark's folder that makes a file's bytes from its path.
        files: by name below `folder`.
    """

    repository: str
    commit: str = ""
    licence: str
    folder: str = ""
    mirror: str
    address: str | None = None
    archive: str | None = None
    rebuild: str | None = None
    files: dict[str, FileEntry | None]


class SplitEntry(Entry):
    """A split; `train` is written as its number of examples if there is nothing else to say.

    Attributes:
        examples: how many, null if unknown.
        kind: see `SplitKind`; of every split but `train`.
        tests: `what_it_tests` of `ConfigInfo`.
        withheld: see `ConfigInfo`.
    """

    examples: int | None
    kind: SplitKind | None = None
    tests: str = ""
    withheld: str = ""


class ConfigEntry(Entry):
    """A config, or one for each row of `for_each`.

    Attributes:
        for_each: rows of values; "{key}" is replaced by a row's value in the name and in all texts except `citation`.
        citation: BibTeX entries, or keys of those in `papers.bib`.
        files: role to path in a mirror folder.
        splits: in the order of the `DatasetDict`.
        description, errata: see `ConfigInfo`.
    """

    description: str
    citation: list[str] = []
    files: dict[str, str]
    splits: dict[str, SplitEntry]
    errata: tuple[str, ...] = ()

    @field_validator("splits", mode="before")
    @classmethod
    def _written_as_a_number(cls, splits: dict[str, Any]) -> dict[str, Any]:
        return {name: one if isinstance(one, dict) else {"examples": one} for name, one in splits.items()}

    @model_validator(mode="after")
    def _kinds_are_stated(self) -> ConfigEntry:
        for name, split in self.splits.items():
            if (split.kind is None) != (name == "train"):
                raise ValueError(f"splits.{name}.kind is {'missing' if split.kind is None else 'not for it'}")
        return self


class BenchmarkEntry(Entry):
    """One benchmark.

    Attributes:
        builder: "module:class" in this folder; by default "builder:" and the name in camel case.
        citation: BibTeX entries, or keys of those in `papers.bib`.
        files: groups of files by upstream.
        configs: `ConfigEntry` by name.
        name, task, title, description, homepage, extra, restriction, errata: see `BenchmarkInfo`.
    """

    name: str
    task: Task
    title: str
    description: str
    homepage: str
    builder: str = ""
    citation: list[str]
    extra: str = ""
    restriction: str = ""
    errata: tuple[str, ...] = ()
    files: list[FileGroup]
    configs: dict[str, ConfigEntry]


def read_info(module_file: str | Path, name: str | None = None) -> BenchmarkInfo:
    """The benchmark described by the `info.yaml` beside a module.

    Args:
        module_file: the module's `__file__`.
        name: which benchmark, if the file describes several.
    """
    benchmarks = read_benchmarks(Path(module_file).parent / FILE)
    return benchmarks[name] if name else next(iter(benchmarks.values()))


@cache
def read_benchmarks(path: Path) -> dict[str, BenchmarkInfo]:
    """The benchmarks of an `info.yaml`, by name.

    Raises:
        DataError: the file cannot be read, or a field is unknown, missing or wrong.
    """
    try:
        document = _document(path)
        shared = {"files": document["files"]}
        return {
            info.name: info
            for entry in document.get("benchmarks", [document])
            for info in [_benchmark(path.parent.name, shared | entry)]
        }
    except ValidationError as error:
        first = error.errors()[0]
        raise DataError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}; correct it") from error
    except (OSError, UnicodeDecodeError, LookupError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: {one_line(error)}; correct it") from error


def _document(path: Path) -> dict[str, Any]:
    text = path.read_text(encoding="utf-8")
    if path.is_relative_to(Path(__file__).parent):
        # this reader is in C and ten times as fast, but reads YAML 1.1 with repeated keys: a test checks that our files
        # mean the same to both readers
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        raise DataError(f"{path}: {one_line(error)}; correct it") from error


def _benchmark(folder: str, document: dict[str, Any]) -> BenchmarkInfo:
    configs = {name: entry for item in document.get("configs", {}).items() for name, entry in _expanded(*item)}
    entry = BenchmarkEntry.model_validate({**document, "configs": configs})
    package = f"{__package__}.{folder}"
    sources = _sources(package, entry.files)
    builder = entry.builder or f"builder:{''.join(word.capitalize() for word in entry.name.split('_'))}"
    same = {"name", "task", "title", "description", "homepage", "extra", "restriction", "errata"}
    return BenchmarkInfo(
        **entry.model_dump(include=same),
        citation=_bibliography(entry.citation),
        builder=f"{package}.{builder}",
        configs={name: _config(name, config, sources) for name, config in entry.configs.items()},
    )


def _expanded(name: str, entry: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """A config of `info.yaml` by name, or the configs of its `for_each`."""
    if "for_each" not in entry:
        yield name, entry
        return
    rest = {key: value for key, value in entry.items() if key != "for_each"}
    for row in entry["for_each"]:
        # BibTeX has its own braces
        yield name.format_map(row), {key: one if key == "citation" else _filled(one, row) for key, one in rest.items()}


def _filled(value: Any, row: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(one, row) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, row) for one in value]
    if not isinstance(value, str):
        return value
    # a number or null stays one
    key = value[1:-1]
    return row[key] if key in row and value == f"{{{key}}}" else value.format_map(row)


def _sources(package: str, groups: Iterable[FileGroup]) -> dict[str, Source]:
    """All files by mirror path. An archive comes before its members."""
    sources: dict[str, Source] = {}
    for group in groups:
        for name, entry in group.files.items():
            entry = entry or FileEntry()
            path = entry.path or "/".join(filter(None, (group.folder, name)))
            address = group.address and f"{group.address.replace('{commit}', group.commit)}/{path}"
            mirror = f"{group.mirror}/{name}"
            sources[mirror] = Source(
                group.repository,
                group.commit,
                path,
                entry.sha256,
                entry.bytes,
                group.licence,
                mirror,
                partial(_rebuilt, f"{package}.{group.rebuild}", path) if group.rebuild else None,
                git_blob=entry.git_blob,
                address=address,
                archive=sources[group.archive] if group.archive else None,
            )
    return sources


def _rebuilt(function: str, path: str) -> bytes:
    module, _, name = function.partition(":")
    return getattr(importlib.import_module(module), name)(path)


def _config(name: str, entry: ConfigEntry, sources: Mapping[str, Source]) -> ConfigInfo:
    splits = entry.splits
    return ConfigInfo(
        name,
        entry.description,
        {split: value.examples for split, value in splits.items()},
        {role: sources[path] for role, path in entry.files.items()},
        _bibliography(entry.citation),
        {split: value.tests for split, value in splits.items() if value.tests},
        entry.errata,
        {split: value.withheld for split, value in splits.items() if value.withheld},
        {split: value.kind for split, value in splits.items() if value.kind},
    )


def _bibliography(entries: Iterable[str]) -> str:
    return "\n".join(entry if entry.startswith("@") else bibtex(entry) for entry in entries)


def unknown_name_error(kind: str, name: str, valid: Collection[str]) -> DataError:
    """The error for a wrong name: it suggests the closest valid one and lists all."""
    return DataError(f"unknown {kind} {name!r}{did_you_mean(str(name), valid)} Valid: {', '.join(valid)}")


def _joined(texts: Iterable[str]) -> str:
    """Each of the parts between semicolons once."""
    return "; ".join(dict.fromkeys(part for text in texts for part in text.split("; ")))
