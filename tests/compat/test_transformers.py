"""What transformers offers for any model."""

from __future__ import annotations

from pathlib import Path

import pytest
from every_model import TRAINED, model_and_batch, with_labels
from transformers import Trainer, TrainingArguments

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
