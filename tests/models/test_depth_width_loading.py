"""What a depth-width checkpoint holds, and that it works wherever it goes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from depth_width_tiny import (
    DEPTH,
    FF,
    HEAD_DIM,
    HEADS,
    VARIANTS,
    WORDS,
    ragged_labels,
    ragged_mask,
    random_ids,
    tiny_decoder,
)  # fmt: skip
from safetensors.torch import load_file, save_file
from saved_elsewhere import assert_same_files, use_elsewhere
from test_loading import MODELS, aligned, closure
from tiny import assert_same_loss_offloaded
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM

from hf_sysgen.models import DepthWidthConfig, DepthWidthForCausalLM, DepthWidthModel

E = HEADS * HEAD_DIM
STEPS = 9


@pytest.fixture(params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> str:
    return request.param


def build(variant: str, **changes):
    return tiny_decoder(variant, **changes).float()


def frozen_names(variant: str) -> dict[str, list[int]]:
    """Shape of every stored tensor by its name: what checkpoints of every later version must still fit."""
    layer = {
        "self_attn.qkv_proj.weight": [3 * E, E],
        "self_attn.o_proj.weight": [E, E],
        "self_attn_norm.weight": [E],
        "feed_forward.gate_up_proj.weight": [2 * FF, E],
        "feed_forward.down_proj.weight": [E, FF],
        "feed_forward_norm.weight": [E],
    }
    names = {"model.embed_tokens.weight": [WORDS, E], "model.final_norm.weight": [E], "lm_head.weight": [WORDS, E]}
    if "bias" in variant:
        names["model.relative_bias.weight"] = [HEADS, 6]
    # shared layers are stored once, however deep the model is
    for index in range(1 if "shared" in variant else DEPTH):
        names |= {f"model.layers.{index}.{name}": shape for name, shape in layer.items()}
    return names


def test_parameter_names_are_frozen(variant: str, tmp_path: Path) -> None:
    model = build(variant)
    model.save_pretrained(tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    assert {name: list(tensor.shape) for name, tensor in stored.items()} == frozen_names(variant)
    assert sum(tensor.numel() for tensor in stored.values()) == model.num_parameters()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_round_trip_bit_for_bit(variant: str, dtype: torch.dtype, tmp_path: Path) -> None:
    model = build(variant).to(dtype)
    model.save_pretrained(tmp_path)
    assert type(AutoConfig.from_pretrained(tmp_path)) is DepthWidthConfig
    # built on the meta device: what is not stored and not computed in forward comes back as left-over memory
    loaded, loading = AutoModelForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    assert type(loaded) is DepthWidthForCausalLM
    assert not any(loading.values())
    assert not loaded.training
    assert loaded.dtype == dtype
    for name, parameter in model.named_parameters():
        assert torch.equal(loaded.get_parameter(name), parameter), name
    base = AutoModel.from_pretrained(tmp_path)
    assert type(base) is DepthWidthModel
    ids, mask = random_ids(), ragged_mask("left")
    with torch.no_grad():
        expected = aligned(model)(ids, attention_mask=mask).logits
        assert torch.equal(aligned(loaded)(ids, attention_mask=mask).logits, expected)
        assert torch.equal(
            aligned(base)(ids, attention_mask=mask).last_hidden_state,
            aligned(model).model(ids, attention_mask=mask).last_hidden_state,
        )


def test_a_tied_table_is_stored_once(tmp_path: Path) -> None:
    model = build("rotary", tie_word_embeddings=True)
    model.save_pretrained(tmp_path)
    assert set(load_file(tmp_path / "model.safetensors")) == set(frozen_names("rotary")) - {"lm_head.weight"}
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert loaded.lm_head.weight is loaded.model.embed_tokens.weight


def test_files_of_a_checkpoint(tmp_path: Path) -> None:
    build("rotary").save_pretrained(tmp_path)
    code = closure("modeling_depth_width_decoder", "configuration_depth_width_decoder")
    weights = {"config.json", "generation_config.json", "model.safetensors"}
    assert {path.name for path in tmp_path.iterdir()} == weights | code
    for name in code:
        assert (tmp_path / name).read_bytes() == (MODELS / name).read_bytes(), name
    assert json.loads((tmp_path / "config.json").read_text())["auto_map"] == {
        "AutoConfig": "configuration_depth_width_decoder.DepthWidthConfig",
        "AutoModel": "modeling_depth_width_decoder.DepthWidthModel",
        "AutoModelForCausalLM": "modeling_depth_width_decoder.DepthWidthForCausalLM",
    }


def test_resizing_the_vocabulary(tmp_path: Path) -> None:
    model = build("rotary")
    ids, new = random_ids(), WORDS + 6
    with torch.no_grad():
        expected = model(ids).logits
        model.resize_token_embeddings(new)
        out = model(ids).logits
    assert out.shape[-1] == model.config.vocab_size == new
    torch.testing.assert_close(out[..., :WORDS], expected, rtol=0.0, atol=1e-5)
    ids[:, 0] = new - 1
    model.train()(ids, labels=ids).loss.backward()
    assert model.lm_head.weight.grad.shape == (new, E)
    model.eval().save_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    with torch.no_grad():
        assert torch.equal(aligned(loaded)(ids).logits, aligned(model)(ids).logits)


STRANGER = """
for folder in sys.argv[1:]:
    batch = load_file(f"{folder}/batch.safetensors")
    # copied into aligned memory, which decides the last bit of a matrix product
    model = copy.deepcopy(AutoModelForCausalLM.from_pretrained(f"{folder}/saved", trust_remote_code=True))
    base = copy.deepcopy(AutoModel.from_pretrained(f"{folder}/saved", trust_remote_code=True))
    assert type(model).__module__.startswith("transformers_modules."), type(model)
    with torch.no_grad():
        found = {
            "logits": model(**batch).logits,
            "last_hidden_state": base(**batch).last_hidden_state,
            "greedy": model.generate(**batch, max_new_tokens=STEPS, do_sample=False),
            "beam": model.generate(**batch, max_new_tokens=STEPS, num_beams=3, do_sample=False).contiguous(),
        }
    save_file(found, f"{folder}/found.safetensors")
    model.save_pretrained(f"{folder}/again")
""".replace("STEPS", str(STEPS))


def test_loss_of_offloaded_weights(variant: str) -> None:
    ids = random_ids()
    assert_same_loss_offloaded(tiny_decoder(variant), {"input_ids": ids, "labels": ragged_labels(ids)})


def test_checkpoints_travel(tmp_path: Path) -> None:
    """Every variant, saved here and used by one process that cannot import the package."""
    models = {name: build(name) for name in VARIANTS}
    batch = {"input_ids": random_ids(), "attention_mask": ragged_mask("left")}
    folders = {name: tmp_path / name.replace(" ", "_") for name in VARIANTS}
    for name, folder in folders.items():
        folder.mkdir()
        save_file(batch, folder / "batch.safetensors")
        models[name].save_pretrained(folder / "saved")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    use_elsewhere(STRANGER, folders.values(), elsewhere)
    for name, folder in folders.items():
        model, found = models[name], load_file(folder / "found.safetensors")
        with torch.no_grad():
            assert torch.equal(found["logits"], model(**batch).logits)
            assert torch.equal(found["last_hidden_state"], model.model(**batch).last_hidden_state)
        assert torch.equal(found["greedy"], model.generate(**batch, max_new_tokens=STEPS, do_sample=False))
        assert torch.equal(found["beam"], model.generate(**batch, max_new_tokens=STEPS, num_beams=3, do_sample=False))
        assert_same_files(folder / "saved", folder / "again")
