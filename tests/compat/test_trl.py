"""Fine-tuning by TRL, with several examples in one row."""

from __future__ import annotations

from pathlib import Path

import datasets
import pytest
import torch
from every_model import DECODERS, model_and_batch
from tiny_text import texts, write_tokenizer
from transformers import PreTrainedModel

TOOL = "trl"


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tokenizer(tmp_path_factory.mktemp("tokenizer"))


def trainer_of(model: PreTrainedModel, tokenizer_folder: Path, folder: Path, **mode):
    from transformers import AutoTokenizer
    from trl import SFTConfig, SFTTrainer

    rows = datasets.Dataset.from_dict({"text": texts()[:24]})
    batch = 1 if "packing" in mode else 8
    settings = SFTConfig(
        str(folder), max_steps=3, per_device_train_batch_size=batch, per_device_eval_batch_size=8, report_to=[],
        use_cpu=True, save_strategy="no", logging_steps=1, learning_rate=0.01, shuffle_dataset=False,
        gradient_checkpointing=False, bf16=False, model_init_kwargs=None, **mode,
    )  # fmt: skip
    return SFTTrainer(
        model, args=settings, train_dataset=rows, eval_dataset=rows.select(range(5)),
        processing_class=AutoTokenizer.from_pretrained(tokenizer_folder),
    )  # fmt: skip


def new_model(name: str, tokenizer_folder: Path) -> PreTrainedModel:
    from transformers import AutoTokenizer

    return model_and_batch(name, vocab_size=len(AutoTokenizer.from_pretrained(tokenizer_folder)))[0].float()


def losses(name: str, tokenizer_folder: Path, folder: Path, **mode) -> list[float]:
    """Of three updates on eight examples each, and of the evaluation after them."""
    trainer = trainer_of(new_model(name, tokenizer_folder), tokenizer_folder, folder, **mode)
    trainer.train()
    found = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert len(found) == 3
    assert all(torch.tensor(found).isfinite())
    return [*found, trainer.evaluate()["eval_loss"]]


@pytest.mark.parametrize("name", DECODERS)
def test_padding_free(name: str, tokenizer_folder: Path, tmp_path: Path) -> None:
    """SFTTrainer, padding-free: the losses of padded batches"""
    padded = losses(name, tokenizer_folder, tmp_path / "padded")
    assert padded[2] < padded[0]
    assert losses(name, tokenizer_folder, tmp_path / "free", padding_free=True, max_length=None) == pytest.approx(
        padded, rel=1e-4
    )


@pytest.mark.parametrize("name", DECODERS)
def test_packing(name: str, tokenizer_folder: Path, tmp_path: Path) -> None:
    """SFTTrainer, packed: several examples in a row, which do not see each other"""
    packed = trainer_of(
        new_model(name, tokenizer_folder), tokenizer_folder, tmp_path / "packed", packing=True, max_length=256
    )
    assert len(packed.eval_dataset) < 5
    before = packed.evaluate()["eval_loss"]
    packed.train()
    after = packed.evaluate()["eval_loss"]
    assert after < before
    apart = trainer_of(packed.model, tokenizer_folder, tmp_path / "apart")
    assert apart.evaluate()["eval_loss"] == pytest.approx(after, rel=1e-4)
