"""LoRA by peft: adapters on every linear layer, merged, saved and loaded again."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path

import pytest
import torch
from every_model import NAMES, TRAINED, answer, model_and_batch, with_labels
from tiny import WRAPPED
from torch import nn

TOOL = "peft"
# no layer of it is nn.Linear: their weights are directions and lengths
LINEAR = [name for name in NAMES if name != "conv_seq2seq"]


def adapted(model: nn.Module, **options) -> nn.Module:
    """The model with adapters that change what it says."""
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(0)
    options = {"target_modules": "all-linear", **options}
    return get_peft_model(model, LoraConfig(r=2, lora_alpha=4, init_lora_weights=False, **options)).eval()


def assert_merges(model: nn.Module, batch: dict, folder: Path, **options) -> nn.Module:
    """Adapters change the answer, merging them does not, nor does saving and loading the merged model."""
    before = answer(model, batch)
    wrapped = adapted(model, **options)
    expected = answer(wrapped, batch)
    assert (expected - before).abs().max() > 1e-3
    merged = wrapped.merge_and_unload()
    torch.testing.assert_close(answer(merged, batch), expected, rtol=0, atol=1e-9)
    merged.save_pretrained(folder)
    again, loading = type(merged).from_pretrained(folder, dtype=torch.float64, output_loading_info=True)
    assert not any(loading.values())
    torch.testing.assert_close(answer(again.eval(), batch), expected, rtol=0, atol=1e-9)
    return again


@pytest.mark.parametrize("name", LINEAR)
def test_merged(name: str, tmp_path: Path) -> None:
    """LoRA on all linear layers, merged, saved, loaded."""
    model, batch = model_and_batch(name)
    tied = model.config.tie_word_embeddings
    assert assert_merges(model, batch, tmp_path).config.tie_word_embeddings == tied


@pytest.mark.parametrize("name", LINEAR)
def test_adapter_alone(name: str) -> None:
    """LoRA adapters saved alone and put on the model again."""
    from peft import PeftModel

    model, batch = model_and_batch(name)
    wrapped = adapted(copy.deepcopy(model))
    with tempfile.TemporaryDirectory() as folder:
        wrapped.save_pretrained(folder)
        again = PeftModel.from_pretrained(model, folder).eval()
    torch.testing.assert_close(answer(again, batch), answer(wrapped, batch), rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", [name for name in TRAINED if name in LINEAR])
def test_every_adapter_learns(name: str) -> None:
    """LoRA training: each adapter gets a gradient, nothing else does."""
    model, _ = model_and_batch(name)
    batch = with_labels(name, model.config)
    wrapped = adapted(model)
    wrapped(**batch).loss.backward()
    for path, parameter in wrapped.named_parameters():
        if "lora_" in path:
            assert parameter.grad is not None, path
            assert parameter.grad.abs().max() > 0, path
        else:
            assert parameter.grad is None, path


@pytest.mark.parametrize("name", [name for name in WRAPPED if name in LINEAR])
def test_table_with_an_offset(name: str, tmp_path: Path) -> None:
    """LoRA and a whole table, whose ids start at another number than 0"""
    model, batch = model_and_batch(name, source_id_offset=5)
    merged = assert_merges(model, batch, tmp_path, modules_to_save=["encoder.embed_tokens"])
    assert merged.get_input_embeddings().id_offset == 5
