"""Tasks whose labels are of the words of a sentence, or of pairs of them: COGS as graphs, CFQ as dependency trees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import AutoModelForTokenClassification, PreTrainedModel

from hf_sysgen.config.recipe import Recipe
from hf_sysgen.data.cogs.graph_forms import NO_PARENT
from hf_sysgen.data.text.splits import IGNORED, RaggedIds
from hf_sysgen.data.text.vocabulary import PAD, sentence_tokenizer
from hf_sysgen.evaluation.evaluate import Columns
from hf_sysgen.evaluation.metrics.parsing import correct_arcs, correct_heads, spanning_tree
from hf_sysgen.models.dependency_scores import arc_scores, head_losses
from hf_sysgen.models.readout import cross_entropies
from hf_sysgen.results.predictions import GraphRow, TreeRow
from hf_sysgen.training.tasks.relations import GraphSplit, GraphTask

if TYPE_CHECKING:
    import datasets

ROOT = "[ROOT]"
# a word's labels in COGS: what the model calls them, and the benchmark's column
COLUMNS = {
    "role": "roles",
    "category": "word_categories",
    "noun_type": "noun_types",
    "verb": "verb_names",
    "parent": "parents",
}
NAMED = tuple(COLUMNS)[:4]


class SentenceSplit(GraphSplit):
    """Sentences as token ids, padded with id 0."""

    def __init__(self, tokens: Sequence[Sequence[int]]):
        self.tokens = RaggedIds(tokens)
        self.lengths = self.tokens.lengths

    def sentences(self, rows: np.ndarray) -> dict[str, torch.Tensor]:
        """`input_ids` and `attention_mask` (B, N)."""
        input_ids, real = self.tokens.padded(rows, 0)
        return {"input_ids": input_ids, "attention_mask": real.long()}


class SentenceTask(GraphTask):
    """
    Sentences as the model reads them. Words have the ids of their first appearance, in the authors' order of splits.

    Args:
        root: a token put before each sentence.
    """

    ORDER = ("train", "test_iid", "validation", "test")

    def __init__(self, recipe: Recipe, benchmark: datasets.DatasetDict, root: str | None = None):
        super().__init__(recipe, benchmark)
        self.tokenizer = sentence_tokenizer(self.in_order("input"), root)
        self.tokens = {name: self.tokenizer(split["input"][:])["input_ids"] for name, split in benchmark.items()}

    def in_order(self, column: str) -> Iterable[Any]:
        """A column of all splits, example by example (load.py:7-46 of Bergen et al. 2021)."""
        names = sorted(self.benchmark, key=lambda name: self.ORDER.index(name) if name in self.ORDER else 9)
        return (value for name in names for value in self.benchmark[name][column][:])

    def build(self, attention: str, **derived: Any) -> PreTrainedModel:
        config = self.model_config(vocab_size=len(self.tokenizer), pad_token_id=self.tokenizer.pad_token_id, **derived)
        return self.from_config(AutoModelForTokenClassification, config, attention)

    def save(self, folder: Path) -> None:
        self.tokenizer.save_pretrained(folder)


class WordLabelSplit(SentenceSplit):
    """Sentences with several labels for each word: `labels` (B, N, sets)."""

    def __init__(self, tokens: Sequence[Sequence[int]], labels: Sequence[Sequence[Sequence[int]]]):
        super().__init__(tokens)
        self.sets = [RaggedIds(ids) for ids in labels]

    def batch(self, rows: np.ndarray) -> dict[str, torch.Tensor]:
        labels = [ids.padded(rows, IGNORED)[0] for ids in self.sets]
        return {**self.sentences(rows), "labels": torch.stack(labels, dim=-1)}


class GraphParsingTask(SentenceTask):
    """
    COGS as graphs: role, category, noun type and verb of each word, and its parent, which is itself where it has none
    (cogs/load.py of Bergen et al. 2021). A sentence is right if all of them are, for all its words.

    The label sets are in the order of `COLUMNS`. Names have the ids of their first appearance; 0 is kept for padding,
    as in the authors' code, and "nothing" is a label like any other.

    Attributes:
        names: label set -> its names by id.
    """

    label_sets = len(COLUMNS)
    splits: Mapping[str, WordLabelSplit]

    def __init__(self, recipe: Recipe, benchmark: datasets.DatasetDict):
        super().__init__(recipe, benchmark)
        self.names = {
            kind: [PAD, *dict.fromkeys(name for words in self.in_order(COLUMNS[kind]) for name in words)]
            for kind in NAMED
        }
        self.splits = {name: WordLabelSplit(self.tokens[name], self.ids(split)) for name, split in benchmark.items()}

    def ids(self, split: datasets.Dataset) -> list[list[list[int]]]:
        """The labels of every sentence, by label set."""
        found = []
        for kind in NAMED:
            ids = {name: index for index, name in enumerate(self.names[kind])}
            found.append([[ids[name] for name in words] for words in split[COLUMNS[kind]][:]])
        parents = split[COLUMNS["parent"]][:]
        found.append([[word if up == NO_PARENT else up for word, up in enumerate(words)] for words in parents])
        return found

    def build_model(self, attention: str) -> PreTrainedModel:
        sizes = {kind: len(names) for kind, names in self.names.items()}
        return self.build(
            attention,
            num_roles=sizes["role"],
            num_categories=sizes["category"],
            num_noun_types=sizes["noun_type"],
            num_verbs=sizes["verb"],
            label_names=self.names,
        )

    def label_losses(self, outputs: Any, labels: torch.Tensor) -> torch.Tensor:
        logits = (outputs[f"{kind}_logits"] for kind in COLUMNS)
        losses = [cross_entropies(scores, labels[..., index]) for index, scores in enumerate(logits)]
        return torch.stack(losses, dim=-1)

    def score(
        self, outputs: Any, labels: torch.Tensor, name: str, rows: list[int], losses: list[float]
    ) -> list[GraphRow]:
        """Beside `exact`, for each label set whether all words have the right one."""
        predicted = torch.stack([outputs[f"{kind}_logits"].argmax(-1) for kind in COLUMNS], dim=-1)
        right = ((predicted == labels) | (labels == IGNORED)).all(dim=1).tolist()
        lengths = self.splits[name].lengths[rows].tolist()
        records = []
        for row, loss, sets, words, length in zip(rows, losses, right, predicted.tolist(), lengths, strict=True):
            columns = dict(zip(COLUMNS, zip(*words[:length], strict=True), strict=True))
            prediction: dict[str, list] = {
                COLUMNS[kind]: [self.names[kind][label] for label in columns[kind]] for kind in NAMED
            }
            parents = enumerate(columns["parent"])
            prediction[COLUMNS["parent"]] = [NO_PARENT if up == word else up for word, up in parents]
            each = {f"{kind}_exact": hit for kind, hit in zip(COLUMNS, sets, strict=True)}
            judged = {"prediction": prediction, "exact": all(sets), "target_length": length, **each, "loss": loss}
            records.append(GraphRow(split=name, row=row, **judged))
        return records

    def to_rows(self, records: Sequence[GraphRow], name: str) -> list[GraphRow]:
        return Columns(self.benchmark[name], ("input", "target", "category", *COLUMNS.values())).added(records)


class TreeSplit(SentenceSplit):
    """
    Sentences, each after a root, with a label for every pair of dependent and head, 0 = none: `labels` (B, N, N).

    Args:
        arcs_alone: pairs without an arc are no labels, but -100.
    """

    def __init__(
        self,
        tokens: Sequence[Sequence[int]],
        heads: Sequence[Sequence[int]],
        labels: Sequence[Sequence[int]],
        arcs_alone: bool = False,
    ):
        super().__init__(tokens)
        self.heads, self.labels = RaggedIds(heads), RaggedIds(labels)
        self.arcs_alone = arcs_alone

    def batch(self, rows: np.ndarray) -> dict[str, torch.Tensor]:
        """The root has no head, so it has no labels."""
        batch = self.sentences(rows)
        real = batch["attention_mask"].bool()
        labels = torch.full((*real.shape, real.shape[1]), IGNORED if self.arcs_alone else 0)
        labels[~(real[:, :, None] & real[:, None])] = IGNORED
        labels[:, 0] = IGNORED
        (heads, words), (names, _) = self.heads.padded(rows, 0), self.labels.padded(rows, 0)
        example, word = words.nonzero(as_tuple=True)
        labels[example, word + 1, heads[words]] = names[words]
        return {**batch, "labels": labels}


class DependencyParsingTask(SentenceTask):
    """
    Dependency trees of CFQ's questions: the model labels pairs of words, and the labels make a tree as in Stanza, with
    one token below the root. `exact` counts content words alone, as Goodwin et al. 2022 do; the summary has `las` and
    `uas` over all tokens.

    Attributes:
        names: labels by id; 0 is "no arc".
        chooses_heads: the model learns the head and the label of each word, not the label of each pair of words.
    """

    eval_metrics = ("accuracy", "las", "uas", "loss")
    splits: Mapping[str, TreeSplit]

    def __init__(self, recipe: Recipe, benchmark: datasets.DatasetDict):
        super().__init__(recipe, benchmark, root=ROOT)
        self.names = ["", *sorted({name for words in self.in_order("labels") for name in words})]
        ids = {name: index for index, name in enumerate(self.names)}
        self.chooses_heads = getattr(self.model_config(), "objective", "pairs") == "heads"
        self.splits = {
            name: TreeSplit(
                self.tokens[name],
                split["heads"][:],
                [[ids[label] for label in words] for words in split["labels"][:]],
                self.chooses_heads,
            )
            for name, split in benchmark.items()
        }

    def build_model(self, attention: str) -> PreTrainedModel:
        label2id = {name: index for index, name in enumerate(self.names)}
        return self.build(attention, id2label=dict(enumerate(self.names)), label2id=label2id)

    def label_losses(self, outputs: Any, labels: torch.Tensor) -> torch.Tensor:
        losses = head_losses if self.chooses_heads else cross_entropies
        return losses(outputs.logits, labels)

    def score(
        self, outputs: Any, labels: torch.Tensor, name: str, rows: list[int], losses: list[float]
    ) -> list[TreeRow]:
        scores = arc_scores(outputs.logits.float()).cpu().numpy()
        best = (outputs.logits[..., 1:].argmax(-1) + 1).cpu().numpy()
        examples = self.benchmark[name][rows]
        records = []
        for index, (gold_heads, gold_labels, content) in enumerate(
            zip(*(examples[column] for column in ("heads", "labels", "content_word")), strict=True)
        ):
            size = len(gold_heads)
            heads = spanning_tree(scores[index, 1 : size + 1, : size + 1])
            names = [self.names[best[index, token + 1, head]] for token, head in enumerate(heads)]
            right = correct_arcs(heads, names, gold_heads, gold_labels)
            records.append(
                TreeRow(
                    split=name,
                    row=rows[index],
                    prediction=" ".join(f"{head}:{label}" for head, label in zip(heads, names, strict=True)),
                    exact=all(hit for hit, counts in zip(right, content, strict=True) if counts),
                    target_length=size,
                    tokens=size,
                    correct_heads=correct_heads(heads, gold_heads),
                    correct_arcs=sum(right),
                    loss=losses[index],
                )
            )
        return records

    def to_rows(self, records: Sequence[TreeRow], name: str) -> list[TreeRow]:
        return Columns(self.benchmark[name], ("input", "target")).added(records)
