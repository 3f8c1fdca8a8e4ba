"""What a checkpoint holds, and that it works wherever it goes."""

from __future__ import annotations

import ast
import copy
import dataclasses
import json
import sys
from pathlib import Path

import pytest
import torch
from huggingface_hub.errors import StrictDataclassClassValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from saved_elsewhere import assert_same_files, use_elsewhere
from source_imports import imports_of
from tiny import SIZES, WRAPPED, assert_same_loss_offloaded, ragged_batch, ragged_labels, tiny_model
from transformers import AutoModel, AutoModelForSeq2SeqLM
from transformers.dynamic_module_utils import (
    check_imports,
    get_imports,
    get_relative_import_files,
    get_relative_imports,
)

import hf_sysgen
from hf_sysgen.models import CONFIGS

MODELS = Path(hf_sysgen.__file__).parent / "models"
OFFSET = 3
STEPS = 9


@pytest.fixture(params=WRAPPED)
def variant(request: pytest.FixtureRequest) -> str:
    return request.param


def build(variant: str, **changes):
    return tiny_model(variant, **{"source_id_offset": OFFSET, **changes}).float()


# parameter names: what checkpoints of every later version must still fit

NORM = {"weight": "E", "bias": "E"}
SELF_ATTENTION = {"qkv_proj.weight": "3E E", "o_proj.weight": "E E"}
RELATIVE = {"pos_proj.weight": "E E", "u": "H D", "v": "H D"}
CROSS_ATTENTION = {"q_proj.weight": "E E", "kv_proj.weight": "2E E", "o_proj.weight": "E E"}
FEED_FORWARD = {"fc1.weight": "F E", "fc1.bias": "F", "fc2.weight": "E F", "fc2.bias": "E"}
WIDTHS = {
    "E": SIZES["hidden_size"],
    "2E": 2 * SIZES["hidden_size"],
    "3E": 3 * SIZES["hidden_size"],
    "4E": 4 * SIZES["hidden_size"],
    "F": SIZES["intermediate_size"],
    "H": SIZES["num_attention_heads"],
    "D": SIZES["hidden_size"] // SIZES["num_attention_heads"],
    "S": SIZES["source_vocab_size"],
    "V": SIZES["vocab_size"],
    "R": 5,  # distances from -2 to 2, and a kernel
    "P": 1024,
    "1": 1,
}


def frozen_names(relative: bool, encoder_layers: int, decoder_layers: int, tied: bool = True) -> dict[str, str]:
    """Shape of every stored tensor by its name."""
    encoder_layer = {
        "self_attn": SELF_ATTENTION | (RELATIVE if relative else {}),
        "self_attn_norm": NORM,
        "feed_forward": FEED_FORWARD,
        "feed_forward_norm": NORM,
    }
    decoder_layer = encoder_layer | {"cross_attn": CROSS_ATTENTION, "cross_attn_norm": NORM}
    names = {
        "model.encoder.embed_tokens.weight": "S E",
        "model.decoder.embed_tokens.weight": "V E",
        "lm_head.bias": "V",
    }
    if not tied:
        names["lm_head.weight"] = "V E"
    for side, layer, depth in (("encoder", encoder_layer, encoder_layers), ("decoder", decoder_layer, decoder_layers)):
        for index in range(depth):
            for part, weights in layer.items():
                for weight, shape in weights.items():
                    names[f"model.{side}.layers.{index}.{part}.{weight}"] = shape
    return names


def with_bias(names: dict[str, str]) -> dict[str, str]:
    """Every weight `rows columns` and its bias."""
    return names | {name.replace("weight", "bias"): shape.split()[0] for name, shape in names.items()}


def fairseq_names(self_attention: dict[str, str], gate: bool = True) -> dict[str, str]:
    """As [`frozen_names`], for fairseq's models."""
    encoder_layer = {
        "self_attn": self_attention,
        "self_attn_gate": {"beta": ""} if gate else {},
        "self_attn_norm": NORM,
        "feed_forward": FEED_FORWARD,
        "feed_forward_norm": NORM,
    }
    decoder_layer = encoder_layer | {"cross_attn": with_bias(CROSS_ATTENTION), "cross_attn_norm": NORM}
    names = {
        "model.encoder.embed_tokens.weight": "S E",
        "model.decoder.embed_tokens.weight": "V E",
        "lm_head.weight": "V E",
    }
    for side, layer, depth in (("encoder", encoder_layer, 2), ("decoder", decoder_layer, 3)):
        for index in range(depth):
            for part, weights in layer.items():
                for weight, shape in weights.items():
                    names[f"model.{side}.layers.{index}.{part}.{weight}"] = shape
    return names


def lstm_names() -> dict[str, str]:
    """As [`frozen_names`], for two layers of recurrence in each stack."""
    cell = {"weight_ih": "4E E", "weight_hh": "4E E", "bias_ih": "4E", "bias_hh": "4E"}
    parts = {f"model.encoder.layers.{index}.cell": cell for index in range(2)}
    parts |= {
        "model.decoder.stack.cells.0": cell | {"weight_ih": "4E 2E"},
        "model.decoder.stack.cells.1": cell,
        "model.decoder.stack.attention": {"q_proj.weight": "E E", "k_proj.weight": "E E", "k_proj.bias": "E",
                                          "score.weight": "1 E"},
        "model.encoder.embed_tokens": {"weight": "S E"},
        "model.decoder.embed_tokens": {"weight": "V E"},
        "lm_head": {"weight": "V 2E", "bias": "V"},
    }  # fmt: skip
    return {f"{part}.{name}": shape for part, names in parts.items() for name, shape in names.items()}


def conv_names() -> dict[str, str]:
    """As [`frozen_names`], for stacks of convolutions."""
    linear = {"direction": "E E", "length": "E 1", "bias": "E"}
    convolution = {"direction": "2E R E", "length": "2E 1 1", "bias": "2E"}
    parts = {"lm_head": {"direction": "V E", "length": "V 1", "bias": "V"}}
    for side, rows, depth in (("encoder", "S", 2), ("decoder", "V", 3)):
        parts |= {
            f"model.{side}.embed_tokens": {"weight": f"{rows} E"},
            f"model.{side}.embed_input.table": {"weight": "P E"},
            f"model.{side}.fc1": linear,
            f"model.{side}.fc2": linear,
        }
        for index in range(depth):
            parts[f"model.{side}.layers.{index}.gated.convolution"] = convolution
            if side == "decoder":
                parts[f"model.decoder.layers.{index}.cross_attn.in_proj"] = linear
                parts[f"model.decoder.layers.{index}.cross_attn.out_proj"] = linear
    return {f"{part}.{name}": shape for part, names in parts.items() for name, shape in names.items()}


def role_filler_names() -> dict[str, str]:
    """As [`frozen_names`], for two streams with tables of their own for source and target."""

    def streams(names: dict[str, str]) -> dict[str, str]:
        return {f"{stream}.{name}": shape for stream in ("role", "filler") for name, shape in names.items()}

    output = {f"o_proj.{name}": shape for name, shape in streams(with_bias({"weight": "E E"})).items()}
    encoder_layer = {
        "input_norm": streams(NORM),
        "self_attn": with_bias({"qk_proj.weight": "2E E", "v_proj.weight": "E E"}) | output,
        "self_attn_norm": streams(NORM),
        "feed_forward": streams(FEED_FORWARD),
        "feed_forward_norm": streams(NORM),
    }
    cross = with_bias({f"{part}_proj.weight": "E E" for part in "qkv"}) | output
    decoder_layer = encoder_layer | {"cross_attn": cross, "cross_attn_norm": streams(NORM)}
    names = {
        "model.encoder.embed_tokens.weight": "S E",
        "model.encoder.embed_roles.weight": "S E",
        "model.decoder.embed_tokens.weight": "V E",
        "model.decoder.embed_roles.weight": "V E",
        # one for both sides
        "model.decoder.embed_input.gate.weight": "E E",
        "model.decoder.embed_input.gate.bias": "E",
    }
    for side, layer, depth in (("encoder", encoder_layer, 2), ("decoder", decoder_layer, 3)):
        for index in range(depth):
            for part, weights in layer.items():
                names |= {f"model.{side}.layers.{index}.{part}.{weight}": shape for weight, shape in weights.items()}
    return names


def torch_names() -> dict[str, str]:
    names = fairseq_names(with_bias(SELF_ATTENTION), gate=False) | {"lm_head.bias": "V"}
    ends = {f"model.{side}.final_norm.{name}": shape for side in ("encoder", "decoder") for name, shape in NORM.items()}
    return names | ends


FROZEN = {
    "role_filler_transformer": role_filler_names(),
    "torch_transformer": torch_names(),
    "lstm_seq2seq": lstm_names(),
    "conv_seq2seq": conv_names(),
    "fairseq_transformer": fairseq_names(with_bias(SELF_ATTENTION), gate=False),
    "sag_transformer": fairseq_names(with_bias(SELF_ATTENTION)),
    "sag_fixed_span_transformer": fairseq_names(with_bias(SELF_ATTENTION)),
    "sag_t5_transformer": fairseq_names(with_bias(SELF_ATTENTION) | {"distance_bias": "H R"}),
    # one kernel for each channel
    "sag_conv_transformer": fairseq_names({"weight": "E 1 R", "bias": "E"}),
    "sysgen_transformer": frozen_names(False, SIZES["encoder_layers"], SIZES["decoder_layers"]),
    # one layer in each stack, however deep it is
    "universal_transformer": frozen_names(False, 1, 1),
    "relative_transformer": frozen_names(True, SIZES["encoder_layers"], SIZES["decoder_layers"]),
    "relative_universal_transformer": frozen_names(True, 1, 1),
}
NUMBER_OF_KEYS = {
    "role_filler_transformer": 6 + 2 * 28 + 3 * 42,
    "torch_transformer": 8 + 2 * 12 + 3 * 20,
    "lstm_seq2seq": 4 + 2 * 4 + 2 * 4 + 4,
    "conv_seq2seq": 7 + 4 * 3 + 2 * 3 + 3 * 9,
    "fairseq_transformer": 3 + 2 * 12 + 3 * 20,
    "sag_transformer": 3 + 2 * 13 + 3 * 21,
    "sag_fixed_span_transformer": 3 + 2 * 13 + 3 * 21,
    "sag_t5_transformer": 3 + 2 * 14 + 3 * 22,
    "sag_conv_transformer": 3 + 2 * 11 + 3 * 19,
    "sysgen_transformer": 3 + 2 * 10 + 3 * 15,
    "universal_transformer": 3 + 10 + 15,
    "relative_transformer": 3 + 2 * 13 + 3 * 18,
    "relative_universal_transformer": 3 + 13 + 18,
}


def assert_stored(path: Path, names: dict[str, str]) -> None:
    stored = {name: list(tensor.shape) for name, tensor in load_file(path / "model.safetensors").items()}
    assert stored == {name: [WIDTHS[size] for size in shape.split()] for name, shape in names.items()}


@pytest.mark.parametrize("variant", FROZEN)
def test_parameter_names_are_frozen(variant: str, tmp_path: Path) -> None:
    build(variant).save_pretrained(tmp_path)
    assert_stored(tmp_path, FROZEN[variant])
    assert len(load_file(tmp_path / "model.safetensors")) == NUMBER_OF_KEYS[variant]


def test_depth_of_shared_layers_costs_nothing(tmp_path: Path) -> None:
    build("universal_transformer", encoder_layers=11, decoder_layers=7).save_pretrained(tmp_path)
    assert_stored(tmp_path, FROZEN["universal_transformer"])


def test_head_is_stored_where_it_is_not_tied(tmp_path: Path) -> None:
    model = build("relative_universal_transformer", tie_word_embeddings=False)
    model.save_pretrained(tmp_path)
    assert_stored(tmp_path, frozen_names(True, 1, 1, tied=False))
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    assert torch.equal(loaded.lm_head.weight, model.lm_head.weight)
    assert not torch.equal(loaded.lm_head.weight, loaded.model.decoder.embed_tokens.weight)


def test_nothing_is_stored_twice(variant: str, tmp_path: Path) -> None:
    model = build(variant)
    model.save_pretrained(tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    assert sum(t.numel() for t in stored.values()) == sum(p.numel() for p in model.parameters())
    tensors = [tensor for tensor in stored.values() if tensor.numel() > 20]
    same = [(a, b) for i, a in enumerate(tensors) for b in tensors[:i] if a.shape == b.shape and torch.equal(a, b)]
    assert not same


# loading


def closure(*modules: str) -> set[str]:
    """Files that Python reads when it imports these modules of the folder."""
    reached, waiting = set(), [f"{module}.py" for module in modules]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += [f"{module}.py" for dots, module, _ in imports_of(MODELS / name) if dots]
    return reached


def aligned(model):
    """The same numbers in fresh memory: where a file's tensors begin decides the last bit of a matrix product."""
    return copy.deepcopy(model)


def test_files_of_a_checkpoint(variant: str, tmp_path: Path) -> None:
    build(variant).save_pretrained(tmp_path)
    classes = WRAPPED[variant]
    modules = [one.__module__.rpartition(".")[2] for one in classes]
    code = closure(*modules)
    assert {path.name for path in tmp_path.iterdir()} == {
        "config.json",
        "generation_config.json",
        "model.safetensors",
        *code,
    }
    for name in code:
        assert (tmp_path / name).read_bytes() == (MODELS / name).read_bytes(), name
    assert json.loads((tmp_path / "config.json").read_text())["auto_map"] == {
        auto: f"{module}.{one.__name__}"
        for auto, module, one in zip(
            ("AutoConfig", "AutoModel", "AutoModelForSeq2SeqLM"), modules, classes, strict=True
        )
    }


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_round_trip_bit_for_bit(variant: str, dtype: torch.dtype, implementation: str, tmp_path: Path) -> None:
    model = build(variant).to(dtype)
    model.set_attn_implementation(implementation)
    model.save_pretrained(tmp_path)
    # built on the meta device: what is not stored and not computed in forward comes back as left-over memory
    loaded, loading = AutoModelForSeq2SeqLM.from_pretrained(
        tmp_path, attn_implementation=implementation, output_loading_info=True
    )
    assert type(loaded) is WRAPPED[variant][2]
    assert not any(loading.values())
    assert not loaded.training
    assert loaded.dtype == dtype
    for name, parameter in model.named_parameters():
        assert torch.equal(loaded.get_parameter(name), parameter), name
    assert (loaded.lm_head.weight is loaded.model.decoder.embed_tokens.weight) == model.config.tie_word_embeddings
    batch = ragged_batch(model.config)
    with torch.no_grad():
        assert torch.equal(aligned(loaded)(**batch).logits, model(**batch).logits)


def test_model_without_its_head(variant: str, tmp_path: Path) -> None:
    model = build(variant)
    model.save_pretrained(tmp_path)
    base = AutoModel.from_pretrained(tmp_path)
    assert type(base) is WRAPPED[variant][1]
    batch = ragged_batch(model.config)
    with torch.no_grad():
        expected = model.model(**batch)
        out = aligned(base)(**batch)
    assert torch.equal(out.last_hidden_state, expected.last_hidden_state)
    # and saved on its own
    base.save_pretrained(tmp_path / "base")
    again = AutoModel.from_pretrained(tmp_path / "base")
    with torch.no_grad():
        assert torch.equal(aligned(again)(**batch).last_hidden_state, expected.last_hidden_state)


def test_loss_of_offloaded_weights(variant: str) -> None:
    model = tiny_model(variant)
    batch = ragged_batch(model.config)
    del batch["decoder_input_ids"]
    assert_same_loss_offloaded(model, {**batch, "labels": ragged_labels(model.config)})


def test_truncated_checkpoint(variant: str, tmp_path: Path) -> None:
    build(variant).save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises((OSError, SafetensorError), match=r"[Ii]ncomplete|[Uu]nable|invalid|not fully covered"):
        AutoModelForSeq2SeqLM.from_pretrained(tmp_path)


def test_checkpoint_of_another_shape(tmp_path: Path) -> None:
    build("sysgen_transformer").save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    stored = load_file(path)
    name = "model.encoder.layers.1.feed_forward.fc1.weight"
    stored[name] = stored[name].T.contiguous()
    save_file(stored, path, metadata={"format": "pt"})
    with pytest.raises(RuntimeError, match="ignore_mismatched_sizes"):
        AutoModelForSeq2SeqLM.from_pretrained(tmp_path)


# tokens


def test_resizing_a_joint_vocabulary(variant: str, tmp_path: Path) -> None:
    model = build(variant, source_id_offset=0, source_vocab_size=SIZES["vocab_size"])
    old, new = SIZES["vocab_size"], SIZES["vocab_size"] + 6
    batch = ragged_batch(model.config)
    with torch.no_grad():
        expected = model(**batch).logits
        torch.manual_seed(0)
        resized = model.resize_token_embeddings(new)
        out = model(**batch).logits
    assert resized is model.model.encoder.embed_tokens
    assert out.shape[-1] == new
    torch.testing.assert_close(out[..., :old], expected, rtol=0.0, atol=1e-6)
    assert model.config.vocab_size == model.config.source_vocab_size == new
    for table in (model.model.encoder.embed_tokens, model.model.decoder.embed_tokens):
        assert table.weight.shape == (new, SIZES["hidden_size"])
    assert len(model.lm_head.weight) == new
    if model.lm_head.bias is not None:
        assert model.lm_head.bias.shape == (new,)
    assert (model.lm_head.weight is model.model.decoder.embed_tokens.weight) == model.config.tie_word_embeddings
    # new words can be read and written, and travel
    batch["input_ids"][:, 0] = batch["decoder_input_ids"][:, 1] = new - 1
    with torch.no_grad():
        loss = model(**batch, labels=torch.full_like(batch["decoder_input_ids"], new - 1)).loss
    assert loss.isfinite()
    model.save_pretrained(tmp_path)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    with torch.no_grad():
        assert torch.equal(aligned(loaded)(**batch).logits, aligned(model)(**batch).logits)
    # and fewer words are the first of them
    model.resize_token_embeddings(old - 2)
    assert model.config.vocab_size == model.config.source_vocab_size == old - 2
    assert len(model.lm_head.weight) == old - 2


def test_resizing_separate_vocabularies(variant: str) -> None:
    model = build(variant)
    with pytest.raises(ValueError, match=rf"{OFFSET}\b"):
        model.resize_token_embeddings(30)


# a stranger's process

STRANGER = """
for folder in sys.argv[1:]:
    batch = load_file(f"{folder}/batch.safetensors")
    source = {name: batch[name] for name in ("input_ids", "attention_mask")}
    # copied into aligned memory, which decides the last bit of a matrix product
    model = copy.deepcopy(AutoModelForSeq2SeqLM.from_pretrained(f"{folder}/saved", trust_remote_code=True))
    base = copy.deepcopy(AutoModel.from_pretrained(f"{folder}/saved", trust_remote_code=True))
    assert type(model).__module__.startswith("transformers_modules."), type(model)
    with torch.no_grad():
        found = {
            "logits": model(**batch).logits,
            "last_hidden_state": base(**batch).last_hidden_state,
            "greedy": model.generate(**source, max_new_tokens=STEPS),
            "beam": model.generate(**source, max_new_tokens=STEPS, num_beams=3).contiguous(),
        }
    save_file(found, f"{folder}/found.safetensors")
    model.save_pretrained(f"{folder}/again")
    base.save_pretrained(f"{folder}/base")
    with torch.no_grad():
        again = AutoModelForSeq2SeqLM.from_pretrained(f"{folder}/again", trust_remote_code=True)
        assert torch.equal(copy.deepcopy(again)(**batch).logits, found["logits"])
        again = AutoModel.from_pretrained(f"{folder}/base", trust_remote_code=True)
        assert torch.equal(copy.deepcopy(again)(**batch).last_hidden_state, found["last_hidden_state"])
""".replace("STEPS", str(STEPS))


@pytest.fixture(scope="module")
def travelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every variant, saved here and used by one process that cannot import the package."""
    folder = tmp_path_factory.mktemp("travel")
    for variant in WRAPPED:
        model = build(variant)
        batch = ragged_batch(model.config)
        (folder / variant).mkdir()
        save_file(batch, folder / variant / "batch.safetensors")
        model.save_pretrained(folder / variant / "saved")
    use_elsewhere(STRANGER, [folder / variant for variant in WRAPPED], tmp_path_factory.mktemp("elsewhere"))
    return folder


def test_checkpoint_travels(variant: str, travelled: Path) -> None:
    model = build(variant)
    folder = travelled / variant
    batch = load_file(folder / "batch.safetensors")
    source = {name: batch[name] for name in ("input_ids", "attention_mask")}
    found = load_file(folder / "found.safetensors")
    with torch.no_grad():
        assert torch.equal(found["logits"], model(**batch).logits)
        assert torch.equal(found["last_hidden_state"], model.model(**batch).last_hidden_state)
    assert torch.equal(found["greedy"], model.generate(**source, max_new_tokens=STEPS))
    assert torch.equal(found["beam"], model.generate(**source, max_new_tokens=STEPS, num_beams=3))


def test_checkpoint_saved_elsewhere_is_the_same(variant: str, travelled: Path) -> None:
    assert_same_files(travelled / variant / "saved", travelled / variant / "again")


# rules of the folder

FILES = sorted(path.name for path in MODELS.glob("*.py"))
EXPORTED = [name for name in FILES if name != "__init__.py"]
# huggingface_hub comes with transformers, whose own configuration files import the same decorator
ALLOWED = {"torch", "transformers", "huggingface_hub"}


def test_folder_is_flat() -> None:
    assert {path.name for path in MODELS.iterdir()} - {"__pycache__"} == set(FILES)


@pytest.mark.parametrize("name", EXPORTED)
def test_imports_can_travel(name: str) -> None:
    path = MODELS / name
    # what a stranger may lack stands inside `try`, where transformers does not look
    tries = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Try)]
    optional = {
        alias.name for node in tries for line in node.body if isinstance(line, ast.Import) for alias in line.names
    }
    siblings = set()
    for dots, module, _ in imports_of(path):
        if dots:
            assert dots == 1, f"{name}: only same-folder imports travel"
            assert f"{module}.py" in EXPORTED, f"{name}: from .{module} is no sibling"
            siblings.add(module)
        elif module not in optional:
            top = module.partition(".")[0]
            assert top in ALLOWED | sys.stdlib_module_names, f"{name}: a stranger may lack {module}"
    # transformers reads the text, docstrings included: both must see the same
    assert set(get_relative_imports(path)) == siblings
    assert set(get_imports(path)) <= ALLOWED | sys.stdlib_module_names
    check_imports(path)


@pytest.mark.parametrize("name", [name for name in EXPORTED if name.startswith(("modeling_", "configuration_"))])
def test_transformers_finds_every_sibling(name: str) -> None:
    found = {Path(path).name for path in get_relative_import_files(MODELS / name)}
    assert found == closure(name.removesuffix(".py")) - {name}
    if name.startswith("modeling_"):
        assert name.replace("modeling_", "configuration_") in found


def test_every_file_belongs_to_a_model() -> None:
    entries = [name.removesuffix(".py") for name in EXPORTED if name.startswith(("modeling_", "configuration_"))]
    assert closure(*entries) == set(EXPORTED)


SIZED = ("vocab_size", "source_vocab_size", "hidden_size", "encoder_layers", "decoder_layers", "num_hidden_layers",
         "intermediate_size", "num_attention_heads")  # fmt: skip


@pytest.mark.parametrize("config", CONFIGS.values(), ids=list(CONFIGS))
def test_sizes_are_at_least_one(config):
    for name in {field.name for field in dataclasses.fields(config)} & {*SIZED}:
        with pytest.raises(StrictDataclassClassValidationError, match=name):
            config(**{name: 0})
