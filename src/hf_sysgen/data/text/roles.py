"""Roles of words, for a model that attends by roles: words with one role look the same to its attention.

Chakravarthy et al. 2022 give each word of SCAN a role (section 4.1), and measure the abstractness of a scheme by the
entropy of the roles in the source (section 4.2.2). A scheme is one of `role_schemes()` or a file, YAML or JSON, of two
mappings from words to names of roles:

    source: {walk: prim, jump: prim, left: left, right: right, and: and}
    target: {I_WALK: PRIM, I_JUMP: PRIM, I_TURN_LEFT: I_TURN_LEFT, I_TURN_RIGHT: I_TURN_RIGHT}
"""

from __future__ import annotations

import importlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from hf_sysgen.data.errors import DataError
from hf_sysgen.errors import one_line
from hf_sysgen.files import read_whole

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

    AnyDataset = TypeVar("AnyDataset", Dataset, DatasetDict)

Side = Literal["source", "target"]
COLUMNS: dict[str, Side] = {"input": "source", "target": "target"}
# maximum characters of a file: some ten thousand words, which are read in two seconds
LONGEST_FILE = 300_000
_SUFFIXES = (".yaml", ".yml", ".json")
_Word = Annotated[str, StringConstraints(pattern="^[^ ]+$")]
_Role = Annotated[str, StringConstraints(min_length=1)]
# a file has both sides
_FILE = TypeAdapter(Annotated[dict[Side, dict[_Word, _Role]], Field(min_length=2)])
_EXPECTED = "a role scheme has two mappings, `source` and `target`, of words to names of roles"


@dataclass(frozen=True)
class RoleScheme:
    """
    The role of each word, separately for source and target.

    Args:
        source_roles, target_roles: word -> number of its role.
        source_names, target_names: name of each role, by number.
        name: name of the scheme.

    Raises:
        ValueError: a word has a role without a name, or two roles have one name.
    """

    source_roles: Mapping[str, int]
    target_roles: Mapping[str, int]
    source_names: Sequence[str]
    target_names: Sequence[str]
    name: str = "custom"

    def __post_init__(self) -> None:
        for side, (roles, names) in self._sides().items():
            for word, role in roles.items():
                if role not in range(len(names)):
                    raise ValueError(f"role {role} of the {side} word {word!r} has no name; there are {len(names)}")
            if twice := [name for name, count in Counter(names).items() if count > 1]:
                raise ValueError(f"two {side} roles have the name {twice[0]!r}")

    @classmethod
    def from_names(cls, source: Mapping[str, str], target: Mapping[str, str], name: str = "custom") -> RoleScheme:
        """A scheme from the name of each word's role. Roles are numbered in order of first occurrence."""
        sides = []
        for words in (source, target):
            names = list(dict.fromkeys(words.values()))
            numbers = {role: number for number, role in enumerate(names)}
            sides.append(({word: numbers[role] for word, role in words.items()}, tuple(names)))
        (source_roles, source_names), (target_roles, target_names) = sides
        return cls(source_roles, target_roles, source_names, target_names, name)

    def _sides(self) -> dict[Side, tuple[Mapping[str, int], Sequence[str]]]:
        return {
            "source": (self.source_roles, self.source_names),
            "target": (self.target_roles, self.target_names),
        }

    def named_roles(self, side: Side) -> dict[str, str]:
        """The name of each word's role."""
        roles, names = self._sides()[side]
        return {word: names[role] for word, role in roles.items()}

    def roles(self, text: str, side: Side = "source", where: str = "") -> list[int]:
        """
        The role of each word of a text.

        Args:
            text: words joined by single spaces.
            side: whether the text is a source or a target.
            where: name of the text, for the error.

        Raises:
            DataError: a word has no role; the message names it.
        """
        roles, _ = self._sides()[side]
        try:
            return [roles[word] for word in text.split(" ")] if text else []
        except KeyError as error:
            raise DataError(
                f"{where}{': ' if where else ''}the {side} word {error.args[0]!r} of {text!r} has no role in the "
                f"scheme {self.name}; add it, or choose a scheme for this benchmark"
            ) from None

    def annotate(self, dataset: AnyDataset) -> AnyDataset:
        """
        The dataset, or all splits of it, with columns `input_roles` and `target_roles`: the role number of each word of
        `input` and `target`, without end symbols.

        Raises:
            DataError: a word has no role; the message names split, example and word.
        """
        from datasets import DatasetDict

        if isinstance(dataset, DatasetDict):
            return DatasetDict({name: self._annotated(split, f"{name}, ") for name, split in dataset.items()})
        return self._annotated(dataset, "")

    def _annotated(self, split: Dataset, where: str) -> Dataset:
        import pyarrow

        columns = {}
        for column, side in COLUMNS.items():
            numbers = [self.roles(text, side, f"{where}example {row}") for row, text in enumerate(split[column][:])]
            # Arrow arrays, because `add_column` takes twenty times as long with lists
            columns[f"{column}_roles"] = pyarrow.array(numbers, pyarrow.list_(pyarrow.int32()))
        # the split may have columns of another scheme
        split = split.remove_columns([column for column in columns if column in split.column_names])
        for column, roles in columns.items():
            split = split.add_column(column, roles)
        return split

    def role_map(self, words: Iterable[str], side: Side = "target", symbols: Sequence[str] = ()) -> list[int]:
        """
        The role of each word of a vocabulary, in its order. With it a model gives roles to the words that it generates.

        Args:
            words: the vocabulary.
            symbols: its entries that are not words, such as "</s>". Each has its own role, after those of the words.

        Raises:
            DataError: a word has no role, or a role has the name of a symbol.
        """
        _, names = self._sides()[side]
        if taken := {*names} & {*symbols}:
            raise DataError(
                f"the scheme {self.name} has a {side} role {min(taken)!r}, which is a symbol; name it otherwise"
            )
        numbers = {symbol: len(names) + number for number, symbol in enumerate(symbols)}
        return [numbers[word] if word in numbers else self.roles(word, side)[0] for word in words]

    def entropy(self, texts: Iterable[str], side: Side = "source") -> float:
        """
        The entropy, in bits, of the roles of all words of these texts, without end symbols. The paper's 3.127 is for
        its main scheme on the sources of the test set of add-jump.
        """
        counts = Counter(role for text in texts for role in self.roles(text, side))
        total = counts.total()
        return -sum(count / total * math.log2(count / total) for count in counts.values())


@dataclass(frozen=True)
class NamedScheme:
    """
    A scheme that comes with the package.

    Attributes:
        description: one line.
        make: makes the scheme, from the splits of a benchmark if it needs them.
    """

    description: str
    make: Callable[[Mapping[str, Dataset] | None], RoleScheme]


def role_schemes() -> dict[str, str]:
    """Name and description of the schemes that come with the package."""
    return {name: scheme.description for name, scheme in _named().items()}


def role_scheme(name: str | Path, dataset: Mapping[str, Dataset] | None = None) -> RoleScheme:
    """
    A role scheme.

    Args:
        name: one of `role_schemes()`, or the path of a file that ends in .yaml, .yml or .json.
        dataset: the benchmark's splits; the schemes of COGS are made from them.

    Raises:
        DataError: there is no such scheme or file, or the file is not a scheme.
    """
    if isinstance(name, Path) or name.endswith(_SUFFIXES):
        return read_role_scheme(Path(name))
    schemes = _named()
    if name not in schemes:
        raise DataError(f"no role scheme {name!r}; there are {', '.join(schemes)}, or give a file ({_SUFFIXES[0]})")
    return schemes[name].make(dataset)


def _named() -> dict[str, NamedScheme]:
    """The `SCHEMES` of each benchmark's `roles.py`."""
    schemes: dict[str, NamedScheme] = {}
    here = Path(__file__)
    for path in sorted(here.parents[1].glob(f"*/{here.name}")):
        if path != here:
            schemes |= importlib.import_module(f"hf_sysgen.data.{path.parent.name}.{path.stem}").SCHEMES
    return schemes


def read_role_scheme(path: Path) -> RoleScheme:
    """
    A scheme from a file. Words and roles are text, even those that YAML would convert (`no`, `1`). A file whose name
    ends in `.json` is read as JSON.

    Raises:
        DataError: the file cannot be read, is not two mappings `source` and `target`, or has a word twice or without a
            role. The message names the word, and for a repeated one in YAML the line.
    """
    try:
        text = read_whole(path).decode("utf-8-sig")
        if len(text) > LONGEST_FILE:
            raise DataError(f"{path}: a role scheme has at most {LONGEST_FILE:,} characters, this has {len(text):,}")
        # JSON is not read as YAML, which has no surrogate pairs and takes null for a text
        sides = _FILE.validate_python(_json(text) if path.suffix == ".json" else YAML(typ="base", pure=True).load(text))
    except DataError:
        raise
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise DataError(f"{path}: {place}: {first['msg']}; {_EXPECTED}") from error
    except MarkedYAMLError as error:
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise DataError(f"{path}: not YAML{line}: {error.problem}") from error
    except (OSError, ValueError, RecursionError, YAMLError) as error:
        raise DataError(f"{path}: cannot read the role scheme: {one_line(error)}") from error
    return RoleScheme.from_names(**sides, name=path.stem)


def _json(text: str) -> Any:
    """JSON with numbers as text. Raises ValueError: also for a repeated key."""

    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if twice := [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]:
            raise ValueError(f"{twice[0]!r} is repeated")
        return dict(pairs)

    return json.loads(text, object_pairs_hook=distinct, parse_int=str, parse_float=str)
