"""
A recipe: everything that a run depends on, in sections.

Each field is declared here once, with its type, its default, its meaning (the text under it) and what another value of
it changes. Names of cells, hashes, checks before resuming and comparisons over seeds all derive from that.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, TypeAlias, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, model_validator

from hf_sysgen.errors import UserError
from hf_sysgen.files import file_name

Change: TypeAlias = Literal["result", "seed", "bits", "rounding", "nothing"]
LONGEST_VALUE = 80


class RecipeError(UserError):
    """
    A recipe or a sweep that cannot be run.

    Attributes:
        key: the dotted key that is wrong, e.g. `training.max_steps`; None where the file as a whole is.
    """

    def __init__(self, message: str, key: str | None = None):
        super().__init__(message)
        self.key = key


@dataclass(frozen=True)
class Note:
    """
    What a field's declaration says besides type, default and meaning.

    Attributes:
        changes: what another value changes: the `result`, so that it is another cell; the `seed`; the `bits` of the
            weights or when a run is evaluated, but not the cell; only `rounding`, so that pretraining may resume with
            it; or `nothing`.
        tasks: tasks of benchmarks in which the field has an effect; none for all.
    """

    changes: Change = "result"
    tasks: tuple[str, ...] = ()


SEED, BITS, ROUNDING, NOTHING = Note("seed"), Note("bits"), Note("rounding"), Note("nothing")
TEXT = Note(tasks=("seq2seq", "translation"))
TRANSLATION = Note(tasks=("translation",))
PRETRAINING = Note(tasks=("language_modeling",))
# what has labels of its own: all but pretraining
LABELS = ("seq2seq", "translation", "relation_classification", "graph_parsing", "dependency_parsing")
LABELED = Note(tasks=LABELS)

Count: TypeAlias = Annotated[int, Field(ge=1)]
Positive: TypeAlias = Annotated[float, Field(gt=0)]
NotNegative: TypeAlias = Annotated[float, Field(ge=0)]
Fraction: TypeAlias = Annotated[float, Field(ge=0, lt=1)]
Below32Bits: TypeAlias = Annotated[int, Field(ge=0, lt=2**32)]


def _name_of_a_folder(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("is not UTF-8") from error
    if "\0" in text:
        raise ValueError("no folder can have a NUL character in its name")
    return text


Folder: TypeAlias = Annotated[str, AfterValidator(_name_of_a_folder)]


class Section(BaseModel):
    """A part of a recipe. What it does not declare cannot be written."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class Model(Section):
    """The model, and any field of its config class by its name, e.g. `hidden_size`, `embedding_scaling`."""

    model_config = ConfigDict(extra="allow")

    type: str
    """A model type of `hf-sysgen list models`, or one of your own (docs/new_variant.md)."""
    pretrained: str | None = None
    """Folder or hub id of a decoder of this type, with its tokenizer, to fine-tune. It decides the sizes; sizes given
    beside it must be the same."""
    size_class: str | None = None
    """Class of equal size of a depth-width decoder (Petty et al. 2023, Table 1); with `num_hidden_layers` it decides
    all sizes. Sizes given beside it must be the same."""
    attn_implementation: Annotated[Literal["auto", "sdpa", "eager"], ROUNDING] = "auto"
    """Implementation of attention. `auto` takes the faster one: eager in training on a CPU with attention dropout."""

    @property
    def fields(self) -> dict[str, Any]:
        """The given fields of the model's config class."""
        return dict(self.model_extra or {})


class Data(Section):
    """The benchmark, and how its examples become token ids."""

    benchmark: str
    """A benchmark of `hf-sysgen list benchmarks`, or one of your own (docs/new_benchmark.md)."""
    config: str
    """Its config."""
    data_dir: Annotated[str | None, NOTHING] = None
    """Folder with the upstream files; null to find them as `load_benchmark` does."""
    tokenization: Annotated[Literal["words", "characters", "bpe", "sentencepiece"], TEXT] = "words"
    """Words between blanks, characters (mathematics), or for translation subwords learned from the training split."""
    subwords: Annotated[Count | None, TRANSLATION] = None
    """Number of merges of `bpe`, or of pieces of `sentencepiece`."""
    joint_vocabulary: Annotated[bool, TEXT] = False
    """Whether source and target share one vocabulary (COGS, PCFG SET) or have their own (SCAN, CFQ)."""
    source_start: Annotated[bool | None, Note(tasks=("seq2seq",))] = None
    """Whether a start symbol stands before each source; null for what the model's authors do."""
    role_scheme: str | None = None
    """Roles of words for a role-filler model: a name of `role_schemes()` in hf_sysgen.data.text.roles, or a file
    (.yaml, .yml, .json); null takes each word as its own role."""
    train_eos: Annotated[bool, TEXT] = True
    """Whether the end symbol is a label. Without it only the oracle-length evaluation makes sense (Newman et al.
    2020)."""
    tokenizer: Annotated[str | None, PRETRAINING] = None
    """For pretraining: a folder, e.g. of `hf-sysgen data tokenizer`, or a hub id, e.g. google-t5/t5-base."""
    context_length: Annotated[int, Field(ge=2), PRETRAINING] = 1024
    """For pretraining: tokens of an example."""
    streams: Annotated[Count, Note("bits", PRETRAINING.tasks)] = 1
    """For pretraining: parts that the shards of the text are dealt out to. An update takes equally many examples of
    each, on any number of processes that divides them."""
    validation_examples: Annotated[Count, PRETRAINING] = 1000
    """For pretraining: examples from the beginning of the validation split that perplexity is measured on."""


class FixedSize(Section):
    """Batches with a fixed number of examples."""

    sampling: str
    """How examples are drawn."""
    size: Count
    """Examples of an update, over all processes and accumulated parts."""
    length_buckets: Annotated[Count, ROUNDING] = 1
    """Parts that an update's examples are cut into after sorting by length. Each is padded to its own longest example;
    gradients are accumulated. The same update with less padding. In pretraining: gradient accumulation."""

    @model_validator(mode="after")
    def _buckets_fit(self) -> FixedSize:
        if self.length_buckets > self.size:
            _wrong("batches.length_buckets", f"{self.length_buckets} is more than batches.size={self.size}")
        return self


class WithReplacement(FixedSize):
    """Each batch is drawn uniformly from all examples (framework/loader/sampler.py:9-19 of Csordas et al. 2021)."""

    sampling: Literal["with_replacement"]
    """How examples are drawn."""


class Epochs(FixedSize):
    """Examples are shuffled anew each epoch; its last batch is smaller where they do not divide."""

    sampling: Literal["epochs"]
    """How examples are drawn."""
    epochs: Count | None = None
    """End after so many epochs, if that is before `training.max_steps`."""


class MaxTokens(Section):
    """fairseq's batches of examples of similar length, in another order each epoch."""

    sampling: Literal["max_tokens"]
    """How examples are drawn."""
    max_tokens: Count
    """Most tokens of a batch: examples times the longest source or target."""
    per_update: Count = 1
    """Batches of an update, over all processes: fairseq's GPUs times update_freq."""
    resample: Count | None = None
    """Draw so many training examples with replacement, once, and make the batches of these; an epoch is one pass over
    them (Dessi & Baroni 2019). null for each example once."""
    epochs: Count | None = None
    """End after so many epochs, if that is before `training.max_steps`."""


Batches: TypeAlias = Annotated[Union[WithReplacement, Epochs, MaxTokens], Field(discriminator="sampling")]  # noqa: UP007


class Training(Section):
    """
    Fields of transformers' Seq2SeqTrainingArguments, by their names and with our defaults; `kept_steps` is our own. Any
    other of its fields may be given, except those that the runner or another key of the recipe decides.
    """

    model_config = ConfigDict(extra="allow")

    max_steps: Annotated[int, Field(ge=1, lt=2**32)]
    """Optimizer updates."""
    learning_rate: Positive
    """Of the optimizer; under the schedule noam the factor before hidden_size^-1/2."""
    optim: str = "adamw_torch_fused"
    """Any optimizer that transformers knows. Weight decay is decoupled."""
    optim_args: str | None = None
    """Its further arguments, e.g. "momentum=0.99,nesterov=true" of sgd, which is fairseq's `nag` at a constant learning
    rate."""
    adam_beta1: Fraction = 0.9
    """Of Adam."""
    adam_beta2: Fraction = 0.999
    """Of Adam."""
    adam_epsilon: Positive = 1e-8
    """Of Adam."""
    weight_decay: NotNegative = 0.0
    """Of all parameters, biases and norms included."""
    max_grad_norm: NotNegative = 0.0
    """Global L2 norm that gradients are clipped to; 0 for no clipping."""
    label_smoothing_factor: Annotated[Fraction, TEXT] = 0.0
    """Weight of the uniform distribution over the vocabulary in the loss."""
    bf16: bool = False
    """Autocast to bfloat16. Evaluation is always in float32."""
    fp16: bool = False
    """Autocast to float16, with scaled gradients. Evaluation is always in float32."""
    torch_compile: Annotated[bool, ROUNDING] = False
    """Compile the model. `torch_compile_mode: reduce-overhead` replays CUDA graphs, which speeds up small models."""
    gradient_checkpointing: Annotated[bool, ROUNDING] = False
    """Recompute layers in the backward pass to save memory."""
    eval_steps: Annotated[Count | None, BITS] = 1000
    """Steps between evaluations; null for one at the end only."""
    save_steps: Annotated[Count, BITS] = 1000
    """Steps between checkpoints that a killed run resumes from. Under early stopping it is `eval_steps`, because the
    best weights must be among the saved ones."""
    kept_steps: Annotated[tuple[Count, ...], Field(strict=False), BITS] = ()
    """Steps whose weights are kept, in folders `step-N` like `model`; each is evaluated."""
    logging_steps: Annotated[Count, NOTHING] = 50
    """Steps between logged losses."""
    report_to: Annotated[str | Annotated[tuple[str, ...], Field(strict=False)], NOTHING] = "tensorboard"
    """Any tracker of transformers, e.g. tensorboard, trackio, wandb; several as a list; or none."""

    @property
    def passed_through(self) -> dict[str, Any]:
        """The given fields of Seq2SeqTrainingArguments that are not declared here."""
        return dict(self.model_extra or {})

    @model_validator(mode="after")
    def _agree(self) -> Training:
        kept = [0, *self.kept_steps, self.max_steps + 1]
        if sorted(set(kept)) != kept:
            _wrong("training.kept_steps", f"must be increasing numbers from 1 to training.max_steps={self.max_steps}")
        if self.bf16 and self.fp16:
            _wrong("training.fp16", "contradicts training.bf16=true; give one of them")
        for name in ("adam_beta1", "adam_beta2", "adam_epsilon"):
            if self.optim == "sgd" and getattr(self, name) != type(self).model_fields[name].default:
                _wrong(f"training.{name}", "has no effect under training.optim=sgd; remove it")
        return self


class Constant(Section):
    """The learning rate as it is."""

    type: Literal["constant"] = "constant"
    """How the learning rate changes."""


class Noam(Section):
    """learning_rate * hidden_size^-1/2 * min(step^-1/2, step * warmup_steps^-3/2) (optimizer/noam_lr_sched.py of
    Csordas et al. 2021)."""

    type: Literal["noam"]
    """How the learning rate changes."""
    warmup_steps: Count
    """Updates over which it rises."""


class InverseSqrt(Section):
    """Linear from `warmup_init_lr`, then proportional to step^-1/2 (fairseq 0.10.2)."""

    type: Literal["inverse_sqrt"]
    """How the learning rate changes."""
    warmup_steps: Count
    """Updates over which it rises."""
    warmup_init_lr: NotNegative = 0.0
    """Learning rate of the first update."""


class Linear(Section):
    """Linear from 0, then down to 0 at `training.max_steps` (Bergen et al. 2021)."""

    type: Literal["linear"]
    """How the learning rate changes."""
    warmup_steps: Count
    """Updates over which it rises."""


Schedule: TypeAlias = Annotated[Union[Constant, Noam, InverseSqrt, Linear], Field(discriminator="type")]  # noqa: UP007


class EarlyStopping(Section):
    """Stop when a metric on the split `validation` no longer improves, and keep the best weights."""

    metric: Literal["loss", "accuracy", "bleu"]
    """`loss` is free-running; of translation smoothed and teacher-forced."""
    patience: Count = 5
    """Evaluations without improvement before the run stops."""


class Evaluation(Section):
    """How the model is judged."""

    batch_size: Annotated[Count, NOTHING] = 256
    """Examples decoded together."""
    examples: Annotated[Count | None, BITS] = None
    """Examples of each split in evaluations during training, a fixed random choice; null for all. The evaluation at the
    end takes all."""
    save_example_losses: Annotated[bool, Note("nothing", tuple(task for task in LABELS if task != "translation"))] = (
        False
    )
    """Whether evaluations during training keep the loss of every example, in the run's folder `evaluations`, about 10
    bytes each."""
    num_beams: Annotated[Count, TRANSLATION] = 1
    """Beams of the search for a translation; 1 is greedy, as all other tasks decode."""
    length_penalty: Annotated[float, TRANSLATION] = 1.0
    """Power of the length that a translation's log-probability is divided by."""
    early_stopping: Annotated[EarlyStopping | None, LABELED] = None
    """When to stop before `training.max_steps`, and that the best weights are kept; null to train to the end."""

    @model_validator(mode="after")
    def _agree(self) -> Evaluation:
        if self.num_beams == 1 and self.length_penalty != 1:
            _wrong("evaluation.length_penalty", "has no effect with evaluation.num_beams=1; remove it")
        return self


class Paper(Section):
    """The paper's number for this run. It is not inherited from a `base`."""

    cell: Annotated[str | None, NOTHING] = None
    """Where the paper has it, e.g. "Table 3, SCAN (length cutoff=26)"."""
    metric: Annotated[Literal["accuracy", "bleu", "comp", "perplexity"], NOTHING] = "accuracy"
    """What the numbers are: accuracy and comp are between 0 and 1, bleu between 0 and 100."""
    test: Annotated[NotNegative | None, Note("nothing", LABELS)] = None
    """The paper's number on test."""
    validation: Annotated[NotNegative | None, NOTHING] = None
    """The paper's number on validation."""

    @model_validator(mode="after")
    def _in_range(self) -> Paper:
        highest = {"bleu": 100, "perplexity": float("inf")}.get(self.metric, 1)
        for name in ("test", "validation"):
            if (number := getattr(self, name)) is not None and number > highest:
                _wrong(f"paper.{name}", f"{number} must be in [0, {highest}], as paper.metric={self.metric}")
        return self


class Recipe(Section):
    """
    Everything that decides a run's result, and where it goes. `load_recipe` of `hf_sysgen.config.io` makes one.

    Attributes:
        file: the recipe file it comes from: "csordas2021/scan_length26_relative" of a shipped one, of any other its
            name without the ending.
        overrides: dotted key -> value of those overrides that make it another cell than the file's.
    """

    model: Model
    """The model."""
    data: Data
    """The benchmark."""
    batches: Batches
    """The examples of an update."""
    training: Training
    """The optimizer and the run."""
    schedule: Schedule = Constant()
    """The learning rate over the run."""
    evaluation: Evaluation = Evaluation()
    """How the model is judged."""
    paper: Paper = Paper()
    """The paper's number."""
    seed: Annotated[Below32Bits, SEED] = 0
    """Of initial weights, dropout and batches."""
    output_dir: Annotated[Folder | None, NOTHING] = None
    """Where the run lives; null for runs/<name>/seed<seed>, where the name is the file's, with the overrides that make
    it another cell."""

    _file: str = PrivateAttr("recipe")
    _overrides: dict[str, Any] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _agree(self) -> Recipe:
        steps, schedule = self.training.max_steps, self.schedule
        if isinstance(schedule, Linear):
            if schedule.warmup_steps >= steps:
                _wrong("schedule.warmup_steps", f"{schedule.warmup_steps} must be less than training.max_steps={steps}")
            if self.epochs is not None:
                _wrong("batches.epochs", "does not go with schedule.type=linear; use training.max_steps alone")
        if self.training.eval_steps is None:
            if self.evaluation.early_stopping is not None:
                _wrong("evaluation.early_stopping", "needs evaluations: set training.eval_steps")
            if self.evaluation.save_example_losses and not self.training.kept_steps:
                _wrong("evaluation.save_example_losses", "needs evaluations: set training.eval_steps")
        return self

    @property
    def file(self) -> str:
        return self._file

    @property
    def overrides(self) -> dict[str, Any]:
        return dict(self._overrides)

    @property
    def name(self) -> str:
        """A folder's name for its runs. It is never read back: `file` and `overrides` say what it stands for."""
        words = [f"{key}={value}" for key, value in sorted(self._overrides.items())]
        return file_name(",".join([Path(self._file).name, *words]))

    @property
    def run_dir(self) -> Path:
        return Path(self.output_dir) if self.output_dir else Path("runs") / self.name / f"seed{self.seed}"

    @property
    def epochs(self) -> int | None:
        """Epochs after which the run ends, if that is before `training.max_steps`."""
        return getattr(self.batches, "epochs", None)

    def to_dict(self) -> dict[str, Any]:
        """All fields by section, defaults included, as JSON and YAML can hold them."""
        return self.model_dump(mode="json")

    def flat(self) -> dict[str, Any]:
        """All fields by dotted key, defaults included."""
        return flattened(self.to_dict())

    def differences(self, other: Recipe, *changes: Change) -> dict[str, tuple[Any, Any]]:
        """Of the fields that change one of these, those whose values differ: dotted key -> ours and theirs."""
        ours, theirs = self.flat(), other.flat()
        return {
            key: (ours.get(key), theirs.get(key))
            for key in sorted({*ours, *theirs})
            if changes_of(key) in changes and ours.get(key) != theirs.get(key)
        }

    def with_(self, **values: Any) -> Recipe:
        """A copy with other values by dotted key: `recipe.with_(**{"training.max_steps": 5})`. Raises RecipeError."""
        return recipe_of(merged(self.to_dict(), nested(values)), self._file, self._overrides)

    @property
    def hash(self) -> str:
        """16 hex digits over all fields but those that change nothing. Recipes of one hash compute the same."""
        return self._digest(lambda change: change != "nothing")

    @property
    def cell(self) -> str:
        """16 hex digits over the fields that change the result: the same for all seeds of one cell."""
        return self._digest(lambda change: change == "result")

    def _digest(self, wanted: Callable[[Change], bool]) -> str:
        content = {key: value for key, value in self.flat().items() if wanted(changes_of(key))}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def recipe_of(sections: Mapping[str, Any], file: str = "recipe", overrides: Mapping[str, Any] | None = None) -> Recipe:
    """
    A recipe from its sections as a file has them, `base` resolved. The model's fields and those passed through to the
    Trainer are not checked (see `hf_sysgen.config.check`).

    Raises:
        RecipeError: names the key.
    """
    try:
        recipe = Recipe.model_validate(dict(sections))
    except ValidationError as error:
        raise _explained(error, sections) from None
    recipe._file, recipe._overrides = file, dict(overrides or {})
    return recipe


# dotted keys


def flattened(sections: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Values by dotted key; a mapping that is the value of a model's field stays whole."""
    flat: dict[str, Any] = {}
    for key, value in sections.items():
        dotted = f"{prefix}{key}"
        if isinstance(value, Mapping) and dotted in SECTIONS:
            flat |= flattened(value, f"{dotted}.")
        else:
            flat[dotted] = value
    return flat


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Sections of values by dotted key."""
    sections: dict[str, Any] = {}
    for dotted, value in values.items():
        *folders, key = dotted.split(".")
        place = sections
        for folder in folders:
            inner = place.setdefault(folder, {})
            if not isinstance(inner, dict):
                raise RecipeError(f"{dotted}: is given beside a value of {folder}", dotted)
            place = inner
        if isinstance(value, Mapping) and isinstance(place.get(key), dict):
            place[key] = {**place[key], **value}
        else:
            place[key] = value
    return sections


def merged(
    base: Mapping[str, Any],
    changes: Mapping[str, Any],
    known_fields: Callable[[str], Container[str]] | None = None,
    prefix: str = "",
) -> dict[str, Any]:
    """
    Sections overridden by others, key by key. If a section changes its kind, it keeps only those fields of the base
    that the new kind has.

    Args:
        known_fields: names of the fields of a model type's config class; None keeps all fields of another type.
    """
    result = dict(base)
    for key, value in changes.items():
        dotted, old = f"{prefix}{key}", result.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping) and dotted in SECTIONS:
            for name, kinds in KINDS.get(dotted, {}).items():
                if (
                    value.get(name, old.get(name)) != old.get(name)
                    and (kind := kinds.get(str(value[name]))) is not None
                ):
                    old = {one: given for one, given in old.items() if one in kind.model_fields}
            if dotted == "model" and known_fields is not None and value.get("type", old.get("type")) != old.get("type"):
                fields = known_fields(value["type"])
                old = {one: given for one, given in old.items() if one in Model.model_fields or one in fields}
            value = merged(old, value, known_fields, f"{dotted}.")
        result[key] = value
    return result


@dataclass(frozen=True)
class FieldNote:
    """
    A declared field.

    Attributes:
        key: dotted.
        type: in words.
        default: its default; `...` where it must be given.
        meaning: one or two sentences.
        changes, tasks: see [`Note`].
        kind: the value of the section's `sampling` or `type` under which it exists; None for all.
    """

    key: str
    type: str
    default: Any
    meaning: str
    changes: Change
    tasks: tuple[str, ...]
    kind: str | None = None


def _kinds(annotation: Any) -> tuple[str, dict[str, type[Section]]]:
    """The discriminator of a union of sections, and the sections by its value."""
    union, *rest = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    name = next(one.discriminator for one in rest if getattr(one, "discriminator", None))
    return name, {get_args(kind.model_fields[name].annotation)[0]: kind for kind in get_args(union)}


KINDS: dict[str, dict[str, dict[str, type[Section]]]] = {
    key: dict([_kinds(annotation)]) for key, annotation in (("batches", Batches), ("schedule", Schedule))
}
SECTIONS: dict[str, str] = {
    "model": Model.__doc__ or "",
    "data": Data.__doc__ or "",
    "batches": "The examples of an update; `sampling` says which kind.",
    "training": Training.__doc__ or "",
    "schedule": "The learning rate over the run; `type` says which kind.",
    "evaluation": Evaluation.__doc__ or "",
    "evaluation.early_stopping": EarlyStopping.__doc__ or "",
    "paper": Paper.__doc__ or "",
}


def _declared() -> Iterator[FieldNote]:
    yield from _fields_of(Model, "model.")
    yield from _fields_of(Data, "data.")
    yield from _of_kinds("batches")
    yield from _fields_of(Training, "training.")
    yield from _of_kinds("schedule")
    yield from _fields_of(Evaluation, "evaluation.")
    yield from _fields_of(EarlyStopping, "evaluation.early_stopping.")
    yield from _fields_of(Paper, "paper.")
    yield from (one for one in _fields_of(Recipe, "") if one.key not in SECTIONS)


def _of_kinds(section: str) -> Iterator[FieldNote]:
    for name, kinds in KINDS[section].items():
        for value, kind in kinds.items():
            yield from _fields_of(kind, f"{section}.", value, name)


def _fields_of(
    section: type[Section], prefix: str, kind: str | None = None, discriminator: str | None = None
) -> Iterator[FieldNote]:
    for name, info in section.model_fields.items():
        note = next((one for one in info.metadata if isinstance(one, Note)), Note())
        default = info.get_default(call_default_factory=True) if not info.is_required() else ...
        meaning = " ".join((info.description or "").split())
        if name == discriminator:
            meaning = " ".join((section.__doc__ or "").split())
        yield FieldNote(f"{prefix}{name}", _words(info.annotation), default, meaning, note.changes, note.tasks, kind)


def _words(annotation: Any) -> str:
    """A type as a reader of a recipe calls it."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _words(arguments[0])
    if origin is Literal:
        return " | ".join(map(str, arguments))
    if origin is tuple:
        return f"list of {_words(arguments[0])}"
    if arguments:
        return " | ".join(_words(one) for one in arguments)
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return "section"
    names = {int: "integer", float: "number", bool: "true | false", str: "text", type(None): "null"}
    return names.get(annotation, str(annotation))


FIELDS: tuple[FieldNote, ...] = tuple(_declared())
_BY_KEY: dict[str, FieldNote] = {one.key: one for one in FIELDS}
# what other fields of Seq2SeqTrainingArguments change, the first pattern that fits; all others change the result
PASSED_THROUGH: tuple[tuple[str, Change], ...] = (
    ("torch_compile_*", "rounding"),
    ("ddp_*", "rounding"),
    ("fsdp*", "rounding"),
    ("deepspeed", "rounding"),
    ("parallelism_config", "rounding"),
    ("accelerator_config", "rounding"),
    ("activation_checkpointing*", "rounding"),
    ("gradient_checkpointing_*", "rounding"),
    ("use_liger_kernel", "rounding"),
    ("liger_kernel_config", "rounding"),
    ("tf32", "rounding"),
    ("full_determinism", "rounding"),
    ("eval_delay", "bits"),
    ("eval_on_start", "bits"),
    ("torch_empty_cache_steps", "nothing"),
    ("dataloader_*", "nothing"),
    ("logging_*", "nothing"),
    ("log_*", "nothing"),
    ("include_num_input_tokens_seen", "nothing"),
    ("hub_*", "nothing"),
    ("push_to_hub", "nothing"),
    ("run_name", "nothing"),
    ("project", "nothing"),
    ("trackio_*", "nothing"),
    ("save_*", "nothing"),
    ("enable_jit_checkpoint", "nothing"),
    ("debug", "nothing"),
    ("skip_memory_metrics", "nothing"),
)


def changes_of(key: str) -> Change:
    """What another value of a dotted key changes (see [`Note`])."""
    if key in _BY_KEY:
        return _BY_KEY[key].changes
    section, _, name = key.partition(".")
    if section == "training":
        return next((change for pattern, change in PASSED_THROUGH if fnmatchcase(name, pattern)), "result")
    return "result"


# errors


def _wrong(key: str, problem: str) -> NoReturn:
    """Refuse a combination of fields. The key is part of the text, which is all that pydantic keeps."""
    raise ValueError(f"{key}\n{problem}")


def cut(value: Any) -> str:
    """A value for a message of one line."""
    text = " ".join(value.split()) if isinstance(value, str) else repr(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word most like another; None where there is none."""
    return next(iter(difflib.get_close_matches(word, list(known), n=1, cutoff=0.0)), None)


def unknown_key(key: str, known: Iterable[str]) -> RecipeError:
    """Names what was probably meant: the same key in another section, or the one of its section most like it."""
    word = key.rpartition(".")[2]
    elsewhere = [one.key for one in FIELDS if one.key.rpartition(".")[2] == word and one.key != key]
    meant = elsewhere[0] if elsewhere else closest(key, known)
    return RecipeError(f"unknown key {cut(key)!r}" + (f", did you mean {meant!r}?" if meant else ""), key)


def _explained(error: ValidationError, sections: Mapping[str, Any]) -> RecipeError:
    """The first problem in one line that names the key and what would be right."""
    problems = error.errors(include_url=False)
    # unknown keys first: often one is a missing key, misspelt
    first = min(problems, key=lambda one: one["type"] != "extra_forbidden")
    place = [str(one) for one in first["loc"]]
    if place and place[0] in KINDS and len(place) > 1:
        # pydantic puts the kind of a section into the place too
        del place[1]
    key, kind, value = ".".join(place), first["type"], first["input"]
    if kind == "value_error" and "\n" in str(first["ctx"]["error"]):
        key, _, problem = str(first["ctx"]["error"]).partition("\n")
        return RecipeError(f"{key}: {problem}", key)
    if kind == "extra_forbidden":
        section = ".".join(place[:-1])
        known = [one.key for one in FIELDS if one.key.rpartition(".")[0] == section]
        known += [one for one in ("base", *SECTIONS) if "." not in one] if not section else []
        if section in KINDS:
            name = next(iter(KINDS[section]))
            chosen = dict(sections.get(section, {})).get(name)
            known = [one.key for one in FIELDS if one.key in known and one.kind == chosen]
            if key in _BY_KEY:
                return RecipeError(f"{key}={cut(value)} has no effect under {section}.{name}={chosen}; remove it", key)
        return unknown_key(key, known)
    if kind == "missing":
        return RecipeError(f"{key} is missing", key)
    if kind == "union_tag_not_found":
        name = next(iter(KINDS[key]))
        return RecipeError(f"{key}.{name} is missing; one of {', '.join(KINDS[key][name])}", f"{key}.{name}")
    if kind in ("literal_error", "union_tag_invalid"):
        if kind == "union_tag_invalid":
            name = next(iter(KINDS[key]))
            key, value, choices = f"{key}.{name}", first["ctx"]["tag"], list(KINDS[key][name])
        else:
            choices = [str(one) for one in get_args(_literal(key))] or [first["ctx"]["expected"]]
        meant = closest(str(value), choices)
        return RecipeError(f"{key}={cut(value)} is none of {', '.join(choices)}; did you mean {meant!r}?", key)
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        return RecipeError(f"{key or 'recipe'}: expected a section with keys of its own, got {cut(value)}", key)
    return RecipeError(f"{key}={cut(value)}: {first['msg'][0].lower()}{first['msg'][1:]}", key)


def _literal(key: str) -> Any:
    """The Literal among the annotations of a declared field."""
    section: Any = Recipe
    *folders, name = key.split(".")
    for folder in folders:
        section = {"early_stopping": EarlyStopping}.get(folder) or section.model_fields[folder].annotation
    annotation = section.model_fields[name].annotation
    options = [annotation, *get_args(annotation)]
    return next((one for one in options if get_origin(one) is Literal), None)
