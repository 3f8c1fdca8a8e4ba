"""
Speed of tokenizing C4 documents and packing them into blocks of 1,024 tokens, on one core.

`python perf/c4_packing.py FILE.jsonl` (records with `text`, or with a passage cut into `prefix` and `gold_completion`)
measures everything in one run and writes perf/c4_packing.json. All methods read the same gzipped shards and use the
same tokenizer. They take turns for several rounds; medians are reported. Rows:

- `PackedTokens`: ours; loses no token and can resume.
- `streamed map`: `IterableDataset.map` to tokenize in batches, then to group each batch of 1,000 documents into blocks;
  the end of each batch is lost.
- `cached map`: the same with `Dataset.map`, which writes both results to the disk.
- `tokenizer alone`: the same batches of texts, already in memory: a lower bound for the others.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ.setdefault("OMP_NUM_THREADS", "1")

import datasets
from machine import machine
from transformers import PreTrainedTokenizerFast

from hf_sysgen.data import load_benchmark
from hf_sysgen.data.c4.builder import PackedTokens
from hf_sysgen.data.c4.files import shard_names, write_shards
from hf_sysgen.data.text.byte_pairs import train_byte_pairs
from hf_sysgen.files import write_atomic

LENGTH = 1024
SHARDS = 4


def read_texts(path: Path) -> list[str]:
    with open(path, encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    return [record.get("text") or record["prefix"] + record["gold_completion"] for record in records]


def contenders(folder: Path, texts: list[str], tokenizer: PreTrainedTokenizerFast) -> dict[str, Callable[[], int]]:
    """Each returns the number of tokens in the blocks that it made."""

    def stream() -> datasets.IterableDataset:
        return load_benchmark("c4", data_dir=folder)["train"]

    def tokenize(batch: dict) -> dict:
        ids = tokenizer(batch["text"], add_special_tokens=False, return_attention_mask=False)["input_ids"]
        return {"input_ids": [[*document, tokenizer.eos_token_id] for document in ids]}

    def group(batch: dict) -> dict:
        flat = [token for document in batch["input_ids"] for token in document]
        return {"input_ids": [flat[start : start + LENGTH] for start in range(0, len(flat) - LENGTH + 1, LENGTH)]}

    def ours() -> int:
        return sum(len(block["input_ids"]) for block in PackedTokens(stream(), tokenizer, LENGTH))

    def streamed_map() -> int:
        columns = ["text", "timestamp", "url"]
        mapped = stream().map(tokenize, batched=True, remove_columns=columns).map(group, batched=True)
        return sum(len(block["input_ids"]) for block in mapped.with_format("torch"))

    def cached_map() -> int:
        with tempfile.TemporaryDirectory() as cache:
            files = [str(folder / "c4" / "en" / name) for name in shard_names("train")[:SHARDS]]
            documents = datasets.load_dataset("json", data_files=files, split="train", cache_dir=cache)
            mapped = documents.map(tokenize, batched=True, remove_columns=documents.column_names)
            mapped = mapped.map(group, batched=True).with_format("torch")
            return sum(len(block["input_ids"]) for block in mapped)

    def alone() -> int:
        batches = [texts[start : start + 64] for start in range(0, len(texts), 64)]
        return sum(len(ids) + 1 for batch in batches for ids in tokenizer(batch, add_special_tokens=False).input_ids)

    return {"PackedTokens": ours, "streamed map": streamed_map, "cached map": cached_map, "tokenizer alone": alone}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", type=Path, help="JSON lines")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--vocab-size", type=int, default=8_000)
    parser.add_argument("--output", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    datasets.disable_progress_bars()
    texts = read_texts(options.texts)
    tokenizer = train_byte_pairs(texts, options.vocab_size)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_shards(folder, "train", texts, SHARDS)
        write_shards(folder, "validation", texts[:1], 1)
        running = contenders(folder, texts, tokenizer)
        seconds: dict[str, list[float]] = {name: [] for name in running}
        tokens = {name: run() for name, run in running.items()}
        for _ in range(options.rounds):
            for name, run in running.items():
                start = time.process_time()
                run()
                seconds[name].append(time.process_time() - start)
    rows = {
        name: {
            "tokens": tokens[name],
            "tokens_per_cpu_second_median": round(tokens[name] / statistics.median(times)),
            "tokens_per_cpu_second_range": [round(tokens[name] / max(times)), round(tokens[name] / min(times))],
        }
        for name, times in seconds.items()
    }
    setup = {"documents": len(texts), "length": LENGTH, "vocab_size": options.vocab_size, "rounds": options.rounds}
    record = {"setup": setup, "rows": rows, "environment": machine()}
    write_atomic(options.output, json.dumps(record, indent=2) + "\n")
    for name, row in rows.items():
        print(f"{name:16} {row['tokens_per_cpu_second_median']:>10,} tokens/s, {row['tokens']:,} tokens")


if __name__ == "__main__":
    main()
