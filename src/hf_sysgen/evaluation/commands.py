"""What `hf-sysgen evaluate` and `hf-sysgen predict` do."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import transformers
from tqdm.auto import tqdm

from hf_sysgen.data import DataError, load_benchmark
from hf_sysgen.data.tokenization import encode_sources, encode_targets
from hf_sysgen.data.tokenized import TokenizedSplit
from hf_sysgen.evaluation.checkpoints import load_checkpoint, predict, source_ids
from hf_sysgen.evaluation.evaluate import evaluate_split, with_texts
from hf_sysgen.evaluation.metrics import summarize
from hf_sysgen.evaluation.report import table
from hf_sysgen.evaluation.results import METRICS, PREDICTIONS, new_folder, write_predictions, write_whole


def evaluate_checkpoint(
    checkpoint: Path,
    benchmark: str,
    config: str | None,
    splits: list[str] | None,
    data_dir: Path | None,
    output: Path | None,
    batch_size: int,
) -> str:
    """Metrics of a checkpoint on a benchmark as a table. Raises CheckpointError, DataError, ResultsError."""
    transformers.utils.logging.disable_progress_bar()
    if output is not None:
        # told before the work whose result could not be kept
        new_folder(output, (PREDICTIONS, METRICS))
    data = load_benchmark(benchmark, config, data_dir=data_dir)
    names = splits or [name for name in data if name != "train"]
    for name in names:
        if name not in data:
            raise DataError(f"unknown split {name!r} of {benchmark} {config or ''}; it has: {', '.join(data)}")
    model, tokenizer = load_checkpoint(checkpoint)
    metrics, rows = {}, []
    for name in names:
        inputs, targets = data[name]["input"][:], data[name]["target"][:]
        split = TokenizedSplit(
            encode_sources(tokenizer, inputs, source_ids(model)),
            encode_targets(tokenizer, targets, range(model.config.vocab_size)),
            pad_id=tokenizer.pad_token_id,
        )
        with tqdm(total=len(split), desc=name, unit="example", disable=not sys.stderr.isatty()) as bar:
            records = evaluate_split(model, split, batch_size=batch_size, oracle=True, on_batch=bar.update)
        records = with_texts(sorted(records, key=lambda record: record["row"]), data[name], tokenizer)
        metrics[name] = summarize(records)
        rows += [{"split": name, **record} for record in records]
    if output is not None:
        write_predictions(output / PREDICTIONS, rows)
        write_whole(output / METRICS, json.dumps(metrics, indent=1) + "\n")
    columns = ("examples", "accuracy", "accuracy_oracle", "loss", "loss_teacher")
    cells = [
        (name, *(f"{values[column]:.4f}" if column != "examples" else values[column] for column in columns))
        for name, values in metrics.items()
    ]
    return table(("split", *columns), cells)


def predict_lines(checkpoint: Path, texts: list[str], beams: int, max_new_tokens: int | None) -> Iterator[str]:
    """Translations of the texts, in order. Raises CheckpointError, DataError (before anything is decoded)."""
    transformers.utils.logging.disable_progress_bar()
    if not texts:
        raise DataError("nothing to translate: give sentences as arguments, or one per line on standard input")
    model, tokenizer = load_checkpoint(checkpoint)
    encode_sources(tokenizer, texts, source_ids(model))
    options = {"num_beams": beams} | ({"max_new_tokens": max_new_tokens} if max_new_tokens else {})
    cut = 0
    for start in range(0, len(texts), 64):
        translations, ended = predict(model, tokenizer, texts[start : start + 64], **options)
        cut += ended.count(False)
        yield from translations
    if cut:
        limit = max_new_tokens or model.generation_config.max_new_tokens
        print(
            f"warning: {cut} of {len(texts)} did not end within {limit} tokens; see --max-new-tokens", file=sys.stderr
        )
