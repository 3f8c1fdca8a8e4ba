"""What transformers offers for any model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from every_model import DECODERS, SEQ2SEQ, TRAINED, model_and_batch, with_labels
from tiny import scatter_weights
from transformers import ContinuousBatchingConfig, GenerationConfig, Trainer, TrainingArguments
from transformers.exporters.exporter_dynamo import DynamoConfig, DynamoExporter

from hf_sysgen.data.text.vocabulary import build_vocabulary

TOOL = "transformers"


@pytest.mark.parametrize("name", TRAINED)
def test_evaluation_loss_of_a_plain_trainer(name: str, tmp_path: Path) -> None:
    """Trainer without any setting of ours: eval_loss"""
    model, _ = model_and_batch(name)
    batch = with_labels(name, model.config)
    rows = [dict(zip(batch, values, strict=True)) for values in zip(*batch.values(), strict=True)]
    settings = TrainingArguments(str(tmp_path), report_to=[], use_cpu=True, per_device_eval_batch_size=len(rows))
    found = Trainer(model, settings, eval_dataset=rows).evaluate()
    assert found["eval_loss"] == pytest.approx(model(**batch).loss.item(), rel=1e-6)


@pytest.mark.parametrize("name", DECODERS)
def test_continuous_batching(name: str) -> None:
    """Continuous batching: `generate_batch` of prompts of different lengths"""
    model = model_and_batch(name)[0].float()
    prompts = [[3, 4, 5], [6, 7], [8, 9, 10, 11, 12], [1]]
    # no word ends an answer
    options = {"max_new_tokens": 9, "do_sample": False, "eos_token_id": model.config.vocab_size, "pad_token_id": 0}
    expected = [model.generate(torch.tensor([prompt]), **options)[0, len(prompt) :].tolist() for prompt in prompts]
    assert len({word for words in expected for word in words}) > 3
    # by itself it takes most of the memory
    pages = ContinuousBatchingConfig(page_size=4, num_blocks=64, max_batch_tokens=16)
    found = model.generate_batch(prompts, GenerationConfig(**options), pages, warmup=False)
    assert [answer.generated_tokens for answer in found.values()] == expected


@pytest.mark.parametrize("name", [*SEQ2SEQ, *DECODERS])
def test_stop_strings(name: str) -> None:
    """`generate(stop_strings=...)` with a tokenizer of words"""
    model, batch = model_and_batch(name)
    words = " ".join(f"w{index:02}" for index in range(16))
    tokenizer = build_vocabulary([words], [words], joint=True, start=False).tokenizer
    assert len(tokenizer) == model.config.vocab_size
    source = {key: value[:1] for key, value in batch.items() if not key.startswith("decoder")}
    options = {"max_new_tokens": 8, "do_sample": True, "temperature": 50.0, "eos_token_id": 16, "suppress_tokens": [16]}
    torch.manual_seed(3)
    whole = model.generate(**source, **options)[0]
    first = 1 if name in SEQ2SEQ else source["input_ids"].shape[1]
    written = tokenizer.convert_ids_to_tokens(whole[first:])
    stop = f"{written[1]} {written[2]}"
    torch.manual_seed(3)
    stopped = model.generate(**source, **options, stop_strings=[stop, "never"], tokenizer=tokenizer)[0]
    assert torch.equal(stopped, whole[: first + 3])
    assert len(whole) > len(stopped)


@pytest.mark.compat
@pytest.mark.parametrize("name", [*SEQ2SEQ, *DECODERS])
def test_assisted_decoding(name: str) -> None:
    """Greedy words, with an assistant and by prompt lookup"""
    model, batch = model_and_batch(name)
    assistant, _ = model_and_batch(name)
    source = {key: value[:1] for key, value in batch.items() if not key.startswith("decoder")}
    options = {"max_new_tokens": 8, "do_sample": False, "eos_token_id": 16, "suppress_tokens": [16]}
    expected = model.generate(**source, **options)
    assert torch.equal(model.generate(**source, **options, assistant_model=assistant), expected)
    # a worse assistant, whose words are taken back
    scatter_weights(assistant, seed=1)
    assert torch.equal(model.generate(**source, **options, assistant_model=assistant), expected)
    assert torch.equal(model.generate(**source, **options, prompt_lookup_num_tokens=2), expected)


# a new node adds a row and a column to a square of edges, one node after the other
GROWS = pytest.mark.xfail(reason="the cache of edges grows by one node at a time", strict=True)


@pytest.mark.compat
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=GROWS) if name == "translation" else name for name in (*SEQ2SEQ, *DECODERS)]
)
@torch.no_grad()
def test_exported_decoding(name: str) -> None:
    """Exported steps of decoding: some words after some others, numbers of both dynamic"""
    model, batch = model_and_batch(name)
    key = "input_ids" if name in DECODERS else "decoder_input_ids"
    source = {other: tensor for other, tensor in batch.items() if not other.startswith("decoder") and other != key}
    if name not in DECODERS:
        encoder = model.get_encoder()
        source = {"attention_mask": source["attention_mask"], "encoder_outputs": encoder(**source)}

    def step(before: int, words: int) -> dict[str, Any]:
        cache = model(**source, **{key: batch[key][:, :before]}, use_cache=True).cache
        return {**source, key: batch[key][:, before : before + words], "cache": cache}

    program, _ = DynamoExporter().export_program(model, step(3, 2), DynamoConfig(dynamic=True))
    exported = program.module()
    for before, words in ((3, 2), (1, 1), (1, 3), (2, 3)):
        found = exported(**step(before, words)).logits
        torch.testing.assert_close(found, model(**step(before, words), use_cache=True).logits, rtol=0, atol=1e-9)
