"""The results record: the measurements of a run and everything that they depend on, as one typed JSON file."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_serializer, model_validator

from hf_sysgen.config.recipe import Recipe
from hf_sysgen.errors import UserError, one_line, shorten
from hf_sysgen.files import file_name, write_atomic
from hf_sysgen.results.environment import Environment, RunStart

SCHEMA_VERSION = 2
RESULTS, PREDICTIONS, METRICS, MODEL = "results.json", "predictions.jsonl", "metrics.json", "model"


def _finite(value: Any) -> Any:
    """JSON has neither NaN nor infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


# a measured number; `None` if it is not finite
Number = Annotated[float | None, BeforeValidator(_finite)]
Share = Annotated[float | None, Field(ge=0, le=1), BeforeValidator(_finite)]


class _Typed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)


class LengthScore(NamedTuple):
    """Accuracy on the examples whose reference has `length` words."""

    length: int
    examples: int
    accuracy: float


class CategoryScore(NamedTuple):
    """Accuracy on the examples of a category."""

    examples: int
    accuracy: float


class SplitMetrics(_Typed):
    """The measurements on a split with the final weights. Other numbers that a task measures are kept under their
    names."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Number] = Field(init=False)

    examples: Annotated[int, Field(ge=0)]
    accuracy: Share
    """Share of exact matches; of a language model of right next tokens."""
    loss: Number = None
    """Mean nats per token, free-running where the model decodes."""
    loss_teacher: Number = None
    """Mean nats per token, teacher-forced."""
    perplexity: Number = None
    bleu: Number = None
    """Between 0 and 100."""
    bleu_signature: str | None = None
    tokens: int | None = None
    """Tokens that loss and perplexity of a language model are over."""
    comp_other_references: int | None = None
    """Examples whose reference lacks the words that COMP looks for."""
    by_length: list[LengthScore] = []
    by_category: dict[str, CategoryScore] = {}

    @property
    def metrics(self) -> dict[str, float | None]:
        """All scores and losses by name, `accuracy` first; no counts."""
        named = ("accuracy", "loss", "loss_teacher", "perplexity", "bleu")
        return {key: getattr(self, key) for key in named if key in self.model_fields_set} | (self.model_extra or {})


class LogEntry(_Typed):
    """The log entry of an update. Numbers that settings of the Trainer add are kept under their names."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Number] = Field(init=False)

    step: int
    loss: Number = None
    """Of training, mean since the last entry; in older records since the run resumed, if that was later."""
    grad_norm: Number = None
    learning_rate: Number = None
    evaluations: dict[str, dict[str, Number]] = {}
    """Split -> metric -> number, on the examples that evaluations during training take."""

    @classmethod
    def of(cls, entry: Mapping[str, Any], splits: Iterable[str]) -> LogEntry:
        """From an entry of the Trainer's log, where a metric of a split is `eval_SPLIT_METRIC`."""
        fields = {
            key: value
            for key, value in entry.items()
            if not key.startswith("eval_") and (value is None or isinstance(value, int | float))
        }
        evaluations: dict[str, dict[str, Any]] = {}
        names = sorted(splits, key=len, reverse=True)
        for key, value in entry.items():
            if key.startswith("eval_"):
                rest = key.removeprefix("eval_")
                split = next((name for name in names if rest.startswith(f"{name}_")), rest.partition("_")[0])
                evaluations.setdefault(split, {})[rest.removeprefix(f"{split}_")] = value
        return cls.model_validate(fields | ({"evaluations": evaluations} if evaluations else {}))


class Pretrained(_Typed):
    """The checkpoint that a run started from."""

    name: str
    """Folder, hub id or name in the zoo, as the recipe has it."""
    commit: str | None = None
    """Of a hub id: the commit."""
    sha256: str
    """Of model.safetensors; of weights in several files that of their hashes in a row."""


class Record(_Typed):
    """A finished run."""

    schema_version: Literal[2] = 2
    file: str
    """The recipe file: folder and stem of a shipped one, e.g. csordas2021/cogs_transformer; else the stem."""
    overrides: dict[str, Any]
    """Dotted key -> value of the overrides that make another cell than the file's."""
    recipe: Recipe
    """The whole recipe, defaults included."""
    recipe_hash: str
    pretrained: Pretrained | None = None
    """The checkpoint that the run started from; older records have its name in the recipe alone."""
    pretrained_fields: dict[str, Any] = {}
    """Fields of the model's config that the checkpoint decides which the run started from."""
    seed: int
    steps: int
    """Updates that were made."""
    best_step: int | None = None
    """The update of the weights, where early stopping chose them."""
    num_parameters: int
    trained_parameters: int | None = None
    """Those of adapters, where these alone were trained."""
    example: str | None = None
    """An input for the model's card."""
    splits: dict[str, SplitMetrics]
    history: list[LogEntry]
    train_seconds: float
    num_processes: int
    starts: Annotated[list[RunStart], Field(min_length=1)]
    """The starts that the weights come from, the last one last."""
    environment: Environment
    """The machine of the last start."""

    @model_validator(mode="after")
    def _of_its_file(self) -> Record:
        self.recipe._file, self.recipe._overrides = self.file, dict(self.overrides)
        return self

    @field_serializer("splits", "history", "starts", "environment")
    def _measured(self, value: Any) -> Any:
        """Leave out what was not measured, or is not known of an older run."""
        if isinstance(value, BaseModel):
            return value.model_dump(mode="json", exclude_unset=True)
        if isinstance(value, dict):
            return {name: one.model_dump(mode="json", exclude_unset=True) for name, one in value.items()}
        return [one.model_dump(mode="json", exclude_unset=True) for one in value]

    @property
    def name(self) -> str:
        """A name for people: the file's name and the overrides. Runs of one name may differ in their recipe, see
        `cell_key`."""
        return self.name_without(())

    def name_without(self, keys: Container[str]) -> str:
        """The name without overrides of these keys."""
        return ",".join(filter(None, [Path(self.file).name, self.settings(keys)]))

    def settings(self, without: Container[str] = ()) -> str:
        """The overrides for people, without those of some keys; empty if there are none."""
        shown = sorted((key, value) for key, value in self.overrides.items() if key not in without)
        return ",".join(f"{key}={value}" for key, value in shown)

    @property
    def cell_key(self) -> tuple[str, str]:
        """What the runs of one cell share: see `Recipe.cell_key`."""
        return self.recipe.cell_key

    @property
    def title(self) -> str:
        """A name for messages."""
        return f"{self.name} seed {self.seed}"

    @property
    def commit(self) -> str | None:
        return self.starts[-1].commit

    @property
    def versions(self) -> dict[str, str]:
        return self.starts[-1].versions

    def curve(self, split: str, metric: str) -> list[tuple[int, float]]:
        """(step, number) for each evaluation during training that has the number."""
        found = ((entry.step, entry.evaluations.get(split, {}).get(metric)) for entry in self.history)
        return [(step, value) for step, value in found if value is not None]

    @property
    def losses(self) -> list[float]:
        """The training loss over the run."""
        return [entry.loss for entry in self.history if entry.loss is not None]

    @property
    def learned(self) -> bool:
        """
        Whether the training loss fell to less than half of what it was at first. It says nothing of a run of few steps,
        of a pretrained model, whose loss is low at first, and of text, whose loss stays far above 0.
        """
        is_text = any("perplexity" in split.metrics for split in self.splits.values())
        if is_text or self.recipe.model.pretrained is not None or len(self.losses) < 2:
            return True
        return self.losses[-1] < self.losses[0] / 2

    def kept_at(self, folder: Path) -> Path:
        """Its path in a folder of kept records: PAPER/NAME-seedN.json, like the recipe's in recipes/."""
        return folder / Path(self.file).parent / f"{file_name(self.name)}-seed{self.seed}.json"

    def without_local_paths(self) -> Record:
        """The record without folders of this machine; no result depends on them."""
        recipe = self.recipe.replace(**{"output_dir": None, "data.data_dir": None})
        return self.model_copy(update={"recipe": recipe})


def write_record(path: str | Path, record: Record) -> None:
    """Write a record; a kill leaves the old file or the new one."""
    write_atomic(path, json.dumps(record.model_dump(mode="json"), indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def first_error(error: ValidationError) -> str:
    """The first error in one line: key, expected type, value."""
    first = error.errors(include_url=False)[0]
    key = shorten(".".join(map(str, first["loc"]))) or "record"
    told = first["type"] in ("missing", "json_invalid")
    return f"{key}: {shorten(first['msg'])}" + ("" if told else f", got {shorten(first['input'], quoted=True)}")


def new_folder(folder: Path, files: Iterable[str]) -> None:
    """
    Make a folder for results.

    Raises:
        UserError: one of the files is there already, or the folder cannot be made or written to.
    """
    for name in files:
        if (folder / name).exists():
            raise UserError(f"{folder / name} exists and is not overwritten; give another folder, or remove it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UserError(f"{folder}: cannot be written to: {one_line(error)}") from error
