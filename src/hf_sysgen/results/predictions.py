"""The predictions of a model, example by example: `predictions.jsonl`, one typed row per line."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, TypeAdapter, ValidationError

from hf_sysgen.errors import UserError
from hf_sysgen.files import read_whole, write_whole
from hf_sysgen.results.record import Number, fault


class _Row(BaseModel):
    """
    An example of a split and its measurements. Other numbers that a task measures, such as `role_exact` of graphs, are
    kept under their names.
    """

    model_config = ConfigDict(extra="allow", frozen=True, strict=True, use_attribute_docstrings=True)
    __pydantic_extra__: dict[str, Any] = Field(init=False)

    split: str
    row: int = 0
    """Number of the example in its split."""
    input: str | None = None
    category: str | None = None

    def measured(self) -> dict[str, Any]:
        """The measured fields of the row, for `summarize`."""
        return self.model_dump(exclude_unset=True, exclude={"split"})


class TextRow(_Row):
    """A predicted text, relation or tree."""

    prediction: str
    target: str | None = None
    exact: bool
    loss: Number = None
    """Mean nats per token of the reference, free-running."""
    loss_teacher: Number = None
    """The same, teacher-forced."""
    target_length: int | None = None
    """Words of the reference; of a translation its pieces."""
    oracle_exact: bool | None = None
    """Whether it is right with oracle output length."""
    exact_teacher: bool | None = None
    pairs: list[str] | None = None
    """Of noun_adjective: the held-out pairs of the source."""


class TreeRow(TextRow):
    """A dependency tree, as `head:label` of each token."""

    tokens: int
    correct_heads: int
    correct_arcs: int


class GraphRow(_Row):
    """Labels of the words of a sentence, column by column."""

    prediction: dict[str, list[str | int]]
    exact: bool
    loss: Number = None
    target_length: int | None = None


class ModelingRow(_Row):
    """A text that a language model read."""

    exact: None = None
    nats: float
    """Sum of the losses of its predicted tokens."""
    correct: int
    tokens: int


def _kind(row: Any) -> str:
    get = row.get if isinstance(row, Mapping) else lambda name: getattr(row, name, None)
    if get("nats") is not None:
        return "modeling"
    if isinstance(get("prediction"), dict):
        return "graph"
    return "text" if get("correct_arcs") is None else "tree"


Row: TypeAlias = TextRow | TreeRow | GraphRow | ModelingRow
_ROW: TypeAdapter[Row] = TypeAdapter(
    Annotated[
        Annotated[TextRow, Tag("text")]
        | Annotated[TreeRow, Tag("tree")]
        | Annotated[GraphRow, Tag("graph")]
        | Annotated[ModelingRow, Tag("modeling")],
        Discriminator(_kind),
    ]
)


def write_predictions(path: str | Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """
    Write one JSON object per line; a number that is not finite becomes null.

    Raises:
        ValidationError: something is no [`Row`], so that `read_predictions` would not read it back. Nothing is written.
    """
    finite = [_finite(row) for row in rows]
    for row in finite:
        _ROW.validate_python(row)
    write_whole(path, "".join(json.dumps(row, allow_nan=False) + "\n" for row in finite))


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_predictions(path: str | Path, split: str | None = None) -> list[Row]:
    """
    The rows of a file, or of one split of it, in order.

    Raises:
        UserError: the file is absent or empty, or has nothing of that split; a line is no row. Names the line.
    """
    try:
        lines = read_whole(path).splitlines()
    except OSError as error:
        raise UserError(f"{path}: cannot read predictions: {error}; give the folder of a finished run") from error
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            rows.append(_ROW.validate_json(line))
        except ValidationError as error:
            raise UserError(f"{path}: line {number}: {fault(error)}") from error
    found = [row for row in rows if split in (None, row.split)]
    if not found:
        there = ", ".join(dict.fromkeys(row.split for row in rows)) or "nothing"
        raise UserError(f"{path}: has no predictions of {'any split' if split is None else split!r}, but of {there}")
    return found
