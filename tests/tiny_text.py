"""A small text in the layout of C4, and a tokenizer of it."""

from __future__ import annotations

import functools
import random
from pathlib import Path
from typing import Any

import datasets

from hf_sysgen.data.c4.files import write_shards
from hf_sysgen.data.text.byte_pairs import train_byte_pairs

SHARDS = 7
# neither examples nor documents divide anything
PRETRAINING: dict[str, Any] = {
    "model": "depth_width_decoder",
    "benchmark": "c4",
    "config": "en",
    "num_hidden_layers": 2,
    "context_length": 13,
    "streams": 6,
    "size": 12,
    "validation_examples": 11,
    "examples": None,
}


@functools.cache
def texts() -> list[str]:
    """Documents of 1 to 60 words; each has a number of its own, so that no two examples are the same."""
    draw = random.Random(0)
    words = ["a", "the", "cat", "dog", "sees", "likes", "that", "every", "under", "tree", "red", "small"]
    return [f"{number}: {' '.join(draw.choices(words, k=draw.randint(1, 60)))}." for number in range(300)]


def write_text(folder: Path) -> Path:
    """Shards of `texts`; a mirror folder, or the part of one, for `data_dir`."""
    write_shards(folder, "train", texts()[:250], SHARDS)
    write_shards(folder, "validation", texts()[250:], 1)
    return folder


def write_tokenizer(folder: Path) -> Path:
    train_byte_pairs(texts(), 300).save_pretrained(folder)
    return folder


def text_benchmark(*args: Any, **kwargs: Any) -> datasets.IterableDatasetDict:
    """In place of `load_benchmark("c4")`, without files."""
    split = datasets.Dataset.from_dict({"text": texts()})
    return datasets.IterableDatasetDict(
        {name: split.to_iterable_dataset(num_shards=SHARDS) for name in ("train", "validation")}
    )
