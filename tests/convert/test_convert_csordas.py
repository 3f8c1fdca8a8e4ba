"""The authors' checkpoints give the authors' numbers; errors say why a checkpoint does not fit."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from hf_sysgen.convert.authors import from_authors
from hf_sysgen.convert.csordas import CSORDAS_VARIANTS
from hf_sysgen.models import SysgenTransformerConfig
from hf_sysgen.models.positions import EmbeddingInput, sinusoids

VARIANTS = list(CSORDAS_VARIANTS)
IMPLEMENTATIONS = ["eager", "sdpa"]
# the files' tolerance hints: float64 with the stored float32 sinusoids, and float32
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4}

SUBLAYERS = {
    "self_attn": "self_attn",
    "multihead_attn": "cross_attn",
    "linear1": "feed_forward.fc1",
    "linear2": "feed_forward.fc2",
}
NORMS = {
    ("encoder", "norm1"): "self_attn_norm",
    ("encoder", "norm2"): "feed_forward_norm",
    ("decoder", "norm1"): "self_attn_norm",
    ("decoder", "norm2"): "cross_attn_norm",
    ("decoder", "norm3"): "feed_forward_norm",
}


def load_golden(golden_dir: Path, variant: str) -> SimpleNamespace:
    folder = golden_dir / "csordas"
    tensors = load_file(folder / f"{variant}.safetensors")
    described = json.loads((folder / f"{variant}.json").read_text())
    lengths = tensors["d/enc_input_len"]
    ids = tensors["d/enc_input_ids"]
    return SimpleNamespace(
        tensors=tensors,
        weights={name[2:]: tensor for name, tensor in tensors.items() if name.startswith("w/")},
        gradients={name[2:]: tensor for name, tensor in tensors.items() if name.startswith("g/")},
        config={**described["config"], "variant": variant},
        source={"input_ids": ids, "attention_mask": (torch.arange(ids.shape[1]) < lengths[:, None]).long()},
        labels=tensors["d/dec_target_ids"].masked_fill(tensors["d/loss_mask"] == 0, -100),
    )


@pytest.fixture(scope="module", params=VARIANTS)
def golden(request: pytest.FixtureRequest, golden_dir: Path) -> SimpleNamespace:
    return load_golden(golden_dir, request.param)


@pytest.fixture(scope="module")
def relative(golden_dir: Path) -> SimpleNamespace:
    return load_golden(golden_dir, "relative")


def model_of(golden: SimpleNamespace, dtype: torch.dtype = torch.float64, implementation: str = "eager"):
    model = from_authors("csordas", {name: w.to(dtype) for name, w in golden.weights.items()}, golden.config)
    model.set_attn_implementation(implementation)
    return model


def read_as_theirs(name: str, ours: dict[str, torch.Tensor], config: dict) -> torch.Tensor:
    """The tensor of ours (a weight or a gradient) that their `name` stands for, in their layout."""
    table = {
        "input_embedding.weight": "model.encoder.embed_tokens.weight",
        "output_embedding.weight": "model.decoder.embed_tokens.weight",
        "output_map.bias": "lm_head.bias",
    }
    if name in table:
        return ours[table[name]]
    side, index, part, rest = re.fullmatch(r"trafo\.(encoder|decoder)\.layers?\.(?:(\d+)\.)?(\w+)\.(.+)", name).groups()
    layer = f"model.{side}.layers.{index or 0}"
    if part.startswith("norm"):
        return ours[f"{layer}.{NORMS[side, part]}.{rest}"]
    prefix = f"{layer}.{SUBLAYERS[part]}"
    width, heads = config["d_model"], config["heads"]
    size = width // heads
    if rest == "data_to_kv.weight":
        joined = "kv_proj" if part == "multihead_attn" else "qkv_proj"
        keys, values = ours[f"{prefix}.{joined}.weight"][-2 * width :].split(width)
        # one head after the other: its keys' rows, then its values' rows
        rows = [matrix[h * size : (h + 1) * size] for h in range(heads) for matrix in (keys, values)]
        return torch.cat(rows)
    if rest == "data_to_q.weight":
        joined = "q_proj" if part == "multihead_attn" else "qkv_proj"
        return ours[f"{prefix}.{joined}.weight"][:width]
    names = {
        "multi_head_merge.weight": "o_proj.weight",
        "pos_to_pq.weight": "pos_proj.weight",
        "global_content_bias": "u",
        "global_pos_bias": "v",
    }
    return ours[f"{prefix}.{names.get(rest, rest)}"]


def test_every_variant_has_a_file(golden_dir: Path) -> None:
    assert {path.stem for path in (golden_dir / "csordas").glob("*.safetensors")} == set(VARIANTS)


def test_weights_keep_their_values(golden: SimpleNamespace) -> None:
    model = model_of(golden, torch.float32)
    assert not model.training
    ours = dict(model.named_parameters())
    for name, weight in golden.weights.items():
        assert torch.equal(read_as_theirs(name, ours, golden.config), weight), name
    assert sum(w.numel() for w in golden.weights.values()) == sum(w.numel() for w in ours.values())


def test_sinusoids_bit_for_bit(golden: SimpleNamespace) -> None:
    if "b/pe" in golden.tensors:
        theirs = golden.tensors["b/pe"]
        positions = torch.arange(theirs.shape[0])
    else:
        theirs = golden.tensors["b/rel_pe"]
        positions = torch.arange(theirs.shape[0]) - theirs.shape[0] // 2
    assert theirs.shape[0] >= 40
    # stored with the scale of the variant; 1 / sqrt(16) is exact in binary
    scale = golden.config["d_model"] ** -0.5 if "scaledinit" in golden.config["variant"] else 1.0
    assert torch.equal(sinusoids(positions, golden.config["d_model"]) * scale, theirs)


@pytest.mark.parametrize("width", [16, 24, 128])
def test_scaled_sinusoids_are_float32_rows(width: int) -> None:
    """Also in a float64 model, and if 1 / sqrt(d) is not a binary fraction: the authors store scaled rows."""
    config = SysgenTransformerConfig(hidden_size=width, num_attention_heads=1, embedding_scaling="ped", dropout=0.0)
    added = EmbeddingInput(config)(torch.zeros(1, 41, width, dtype=torch.float64))[0]
    assert torch.equal(added, (sinusoids(torch.arange(41), width) * width**-0.5).double())


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_outputs(golden: SimpleNamespace, dtype: torch.dtype, implementation: str) -> None:
    model = model_of(golden, dtype, implementation)
    expected = {name[2:]: tensor.to(dtype) for name, tensor in golden.tensors.items() if name.startswith("o/")}
    close = {"rtol": 0.0, "atol": TOLERANCE[dtype]}
    with torch.no_grad():
        encoder = model.model.encoder
        embedded = encoder.embed_input(encoder.embed_tokens(golden.source["input_ids"]))
        torch.testing.assert_close(embedded, expected["enc_embedded"], **close)
        out = model(**golden.source, decoder_input_ids=golden.tensors["d/dec_input_ids"], labels=golden.labels)
    real = golden.source["attention_mask"].bool()
    torch.testing.assert_close(out.encoder_last_hidden_state[real], expected["enc_output"][real], **close)
    torch.testing.assert_close(out.logits, expected["tf_logits"], **close)
    torch.testing.assert_close(out.loss, expected["tf_loss"], **close)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_gradients(golden: SimpleNamespace, dtype: torch.dtype, implementation: str) -> None:
    model = model_of(golden, dtype, implementation)
    model(**golden.source, decoder_input_ids=golden.tensors["d/dec_input_ids"], labels=golden.labels).loss.backward()
    ours = {name: parameter.grad for name, parameter in model.named_parameters()}
    assert golden.gradients
    for name, gradient in golden.gradients.items():
        found = read_as_theirs(name, ours, golden.config).double()
        torch.testing.assert_close(found, gradient, rtol=0.0, atol=TOLERANCE[dtype], msg=lambda m, n=name: f"{n}: {m}")
    norm = torch.nn.utils.get_total_norm([gradient.double() for gradient in ours.values()])
    # in float32 relative: the norm adds up the errors of thousands of numbers, and is of the order of 1
    torch.testing.assert_close(norm, golden.tensors["o/grad_norm"], rtol=TOLERANCE[dtype], atol=0.0)


def test_labels_alone_make_their_decoder_input(golden: SimpleNamespace) -> None:
    """After the end of a row they feed EOS and zeros, we feed padding: the loss ignores both."""
    with torch.no_grad():
        loss = model_of(golden)(**golden.source, labels=golden.labels).loss
    torch.testing.assert_close(loss, golden.tensors["o/tf_loss"], rtol=0.0, atol=1e-10)


RUNS = ["greedy", "greedy_short", "greedy_long"]


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_generate(golden: SimpleNamespace, dtype: torch.dtype, run: str) -> None:
    theirs, lengths = golden.tensors[f"o/{run}_ids"], golden.tensors[f"o/{run}_len"]
    steps = theirs.shape[1]
    model = model_of(golden, dtype, "sdpa")
    ids = model.generate(**golden.source, max_new_tokens=steps, do_sample=False)
    start, end = model.config.decoder_start_token_id, model.config.eos_token_id
    assert (ids[:, 0] == start).all()
    for row, expected, length in zip(ids[:, 1:].tolist(), theirs.tolist(), lengths.tolist(), strict=True):
        ended = row.index(end) if end in row else len(row)
        assert ended == length
        # what they go on to feed after the end of a row means nothing
        assert row[: length + 1] == expected[: length + 1]
        assert all(token == model.config.pad_token_id for token in row[length + 1 :])


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("run", RUNS)
def test_cached_loop(golden: SimpleNamespace, run: str, implementation: str) -> None:
    """Feeding each argmax back, past the end of every row, as their loop does."""
    theirs = golden.tensors[f"o/{run}_ids"]
    model = model_of(golden, implementation=implementation)
    logits, tokens = [], torch.full((len(theirs), 1), model.config.decoder_start_token_id)
    encoded, cache = None, None
    with torch.no_grad():
        for _ in range(theirs.shape[1]):
            out = model(
                **(golden.source if encoded is None else {"attention_mask": golden.source["attention_mask"]}),
                encoder_outputs=encoded,
                decoder_input_ids=tokens,
                cache=cache,
                use_cache=True,
            )
            encoded, cache = (out.encoder_last_hidden_state,), out.cache
            logits.append(out.logits)
            tokens = out.logits.argmax(-1)
    logits = torch.cat(logits, dim=1)
    assert torch.equal(logits.argmax(-1), theirs)
    if run == "greedy":
        torch.testing.assert_close(logits, golden.tensors["o/greedy_logits"], rtol=0.0, atol=1e-10)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), golden.labels.flatten())
        torch.testing.assert_close(loss, golden.tensors["o/greedy_val_loss"], rtol=0.0, atol=1e-10)


def test_depths_of_the_two_stacks_may_differ(golden_dir: Path) -> None:
    universal = load_golden(golden_dir, "relative_universal")
    deeper = {**universal.config, "encoder_layers": 3, "decoder_layers": 5}
    model = from_authors("csordas", universal.weights, deeper)
    assert (model.model.encoder.depth, model.model.decoder.depth) == (3, 5)
    del deeper["encoder_layers"], deeper["decoder_layers"]
    model = from_authors("csordas", universal.weights, {**deeper, "layers": 7})
    assert (model.model.encoder.depth, model.model.decoder.depth) == (7, 7)


def test_untied_output(relative: SimpleNamespace) -> None:
    other = torch.randn(relative.weights["output_embedding.weight"].shape)
    weights = {**relative.weights, "output_map.weight": other}
    model = from_authors("csordas", weights, {**relative.config, "tied_embedding": False})
    assert torch.equal(model.lm_head.weight, other)
    assert torch.equal(model.model.decoder.embed_tokens.weight, relative.weights["output_embedding.weight"])
    # the same weights with a tied output: the file says one thing, the config another
    with pytest.raises(ValueError, match=r"'output_map\.weight'"):
        from_authors("csordas", weights, relative.config)


def test_layer_norm_epsilon(relative: SimpleNamespace) -> None:
    model = from_authors("csordas", relative.weights, {**relative.config, "layernorm_eps": 0.25})
    assert {module.eps for module in model.modules() if isinstance(module, torch.nn.LayerNorm)} == {0.25}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64], ids=str)
def test_dtype_is_the_tensors(relative: SimpleNamespace, dtype: torch.dtype) -> None:
    assert {parameter.dtype for parameter in model_of(relative, dtype).parameters()} == {dtype}


def test_their_buffers_are_left_out(golden: SimpleNamespace) -> None:
    """Their modules register these, so their checkpoints have them."""
    names = ("pos.pe", "int_seq", "trafo.decoder.layers.0.self_attn.pos_encoding")
    state_dict = {**golden.weights, **{name: torch.zeros(1, 5) for name in names}}
    model = from_authors("csordas", state_dict, golden.config)
    assert model.state_dict().keys() == model_of(golden).state_dict().keys()


def test_unknown_family(relative: SimpleNamespace) -> None:
    with pytest.raises(ValueError, match=r"'csordash'.*csordas"):
        from_authors("csordash", relative.weights, relative.config)


def test_arguments_of_another_kind(relative: SimpleNamespace) -> None:
    with pytest.raises(ValueError, match=r"'csordas'.*config.*NoneType"):
        from_authors("csordas", relative.weights, None)
    with pytest.raises(ValueError, match=r"'csordas'.*state_dict.*str"):
        from_authors("csordas", "model.pt", relative.config)


def test_unknown_variant(relative: SimpleNamespace) -> None:
    with pytest.raises(ValueError, match=r"'rel'.*'csordas'.*noscale, scaledinit"):
        from_authors("csordas", relative.weights, {**relative.config, "variant": "rel"})


@pytest.mark.parametrize("key", ["variant", "n_in", "n_out", "d_model", "ff", "heads"])
def test_missing_size(relative: SimpleNamespace, key: str) -> None:
    config = {name: value for name, value in relative.config.items() if name != key}
    with pytest.raises(ValueError, match=rf"'csordas'.*'{key}'"):
        from_authors("csordas", relative.weights, config)


def test_missing_depth(relative: SimpleNamespace) -> None:
    config = {name: value for name, value in relative.config.items() if "layers" not in name}
    with pytest.raises(ValueError, match=r"'csordas'.*layers'"):
        from_authors("csordas", relative.weights, config)


@pytest.mark.parametrize(
    ("missing", "named"),
    [
        ("trafo.decoder.layers.1.linear2.bias", "model.decoder.layers.1.feed_forward.fc2.bias"),
        ("trafo.encoder.layers.0.self_attn.data_to_q.weight", "trafo.encoder.layers.0.self_attn.data_to_q.weight"),
        ("trafo.encoder.layers.0.self_attn.data_to_kv.weight", "model.encoder.layers.0.self_attn.qkv_proj.weight"),
        ("output_embedding.weight", "model.decoder.embed_tokens.weight|output_embedding.weight"),
    ],
)
def test_missing_parameter(relative: SimpleNamespace, missing: str, named: str) -> None:
    weights = {name: weight for name, weight in relative.weights.items() if name != missing}
    with pytest.raises(ValueError, match=named):
        from_authors("csordas", weights, relative.config)


@pytest.mark.parametrize(
    "name",
    [
        "trafo.encoder.layers.0.self_attn.data_to_q.bias",
        "trafo.encoder.layers.0.self_attention.data_to_q.weight",
        "trafo.middle.layers.0.linear1.weight",
        "trafo.encoder.layers.0.norm3.weight",
        "trafo.encoder.layers.0.multihead_attn.data_to_q.weight",
        "pos_embedding.pe",
    ],
)
def test_unknown_parameter(relative: SimpleNamespace, name: str) -> None:
    with pytest.raises(ValueError, match=rf"'{name}'.*'csordas'"):
        from_authors("csordas", {**relative.weights, name: torch.zeros(1)}, relative.config)


def test_parameters_of_another_variant(golden_dir: Path, relative: SimpleNamespace) -> None:
    noscale = load_golden(golden_dir, "noscale")
    with pytest.raises(ValueError, match=r"[\s\S]*pos_proj"):
        from_authors("csordas", noscale.weights, relative.config)


@pytest.mark.parametrize("part", ["self_attn", "multihead_attn"])
def test_wrong_shape_of_keys_and_values(relative: SimpleNamespace, part: str) -> None:
    name = f"trafo.decoder.layers.0.{part}.data_to_kv.weight"
    weights = {**relative.weights, name: relative.weights[name].T.contiguous()}
    with pytest.raises(ValueError, match=rf"'{name}'.*\(16, 32\).*\(32, 16\)"):
        from_authors("csordas", weights, relative.config)


def test_wrong_shape(relative: SimpleNamespace) -> None:
    name = "trafo.encoder.layers.0.linear1.weight"
    weights = {**relative.weights, name: relative.weights[name].T.contiguous()}
    with pytest.raises(ValueError, match=r"[\s\S]*encoder.layers.0.feed_forward.fc1.weight"):
        from_authors("csordas", weights, relative.config)


def test_sizes_that_contradict_each_other(relative: SimpleNamespace) -> None:
    with pytest.raises(ValueError, match=r"'csordas'[\s\S]*hidden_size=17"):
        from_authors("csordas", relative.weights, {**relative.config, "d_model": 17})


def test_wrong_shape_of_what_is_joined(relative: SimpleNamespace) -> None:
    name = "trafo.encoder.layers.0.self_attn.data_to_q.weight"
    weights = {**relative.weights, name: relative.weights[name][:, :-1]}
    with pytest.raises(ValueError, match=r"'csordas'.*state_dict"):
        from_authors("csordas", weights, relative.config)


def test_wrong_number_of_words(relative: SimpleNamespace) -> None:
    with pytest.raises(ValueError, match=r"[\s\S]*encoder.embed_tokens.weight.*13.*14"):
        from_authors("csordas", relative.weights, {**relative.config, "n_in": 12})


def test_mixed_dtypes(relative: SimpleNamespace) -> None:
    name = "output_map.bias"
    weights = {**relative.weights, name: relative.weights[name].double()}
    with pytest.raises(ValueError, match=r"torch.float32.*torch.float64"):
        from_authors("csordas", weights, relative.config)
