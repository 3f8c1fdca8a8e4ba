"""Pretraining: every example once and the same ones on any number of processes, going on, perplexity, kept weights."""

from __future__ import annotations

import functools
import gzip
import itertools
import json
import math
import re
import shutil
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import kills
import pytest
import seen
import sharded
import torch
from made_examples import any_benchmark
from safetensors.torch import load_file
from tiny_runs import (
    ROOT,
    SIZES,
    command,
    environment,
    free_port,
    read_lines,
    small_scan,
    tiny_recipe,
    tiny_sections,
    train_process,
    weights,
)
from tiny_text import PRETRAINING, SHARDS, text_benchmark, texts, write_text, write_tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer
from typer.testing import CliRunner

import hf_sysgen.evaluation.commands
import hf_sysgen.training.run
import hf_sysgen.training.tasks.registry
from hf_sysgen.cli.main import app
from hf_sysgen.config.errors import RecipeError
from hf_sysgen.config.io import parse_recipe
from hf_sysgen.data import load_benchmark
from hf_sysgen.data.c4.files import Shard, known_shards, shard_names, write_shards
from hf_sysgen.errors import RunFailed
from hf_sysgen.evaluation.checkpoints import encoded_sources, load_checkpoint
from hf_sysgen.evaluation.language_modeling import evaluate_text
from hf_sysgen.evaluation.metrics.summary import summarize_text
from hf_sysgen.results.reading import read_record
from hf_sysgen.results.record import SplitMetrics
from hf_sysgen.training.evaluate import evaluate_by_task
from hf_sysgen.training.run import run_recipe
from hf_sysgen.training.tasks.pretraining import PretrainingTask, StreamBatches
from hf_sysgen.training.tasks.registry import prepare_task

STREAMS, LENGTH = 6, 13


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    return write_text(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def tokenizer_folder(tmp_path_factory) -> Path:
    return write_tokenizer(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="module")
def tokenizer(tokenizer_folder):
    return AutoTokenizer.from_pretrained(tokenizer_folder)


@pytest.fixture(scope="module")
def keys(text, tokenizer_folder) -> dict[str, Any]:
    return {**PRETRAINING, "tokenizer": str(tokenizer_folder), "data_dir": str(text)}


# streams


def stream_batches(text: Path, tokenizer, steps: int = 20, **changes: Any) -> StreamBatches:
    settings = {"context_length": LENGTH, "streams": STREAMS, "batch_size": 12, "steps": steps, **changes}
    return StreamBatches(load_benchmark("c4", data_dir=text)["train"], tokenizer, **settings)


def updates(batches: StreamBatches) -> list[list[list[int]]]:
    """The examples of every update, its parts together."""
    parts = [batch["input_ids"].tolist() for batch in batches.loader()]
    return [joined(parts[start : start + batches.parts]) for start in range(0, len(parts), batches.parts)]


def joined(lists: Iterable[list[Any]]) -> list[Any]:
    return list(itertools.chain.from_iterable(lists))


def by_stream(tokenizer) -> list[list[list[int]]]:
    """Each stream's examples, without any of the classes under test: its shards' documents, each with its end, cut."""
    found = []
    for stream in range(STREAMS):
        documents = [document for shard in range(stream, SHARDS, STREAMS) for document in texts()[shard:250:SHARDS]]
        flat = [
            token
            for document in documents
            for token in [*tokenizer(document, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
        ]
        found.append([flat[start : start + LENGTH] for start in range(0, len(flat) - LENGTH + 1, LENGTH)])
    return found


def test_updates_take_equally_many_examples_of_every_stream(text, tokenizer):
    streams = by_stream(tokenizer)
    found = updates(stream_batches(text, tokenizer))
    assert found == [[block for stream in streams for block in stream[2 * step : 2 * step + 2]] for step in range(20)]
    assert len({tuple(block) for update in found for block in update}) == 20 * 12


@pytest.mark.parametrize(("world", "parts"), [(1, 3), (2, 1), (2, 6), (3, 2), (6, 1)])
def test_processes_share_the_same_updates(world, parts, text, tokenizer):
    alone = updates(stream_batches(text, tokenizer))
    shared = [updates(stream_batches(text, tokenizer, parts=parts, rank=rank, world=world)) for rank in range(world)]
    for step, expected in enumerate(alone):
        assert sorted(block for own in shared for block in own[step]) == sorted(expected)
        assert {len(own[step]) for own in shared} == {12 // world}


@pytest.mark.parametrize(("before", "after"), [(1, 1), (2, 2), (3, 2), (1, 6)])
@pytest.mark.parametrize("done", [1, 7, 19])
def test_goes_on(before, after, done, text, tokenizer, tmp_path):
    """From what `before` processes kept, on another number of them; reading ahead counts for nothing."""
    whole = updates(stream_batches(text, tokenizer))
    for rank in range(before):
        batches = stream_batches(text, tokenizer, rank=rank, world=before)
        for step, _ in enumerate(batches.loader(), start=1):
            if step == done:
                break
        batches.save(tmp_path)
    rest = []
    for rank in range(after):
        batches = stream_batches(text, tokenizer, rank=rank, world=after)
        batches.first_step = done
        batches.load(tmp_path)
        rest.append(updates(batches))
    assert [sorted(joined(step)) for step in zip(*rest, strict=True)] == [sorted(step) for step in whole[done:]]


def test_no_example_is_shown_twice(text, tokenizer):
    shortest = min(range(STREAMS), key=lambda stream: len(by_stream(tokenizer)[stream]))
    enough = len(by_stream(tokenizer)[shortest]) // 2
    assert len(updates(stream_batches(text, tokenizer, steps=enough))) == enough
    with pytest.raises(RunFailed, match=rf"stream {shortest} .*{enough + 1} of 999.*steps={enough}"):
        updates(stream_batches(text, tokenizer, steps=999))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"streams": 8, "batch_size": 8}, "data.streams=8 is more than the 7 shards of the text"),
        ({"world": 4}, "streams=6 is not a multiple of processes=4"),
        ({"batch_size": 10}, "batches.size=10 is not a multiple of data.streams=6"),
        ({"parts": 5}, "batches.size=12 is not a multiple of batches.length_buckets=5 x processes=1"),
    ],
)
def test_what_does_not_fit_together(changes, message, text, tokenizer):
    with pytest.raises(ValueError, match=message):
        stream_batches(text, tokenizer, **changes)


# the text of a run


def change_text(folder: Path, change: str) -> Path:
    """A copy of `write_text`'s folder after something happened to it."""
    write_text(folder)
    shards = [folder / "c4" / "en" / name for name in shard_names("train")[: SHARDS + 2]]
    if change == "shard in between gone":
        shards[1].unlink()
    elif change == "last shard gone":
        shards[6].unlink()
    elif change == "other text":
        write_shards(folder, "train", [f"not {text}" for text in texts()[:250]], SHARDS)
    elif change == "more shards":
        for one in shards[SHARDS:]:
            shutil.copy(shards[0], one)
    elif change == "packed again":
        for one in shards[:SHARDS]:
            one.write_bytes(gzip.compress(gzip.decompress(one.read_bytes()), 1))
    return folder


OTHER_TEXTS = {
    "shard in between gone": "shard 1 of stream 1 is c4-train.00001-of-01024.json.gz there, c4-train.00002-of-01024",
    "last shard gone": "shard 2 of stream 0 is c4-train.00006-of-01024.json.gz there, none here",
    "other text": "shard 1 of stream 0 is c4-train.00000-of-01024.json.gz there, another file of that name here",
}


@pytest.mark.parametrize("change", ["nothing", "more shards", "packed again", *OTHER_TEXTS])
def test_goes_on_over_the_same_text_only(change, text, tokenizer, tmp_path):
    """Wherever it lies, however it is packed, and if there is more of it."""
    first = stream_batches(text, tokenizer, shards=known_shards("train", text))
    whole = updates(stream_batches(text, tokenizer))
    next(iter(first.loader()))
    first.save(tmp_path)
    folder = change_text(tmp_path / "text", change)
    later = stream_batches(folder, tokenizer, shards=known_shards("train", folder), streams=STREAMS)
    later.first_step = 1
    if change in OTHER_TEXTS:
        with pytest.raises(RecipeError, match=re.escape(OTHER_TEXTS[change])):
            later.load(tmp_path)
    else:
        later.load(tmp_path)
        assert updates(later) == whole[1:]


def test_checkpoints_without_names_of_shards(text, tokenizer, tmp_path):
    first = stream_batches(text, tokenizer, shards=known_shards("train", text))
    next(iter(first.loader()))
    first.save(tmp_path)
    path = tmp_path / "streams_0.json"
    places = json.loads(path.read_text())
    assert [shard[0] for shard in places["0"].pop("shards")] == [shard_names("train")[number] for number in (0, 6)]
    for place in places.values():
        place.pop("shards", None)
    path.write_text(json.dumps(places))
    later = stream_batches(text, tokenizer, shards=known_shards("train", text))
    later.first_step = 1
    later.load(tmp_path)
    assert updates(later) == updates(stream_batches(text, tokenizer))[1:]


def test_shards_elsewhere_are_known_by_name(text):
    names = shard_names("train")
    assert known_shards("train", "http://nowhere/a") == [Shard(name, None) for name in names]
    for number, shard in enumerate(known_shards("train", text)):
        # runs that were killed have kept it in this form
        assert re.fullmatch("[0-9a-f]{16}", shard.beginning)
        assert [name for name in names if shard.is_same(Shard(name, None))] == [names[number]]


# perplexity


def test_perplexity_is_over_all_tokens(tokenizer):
    """Of a model in float64, token by token, with nothing but what came before."""
    recipe = parse_recipe(tiny_sections(**{**PRETRAINING, "tokenizer": tokenizer.name_or_path}))
    task = PretrainingTask(recipe, text_benchmark())
    model = task.build_model("sdpa").double().eval()
    examples, rows = task.splits["validation"], torch.arange(3).numpy()
    nats, correct = 0.0, 0
    for example in examples[:3].tolist():
        for place in range(1, LENGTH):
            with torch.inference_mode():
                scores = model(input_ids=torch.tensor([example[:place]])).logits[0, -1].tolist()
            nats += math.log(sum(math.exp(score) for score in scores)) - scores[example[place]]
            correct += max(range(len(scores)), key=scores.__getitem__) == example[place]
    found = summarize_text(evaluate_text(model, examples, rows, batch_size=2))
    assert found.tokens == 3 * (LENGTH - 1)
    assert found.loss == pytest.approx(nats / found.tokens, rel=1e-6)
    assert found.perplexity == pytest.approx(math.exp(nats / found.tokens), rel=1e-6)
    assert found.accuracy == correct / found.tokens
    # a new model knows nothing
    assert 200 < found.perplexity < 800
    # what it would write itself, after a word of each example
    with torch.inference_mode():
        own = examples[:3, :1]
        for _ in range(LENGTH - 1):
            own = torch.cat([own, model(input_ids=own).logits[:, -1:].argmax(dim=-1)], dim=1)
    assert own.shape == (3, LENGTH)
    assert summarize_text(evaluate_text(model, own, rows, batch_size=2)).accuracy == 1


@pytest.mark.parametrize("world", [2, 3, 5])
def test_processes_call_the_model_equally_often(world, tokenizer):
    """A model whose weights are spread over processes would wait for ever otherwise."""
    recipe = parse_recipe(tiny_sections(**{**PRETRAINING, "tokenizer": tokenizer.name_or_path}))
    task = PretrainingTask(recipe, text_benchmark())
    model = task.build_model("sdpa")
    examples, rows = task.splits["validation"], torch.arange(11).numpy()
    calls: list[int] = []
    model.register_forward_hook(lambda *_: calls.append(1))
    records, counts = [], []
    for rank in range(world):
        calls.clear()
        records += evaluate_text(model, examples, rows, batch_size=2, rank=rank, world=world)
        counts.append(len(calls))
    assert len(set(counts)) == 1
    alone = evaluate_text(model, examples, rows, batch_size=2)
    assert sorted(records, key=lambda record: record.row) == alone


# runs


def write_keys(folder: Path, keys: dict[str, Any], **changes: Any) -> Path:
    import yaml

    path = folder / "pretraining.yaml"
    path.write_text(yaml.safe_dump(tiny_sections(**{**keys, **changes}), sort_keys=False), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def recipe(keys, tmp_path_factory) -> Path:
    # an epsilon above the gradients makes Adam momentum, so that rounding errors stay what they are
    changes = {"adam_epsilon": 1.0, "learning_rate": 1.0, "max_grad_norm": 1.0, "kept_steps": [1, 4]}
    return write_keys(tmp_path_factory.mktemp("recipe"), keys, **changes)


def trained(recipe: Path, folder: Path, processes: int = 1, *overrides: str) -> Path:
    record = functools.partial(seen.record)
    done = train_process([str(recipe), "output_dir=run", *overrides], folder, record, processes)
    assert done.status == 0, done.err
    assert "perplexity" in done.out
    return folder / "run"


@pytest.fixture(scope="module")
def one(recipe, tmp_path_factory) -> Path:
    return trained(recipe, tmp_path_factory.mktemp("one"))


def curve(run_dir: Path) -> list[float]:
    history = read_record(run_dir / "results.json").history
    return [value for entry in history if entry.loss is not None for value in (entry.loss, entry.grad_norm)]


def examples_of(folder: Path) -> dict[int, list[str]]:
    """The examples of each update, of all processes; those of an update that was made twice only once."""
    found: dict[int, set[str]] = defaultdict(set)
    for path in folder.glob(f"*.{seen.FILE}"):
        for step, example in read_lines(path):
            found[step].add(json.dumps(example))
    return {step: sorted(examples) for step, examples in found.items()}


@pytest.mark.parametrize("processes", [2, 3])
def test_one_loss_curve(processes, recipe, one, tmp_path):
    """At the same global batch; and one perplexity, over an odd number of examples."""
    shared = trained(recipe, tmp_path, processes)
    records = [read_record(run_dir / "results.json") for run_dir in (one, shared)]
    assert [record.num_processes for record in records] == [1, processes]
    assert len(curve(one)) == 12
    assert curve(shared) == pytest.approx(curve(one), rel=1e-5)
    assert examples_of(shared.parent) == examples_of(one.parent)
    models = [load_file(run_dir / "model" / "model.safetensors") for run_dir in (one, shared)]
    assert max(float((models[1][name] - weight).abs().max()) for name, weight in models[0].items()) < 1e-5
    splits = [record.splits["validation"] for record in records]
    assert [split.tokens for split in splits] == [11 * (LENGTH - 1)] * 2
    assert splits[1].perplexity == pytest.approx(splits[0].perplexity, rel=1e-5)
    rows = read_lines(shared / "predictions.jsonl")
    assert [row["row"] for row in rows] == list(range(11))
    assert rows[0]["input"].startswith("250: ")
    assert sum(row["nats"] for row in rows) == pytest.approx(splits[1].loss * splits[1].tokens)


def test_accumulation_is_the_same_update(recipe, one, tmp_path):
    parts = trained(recipe, tmp_path, 1, "batches.length_buckets=4")
    assert curve(parts) == pytest.approx(curve(one), rel=1e-5)


@pytest.mark.parametrize("processes", [1, 2])
def test_killed_and_gone_on(processes, recipe, one, tmp_path):
    """Bit for bit on as many processes; and every example in one update only."""
    arguments = [str(recipe), "output_dir=run"]
    doomed = functools.partial(seen.record, functools.partial(kills.after_step, 5))
    assert train_process(arguments, tmp_path, doomed, processes).status == -signal.SIGKILL
    run_dir = trained(recipe, tmp_path, processes)
    # the first update after the checkpoint of step 4 was made twice, of the same examples
    steps = [step for step, _ in read_lines(tmp_path / f"0.{seen.FILE}")]
    assert [steps.count(step) * processes for step in range(6)] == [12, 12, 12, 12, 24, 12]
    found = examples_of(tmp_path)
    assert found == examples_of(one.parent)
    assert len({example for examples in found.values() for example in examples}) == 6 * 12
    if processes == 1:
        assert weights(run_dir / "model") == weights(one / "model")
        assert (run_dir / "predictions.jsonl").read_bytes() == (one / "predictions.jsonl").read_bytes()
    else:
        assert curve(run_dir) == pytest.approx(curve(one), rel=1e-5)


@pytest.mark.slow
def test_goes_on_with_more_processes(recipe, one, tmp_path):
    arguments = [str(recipe), "output_dir=run"]
    assert train_process(arguments, tmp_path, functools.partial(kills.after_step, 3)).status == -signal.SIGKILL
    run_dir = trained(recipe, tmp_path, 3)
    assert curve(run_dir) == pytest.approx(curve(one), rel=1e-5)


def test_goes_on_by_other_means(recipe, one, tmp_path):
    """As more processes need it: parts of an update, and what saves memory."""
    run_dir = shutil.copytree(one, tmp_path / "run", ignore=shutil.ignore_patterns("checkpoint-6", "results.json"))
    means = ("batches.length_buckets=3", "training.gradient_checkpointing=true", "training.torch_compile=false")
    assert curve(trained(recipe, tmp_path, 2, *means)) == pytest.approx(curve(one), rel=1e-5)
    # of a finished one they change nothing
    done = train_process([str(recipe), f"output_dir={run_dir}", "training.torch_compile=true"], tmp_path)
    assert "finished already" in done.out
    changes = ["training.kept_steps=[1]", "batches.length_buckets=2"]
    done = train_process([str(recipe), f"output_dir={run_dir}", *changes], tmp_path)
    assert done.status == 2
    assert "training.kept_steps: [1, 4]" in done.err


@pytest.mark.parametrize("is_finished", [False, True])
def test_a_run_keeps_its_text(is_finished, recipe, keys, one, tmp_path):
    run_dir = shutil.copytree(one, tmp_path / "run")
    if not is_finished:
        shutil.rmtree(run_dir / "checkpoint-6")
        (run_dir / "results.json").unlink()
    before = (run_dir / "recipe.yaml").read_bytes()
    other = change_text(tmp_path / "other", "other text")
    done = train_process([str(recipe), f"output_dir={run_dir}", f"data.data_dir={other}"], tmp_path)
    assert done.status == 2, done.err
    assert done.err.count("\n") == 1
    for word in (f"error: {recipe}: ", "data.data_dir: ", str(run_dir), "c4-train.00000"):
        assert word in done.err
    assert (run_dir / "recipe.yaml").read_bytes() == before
    moved = shutil.copytree(keys["data_dir"], tmp_path / "moved")
    done = train_process([str(recipe), f"output_dir={run_dir}", f"data.data_dir={moved}"], tmp_path)
    assert done.status == 0, done.err
    assert ("finished already" in done.out) == is_finished
    assert weights(run_dir / "model") == weights(one / "model")


@pytest.mark.parametrize("change", OTHER_TEXTS)
def test_an_unfinished_run_whose_folder_of_text_changed(change, recipe, keys, one, tmp_path):
    run_dir = shutil.copytree(one, tmp_path / "run", ignore=shutil.ignore_patterns("checkpoint-6", "results.json"))
    folder = change_text(tmp_path / "text", change)
    copy = run_dir / "recipe.yaml"
    copy.write_text(copy.read_text().replace(keys["data_dir"], str(folder)))
    done = train_process([str(recipe), f"output_dir={run_dir}", f"data.data_dir={folder}"], tmp_path)
    assert done.status == 2, done.err
    assert OTHER_TEXTS[change] in done.err


def test_weights_are_kept_at_the_stated_steps(one):
    """Whole checkpoints that transformers loads, each evaluated; not those that a run goes on from."""
    assert {path.name for path in one.glob("step-*")} == {"step-1", "step-4"}
    assert {path.name for path in one.glob("checkpoint-*")} == {"checkpoint-4", "checkpoint-6"}
    assert weights(one / "step-4") == weights(one / "checkpoint-4")
    assert weights(one / "step-1") != weights(one / "step-4")
    assert len(AutoTokenizer.from_pretrained(one / "step-4")) == 300
    model = AutoModelForCausalLM.from_pretrained(one / "step-4")
    assert model.config.vocab_size == 300
    evaluated = read_record(one / "results.json").curve("validation", "perplexity")
    assert [step for step, _ in evaluated] == [1, 3, 4, 6]


def test_perplexity_is_measured_again(one, keys, tmp_path):
    """With the checkpoint's own tokenizer, whatever has become of the one that the recipe names."""
    evaluate_by_task(str(one), "c4", None, None, Path(keys["data_dir"]), tmp_path / "out", None)
    found = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert {split: SplitMetrics.model_validate(metrics) for split, metrics in found.items()} == read_record(
        one / "results.json"
    ).splits


def test_pretrained_weights_are_fine_tuned(one, tmp_path, monkeypatch):
    monkeypatch.setattr(hf_sysgen.training.tasks.registry, "load_benchmark", any_benchmark)
    changes = {"model": "depth_width_decoder", "pretrained": str(one / "step-4"), "joint_vocabulary": True}
    recipe = tiny_recipe(tmp_path, **changes, num_hidden_layers=2, max_steps=2)
    assert run_recipe(recipe).splits["test"].examples > 0
    # others read inputs as the run did
    task = prepare_task(recipe)
    sources = [row["input"] for row in read_lines(tmp_path / "run" / "predictions.jsonl")]
    assert encoded_sources(*load_checkpoint(str(tmp_path / "run")), sources) == task.encode(sources, sources)[0]


# torch's own, when it compiles
@pytest.mark.filterwarnings(
    "ignore:`torch.jit.script_method` is deprecated:DeprecationWarning",
    "ignore:.*Function'> should not be instantiated:DeprecationWarning",
)
@pytest.mark.parametrize(
    "changes",
    [
        {"bf16": True},
        pytest.param({"gradient_checkpointing": True}, marks=pytest.mark.slow),
        pytest.param({"torch_compile": True}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_other_ways_to_compute_it(changes, keys, one, tmp_path):
    hf_sysgen.training.run.quiet_libraries()
    smooth = {"adam_epsilon": 1.0, "learning_rate": 1.0, "max_grad_norm": 1.0, "max_steps": 2}
    recipe = tiny_recipe(tmp_path, **{**keys, **smooth, **changes})
    run_recipe(recipe)
    assert curve(tmp_path / "run") == pytest.approx(curve(one)[:4], rel=0.02)


# sharded weights


def assert_same_run(run_dir: Path, other: Path) -> None:
    """To rounding in float32: losses, perplexities, and what is in the checkpoints that travel."""
    assert curve(run_dir) == pytest.approx(curve(other), rel=1e-5)
    records = [read_record(folder / "results.json") for folder in (run_dir, other)]
    perplexities = [[value for _, value in record.curve("validation", "perplexity")] for record in records]
    assert perplexities[0] == pytest.approx(perplexities[1], rel=1e-5)
    splits = [record.splits["validation"] for record in records]
    assert splits[0].perplexity == pytest.approx(splits[1].perplexity, rel=1e-5)
    for name in ("model", "step-1", "step-4"):
        folders = run_dir / name, other / name
        files = [{path.name for path in folder.iterdir()} for folder in folders]
        assert files[0] == files[1]
        configs = [json.loads((folder / "config.json").read_text()) for folder in folders]
        assert configs[0] == configs[1]
        tensors = [load_file(folder / "model.safetensors") for folder in folders]
        assert tensors[0].keys() == tensors[1].keys()
        assert max(float((tensors[1][key] - tensor).abs().max()) for key, tensor in tensors[0].items()) < 1e-5


def test_sharded_weights(recipe, one, tmp_path):
    """FSDP2: one loss curve, and a checkpoint that tells nothing of how it was made."""
    done = train_process([str(recipe), "output_dir=run"], tmp_path, functools.partial(sharded.shard), processes=2)
    assert done.status == 0, done.err
    assert_same_run(tmp_path / "run", one)


@pytest.mark.slow
def test_sharded_and_compiled(recipe, one, tmp_path):
    """Kept weights, going on, and evaluation, also one before any update, are of the model that is compiled."""
    arguments = [str(recipe), "output_dir=run", "training.torch_compile=true"]
    for moment in (functools.partial(kills.after_step, 5), kills.before_predictions):
        prepare = functools.partial(sharded.shard, functools.partial(sharded.trace_only, moment))
        assert train_process(arguments, tmp_path, prepare, 2).status == -signal.SIGKILL
    done = train_process(arguments, tmp_path, functools.partial(sharded.shard, sharded.trace_only), 2)
    assert done.status == 0, done.err
    assert_same_run(tmp_path / "run", one)


@pytest.mark.slow
def test_sharded_and_killed(recipe, tmp_path):
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    arguments, shard = [str(recipe), "output_dir=run"], functools.partial(sharded.shard)
    assert train_process(arguments, tmp_path / "whole", shard, 2).status == 0
    doomed = functools.partial(sharded.shard, functools.partial(kills.after_step, 5))
    assert train_process(arguments, tmp_path / "killed", doomed, 2).status == -signal.SIGKILL
    again = train_process(arguments, tmp_path / "killed", shard, 2)
    assert again.status == 0, again.err
    assert weights(tmp_path / "killed" / "run" / "model") == weights(tmp_path / "whole" / "run" / "model")


# what cannot be run


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"tokenizer": None}, "data.tokenizer"),
        ({"tokenizer": "/no/where"}, "data.tokenizer"),
        ({"validation_examples": 1000}, "data.validation_examples"),
        ({"joint_vocabulary": True}, "data.joint_vocabulary"),
        ({"early_stopping": {"metric": "loss"}}, "evaluation.early_stopping"),
        ({"paper": {"metric": "perplexity", "test": 0.5}}, "paper.test"),
        ({"streams": 8, "size": 8}, "data.streams"),
        ({"model": "sysgen_transformer", "num_hidden_layers": ...}, "model.type"),
        ({"context_length": 1}, "data.context_length"),
        ({"kept_steps": [2, 7]}, "training.kept_steps"),
        ({"kept_steps": [2, 2]}, "training.kept_steps"),
        ({"kept_steps": 2}, "training.kept_steps"),
        ({"sampling": "epochs"}, "batches.sampling"),
    ],
    ids=str,
)
def test_what_cannot_be_run(changes, key, keys, tmp_path):
    with pytest.raises(RecipeError) as caught:
        run_recipe(tiny_recipe(tmp_path, **{**keys, **changes}))
    assert key in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "run").rglob("*"))


def test_keys_of_pretraining_alone(tmp_path):
    for key, value in {"tokenizer": "x", "context_length": 7, "streams": 2, "validation_examples": 3}.items():
        with pytest.raises(RecipeError, match=f"data.{key}={value} has no effect"):
            prepare_task(parse_recipe(tiny_sections(**{key: value})))


def test_the_text_may_end(keys, tmp_path):
    """After some checkpoints: one line, and the status of a run that failed."""
    path = write_keys(tmp_path, keys, max_steps=999, eval_steps=None, save_steps=10, logging_steps=100)
    done = train_process([str(path), "output_dir=run"], tmp_path)
    assert done.status == 1
    assert re.search(r"^error: the text of stream \d ends before update \d+ of 999", done.err, flags=re.MULTILINE)
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("checkpoint", "message"),
    [
        ("nowhere", "nowhere: no checkpoint here"),
        ("scan_length26_quick_universal", "was trained on scan; give a model for language_modeling"),
    ],
)
def test_perplexity_of_what_has_none(checkpoint, message):
    done = CliRunner().invoke(app, ["evaluate", checkpoint, "c4"])
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


# size classes


def test_a_pretrained_decoder_predicts_and_is_evaluated(one, monkeypatch):
    """Its tokenizer has no padding, and it has no limit: it goes on for the 20 tokens of `generate`."""
    done = CliRunner().invoke(app, ["predict", "-c", str(one), "the cat sees", "a dog"])
    assert (done.exit_code, done.stdout.count("\n")) == (0, 2), done.output
    assert done.stderr.splitlines() == ["warning: 2 of 2 did not end within 20 tokens; see --max-new-tokens"]
    monkeypatch.setattr(hf_sysgen.evaluation.commands, "load_benchmark", lambda *args, **kwargs: small_scan())
    done = CliRunner().invoke(app, ["evaluate", str(one), "scan", "length_cutoff_26"])
    assert done.exit_code == 0, done.output
    assert [line.split()[:2] for line in done.stdout.splitlines()[1:]] == [["validation", "11"], ["test", "13"]]


def test_a_size_class_decides_all_sizes():
    keys = {**PRETRAINING, **dict.fromkeys((*SIZES, "num_hidden_layers"), ...), "tokenizer": "x"}
    recipe = parse_recipe(tiny_sections(**{**keys, "size_class": "134M", "num_hidden_layers": 21}))
    expected = {"hidden_size": 768, "intermediate_size": 731, "num_attention_heads": 8, "num_hidden_layers": 21}
    assert recipe.model.fields == expected
    # the copy in a run's folder names all of them
    assert parse_recipe(recipe.to_dict()).hash == recipe.hash
    assert parse_recipe(tiny_sections(**{**keys, "size_class": "374M"})).model.fields["num_hidden_layers"] == 24
    for changes, key in (
        ({"size_class": "42M"}, "model.size_class"),
        ({"size_class": "41M", "num_hidden_layers": 30}, "model.size_class"),
        ({"size_class": "41M", "hidden_size": 256, "num_hidden_layers": 2}, "model.hidden_size"),
    ):
        with pytest.raises(RecipeError, match=key):
            parse_recipe(tiny_sections(**{**keys, **changes}))
    with pytest.raises(RecipeError, match=r"model\.size_class=41M"):
        parse_recipe(tiny_sections(**{"size_class": "41M"}))


# the launchers themselves


@pytest.mark.slow
def test_two_machines(recipe, one, tmp_path):
    """Both on this one, with one process each."""
    words = [sys.executable, "-m", "accelerate.commands.launch", "--config_file",
             str(ROOT / "recipes" / "accelerate" / "multi_node.yaml"), "--num_processes", "2", "--main_process_ip",
             "127.0.0.1", "--main_process_port", str(free_port())]  # fmt: skip
    started = [
        subprocess.Popen(
            [*words, "--machine_rank", str(rank), "-m", "hf_sysgen.train", str(recipe), "output_dir=run"],
            cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    messages = [process.communicate()[1] for process in started]
    assert [process.returncode for process in started] == [0, 0], messages
    assert read_record(tmp_path / "run" / "results.json").num_processes == 2
    assert curve(tmp_path / "run") == pytest.approx(curve(one), rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cpu", "cpu_two_processes", "multi_gpu", "fsdp"])
def test_launch_files(name, recipe, one, tmp_path):
    """On the CPU two processes stand for two GPUs; of `fsdp` accelerate makes plain data parallelism there."""
    words = ["-m", "accelerate.commands.launch", "--config_file", str(ROOT / "recipes" / "accelerate" / f"{name}.yaml")]
    words += [] if name.startswith("cpu") else ["--num_processes", "3"]
    done = command([*words, "-m", "hf_sysgen.train", str(recipe), "output_dir=run"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert curve(tmp_path / "run") == pytest.approx(curve(one), rel=1e-5)
    expected = {"cpu": 1, "cpu_two_processes": 2}.get(name, 3)
    assert read_record(tmp_path / "run" / "results.json").num_processes == expected
