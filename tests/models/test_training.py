"""What training needs: the loss, dropout, checkpointed activations, compilation and low precision."""

from __future__ import annotations

import math

import pytest
import torch
from tiny import BATCH, SIZES, TARGET, VARIANTS, ragged_batch, ragged_labels, tiny_model
from transformers.modeling_layers import GradientCheckpointingLayer

from hf_sysgen.models.dropout import dropout
from hf_sysgen.models.seq2seq import shift_right


@pytest.fixture(params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=["eager", "sdpa"])
def implementation(request: pytest.FixtureRequest) -> str:
    return request.param


def labelled_batch(config) -> dict[str, torch.Tensor]:
    batch = ragged_batch(config)
    return {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"], "labels": ragged_labels(config)}


def gradients(model, batch: dict[str, torch.Tensor], seed: int = 0) -> dict[str, torch.Tensor]:
    model.zero_grad()
    torch.manual_seed(seed)
    model(**batch).loss.backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


# loss


def test_loss_is_the_mean_over_all_labels_of_the_batch(variant: str) -> None:
    model = tiny_model(variant, **({"role_loss": False} if "role" in variant else {}))
    batch = labelled_batch(model.config)
    out = model(**batch)
    total, count = 0.0, 0
    for row, labels in zip(out.logits.log_softmax(-1), batch["labels"].tolist(), strict=True):
        for step, label in enumerate(labels):
            if label != -100:
                total, count = total - row[step, label].item(), count + 1
    assert count == 3 + 11 + 1 + 7 + 5
    assert out.loss.item() == pytest.approx(total / count, rel=1e-12)


def test_shift_right() -> None:
    labels = torch.tensor([[4, 5, 6, 2], [7, 2, -100, -100], [2, -100, -100, -100]])
    kept = labels.clone()
    assert shift_right(labels, start_id=9, pad_id=0).tolist() == [[9, 4, 5, 6], [9, 7, 2, 0], [9, 2, 0, 0]]
    assert torch.equal(labels, kept)


def test_labels_of_the_source_are_named(variant: str) -> None:
    """As `tokenizer(text_target=...)` makes them: with a symbol that the decoder's table lacks."""
    model = tiny_model(variant).eval()
    batch = labelled_batch(model.config)
    labels = batch.pop("labels").clone()
    rows = model.get_output_embeddings().weight.shape[0]
    labels[1, 0] = rows
    message = rf"\b{rows}\b.*add_special_tokens=False"
    given = torch.full_like(labels, 1)
    for inputs in ({}, {"decoder_input_ids": given}):
        with pytest.raises(ValueError, match=message):
            model(**batch, **inputs, labels=labels)
    with pytest.raises(ValueError, match=message):
        model.prepare_decoder_input_ids_from_labels(labels)
    labels[1, 0] = rows - 1
    model(**batch, labels=labels)


def test_labels_make_the_decoder_input(variant: str) -> None:
    model = tiny_model(variant, pad_token_id=1, decoder_start_token_id=2, eos_token_id=3)
    batch = labelled_batch(model.config)
    labels = batch.pop("labels")
    shifted = torch.full_like(labels, 1)
    shifted[:, 0] = 2
    for row in range(BATCH):
        for step in range(1, TARGET):
            if labels[row, step - 1] != -100:
                shifted[row, step] = labels[row, step - 1]
    assert torch.equal(model.prepare_decoder_input_ids_from_labels(labels), shifted)
    with torch.no_grad():
        by_labels = model(**batch, labels=labels)
        assert torch.equal(by_labels.logits, model(**batch, decoder_input_ids=shifted).logits)
        # what is given is not replaced
        given = {"decoder_input_ids": ragged_batch(model.config, seed=3)["decoder_input_ids"]}
        assert not torch.equal(given["decoder_input_ids"], shifted)
        assert torch.equal(model(**batch, **given, labels=labels).logits, model(**batch, **given).logits)
    assert by_labels.cache is None


def test_two_halves_with_the_number_of_items_are_the_batch(variant: str) -> None:
    model = tiny_model(variant)
    batch = labelled_batch(model.config)
    whole = gradients(model, batch)
    loss = model(**batch).loss
    items = (batch["labels"] != -100).sum()
    # rows of 3 labels, and of 24
    halves = [{name: tensor[part] for name, tensor in batch.items()} for part in (slice(0, 1), slice(1, None))]
    for number in (items, int(items)):
        model.zero_grad()
        total = 0.0
        for half in halves:
            part = model(**half, num_items_in_batch=number).loss
            part.backward()
            total += part.item()
        assert total == pytest.approx(loss.item(), rel=1e-12)
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(parameter.grad, whole[name], rtol=1e-10, atol=1e-13)
    # the plain mean of means is another number
    mean = sum(model(**half).loss.item() for half in halves) / 2
    assert abs(mean - loss.item()) > 1e-3


def test_trainer_is_told_that_the_loss_counts_items(variant: str) -> None:
    assert VARIANTS[variant][2].accepts_loss_kwargs is True


# dropout


def sample(p: float, seed: int = 0, dtype: torch.dtype = torch.float32, count: int = 400_003) -> torch.Tensor:
    torch.manual_seed(seed)
    return dropout(torch.ones(count, dtype=dtype), p, training=True)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9, 1 / 65536])
def test_dropout_rate_and_mean(p: float) -> None:
    hidden = sample(p)
    dropped = (hidden == 0).double().mean().item()
    error = math.sqrt(p * (1 - p) / hidden.numel())
    # p is rounded to a multiple of 2^-16
    assert abs(dropped - p) < 5 * error + 2.0**-17
    kept = round(p * 65536)
    scale = 65536 / (65536 - kept)
    assert set(hidden.unique().tolist()) == {0.0, torch.tensor(scale).item()}
    assert abs(hidden.double().mean().item() - 1) < 5 * error * scale + 1e-6


def test_dropout_of_almost_everything() -> None:
    assert sample(0.999999).isfinite().all()


def test_dropout_draws_elements_one_by_one() -> None:
    """Four elements share one random integer; none of them follows from another."""
    zeros = (sample(0.5) == 0).double()[:400_000].view(-1, 8)
    correlation = torch.corrcoef(zeros.T) - torch.eye(8)
    assert correlation.abs().max() < 5 / math.sqrt(len(zeros))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 13])
def test_dropout_keeps_the_shape(count: int) -> None:
    hidden = torch.rand(count, 3, 1)
    assert dropout(hidden, 0.5, training=True).shape == hidden.shape
    assert dropout(torch.rand(0, count), 0.5, training=True).shape == (0, count)


def test_dropout_follows_the_seed() -> None:
    assert torch.equal(sample(0.1, seed=5), sample(0.1, seed=5))
    assert not torch.equal(sample(0.1, seed=5), sample(0.1, seed=6))
    # and goes on from there
    torch.manual_seed(5)
    first = dropout(torch.ones(1000), 0.1, training=True)
    assert not torch.equal(first, dropout(torch.ones(1000), 0.1, training=True))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_dropout_keeps_the_dtype(dtype: torch.dtype) -> None:
    assert sample(0.5, dtype=dtype, count=100).dtype == dtype


def test_dropout_gradient_is_its_mask() -> None:
    hidden = torch.rand(7, 11, dtype=torch.float64, requires_grad=True)
    out = dropout(hidden, 0.25, training=True)
    out.sum().backward()
    torch.testing.assert_close(hidden.grad, (out / hidden).detach(), rtol=1e-12, atol=0.0)
    assert set(hidden.grad.unique().tolist()) == {0.0, 4 / 3}


def test_dropout_passes_on_what_it_does_not_change() -> None:
    hidden = torch.rand(3)
    assert dropout(hidden, 0.5, training=False) is hidden
    assert dropout(hidden, 0.0, training=True) is hidden


def test_where_dropout_is(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention weights, sub-layer outputs, inside the feed-forward block; embeddings with absolute positions only."""
    seen = []

    def recorded(hidden: torch.Tensor, p: float, training: bool) -> torch.Tensor:
        if training:
            seen.append(("weights" if hidden.dim() == 4 else hidden.shape[-1], p))
        return hidden

    for module in ("attention.apply_dropout", "layers.dropout", "positions.dropout", "role_filler.dropout"):
        monkeypatch.setattr(f"hf_sysgen.models.{module}", recorded)
    model = tiny_model(variant, dropout=0.3).train()
    model.set_attn_implementation("eager")
    model(**labelled_batch(model.config))
    width, inner = SIZES["hidden_size"], SIZES["intermediate_size"]
    encoders, decoders = SIZES["encoder_layers"], SIZES["decoder_layers"]
    embeddings = 0 if "relative" in variant else 2
    streams = 2 if "role" in variant else 1
    # cross-attention, and self-attention where it is one
    weights = decoders + (0 if "conv" in variant else encoders + decoders)
    assert seen.count(("weights", 0.3)) == weights
    assert seen.count((inner, 0.3)) == streams * (encoders + decoders)
    if streams == 2:
        # sub-layers of both streams at once; of the embeddings only the roles
        assert seen.count((2 * width, 0.3)) == 2 * encoders + 3 * decoders
        assert seen.count((width, 0.3)) == 2
    else:
        assert seen.count((width, 0.3)) == 2 * encoders + 3 * decoders + embeddings
    assert len(seen) == weights + (2 + streams) * encoders + (3 + streams) * decoders + embeddings
    seen.clear()
    model.eval()(**labelled_batch(model.config))
    assert not seen


def test_dropout_acts_in_training_only(variant: str, implementation: str) -> None:
    model = tiny_model(variant, dropout=0.1)
    model.set_attn_implementation(implementation)
    batch = labelled_batch(model.config)
    torch.manual_seed(0)
    first = model.train()(**batch).logits
    second = model(**batch).logits
    torch.manual_seed(0)
    assert torch.equal(model(**batch).logits, first)
    assert not torch.equal(second, first)
    model.eval()
    assert torch.equal(model(**batch).logits, model(**batch).logits)


# activation checkpointing


@pytest.mark.parametrize("reentrant", [False, True], ids=["", "re-entrant"])
@pytest.mark.parametrize("rate", [0.0, 0.1])
def test_checkpointed_gradients_are_the_same_numbers(
    variant: str, implementation: str, rate: float, reentrant: bool
) -> None:
    model = tiny_model(variant, dropout=rate).train()
    model.set_attn_implementation(implementation)
    batch = labelled_batch(model.config)
    plain = gradients(model, batch)
    model.activation_checkpointing_enable({"use_reentrant": reentrant})
    calls = []
    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    for layer in layers:
        layer.self_attn.register_forward_hook(lambda *_: calls.append(1))
    checkpointed = gradients(model, batch)
    # once forward, and once more on the way back
    assert len(calls) == 2 * (SIZES["encoder_layers"] + SIZES["decoder_layers"])
    for name, gradient in plain.items():
        if reentrant:
            # terms are added in another order
            torch.testing.assert_close(checkpointed[name], gradient, rtol=1e-12, atol=1e-15)
        else:
            assert torch.equal(checkpointed[name], gradient), name
    assert all(gradient.abs().max() > 0 for gradient in plain.values())


# compilation


# one of each family
COMPILED_FIRST = {
    ("relative_universal_transformer", 0.1),
    ("sag_t5_transformer", 0.0),
    ("role_filler_transformer", 0.0),
    ("fairseq_transformer", 0.0),
    ("torch_transformer", 0.0),
}
COMPILED = [
    pytest.param(name, rate, marks=[] if (name, rate) in COMPILED_FIRST else pytest.mark.slow)
    for rate in (0.0, 0.1)
    for name in VARIANTS
]


@pytest.mark.parametrize(("name", "rate"), COMPILED)
def test_compiles_without_a_break(name: str, rate: float) -> None:
    """Forward and backward in training mode; backend aot_eager, which traces both graphs and generates no code."""
    torch.compiler.reset()
    model = tiny_model(name, dropout=rate, encoder_layers=1, decoder_layers=2).train()
    batch = labelled_batch(model.config)
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


# low precision


def test_autocast(variant: str, implementation: str) -> None:
    model = tiny_model(variant, dropout=0.1).float().train()
    model.set_attn_implementation(implementation)
    batch = labelled_batch(model.config)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(**batch)
    assert out.logits.dtype == torch.bfloat16
    assert out.loss.dtype == torch.float32
    out.loss.backward()
    assert all(p.grad.dtype == torch.float32 and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_low_precision_is_close(variant: str, implementation: str, dtype: torch.dtype) -> None:
    model = tiny_model(variant, spread=0.2)
    model.set_attn_implementation(implementation)
    batch = labelled_batch(model.config)
    with torch.no_grad():
        expected = model(**batch)
        # the weights themselves are rounded first, so that only the arithmetic is compared
        expected_rounded = model.to(dtype).double()(**batch).logits
        out = model.to(dtype)(**batch)
    assert out.logits.dtype == dtype
    assert out.loss.dtype == torch.float32
    assert out.logits.isfinite().all()
    # honest rounding: a handful of units in the last place of numbers of this size
    allowed = 40 * torch.finfo(dtype).eps * expected.logits.abs().max()
    assert (out.logits.double() - expected_rounded).abs().max() < allowed


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_rows_without_a_real_word_are_finite(variant: str, implementation: str, dtype: torch.dtype) -> None:
    """A fully masked row (a batch filled up to a multiple) must not spread NaN."""
    model = tiny_model(variant).to(dtype)
    model.set_attn_implementation(implementation)
    batch = labelled_batch(model.config)
    batch["attention_mask"][1] = 0
    out = model(**batch)
    assert out.logits.isfinite().all()
    out.loss.backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
