"""Language models on streamed text: Petty et al. 2023, section 2.2.1."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from transformers import AutoModelForCausalLM, GenerationConfig, PreTrainedModel

from hf_sysgen.config.errors import RecipeError
from hf_sysgen.config.recipe import Recipe
from hf_sysgen.config.sections import WithReplacement
from hf_sysgen.data.c4.files import Shard, known_shards
from hf_sysgen.data.c4.packing import PackedTokens, Place
from hf_sysgen.data.errors import DataError
from hf_sysgen.errors import RunFailed
from hf_sysgen.evaluation.language_modeling import Read, evaluate_text
from hf_sysgen.evaluation.metrics.summary import summarize_text
from hf_sysgen.results.predictions import ModelingRow
from hf_sysgen.results.record import SplitMetrics
from hf_sysgen.training.tasks.base import Task
from hf_sysgen.training.tasks.checkpoints import load_tokenizer, without_special_tokens

if TYPE_CHECKING:
    import datasets
    from transformers import PreTrainedTokenizerBase

# updates that are read and tokenized ahead of the one that is trained on
AHEAD = 4
# documents tokenized in one call; with more of them, a checkpoint holds more of each stream
DOCUMENTS = 16


class Update(NamedTuple):
    """One process's examples (b, L) of an update, and the position of each of its streams after them."""

    examples: torch.Tensor
    places: list[Place]


class StreamBatches:
    """
    Examples of streamed text, each once: the same ones in every update on any number of processes.

    The shards are dealt out to `streams`, each of which packs its own documents one after the other; every update takes
    the next `batch_size / streams` examples of each. A process reads every world-th stream and nothing else. Reading
    and tokenizing go on in a thread beside training. The last example of a stream is left out if it is shorter.

    Args:
        documents: rows with a `text`, in shards.
        tokenizer: see [`PackedTokens`].
        context_length, streams, batch_size: as in a recipe.
        steps: number of updates of the whole run.
        parts: batches of an update that this process works through, of equal size.
        rank, world: this process and how many there are.
        shards: what the shards of `documents` are, in order; none where that is not known.

    Raises:
        ValueError: streams, shards, batch and processes do not fit together.
        RunFailed: (while iterating) there is no more text.
        DataError: (while iterating) a shard cannot be read.
    """

    def __init__(
        self,
        documents: datasets.IterableDataset,
        tokenizer: PreTrainedTokenizerBase,
        context_length: int,
        streams: int,
        batch_size: int,
        steps: int,
        parts: int = 1,
        rank: int = 0,
        world: int = 1,
        shards: Sequence[Shard] = (),
    ):
        if streams > documents.num_shards:
            raise ValueError(f"data.streams={streams} is more than the {documents.num_shards} shards of the text")
        if streams % world:
            raise ValueError(f"data.streams={streams} is not a multiple of processes={world}, which share them")
        if batch_size % streams:
            raise ValueError(f"batches.size={batch_size} is not a multiple of data.streams={streams}")
        if batch_size % (parts * world):
            raise ValueError(
                f"batches.size={batch_size} is not a multiple of batches.length_buckets={parts} x processes={world}"
            )
        self.steps, self.parts, self.rank, self.first_step = steps, parts, rank, 0
        self.each = batch_size // streams
        self.numbers = range(rank, streams, world)
        self.shards = by_stream(shards, streams)
        self.packed = [
            PackedTokens(
                documents.shard(streams, number, contiguous=False),
                tokenizer,
                context_length,
                drop_last=True,
                batch_size=DOCUMENTS,
            )
            for number in self.numbers
        ]
        self._places: list[Place] = []

    def loader(self) -> StreamBatches:
        return self

    def __len__(self) -> int:
        return self.steps * self.parts

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        examples = [iter(packed) for packed in self.packed]
        with ThreadPoolExecutor(1) as pool:
            coming: deque[Future[Update]] = deque()
            for step in range(self.first_step, self.steps):
                while len(coming) <= AHEAD and step + len(coming) < self.steps:
                    coming.append(pool.submit(self._read, examples, step + len(coming)))
                update = coming.popleft().result()
                for part in update.examples.chunk(self.parts):
                    self._places = update.places
                    # the model shifts the labels
                    yield {"input_ids": part, "labels": part}

    def _read(self, examples: Sequence[Iterator[dict[str, torch.Tensor]]], step: int) -> Update:
        taken = []
        for number, stream in zip(self.numbers, examples, strict=True):
            found = [block["input_ids"] for block in islice(stream, self.each)]
            if len(found) < self.each:
                raise RunFailed(
                    f"the text of stream {number} ends before update {step + 1} of {self.steps}, and no example is "
                    f"shown twice; give more shards, or at most training.max_steps={step}"
                )
            taken += found
        return Update(torch.stack(taken), [packed.position for packed in self.packed])

    def save(self, folder: Path) -> None:
        """The positions of this process's streams, and their shards, as JSON."""
        places = {
            str(number): PackedTokens.plain(place) | {"shards": self.shards[str(number)]}
            for number, place in zip(self.numbers, self._places, strict=True)
        }
        (folder / f"streams_{self.rank}.json").write_text(json.dumps(places), encoding="utf-8")

    def load(self, folder: Path) -> None:
        """
        Continue from the positions that all processes saved, however many those were.

        Raises:
            RecipeError: the positions are in other text. New shards at the end of a stream are allowed.
        """
        places = saved_positions(folder)
        require_same_text(places, self.shards, folder.parent)
        for number, packed in zip(self.numbers, self.packed, strict=True):
            place = places[str(number)]
            packed.load_state_dict({"documents": place["documents"], "pending": place["pending"]})
        self._places = [packed.position for packed in self.packed]


def by_stream(shards: Sequence[Shard], streams: int) -> dict[str, Sequence[Shard]]:
    """The shards of each stream, by its number."""
    return {str(number): shards[number::streams] for number in range(streams)}


def saved_positions(checkpoint: Path) -> dict[str, Any]:
    """The position of each stream, by its number, as all processes saved them."""
    places: dict[str, Any] = {}
    for path in checkpoint.glob("streams_*.json"):
        places |= json.loads(path.read_text(encoding="utf-8"))
    return places


def require_same_text(places: Mapping[str, Any], shards: Mapping[str, Sequence[Shard]], run_dir: Path) -> None:
    """
    Check that each stream begins with the shards that it had, in whatever folder they are now.

    Raises:
        RecipeError: names the first one that differs.
    """
    # older checkpoints have no shards
    kept = {stream: [Shard(*one) for one in place.get("shards", ())] for stream, place in places.items()}
    # sorted in the order in which the shards were dealt out
    dealt = sorted((number, int(stream)) for stream, before in kept.items() for number in range(len(before)))
    for number, stream in dealt:
        before, now = kept[str(stream)][number], shards.get(str(stream), ())
        if not now or (number < len(now) and before.is_same(now[number])):
            continue
        here = now[number].name if number < len(now) else "none"
        raise RecipeError(
            f"data.data_dir: {run_dir} holds a run on other text (shard {number + 1} of stream {stream} is "
            f"{before.name} there, {'another file of that name' if here == before.name else here} here); give it "
            "the shards that it had, new ones behind them, or choose another output_dir",
            "data.data_dir",
        )


def text_shards(recipe: Recipe) -> list[Shard]:
    """
    The shards of the training text; none for a user's own benchmark, whose shards are not known. Errors as the loader.
    """
    return known_shards("train", recipe.data.data_dir) if recipe.data.benchmark == "c4" else []


def require_text_of_run(recipe: Recipe, checkpoint: Path) -> None:
    """
    Check that a recipe's text is that of a run's checkpoint, as far as both are known.

    Raises:
        RecipeError: see `require_same_text`.
    """
    try:
        shards = text_shards(recipe)
    except DataError:
        return
    require_same_text(saved_positions(checkpoint), by_stream(shards, recipe.data.streams), checkpoint.parent)


class PretrainingTask(Task):
    """
    A causal language model on the benchmark's text, from scratch. `train` is a stream; of `validation` the first
    examples are taken, and perplexity is over all their tokens but the first of each.

    Attributes:
        tokenizer: the recipe's; the model has a row for each of its ids.

    Raises:
        RecipeError: the tokenizer cannot be used; `validation` is too short.
    """

    splits: Any
    eval_metrics = ("loss", "perplexity", "accuracy")

    def __init__(self, recipe: Recipe, benchmark: Any):
        super().__init__(recipe, benchmark)
        # `check_recipe` requires this field
        self.tokenizer = without_special_tokens(load_tokenizer(str(recipe.data.tokenizer), _unusable_tokenizer))
        self.splits = {"train": benchmark["train"], "validation": self._first_examples(benchmark["validation"])}

    def _first_examples(self, documents: datasets.IterableDataset) -> torch.Tensor:
        """Token ids (N, L)."""
        wanted, length = self.recipe.data.validation_examples, self.recipe.data.context_length
        packed = PackedTokens(documents, self.tokenizer, length, drop_last=True)
        found = [block["input_ids"] for block in islice(packed, wanted)]
        if len(found) < wanted:
            raise RecipeError(
                f"data.validation_examples={wanted} is more than the {len(found)} of {length} tokens that "
                f"{self.recipe.data.benchmark} has for validation here",
                "data.validation_examples",
            )
        return torch.stack(found)

    @cached_property
    def shards(self) -> list[Shard]:
        return text_shards(self.recipe)

    def batches(self, steps: int, rank: int, world: int) -> StreamBatches:
        data, batches = self.recipe.data, self.recipe.batches
        assert isinstance(batches, WithReplacement)  # `check_recipe` ensures it
        return StreamBatches(
            self.splits["train"], self.tokenizer, data.context_length, data.streams, batches.size, steps,
            parts=batches.length_buckets, rank=rank, world=world, shards=self.shards,
        )  # fmt: skip

    def data_sha256(self) -> str:
        """Of the tokenizer and of what is read of `validation`; checkpoints know the text of `train` by its shards."""
        vocabulary = json.dumps(sorted(self.tokenizer.get_vocab().items()))
        return hashlib.sha256(vocabulary.encode() + self.splits["validation"].numpy().tobytes()).hexdigest()

    def build_model(self, attention: str) -> PreTrainedModel:
        tokenizer = self.tokenizer
        ids = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
        rows = max(tokenizer.get_vocab().values()) + 1
        model = self.from_config(AutoModelForCausalLM, self.model_config(vocab_size=rows, **ids), attention)
        model.generation_config = GenerationConfig(**ids)
        return model

    def evaluate(self, model: Any, name: str, rows: np.ndarray, final: bool, rank: int, world: int) -> list[Read]:
        return evaluate_text(model, self.splits[name], rows, self.recipe.evaluation.batch_size, rank, world)

    def summarize(self, records: Sequence[Any], name: str) -> SplitMetrics:
        return summarize_text(records)

    def to_rows(self, records: Sequence[Any], name: str) -> list[ModelingRow]:
        texts = self.tokenizer.batch_decode([self.splits[name][record.row] for record in records])
        return [
            ModelingRow(split=name, **record.numbers(), input=text) for record, text in zip(records, texts, strict=True)
        ]

    def save(self, folder: Path) -> None:
        self.tokenizer.save_pretrained(folder)


def _unusable_tokenizer(name: str, reason: str) -> RecipeError:
    return RecipeError(
        f"data.tokenizer={name}: {' '.join(reason.split())}; give a folder of `hf-sysgen data tokenizer`, or a hub id, "
        "e.g. google-t5/t5-base",
        "data.tokenizer",
    )
