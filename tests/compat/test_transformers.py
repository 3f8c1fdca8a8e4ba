"""What transformers offers for any model."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from every_model import DECODERS, TRAINED, model_and_batch, with_labels
from transformers import ContinuousBatchingConfig, GenerationConfig, Trainer, TrainingArguments

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
