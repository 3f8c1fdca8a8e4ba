"""Batches of at most so many tokens, as fairseq 0.10.2 makes them, whatever the processes and the restarts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from tiny_runs import tiny_recipe, train_process, write_recipe

from hf_sysgen.config.errors import RecipeError
from hf_sysgen.data.text.splits import TokenizedSplit
from hf_sysgen.results.reading import read_record
from hf_sysgen.training.batches import MaxTokensBatches, pack
from hf_sysgen.training.run import run_recipe
from hf_sysgen.training.tasks.registry import prepare_task

KEYS = {"sampling": "max_tokens", "max_tokens": 120, "per_update": 3}


def split_of(total: int, seed: int = 0, longest: int = 9) -> TokenizedSplit:
    lengths = np.random.default_rng(seed).integers(1, longest, size=(total, 2))
    return TokenizedSplit([[row] * a for row, (a, _) in enumerate(lengths)], [[0] * b for _, b in lengths], pad_id=-1)


def packed_slowly(sources, targets, max_tokens, seed, multiple):
    """The same rule, one example at a time and nothing remembered but the batch."""
    order = np.random.RandomState(seed).permutation(len(sources)).tolist()
    order.sort(key=lambda row: targets[row])
    order.sort(key=lambda row: sources[row])
    batches, batch = [], []
    for row in order:
        longest = max(max(sources[other], targets[other]) for other in [*batch, row])
        if batch and (len(batch) + 1) * longest > max_tokens:
            kept = len(batch) - len(batch) % multiple or len(batch)
            batches.append(batch[:kept])
            batch = batch[kept:]
        batch.append(row)
    return [*batches, batch]


@given(
    st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=80),
    st.integers(12, 70),
    st.integers(0, 9),
    st.sampled_from([1, 3, 8]),
)
def test_packing_is_the_rule(lengths, max_tokens, seed, multiple):
    sources, targets = np.array(lengths).T
    batches = pack(sources, targets, max_tokens, seed, multiple)
    assert [batch.tolist() for batch in batches] == packed_slowly(sources, targets, max_tokens, seed, multiple)
    assert sorted(np.concatenate(batches)) == list(range(len(lengths)))


def test_packing_by_hand():
    """Ten of 2 tokens, then two of 5: 11 x 2 > 20 makes the first batch, of 8; 2 are carried over; 4 x 5 fits."""
    batches = pack(np.array([2] * 11 + [5]), np.array([1] * 12), 20, seed=0)
    assert [len(batch) for batch in batches] == [8, 4]
    assert batches[1][-1] == 11
    # the source's length decides first, then the target's
    batches = pack(np.array([2, 1, 2, 1]), np.array([3, 4, 1, 2]), 4, seed=0)
    assert [batch.tolist() for batch in batches] == [[3], [1], [2], [0]]


def test_what_is_carried_over_keeps_its_length():
    """Ten of 9 tokens, twenty of 3: two nines are carried over, so that the second batch is again of at most ten."""
    batches = pack(np.array([2] * 10 + [3] * 20), np.array([9] * 10 + [1] * 20), 90, seed=0)
    assert [len(batch) for batch in batches] == [8, 8, 14]


def test_what_is_carried_over_may_be_too_much():
    """As in fairseq: 15 of 2 tokens fill 30; 8 go, and the other 7 stay with one of 30, though that makes 240."""
    batches = pack(np.array([2] * 15 + [3]), np.array([1] * 15 + [30]), 30, seed=0)
    assert [len(batch) for batch in batches] == [8, 8]


def test_the_seed_orders_examples_of_one_length():
    lengths = np.full(40, 3)
    orders = {tuple(np.concatenate(pack(lengths, lengths, 24, seed)).tolist()) for seed in (0, 0, 1)}
    assert len(orders) == 2


def test_an_example_that_is_too_long():
    with pytest.raises(ValueError, match=r"max_tokens=8 .*\b9 .*example 1\b"):
        pack(np.array([2, 3, 4]), np.array([8, 9, 1]), 8, seed=0)


def test_an_epoch_takes_every_batch_once_in_another_order():
    batches = MaxTokensBatches(split_of(70), 30, 99, seed=4, batches_per_update=3)
    assert len(batches.batches) % 3
    epochs = []
    for epoch in range(3):
        steps = range(epoch * batches.updates_per_epoch, (epoch + 1) * batches.updates_per_epoch)
        drawn = [batch for step in steps for batch in batches.batches_of(step)]
        assert sorted(np.concatenate([batches.rows(step) for step in steps])) == list(range(70))
        epochs.append([int(batch[0]) for batch in drawn])
        # fairseq counts epochs from 1
        order = np.arange(len(batches.batches))
        np.random.RandomState(4 + epoch + 1).shuffle(order)
        assert epochs[-1] == [int(batches.batches[at][0]) for at in order]
    assert len({tuple(epoch) for epoch in epochs}) == 3


def test_the_highest_seed_has_epochs_too():
    batches = MaxTokensBatches(split_of(70), 30, 99, seed=2**32 - 1)
    assert sorted(np.concatenate([batches.rows(step) for step in range(batches.updates_per_epoch)])) == list(range(70))


def test_examples_are_resampled_once():
    split = split_of(7)
    batches = MaxTokensBatches(split, 30, 99, seed=4, resample=1000)
    assert batches.updates_per_epoch == len(batches.batches)
    drawn = np.concatenate(batches.batches)
    counts = np.bincount(drawn, minlength=7)
    # five standard deviations of a binomial distribution
    assert counts.sum() == 1000
    assert all(abs(counts - 1000 / 7) < 5 * (1000 * 6 / 49) ** 0.5)
    again = MaxTokensBatches(split, 30, 99, seed=4, resample=1000)
    assert [batch.tolist() for batch in again.batches] == [batch.tolist() for batch in batches.batches]
    other = np.concatenate(MaxTokensBatches(split, 30, 99, seed=5, resample=1000).batches)
    assert sorted(other) != sorted(drawn)
    lengths = np.maximum(*split.source_target_lengths())
    # what is carried over may be longer than counted, see `pack`
    assert all(len(batch) * lengths[batch].max() <= 30 for batch in batches.batches if len(batch) > 8)
    # an epoch is one pass over what was drawn
    epoch = np.concatenate([batches.rows(step) for step in range(batches.updates_per_epoch)])
    assert sorted(epoch) == sorted(drawn)


@pytest.mark.slow
def test_one_epoch_of_resampled_examples_is_a_run(tmp_path):
    changes = KEYS | {"resample": 200, "epochs": 1, "max_steps": 10_000, "eval_steps": None}
    recipe = tiny_recipe(tmp_path / "run", **changes)
    task = prepare_task(recipe)
    batches = task.batches(10_000, rank=0, world=1)
    assert sum(map(len, batches.batches)) == 200
    assert run_recipe(recipe).steps == -(-len(batches.batches) // 3)


@settings(max_examples=50)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 20))
def test_processes_share_the_batches(per_update, world, seed):
    split = split_of(50, seed)
    ranks = [MaxTokensBatches(split, 30, 9, seed, per_update, rank, world) for rank in range(world)]
    parts = [[part.tolist() for part in rank] for rank in ranks]
    count = ranks[0].parts
    assert {len(rank) for rank in parts} == {9 * count} == {len(rank) for rank in ranks}
    alone = MaxTokensBatches(split, 30, 9, seed, per_update)
    for step in range(9):
        here = [part for rank in parts for part in rank[step * count : (step + 1) * count]]
        assert sorted(row for part in here for row in part) == sorted(alone.rows(step).tolist())
        # no part mixes batches, so none is padded further than it would be alone
        whole = [set(batch.tolist()) for batch in alone.batches_of(step)]
        assert all(any(set(part) <= batch for batch in whole) for part in here)
    assert alone.parts == per_update


@pytest.mark.parametrize("first", [1, 4, 7])
def test_a_resumed_run_draws_what_it_would_have_drawn(first):
    def batches():
        return MaxTokensBatches(split_of(40), 24, 12, seed=2, batches_per_update=2)

    whole = [part.tolist() for part in batches()]
    resumed = batches()
    resumed.first_step = first
    assert [part.tolist() for part in resumed] == whole[2 * first :]


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"max_tokens": ...}, "batches.max_tokens"),
        ({"max_tokens": 0}, "batches.max_tokens"),
        ({"per_update": 0}, "batches.per_update"),
        ({"resample": 0}, "batches.resample"),
        ({"batches": {"size": 8}}, "batches.size"),
        ({"batches": {"length_buckets": 2}}, "batches.length_buckets"),
        ({"sampling": "epochs"}, "batches.max_tokens"),
        ({"sampling": "epochs", "max_tokens": ...}, "batches.per_update"),
        ({"sampling": "epochs", "max_tokens": ..., "per_update": ...}, "batches.resample"),
    ],
    ids=str,
)
def test_keys_that_do_not_go_together(changes, key, tmp_path):
    with pytest.raises(RecipeError) as caught:
        tiny_recipe(tmp_path, **{**KEYS, "resample": 50, **changes})
    assert caught.value.key == key


def test_a_run_says_which_example_is_too_long(tmp_path, few_examples):
    with pytest.raises(RecipeError, match=r"batches\.max_tokens=5"):
        run_recipe(tiny_recipe(tmp_path, **{**KEYS, "max_tokens": 5}))


def test_two_processes_make_the_updates_of_one(tmp_path, few_examples):
    """Three batches over two processes are six pieces; an epsilon above the gradients keeps rounding errors small."""
    keys = {**KEYS, "dropout": 0.0, "adam_epsilon": 1.0, "learning_rate": 1.0, "max_grad_norm": 1.0, "eval_steps": None}
    alone = run_recipe(tiny_recipe(tmp_path / "one", **keys))
    done = train_process([str(write_recipe(tmp_path, **keys)), "output_dir=two"], tmp_path, processes=2)
    assert done.status == 0, done.err
    shared = read_record(tmp_path / "two" / "results.json")
    assert (alone.num_processes, shared.num_processes) == (1, 2)
    curves = [
        [value for entry in record.history if entry.loss is not None for value in (entry.loss, entry.grad_norm)]
        for record in (alone, shared)
    ]
    assert len(curves[0]) == 12
    assert curves[1] == pytest.approx(curves[0], rel=1e-5)
    models = [load_file(tmp_path / name / "model" / "model.safetensors") for name in ("one/run", "two")]
    assert max(float((models[1][name] - weight).abs().max()) for name, weight in models[0].items()) < 1e-5
