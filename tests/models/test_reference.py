"""Every mechanism equals its loop-only version, outputs and all gradients, and one answer computed by hand."""

from __future__ import annotations

import math

import pytest
import torch
from reference import sysgen_transformer as reference
from tiny import BATCH, CSORDAS, SIZES, SOURCE, TARGET, ragged_batch, ragged_labels, scatter_weights, tiny_config
from tiny import tiny_model as build
from torch import nn

from hf_sysgen.models.attention import CrossAttention, SelfAttention, softmax
from hf_sysgen.models.layers import DecoderLayer, EncoderLayer, FeedForward
from hf_sysgen.models.positions import sinusoids
from hf_sysgen.models.relative_attention import RelativeSelfAttention, align_distances

HEADS, WIDTH = SIZES["num_attention_heads"], SIZES["hidden_size"]
LENGTHS = [SOURCE, 2, 5, 3, 1]
# sums of at most a few hundred float64 numbers, several layers deep
CLOSE = {"rtol": 1e-11, "atol": 1e-12}


def table(position: int, width: int, scale: float = 1.0) -> torch.Tensor:
    """
    Our float32 rows, scaled as such, which `test_sinusoids` checks: the rest is then compared to float64's last digits.
    """
    return (sinusoids(torch.tensor([position]), width)[0] * scale).double()


def options_of(config) -> dict:
    return {
        "heads": config.num_attention_heads,
        "relative": config.position_scheme == "relative",
        "scaling": config.embedding_scaling,
        "score_width": config.hidden_size if config.attention_scale == "hidden_size" else None,
        "epsilon": config.layer_norm_eps,
        "table": table,
    }


# our parameters, read into the reference's dictionaries


def self_attention_weights(named: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    query, key, value = named[f"{prefix}qkv_proj.weight"].split(WIDTH)
    weights = {"query": query, "key": key, "value": value, "merge": named[f"{prefix}o_proj.weight"]}
    if f"{prefix}u" in named:
        position = named[f"{prefix}pos_proj.weight"]
        weights |= {"position": position, "u": named[f"{prefix}u"], "v": named[f"{prefix}v"]}
    return weights


def cross_attention_weights(named: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    key, value = named[f"{prefix}kv_proj.weight"].split(WIDTH)
    merge = named[f"{prefix}o_proj.weight"]
    return {"query": named[f"{prefix}q_proj.weight"], "key": key, "value": value, "merge": merge}


def feed_forward_weights(named: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    names = {"in": "fc1.weight", "in_bias": "fc1.bias", "out": "fc2.weight", "out_bias": "fc2.bias"}
    return {name: named[prefix + ours] for name, ours in names.items()}


def layer_weights(named: dict[str, torch.Tensor], prefix: str) -> dict[str, dict]:
    def norm(name: str) -> dict[str, torch.Tensor]:
        return {part: named[f"{prefix}{name}.{part}"] for part in ("weight", "bias")}

    layer = {
        "self_attention": self_attention_weights(named, f"{prefix}self_attn."),
        "self_norm": norm("self_attn_norm"),
        "feed_forward": feed_forward_weights(named, f"{prefix}feed_forward."),
        "feed_forward_norm": norm("feed_forward_norm"),
    }
    if f"{prefix}cross_attn.o_proj.weight" in named:
        layer["cross_attention"] = cross_attention_weights(named, f"{prefix}cross_attn.")
        layer["cross_norm"] = norm("cross_attn_norm")
    return layer


def model_weights(named: dict[str, torch.Tensor], config) -> dict:
    def layers(side: str, depth: int) -> list[dict]:
        return [layer_weights(named, f"model.{side}.layers.{0 if config.share_layers else d}.") for d in range(depth)]

    target_rows = named["model.decoder.embed_tokens.weight"]
    return {
        "source_rows": named["model.encoder.embed_tokens.weight"],
        "target_rows": target_rows,
        "output": target_rows if config.tie_word_embeddings else named["lm_head.weight"],
        "output_bias": named["lm_head.bias"],
        "encoder": layers("encoder", config.encoder_layers),
        "decoder": layers("decoder", config.decoder_layers),
    }


def copies(module: nn.Module) -> dict[str, torch.Tensor]:
    """Our parameters as leaves of another graph."""
    return {name: parameter.detach().clone().requires_grad_() for name, parameter in module.named_parameters()}


def prepare(module: nn.Module) -> nn.Module:
    return scatter_weights(module.double()).eval()


def states(length: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(BATCH, length, WIDTH, generator=generator, dtype=torch.float64, requires_grad=True)


def same_gradients(
    ours: torch.Tensor, theirs: torch.Tensor, module: nn.Module, named: dict, inputs: list[tuple] | None = None
) -> None:
    """Compares outputs, then pulls one random direction back to every parameter and input of both graphs."""
    torch.testing.assert_close(ours, theirs, **CLOSE)
    direction = torch.randn(ours.shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    (ours * direction).sum().backward()
    (theirs * direction).sum().backward()
    pairs = [(name, parameter.grad, named[name].grad) for name, parameter in module.named_parameters()]
    pairs += [(f"input {i}", mine.grad, other.grad) for i, (mine, other) in enumerate(inputs or [])]
    for name, mine, other in pairs:
        assert other.abs().max() > 1e-6, f"{name} is not used: the comparison would say nothing"
        torch.testing.assert_close(mine, other, **CLOSE, msg=lambda message, n=name: f"{n}: {message}")


def allowed(causal: bool, queries: int, keys: int, lengths: list[int] | None) -> torch.Tensor:
    """Boolean mask (BATCH, 1, queries, keys), True = attend."""
    mask = torch.ones(BATCH, 1, queries, keys, dtype=torch.bool)
    if lengths is not None:
        mask &= (torch.arange(keys) < torch.tensor(lengths)[:, None])[:, None, None]
    return mask.tril() if causal else mask


def real_rows(batched: torch.Tensor, lengths: list[int] | None) -> torch.Tensor:
    """(BATCH, L, ...) -> all rows of real positions, one sample after the other."""
    if lengths is None:
        return batched.flatten(0, 1)
    return torch.cat([sample[:length] for sample, length in zip(batched, lengths, strict=True)])


@pytest.fixture(params=["eager", "sdpa"])
def implementation(request: pytest.FixtureRequest) -> str:
    return request.param


def attention_config(implementation: str, variant: str = "sysgen_transformer", **changes):
    config = tiny_config(variant, **changes)
    config._attn_implementation = implementation
    return config


def test_sinusoids() -> None:
    width = 22
    positions = list(range(-1009, 1010, 3))
    ours = sinusoids(torch.tensor(positions), width)
    assert ours.dtype == torch.float32
    expected = torch.stack([reference.sinusoid(position, width) for position in positions])
    # the angle is a float32 product: position * frequency, each with a rounding error of a few 2^-24
    allowance = (torch.tensor(positions).abs()[:, None] + 1) * 4 * 2.0**-24
    assert ((ours.double() - expected).abs() <= allowance).all()


@pytest.mark.parametrize("scale", ["head_dim", "hidden_size"])
@pytest.mark.parametrize("causal", [False, True], ids=["both ways", "causal"])
def test_absolute_self_attention(implementation: str, causal: bool, scale: str) -> None:
    module = prepare(SelfAttention(attention_config(implementation, attention_scale=scale), is_causal=causal))
    hidden, lengths = states(SOURCE), None if causal else LENGTHS
    ours, _ = module(hidden, allowed(causal, SOURCE, SOURCE, lengths))
    named, other = copies(module), hidden.detach().clone().requires_grad_()
    score_width = WIDTH if scale == "hidden_size" else None
    theirs = [
        torch.stack(
            reference.absolute_attention(
                list(sample[:length]), list(sample[:length]), self_attention_weights(named, ""), HEADS, causal,
                score_width,
            )
        )
        for sample, length in zip(other, lengths or [SOURCE] * BATCH, strict=True)
    ]  # fmt: skip
    same_gradients(real_rows(ours, lengths), torch.cat(theirs), module, named, [(hidden, other)])


@pytest.mark.parametrize("scale", ["head_dim", "hidden_size"])
@pytest.mark.parametrize("causal", [False, True], ids=["both ways", "causal"])
def test_relative_self_attention(implementation: str, causal: bool, scale: str) -> None:
    config = attention_config(implementation, "relative_transformer", attention_scale=scale)
    module = prepare(RelativeSelfAttention(config, is_causal=causal))
    hidden, lengths = states(SOURCE), None if causal else LENGTHS
    mask = allowed(causal, SOURCE, SOURCE, lengths)
    ours, _ = module(hidden, mask, module.position_keys(hidden, SOURCE, 0))
    # an additive mask says the same
    additive = torch.zeros(mask.shape, dtype=torch.float64).masked_fill(~mask, torch.finfo(torch.float64).min)
    same, _ = module(hidden, additive, module.position_keys(hidden, SOURCE, 0))
    torch.testing.assert_close(same, ours, **CLOSE)
    named, other = copies(module), hidden.detach().clone().requires_grad_()
    score_width = WIDTH if scale == "hidden_size" else None
    theirs = [
        torch.stack(
            reference.relative_attention(
                list(sample[:length]), self_attention_weights(named, ""), HEADS, causal, score_width, table
            )
        )
        for sample, length in zip(other, lengths or [SOURCE] * BATCH, strict=True)
    ]
    same_gradients(real_rows(ours, lengths), torch.cat(theirs), module, named, [(hidden, other)])


def test_cross_attention(implementation: str) -> None:
    module = prepare(CrossAttention(attention_config(implementation)))
    hidden, memory = states(TARGET), states(SOURCE, seed=1)
    ours, _ = module(hidden, module.project_memory(memory), allowed(False, TARGET, SOURCE, LENGTHS))
    named = copies(module)
    others = [tensor.detach().clone().requires_grad_() for tensor in (hidden, memory)]
    theirs = [
        torch.stack(
            reference.absolute_attention(list(sample), list(seen[:length]), cross_attention_weights(named, ""), HEADS)
        )
        for sample, seen, length in zip(*others, LENGTHS, strict=True)
    ]
    inputs = list(zip((hidden, memory), others, strict=True))
    same_gradients(ours.flatten(0, 1), torch.cat(theirs), module, named, inputs)


def test_feed_forward() -> None:
    module = prepare(FeedForward(tiny_config("sysgen_transformer")))
    hidden = states(SOURCE)
    named, other = copies(module), hidden.detach().clone().requires_grad_()
    theirs = [reference.feed_forward(state, feed_forward_weights(named, "")) for state in other.flatten(0, 1)]
    same_gradients(module(hidden).flatten(0, 1), torch.stack(theirs), module, named, [(hidden, other)])


@pytest.mark.parametrize("variant", ["sysgen_transformer", "relative_transformer"])
def test_encoder_layer(implementation: str, variant: str) -> None:
    config = attention_config(implementation, variant, layer_norm_eps=1e-2)
    module, hidden = prepare(EncoderLayer(config)), states(SOURCE)
    positions = module.self_attn.position_keys(hidden, SOURCE, 0)
    ours = module(hidden, allowed(False, SOURCE, SOURCE, LENGTHS), positions, 0)
    named, other = copies(module), hidden.detach().clone().requires_grad_()
    layer = layer_weights(named, "")
    theirs = [
        torch.stack(reference.encoder_layer(list(sample[:length]), layer, options_of(config)))
        for sample, length in zip(other, LENGTHS, strict=True)
    ]
    same_gradients(real_rows(ours, LENGTHS), torch.cat(theirs), module, named, [(hidden, other)])


@pytest.mark.parametrize("variant", ["sysgen_transformer", "relative_transformer"])
def test_decoder_layer(implementation: str, variant: str) -> None:
    config = attention_config(implementation, variant, layer_norm_eps=1e-2)
    module, hidden, memory = prepare(DecoderLayer(config)), states(TARGET), states(SOURCE, seed=1)
    ours = module(
        hidden,
        allowed(True, TARGET, TARGET, None),
        module.self_attn.position_keys(hidden, TARGET, 0),
        0,
        *module.cross_attn.project_memory(memory),
        allowed(False, TARGET, SOURCE, LENGTHS),
    )
    named = copies(module)
    others = [tensor.detach().clone().requires_grad_() for tensor in (hidden, memory)]
    layer = layer_weights(named, "")
    theirs = [
        torch.stack(reference.decoder_layer(list(sample), list(seen[:length]), layer, options_of(config)))
        for sample, seen, length in zip(*others, LENGTHS, strict=True)
    ]
    inputs = list(zip((hidden, memory), others, strict=True))
    same_gradients(ours.flatten(0, 1), torch.cat(theirs), module, named, inputs)


# compared on every variant
EMBEDDINGS = {
    "default": {},
    "no scaling": {"embedding_scaling": "none"},
    "scaled embeddings": {"embedding_scaling": "teu"},
}
# these touch neither embeddings nor depth: compared on one variant
OPTIONS = {
    "paper's attention scale": {"attention_scale": "hidden_size"},
    "untied": {"tie_word_embeddings": False},
    "separate vocabularies": {"source_id_offset": 3},
    "epsilon": {"layer_norm_eps": 1e-2},
}
MODELS = [(variant, name) for variant in CSORDAS for name in EMBEDDINGS]
MODELS += [("relative_universal_transformer", name) for name in OPTIONS]


@pytest.mark.parametrize(("variant", "name"), MODELS, ids=lambda value: value)
def test_whole_model(variant: str, name: str) -> None:
    """Masks and batches of ours against one unpadded sample after the other of theirs."""
    model = build(variant, **(EMBEDDINGS | OPTIONS)[name])
    config, options = model.config, options_of(model.config)
    batch, labels = ragged_batch(config), ragged_labels(config)
    out = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], labels=labels)
    out.loss.backward()

    named = copies(model)
    samples = []
    for source, real, target in zip(batch["input_ids"], batch["attention_mask"], labels, strict=True):
        words = [token - config.source_id_offset for token in source[: real.sum()].tolist()]
        samples.append((words, target[target != -100].tolist(), config.decoder_start_token_id))
    weights = model_weights(named, config)
    loss = reference.loss(samples, weights, options)
    loss.backward()
    torch.testing.assert_close(out.loss, loss, **CLOSE)
    for parameter_name, parameter in model.named_parameters():
        expected = named[parameter_name].grad
        assert expected.abs().max() > 1e-9, parameter_name
        message = lambda text, n=parameter_name: f"{n}: {text}"  # noqa: E731
        torch.testing.assert_close(parameter.grad, expected, **CLOSE, msg=message)

    # logits, and that a table in float64 instead of the authors' float32 changes no more than float32 can
    source, target, start = samples[0]
    logits = reference.transformer(source, [start, *target[:-1]], weights, options)
    torch.testing.assert_close(out.logits[0, : len(target)], logits, **CLOSE)
    exact = reference.transformer(source, [start, *target[:-1]], weights, {**options, "table": reference.sinusoid})
    torch.testing.assert_close(out.logits[0, : len(target)], exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("keys", [1, 7, 15, 16, 17])
def test_softmax_of_few_keys(keys: int) -> None:
    """On a CPU they are padded to a vector; a row may be masked as a whole, with the least number or with -inf."""
    scores = torch.randn(2, 3, 5, keys, dtype=torch.float64)
    scores[0, 0, 0, 1:] = -torch.inf
    scores[0, 0, 1] = torch.finfo(torch.float64).min
    scores.requires_grad_()
    weights, expected = softmax(scores), scores.exp()
    with torch.no_grad():
        expected[0, 0, 1] = 1.0
    expected = expected / expected.sum(-1, keepdim=True)
    torch.testing.assert_close(weights, expected, **CLOSE)
    factor = torch.randn_like(weights)
    (gradient,) = torch.autograd.grad((weights * factor).sum(), scores)
    by_hand = expected * (factor - (expected * factor).sum(-1, keepdim=True))
    torch.testing.assert_close(gradient, by_hand, **CLOSE)
    assert softmax(scores.bfloat16()).dtype == torch.float32


def test_distances_are_aligned_with_keys() -> None:
    """Column r of row i holds the score of distance r - (queries - 1): written into the number itself."""
    queries, keys = 5, 7
    wide = torch.arange(keys + queries - 1) - (queries - 1)
    expected = torch.arange(keys) - torch.arange(queries)[:, None]
    aligned = align_distances(wide.expand(2, 3, queries, -1).contiguous(), keys)
    assert aligned.shape == (2, 3, queries, keys)
    assert torch.equal(aligned, expected.expand(2, 3, -1, -1))
    # causal scores hold one column more than keys; what lies ahead is masked anyway
    narrow = (torch.arange(queries + 1) - (queries - 1)).expand(2, 3, queries, -1).contiguous()
    seen = torch.ones(queries, queries, dtype=torch.bool).tril()
    assert torch.equal(align_distances(narrow, queries)[..., seen], expected[:, :queries][seen].expand(2, 3, -1))


def test_one_answer_by_hand(implementation: str) -> None:
    """
    Two tokens, one head of width 2, no queries. S(d) = (sin d, cos d), so with v = (-a, 0), a = sqrt(2) ln 3 / sin 1,
    the score of a key at distance +1 (the next token) is -ln 3, at -1 it is +ln 3, at 0 it is 0: each token reads
    three parts of token 0 and one of token 1. With u = (0, sqrt(2) ln 2 / 8) a key (0, 8) gains ln 2 for everyone:
    one part becomes two. Values are the inputs, so both outputs are 3/5 (4, 0) + 2/5 (0, 8).
    """
    config = attention_config(
        implementation, "relative_transformer", hidden_size=2, num_attention_heads=1, intermediate_size=3
    )
    module = RelativeSelfAttention(config, is_causal=False).double().eval()
    with torch.no_grad():
        module.qkv_proj.weight.copy_(torch.cat((torch.zeros(2, 2), torch.eye(2), torch.eye(2))))
        module.o_proj.weight.copy_(torch.eye(2))
        module.pos_proj.weight.copy_(torch.eye(2))
        module.v.copy_(torch.tensor([[-math.sqrt(2) * math.log(3) / math.sin(1), 0.0]], dtype=torch.float64))
        module.u.copy_(torch.tensor([[0.0, math.sqrt(2) * math.log(2) / 8]], dtype=torch.float64))
    hidden = torch.tensor([[[4.0, 0.0], [0.0, 8.0]]], dtype=torch.float64)
    output, _ = module(hidden, None, module.position_keys(hidden, 2, 0))
    # S is float32
    torch.testing.assert_close(output, torch.tensor([[[2.4, 3.2], [2.4, 3.2]]]).double(), rtol=0.0, atol=1e-6)
