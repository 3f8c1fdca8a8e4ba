"""Fine-tuning by TRL, with several examples in one row."""

from __future__ import annotations

from pathlib import Path

import datasets
import pytest
import torch
from every_model import DECODERS, model_and_batch
from tiny_text import texts, write_tokenizer

TOOL = "trl"


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tokenizer(tmp_path_factory.mktemp("tokenizer"))


def losses(name: str, tokenizer_folder: Path, folder: Path, **mode) -> list[float]:
    """Of three updates on eight examples each, and of the evaluation after them."""
    from transformers import AutoTokenizer
    from trl import SFTConfig, SFTTrainer

    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    model = model_and_batch(name, vocab_size=len(tokenizer))[0].float()
    rows = datasets.Dataset.from_dict({"text": texts()[:24]})
    batch = 1 if "packing" in mode else 8
    settings = SFTConfig(
        str(folder), max_steps=3, per_device_train_batch_size=batch, per_device_eval_batch_size=8, report_to=[],
        use_cpu=True, save_strategy="no", logging_steps=1, learning_rate=0.01, shuffle_dataset=False,
        gradient_checkpointing=False, bf16=False, model_init_kwargs=None, **mode,
    )  # fmt: skip
    trainer = SFTTrainer(
        model, args=settings, train_dataset=rows, eval_dataset=rows.select(range(5)), processing_class=tokenizer
    )
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
    """SFTTrainer, packed: several examples in a row"""
    losses(name, tokenizer_folder, tmp_path, packing=True, max_length=64)
