"""Which rows an update learns from: by seed and update alone, whatever the parts, the processes and the restarts."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from tiny_runs import tiny_recipe

from hf_sysgen.data.text.splits import TokenizedSplit
from hf_sysgen.training.batches import OnGpu, StepBatches
from hf_sysgen.training.run import run_recipe
from hf_sysgen.training.tasks.registry import prepare_task
from hf_sysgen.training.tasks.seq2seq import Seq2SeqTask


def split_of(total: int, seed: int = 0) -> TokenizedSplit:
    """Row r has source id r in every place, so that a batch tells its rows; lengths vary."""
    lengths = np.random.default_rng(seed).integers(1, 9, size=(total, 2))
    return TokenizedSplit([[row] * a for row, (a, _) in enumerate(lengths)], [[0] * b for _, b in lengths], pad_id=-1)


def drawn(batches: StepBatches) -> list[list[int]]:
    """Rows of every part that an iteration yields."""
    return [part.tolist() for part in batches]


def test_with_replacement_is_uniform():
    total, size, steps = 7, 50, 200
    counts = Counter(row for part in drawn(StepBatches(split_of(total), size, steps, seed=3)) for row in part)
    expected = size * steps / total
    assert sorted(counts) == list(range(total))
    # chi-square with 6 degrees of freedom is above 22.46 once in a thousand seeds
    assert sum((count - expected) ** 2 / expected for count in counts.values()) < 22.46


def test_with_replacement_repeats_rows():
    """50 of 60 without a repetition would come once in 10^17 draws."""
    assert len(set(StepBatches(split_of(60), 50, 1, seed=0).rows(0).tolist())) < 50


def test_rows_depend_on_seed_and_step_only():
    split = split_of(40)
    one, other = StepBatches(split, 8, 10, seed=1), StepBatches(split, 8, 99, seed=1, length_buckets=4, world=2)
    backwards = {step: one.rows(step).tolist() for step in reversed(range(10))}
    assert [other.rows(step).tolist() for step in range(10)] == [backwards[step] for step in range(10)]
    assert len({tuple(rows) for rows in backwards.values()}) == 10
    assert StepBatches(split, 8, 10, seed=2).rows(0).tolist() != backwards[0]


def test_drawing_leaves_the_global_generators_alone():
    """They belong to dropout; a resumed run restores them before it makes its loader."""
    torch.manual_seed(0)
    state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].tolist()
    for _ in StepBatches(split_of(20), 4, 3, seed=0).loader():
        pass
    assert torch.equal(torch.get_rng_state(), state)
    assert np.random.get_state()[1].tolist() == numpy_state


@pytest.mark.parametrize(("total", "size"), [(20, 7), (21, 7), (7, 7), (8, 7)])
def test_an_epoch_takes_every_example_once(total, size):
    per_epoch = -(-total // size)
    batches = StepBatches(split_of(total), size, 3 * per_epoch, seed=5, sampling="epochs")
    parts = drawn(batches)
    epochs = [parts[start : start + per_epoch] for start in range(0, len(parts), per_epoch)]
    assert len(epochs) == 3
    for epoch in epochs:
        assert sorted(row for part in epoch for row in part) == list(range(total))
        assert [len(part) for part in epoch[:-1]] == [size] * (per_epoch - 1)
        assert len(epoch[-1]) == (total - 1) % size + 1
    orders = {tuple(row for part in epoch for row in part) for epoch in epochs}
    assert len(orders) == 3


def test_an_epoch_can_be_entered_in_the_middle():
    split = split_of(20)
    whole = [StepBatches(split, 7, 9, seed=5, sampling="epochs").rows(step).tolist() for step in range(9)]
    for step in (8, 1, 4):
        assert StepBatches(split, 7, 9, seed=5, sampling="epochs").rows(step).tolist() == whole[step]


@pytest.mark.parametrize(("groups", "world"), [(1, 1), (2, 2), (4, 1), (1, 4)])
def test_an_epoch_has_every_row_whatever_shares_it(groups, world):
    """9 rows in batches of 4: the ninth is a batch of its own, of which one part has a row and the others have none."""
    ranks = [StepBatches(split_of(9), 4, 6, 0, "epochs", groups, rank, world) for rank in range(world)]
    assert [len(ranks[0].rows(step)) for step in range(6)] == [4, 4, 1, 4, 4, 1]
    assert sorted(np.concatenate([ranks[0].rows(step) for step in range(3)])) == list(range(9))
    parts = [drawn(batches) for batches in ranks]
    assert [len(rank) for rank in parts] == [6 * groups] * world
    last = [part for rank in parts for part in rank[2 * groups : 3 * groups]]
    assert sorted(map(len, last)) == [0] * (groups * world - 1) + [1]


def test_of_no_rows_a_batch_without_labels():
    batch = split_of(9)[np.empty(0, np.int64)]
    assert batch["input_ids"].shape[0] == 1
    assert batch["attention_mask"].any()
    assert (batch["labels"] == -100).all()


sizes = st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 3))


@given(sizes, st.sampled_from(["with_replacement", "epochs"]), st.integers(0, 50), st.integers(0, 40))
def test_parts_and_processes_share_the_batch(sizes, sampling, seed, extra):
    """Together all parts of all processes hold the rows of the update, each part about equally many."""
    groups, world, each = sizes
    size, steps = groups * world * each, 5
    split = split_of(size + extra, seed)
    whole = StepBatches(split, size, steps, seed, sampling, groups, world=world)
    ranks = [drawn(StepBatches(split, size, steps, seed, sampling, groups, rank, world)) for rank in range(world)]
    assert {len(parts) for parts in ranks} == {steps * groups} == {len(whole)}
    for step in range(steps):
        here = [parts[step * groups : (step + 1) * groups] for parts in ranks]
        rows = sorted(row for parts in here for part in parts for row in part)
        assert rows == sorted(whole.rows(step).tolist())
        counts = {len(part) for parts in here for part in parts}
        assert max(counts) - min(counts) <= 1


def test_groups_are_of_neighbours_in_length():
    split = split_of(60)
    batches = [StepBatches(split, 24, 1, 0, length_buckets=3, rank=rank, world=2) for rank in range(2)]
    parts = [drawn(batch) for batch in batches]
    in_turn = [row for group in zip(*parts, strict=True) for part in group for row in part]
    lengths = split.targets.lengths[in_turn].tolist()
    assert lengths == sorted(lengths)
    assert len(set(lengths)) > 3


@pytest.mark.parametrize("sampling", ["with_replacement", "epochs"])
@pytest.mark.parametrize("first", [1, 3, 4, 6])
def test_a_resumed_run_draws_what_it_would_have_drawn(sampling, first):
    arguments = {"seed": 4, "sampling": sampling, "length_buckets": 2}
    whole = drawn(StepBatches(split_of(20), 6, 7, **arguments))
    resumed = StepBatches(split_of(20), 6, 7, **arguments)
    resumed.first_step = first
    assert drawn(resumed) == whole[2 * first :]


def test_loader_yields_ready_batches():
    split = split_of(30)
    batches = StepBatches(split, 6, 4, seed=0, length_buckets=2)
    loaded = list(batches.loader())
    assert len(batches.loader()) == len(loaded) == 8
    for part, batch in zip(drawn(batches), loaded, strict=True):
        assert batch["input_ids"][:, 0].tolist() == part
        assert batch["attention_mask"].sum(dim=1).tolist() == split.sources.lengths[part].tolist()


def test_a_batch_that_cannot_be_shared():
    with pytest.raises(ValueError, match=r"batches\.length_buckets=2 x processes=3"):
        StepBatches(split_of(20), 10, 1, seed=0, length_buckets=2, world=3)


def test_a_batch_larger_than_an_epoch():
    with pytest.raises(ValueError, match=r"batches\.size=21 is more than the 20"):
        StepBatches(split_of(20), 21, 1, seed=0, sampling="epochs")
    assert len(StepBatches(split_of(20), 21, 1, seed=0).rows(0)) == 21


@pytest.mark.parametrize("sampling", ["with_replacement", "epochs"])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_groups_make_the_same_update(sampling, label_smoothing, tmp_path, few_examples, monkeypatch):
    """
    Through the whole trainer, in float64: cutting a batch into parts changes the order of sums alone. Adam with an
    epsilon far above the gradients is momentum; with a small one it would lift a rounding error in a nearly zero
    gradient to the size of an update.
    """
    build = Seq2SeqTask.build_model
    monkeypatch.setattr(Seq2SeqTask, "build_model", lambda self, attention: build(self, attention).double())
    histories, models = [], []
    for groups in (1, 4):
        recipe = tiny_recipe(
            tmp_path / str(groups), dropout=0.0, eval_steps=None, size=16, length_buckets=groups, sampling=sampling,
            learning_rate=1.0, adam_epsilon=1.0, max_grad_norm=1.0,
            label_smoothing_factor=label_smoothing,
        )  # fmt: skip
        history = run_recipe(recipe).history
        histories.append([(entry.loss, entry.grad_norm) for entry in history if entry.loss is not None])
        models.append(load_file(recipe.run_dir / "model" / "model.safetensors"))
    assert len(histories[0]) == 6
    # the Trainer sums losses in float32
    np.testing.assert_allclose(histories[1], histories[0], rtol=1e-6)
    start = prepare_task(recipe).build_model("eager").state_dict()
    moved = max((weight - start[name]).abs().max() for name, weight in models[0].items())
    apart = max((weight - models[1][name]).abs().max() for name, weight in models[0].items())
    assert moved > 0.1
    assert apart < 1e-13


def test_batches_come_to_the_gpu_one_at_a_time(monkeypatch):
    """A resumed stream reads on after the last batch taken, so none is taken ahead. On a CPU nothing can be pinned."""
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    taken = []
    loader = [{"labels": torch.full((2,), number)} for number in range(3)]
    moved = OnGpu((taken.append(batch) or batch for batch in loader), torch.device("meta"))
    for count, batch in enumerate(moved, 1):
        assert len(taken) == count
        assert batch["labels"].device.type == "meta"
    assert len(OnGpu(loader, torch.device("meta"))) == len(taken) == 3
