"""A recipe: one flat YAML document that names everything a run depends on."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import hashlib
import importlib.metadata
import json
import re
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

from hf_sysgen.errors import UserError
from hf_sysgen.extensions import EXTENSIONS_VARIABLE
from hf_sysgen.results.record import NEUTRAL, SAME_CELL, file_name


class RecipeError(UserError):
    """A recipe that cannot be run: says which key, what is wrong, and what would be right."""


# fields of a model's config that the data decides, and what decides them
DERIVED_FIELDS = {
    "vocab_size": "the benchmark's words",
    "source_vocab_size": "the benchmark's words",
    "source_id_offset": "the benchmark's words",
    "pad_token_id": "the vocabulary",
    "eos_token_id": "the vocabulary",
    "decoder_start_token_id": "the vocabulary",
    "input_form": "the benchmark's task",
    "role_map": "role_scheme",
    "source_role_map": "role_scheme",
    "role_vocab_size": "role_scheme",
    "source_role_vocab_size": "role_scheme",
    "source_row_map": "the benchmark's words and `separate_tables`",
    "edge_vocab_size": "the benchmark's labels",
    "num_roles": "the benchmark's labels",
    "num_categories": "the benchmark's labels",
    "num_noun_types": "the benchmark's labels",
    "num_verbs": "the benchmark's labels",
}


@dataclass(frozen=True)
class Recipe:
    """
    Everything that decides a run's result, and where it goes. A recipe file may also hold any field of the model's
    config class, by its name (e.g. `hidden_size`, `embedding_scaling`).

    Attributes:
        model: a model type, e.g. `relative_universal_transformer` (see `hf-sysgen list`), or one of your own (see
            `hf_sysgen.extensions`).
        benchmark, config: what `load_benchmark` takes.
        pretrained: folder or hub id of a decoder of the type `model`, with its tokenizer, to go on from, which
            decides the sizes (those given beside it must be the same); `null` for new weights and a vocabulary of the
            benchmark's words.
        size_class: class of equal size of a depth-width decoder (Petty et al. 2023, Table 1); with
            `num_hidden_layers` it decides all its sizes. Those given beside it must be the same.
        tokens: `words`, separated by blanks, or `characters` (the mathematics tasks); for translation `bpe` (of
            subword-nmt) or `sentencepiece`, learned from the training split.
        subwords: merges of `bpe`, or pieces of `sentencepiece`.
        tokenizer: for pretraining: a folder, e.g. of `hf-sysgen data tokenizer`, or a hub id, e.g. google-t5/t5-base.
        context_length: for pretraining: tokens of an example, which is cut from documents put one after the other.
        streams: for pretraining: parts that the shards of the text are dealt out to. Each makes examples of its own
            text, and an update takes equally many from all, whatever the number of processes, which share the streams.
        validation_examples: for pretraining: how many, from the beginning of the split, perplexity is of.
        source_start: whether a start symbol stands before each source; `null` for as the authors of the model have it
            (Csordas et al. and Russin et al. do, fairseq does not).
        joint_vocabulary: whether source and target share one vocabulary (COGS, PCFG) or have their own (SCAN, CFQ).
        role_scheme: roles of words for a model that reads them: one of `role_schemes()` of
            `hf_sysgen.data.text.roles`, or the path of a file (.yaml, .yml, .json); `null` takes each word as its own
            role.
        seed: of initial weights, dropout and batches.
        steps: optimizer updates.
        epochs: end after so many passes over the training split, if that is before `steps`; `null` for none.
        batch_size: examples per update, over all processes and accumulated parts; none under `sampling: max_tokens`.
        length_groups: parts that an update's examples are cut into after sorting them by length. Each part is padded
            to its own longest example and its gradient accumulated: the same update for less computation. In
            pretraining all are of one length, and this is gradient accumulation alone, for less memory; a run may go on
            with another number.
        static_batches: keep the training split on the device, padded to one shape, and on a GPU replay each update as a
            CUDA graph; the same updates, several times faster for a small model on a GPU. One process.
        sampling: `with_replacement` draws every batch uniformly (framework/loader/sampler.py:9-19 of Csordas et al.);
            `epochs` shuffles the examples anew each epoch, whose last batch is smaller where they do not divide;
            `max_tokens` takes fairseq's batches of examples of similar length, in another order each epoch.
        max_tokens: most tokens of a batch under `sampling: max_tokens`: examples times the longest source or target.
        batches_per_update: such batches in an update, over all processes: fairseq's GPUs times update_freq.
        resample: draw so many training examples with replacement, once, and make the batches of these; an epoch is one
            pass over them (Dessi & Baroni 2019). `null` for each example once.
        train_eos: whether EOS is a label; without it only oracle-length evaluation makes sense (Newman et al. 2020).
        optimizer: `adam`, or `nesterov`: gradient descent with Nesterov's momentum, as fairseq's `nag` at a
            constant learning rate).
        learning_rate: of the optimizer; under `noam` the factor before d^-1/2.
        schedule: `constant`; `noam` (optimizer/noam_lr_sched.py of Csordas et al.); `inverse_sqrt` (fairseq 0.10.2);
            `linear` (up over `warmup_steps`, then down to 0 at `steps`; Bergen et al. 2021).
        warmup_steps: of all schedules but `constant`.
        warmup_init_lr: learning rate of the first update under `inverse_sqrt`.
        adam_beta1, adam_beta2, adam_epsilon, weight_decay: of Adam; decay is decoupled, and of all parameters,
            biases and norms included.
        momentum: of `nesterov`.
        max_grad_norm: global L2 norm that gradients are clipped to; 0 for no clipping.
        label_smoothing: weight of the uniform distribution over the vocabulary in the loss.
        precision: `fp32`, or autocast to `bf16` / `fp16`. Evaluation is always in float32.
        attention: `sdpa`, `eager`, or `auto`: eager where it is faster, in training on a CPU with dropout on attention.
        torch_compile: compile the model.
        gradient_checkpointing: recompute layers in the backward pass to save memory.
        eval_every: steps between evaluations; 0 for one at the end only.
        eval_examples: examples of each split in the evaluations during training, a fixed random choice; `null` for
            all. The one at the end always takes all.
        eval_batch_size: examples decoded together.
        sample_losses: whether each evaluation during training keeps the loss of every example, in the run's folder
            `evaluations`, about 10 bytes each.
        beams: width of the search for a translation; 1 is greedy, as all other tasks decode.
        length_penalty: power of the length that a translation's log-probability is divided by.
        early_stopping: stop when `loss` (free-running; of translation smoothed and teacher-forced), `accuracy` or
            `bleu` on the split `validation` has not improved for `early_stopping_patience` evaluations, and keep the
            best weights. The papers stop at `steps`: `none`; those on translation keep the best all the same.
        save_every: steps between checkpoints that a killed run resumes from; under early stopping it is `eval_every`,
            because the best weights must be among the saved ones.
        kept_steps: steps whose weights are kept, in folders `step-N` like `model`; each is evaluated.
        log_every: steps between logged losses.
        tracker: `tensorboard`, `trackio` or `none`.
        data_dir: folder with the upstream files; `null` to find them as `load_benchmark` does. Those of a benchmark are
            checked; of text for pretraining a run keeps what its shards are, and goes on over these and later ones.
        paper_cell: where the paper has this cell, e.g. "Table 3, SCAN (length cutoff=26)".
        paper_metric: what `paper_test` and `paper_validation` are: `accuracy` or `comp`, between 0 and 1, `bleu`,
            between 0 and 100, or `perplexity`.
        paper_test, paper_validation: the paper's number there; `null` where it has none.
        output_dir: where the run lives; `null` means runs/<recipe file's name>[,key=value ...]/seed<seed>, with the
            overrides that make it another cell than the file's.
        model_fields: fields of the model's config class; in the file they stand beside the other keys.
        name: the recipe file's name without its ending, with those overrides; not a key.
    """

    model: str
    benchmark: str
    config: str
    steps: int
    learning_rate: float
    epochs: int | None = None
    batch_size: int | None = None
    pretrained: str | None = None
    size_class: str | None = None
    tokens: Literal["words", "characters", "bpe", "sentencepiece"] = "words"
    subwords: int | None = None
    tokenizer: str | None = None
    context_length: int = 1024
    streams: int = 1
    validation_examples: int = 1000
    source_start: bool | None = None
    joint_vocabulary: bool = False
    role_scheme: str | None = None
    seed: int = 0
    length_groups: int = 1
    static_batches: bool = False
    sampling: Literal["with_replacement", "epochs", "max_tokens"] = "with_replacement"
    max_tokens: int | None = None
    batches_per_update: int = 1
    resample: int | None = None
    train_eos: bool = True
    schedule: Literal["constant", "noam", "inverse_sqrt", "linear"] = "constant"
    warmup_steps: int = 0
    warmup_init_lr: float = 0.0
    optimizer: Literal["adam", "nesterov"] = "adam"
    momentum: float = 0.0
    adam_beta1: float = 0.9
    adam_beta2: float = 0.999
    adam_epsilon: float = 1e-8
    weight_decay: float = 0.0
    max_grad_norm: float = 0.0
    label_smoothing: float = 0.0
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    attention: Literal["auto", "sdpa", "eager"] = "auto"
    torch_compile: bool = False
    gradient_checkpointing: bool = False
    eval_every: int = 1000
    eval_examples: int | None = None
    eval_batch_size: int = 256
    sample_losses: bool = False
    beams: int = 1
    length_penalty: float = 1.0
    early_stopping: Literal["none", "loss", "accuracy", "bleu"] = "none"
    early_stopping_patience: int = 5
    save_every: int = 1000
    kept_steps: tuple[int, ...] = ()
    log_every: int = 50
    tracker: Literal["tensorboard", "trackio", "none"] = "tensorboard"
    data_dir: str | None = None
    paper_cell: str | None = None
    paper_metric: Literal["accuracy", "bleu", "comp", "perplexity"] = "accuracy"
    paper_test: float | None = None
    paper_validation: float | None = None
    output_dir: str | None = None
    model_fields: Mapping[str, Any] = field(default_factory=dict)
    name: str = "recipe"

    NEUTRAL: ClassVar = NEUTRAL
    # in pretraining, whose examples are of one length, these change how an update is computed, to rounding
    SAME_UPDATES: ClassVar = ("length_groups", "gradient_checkpointing", "torch_compile")
    SAME_CELL: ClassVar = SAME_CELL

    @property
    def run_dir(self) -> Path:
        return Path(self.output_dir) if self.output_dir else Path("runs") / self.name / f"seed{self.seed}"

    def to_dict(self) -> dict[str, Any]:
        """All keys as they would stand in a file, defaults included."""
        keys = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)} | {"kept_steps": list(self.kept_steps)}
        keys.pop("name")
        return keys | dict(keys.pop("model_fields"))

    @property
    def filled(self) -> dict[str, Any]:
        """`to_dict` with the fields of the model's config that are left out, where their defaults hold."""
        from hf_sysgen.models import CONFIGS

        # a checkpoint to go on from decides what is left out
        defaults = _field_defaults(CONFIGS[self.model]) if self.pretrained is None else {}
        return defaults | self.to_dict()

    @property
    def hash(self) -> str:
        """
        16 hex digits over all keys but those that only place the run. Recipes of one hash compute the same; of two that
        do, one may leave out a field of the model's config to which the other gives its default.
        """
        content = {key: value for key, value in self.to_dict().items() if key not in self.NEUTRAL}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


RECIPE_KEYS = tuple(f.name for f in dataclasses.fields(Recipe) if f.name not in ("model_fields", "name"))
# keys of `sampling: max_tokens` alone, with what they are elsewhere
MAX_TOKENS_KEYS = {"max_tokens": None, "batches_per_update": 1, "resample": None}
# kinds of `tokens` that are learned
SUBWORDS = ("bpe", "sentencepiece")
PAPER_KEYS = ("paper_cell", "paper_test", "paper_validation")
_TYPES = {name: hint for name, hint in get_type_hints(Recipe).items() if name in RECIPE_KEYS}
_POSITIVE = ("steps", "batch_size", "length_groups", "learning_rate", "eval_batch_size", "save_every", "log_every",
             "early_stopping_patience", "adam_epsilon", "max_tokens", "batches_per_update", "resample",
             "subwords", "epochs", "beams", "streams", "validation_examples")  # fmt: skip
# keys that only some values of another key make use of, with that one and the values under which they do nothing
_NO_EFFECT = {
    "warmup_steps": ("schedule", ("constant",)),
    "warmup_init_lr": ("schedule", ("constant", "noam", "linear")),
    "momentum": ("optimizer", ("adam",)),
    "adam_beta1": ("optimizer", ("nesterov",)),
    "adam_beta2": ("optimizer", ("nesterov",)),
    "adam_epsilon": ("optimizer", ("nesterov",)),
    "early_stopping_patience": ("early_stopping", ("none",)),
}
_NOT_NEGATIVE = ("seed", "warmup_steps", "warmup_init_lr", "weight_decay", "max_grad_norm", "eval_every")
# where pyproject.toml has recipes put, below a place that the kind of installation decides
INSTALLED = "share/hf-sysgen/recipes"


def shipped_recipes() -> Path:
    """The folder of this package's recipes: that of the checkout, or where an installation puts them."""
    checkout = Path(__file__).resolve().parents[3] / "recipes"
    usual = Path(sysconfig.get_path("data")) / INSTALLED
    return next((folder for folder in (checkout, *_recorded_recipes(), usual) if folder.is_dir()), usual)


def _recorded_recipes() -> Iterator[Path]:
    """Where the installation of this package says that its recipes are, e.g. with `pip install --user`."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        package = importlib.metadata.distribution("hf-sysgen")
        for file in package.files or ():
            before, folder, _ = file.as_posix().partition(f"{INSTALLED}/")
            if folder:
                yield Path(str(package.locate_file(before + folder))).resolve()
                break
    # `pip install --target` puts them beside the package, and writes down another place
    yield Path(__file__).resolve().parents[2] / INSTALLED


def load_recipe(path: str | Path, overrides: Iterable[str] = ()) -> Recipe:
    """
    Read and check a recipe file.

    Args:
        path: the YAML file, or the path of one of `shipped_recipes`, with or without the leading "recipes/".
        overrides: `key=value` texts, value in YAML, that replace keys of the file. One that changes what is trained
            makes another cell of it: it joins the run's name, and the file's paper_cell, paper_test and
            paper_validation no longer hold, unless they are given too.

    Raises:
        RecipeError: the file is absent or not a flat YAML mapping; a key is unknown, missing or of the wrong type;
            values contradict each other. One line, naming the key and what would be right.
    """
    path = find_shipped(path)
    return override_recipe(path, read_mapping(path, "recipe"), parse_overrides(overrides))


def override_recipe(path: Path, keys: Mapping[str, Any], given: Mapping[str, Any]) -> Recipe:
    """The recipe of a file's keys and of those that replace them. Errors and name as of `load_recipe`."""
    try:
        recipe = parse_recipe({**keys, **given}, name=path.stem)
        original = recipe
        if given:
            # an override may also mend the file, which alone would be refused
            with contextlib.suppress(RecipeError):
                original = parse_recipe(keys, name=path.stem)
    except RecipeError as error:
        raise RecipeError(f"{path}: {error}") from error
    ours, theirs = recipe.filled, original.filled
    # sorted, as in sweeps: the same cell is one run, in whatever order it is given
    changes = [
        f"{key}={ours[key]}" for key in sorted(given) if key not in Recipe.SAME_CELL and ours[key] != theirs.get(key)
    ]
    if not changes:
        return recipe
    paper: dict[str, Any] = {key: getattr(recipe, key) if key in given else None for key in PAPER_KEYS}
    return dataclasses.replace(recipe, **paper, name=file_name(",".join([path.stem, *changes])))


def read_copy(path: Path) -> Recipe:
    """
    The recipe that a run's folder keeps. Keys without effect are left out: it may have been written when they were not
    refused yet. Raises RecipeError: see `load_recipe`.
    """
    keys = read_mapping(path, "recipe")
    idle = {*_idle(lambda name: keys.get(name, getattr(Recipe, name)))}
    if not (keys.get("eval_every", Recipe.eval_every) or keys.get("kept_steps")):
        idle.add("sample_losses")
    from hf_sysgen.models import CONFIGS

    if keys.get("model") in CONFIGS:
        idle |= {*_idle_fields(CONFIGS[keys["model"]], keys, keys.get("pretrained") is not None)}
    return override_recipe(path, {key: value for key, value in keys.items() if key not in idle}, {})


def find_shipped(path: str | Path) -> Path:
    """The path, or where it is not there that of `shipped_recipes`, with or without the leading "recipes/"."""
    path = Path(path)
    if not path.is_absolute() and not path.exists():
        shipped = shipped_recipes() / path.relative_to("recipes" if path.parts[:1] == ("recipes",) else "")
        path = shipped if shipped.is_file() else path
    return path


def recipe_setups() -> dict[str, dict[str, Any]]:
    """
    The shipped recipes by their file's name without its ending: the keys that decide which cell of a paper a run makes,
    as the files have them (see `Recipe.SAME_CELL`), and the defaults of those they leave out. The model's fields that
    they leave out are not among them.

    Raises:
        RecipeError: a file is no flat YAML mapping, or there is none, without which no verdict holds.
    """
    folder = shipped_recipes()
    paths = [path for path in sorted(folder.glob("*/*.yaml")) if path.parent.name != "accelerate"]
    if not paths:
        raise RecipeError(f"{folder}: the package's recipes are not there; install hf-sysgen again, by pip")
    fields = [f for f in dataclasses.fields(Recipe) if f.name in RECIPE_KEYS]
    defaults = {f.name: f.default for f in fields if f.default is not dataclasses.MISSING}
    return {
        path.stem: {
            key: value
            for key, value in {**defaults, **read_mapping(path, "recipe")}.items()
            if key not in Recipe.SAME_CELL
        }
        for path in paths
    }


def read_mapping(path: Path, what: str) -> dict[Any, Any]:
    """
    The keys of a YAML file.

    Raises:
        RecipeError: the file cannot be read, or is not a YAML mapping whose keys are words and stand once.
    """
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path}: cannot read the {what}: {error}") from error
    try:
        keys = _read_yaml(text)
    except (yaml.YAMLError, ValueError) as error:
        where = getattr(error, "problem_mark", None)
        line = f" in line {where.line + 1}" if where else ""
        problem = " ".join(str(getattr(error, "problem", error)).split())
        raise RecipeError(f"{path}: not YAML{line}: {problem}") from error
    if not isinstance(keys, dict):
        raise RecipeError(f"{path}: a {what} is a list of `key: value` lines, this is {_kind(keys)}")
    return keys


def parse_overrides(overrides: Iterable[str]) -> dict[str, Any]:
    """Keys and values of `key=value` texts, the values in YAML. Raises RecipeError where one is none."""
    import yaml

    given: dict[str, Any] = {}
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals or not key:
            raise RecipeError(f"{override!r}: an override is key=value")
        try:
            given[key] = _read_yaml(value)
        except (yaml.YAMLError, ValueError) as error:
            raise RecipeError(f"{override!r}: the value is not YAML") from error
    return given


def write_override(key: str, value: Any) -> str:
    """The `key=value` that `parse_overrides` reads as this key and value."""
    if isinstance(value, str) and parse_overrides([f"x={value}"])["x"] == value:
        return f"{key}={value}"
    return f"{key}={json.dumps(value)}"


def parse_recipe(keys: Mapping[str, Any], name: str = "recipe") -> Recipe:
    """A recipe from its keys, checked against the one schema and the model's config class. Errors as `load_recipe`."""
    from hf_sysgen.models import CONFIGS

    for key in keys:
        if not isinstance(key, str):
            raise RecipeError(f"{key!r}: keys are words")
    if "model" not in keys:
        raise RecipeError("`model` is missing")
    if not isinstance(keys["model"], str):
        raise RecipeError(f"model: expected a name, got {_kind(keys['model'])}")
    if keys["model"] not in CONFIGS:
        closest = difflib.get_close_matches(keys["model"], CONFIGS, n=1, cutoff=0.0)[0]
        raise RecipeError(
            f"model: unknown model {keys['model']!r}, did you mean {closest!r}? Valid: {', '.join(CONFIGS)}, and those "
            f"in the folder that {EXTENSIONS_VARIABLE} names"
        )
    model_config = CONFIGS[keys["model"]]
    known = [*RECIPE_KEYS, *sorted(own_fields(model_config))]
    for key in keys:
        if key in DERIVED_FIELDS:
            raise RecipeError(f"{key}: is derived from {DERIVED_FIELDS[key]}, remove it")
        if key not in known:
            closest = difflib.get_close_matches(key, known, n=1, cutoff=0.0)[0]
            raise RecipeError(f"unknown key {key!r}, did you mean {closest!r}?")
    values = {key: _checked(key, keys[key], _TYPES[key]) for key in RECIPE_KEYS if key in keys}
    required = [f.name for f in dataclasses.fields(Recipe) if f.default is f.default_factory is dataclasses.MISSING]
    for key in required:
        if key not in values:
            raise RecipeError(f"`{key}` is missing")
    for key in _POSITIVE:
        if values.get(key) is not None and not values[key] > 0:
            raise RecipeError(f"{key}={values[key]} must be greater than 0")
    for key in _NOT_NEGATIVE:
        if key in values and values[key] < 0:
            raise RecipeError(f"{key}={values[key]} must not be negative")
    model_fields = {key: value for key, value in keys.items() if key not in RECIPE_KEYS}
    if model_fields.get("share_all_embeddings") is True and not values.get("joint_vocabulary"):
        raise RecipeError("share_all_embeddings=true needs joint_vocabulary=true")
    # what the data decides is not known yet, but whether both sides are alike
    joint = values.get("joint_vocabulary") and "source_vocab_size" in _field_names(model_config)
    sizes = {"vocab_size": 7, "source_vocab_size": 7} if joint else {}
    model_fields = _checked_model_fields(model_config, model_fields, sizes, values.get("pretrained") is not None)
    if values.get("size_class") is not None:
        model_fields = _with_size_class(values["size_class"], keys["model"], model_config, model_fields)
    recipe = Recipe(**values, model_fields=model_fields, name=name)
    _check_consistency(recipe)
    _check_roles(recipe, model_config)
    if recipe.pretrained is not None:
        _check_pretrained(recipe)
    return recipe


def own_fields(model_config: type) -> set[str]:
    """Fields of a model's config class that a recipe may give: those of its own that the data does not decide."""
    from transformers import PreTrainedConfig

    own = _field_names(model_config) - _field_names(PreTrainedConfig)
    return own - set(DERIVED_FIELDS) - set(RECIPE_KEYS)


def _field_names(config_class: type) -> set[str]:
    return {f.name for f in dataclasses.fields(config_class)}


def _field_defaults(model_config: type) -> dict[str, Any]:
    own = own_fields(model_config)
    return {
        f.name: f.default if f.default_factory is dataclasses.MISSING else f.default_factory()
        for f in dataclasses.fields(model_config)
        if f.name in own
    }


def _idle_fields(model_config: Any, fields: Mapping[str, Any], pretrained: bool) -> dict[str, str]:
    """Those of the fields that have no effect, each with the one whose value makes it so, if that is known yet."""
    return {
        key: other
        for key, (other, values) in getattr(model_config, "no_effect", {}).items()
        # what a checkpoint decides is not known
        if key in fields and (other in fields or not pretrained)
        and fields.get(other, getattr(model_config, other)) in values
    }  # fmt: skip


def _checked_model_fields(
    model_config: Any, fields: dict[str, Any], sizes: Mapping[str, int], pretrained: bool
) -> dict[str, Any]:
    from huggingface_hub.errors import StrictDataclassError

    try:
        model_config(**fields, **sizes)
    except StrictDataclassError as error:
        # the cause names the field, or both values of a contradiction
        raise RecipeError(" ".join(str(error.__cause__ or error).split())) from error
    for key, other in _idle_fields(model_config, fields, pretrained).items():
        if fields[key] != getattr(model_config, key):
            value = fields.get(other, getattr(model_config, other))
            raise RecipeError(f"{key}={fields[key]} has no effect under {other}={value}; remove it")
    return fields


def _with_size_class(name: str, model: str, model_config: Any, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields and the sizes that the class decides."""
    sizes = ("num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads")
    if not hasattr(model_config, "from_size_class"):
        raise RecipeError(f"size_class={name} has no effect on model={model}, which has no such classes; remove it")
    others = {key: value for key, value in fields.items() if key not in sizes}
    try:
        config = model_config.from_size_class(name, fields.get("num_hidden_layers"), **others)
    except ValueError as error:
        raise RecipeError(f"size_class={name}: {error}") from error
    for key in sizes:
        if key in fields and fields[key] != getattr(config, key):
            raise RecipeError(
                f"{key}={fields[key]} contradicts size_class={name} num_hidden_layers={config.num_hidden_layers}, "
                f"where it is {getattr(config, key)}; remove one"
            )
    return others | {key: getattr(config, key) for key in sizes}


def _idle(value: Callable[[str], Any]) -> dict[str, str]:
    """Keys without effect, each with the one whose value makes it so."""
    return {key: other for key, (other, values) in _NO_EFFECT.items() if value(other) in values}


def _check_consistency(recipe: Recipe) -> None:
    if recipe.sampling == "max_tokens":
        _check_max_tokens(recipe)
    elif recipe.batch_size is None:
        raise RecipeError("`batch_size` is missing")
    elif given := [key for key, default in MAX_TOKENS_KEYS.items() if getattr(recipe, key) != default]:
        raise RecipeError(f"{given[0]}={getattr(recipe, given[0])} has no effect under sampling={recipe.sampling}")
    elif recipe.length_groups > recipe.batch_size:
        raise RecipeError(f"length_groups={recipe.length_groups} is more than batch_size={recipe.batch_size}")
    for key, other in _idle(lambda name: getattr(recipe, name)).items():
        if getattr(recipe, key) != getattr(Recipe, key):
            raise RecipeError(f"{key}={getattr(recipe, key)} has no effect under {other}={getattr(recipe, other)}")
    if recipe.schedule != "constant" and not recipe.warmup_steps:
        raise RecipeError(f"schedule={recipe.schedule} needs warmup_steps")
    if recipe.schedule == "linear" and recipe.warmup_steps >= recipe.steps:
        raise RecipeError(f"warmup_steps={recipe.warmup_steps} must be less than steps={recipe.steps}")
    if not 0 <= recipe.label_smoothing < 1:
        raise RecipeError(f"label_smoothing={recipe.label_smoothing} must be in [0, 1)")
    _check_optimizer(recipe)
    for key in ("adam_beta1", "adam_beta2", "momentum"):
        if not 0 <= getattr(recipe, key) < 1:
            raise RecipeError(f"{key}={getattr(recipe, key)} must be in [0, 1)")
    if recipe.static_batches:
        wanted = {
            "gradient_checkpointing": False,
            "length_groups": 1,
            "sampling": "with_replacement",
            "label_smoothing": 0.0,
            "optimizer": "adam",
        }
        for key, value in wanted.items():
            if getattr(recipe, key) != value:
                raise RecipeError(f"{key}={getattr(recipe, key)} does not go with static_batches=true, use {value}")
        if recipe.precision == "fp16":
            raise RecipeError("precision=fp16 does not go with static_batches=true, use bf16 or fp32")
    if recipe.context_length < 2:
        raise RecipeError(f"context_length={recipe.context_length} must be at least 2: a token is learned from another")
    kept = [0, *recipe.kept_steps, recipe.steps + 1]
    if sorted(set(kept)) != kept:
        raise RecipeError(f"kept_steps={kept[1:-1]} must be increasing numbers from 1 to steps={recipe.steps}")
    for key in ("seed", "steps"):
        if getattr(recipe, key) >= 2**32:
            raise RecipeError(f"{key}={getattr(recipe, key)} must be less than 2^32")
    highest = {"bleu": 100, "perplexity": sys.float_info.max}.get(recipe.paper_metric, 1)
    for key in ("paper_test", "paper_validation"):
        if (number := getattr(recipe, key)) is not None and not 0 <= number <= highest:
            raise RecipeError(f"{key}={number} must be in [0, {highest}]")
    if recipe.epochs is not None and (recipe.sampling == "with_replacement" or recipe.schedule == "linear"):
        key = "schedule" if recipe.schedule == "linear" else "sampling"
        raise RecipeError(f"epochs={recipe.epochs} does not go with {key}={getattr(recipe, key)}; use steps alone")
    _check_subwords(recipe)
    if recipe.eval_examples is not None and recipe.eval_examples < 1:
        raise RecipeError(f"eval_examples={recipe.eval_examples} must be at least 1, or null for all")
    if recipe.early_stopping != "none" and not recipe.eval_every:
        raise RecipeError("early_stopping needs evaluations: set eval_every")
    if recipe.sample_losses and not (recipe.eval_every or recipe.kept_steps):
        raise RecipeError("sample_losses=true needs evaluations: set eval_every")


def _check_subwords(recipe: Recipe) -> None:
    if (recipe.tokens in SUBWORDS) != (recipe.subwords is not None):
        wrong = "needs subwords" if recipe.subwords is None else f"does not go with subwords={recipe.subwords}"
        raise RecipeError(f"tokens={recipe.tokens} {wrong}; of bpe how many merges, of sentencepiece how many pieces")
    if recipe.tokens == "sentencepiece" and not recipe.joint_vocabulary:
        raise RecipeError("tokens=sentencepiece is learned for both sides: set joint_vocabulary=true")
    if recipe.beams == 1 and recipe.length_penalty != 1:
        raise RecipeError(f"length_penalty={recipe.length_penalty} has no effect with beams=1")


def _check_optimizer(recipe: Recipe) -> None:
    if recipe.optimizer == "nesterov":
        if not recipe.momentum:
            raise RecipeError("optimizer=nesterov needs momentum")
        if recipe.weight_decay or recipe.schedule != "constant":
            key = "weight_decay" if recipe.weight_decay else "schedule"
            raise RecipeError(f"{key}={getattr(recipe, key)} does not go with optimizer=nesterov")


def _check_pretrained(recipe: Recipe) -> None:
    from transformers import AutoModelForCausalLM

    from hf_sysgen.models import MODELS

    able = [config.model_type for config, classes in MODELS.items() if AutoModelForCausalLM in classes]
    if recipe.model not in able:
        raise RecipeError(f"pretrained is for decoders ({', '.join(able)}), model={recipe.model} is none; remove it")
    if recipe.tokens != "words":
        raise RecipeError(f"tokens={recipe.tokens} has no effect beside pretrained, whose tokenizer decides; remove it")


def _check_roles(recipe: Recipe, model_config: type) -> None:
    reads_roles = hasattr(model_config, "role_map")
    if reads_roles and recipe.label_smoothing and recipe.model_fields.get("role_loss", True):
        raise RecipeError(
            f"label_smoothing={recipe.label_smoothing} does not go with the loss of roles, use 0 or role_loss=false"
        )
    if recipe.role_scheme is None:
        return
    if not reads_roles:
        raise RecipeError(
            f"role_scheme={recipe.role_scheme} has no effect on model={recipe.model}, which reads no roles; remove it"
        )
    if recipe.joint_vocabulary:
        raise RecipeError("joint_vocabulary=true does not go with role_scheme, which knows source and target apart")
    if recipe.tokens != "words":
        raise RecipeError(f"tokens={recipe.tokens} does not go with role_scheme, which is of words")


def _check_max_tokens(recipe: Recipe) -> None:
    if recipe.max_tokens is None:
        raise RecipeError("sampling=max_tokens needs max_tokens")
    if recipe.batch_size is not None:
        raise RecipeError(
            f"batch_size={recipe.batch_size} has no effect under sampling=max_tokens, remove it; batches_per_update "
            "says how many batches make an update"
        )
    if recipe.length_groups != 1:
        raise RecipeError(
            f"length_groups={recipe.length_groups} does not go with sampling=max_tokens, whose batches are of examples "
            "of similar length already; use 1"
        )


def _checked(key: str, value: Any, expected: Any) -> Any:
    """The value if it is of the expected type; whole numbers pass where any number may stand."""
    if get_origin(expected) in (Union, types.UnionType):
        options = get_args(expected)
        if value is None and type(None) in options:
            return None
        return _checked(key, value, next(option for option in options if option is not type(None)))
    if get_origin(expected) is tuple:
        if not isinstance(value, list | tuple) or any(type(item) is not int for item in value):
            raise RecipeError(f"{key}: expected a list of whole numbers, got {value!r}")
        return tuple(value)
    if get_origin(expected) is Literal:
        choices = get_args(expected)
        if isinstance(value, str) and value in choices:
            return value
        # YAML reads the bare word `no` as false, but none of our choices is a truth value
        close = difflib.get_close_matches(str(value), choices, n=1, cutoff=0.0)[0]
        raise RecipeError(f"{key}={value!r} is none of {', '.join(choices)}; did you mean {close!r}?")
    if expected is float and type(value) in (int, float) and abs(value) <= sys.float_info.max:
        return float(value)
    if expected in (int, bool, str) and type(value) is expected:
        return value
    names = {int: "a whole number", float: "a finite number", bool: "true or false", str: "text"}
    raise RecipeError(f"{key}: expected {names[expected]}, got {_kind(value)}")


def _kind(value: Any) -> str:
    names = {dict: "a mapping", list: "a list", type(None): "nothing"}
    return names.get(type(value), repr(value))


# what add_implicit_resolver takes: numbers such as 1e-3, which PyYAML reads as text
_EXPONENTS = (
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)  # fmt: skip


def _loader() -> type:
    """PyYAML's safe loader, except that it reads 1e-3 as a number and refuses a key that stands twice."""
    import yaml

    class Loader(yaml.SafeLoader):
        pass

    def mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict:
        seen = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "keys are words", key_node.start_mark)
            if key_node.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key_node.value!r} stands twice", key_node.start_mark
                )
            seen.add(key_node.value)
        return loader.construct_mapping(node, deep=True)

    Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    # copies, because resolvers live on the class; a recipe has no dates
    Loader.yaml_implicit_resolvers = {
        key: [(tag, pattern) for tag, pattern in value if tag != "tag:yaml.org,2002:timestamp"]
        for key, value in Loader.yaml_implicit_resolvers.items()
    }
    Loader.add_implicit_resolver(*_EXPONENTS)
    return Loader


def _read_yaml(text: str) -> Any:
    """Raises yaml.YAMLError or ValueError."""
    import yaml

    try:
        return yaml.load(text, Loader=_loader())
    except (AttributeError, LookupError) as error:
        # PyYAML's own, of e.g. `!!timestamp a` and `!!bool a`
        raise ValueError("a tag does not fit its value") from error


def dump_recipe(recipe: Recipe) -> str:
    """The recipe as YAML, every key with its value: what a run directory keeps."""
    import yaml

    class Dumper(yaml.SafeDumper):
        pass

    # or a text that our loader reads as a number would stand without quotes
    Dumper.add_implicit_resolver(*_EXPONENTS)
    return yaml.dump(recipe.to_dict(), Dumper=Dumper, sort_keys=False)
