"""fairseq's Transformer and the changes of Chaabouni et al. 2021: loop-only version, starts, counts, masks, sharing."""

from __future__ import annotations

import math

import pytest
import torch
from huggingface_hub.errors import StrictDataclassClassValidationError
from reference import fairseq_transformer as reference
from safetensors.torch import load_file, save_file
from test_initialisation import assert_drawn_from, constant, normal, uniform
from test_reference import copies
from tiny import FAIRSEQ, SIZES, SOURCE, VARIANTS, ragged_batch, ragged_labels, tiny_config, tiny_model
from transformers import AutoModel, AutoModelForSeq2SeqLM

from hf_sysgen.models import FairseqTransformerConfig, fairseq_attention
from hf_sysgen.models.fairseq_attention import T5SelfAttention
from hf_sysgen.models.positions import CountedEmbeddingInput, halved_sinusoids

CLOSE = {"rtol": 1e-11, "atol": 1e-12}
# 3 heads of 4 in the decoder, 2 of 3 in the encoder
OTHER_DECODER = {"decoder_hidden_size": 12, "decoder_attention_heads": 3, "decoder_intermediate_size": 11}
PRE_NORM = {"encoder_normalize_before": True, "decoder_normalize_before": True}
SHARED = {"share_all_embeddings": True, "tie_word_embeddings": True, "source_vocab_size": SIZES["vocab_size"]}


@pytest.fixture(params=FAIRSEQ)
def variant(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=["eager", "sdpa"])
def implementation(request: pytest.FixtureRequest) -> str:
    return request.param


# against loops


def table(position: int, width: int) -> torch.Tensor:
    """Our float32 rows, which `test_halved_sinusoids` checks: the rest is then compared to float64's last digits."""
    return halved_sinusoids(torch.tensor(position), width).double()


def parts(named: dict[str, torch.Tensor], prefix: str, names: tuple[str, ...]) -> dict[str, torch.Tensor]:
    """The parts of a fused projection and of its bias."""
    weights = named[f"{prefix}.weight"].chunk(len(names))
    biases = named[f"{prefix}.bias"].chunk(len(names))
    return dict(zip(names, weights, strict=True)) | {f"{n}_bias": b for n, b in zip(names, biases, strict=True)}


def reference_model(named: dict[str, torch.Tensor], config) -> dict:
    def norm(name: str) -> dict[str, torch.Tensor]:
        return {part: named[f"{name}.{part}"] for part in ("weight", "bias")}

    def layer(prefix: str) -> dict:
        if config.self_attention == "convolution":
            weights = {"kernel": named[f"{prefix}.self_attn.weight"], "kernel_bias": named[f"{prefix}.self_attn.bias"]}
        else:
            weights = parts(named, f"{prefix}.self_attn.qkv_proj", ("query", "key", "value"))
            weights |= parts(named, f"{prefix}.self_attn.o_proj", ("merge",))
        if config.self_attention == "t5":
            weights["distance"] = named[f"{prefix}.self_attn.distance_bias"]
        feed = parts(named, f"{prefix}.feed_forward.fc1", ("in",)) | parts(
            named, f"{prefix}.feed_forward.fc2", ("out",)
        )
        found = {"self_attention": weights, "feed_forward": feed, "self_norm": norm(f"{prefix}.self_attn_norm"),
                 "feed_forward_norm": norm(f"{prefix}.feed_forward_norm")}  # fmt: skip
        if config.self_attention_gate:
            found["gate"] = named[f"{prefix}.self_attn_gate.beta"]
        if f"{prefix}.cross_attn_norm.weight" in named:
            cross = parts(named, f"{prefix}.cross_attn.q_proj", ("query",))
            cross |= parts(named, f"{prefix}.cross_attn.kv_proj", ("key", "value"))
            found["cross_attention"] = cross | parts(named, f"{prefix}.cross_attn.o_proj", ("merge",))
            found["cross_norm"] = norm(f"{prefix}.cross_attn_norm")
        return found

    source_rows = named["model.encoder.embed_tokens.weight"]
    # one parameter has one name
    rows = named.get("model.decoder.embed_tokens.weight", source_rows)
    model = {
        "source_rows": source_rows,
        "target_rows": rows,
        "output": named.get("lm_head.weight", rows),
    }
    for side, depth in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        model[side] = [layer(f"model.{side}.layers.{0 if config.share_layers else d}") for d in range(depth)]
        if f"model.{side}.final_norm.weight" in named:
            model[f"{side}_norm"] = norm(f"model.{side}.final_norm")
    return model


def reference_options(config) -> dict:
    def side(is_decoder: bool) -> dict:
        settings = config.stack_settings(is_decoder)
        heads, before = settings.num_attention_heads, settings.normalize_before
        return {"heads": heads, "causal": is_decoder, "before": before}

    return {
        "encoder": side(False),
        "decoder": side(True),
        "kind": config.self_attention,
        "span": config.attention_span,
        "shifted": config.causal_convolution == "shifted",
        "epsilon": config.layer_norm_eps,
        "table": table,
    }


CASES = [
    *((name, {}) for name in FAIRSEQ),
    ("fairseq_transformer", {**PRE_NORM, **OTHER_DECODER}),
    ("sag_transformer", {"decoder_normalize_before": True, "share_layers": True, "layer_norm_eps": 1e-2}),
    ("sag_t5_transformer", {**PRE_NORM, **SHARED, "attention_span": 3}),
    ("sag_t5_transformer", {**OTHER_DECODER, "share_layers": True}),
    ("sag_fixed_span_transformer", {"encoder_normalize_before": True, "attention_span": 1, "source_id_offset": 3}),
    ("sag_conv_transformer", {"convolution_groups": "full", "causal_convolution": "truncated", **OTHER_DECODER}),
    ("sag_conv_transformer", {**PRE_NORM, "attention_span": 1, "tie_word_embeddings": True}),
]


@pytest.mark.parametrize(("name", "changes"), CASES, ids=str)
def test_whole_model(name: str, changes: dict) -> None:
    """A batch with padding on both sides against one sample after the other: loss and all gradients."""
    model = tiny_model(name, **changes)
    config = model.config
    rows = torch.tensor([0, 2, 3, 4])
    batch, labels = ragged_batch(config), ragged_labels(config)[rows, :7]
    ids, mask = batch["input_ids"][rows], batch["attention_mask"][rows]
    # two rows are left-padded, one is right-padded
    mask[[1, 3]] = mask[[1, 3]].flip(1)
    out = model(input_ids=ids, attention_mask=mask, labels=labels)
    loss = torch.nn.functional.cross_entropy(out.logits.flatten(0, 1), labels.flatten(), label_smoothing=0.1)
    loss.backward()

    named = copies(model)
    weights, options = reference_model(named, config), reference_options(config)
    samples = []
    for source, real, target in zip(ids, mask.bool(), labels, strict=True):
        words = [token - config.source_id_offset for token in source[real].tolist()]
        samples.append((words, target[target != -100].tolist(), config.decoder_start_token_id))
    expected = reference.smoothed_loss(samples, weights, options, 0.1)
    expected.backward()
    torch.testing.assert_close(loss, expected, **CLOSE)
    ahead = 0
    for parameter_name, parameter in model.named_parameters():
        theirs = named[parameter_name].grad
        assert theirs.abs().max() > 1e-9, parameter_name
        message = lambda text, n=parameter_name: f"{n}: {text}"  # noqa: E731
        torch.testing.assert_close(parameter.grad, theirs, **CLOSE, msg=message)
        if "decoder" in parameter_name and "distance_bias" in parameter_name:
            ahead += 1
            assert (parameter.grad[:, config.attention_span + 1 :] == 0).all()
    assert ahead == (len(model.model.decoder.layers) if config.self_attention == "t5" else 0)


def test_halved_sinusoids() -> None:
    positions = torch.arange(2, 1000, 7)
    ours = halved_sinusoids(positions, 22)
    assert ours.dtype == torch.float32
    expected = torch.stack([reference.sinusoid(position, 22) for position in positions.tolist()])
    # the angle is a float32 product: position * frequency, each with a rounding error of a few 2^-24
    assert ((ours.double() - expected).abs() <= (positions[:, None] + 1) * 4 * 2.0**-24).all()


def test_positions_count_what_is_real() -> None:
    config = tiny_config("fairseq_transformer", dropout=0.0)
    module = CountedEmbeddingInput(config, False)
    width = config.hidden_size
    embeddings = torch.zeros(3, 5, width)
    mask = torch.tensor([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1], [1, 0, 1, 1, 0]])
    counts = torch.tensor([[2, 3, 4, 5, 6], [0, 0, 2, 3, 4], [2, 0, 3, 4, 0]])
    expected = halved_sinusoids(counts, width) * mask[..., None]
    assert torch.equal(module(embeddings, 0, mask), expected)
    # later columns of a longer mask, and the mask that is made of it
    assert torch.equal(module(embeddings[:, :2], 3, mask), expected[:, 3:])
    seen = mask.bool()[:, None, None, :] & torch.ones(5, 5, dtype=torch.bool).tril()
    additive = torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)
    for four in (seen, additive):
        assert torch.equal(module(embeddings, 0, four), expected)
    later = halved_sinusoids(torch.arange(6, 11), width).expand(3, -1, -1)
    assert torch.equal(module(embeddings, torch.tensor(4)), later)
    # what is added to is scaled
    assert torch.equal(module(embeddings + 1, 0, mask), expected + math.sqrt(width))


def test_one_answer_by_hand(implementation: str) -> None:
    """
    Two tokens, one head, no queries: only biases count. A key at distance +1 gains ln 3 and one at -1 loses ln 4, so
    the first token reads 1 part of itself and 3 of the next, the second 1/4 part of the first and 1 of itself.
    """
    config = FairseqTransformerConfig(
        hidden_size=4, num_attention_heads=1, intermediate_size=3, self_attention="t5", attention_span=1
    )
    config._attn_implementation = implementation
    module = T5SelfAttention(config, is_causal=False).double().eval()
    with torch.no_grad():
        module.qkv_proj.weight.copy_(torch.cat((torch.zeros(8, 4), torch.eye(4))))
        module.qkv_proj.bias.zero_()
        module.o_proj.weight.copy_(torch.eye(4))
        module.o_proj.bias.zero_()
        module.distance_bias.copy_(torch.tensor([[-math.log(4), 0.0, math.log(3)]], dtype=torch.float64))
    hidden = torch.tensor([[[4.0, 0, 0, 0], [0, 20.0, 0, 0]]], dtype=torch.float64)
    output, _ = module(hidden, None, module.position_keys(hidden, 2, 0))
    expected = torch.tensor([[[1.0, 15.0, 0, 0], [0.8, 16.0, 0, 0]]], dtype=torch.float64)
    torch.testing.assert_close(output, expected, **CLOSE)


# masks


def test_left_and_right_padding_are_one(variant: str, implementation: str) -> None:
    model = tiny_model(variant)
    model.set_attn_implementation(implementation)
    batch = ragged_batch(model.config)
    lengths = batch["attention_mask"].sum(1).tolist()
    left = {"input_ids": torch.full((5, SOURCE + 9), 5), "attention_mask": torch.zeros(5, SOURCE + 9, dtype=torch.long)}
    for row, length in enumerate(lengths):
        left["input_ids"][row, -length:] = batch["input_ids"][row, :length]
        left["attention_mask"][row, -length:] = 1
    with torch.no_grad():
        expected = model(**batch)
        found = model(**left, decoder_input_ids=batch["decoder_input_ids"])
    torch.testing.assert_close(found.logits, expected.logits, **CLOSE)
    assert found.encoder_last_hidden_state.isfinite().all()
    for row, length in enumerate(lengths):
        theirs = found.encoder_last_hidden_state[row, -length:]
        torch.testing.assert_close(theirs, expected.encoder_last_hidden_state[row, :length], **CLOSE)
    greedy = model.generate(**{k: v for k, v in batch.items() if k != "decoder_input_ids"}, max_new_tokens=7)
    assert torch.equal(model.generate(**left, max_new_tokens=7), greedy)


def test_left_padded_targets(variant: str, implementation: str) -> None:
    """A mask of earlier columns holds in cached decoding, where columns and positions differ."""
    model = tiny_model(variant)
    model.set_attn_implementation(implementation)
    batch = ragged_batch(model.config)
    target = batch.pop("decoder_input_ids")
    padded = torch.cat((torch.full((5, 4), 3), target), dim=1)
    mask = torch.cat((torch.zeros(5, 4), torch.ones(target.shape)), dim=1).long()
    logits, cache = [], None
    with torch.no_grad():
        expected = model(**batch, decoder_input_ids=target).logits
        whole = model(**batch, decoder_input_ids=padded, decoder_attention_mask=mask).logits
        end = 0
        for piece in padded.split([6, 1, 1, 7], dim=1):
            end += piece.shape[1]
            out = model(**batch, decoder_input_ids=piece, decoder_attention_mask=mask[:, :end], cache=cache,
                        use_cache=True)  # fmt: skip
            cache = out.cache
            logits.append(out.logits)
    torch.testing.assert_close(whole[:, 4:], expected, **CLOSE)
    torch.testing.assert_close(torch.cat(logits, dim=1)[:, 4:], expected, **CLOSE)


@pytest.mark.parametrize("name", ["sag_fixed_span_transformer", "sag_conv_transformer"])
def test_windows_of_padding_read_zeros(name: str, implementation: str) -> None:
    config = tiny_config(name, attention_span=1)
    config._attn_implementation = implementation
    module = tiny_model(name, attention_span=1).model.encoder.layers[0].self_attn
    module.config = config
    hidden = torch.randn(2, SOURCE, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    hidden.requires_grad_()
    real = torch.tensor([[0, 0, 0, 0, 1, 1, 1], [0] * 7]).bool()
    keys = module.position_keys(hidden, SOURCE, 0)
    output, weights = module(hidden, real[:, None, None].expand(-1, 1, SOURCE, -1), keys)
    nothing = module.bias if name == "sag_conv_transformer" else module.o_proj.bias
    blind = torch.tensor([[1, 1, 1, 0, 0, 0, 0], [1] * 7]).bool()
    torch.testing.assert_close(output[blind], nothing.expand(10, -1), **CLOSE)
    assert ((output[~blind] - nothing).abs().amax(-1) > 1e-3).all()
    if weights is not None:
        assert (weights.transpose(1, 2)[blind] == 0).all()
    output.sum().backward()
    assert hidden.grad.isfinite().all()
    assert (hidden.grad[~real] == 0).all()


@pytest.mark.parametrize("name", ["sag_fixed_span_transformer", "sag_t5_transformer"])
def test_distances_are_computed_once_in_a_stack(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    original = fairseq_attention.signed_distances
    monkeypatch.setattr(fairseq_attention, "signed_distances", lambda *args: calls.append(args) or original(*args))
    model = tiny_model(name)
    assert len(model.model.encoder.layers) > 1
    model(**ragged_batch(model.config))
    assert len(calls) == 2


@pytest.mark.parametrize(("name", "reach"), [("sag_fixed_span_transformer", 2), ("sag_conv_transformer", 4)])
def test_one_layer_reaches_no_further(name: str, reach: int) -> None:
    """A target word changes the logits of the next `reach` positions only, with and without a cache."""
    model = tiny_model(name, decoder_layers=1)
    batch = ragged_batch(model.config)
    other = batch["decoder_input_ids"].clone()
    other[:, 2] = (other[:, 2] + 1) % model.config.vocab_size
    with torch.no_grad():
        first, second = model(**batch).logits, model(**{**batch, "decoder_input_ids": other}).logits
    changed = (first - second).abs().amax((0, 2)) > 1e-9
    assert changed.tolist() == [2 <= position <= 2 + reach for position in range(11)]


# starts and counts

D, DECODER, FF, SOURCE_ROWS, TARGET_ROWS = 130, 88, 218, 331, 277
WIDE = {
    "hidden_size": D,
    "num_attention_heads": 5,
    "intermediate_size": FF,
    "source_vocab_size": SOURCE_ROWS,
    "vocab_size": TARGET_ROWS,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "attention_span": 6,
    "encoder_gate_start": -2.0,
    "decoder_gate_start": 1,
    **PRE_NORM,
}
PAD = 7


def expected_start(name: str, config) -> tuple[str, float]:
    decoder = "decoder" in name or "lm_head" in name
    width = config.decoder_hidden_size if decoder else config.hidden_size
    part = name.rpartition("layers.")[2][2:]
    same = config.decoder_hidden_size == config.hidden_size
    if "embed_tokens" in name or name == "lm_head.weight":
        return normal(1 / math.sqrt(width))
    if part == "self_attn_gate.beta":
        return constant(config.decoder_gate_start if decoder else config.encoder_gate_start)
    if "norm" in name:
        return constant(1.0 if name.endswith("weight") else 0.0)
    gain = math.sqrt(0.5) if same else 1.0
    fan_in = config.hidden_size if "kv_proj" in part else width
    one_channel = config.convolution_groups == "depthwise"
    kernel = 1 / math.sqrt(13 * (1 if one_channel else width))
    return {
        "self_attn.qkv_proj.weight": uniform(math.sqrt(3 / (2 * width))),
        "self_attn.qkv_proj.bias": uniform(1 / math.sqrt(width)),
        "self_attn.o_proj.weight": uniform(math.sqrt(3 / width)),
        "self_attn.o_proj.bias": constant(0.0),
        "self_attn.distance_bias": normal(1.0) if config.t5_bias_init == "normal" else constant(0.0),
        "self_attn.weight": uniform(kernel),
        "self_attn.bias": uniform(kernel),
        "cross_attn.q_proj.weight": uniform(gain * math.sqrt(3 / width)),
        "cross_attn.q_proj.bias": uniform(1 / math.sqrt(width)),
        "cross_attn.kv_proj.weight": uniform(gain * math.sqrt(6 / (width + fan_in))),
        "cross_attn.kv_proj.bias": uniform(1 / math.sqrt(fan_in)),
        "cross_attn.o_proj.weight": uniform(math.sqrt(3 / width)),
        "cross_attn.o_proj.bias": constant(0.0),
        "feed_forward.fc1.weight": uniform(1 / math.sqrt(width)),
        "feed_forward.fc1.bias": uniform(1 / math.sqrt(width)),
        "feed_forward.fc2.weight": uniform(1 / math.sqrt(FF)),
        "feed_forward.fc2.bias": uniform(1 / math.sqrt(FF)),
    }[part]


def assert_starts_as_expected(model, but: tuple[str, ...] = ()) -> None:
    for name, parameter in model.named_parameters():
        if name not in but:
            assert_drawn_from(name, parameter, *expected_start(name, model.config))


STARTS = [
    *((name, {}) for name in FAIRSEQ),
    ("sag_t5_transformer", {"t5_bias_init": "zeros", "decoder_hidden_size": DECODER, "decoder_attention_heads": 4}),
    ("sag_conv_transformer", {"convolution_groups": "full"}),
]


@pytest.mark.parametrize(("name", "changes"), STARTS, ids=str)
def test_start_of_every_weight(name: str, changes: dict) -> None:
    torch.manual_seed(1)
    assert_starts_as_expected(VARIANTS[name][2](tiny_config(name, **WIDE, **changes)))


def test_start_of_what_a_checkpoint_lacks(variant: str, tmp_path) -> None:
    """Loading happens on the meta device: a parameter that nobody starts would be left-over memory."""
    VARIANTS[variant][2](tiny_config(variant, **WIDE)).save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    kept = "model.decoder.layers.0.feed_forward.fc1.bias"
    save_file({kept: torch.full_like(load_file(path)[kept], 3.5)}, path, metadata={"format": "pt"})
    torch.manual_seed(2)
    model = VARIANTS[variant][2].from_pretrained(tmp_path)
    assert (model.get_parameter(kept) == 3.5).all()
    assert_starts_as_expected(model, but=(kept,))


def test_padding_starts_as_zeros_where_it_has_an_id(tmp_path) -> None:
    build = VARIANTS["fairseq_transformer"][2]
    model = build(tiny_config("fairseq_transformer", pad_token_id=7, source_id_offset=3))
    source, target = model.model.encoder.embed_tokens.weight, model.model.decoder.embed_tokens.weight
    assert [row for row, numbers in enumerate(source) if (numbers == 0).all()] == [4]
    assert [row for row, numbers in enumerate(target) if (numbers == 0).all()] == [7]
    # a loaded row is not started again
    with torch.no_grad():
        target.fill_(2.0)
    model.save_pretrained(tmp_path)
    assert (build.from_pretrained(tmp_path).model.decoder.embed_tokens.weight == 2.0).all()
    # the symbol that ends a target is a word like others
    ends = build(tiny_config("fairseq_transformer", pad_token_id=7, eos_token_id=7))
    assert (ends.model.decoder.embed_tokens.weight[7] != 0).all()


def count(variant: str, **sizes) -> int:
    with torch.device("meta"):
        model = VARIANTS[variant][2](tiny_config(variant, **sizes))
    return sum(parameter.numel() for parameter in model.parameters())


def test_number_of_parameters() -> None:
    """What each change adds, as section 3 says it."""
    sizes = {"hidden_size": 128, "intermediate_size": 256, "num_attention_heads": 4, "attention_span": 2}
    plain, gated = count("fairseq_transformer", **sizes), count("sag_transformer", **sizes)
    layers, width, heads, taps = 5, 128, 4, 5
    assert gated == plain + layers
    assert count("sag_fixed_span_transformer", **sizes) == gated
    assert count("sag_t5_transformer", **sizes) == gated + taps * layers * heads
    projections = 4 * width**2 + 4 * width
    depthwise = count("sag_conv_transformer", **sizes)
    assert depthwise == gated - layers * projections + layers * (taps * width + width)
    assert depthwise < gated
    full = count("sag_conv_transformer", **sizes, convolution_groups="full")
    assert full == gated - layers * projections + layers * (taps * width**2 + width)
    assert full > gated
    # a truncated decoder has the taps of a fixed span
    truncated = count("sag_conv_transformer", **sizes, causal_convolution="truncated")
    assert truncated == depthwise - SIZES["decoder_layers"] * 2 * width


def test_number_of_parameters_of_transformer_iwslt_de_en() -> None:
    """6 + 6 layers of 512, 1024 and 4 heads, counted by hand; the decoder's table is also the output."""
    attention, feed, norm = 4 * (512 * 512 + 512), 2 * 512 * 1024 + 1024 + 512, 2 * 512
    encoder, decoder = attention + feed + 2 * norm, 2 * attention + feed + 3 * norm
    sizes = {"hidden_size": 512, "intermediate_size": 1024, "num_attention_heads": 4, "encoder_layers": 6,
             "decoder_layers": 6, "source_vocab_size": 8848, "vocab_size": 6632}  # fmt: skip
    expected = 6 * (encoder + decoder) + 512 * (8848 + 6632)
    assert count("fairseq_transformer", **sizes, tie_word_embeddings=True) == expected
    assert count("fairseq_transformer", **sizes) == expected + 512 * 6632
    pre_norm = count("fairseq_transformer", **sizes, **PRE_NORM)
    assert pre_norm == expected + 512 * 6632 + 2 * norm


# one table


def test_shared_tables_are_stored_once(tmp_path) -> None:
    model = tiny_model("sag_t5_transformer", **SHARED).float()
    table = model.model.decoder.embed_tokens.weight
    assert model.model.encoder.embed_tokens.weight is table
    assert model.lm_head.weight is table
    model.save_pretrained(tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    assert sum(t.numel() for t in stored.values()) == sum(p.numel() for p in model.parameters())
    assert [name for name in stored if "embed" in name or "lm_head" in name] == ["model.decoder.embed_tokens.weight"]
    batch = ragged_batch(model.config)
    loaded, base = AutoModelForSeq2SeqLM.from_pretrained(tmp_path), AutoModel.from_pretrained(tmp_path)
    for found in (loaded.model, base):
        assert found.encoder.embed_tokens.weight is found.decoder.embed_tokens.weight
    with torch.no_grad():
        expected = model(**batch)
        torch.testing.assert_close(loaded(**batch).logits, expected.logits)
        torch.testing.assert_close(base(**batch).encoder_last_hidden_state, expected.encoder_last_hidden_state)
    model.resize_token_embeddings(23)
    table = model.model.decoder.embed_tokens.weight
    assert table.shape == (23, 6)
    assert model.model.encoder.embed_tokens.weight is table
    assert model.lm_head.weight is table


# configurations


def test_decoder_is_as_wide_as_the_encoder_unless_told() -> None:
    config = FairseqTransformerConfig(hidden_size=24, intermediate_size=7, num_attention_heads=3)
    assert config.stack_settings(True)[:3] == config.stack_settings(False)[:3] == (24, 7, 3)
    config = FairseqTransformerConfig(decoder_hidden_size=24, decoder_intermediate_size=7, decoder_attention_heads=3)
    assert config.stack_settings(True)[:4] == (24, 7, 3, 8)
    assert config.stack_settings(False)[:4] == (128, 256, 4, 32)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"decoder_hidden_size": 10}, "decoder_hidden_size=10 .*decoder_attention_heads=4"),
        ({"decoder_hidden_size": 2, "decoder_attention_heads": 1}, "decoder_hidden_size=2 must be at least 4"),
        ({"attention_span": 0}, "attention_span=0 must be at least 1"),
        ({"attention_dropout": 1.0}, r"attention_dropout=1.0 must be in \[0, 1\)"),
        ({"activation_dropout": -1}, r"activation_dropout=-1 must be in \[0, 1\)"),
        ({"share_all_embeddings": True}, "share_all_embeddings=True needs tie_word_embeddings=True, not False"),
        (
            {"share_all_embeddings": True, "tie_word_embeddings": True},
            "share_all_embeddings=True needs source_vocab_size=7, not 14",
        ),
    ],
    ids=str,
)
def test_contradictions_are_refused(changes: dict, message: str) -> None:
    with pytest.raises(StrictDataclassClassValidationError, match=message):
        FairseqTransformerConfig(**changes)


def test_padding_that_is_one_of_several_ends_has_a_row() -> None:
    settings = tiny_config("fairseq_transformer", pad_token_id=7, eos_token_id=[3, 7]).stack_settings(True)
    assert settings.zero_id is None
    assert tiny_config("fairseq_transformer", pad_token_id=7, eos_token_id=[3, 5]).stack_settings(True).zero_id == 7
