"""What a run trains on and how it is judged: one class for each kind of task."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import PreTrainedModel, set_seed

from hf_sysgen.config.recipe import Recipe
from hf_sysgen.config.sections import MaxTokens
from hf_sysgen.data.text.splits import BatchedSplit
from hf_sysgen.evaluation.metrics.summary import summarize
from hf_sysgen.models import CONFIGS
from hf_sysgen.results.predictions import Judged, Row
from hf_sysgen.results.record import SplitMetrics
from hf_sysgen.training.batches import Batches, MaxTokensBatches, StepBatches

if TYPE_CHECKING:
    from datasets import DatasetDict

# examples of a split that are hashed at once
HASHED_ROWS = 256


class Task(ABC):
    """
    A benchmark prepared for one kind of model.

    Args:
        recipe: the recipe of the run.
        benchmark: its examples by split.

    Attributes:
        splits: every split as the model reads it, by name.
        eval_metrics: the metrics that evaluations during training report, of those that `summarize` makes.
        eval_splits: the splits that are evaluated during training; None for all but `train`.
    """

    splits: Mapping[str, BatchedSplit]
    eval_metrics: tuple[str, ...] = ("accuracy", "loss")
    eval_splits: tuple[str, ...] | None = None
    # of models that read either: "sequence" or "graph"
    input_form: str = "sequence"
    # (outputs, labels, num_items_in_batch) -> loss: the sum over the labels of a part of a batch, divided by
    # `num_items_in_batch`, the labels that are not -100 in the whole batch. None: the model itself divides by it
    loss: Callable[..., torch.Tensor] | None = None

    def __init__(self, recipe: Recipe, benchmark: DatasetDict):
        self.recipe, self.benchmark = recipe, benchmark

    @abstractmethod
    def build_model(self, attention: str) -> PreTrainedModel:
        """The recipe's model in float32, freshly initialized from its seed, with that implementation of attention."""

    @abstractmethod
    def evaluate(
        self, model: PreTrainedModel, name: str, rows: np.ndarray, final: bool, rank: int, world: int
    ) -> Sequence[Judged]:
        """
        Evaluate the model on examples of a split.

        Args:
            final: whether training is over; more may be measured then than during it.
            rank, world: each process takes its share of the rows.

        Returns:
            a record for each example, with what `summarize` and `to_rows` read.
        """

    def judged_rows(self, name: str) -> np.ndarray:
        """The examples of a split that are judged, (N,); during training, a sample of them."""
        return np.arange(0 if name == "train" else len(self.splits[name]))

    def data_sha256(self) -> str:
        """SHA-256 of all examples as the model reads them: it changes with each file that a recipe names."""
        digest = hashlib.sha256()
        for name, split in self.splits.items():
            for first in range(0, len(split), HASHED_ROWS):
                batch = split[np.arange(first, min(first + HASHED_ROWS, len(split)))]
                for key, tensor in sorted(batch.items()):
                    digest.update(f"{name} {key} {tuple(tensor.shape)}".encode())
                    digest.update(tensor.numpy().tobytes())
        return digest.hexdigest()

    def summarize(self, records: Sequence[Any], name: str) -> SplitMetrics:
        """The metrics of a split from its records or its rows."""
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

    @abstractmethod
    def to_rows(self, records: Sequence[Any], name: str) -> Sequence[Row]:
        """The records as written to `predictions.jsonl`, with the texts that a reader or another metric needs."""

    def save(self, folder: Path) -> None:  # noqa: B027  some need nothing else
        """Save what a checkpoint needs besides the weights, e.g. the tokenizer."""

    def model_config(self, **derived: Any) -> Any:
        """The model's config from the recipe's fields and those that the data decides."""
        config_class = CONFIGS[self.recipe.model.type]
        if hasattr(config_class, "input_form"):
            derived["input_form"] = self.input_form
        return config_class(**self.recipe.model.fields, **derived)

    def from_config(self, auto_class: Any, config: Any, attention: str) -> PreTrainedModel:
        """A model of that Auto class with the initial weights of the recipe's seed."""
        set_seed(self.recipe.seed)
        return auto_class.from_config(config, attn_implementation=attention)
