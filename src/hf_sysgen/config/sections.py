"""
The sections of a recipe. Each field is declared here once, with its type, its default, its meaning (the text under it)
and what another value of it changes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NoReturn, TypeAlias, Union, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from hf_sysgen.data.info import Task

Change: TypeAlias = Literal["result", "seed", "bits", "rounding", "nothing"]


@dataclass(frozen=True)
class Note:
    """
    What a field's declaration says besides type, default and meaning.

    Attributes:
        changes: what another value changes: the `result`, so that it is another cell; the `seed`; the `bits` of the
            weights or when a run is evaluated, but not the cell; only `rounding`, so that pretraining may resume with
            it; or `nothing`.
        tasks: tasks of benchmarks in which the field has an effect; none for all.
        added: whether the field came after runs had been recorded. At its default it is left out of hashes, so that
            those runs keep theirs.
    """

    changes: Change = "result"
    tasks: tuple[str, ...] = ()
    added: bool = False


SEED, BITS, ROUNDING, NOTHING = Note("seed"), Note("bits"), Note("rounding"), Note("nothing")
ADDED = Note(added=True)
TEXT_TO_TEXT = Note(tasks=("seq2seq", "translation"))
TRANSLATION = Note(tasks=("translation",))
PRETRAINING = Note(tasks=("language_modeling",))
# the tasks with labels of their own: all but pretraining
LABELS = tuple(task for task in get_args(Task) if task not in PRETRAINING.tasks)
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


def _arguments(text: str) -> str:
    if not all(re.fullmatch(r"[^=]+=[^=]+", one.strip()) for one in text.split(",")):
        raise ValueError("expected name=value, several with commas between them")
    return text


Arguments: TypeAlias = Annotated[str, AfterValidator(_arguments)]


class Section(BaseModel):
    """A part of a recipe. What it does not declare cannot be written."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class Model(Section):
    """The model, and any field of its config class by its name, e.g. `hidden_size`, `embedding_scaling`."""

    model_config = ConfigDict(extra="allow")

    type: str = "auto"
    """A model type of `hf-sysgen list models`, or your own (docs/new_variant.md). With `pretrained`, also a text
    generator of transformers, e.g. t5, bart, llama, qwen3; `auto` takes the checkpoint's type."""
    pretrained: str | None = None
    """Folder, hub id or name in the zoo of a checkpoint to fine-tune, with its tokenizer: a decoder of this package, or
    any AutoModelForSeq2SeqLM or AutoModelForCausalLM of transformers. Sizes come from the checkpoint; sizes in the
    recipe must match it."""
    revision: Annotated[str | None, ADDED] = None
    """Commit, tag or branch of a hub id; null for the newest. The record has the commit."""
    size_class: str | None = None
    """Size class of a depth-width decoder (Petty et al. 2023, Table 1). Together with `num_hidden_layers` it sets all
    sizes; sizes in the recipe must match it."""
    attn_implementation: Annotated[Literal["auto", "sdpa", "eager"], ROUNDING] = "auto"
    """Implementation of attention. `auto` takes the faster one: eager in training on a CPU, unless texts of 512 tokens
    or more are read without dropout on attention weights."""

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
    """Folder with the upstream files, relative to the current folder; null to find them as `load_benchmark` does."""
    tokenization: Annotated[Literal["words", "characters", "bpe", "sentencepiece"], TEXT_TO_TEXT] = "words"
    """Words between spaces, characters (mathematics), or subwords learned from the training split (translation)."""
    subwords: Annotated[Count | None, TRANSLATION] = None
    """Number of merges of `bpe`, or of pieces of `sentencepiece`."""
    joint_vocabulary: Annotated[bool, TEXT_TO_TEXT] = False
    """Whether source and target share one vocabulary (COGS, PCFG SET) or have their own (SCAN, CFQ)."""
    source_start: Annotated[bool | None, Note(tasks=("seq2seq",))] = None
    """Whether each source starts with a start symbol; null follows the model's authors."""
    prompt: Annotated[str | None, Note(tasks=("seq2seq",), added=True)] = None
    """Prompt template with `{input}`, for a pretrained model of transformers. null: the input itself for an
    encoder-decoder; for a decoder "Input: {input}" and on a new line "Output:", as in the tasks for
    lm-evaluation-harness."""
    role_scheme: str | None = None
    """Roles of words for a role-filler model: a name of `role_schemes()` in hf_sysgen.data.text.roles, or a file
    (.yaml, .yml, .json); null makes each word its own role."""
    train_eos: Annotated[bool, TEXT_TO_TEXT] = True
    """Whether the end symbol is a label. Without it only the oracle-length evaluation makes sense (Newman et al.
    2020)."""
    tokenizer: Annotated[str | None, PRETRAINING] = None
    """For pretraining: a folder, e.g. of `hf-sysgen data tokenizer`, or a hub id, e.g. google-t5/t5-base."""
    context_length: Annotated[int, Field(ge=2), PRETRAINING] = 1024
    """For pretraining: tokens per example."""
    streams: Annotated[Count, Note("bits", PRETRAINING.tasks)] = 1
    """For pretraining: number of streams that the shards are distributed over. Each update takes the same number of
    examples from every stream. Must be a multiple of the number of processes."""
    validation_examples: Annotated[Count, PRETRAINING] = 1000
    """For pretraining: perplexity is measured on this many examples from the start of the validation split."""


class FixedSize(Section):
    """Batches with a fixed number of examples."""

    sampling: str
    """How examples are drawn."""
    size: Count
    """Examples of an update, over all processes and accumulated parts."""
    length_buckets: Annotated[Count, ROUNDING] = 1
    """Number of parts that an update's examples are split into after sorting by length. Each part is padded to its own
    longest example and gradients are accumulated: the same update with less padding. In pretraining: number of
    gradient accumulation steps."""

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
    """Examples are reshuffled each epoch. The last batch of an epoch may be smaller."""

    sampling: Literal["epochs"]
    """How examples are drawn."""
    epochs: Count | None = None
    """End after so many epochs, if that is before `training.max_steps`."""


class MaxTokens(Section):
    """fairseq's batches of examples of similar length, in another order each epoch."""

    sampling: Literal["max_tokens"]
    """How examples are drawn."""
    max_tokens: Count
    """Maximum tokens per batch: number of examples times the longest source or target."""
    per_update: Count = 1
    """Batches of an update, over all processes: fairseq's GPUs times update_freq."""
    resample: Count | None = None
    """Before training, draw this many examples with replacement and train on these; an epoch is one pass over them
    (Dessi & Baroni 2019). null uses each example once."""
    epochs: Count | None = None
    """End after so many epochs, if that is before `training.max_steps`."""


Batches: TypeAlias = Annotated[Union[WithReplacement, Epochs, MaxTokens], Field(discriminator="sampling")]  # noqa: UP007


class Training(Section):
    """
    Fields of transformers' Seq2SeqTrainingArguments, by their names and with our defaults; `kept_steps` is our own. Any
    other of its fields may be given, except those that the runner or another key of the recipe decides.
    """

    model_config = ConfigDict(extra="allow")

    max_steps: Annotated[int, Field(ge=0, lt=2**32)]
    """Optimizer updates; 0 with `in_context` alone."""
    learning_rate: Positive
    """Learning rate, or its peak if the schedule changes it; for `noam` the factor before hidden_size^-1/2."""
    optim: str = "adamw_torch_fused"
    """Any optimizer that transformers knows. Weight decay is decoupled in Adam's; sgd adds it to the gradient."""
    optim_args: Arguments | None = None
    """Further optimizer arguments, e.g. "momentum=0.99,nesterov=true" for sgd, which equals fairseq's `nag` at a
    constant learning rate."""
    adam_beta1: Fraction = 0.9
    """Adam's beta1."""
    adam_beta2: Fraction = 0.999
    """Adam's beta2."""
    adam_epsilon: Positive = 1e-8
    """Adam's epsilon."""
    weight_decay: NotNegative = 0.0
    """Weight decay of all parameters, including biases and norms."""
    max_grad_norm: NotNegative = 0.0
    """Global L2 norm that gradients are clipped to; 0 for no clipping."""
    label_smoothing_factor: Annotated[Fraction, TEXT_TO_TEXT] = 0.0
    """Weight of the uniform distribution over the vocabulary in the loss."""
    bf16: bool | Literal["auto"] = False
    """Autocast to bfloat16. Evaluation is always in float32. `auto` measures at a run's start whether that is faster on
    this machine, and keeps the answer; the record has true or false."""
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
    """Steps at which the model is evaluated and saved permanently, in folders `step-N` with the layout of `model`."""
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
            _wrong("training.fp16", f"contradicts training.bf16={str(self.bf16).lower()}; give one of them")
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
    """`loss` is measured while decoding; for translation with teacher forcing and label smoothing."""
    patience: Count = 5
    """Evaluations without improvement before the run stops."""


class Evaluation(Section):
    """How the model is evaluated."""

    batch_size: Annotated[Count, NOTHING] = 256
    """Examples decoded together."""
    examples: Annotated[Count | None, BITS] = None
    """Evaluations during training use a fixed random sample of this many examples per split; null uses all. The final
    evaluation always uses all."""
    save_example_losses: Annotated[bool, Note("nothing", tuple(task for task in LABELS if task != "translation"))] = (
        False
    )
    """Whether evaluations during training keep the loss of every example, in the run's folder `evaluations`, about 10
    bytes each."""
    num_beams: Annotated[Count, TRANSLATION] = 1
    """Beam width for translation; 1 is greedy. All other tasks decode greedily."""
    length_penalty: Annotated[float, TRANSLATION] = 1.0
    """Exponent of the length by which a translation's log-probability is divided."""
    early_stopping: Annotated[EarlyStopping | None, LABELED] = None
    """Stop before `training.max_steps` and keep the best weights; null trains to the end."""

    @model_validator(mode="after")
    def _agree(self) -> Evaluation:
        if self.num_beams == 1 and self.length_penalty != 1:
            _wrong("evaluation.length_penalty", "has no effect with evaluation.num_beams=1; remove it")
        return self


class Peft(Section):
    """Train low-rank adapters (LoRA, Hu et al. 2021) with the package PEFT instead of all weights. Names and defaults
    are those of PEFT. In the saved model the adapters are merged."""

    r: Count = 8
    """Rank of each adapter."""
    lora_alpha: Positive = 8
    """An adapter is scaled by lora_alpha / r."""
    lora_dropout: Fraction = 0.0
    """Dropout before each adapter."""
    target_modules: str | Annotated[tuple[str, ...], Field(strict=False)] | None = None
    """Name suffixes of linear layers, or `all-linear`; null uses PEFT's default for the model type."""


class InContext(Section):
    """Evaluate `model.pretrained` without training, with training examples in the prompt. The recipe then has neither
    `batches` nor `training`."""

    shots: Annotated[int, Field(ge=0)]
    """Examples before each input."""
    rule: Literal["random", "same-length", "similar"] = "random"
    """How they are chosen. `random`: at random. `same-length`: at random among inputs with the same number of words, or
    the closest number. `similar`: the inputs that share the most words (Jaccard index), the most similar last. The test
    input itself is never used. `seed` decides random choices and ties."""
    examples: Count | None = None
    """Examples of each split that are judged, drawn by `seed`; null for all."""
    splits: Annotated[tuple[str, ...], Field(strict=False)] | None = None
    """Splits that are judged; null for all but train."""
    constrained: bool = False
    """Whether decoding allows only words that occur in the benchmark's targets."""


# a recipe without training has these sections, without effect
UNTRAINED: dict[str, dict[str, Any]] = {
    "batches": {"sampling": "epochs", "size": 1},
    "training": {"max_steps": 0, "learning_rate": 1.0, "eval_steps": None, "report_to": "none"},
}


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


class Sections(Section):
    """All sections of a recipe."""

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
    peft: Annotated[Peft | None, ADDED] = None
    """Train low-rank adapters of `model.pretrained`; null to train all weights."""
    in_context: Annotated[InContext | None, ADDED] = None
    """Evaluate `model.pretrained` without training; null to train."""
    paper: Paper = Paper()
    """The paper's number."""
    seed: Annotated[Below32Bits, SEED] = 0
    """Of initial weights, dropout and batches."""
    output_dir: Annotated[Folder | None, NOTHING] = None
    """Where the run lives; null for `runs/NAME/seedN`, where the name is the file's, with the overrides that make it
    another cell."""

    @model_validator(mode="before")
    @classmethod
    def _without_training(cls, sections: Any) -> Any:
        if isinstance(sections, Mapping) and sections.get("in_context") is not None:
            return {**UNTRAINED, **sections}
        return sections

    @model_validator(mode="after")
    def _agree(self) -> Sections:
        steps, schedule = self.training.max_steps, self.schedule
        if (steps == 0) != (self.in_context is not None):
            _wrong("training.max_steps", f"{steps} must be 0 if in_context is given, and otherwise at least 1")
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
    def epochs(self) -> int | None:
        """Epochs after which the run ends, if that is before `training.max_steps`."""
        return getattr(self.batches, "epochs", None)


def _wrong(key: str, problem: str) -> NoReturn:
    """Refuse a combination of fields. The key is part of the text, which is all that pydantic keeps."""
    raise ValueError(f"{key}\n{problem}")
