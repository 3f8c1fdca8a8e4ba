"""What `hf-sysgen evaluate` and `hf-sysgen predict` do."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import transformers
from tqdm.auto import tqdm

from hf_sysgen.data import DataError, benchmark_info, load_benchmark
from hf_sysgen.data.info import unknown_name_error
from hf_sysgen.data.text.splits import TokenizedSplit
from hf_sysgen.data.text.subwords import encode_subwords
from hf_sysgen.data.text.vocabulary import encode_targets
from hf_sysgen.errors import UserError
from hf_sysgen.evaluation.checkpoint_folders import checkpoint_folder, data_folder
from hf_sysgen.evaluation.checkpoints import (
    encoded_sources,
    load_checkpoint,
    most_new_tokens,
    predict,
    wrap_library_errors,
)
from hf_sysgen.evaluation.decoding import is_sysgen_model
from hf_sysgen.evaluation.evaluate import bounded_chunks, judge_split, with_texts
from hf_sysgen.evaluation.metrics.summary import summarize
from hf_sysgen.evaluation.prompts import prompts_of
from hf_sysgen.evaluation.translation import evaluate_translations, summarize_split, translation_rows, usable_rows
from hf_sysgen.files import write_atomic
from hf_sysgen.results.predictions import Row, write_predictions
from hf_sysgen.results.record import METRICS, PREDICTIONS, SplitMetrics, new_folder
from hf_sysgen.tables import table

# examples that are decoded together
BATCH_SIZE = 256
# tasks whose outputs are decoded
TEXT_TASKS = ("seq2seq", "translation")
# maximum tokens of a sentence; the memory of attention grows with the square
LONGEST_INPUT = 2_000
# maximum sentences of a batch, and the pairs of tokens in it, with padding
SENTENCES, PAIRS = 64, 64 * 256**2


def evaluate_checkpoint(
    checkpoint: str,
    benchmark: str,
    config: str | None,
    splits: list[str] | None,
    data_dir: Path | None,
    output: Path | None,
    batch_size: int | None,
) -> str:
    """Metrics of a checkpoint on a benchmark of one of `TEXT_TASKS`, as a table. Raises UserError, DataError."""
    transformers.utils.logging.disable_progress_bar()
    config, names = to_evaluate(benchmark, config, splits, output)
    # first, so that a wrong checkpoint is an error before data is prepared; a name on the hub is looked up once
    folder = checkpoint_folder(checkpoint)
    model, tokenizer = load_checkpoint(folder)
    translates = benchmark_info(benchmark).task == "translation"
    if translates and not model.config.is_encoder_decoder:
        raise UserError(f"{checkpoint}: the model is a decoder; {benchmark} needs an encoder-decoder")
    data = load_benchmark(benchmark, config, data_dir=data_dir or data_folder(folder, benchmark))
    batch_size = batch_size or BATCH_SIZE
    metrics: dict[str, SplitMetrics] = {}
    rows: list[Row] = []
    for name in names:
        examples = data[name]
        with tqdm(total=len(examples), desc=name, unit="example", disable=not sys.stderr.isatty()) as bar:
            if translates:
                split = TokenizedSplit(
                    encode_subwords(tokenizer, examples["input"][:]),
                    encode_subwords(tokenizer, examples["target"][:], model.config.vocab_size),
                    pad_id=tokenizer.pad_token_id,
                )
                found = evaluate_translations(
                    model,
                    split,
                    tokenizer,
                    examples["target"][:],
                    usable_rows(split, benchmark, config, name),
                    batch_size=batch_size,
                    brief=name == "validation",
                    on_batch=bar.update,
                )
                found.sort(key=lambda record: record.row)
                metrics[name] = summarize_split(found, examples, benchmark, config, name)
                rows += translation_rows(found, name, examples)
            else:
                ids = _encoded(model, tokenizer, examples["input"][:], examples["target"][:])
                split = TokenizedSplit(*ids, pad_id=tokenizer.pad_token_id)
                decoded = judge_split(model, split, examples, tokenizer, batch_size=batch_size, on_batch=bar.update)
                decoded.sort(key=lambda record: record.row)
                texts = with_texts(decoded, name, examples, tokenizer)
                metrics[name] = summarize(texts)
                rows += texts
    write_measured(output, rows, metrics)
    columns: tuple[str, ...] = ("examples", "accuracy", "exact_teacher", "accuracy_oracle", "loss", "loss_teacher")
    if translates:
        columns = ("examples", "bleu", "comp", "comp_same_form", "accuracy", "loss")
    return metrics_table(metrics, columns)


def to_evaluate(
    benchmark: str, config: str | None, splits: list[str] | None, output: Path | None
) -> tuple[str, list[str]]:
    """The config's name and the splits to evaluate, all but `train` by default. Errors show before any work.

    Raises:
        DataError: there is no such benchmark, config or split.
        UserError: the output exists or cannot be written to.
    """
    described = benchmark_info(benchmark).config(config)
    names = [*dict.fromkeys(splits or [name for name in described.splits if name != "train"])]
    for name in names:
        if name not in described.splits:
            raise unknown_name_error("split", name, described.splits)
    if output is not None:
        new_folder(output, (PREDICTIONS, METRICS))
    return described.name, names


def write_measured(output: Path | None, rows: Sequence[Row], metrics: Mapping[str, SplitMetrics]) -> None:
    """Write predictions and metrics into the folder, if there is one."""
    if output is not None:
        write_predictions(output / PREDICTIONS, rows)
        measured = {name: one.model_dump(mode="json", exclude_unset=True) for name, one in metrics.items()}
        write_atomic(output / METRICS, json.dumps(measured, indent=1) + "\n")


def metrics_table(metrics: Mapping[str, SplitMetrics], columns: Sequence[str]) -> str:
    """A table of the metrics of each split, with those of the columns that any has."""
    found = {name: {"examples": one.examples, **one.metrics} for name, one in metrics.items()}
    columns = tuple(column for column in columns if any(column in values for values in found.values()))
    cells = [(name, *(_shown(values.get(column)) for column in columns)) for name, values in found.items()]
    return table(("split", *columns), cells)


def _shown(value: object) -> str:
    return "-" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)


def _encoded(
    model: Any, tokenizer: Any, inputs: list[str], targets: list[str]
) -> tuple[list[list[int]], list[list[int]]]:
    """Ids of inputs as the model reads them, and of targets. Errors as `encode_sources`."""
    if is_sysgen_model(model):
        ids = range(model.config.vocab_size)
        return encoded_sources(model, tokenizer, inputs), encode_targets(tokenizer, targets, ids)
    prompts = prompts_of(model, tokenizer)
    return prompts.encode_pairs([prompts.prompt(text) for text in inputs], targets)


def predict_lines(
    checkpoint: str, texts: list[str], beams: int | None = None, max_new_tokens: int | None = None
) -> Iterator[str]:
    """The outputs for the texts, in order, one per line. Raises UserError, DataError (before any is decoded)."""
    model, tokenizer, lengths = load_to_predict(checkpoint, texts)
    limit = max_new_tokens or most_new_tokens(model)
    options = {"max_new_tokens": limit} | ({} if beams is None else {"num_beams": beams})
    cut = 0
    for some in bounded_chunks(np.arange(len(texts)), np.array(lengths), SENTENCES, PAIRS):
        translations, ended = predict(model, tokenizer, [texts[number] for number in some], **options)
        cut += ended.count(False)
        # a pretrained decoder may write line breaks, but each output must be one line
        yield from (" ".join(translation.splitlines()) for translation in translations)
    if cut:
        print(
            f"warning: {cut} of {len(texts)} did not end within {limit} tokens; see --max-new-tokens", file=sys.stderr
        )


def load_to_predict(checkpoint: str, texts: list[str]) -> tuple[Any, Any, list[int]]:
    """Model and tokenizer of a checkpoint, and how many tokens each text has. Raises UserError, DataError."""
    transformers.utils.logging.disable_progress_bar()
    model, tokenizer = load_checkpoint(checkpoint)
    if not texts:
        raise DataError("nothing to translate: give sentences as arguments, or one per line on standard input")
    for number, text in enumerate(texts, 1):
        if not text.strip():
            raise DataError(f"sentence {number} of {len(texts)} is empty; give at least one word, or leave it out")
    with wrap_library_errors():
        lengths = list(map(len, encoded_sources(model, tokenizer, texts)))
    if max(lengths) > LONGEST_INPUT:
        number = lengths.index(max(lengths))
        raise DataError(
            f"sentence {number + 1} has {lengths[number]:,} tokens, and at most {LONGEST_INPUT:,} are read; split it"
        )
    return model, tokenizer, lengths
