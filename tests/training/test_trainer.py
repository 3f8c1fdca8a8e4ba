"""What the trainer adds to Seq2SeqTrainer: loss, evaluation, precision, early stopping, divergence."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import math
import os
import re
import shutil
from types import SimpleNamespace

import kills
import numpy as np
import pytest
import torch
from accelerate.optimizer import AcceleratedOptimizer
from invariance import assert_a_lost_end_comes_back
from safetensors.torch import load_file
from tiny_runs import (
    lines_beside_progress,
    read_lines,
    small_scan,
    snapshot,
    tiny_recipe,
    train_process,
    weights,
    write_recipe,
)
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments, TrainerControl, TrainerState

import hf_sysgen.evaluation.evaluate
import hf_sysgen.training.callbacks
import hf_sysgen.training.trainer
from hf_sysgen.config.fields import FIELDS
from hf_sysgen.config.io import dump_recipe
from hf_sysgen.config.trainer_fields import OWNED
from hf_sysgen.errors import RunFailed, UserError
from hf_sysgen.evaluation.checkpoints import load_checkpoint
from hf_sysgen.evaluation.evaluate import evaluate_split
from hf_sysgen.evaluation.metrics.summary import summarize
from hf_sysgen.files import COMPLETE, first_difference_from_manifest, write_atomic, write_manifest
from hf_sysgen.models import CONFIGS
from hf_sysgen.results.cells import precision_of_run
from hf_sysgen.results.reading import read_record
from hf_sysgen.train import main
from hf_sysgen.training.batches import StepBatches
from hf_sysgen.training.callbacks import Progress, UpdateHooks
from hf_sysgen.training.checkpointing import last_checkpoint
from hf_sysgen.training.run import run_recipe
from hf_sysgen.training.tasks.registry import prepare_task
from hf_sysgen.training.trainer import SysgenTrainer, training_arguments


def losses(record) -> list[float]:
    return [entry.loss for entry in record.history if entry.loss is not None]


def first_batch(recipe):
    task = prepare_task(recipe)
    train = task.splits["train"]
    rows = StepBatches(train, recipe.batches.size, recipe.training.max_steps, recipe.seed).rows(0)
    return task.build_model("eager").train(), train[rows]


def test_two_seeds_have_two_initial_weights(tmp_path, few_examples):
    """Before any batch, whose order depends on the seed too."""
    one, same, other = (
        dict(prepare_task(tiny_recipe(tmp_path, seed=seed)).build_model("eager").named_parameters())
        for seed in (5, 5, 6)
    )
    assert all(torch.equal(one[name], same[name]) for name in one)
    drawn = [name for name, weight in one.items() if weight.ndim == 2 and weight.std() > 0]
    assert len(drawn) > 5
    assert not any(torch.equal(one[name], other[name]) for name in drawn)


def test_adam_is_the_recipe_s(tmp_path, few_examples):
    """Its first update does not depend on beta2, the second one does."""
    found = {}
    for beta, steps in itertools.product((0.5, 0.9), (1, 2)):
        changes = {"adam_beta1": 0.3, "adam_beta2": beta, "adam_epsilon": 1e-5, "max_steps": steps, "save_steps": 1}
        recipe = tiny_recipe(tmp_path / f"{beta}-{steps}", **changes, dropout=0.0, eval_steps=None)
        run_recipe(recipe)
        found[beta, steps] = load_file(recipe.run_dir / "model" / "model.safetensors")
        group = torch.load(recipe.run_dir / f"checkpoint-{steps}" / "optimizer.pt")["param_groups"][0]
        assert (group["betas"], group["eps"]) == ((0.3, beta), 1e-5)
    for steps, differs in ((1, False), (2, True)):
        gaps = [(found[0.5, steps][name] - weight).abs().max() for name, weight in found[0.9, steps].items()]
        assert (max(gaps) > 1e-4) == differs


def test_the_launcher_does_not_choose_the_precision(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    for bf16, found in ((False, "no"), (True, "bf16")):
        assert training_arguments(tiny_recipe(tmp_path, bf16=bf16)).mixed_precision == found


def test_weights_are_used_after_a_schedule_free_optimizer_averages_them(tmp_path, few_examples, monkeypatch):
    modes, seen = ["train"], []
    for mode in ("train", "eval"):
        monkeypatch.setattr(AcceleratedOptimizer, mode, lambda self, mode=mode: modes.append(mode))
    for name in ("evaluate", "_save_checkpoint", "save_weights"):
        method = getattr(SysgenTrainer, name)

        def watched(self, *args, method=method, **options):
            seen.append((self.state.global_step, modes[-1]))
            return method(self, *args, **options)

        monkeypatch.setattr(SysgenTrainer, name, watched)
    run_recipe(tiny_recipe(tmp_path, max_steps=5, eval_steps=2, save_steps=4, kept_steps=[3]))
    assert {step for step, _ in seen} == {2, 3, 4, 5}
    assert {mode for _, mode in seen} == {"eval"}
    assert "train" in modes[modes.index("eval") :]


def test_equal_seeds_equal_bytes(tmp_path, few_examples):
    folders = [tmp_path / name for name in ("one", "two", "other")]
    for folder, seed in zip(folders, (5, 5, 6), strict=True):
        run_recipe(tiny_recipe(folder, seed=seed))
    one, two, other = (weights(folder / "run" / "model") for folder in folders)
    assert one == two
    assert one != other


def test_nesterov_is_fairseq_s(tmp_path):
    """v = m v - lr g, and x moves by m^2 (the old v) - (1 + m) lr g: their `nag` at a constant learning rate."""
    recipe = tiny_recipe(tmp_path, optim="sgd", optim_args="momentum=0.75,nesterov=true", learning_rate=0.3)
    kind, options = SysgenTrainer.get_optimizer_cls_and_kwargs(training_arguments(recipe))
    parameter = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    optimizer = kind([parameter], **options)
    place, speed = 2.0, 0.0
    for _ in range(4):
        optimizer.zero_grad()
        (parameter**3).backward()
        optimizer.step()
        gradient = 3 * place**2
        place += 0.75**2 * speed - 1.75 * 0.3 * gradient
        speed = 0.75 * speed - 0.3 * gradient
        assert parameter.item() == pytest.approx(place, rel=1e-12)


def test_what_the_runner_decides_is_what_a_recipe_cannot_give(tmp_path, monkeypatch):
    given = {}

    def spy(**fields):
        given.update(fields)
        return Seq2SeqTrainingArguments(**fields)

    monkeypatch.setattr(hf_sysgen.training.trainer, "Seq2SeqTrainingArguments", spy)
    training_arguments(tiny_recipe(tmp_path, early_stopping={"metric": "accuracy"}, eval_steps=2))
    assert "load_best_model_at_end" in given
    declared = {field.key.removeprefix("training.") for field in FIELDS}
    assert set(given) - declared <= set(OWNED)


def test_compiled_float32_stays_float32(tmp_path):
    """Unless TF32 is asked for; the Trainer's own default is TF32."""
    assert training_arguments(tiny_recipe(tmp_path, torch_compile=True)).tf32 is False
    # a mode alone compiles too
    by_mode = training_arguments(tiny_recipe(tmp_path, training={"torch_compile_mode": "default"}))
    assert (by_mode.torch_compile, by_mode.tf32) == (True, False)
    assert training_arguments(tiny_recipe(tmp_path)).tf32 is None


def test_tf32_of_accelerate_is_undone(tmp_path, few_examples, monkeypatch):
    recipe = tiny_recipe(tmp_path, torch_compile=True)
    task = prepare_task(recipe)
    init = Seq2SeqTrainer.__init__

    def like_accelerate(self, *args, **kwargs):
        init(self, *args, **kwargs)
        torch.backends.cuda.matmul.allow_tf32 = True

    monkeypatch.setattr(Seq2SeqTrainer, "__init__", like_accelerate)
    try:
        SysgenTrainer(recipe, task.build_model("eager"), task)
        assert torch.backends.cuda.matmul.allow_tf32 is False
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False


@pytest.mark.parametrize(
    ("fields", "stances"), [({"training": {"torch_compile_mode": "default"}}, ["force_eager"]), ({}, [])]
)
def test_evaluation_is_not_compiled(tmp_path, few_examples, monkeypatch, fields, stances):
    """Also where a mode alone compiles the model for training."""
    recipe = tiny_recipe(tmp_path, **fields)
    task = prepare_task(recipe)
    trainer = SysgenTrainer(recipe, task.build_model("eager"), task)
    seen = []
    monkeypatch.setattr(torch.compiler, "set_stance", lambda stance: seen.append(stance) or contextlib.nullcontext())
    trainer.predict_split("test")
    assert seen == stances


def test_loss_is_the_mean_over_labels(tmp_path, few_examples):
    recipe = tiny_recipe(tmp_path, dropout=0.0, max_steps=1, eval_steps=None)
    model, batch = first_batch(recipe)
    # every label by itself, EOS included
    logits = model(**batch).logits.log_softmax(dim=-1).detach()
    scores = [
        -float(logits[row, place, token])
        for row, labels in enumerate(batch["labels"].tolist())
        for place, token in enumerate(labels)
        if token != -100
    ]
    assert losses(run_recipe(recipe)) == [pytest.approx(sum(scores) / len(scores), rel=1e-5)]


def test_label_smoothing_is_the_formula(tmp_path, few_examples):
    recipe = tiny_recipe(tmp_path, dropout=0.0, max_steps=1, eval_steps=None, label_smoothing_factor=0.3)
    model, batch = first_batch(recipe)
    logits = model(**batch).logits.log_softmax(dim=-1).detach()
    scores = [
        -0.7 * float(logits[row, place, token]) - 0.3 * float(logits[row, place].mean())
        for row, labels in enumerate(batch["labels"].tolist())
        for place, token in enumerate(labels)
        if token != -100
    ]
    assert losses(run_recipe(recipe)) == [pytest.approx(sum(scores) / len(scores), rel=1e-5)]


def test_label_smoothing_changes_nothing_else(tmp_path, few_examples):
    """What the LSTM reads in training are its own words, of which nobody but the model knows."""
    for forcing in (0.0, 1.0):
        keys = {"model": "lstm_seq2seq", "dropout": 0.0, "teacher_forcing": forcing, "max_steps": 3, "eval_steps": None}
        plain, smoothed = (
            losses(run_recipe(tiny_recipe(tmp_path / f"{forcing}-{weight}", **keys, label_smoothing_factor=weight)))
            for weight in (0.0, 1e-9)
        )
        assert smoothed == pytest.approx(plain, rel=1e-6)


def test_label_smoothing_is_fairseq_s(golden_dir):
    tensors = load_file(golden_dir / "sag" / "a_plain_postnorm.safetensors")
    labels = tensors["in.target"].masked_fill(tensors["in.target"] == 1, -100)
    trainer = SimpleNamespace(recipe=SimpleNamespace(training=SimpleNamespace(label_smoothing_factor=0.1)))
    for tokens in (1, 7):
        loss = SysgenTrainer.smoothed_loss(trainer, SimpleNamespace(logits=tensors["out.logits"]), labels, tokens)
        torch.testing.assert_close(loss * tokens, tensors["out.loss_sum_smoothed"][0], rtol=1e-6, atol=0)


def test_evaluation_at_the_start_is_of_the_start_alone(tmp_path, few_examples):
    assert_a_lost_end_comes_back(tiny_recipe(tmp_path).replace(**{"training.eval_on_start": True}))


def test_without_eos_as_a_label(tmp_path, few_examples):
    recipe = tiny_recipe(tmp_path, dropout=0.0, max_steps=1, eval_steps=None, train_eos=False)
    model, batch = first_batch(recipe)
    assert not (batch["labels"] == model.config.eos_token_id).any()
    record = run_recipe(recipe)
    assert losses(record) == [pytest.approx(float(model(**batch).loss.detach()), rel=1e-5)]
    # evaluation still counts EOS
    assert record.splits["test"].examples == 13


def test_first_update_is_adam(tmp_path, few_examples):
    """By hand: the moments' corrections cancel at the first update, so it is lr * g / (|g| + eps), after decay."""
    recipe = tiny_recipe(
        tmp_path, dropout=0.0, max_steps=1, eval_steps=None, weight_decay=0.1, max_grad_norm=0.5, learning_rate=0.02,
        adam_epsilon=0.01,
    )  # fmt: skip
    model, batch = first_batch(recipe)
    model(**batch).loss.backward()
    norm = math.sqrt(sum(float(parameter.grad.pow(2).sum()) for parameter in model.parameters()))
    assert norm > 0.5
    run_recipe(recipe)
    updated = load_file(tmp_path / "run" / "model" / "model.safetensors")
    assert len(updated) > 10
    for name, parameter in model.named_parameters():
        gradient = parameter.grad * 0.5 / norm
        expected = parameter * (1 - 0.02 * 0.1) - 0.02 * gradient / (gradient.abs() + 0.01)
        torch.testing.assert_close(updated[name], expected.detach(), rtol=0, atol=2e-6)


TWO_TABLES = [name for name, config in CONFIGS.items() if hasattr(config, "source_vocab_size")]


@pytest.mark.parametrize("model", TWO_TABLES)
def test_every_parameter_learns(model, tmp_path, few_examples):
    """DistributedDataParallel is told so, and would wait for a gradient that never comes."""
    network, batch = first_batch(tiny_recipe(tmp_path, model=model))
    network(**batch).loss.backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


@pytest.mark.parametrize(
    "changes",
    [{"gradient_checkpointing": True}, {"attn_implementation": "sdpa"}],
    ids=lambda changes: next(iter(changes)),
)
def test_same_updates_in_another_way(changes, tmp_path, few_examples, monkeypatch):
    """Sums in another order, in float32; an epsilon above the gradients keeps Adam from dividing rounding errors."""
    ways = []
    step = SysgenTrainer.training_step

    def spy(self, model, *args, **kwargs):
        ways.append((model.is_activation_checkpointing, model.config._attn_implementation))
        return step(self, model, *args, **kwargs)

    monkeypatch.setattr(SysgenTrainer, "training_step", spy)
    common = {"dropout": 0.0, "adam_epsilon": 1.0, "learning_rate": 4.0, "schedule": "noam", "warmup_steps": 3,
              "max_grad_norm": 1.0}  # fmt: skip
    plain = run_recipe(tiny_recipe(tmp_path / "plain", attn_implementation="eager", **common))
    other = run_recipe(tiny_recipe(tmp_path / "other", **({"attn_implementation": "eager"} | changes), **common))
    way = ("gradient_checkpointing" in changes, changes.get("attn_implementation", "eager"))
    assert [*dict.fromkeys(ways)] == [(False, "eager"), way]
    assert losses(other) == pytest.approx(losses(plain), rel=1e-5)
    used = [[entry.learning_rate for entry in record.history if entry.loss is not None] for record in (plain, other)]
    assert used[0] == pytest.approx(used[1], rel=1e-12)
    models = [load_file(tmp_path / name / "run" / "model" / "model.safetensors") for name in ("plain", "other")]
    for name, weight in models[0].items():
        torch.testing.assert_close(models[1][name], weight, rtol=0, atol=1e-5)


def test_a_short_last_batch_is_shared_too(tmp_path, few_examples):
    """61 examples in batches of 20: the epoch's last one has one row, so that three of four groups are empty."""
    common = {"dropout": 0.0, "adam_epsilon": 1.0, "learning_rate": 0.4, "sampling": "epochs", "size": 20}
    runs = [run_recipe(tiny_recipe(tmp_path / str(n), length_buckets=n, **common)) for n in (1, 4)]
    assert losses(runs[1]) == pytest.approx(losses(runs[0]), rel=1e-5)
    models = [load_file(tmp_path / str(n) / "run" / "model" / "model.safetensors") for n in (1, 4)]
    for name, weight in models[0].items():
        torch.testing.assert_close(models[1][name], weight, rtol=0, atol=1e-5)


def test_with_cuda_graphs_parts_add_up_in_other_memory(tmp_path, few_examples, monkeypatch):
    """The graphs write the gradients of every part to one place, so the backward pass must find a sum to add to."""
    found = set()
    step = Seq2SeqTrainer.training_step

    def spy(self, model, *args, **kwargs):
        found.add(all(parameter.grad is not None for parameter in model.parameters()))
        return step(self, model, *args, **kwargs)

    run_recipe(tiny_recipe(tmp_path / "plain", length_buckets=2))
    monkeypatch.setattr(Seq2SeqTrainer, "training_step", spy)
    # no mode, so that this runs without a GPU
    monkeypatch.setattr(hf_sysgen.training.trainer, "CUDA_GRAPHS", (None,))
    run_recipe(tiny_recipe(tmp_path / "graphs", length_buckets=2))
    assert found == {True}
    weights = [(tmp_path / name / "run" / "model" / "model.safetensors").read_bytes() for name in ("plain", "graphs")]
    assert weights[0] == weights[1]


def test_operations_are_those_of_the_trainer(tmp_path, few_examples, monkeypatch):
    counted = []
    ours = SysgenTrainer.floating_point_ops

    def both(self, inputs):
        counted.append((ours(self, inputs), Seq2SeqTrainer.floating_point_ops(self, inputs)))
        return counted[-1][0]

    monkeypatch.setattr(SysgenTrainer, "floating_point_ops", both)
    run_recipe(tiny_recipe(tmp_path))
    assert len(counted) == 6
    assert all(own == theirs > 0 for own, theirs in counted)


def test_gradient_checkpointing_with_dropout(tmp_path, few_examples):
    """Recomputed layers draw the same masks, so even bytes are equal."""
    for name, changes in (("plain", {}), ("checkpointed", {"gradient_checkpointing": True})):
        run_recipe(tiny_recipe(tmp_path / name, **changes))
    assert weights(tmp_path / "plain" / "run" / "model") == weights(tmp_path / "checkpointed" / "run" / "model")


def test_the_record_has_the_precision_that_was_computed_in(tmp_path, few_examples):
    """On a CPU, fp16 has no autocast."""
    plain, half, brain = (
        run_recipe(tiny_recipe(tmp_path / name, dropout=0.0, **{name: True} if name else {}))
        for name in ("", "fp16", "bf16")
    )
    assert [precision_of_run(one) for one in (plain, half, brain)] == ["float32", "float32", "bfloat16"]
    assert losses(half) == losses(plain) != losses(brain)
    # older records do not say it
    older = half.model_copy(update={"environment": half.environment.model_copy(update={"precision": None})})
    assert precision_of_run(older) == "float16"


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_evaluation_is_in_float32(precision, tmp_path, few_examples):
    """What the run recorded is what its checkpoint gives by itself."""
    recipe = tiny_recipe(tmp_path, bf16=precision == "bf16")
    record = run_recipe(recipe)
    model, _ = load_checkpoint(tmp_path / "run")
    assert {weight.dtype for weight in model.state_dict().values()} == {torch.float32}
    splits = prepare_task(recipe).splits
    for name in ("validation", "test"):
        again = summarize(evaluate_split(model, splits[name], batch_size=4))
        for loss in ("loss", "loss_teacher"):
            assert record.splits[name].metrics[loss] == pytest.approx(again.metrics[loss], rel=1e-6)


def test_bf16_trains_in_bf16(tmp_path, few_examples):
    records = [run_recipe(tiny_recipe(tmp_path / name, bf16=name == "bf16", dropout=0.0)) for name in ("fp32", "bf16")]
    full, half = (np.array(losses(record)) for record in records)
    # eight bits of mantissa, one rounding after the other
    assert 1e-5 < np.abs(half / full - 1)[0] < 2**-7
    assert np.abs(half / full - 1).max() < 2**-5


def test_evaluations_see_the_chosen_examples(tmp_path, few_examples, monkeypatch):
    """A fixed choice during training, everything at the end."""
    seen = []

    def spy(model, split, rows, **kwargs):
        seen.append(rows.tolist())
        return evaluate_split(model, split, rows, **kwargs)

    monkeypatch.setattr(hf_sysgen.evaluation.evaluate, "evaluate_split", spy)
    run_recipe(tiny_recipe(tmp_path))
    during, final = seen[:4], seen[4:]
    assert during[0] == during[2]
    assert during[1] == during[3]
    for rows, total in zip(during, (11, 13, 11, 13), strict=True):
        assert len(set(rows)) == 5
        assert set(rows) <= set(range(total))
    assert final == [list(range(11)), list(range(13))]


def test_a_lost_example_is_an_error(tmp_path, few_examples, monkeypatch):
    monkeypatch.setattr(
        hf_sysgen.evaluation.evaluate, "evaluate_split", lambda *args, **kwargs: evaluate_split(*args, **kwargs)[1:]
    )
    with pytest.raises(RuntimeError, match=r"validation.* 4 .* 5\b"):
        run_recipe(tiny_recipe(tmp_path))


def test_tensorboard(tmp_path, few_examples):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    record = run_recipe(tiny_recipe(tmp_path, report_to="tensorboard"))
    (folder,) = {path.parent for path in (tmp_path / "run").rglob("events.out.tfevents*")}
    events = EventAccumulator(str(folder)).Reload()
    assert [event.step for event in events.Scalars("train/loss")] == [1, 2, 3, 4, 5, 6]
    assert [event.value for event in events.Scalars("train/loss")] == pytest.approx(losses(record), rel=1e-6)
    assert [event.step for event in events.Scalars("eval/test_accuracy")] == [3, 6]


def test_no_tracker_no_files(tmp_path, few_examples):
    run_recipe(tiny_recipe(tmp_path))
    assert not list((tmp_path / "run").rglob("events.out.tfevents*"))


def test_clock_leaves_evaluation_out(tmp_path, few_examples, monkeypatch):
    """In place of the time is a number, which an update moves by ten and an evaluation by a thousand."""
    now = [0.0]

    def taking(seconds, function):
        def slow(*args, **kwargs):
            now[0] += seconds
            return function(*args, **kwargs)

        return slow

    monkeypatch.setattr(hf_sysgen.training.callbacks.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(hf_sysgen.evaluation.evaluate, "evaluate_split", taking(1000, evaluate_split))
    monkeypatch.setattr(SysgenTrainer, "training_step", taking(10, SysgenTrainer.training_step))
    record = run_recipe(tiny_recipe(tmp_path))
    assert record.train_seconds == 10 * record.steps
    assert now[0] > 1000


# early stopping


def evaluations(monkeypatch, values, metric):
    """Validation takes these values of a metric, one for each evaluation."""
    values = iter(values)

    def metrics(self, eval_dataset=None, ignore_keys=None, metric_key_prefix="eval"):
        found = {f"eval_validation_{metric}": next(values)}
        self.log(found)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, found)
        return found

    monkeypatch.setattr(SysgenTrainer, "evaluate", metrics)


@pytest.mark.parametrize(
    ("metric", "values", "best", "last"),
    [
        ("loss", [3.0, 2.0, 2.5, 2.0], 2, 4),
        ("accuracy", [0.1, 0.1, 0.4, 0.2, 0.4], 3, 5),
        ("loss", [6.0, 5.0, 4.0, 3.0, 2.0, 1.0], 6, 6),
    ],
)
def test_early_stopping(metric, values, best, last, tmp_path, few_examples, monkeypatch):
    evaluations(monkeypatch, values, metric)
    changes = {"early_stopping": {"metric": metric, "patience": 2}, "eval_steps": 1}
    record = run_recipe(tiny_recipe(tmp_path, **changes))
    assert record.steps == last
    model = load_file(tmp_path / "run" / "model" / "model.safetensors")
    kept = load_file(tmp_path / "run" / f"checkpoint-{best}" / "model.safetensors")
    assert model.keys() == kept.keys()
    assert all(torch.equal(model[name], kept[name]) for name in kept)
    if best != last:
        newest = load_file(tmp_path / "run" / f"checkpoint-{last}" / "model.safetensors")
        assert any(not torch.equal(model[name], newest[name]) for name in newest)


def overfit() -> None:
    """Losses of an evaluation that get worse from step 2 on, by the step, so that a resumed run sees the same."""
    evaluate = SysgenTrainer.evaluate

    def worse(self, *args, **kwargs):
        summarize = self.task.summarize
        value = float(abs(self.state.global_step - 2))
        self.task.summarize = lambda *of: summarize(*of).model_copy(update={"loss": value})
        try:
            return evaluate(self, *args, **kwargs)
        finally:
            del self.task.summarize

    SysgenTrainer.evaluate = worse


def overfit_and(moment=None) -> None:
    overfit()
    if moment is not None:
        moment()


@pytest.mark.parametrize(
    "moment",
    [
        functools.partial(kills.after_step, 4),
        # step 2 is the best one and step 4 has just been saved
        functools.partial(kills.inside_removal, 3),
        functools.partial(kills.inside_file, "results.json"),
    ],
    ids=["while waiting for an improvement", "while an older checkpoint is removed", "after stopping"],
)
def test_early_stopping_survives_a_kill(moment, tmp_path):
    recipe = write_recipe(
        tmp_path, max_steps=9, early_stopping={"metric": "loss", "patience": 3}, eval_steps=1, examples=1
    )
    for name, prepare in (("whole", overfit_and), ("killed", functools.partial(overfit_and, moment))):
        (tmp_path / name).mkdir()
        arguments = [str(recipe), f"output_dir={tmp_path / name / 'run'}"]
        status = train_process(arguments, tmp_path / name, prepare).status
        assert status == (0 if name == "whole" else -9)
    again = train_process(arguments, tmp_path / "killed", overfit_and)
    assert again.status == 0, again.err
    whole, killed = (read_record(tmp_path / name / "run" / "results.json") for name in ("whole", "killed"))
    assert whole.steps == killed.steps == 5
    assert weights(tmp_path / "whole" / "run" / "model") == weights(tmp_path / "killed" / "run" / "model")
    assert whole.splits == killed.splits
    assert "missing keys" not in again.err


def test_the_best_step_may_be_a_kept_one(tmp_path, few_examples, monkeypatch):
    """Which lies between the evaluations that the checkpoints go with."""
    evaluations(monkeypatch, [1.0, 2.0, 3.0], "loss")
    record = run_recipe(tiny_recipe(tmp_path, early_stopping={"metric": "loss"}, kept_steps=[2]))
    assert record.best_step == 2
    assert weights(tmp_path / "run" / "model") == weights(tmp_path / "run" / "step-2")


def test_a_damaged_best_checkpoint_may_be_removed(tmp_path, few_examples, monkeypatch):
    """The run resumes from the one before it, which needs the one that was the best then."""
    recipe = tiny_recipe(tmp_path, early_stopping={"metric": "loss"}, max_steps=9)
    evaluations(monkeypatch, [2.0, 3.0, 1.0], "loss")
    with monkeypatch.context() as patch:
        patch.setattr(hf_sysgen.training.run, "write_predictions", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run_recipe(recipe)
    shutil.rmtree(tmp_path / "run" / "checkpoint-9")
    evaluations(monkeypatch, [1.0], "loss")
    assert run_recipe(recipe).best_step == 9


def test_one_process_takes_one_gpu(tmp_path, monkeypatch):
    """Else the Trainer spreads batches over all, and losses that are means of the whole batch are added up."""

    def two(arguments):
        arguments._n_gpu = 2
        return torch.device("cpu")

    monkeypatch.setattr(Seq2SeqTrainingArguments, "_setup_devices", property(two))
    arguments = training_arguments(tiny_recipe(tmp_path))
    assert arguments._n_gpu == 1


def test_a_run_that_was_moved_keeps_its_best_weights(tmp_path, few_examples, monkeypatch):
    """Even where another run has taken its old place."""
    evaluations(monkeypatch, [1.0, 2.0], "loss")
    with monkeypatch.context() as patch:
        patch.setattr(hf_sysgen.training.run, "write_predictions", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run_recipe(tiny_recipe(tmp_path, early_stopping={"metric": "loss"}))
    moved = (tmp_path / "run").rename(tmp_path / "moved")
    recipe = tiny_recipe(tmp_path, early_stopping={"metric": "loss"}, output_dir=str(moved))
    best = (moved / "checkpoint-3").rename(tmp_path / "elsewhere")
    with pytest.raises(RunFailed, match=r"moved/checkpoint-3\b"):
        run_recipe(recipe)
    best.rename(moved / "checkpoint-3")
    scheduler = (moved / "checkpoint-3" / "scheduler.pt").rename(tmp_path / "scheduler.pt")
    with pytest.raises(UserError, match=r"scheduler\.pt"):
        run_recipe(recipe)
    scheduler.rename(moved / "checkpoint-3" / "scheduler.pt")
    (tmp_path / "run" / "checkpoint-3").mkdir(parents=True)
    assert run_recipe(recipe).best_step == 3
    # although the newest one's state now says where the best one is
    assert first_difference_from_manifest(moved / "checkpoint-6") is None
    assert weights(moved / "model") == weights(moved / "checkpoint-3")


def interrupt(*args) -> None:
    raise KeyboardInterrupt


# divergence


@pytest.mark.parametrize(("learning_rate", "saved"), [(1e30, True), (1e39, False)], ids=["loss", "weights"])
def test_divergence(learning_rate, saved, tmp_path, few_examples, capsys):
    """
    A loss that is not a number ends the run, with one line, before anything is saved that it has spoiled. The second
    learning rate makes weights infinite that come from a finite loss.
    """
    path = write_recipe(
        tmp_path, output_dir=str(tmp_path / "run"), learning_rate=learning_rate, max_steps=50, save_steps=1
    )
    assert main([str(path)]) == 1
    lines = lines_beside_progress(capsys.readouterr().err)
    assert len(lines) == 1, lines
    assert lines[0].startswith("error: ")
    assert str(tmp_path / "run") in lines[0]
    assert not (tmp_path / "run" / "results.json").exists()
    assert (last_checkpoint(tmp_path / "run") is not None) == saved
    for folder in (tmp_path / "run").glob("checkpoint-*"):
        for name, weight in load_file(folder / "model.safetensors").items():
            assert weight.isfinite().all(), (folder, name)


def test_divergence_between_checkpoints(tmp_path, few_examples, monkeypatch, capsys):
    """The loss is looked at before each evaluation and each save, not only when it is logged."""
    path = write_recipe(
        tmp_path, output_dir=str(tmp_path / "run"), max_steps=9, save_steps=4, eval_steps=None, logging_steps=7
    )
    compute = SysgenTrainer.compute_loss

    def spoiled(self, *args, **kwargs):
        loss = compute(self, *args, **kwargs)
        # added, so that its gradient, and with it the weights, stay finite
        return loss + math.nan if self.state.global_step == 4 else loss

    monkeypatch.setattr(SysgenTrainer, "compute_loss", spoiled)
    assert main([str(path)]) == 1
    assert "at or before step 7" in capsys.readouterr().err
    assert last_checkpoint(tmp_path / "run").name == "checkpoint-4"
    # and the same command tries again from there
    monkeypatch.setattr(SysgenTrainer, "compute_loss", compute)
    assert main([str(path)]) == 0


# the Trainer's own


@pytest.mark.parametrize("hook", ["on_step_end", "on_save"])
def test_the_public_hooks_are_called(hook, tmp_path, few_examples, monkeypatch):
    """Once for each update or checkpoint, at which the Trainer has not moved on."""
    steps, called = [], getattr(UpdateHooks, hook)

    def noted(self, args, state, control, **kwargs):
        steps.append(state.global_step)
        called(self, args, state, control, **kwargs)

    monkeypatch.setattr(UpdateHooks, hook, noted)
    run_recipe(tiny_recipe(tmp_path, save_steps=2, max_steps=4, length_buckets=2))
    assert steps == ([1, 2, 3, 4] if hook == "on_step_end" else [2, 4])


# checkpoints


def test_last_checkpoint(tmp_path):
    assert last_checkpoint(tmp_path) is None
    for step, complete in ((2, True), (10, True), (9, True), (12, False)):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "model.safetensors").write_text("")
        if complete:
            (folder / "complete").touch()
    assert last_checkpoint(tmp_path).name == "checkpoint-10"
    assert not (tmp_path / "checkpoint-12").exists()
    assert (tmp_path / "checkpoint-2").exists()


def test_what_is_no_checkpoint_of_the_run_is_left_alone(tmp_path, few_examples):
    """Folders and files of the user's, whatever they are called, also on the way of messages and of removals."""
    run = tmp_path / "run"
    for name in ("checkpoint-notes", "checkpoint-30-old", "checkpoint-007", "checkpoint-", "checkpoint-\u00b2"):
        (run / name).mkdir(parents=True)
        (run / name / "notes.txt").write_text("important")
        (run / name / "complete").touch()
    (run / "checkpoint-99").write_text("important")
    (tmp_path / "elsewhere").mkdir()
    (run / "checkpoint-98").symlink_to(tmp_path / "elsewhere")
    recipe = tiny_recipe(tmp_path, save_steps=1, max_steps=3)
    before = snapshot(run)
    write_atomic(run / "recipe.yaml", dump_recipe(recipe))
    assert run_recipe(recipe).steps == 3
    after = snapshot(run)
    assert {name: after[name] for name in before} == before
    assert (run / "checkpoint-98").is_symlink()
    assert {path.name for path in run.glob("checkpoint-[1-9]")} == {"checkpoint-2", "checkpoint-3"}
    (run / "results.json").unlink()
    (run / "checkpoint-3" / "optimizer.pt").unlink()
    with pytest.raises(UserError, match=r"remove \S*checkpoint-3"):
        run_recipe(recipe)


def test_two_checkpoints_are_kept(tmp_path, few_examples):
    run_recipe(tiny_recipe(tmp_path, save_steps=1, max_steps=4))
    assert {path.name for path in (tmp_path / "run").glob("checkpoint-*")} == {"checkpoint-3", "checkpoint-4"}
    assert read_lines(tmp_path / "run" / "predictions.jsonl")[0]["input"] == small_scan()["validation"][0]["input"]


def test_progress_lines(tmp_path, few_examples, capfd):
    """Not on a terminal: a line at the start, and for each evaluation, with what a person wants to know."""
    run_recipe(tiny_recipe(tmp_path))
    shown = capfd.readouterr().err.splitlines()
    machine, *lines = (line for line in shown if line.startswith(("training on", "step ")))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    assert {device, "1", "float32"} <= set(re.findall(r"\w+", machine))
    assert [line.split()[1] for line in lines] == ["0/6", "3/6", "6/6"]
    assert all(" loss=" in line and " validation=" in line and " test=" in line for line in lines[1:])
    json.loads((tmp_path / "run" / "results.json").read_text())


def test_progress_between_evaluations(monkeypatch, capsys):
    """Also where nothing is logged for long."""
    now = [0.0]
    monkeypatch.setattr(hf_sysgen.training.callbacks.time, "monotonic", lambda: now[0])
    progress, state = Progress(), TrainerState(max_steps=90)
    quiet, logging = TrainerControl(), TrainerControl(should_log=True)
    for step, control in ((1, quiet), (2, quiet), (3, logging), (4, quiet)):
        now[0] += 20
        state.global_step = step
        progress.on_step_end(None, state, control)
        if control.should_log:
            progress.on_log(None, state, control, {"loss": 0.5})
    now[0] += 20
    progress.on_log(None, state, quiet, {"loss": 0.25})
    assert capsys.readouterr().err.splitlines() == ["step 2/90", "step 4/90 loss=0.500"]


def test_losses_since_the_last_log_outlive_a_kill(tmp_path, few_examples):
    """A checkpoint after update 4, between logs at 3 and 6. Each log is the mean of the losses since the one before."""
    each = losses(run_recipe(tiny_recipe(tmp_path / "each", max_steps=6, logging_steps=1)))
    recipe = tiny_recipe(tmp_path, max_steps=6, logging_steps=3, save_steps=2)
    whole = run_recipe(recipe)
    assert losses(whole) == pytest.approx([math.fsum(each[:3]) / 3, math.fsum(each[3:]) / 3])
    assert_a_lost_end_comes_back(recipe)
    # a checkpoint of an older version
    folder = recipe.run_dir
    for lost in ("model", "checkpoint-6"):
        shutil.rmtree(folder / lost)
    (folder / "results.json").unlink()
    (folder / "checkpoint-4" / "unlogged_losses.json").unlink()
    (folder / "checkpoint-4" / COMPLETE).unlink()
    write_manifest(folder / "checkpoint-4")
    assert losses(run_recipe(recipe)) == pytest.approx([losses(whole)[0], math.fsum(each[4:]) / 2])


def test_a_run_goes_on_when_nobody_reads_its_progress(tmp_path, few_examples, monkeypatch):
    """As after a kill of the sweep that started it."""
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as closed:
        monkeypatch.setattr("sys.stderr", closed)
        monkeypatch.setattr(Progress, "EVERY_SECONDS", 0)
        run_recipe(tiny_recipe(tmp_path, max_steps=3))
        monkeypatch.undo()
        with contextlib.suppress(BrokenPipeError):
            closed.close()
    assert (tmp_path / "run" / "results.json").is_file()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
def test_compiled(tmp_path, few_examples):
    common = {"dropout": 0.0, "adam_epsilon": 1.0, "learning_rate": 1.0, "max_grad_norm": 1.0, "eval_steps": None}
    plain = run_recipe(tiny_recipe(tmp_path / "plain", **common))
    compiled = run_recipe(tiny_recipe(tmp_path / "compiled", torch_compile=True, **common))
    assert losses(compiled) == pytest.approx(losses(plain), rel=1e-5)
