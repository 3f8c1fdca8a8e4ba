"""What a benchmark is, said without loading it: names, splits, sizes, licences. Nothing here imports `datasets`."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from hf_sysgen.data.sources import DataError, Source


@dataclass(frozen=True)
class ConfigInfo:
    """One split family of a benchmark.

    Attributes:
        name: the `config` of `load_benchmark`.
        description: where the split comes from, and which of its parts is the compositional test.
        num_examples: split name to number of examples, in the order of the `DatasetDict`; None where nobody knows it
            before the data is made.
        sources: what a file is for (the split's name where it holds just that) to the file.
        citation: BibTeX of the papers that add this split family to the benchmark.
        tests: split name to what it tests, one sentence; `describe` prints it. Says of each split whether it is drawn
            like `train` or is the compositional test.
        errata: what upstream or the paper gets wrong about this split family, one sentence each.
    """

    name: str
    description: str
    num_examples: Mapping[str, int | None]
    sources: Mapping[str, Source]
    citation: str = ""
    tests: Mapping[str, str] = field(default_factory=dict)
    errata: tuple[str, ...] = ()

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(self.num_examples)

    @property
    def licence(self) -> str:
        return _joined(source.licence for source in self.sources.values())

    @property
    def fingerprint(self) -> str:
        """Changes when a file's content does; keeps prepared data of different sources apart."""
        content = "\n".join(f"{role} {source.checksum or source.url}" for role, source in self.sources.items())
        return hashlib.sha256(content.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class BenchmarkInfo:
    """A benchmark and its split families.

    Attributes:
        name: the `name` of `load_benchmark`.
        description: one line.
        homepage: upstream address.
        citation: BibTeX of the paper that made the benchmark.
        builder: "module:class" of its `BenchmarkBuilder`, imported only to load it.
        configs: the split families by name.
        errata: what upstream or the paper gets wrong about all of it, one sentence each.
        restriction: why it must not be published without an explicit flag (a non-commercial licence, or one that
            forbids passing the data on); "" where it may.
        task: what is to be learnt: "seq2seq" (texts to texts, judged by exact match), "translation" (judged by BLEU),
            "relation_classification", "graph_parsing",
            "dependency_parsing" or "language_modeling".
        extra: the optional dependency of this package that preparing it needs ("" for none).
    """

    name: str
    description: str
    homepage: str
    citation: str
    builder: str
    configs: Mapping[str, ConfigInfo]
    errata: tuple[str, ...] = ()
    restriction: str = ""
    extra: str = ""
    task: str = "seq2seq"

    @property
    def licence(self) -> str:
        return _joined(source.licence for config in self.configs.values() for source in config.sources.values())

    def config(self, name: str | None = None) -> ConfigInfo:
        """The split family of that name. The name may be left out where there is only one.

        Raises:
            DataError: there is no such config, or there are several to choose from.
        """
        if name is None and len(self.configs) == 1:
            return next(iter(self.configs.values()))
        if name is None:
            raise DataError(f"{self.name} has several configs, name one of: {', '.join(self.configs)}")
        if name not in self.configs:
            raise unknown(f"config of {self.name}", name, self.configs)
        return self.configs[name]


def unknown(kind: str, name: str, valid: Collection[str]) -> DataError:
    """The error for a wrong name: it suggests the closest valid one and lists all."""
    closest = difflib.get_close_matches(name, valid, n=1, cutoff=0)
    return DataError(f"unknown {kind} {name!r}, did you mean {closest[0]!r}? Valid: {', '.join(valid)}")


def _joined(texts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(texts))
