"""The loss that never holds all logits: exact, in every precision, whatever the chunks; and how the model uses it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from depth_width_tiny import (
    LENGTH,
    VARIANTS,
    WORDS,
    gradients,
    ragged_labels,
    ragged_mask,
    random_ids,
    tiny_decoder,
)  # fmt: skip
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import Trainer, TrainingArguments
from transformers.utils import find_labels

from hf_sysgen.models import DepthWidthForCausalLM, chunked_loss
from hf_sysgen.models.chunked_loss import chunked_cross_entropy

POSITIONS, WIDTH, ROWS = 23, 13, 37
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


@pytest.fixture(params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> str:
    return request.param


def problem(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """States, weights and targets whose numbers are exact in `dtype`, some targets left out."""
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(POSITIONS, WIDTH, generator=generator, dtype=torch.float64).to(dtype)
    weight = torch.randn(ROWS, WIDTH, generator=generator, dtype=torch.float64).to(dtype)
    targets = torch.randint(ROWS, (POSITIONS,), generator=generator)
    targets[torch.tensor([0, 5, 6, 22])] = -100
    return hidden.requires_grad_(), weight.requires_grad_(), targets


def plain(hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    logits = hidden @ weight.t()
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return nn.functional.cross_entropy(wide, targets, reduction="sum")


def results(run, dtype: torch.dtype, exact: torch.dtype | None = None) -> list[torch.Tensor]:
    """Loss and both gradients of a third of it, in float64."""
    hidden, weight, targets = problem(dtype)
    if exact is not None:
        hidden, weight = (tensor.detach().to(exact).requires_grad_() for tensor in (hidden, weight))
    loss = run(hidden, weight, targets)
    found = [loss, *torch.autograd.grad(loss / 3, (hidden, weight))]
    assert [tensor.dtype for tensor in found[1:]] == [exact or dtype] * 2
    return [tensor.detach().double() for tensor in found]


@pytest.mark.parametrize("chunk", [1, 7, POSITIONS, 100])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_at_most_twice_the_error_of_the_plain_loss(dtype: torch.dtype, chunk: int) -> None:
    truth = results(plain, dtype, exact=torch.float64)
    other = results(plain, dtype)
    ours = results(lambda *parts: chunked_cross_entropy(*parts, chunk=chunk), dtype)
    for name, found, rival, true in zip(("loss", "states", "weights"), ours, other, truth, strict=True):
        # the plain loss in float64 is the truth itself; elsewhere its error may be zero by luck
        slack = (8 if dtype == torch.float64 else 1) * torch.finfo(dtype).eps * true.abs().max()
        assert (found - true).abs().max() <= 2 * (rival - true).abs().max() + slack, name


def test_by_hand() -> None:
    """Two words with logits 0 and log 3: probabilities 1/4 and 3/4."""
    hidden = torch.tensor([[torch.tensor(3.0).log()], [5.0]], dtype=torch.float64, requires_grad=True)
    weight = torch.tensor([[0.0], [1.0]], dtype=torch.float64, requires_grad=True)
    loss = chunked_cross_entropy(hidden, weight, torch.tensor([0, -100]))
    assert loss.item() == pytest.approx(torch.tensor(4.0).log().item())
    loss.backward()
    assert hidden.grad.flatten().tolist() == pytest.approx([0.75, 0.0])
    log3 = hidden[0, 0].item()
    assert weight.grad.flatten().tolist() == pytest.approx([-0.75 * log3, 0.75 * log3])


@pytest.mark.parametrize("frozen", ["hidden", "weight"])
def test_one_side_frozen(frozen: str) -> None:
    hidden, weight, targets = problem(torch.float64)
    (hidden if frozen == "hidden" else weight).requires_grad_(False)
    learned = weight if frozen == "hidden" else hidden
    (found,) = torch.autograd.grad(chunked_cross_entropy(hidden, weight, targets, 5), learned)
    (expected,) = torch.autograd.grad(plain(hidden, weight, targets), learned)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-13)


def test_nothing_is_learned_from_labels_left_out() -> None:
    hidden, weight, _ = problem(torch.float64)
    loss = chunked_cross_entropy(hidden, weight, torch.full((POSITIONS,), -100))
    grads = torch.autograd.grad(loss, (hidden, weight))
    assert loss.item() == 0
    assert all((grad == 0).all() for grad in grads)


def test_of_no_positions() -> None:
    """What a process may be left with."""
    hidden, weight, targets = problem(torch.float64)
    loss = chunked_cross_entropy(hidden[:0], weight, targets[:0])
    grads = torch.autograd.grad(loss, (hidden, weight))
    assert loss.item() == 0
    assert [grad.shape for grad in grads] == [hidden.shape, weight.shape]
    assert all((grad == 0).all() for grad in grads)


def test_a_second_pass_back_is_refused() -> None:
    """Gradients are scaled in place; a silent second scaling would be a wrong number."""
    loss = chunked_cross_entropy(*problem(torch.float32)) * 2
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_second_derivatives_are_refused() -> None:
    """Of gradients that were made beside the loss, or in place, they would be wrong numbers."""
    hidden, weight, targets = problem(torch.float64)
    (grad,) = torch.autograd.grad(chunked_cross_entropy(hidden, weight, targets) ** 2, hidden, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        grad.square().sum().backward()


class Largest(TorchDispatchMode):
    """Elements of the largest tensor that any operation made."""

    def __init__(self):
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(tensor, torch.Tensor):
                self.elements = max(self.elements, tensor.numel())
        return out


def test_training_never_holds_all_logits(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words, positions = 2003, 3 * LENGTH
    model = tiny_decoder(variant, vocab_size=words).train()
    monkeypatch.setitem(chunked_loss.CHUNK_LOGITS, "cpu", 7 * words)
    table = model.lm_head.weight.numel()
    assert 7 * words < table < positions * words
    ids = random_ids(shape=(3, LENGTH))
    with Largest() as chunked:
        model(ids, labels=ids).loss.backward()
    assert chunked.elements == table
    with Largest() as whole:
        model(ids, labels=ids, skip_logits=False).loss.backward()
    assert whole.elements == positions * words
    # nor does evaluation that asks for none
    with torch.no_grad(), Largest() as evaluated:
        out = model.eval()(ids, labels=ids, skip_logits=True)
    assert out.logits is None
    assert evaluated.elements == table


def test_logits_come_unless_a_training_step_can_do_without(variant: str) -> None:
    model = tiny_decoder(variant)
    ids = random_ids()
    shape = (*ids.shape, WORDS)
    assert model(ids, labels=ids).logits.shape == shape
    assert model(ids).logits.shape == shape
    assert model(ids, skip_logits=True).logits is None
    model.train()
    assert model(ids).logits.shape == shape
    assert model(ids, labels=ids).logits is None
    assert model(ids, labels=ids, skip_logits=False).logits.shape == shape
    kept = model(ids).logits
    for chosen, expected in ((3, kept[:, -3:]), (torch.tensor([1, 4]), kept[:, [1, 4]])):
        torch.testing.assert_close(model(ids, logits_to_keep=chosen).logits, expected, rtol=0.0, atol=1e-13)


class Doubled(nn.Module):
    """In the place of a head, as an adapter stands there."""

    def __init__(self, head: nn.Linear):
        super().__init__()
        self.head = head

    @property
    def weight(self) -> torch.Tensor:
        return self.head.weight

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return 2 * self.head(hidden)


@pytest.mark.parametrize("way", ["forward hook", "pre-forward hook", "forward of its own", "adapter"])
def test_loss_is_of_what_the_head_gives(way: str) -> None:
    model, ids = tiny_decoder("rotary").train(), random_ids()
    plain = model(ids, labels=ids).loss
    if way == "forward hook":
        model.lm_head.register_forward_hook(lambda module, args, out: 2 * out)
    elif way == "pre-forward hook":
        model.lm_head.register_forward_pre_hook(lambda module, args: (2 * args[0],))
    elif way == "forward of its own":
        forward = model.lm_head.forward
        model.lm_head.forward = lambda states: 2 * forward(states)
    else:
        model.lm_head = Doubled(model.lm_head)
    loss = model(ids, labels=ids).loss
    logits = model(ids).logits[:, :-1]
    expected = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12)
    assert loss.item() != pytest.approx(plain.item(), rel=1e-3)


def test_loss_is_that_of_the_next_word(variant: str) -> None:
    model = tiny_decoder(variant)
    ids = random_ids()
    labels = ragged_labels(ids)
    out = model(ids, attention_mask=ragged_mask("right"), labels=labels)
    expected = nn.functional.cross_entropy(out.logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
    assert out.loss.item() == pytest.approx(expected.item(), rel=1e-12)
    shifted = nn.functional.pad(labels[:, 1:], (0, 1), value=-100)
    moved = model(ids, attention_mask=ragged_mask("right"), shift_labels=shifted)
    assert torch.equal(moved.loss, out.loss)
    # as transformers counts, in its float32
    theirs = model.loss_function(logits=out.logits, labels=labels, vocab_size=WORDS)
    assert out.loss.item() == pytest.approx(theirs.item(), rel=1e-6)


def test_parts_with_the_number_of_items_are_the_batch(variant: str) -> None:
    model = tiny_decoder(variant).train()
    ids = random_ids()
    batch = {"input_ids": ids, "attention_mask": ragged_mask("right"), "labels": ragged_labels(ids)}
    whole = gradients(model, batch)
    items = (batch["labels"][:, 1:] != -100).sum()
    for number in (items, int(items)):
        model.zero_grad()
        total = 0.0
        for part in (slice(0, 1), slice(1, None)):
            loss = model(**{name: tensor[part] for name, tensor in batch.items()}, num_items_in_batch=number).loss
            loss.backward()
            total += loss.item()
        assert total == pytest.approx(model(**batch).loss.item(), rel=1e-12)
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(parameter.grad, whole[name], rtol=1e-10, atol=1e-13)


def test_trainer_counts_the_labels_that_the_loss_counts() -> None:
    """It leaves out each row's first label where the class's loss is known to shift."""
    assert DepthWidthForCausalLM.accepts_loss_kwargs is True
    assert tiny_decoder("rotary").loss_type == "ForCausalLM"
    # otherwise evaluation would give no loss
    assert find_labels(DepthWidthForCausalLM) == ["labels"]


def test_labels_are_moved_before_they_are_smoothed(tmp_path: Path) -> None:
    """The Trainer of transformers asks for the class by name."""
    model, ids = tiny_decoder("rotary"), random_ids()
    labels = ragged_labels(ids)
    args = TrainingArguments(str(tmp_path), label_smoothing_factor=0.1, use_cpu=True, report_to=[])
    found = Trainer(model, args).compute_loss(model, {"input_ids": ids, "labels": labels})
    expected = nn.functional.cross_entropy(
        model(input_ids=ids).logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), label_smoothing=0.1
    )
    torch.testing.assert_close(found, expected)
