"""The predictions of a model, example by example: `predictions.jsonl`, one typed row per line."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, TypeAdapter, ValidationError, field_validator

from hf_sysgen.errors import UserError, one_line
from hf_sysgen.files import read_whole, write_atomic
from hf_sysgen.results.record import RESULTS, Record, first_error


class Judged(Protocol):
    """An example with its measurements, before and after it becomes a [`Row`]."""

    @property
    def row(self) -> int: ...
    @property
    def exact(self) -> bool | None: ...
    def numbers(self) -> dict[str, float]: ...


class _Row(BaseModel):
    """
    An example of a split and its measurements. A line has the fields that were given, in the order of the class. Other
    numbers that a task measures are kept under their names.
    """

    model_config = ConfigDict(extra="allow", frozen=True, strict=True, use_attribute_docstrings=True)
    __pydantic_extra__: dict[str, Any] = Field(init=False)

    split: str
    row: int = 0
    """Number of the example in its split."""

    @field_validator("loss", "loss_teacher", mode="before", check_fields=False)
    @classmethod
    def _null_is_not_finite(cls, value: Any) -> Any:
        """See `write_predictions`."""
        return math.nan if value is None else value

    def numbers(self) -> dict[str, float]:
        """What was measured, by name: numbers, and whether something is right."""
        given = self.model_fields_set
        return {name: value for name, value in self if name in given and isinstance(value, int | float)}


class TextRow(_Row):
    """A predicted text or relation."""

    prediction: str
    exact: bool
    loss: float | None = None
    """Mean nats per token of the reference, free-running."""
    loss_teacher: float | None = None
    """The same, teacher-forced."""
    target_length: int | None = None
    """Words of the reference; of a translation its pieces."""
    oracle_exact: bool | None = None
    """Whether it is right with oracle output length."""
    exact_teacher: bool | None = None
    tokens: int | None = None
    """Pieces of the reference, where a tokenizer cuts words."""
    shots: list[int] | None = None
    """Rows of the training examples in the prompt."""
    input: str | None = None
    target: str | None = None
    category: str | None = None
    pairs: list[str] | None = None
    """Of noun_adjective: the held-out pairs of the source."""


class TreeRow(_Row):
    """A dependency tree, as `head:label` of each token."""

    prediction: str
    exact: bool
    target_length: int | None = None
    tokens: int
    correct_heads: int
    correct_arcs: int
    loss: float | None = None
    input: str | None = None
    target: str | None = None
    category: str | None = None


class GraphRow(_Row):
    """Labels of the words of a sentence, column by column, and for each column whether it is right."""

    prediction: dict[str, list[str | int]]
    exact: bool
    target_length: int | None = None
    role_exact: bool | None = None
    category_exact: bool | None = None
    noun_type_exact: bool | None = None
    verb_exact: bool | None = None
    parent_exact: bool | None = None
    loss: float | None = None
    input: str | None = None
    target: str | None = None
    category: str | None = None
    roles: list[str] | None = None
    word_categories: list[str] | None = None
    noun_types: list[str] | None = None
    verb_names: list[str] | None = None
    parents: list[int] | None = None


class ModelingRow(_Row):
    """A text that a language model read."""

    nats: Annotated[float, Field(allow_inf_nan=False)]
    """Sum of the losses of its predicted tokens."""
    correct: int
    tokens: int
    input: str | None = None
    exact: None = None
    category: str | None = None


def _kind(row: Any) -> str:
    get = row.get if isinstance(row, Mapping) else lambda name: getattr(row, name, None)
    if get("nats") is not None:
        return "modeling"
    if isinstance(get("prediction"), dict):
        return "graph"
    return "text" if get("correct_arcs") is None else "tree"


Row: TypeAlias = TextRow | TreeRow | GraphRow | ModelingRow
AnyRow = TypeVar("AnyRow", bound=_Row)
ROW: TypeAdapter[Row] = TypeAdapter(
    Annotated[
        Annotated[TextRow, Tag("text")]
        | Annotated[TreeRow, Tag("tree")]
        | Annotated[GraphRow, Tag("graph")]
        | Annotated[ModelingRow, Tag("modeling")],
        Discriminator(_kind),
    ]
)


def write_predictions(path: str | Path, rows: Iterable[Row]) -> None:
    """Write one JSON object per line; a number that is not finite becomes null."""
    write_atomic(path, "".join(row.model_dump_json(exclude_unset=True) + "\n" for row in rows))


def read_predictions(path: str | Path, split: str | None = None) -> list[Row]:
    """
    The rows of a file, or of one split of it, in order.

    Raises:
        UserError: the file is absent or empty, or has nothing of that split; a line is no row, or of an example that
            has a line already. Names the line.
    """
    try:
        lines = read_whole(path).splitlines()
    except OSError as error:
        raise UserError(
            f"{path}: cannot read predictions: {one_line(error)}; give the folder of a finished run"
        ) from error
    rows: list[Row] = []
    line_of: dict[tuple[str, int], int] = {}
    for number, line in enumerate(lines, start=1):
        try:
            rows.append(row := ROW.validate_json(line))
        except ValidationError as error:
            raise UserError(f"{path}: line {number}: {first_error(error)}") from error
        if "row" in row.model_fields_set and (first := line_of.setdefault((row.split, row.row), number)) != number:
            raise UserError(
                f"{path}: line {number}: row {row.row} of {row.split} is in line {first} already; keep one of them"
            )
    found = [row for row in rows if split in (None, row.split)]
    if not found:
        there = ", ".join(dict.fromkeys(row.split for row in rows)) or "nothing"
        raise UserError(f"{path}: has no predictions of {'any split' if split is None else split!r}, but of {there}")
    return found


def check_agree(record: Record, rows: Iterable[Row], path: Path) -> None:
    """
    Args:
        rows: all rows of the run's predictions.
        path: their file, for the message.

    Raises:
        UserError: a split of the record has another number of examples, or another accuracy, than the
            predictions.
    """
    exact: dict[str, list[bool]] = {}
    for row in rows:
        if row.exact is not None:
            exact.setdefault(row.split, []).append(row.exact)
    for split, found in record.splits.items():
        # predictions of a language model are neither right nor wrong
        if (hits := exact.get(split)) is None or found.accuracy is None:
            continue
        share = sum(hits) / len(hits)
        if len(hits) != found.examples or not math.isclose(share, found.accuracy, abs_tol=1e-6):
            raise UserError(
                f"{path.with_name(RESULTS)}: {split} has accuracy {found.accuracy:.4f} on {found.examples:,} examples, "
                f"but {path.name} {share:.4f} on {len(hits):,}; copy both of them from the run again"
            )


def column(rows: Sequence[Row], name: str, metric: str = "this metric") -> list[Any]:
    """
    What each row has under a name.

    Args:
        metric: what needs it, for the message.

    Raises:
        UserError: a row lacks it.
    """
    values = [getattr(row, name, None) for row in rows]
    if lacking := values.count(None):
        some = f"{lacking} of {len(rows)} lack it, perhaps because lines are damaged"
        why = "it is of another task" if lacking == len(rows) else some
        raise UserError(f"predictions of {rows[0].split} have no {name!r}, which {metric} needs; {why}")
    return values


def texts(rows: Sequence[Row], metric: str = "this metric") -> tuple[list[str], list[str]]:
    """Predictions and references. Raises UserError: as `column`, or they are graphs."""
    if any(isinstance(row, GraphRow) for row in rows):
        raise UserError(f"{metric} needs text predictions; those of {rows[0].split} are of another task")
    return column(rows, "prediction", metric), column(rows, "target", metric)
