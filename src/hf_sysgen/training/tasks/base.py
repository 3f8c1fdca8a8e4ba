"""What a run trains on and how it is judged: one class for each kind of task."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    GenerationConfig,
    PreTrainedModel,
    set_seed,
)

from hf_sysgen.config.errors import RecipeError
from hf_sysgen.config.recipe import Recipe
from hf_sysgen.config.sections import MaxTokens
from hf_sysgen.data import benchmark_info, load_benchmark
from hf_sysgen.data.text.splits import TokenizedSplit
from hf_sysgen.data.text.vocabulary import Vocabulary, build_vocabulary, encode_sources, encode_targets
from hf_sysgen.evaluation.evaluate import evaluate_split, with_texts
from hf_sysgen.evaluation.metrics.summary import summarize
from hf_sysgen.model_types import config_class_of, is_other
from hf_sysgen.models import CONFIGS, MODELS, RoleFillerTransformerConfig
from hf_sysgen.training.batches import Batches, MaxTokensBatches, Split, StepBatches

if TYPE_CHECKING:
    from datasets import DatasetDict

# the benchmark's task, what a model needs for it, and the class of the task. A model needs that Auto class, that config
# class, or a class whose name ends so
TASKS = (
    ("seq2seq", RoleFillerTransformerConfig, "hf_sysgen.training.tasks.roles:RoleFillerTask"),
    ("seq2seq", AutoModelForSeq2SeqLM, "hf_sysgen.training.tasks.base:Seq2SeqTask"),
    ("translation", AutoModelForSeq2SeqLM, "hf_sysgen.training.tasks.translation:TranslationTask"),
    ("seq2seq", AutoModelForCausalLM, "hf_sysgen.training.tasks.causal:CausalSeq2SeqTask"),
    (
        "relation_classification",
        "ForRelationClassification",
        "hf_sysgen.training.tasks.relations:RelationClassificationTask",
    ),
    ("graph_parsing", "ForGraphParsing", "hf_sysgen.training.tasks.graphs:GraphParsingTask"),
    ("dependency_parsing", "ForDependencyParsing", "hf_sysgen.training.tasks.graphs:DependencyParsingTask"),
    ("language_modeling", AutoModelForCausalLM, "hf_sysgen.training.tasks.pretraining:PretrainingTask"),
)

# models of transformers
OTHERS = "hf_sysgen.training.tasks.pretrained:PretrainedTask"
UNTRAINED = "hf_sysgen.training.tasks.in_context:InContextTask"


class Task(ABC):
    """
    A benchmark made ready for a kind of model.

    Args:
        recipe: what is run.
        benchmark: its examples by split.

    Attributes:
        splits: every split as the model reads it, by name.
        monitored: the metrics that evaluations during training report, of those that `summarize` makes.
        watched: the splits that are evaluated during training; None for all but `train`.
    """

    splits: Mapping[str, Split]
    monitored: tuple[str, ...] = ("accuracy", "loss")
    watched: tuple[str, ...] | None = None
    # (outputs, labels, num_items_in_batch) -> loss: a sum over the labels of a part of a batch, divided by the number
    # of labels that are not -100 in the whole of it; None where the model itself takes `num_items_in_batch`
    loss: Callable[..., torch.Tensor] | None = None

    def __init__(self, recipe: Recipe, benchmark: DatasetDict):
        self.recipe, self.benchmark = recipe, benchmark

    @abstractmethod
    def build_model(self, attention: str) -> PreTrainedModel:
        """The recipe's model in float32, freshly initialised from its seed, with that implementation of attention."""

    @abstractmethod
    def evaluate(
        self, model: PreTrainedModel, name: str, rows: np.ndarray, final: bool, rank: int, world: int
    ) -> list[dict[str, Any]]:
        """
        Judge the model on examples of a split.

        Args:
            final: whether training is over; more may be measured then than during it.
            rank, world: each process takes its share of the rows.

        Returns:
            a record for each example: `row`, `exact`, and what else `summarize` reads.
        """

    def final_rows(self, name: str) -> np.ndarray:
        """The examples of a split that are judged after training, (N,)."""
        return np.arange(0 if name == "train" else len(self.splits[name]))

    def summarize(self, records: Sequence[Mapping[str, Any]], name: str) -> dict[str, Any]:
        """The metrics of a split from its records."""
        return summarize(records)

    def batches(self, steps: int, rank: int, world: int) -> Batches:
        """The batches of one of `world` processes for that many updates. Errors as [`StepBatches`]."""
        batches, seed = self.recipe.batches, self.recipe.seed
        common: dict[str, Any] = {
            "split": self.splits["train"], "steps": steps, "seed": seed, "rank": rank, "world": world,
        }  # fmt: skip
        if isinstance(batches, MaxTokens):
            return MaxTokensBatches(
                **common,
                max_tokens=batches.max_tokens,
                batches_per_update=batches.per_update,
                resample=batches.resample,
            )
        return StepBatches(
            **common,
            batch_size=batches.size,
            sampling=batches.sampling,
            length_buckets=batches.length_buckets,
        )

    def readable(self, records: Sequence[Mapping[str, Any]], name: str) -> list[dict[str, Any]]:
        """The records as `predictions.jsonl` keeps them, with what a person or another metric needs."""
        return [dict(record) for record in records]

    def save(self, folder: Path) -> None:  # noqa: B027  some need nothing else
        """Put beside the weights what else a checkpoint needs, e.g. its tokenizer."""

    def model_config(self, **derived: Any) -> Any:
        """The model's config from the recipe's fields and those that the data decides."""
        return CONFIGS[self.recipe.model.type](**self.recipe.model.fields, **derived)

    def from_config(self, auto_class: Any, config: Any, attention: str) -> PreTrainedModel:
        """A model of that Auto class with the initial weights of the recipe's seed."""
        set_seed(self.recipe.seed)
        return auto_class.from_config(config, attn_implementation=attention)


class Seq2SeqTask(Task):
    """
    Texts to texts, decoded greedily. The vocabulary covers all splits. For a model with one table for both sides (Edge
    Transformer, T5) it is joint and has no start symbol, because such a model needs none.

    Attributes:
        vocabulary: the tokenizer, and which ids the model's two tables cover.
    """

    splits: Mapping[str, TokenizedSplit]
    split_class = TokenizedSplit
    monitored: tuple[str, ...] = ("accuracy", "loss", "loss_teacher")

    def __init__(self, recipe: Recipe, benchmark: DatasetDict):
        super().__init__(recipe, benchmark)
        self.has_source_table = hasattr(config_class_of(recipe.model.type), "source_vocab_size")
        if not self.has_source_table and not recipe.data.joint_vocabulary and recipe.model.type in CONFIGS:
            raise RecipeError(
                f"model.type={recipe.model.type} has one table for source and target: set data.joint_vocabulary=true",
                "data.joint_vocabulary",
            )
        columns = {name: (split["input"][:], split["target"][:]) for name, split in benchmark.items()}
        self.vocabulary = self.make_vocabulary(
            [text for sources, _ in columns.values() for text in sources],
            [text for _, targets in columns.values() for text in targets],
        )
        self.splits = {
            name: self.split_class(
                *self.encode(*texts), pad_id=self.vocabulary.tokenizer.pad_token_id, train_eos=recipe.data.train_eos
            )
            for name, texts in columns.items()
        }

    def make_vocabulary(self, sources: list[str], targets: list[str]) -> Vocabulary:
        return build_vocabulary(
            sources,
            targets,
            joint=self.recipe.data.joint_vocabulary,
            characters=self.recipe.data.tokenization == "characters",
            start=self.source_start,
        )

    @property
    def source_start(self) -> bool:
        """Whether a start symbol stands before each source."""
        if self.recipe.data.source_start is None:
            return self.has_source_table and getattr(CONFIGS[self.recipe.model.type], "source_starts", True)
        return self.recipe.data.source_start

    def encode(self, sources: list[str], targets: list[str]) -> tuple[list[list[int]], list[list[int]]]:
        """Ids of both sides of some examples."""
        tokenizer = self.vocabulary.tokenizer
        return encode_sources(tokenizer, sources), encode_targets(tokenizer, targets)

    @property
    def longest_target(self) -> int:
        """Of all splits: words and EOS."""
        return max(int(split.targets.lengths.max()) for split in self.splits.values())

    def build_model(self, attention: str) -> PreTrainedModel:
        eos = self.vocabulary.tokenizer.eos_token_id
        sides: dict[str, Any] = {}
        if self.has_source_table:
            sides["source_vocab_size"] = self.vocabulary.source_vocab_size
            sides["source_id_offset"] = self.vocabulary.source_id_offset
        if hasattr(CONFIGS[self.recipe.model.type], "input_form"):
            sides["input_form"] = "sequence"
        config = self.model_config(
            vocab_size=self.vocabulary.vocab_size,
            **sides,
            pad_token_id=eos,
            eos_token_id=eos,
            decoder_start_token_id=eos,
        )
        model = self.from_config(AutoModelForSeq2SeqLM, config, attention)
        model.generation_config = GenerationConfig(
            **self.search(eos), eos_token_id=eos, pad_token_id=eos, decoder_start_token_id=eos
        )
        return model

    def search(self, eos: int) -> dict[str, Any]:
        """The default search of `generate`."""
        return {"max_new_tokens": self.longest_target}

    def evaluate(
        self, model: Any, name: str, rows: np.ndarray, final: bool, rank: int, world: int
    ) -> list[dict[str, Any]]:
        size = self.recipe.evaluation.batch_size
        return evaluate_split(model, self.splits[name], rows, batch_size=size, oracle=final, rank=rank, world=world)

    def readable(self, records: Sequence[Mapping[str, Any]], name: str) -> list[dict[str, Any]]:
        return with_texts(records, self.benchmark[name], self.vocabulary.tokenizer)

    def save(self, folder: Path) -> None:
        self.vocabulary.tokenizer.save_pretrained(folder)


def has_needed(config_class: Any, needed: Any) -> bool:
    """Whether models of that config have what a row of `TASKS` says they need."""
    classes = MODELS[config_class]
    if isinstance(needed, str):
        return any(model.__name__.endswith(needed) for model in classes.values())
    return needed in (config_class, *classes)


def prepare_task(recipe: Recipe) -> Task:
    """
    The recipe's benchmark, as its model learns it.

    Raises:
        RecipeError: the model has no head for the benchmark's task, or the benchmark nothing to train on.
        DataError: see `load_benchmark`.
    """
    model, data = recipe.model.type, recipe.data
    wanted = benchmark_info(data.benchmark).task
    # `check_recipe` has found that it has a head for the task
    found = (
        (OTHERS if recipe.in_context is None else UNTRAINED)
        if is_other(model)
        else next((name for task, needed, name in TASKS if task == wanted and has_needed(CONFIGS[model], needed)), None)
    )
    if found is None:
        needs = [needed for task, needed, _ in TASKS if task == wanted]
        names = [config.model_type for config in MODELS if any(has_needed(config, needed) for needed in needs)]
        raise RecipeError(
            f"model.type={model} cannot be trained on data.benchmark={data.benchmark}, whose task is {wanted}; "
            f"models that can: {', '.join(names) or 'none yet'}",
            "model.type",
        )
    benchmark = load_benchmark(data.benchmark, data.config, data_dir=data.data_dir)
    if "train" not in benchmark:
        about = benchmark_info(data.benchmark).config(data.config).description
        raise RecipeError(
            f"data.config={data.config} of {data.benchmark} has no split `train` to train on. {about}", "data.config"
        )
    # a stream has no length
    if empty := [split for split, examples in benchmark.items() if hasattr(examples, "__len__") and not len(examples)]:
        raise RecipeError(
            f"data.config={data.config} of {data.benchmark}: no examples in {', '.join(empty)}", "data.config"
        )
    module, _, class_name = found.partition(":")
    return getattr(importlib.import_module(module), class_name)(recipe, benchmark)
