"""What training depth-width decoders needs: starts, dropout, checkpointed activations, compilation, low precision."""

from __future__ import annotations

import math

import pytest
import torch
from depth_width_tiny import (
    DEPTH,
    FF,
    HEAD_DIM,
    HEADS,
    VARIANTS,
    WORDS,
    gradients,
    ragged_labels,
    ragged_mask,
    random_ids,
    tiny_config,
    tiny_decoder,
)  # fmt: skip
from test_initialisation import assert_drawn_from
from transformers.modeling_layers import GradientCheckpointingLayer

from hf_sysgen.models import DepthWidthConfig, DepthWidthForCausalLM, chunked_loss

WIDTH = HEADS * HEAD_DIM


@pytest.fixture(params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=["eager", "sdpa"])
def implementation(request: pytest.FixtureRequest) -> str:
    return request.param


def labelled_batch() -> dict[str, torch.Tensor]:
    ids = random_ids()
    return {"input_ids": ids, "attention_mask": ragged_mask("right"), "labels": ragged_labels(ids)}


# starts

D, INNER, ROWS = 130, 217, 331


def expected_start(name: str, tied: bool) -> tuple[str, float]:
    if name.endswith("norm.weight"):
        return "constant", 1.0
    if name == "model.relative_bias.weight":
        return "constant", 0.0
    if name == "model.embed_tokens.weight":
        return "normal", 1 / math.sqrt(D) if tied else 1.0
    return "normal", 1 / math.sqrt(INNER if "down_proj" in name else D)


@pytest.mark.parametrize("tied", [False, True])
def test_start_of_every_weight(variant: str, tied: bool) -> None:
    torch.manual_seed(1)
    sizes = {"hidden_size": D, "intermediate_size": INNER, "num_attention_heads": 5, "vocab_size": ROWS}
    model = DepthWidthForCausalLM(tiny_config(variant, **sizes, tie_word_embeddings=tied))
    assert (model.lm_head.weight is model.model.embed_tokens.weight) == tied
    for name, parameter in model.named_parameters():
        assert_drawn_from(name, parameter, *expected_start(name, tied))


def test_what_a_checkpoint_lacks_is_started(variant: str, tmp_path) -> None:
    """Loading happens on the meta device: a parameter that nobody starts would be left-over memory."""
    sizes = {"hidden_size": D, "intermediate_size": INNER, "num_attention_heads": 5, "vocab_size": ROWS}
    model = DepthWidthForCausalLM(tiny_config(variant, **sizes))
    kept = "model.final_norm.weight"
    with torch.no_grad():
        model.model.final_norm.weight.fill_(3.5)
    model.save_pretrained(tmp_path, state_dict={kept: model.state_dict()[kept]})
    torch.manual_seed(2)
    loaded, loading = DepthWidthForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    named = dict(loaded.named_parameters())
    assert set(loading["missing_keys"]) == set(named) - {kept}
    assert (named.pop(kept) == 3.5).all()
    for name, parameter in named.items():
        assert_drawn_from(name, parameter, *expected_start(name, False))


@pytest.mark.parametrize("depth", [1, 7])
def test_widest_and_narrowest_models_start_at_one_loss(depth: int) -> None:
    """Feed-forward widths differ fifty-fold within the 41M class; no start depends on them."""
    torch.manual_seed(0)
    model = DepthWidthForCausalLM(DepthWidthConfig.from_size_class("41M", depth, vocab_size=101))
    ids = torch.randint(101, (4, 32))
    with torch.no_grad():
        loss = model(ids, labels=ids).loss.item()
    # logits have a variance of 1, which adds half a nat
    assert loss == pytest.approx(math.log(101) + 0.5, abs=0.35)


# dropout


def test_where_dropout_is(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def recorded(hidden: torch.Tensor, p: float, training: bool) -> torch.Tensor:
        if training:
            seen.append(("weights" if hidden.dim() == 4 else hidden.shape[-1], p))
        return hidden

    for module in ("attention.apply_dropout", "modeling_depth_width_decoder.dropout"):
        monkeypatch.setattr(f"hf_sysgen.models.{module}", recorded)
    model = tiny_decoder(variant, dropout=0.3).train()
    model.set_attn_implementation("eager")
    model(**labelled_batch())
    depth = model.config.num_hidden_layers
    # embeddings and final states, and two sub-layers at each depth
    assert seen.count((WIDTH, 0.3)) == 2 + 2 * depth
    assert seen.count((FF, 0.3)) == seen.count(("weights", 0.3)) == depth
    assert len(seen) == 2 + 4 * depth
    seen.clear()
    model.eval()(**labelled_batch())
    assert not seen


def test_dropout_acts_in_training_only(variant: str, implementation: str) -> None:
    model = tiny_decoder(variant, dropout=0.1)
    model.set_attn_implementation(implementation)
    ids = random_ids()
    torch.manual_seed(0)
    first = model.train()(ids).logits
    assert not torch.equal(model(ids).logits, first)
    torch.manual_seed(0)
    assert torch.equal(model(ids).logits, first)
    model.eval()
    assert torch.equal(model(ids).logits, model(ids).logits)


# activation checkpointing


@pytest.mark.parametrize("reentrant", [False, True], ids=["", "re-entrant"])
@pytest.mark.parametrize("rate", [0.0, 0.1])
def test_checkpointed_gradients_are_the_same_numbers(
    variant: str, implementation: str, rate: float, reentrant: bool
) -> None:
    model = tiny_decoder(variant, dropout=rate).train()
    model.set_attn_implementation(implementation)
    batch = labelled_batch()
    plain = gradients(model, batch)
    model.activation_checkpointing_enable({"use_reentrant": reentrant})
    calls = []
    for module in model.modules():
        if isinstance(module, GradientCheckpointingLayer):
            module.self_attn.register_forward_hook(lambda *_: calls.append(1))
    checkpointed = gradients(model, batch)
    # once forward, and once more on the way back
    assert len(calls) == 2 * model.config.num_hidden_layers
    for name, gradient in plain.items():
        # re-entrant, terms are added in another order
        close = {"rtol": 1e-12, "atol": 1e-15} if reentrant else {"rtol": 0.0, "atol": 0.0}
        torch.testing.assert_close(checkpointed[name], gradient, **close)
    assert all(gradient.abs().max() > 0 for gradient in plain.values())


# compilation


# Dynamo does this itself when it traces a custom backward pass
MADE_BY_DYNAMO = pytest.mark.filterwarnings("ignore:.*Function'> should not be instantiated:DeprecationWarning")


@MADE_BY_DYNAMO
@pytest.mark.parametrize(
    ("variant", "rate"),
    [
        ("rotary", 0.0),
        pytest.param("relative bias shared", 0.0, marks=pytest.mark.slow),
        *[pytest.param(name, 0.1, marks=pytest.mark.slow) for name in VARIANTS],
    ],
)
def test_compiles_without_a_break(variant: str, rate: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forward and backward in training mode; backend aot_eager, which traces both graphs and generates no code."""
    torch.compiler.reset()
    model = tiny_decoder(variant, dropout=rate).train()
    # three chunks
    monkeypatch.setitem(chunked_loss.CHUNK_LOGITS, "cpu", WORDS * 23)
    batch = labelled_batch()
    plain = gradients(model, batch)
    loss = model(**batch).loss.item()
    # a break in the graph raises
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    found = compiled(**batch).loss
    model.zero_grad()
    found.backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())
    if rate == 0.0:
        assert found.item() == pytest.approx(loss, rel=1e-12)
        for key, parameter in model.named_parameters():
            torch.testing.assert_close(parameter.grad, plain[key], rtol=1e-9, atol=1e-12)
    else:
        # another random stream, the same dropout
        assert found.item() != model.eval()(**batch).loss.item()
    torch.compiler.reset()


@MADE_BY_DYNAMO
@pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning")
@pytest.mark.slow
def test_generated_code_computes_the_same() -> None:
    """Inductor, once, in bfloat16 autocast, as pretraining runs: custom backward passes are traced too."""
    torch.compiler.reset()
    model = tiny_decoder("rotary").float().train()
    batch = labelled_batch()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(**batch).loss
        plain = torch.autograd.grad(loss, list(model.parameters()))
        found = torch.compile(model, fullgraph=True)(**batch).loss
        compiled = torch.autograd.grad(found, list(model.parameters()))
    # a few roundings to 8 bits apart
    assert found.item() == pytest.approx(loss.item(), rel=0.01)
    for (name, _), one, other in zip(model.named_parameters(), plain, compiled, strict=True):
        assert (one - other).norm() < 0.05 * one.norm(), name
    torch.compiler.reset()


# low precision


def test_autocast(variant: str, implementation: str) -> None:
    model = tiny_decoder(variant, dropout=0.1).float().train()
    model.set_attn_implementation(implementation)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(**labelled_batch(), skip_logits=False)
    assert out.logits.dtype == torch.bfloat16
    assert out.loss.dtype == torch.float32
    out.loss.backward()
    assert all(p.grad.dtype == torch.float32 and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_low_precision_is_close(variant: str, implementation: str, dtype: torch.dtype) -> None:
    model = tiny_decoder(variant)
    model.set_attn_implementation(implementation)
    batch = labelled_batch()
    with torch.no_grad():
        # the weights themselves are rounded first, so that only the arithmetic is compared
        expected = model.to(dtype).double()(**batch)
        out = model.to(dtype)(**batch)
    assert out.logits.dtype == dtype
    assert out.loss.dtype == torch.float32
    # honest rounding: a handful of units in the last place of numbers of this size
    allowed = 40 * torch.finfo(dtype).eps * expected.logits.abs().max()
    assert (out.logits.double() - expected.logits).abs().max() < allowed
    assert out.loss.item() == pytest.approx(expected.loss.item(), rel=40 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_rows_without_a_real_word_are_finite(variant: str, implementation: str, dtype: torch.dtype) -> None:
    """A fully masked row (a batch filled up to a multiple) must not spread NaN."""
    model = tiny_decoder(variant).to(dtype)
    model.set_attn_implementation(implementation)
    batch = labelled_batch()
    batch["attention_mask"][1] = 0
    batch["labels"][1] = -100
    out = model(**batch)
    assert out.logits.isfinite().all()
    out.loss.backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_there_are_as_many_layers_as_said(variant: str) -> None:
    model = tiny_decoder(variant)
    assert len(model.model.layers) == (1 if "shared" in variant else DEPTH)
