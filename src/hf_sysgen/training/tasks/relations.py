"""Tasks with labels of nodes, edges or whole graphs, predicted in one pass; relations of CLUTRR."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import AutoModelForSequenceClassification, PreTrainedModel

from hf_sysgen.config.recipe import Recipe
from hf_sysgen.data.clutrr.kinship import EDGE_TYPES, TARGETS
from hf_sysgen.data.text.splits import IGNORED, BatchedSplit, RaggedIds
from hf_sysgen.evaluation.evaluate import Columns, chunks, evaluating, keeping_random_state, share_by_length
from hf_sysgen.models.readout import cross_entropies
from hf_sysgen.results.predictions import Row, TextRow
from hf_sysgen.training.tasks.base import Task

if TYPE_CHECKING:
    import datasets


class GraphSplit(BatchedSplit):
    """
    Examples with `lengths` nodes each.

    Attributes:
        lengths: nodes of each example (N,).
    """

    lengths: np.ndarray

    def __len__(self) -> int:
        return len(self.lengths)

    def by_length(self, rows: np.ndarray) -> np.ndarray:
        return rows[np.argsort(self.lengths[rows], kind="stable")]

    def source_target_lengths(self) -> tuple[np.ndarray, np.ndarray]:
        return self.lengths, self.lengths


class GraphTask(Task):
    """
    A task whose labels are predicted at once: batches have them under `labels`, and the loss is a mean over them.

    Attributes:
        label_sets: how many labels each item has; the loss is the sum of their means.
    """

    splits: Mapping[str, GraphSplit]
    label_sets = 1

    @abstractmethod
    def label_losses(self, outputs: Any, labels: torch.Tensor) -> torch.Tensor:
        """The cross-entropy of every label in nats, 0 where it is -100; in the shape of `labels`."""

    @abstractmethod
    def score(
        self, outputs: Any, labels: torch.Tensor, name: str, rows: list[int], losses: list[float]
    ) -> Sequence[Row]:
        """The row of each of those examples, without its columns. Losses are in nats."""

    def loss(self, outputs: Any, labels: torch.Tensor, num_items_in_batch: torch.Tensor | int) -> torch.Tensor:
        return self.label_sets * self.label_losses(outputs, labels).sum() / num_items_in_batch

    @torch.inference_mode()
    def evaluate(self, model: Any, name: str, rows: np.ndarray, final: bool, rank: int, world: int) -> list[Row]:
        split, size = self.splits[name], self.recipe.evaluation.batch_size
        records: list[Row] = []
        # node states may be random: the same in each evaluation, and training goes on as without one
        with evaluating(model), keeping_random_state(model.device):
            torch.manual_seed(self.recipe.seed)
            for batch_rows in chunks(share_by_length(split, rows, rank, world), size):
                batch = {key: tensor.to(model.device) for key, tensor in split[batch_rows].items()}
                labels = batch.pop("labels")
                outputs = model(**batch)
                losses = self.label_losses(outputs, labels).reshape(len(batch_rows), -1).sum(1)
                counts = (labels != IGNORED).reshape(len(batch_rows), -1).sum(1)
                means = (self.label_sets * losses / counts).tolist()
                records += self.score(outputs, labels, name, batch_rows.tolist(), means)
        return records


class RelationSplit(GraphSplit):
    """
    Graphs with labelled edges, and the relation between two of their nodes.

    Nodes keep their numbers. Only the given edges exist: no reverse edges and no self-loops
    (clutrr/train.py:96-147 of Bergen et al. 2021).

    Args:
        examples: columns `edges`, `edge_types`, `query_edge`, `target`.
    """

    def __init__(self, examples: datasets.Dataset):
        edges, types = examples["edges"][:], examples["edge_types"][:]
        ids = {name: index + 1 for index, name in enumerate(EDGE_TYPES)}
        targets = {name: index for index, name in enumerate(TARGETS)}
        self.first, self.last = (RaggedIds([[edge[side] for edge in graph] for graph in edges]) for side in (0, 1))
        self.types = RaggedIds([[ids[name] for name in names] for names in types])
        self.query = np.array(examples["query_edge"][:], np.int64)
        self.targets = np.array([targets[name] for name in examples["target"][:]], np.int64)
        self.lengths = np.array([1 + max(node for edge in graph for node in edge) for graph in edges], np.int64)

    def batch(self, rows: np.ndarray) -> dict[str, torch.Tensor]:
        """`edge_ids` (B, n, n), 0 = no edge; `node_mask` (B, n); `query` (B, 2); `labels` (B,)."""
        lengths = torch.from_numpy(self.lengths[rows])
        size = int(lengths.max())
        edge_ids = torch.zeros(len(rows), size, size, dtype=torch.int64)
        (types, real), (first, _), (last, _) = (part.padded(rows, 0) for part in (self.types, self.first, self.last))
        example = torch.arange(len(rows))[:, None].expand_as(types)
        edge_ids[example[real], first[real], last[real]] = types[real]
        return {
            "edge_ids": edge_ids,
            "node_mask": (torch.arange(size) < lengths[:, None]).long(),
            "query": torch.from_numpy(self.query[rows]),
            "labels": torch.from_numpy(self.targets[rows]),
        }


class RelationClassificationTask(GraphTask):
    """The relation between two people, from the graph of a CLUTRR story. Label ids are those of `clutrr.kinship`."""

    input_form = "graph"

    def __init__(self, recipe: Recipe, benchmark: datasets.DatasetDict):
        super().__init__(recipe, benchmark)
        self.splits = {name: RelationSplit(split) for name, split in benchmark.items()}

    def build_model(self, attention: str) -> PreTrainedModel:
        derived: dict[str, Any] = {
            # rows: "no edge", the labels, and an unused one (train.py:224, model.py:200 of Bergen et al. 2021). Their
            # number decides the scale of the initial values
            "edge_vocab_size": len(EDGE_TYPES) + 2,
            "edge_labels": ["", *EDGE_TYPES],
            "id2label": dict(enumerate(TARGETS)),
            "label2id": {name: index for index, name in enumerate(TARGETS)},
        }
        return self.from_config(AutoModelForSequenceClassification, self.model_config(**derived), attention)

    def label_losses(self, outputs: Any, labels: torch.Tensor) -> torch.Tensor:
        return cross_entropies(outputs.logits, labels)

    def score(
        self, outputs: Any, labels: torch.Tensor, name: str, rows: list[int], losses: list[float]
    ) -> list[TextRow]:
        predicted = outputs.logits.argmax(-1)
        hits = (predicted == labels).tolist()
        return [
            TextRow(split=name, row=row, prediction=TARGETS[label], exact=exact, loss=loss)
            for row, label, exact, loss in zip(rows, predicted.tolist(), hits, losses, strict=True)
        ]

    def to_rows(self, records: Sequence[TextRow], name: str) -> list[TextRow]:
        """With the story, the right relation, and as `category` the number of relations to be composed."""
        examples = self.benchmark[name]
        composed = examples["k"][:]
        found = Columns(examples, ("input", "target")).added(records)
        return [row.model_copy(update={"category": f"k={composed[row.row]}"}) for row in found]
