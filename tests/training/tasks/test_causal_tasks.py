"""Decoders on texts to texts: batches and their loss, evaluation against a loop, runs, checkpoints, pretrained ones."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import math
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import kills
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tiny_runs import (
    SIZES,
    SMALL,
    environment,
    read_lines,
    short_scan,
    small_scan,
    tiny_recipe,
    tiny_sections,
    train_process,
    weights,
    write_recipe,
)
from transformers import AutoModelForCausalLM, AutoTokenizer, T5Tokenizer

import hf_sysgen.evaluation.isolated
import hf_sysgen.training.run
import hf_sysgen.training.tasks.registry
from hf_sysgen.analysis import petty2023
from hf_sysgen.config.check import check_recipe
from hf_sysgen.config.errors import RecipeError
from hf_sysgen.config.io import dump_recipe, parse_recipe
from hf_sysgen.config.model_fields import with_type
from hf_sysgen.config.recipe import Recipe
from hf_sysgen.evaluation.checkpoints import load_checkpoint, predict
from hf_sysgen.evaluation.evaluate import evaluate_split
from hf_sysgen.results.reading import read_record
from hf_sysgen.training.batches import StepBatches
from hf_sysgen.training.run import run_recipe
from hf_sysgen.training.tasks.causal import CausalSeq2SeqTask, PromptedSplit
from hf_sysgen.training.tasks.checkpoints import without_special_tokens
from hf_sysgen.training.tasks.registry import prepare_task

DECODER = {
    "model": "depth_width_decoder",
    "joint_vocabulary": True,
    "num_hidden_layers": 2,
}


def decoder_recipe(folder: Path, **changes: Any) -> Recipe:
    return tiny_recipe(folder, **{**DECODER, **changes})


@pytest.fixture(scope="module")
def learned(tmp_path_factory) -> Path:
    """The folder of a finished run whose model gets some examples right and some wrong."""
    folder = tmp_path_factory.mktemp("decoder")
    recipe = decoder_recipe(
        folder, max_steps=200, size=32, hidden_size=32, intermediate_size=64, learning_rate=0.005,
        eval_steps=None, batch_size=7, save_steps=1000, logging_steps=50,
    )  # fmt: skip
    hf_sysgen.training.run.quiet_libraries()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hf_sysgen.training.tasks.registry, "load_benchmark", lambda *args, **kwargs: short_scan())
        run_recipe(recipe)
    return folder / "run"


# batches


def test_batches_by_hand():
    split = PromptedSplit([[5, 6, 9], [7, 9]], [[1, 8], [2, 3, 4, 8]], pad_id=8)
    batch = split[np.array([0, 1])]
    assert batch.keys() == {"input_ids", "labels"}
    assert batch["input_ids"].tolist() == [[5, 6, 9, 1, 8, 8], [7, 9, 2, 3, 4, 8]]
    assert batch["labels"].tolist() == [[-100, -100, -100, 1, 8, -100], [-100, -100, 2, 3, 4, 8]]
    assert split[np.array([], np.int64)]["labels"].tolist() == [[-100] * 5]
    assert split.by_length(np.array([1, 0])).tolist() == [0, 1]
    assert [lengths.tolist() for lengths in split.source_target_lengths()] == [[5, 6], [5, 6]]
    without = PromptedSplit([[5, 6, 9], [7, 9]], [[1, 8], [2, 3, 4, 8]], pad_id=8, train_eos=False)
    assert without[np.array([0, 1])]["labels"].tolist() == [[-100] * 3 + [1, -100, -100], [-100, -100, 2, 3, 4, -100]]


def test_prompts_end_in_the_separator(tmp_path, few_examples):
    task = prepare_task(decoder_recipe(tmp_path))
    assert isinstance(task, CausalSeq2SeqTask)
    tokenizer = task.vocabulary.tokenizer
    row = {name: task.benchmark["train"][3][name] for name in ("input", "target")}
    ids = task.splits["train"][np.array([3])]["input_ids"][0].tolist()
    assert tokenizer.convert_ids_to_tokens(ids) == [*row["input"].split(), "<s>", *row["target"].split(), "</s>"]
    texts = {word for split in small_scan().values() for name in row for text in split[name] for word in text.split()}
    assert task.build_model("eager").config.vocab_size == len(texts) + 2


def test_the_loss_is_the_mean_over_the_targets_tokens(tmp_path, few_examples):
    """Of three parts with different numbers of tokens, as of one example at a time with nothing beside it."""
    recipe = decoder_recipe(tmp_path, max_steps=1, size=9, length_buckets=3, eval_steps=None)
    task = prepare_task(recipe)
    train = task.splits["train"]
    model = task.build_model("eager").eval()
    scores = []
    for row in StepBatches(train, 9, 1, recipe.seed).rows(0).tolist():
        batch = train[np.array([row])]
        logits = model(input_ids=batch["input_ids"]).logits[0].log_softmax(-1).detach()
        start, ids = int(train.sources.lengths[row]), batch["input_ids"][0].tolist()
        scores += [-float(logits[place - 1, ids[place]]) for place in range(start, len(ids))]
    history = run_recipe(recipe).history
    assert [entry.loss for entry in history if entry.loss is not None] == [
        pytest.approx(sum(scores) / len(scores), rel=1e-5)
    ]


def test_nothing_stands_behind_a_text_after_loading(tmp_path):
    """T5's own class would put its end symbol back."""
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("\u2581", -2.0), ("\u2581a", -1.0), ("\u2581b", -1.5)]
    tokenizer = T5Tokenizer(vocab=pieces, extra_ids=3)
    ids = tokenizer("a b")["input_ids"]
    assert ids[-1] == tokenizer.eos_token_id
    without_special_tokens(tokenizer).save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded("a b")["input_ids"] == ids[:-1]
    assert loaded.get_vocab() == tokenizer.get_vocab()
    assert (loaded.eos_token, loaded.pad_token, loaded.padding_side) == ("</s>", "<pad>", "left")


# evaluation


@torch.inference_mode()
def brute_force(model, source: list[int], target: list[int], eos: int) -> dict:
    """One example: every step runs the whole model on everything so far, without cache or padding."""

    def step(fed: list[int]) -> torch.Tensor:
        return model(input_ids=torch.tensor([[*source, *fed]]), use_cache=False).logits[0, -1]

    def cross_entropy(logits: torch.Tensor, token: int) -> float:
        return math.log(sum(math.exp(value) for value in logits.tolist())) - logits[token].item()

    produced, free, teacher, without_eos = [], [], [], []
    for position, token in enumerate(target):
        logits = step(produced)
        free.append(cross_entropy(logits, token))
        produced.append(int(logits.argmax()))
        teacher.append(cross_entropy(step(target[:position]), token))
    for _ in target[:-1]:
        logits = step(without_eos)
        logits[eos] = -math.inf
        without_eos.append(int(logits.argmax()))
    return {
        "prediction": produced[: produced.index(eos)] if eos in produced else produced,
        "exact": produced == target,
        "loss": sum(free) / len(free),
        "loss_teacher": sum(teacher) / len(teacher),
        "target_length": len(target) - 1,
        "oracle_exact": without_eos == target[:-1],
    }


@pytest.fixture(scope="module")
def decoder(learned):
    """The trained model in float64, and the splits that it was evaluated on."""
    sizes = {"hidden_size": 32, "intermediate_size": 64}
    recipe = parse_recipe(tiny_sections(**DECODER, pretrained=str(learned / "model"), **sizes))
    task = CausalSeq2SeqTask(recipe, short_scan())
    return task.build_model("sdpa").double().eval(), task.splits


@pytest.mark.parametrize("trained", [True, False], ids=["trained", "new"])
def test_every_field_equals_the_loop(trained, decoder):
    model, splits = decoder
    if not trained:
        torch.manual_seed(0)
        model = type(model)(model.config).double().eval()
    eos = model.config.eos_token_id
    exact = []
    for split, count in ((splits["validation"], 15), (splits["test"], 6)):
        rows = np.arange(count)
        records = evaluate_split(model, split, rows, batch_size=7, oracle=True)
        assert sorted(record.row for record in records) == rows.tolist()
        for record in records:
            source, target = (
                ids.flat[ids.starts[record.row] :][: ids.lengths[record.row]].tolist()
                for ids in (split.sources, split.targets)
            )
            expected = brute_force(model, source, target, eos)
            for field in ("prediction", "exact", "target_length", "oracle_exact"):
                assert getattr(record, field) == expected[field], (record.row, field)
            # losses are computed in float32
            assert record.loss == pytest.approx(expected["loss"], rel=1e-5, abs=1e-6)
            assert record.loss_teacher == pytest.approx(expected["loss_teacher"], rel=1e-5, abs=1e-6)
            exact.append(record.exact)
    if trained:
        assert 0 < sum(exact) < len(exact), "the trained model must be right on some rows and wrong on others"


def test_result_does_not_depend_on_batches_or_processes(decoder):
    model, splits = decoder

    def by_row(records):
        return sorted((replace(record, loss=0.0, loss_teacher=0.0) for record in records), key=lambda one: one.row)

    split = splits["validation"]
    alone = by_row(evaluate_split(model, split, batch_size=1, oracle=True))
    assert by_row(evaluate_split(model, split, batch_size=1000, oracle=True)) == alone
    shared = [evaluate_split(model, split, batch_size=5, oracle=True, rank=rank, world=3) for rank in range(3)]
    assert by_row(itertools.chain(*shared)) == alone


# runs


def test_two_processes_killed_and_resumed_end_as_one(tmp_path):
    # an epsilon above the gradients makes Adam momentum, so that rounding errors stay what they are
    keys = {**DECODER, "encoder_layers": None, "decoder_layers": None, "adam_epsilon": 1.0, "learning_rate": 1.0,
            "max_grad_norm": 1.0, "size": 24, "sampling": "epochs", "length_buckets": 2}  # fmt: skip
    recipe = write_recipe(tmp_path, **keys)
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    arguments = [str(recipe), "output_dir=run"]
    assert train_process(arguments, folders[0]).status == 0
    killed = functools.partial(kills.after_step, 5)
    assert train_process(arguments, folders[1], killed, processes=2).status == -signal.SIGKILL
    resumed = train_process(arguments, folders[1], processes=2)
    assert resumed.status == 0, resumed.err
    assert read_record(folders[1] / "run" / "results.json").num_processes == 2
    models = [load_file(folder / "run" / "model" / "model.safetensors") for folder in folders]
    assert max(float((models[1][name] - weight).abs().max()) for name, weight in models[0].items()) < 1e-5
    rows = [read_lines(folder / "run" / "predictions.jsonl") for folder in folders]
    assert len(rows[0]) == SMALL["validation"] + SMALL["test"]
    for alone, shared in zip(*rows, strict=True):
        assert shared == alone | {key: pytest.approx(alone[key], rel=1e-4) for key in ("loss", "loss_teacher")}


# checkpoints


def test_a_checkpoint_travels(learned):
    """Auto classes and `generate` give the run's predictions, with this package and without, where it is hidden."""
    rows = [row for row in read_lines(learned / "predictions.jsonl") if row["split"] == "validation"]
    assert 0 < sum(row["exact"] for row in rows) < len(rows)
    model = AutoModelForCausalLM.from_pretrained(learned / "model")
    tokenizer = AutoTokenizer.from_pretrained(learned / "model")
    # the template's separator; the chat template has it too
    prompts = [model.config.prompt_template.replace("{input}", row["input"]) for row in rows]
    chat = [{"role": "user", "content": rows[0]["input"]}]
    assert tokenizer.apply_chat_template(chat, tokenize=False) == prompts[0]
    batch = tokenizer(prompts, padding=True, return_tensors="pt")
    assert int(batch["attention_mask"][:, 0].min()) == 0, "padding is needed, or this shows less"
    added = model.generate(**batch)[:, batch["input_ids"].shape[1] :]
    # a prediction in the record is cut where it can no longer become right
    written = tokenizer.batch_decode(added, skip_special_tokens=True)
    limits = [row["target_length"] + 1 for row in rows]
    cut = [" ".join(text.split()[:limit]) for text, limit in zip(written, limits, strict=True)]
    assert cut == [row["prediction"] for row in rows]
    ours, _ = predict(*load_checkpoint(learned), [row["input"] for row in rows])
    assert ours == written
    script = [sys.executable, "-I", hf_sysgen.evaluation.isolated.__file__, str(learned / "model")]
    texts = json.dumps([row["input"] for row in rows])
    variables = environment(HF_HOME=str(learned / "home"), HF_HUB_OFFLINE="1")
    done = subprocess.run(script, input=texts, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0] == written
    assert "padding" not in done.stderr, "no warning of padding on the wrong side"


def test_what_is_hidden_is_hidden(learned, tmp_path):
    """A checkpoint whose code would import this package, if it could, finds none."""
    folder = shutil.copytree(learned / "model", tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    code = folder / f"{config['auto_map']['AutoConfig'].split('.')[0]}.py"
    # transformers checks the imports that are not inside `try`
    tried = "try:\n    import hf_sysgen\n    print('found')\nexcept ImportError:\n    print('hidden')\n"
    code.write_text(f"{tried}\n{code.read_text()}")
    alone = [hf_sysgen.evaluation.isolated.__file__, str(folder)]
    loads = "import sys, transformers as t; t.AutoConfig.from_pretrained(sys.argv[1], trust_remote_code=True)"
    for words, expected in ((alone, "hidden"), (["-c", loads, str(folder)], "found")):
        variables = environment(HF_HOME=str(tmp_path / expected), HF_HUB_OFFLINE="1")
        words = [sys.executable, "-I", *words]
        done = subprocess.run(words, input='["jump"]', env=variables, capture_output=True, text=True)
        assert done.stdout.splitlines()[0] == expected, done.stderr


# pretrained


def from_pretrained(folder: Path, checkpoint: Path, **changes: Any) -> Recipe:
    """A recipe without sizes, which the checkpoint has."""
    keys = {**DECODER, **dict.fromkeys((*SIZES, "num_hidden_layers"), ...)}
    return tiny_recipe(folder, **{**keys, "pretrained": str(checkpoint), **changes})


def test_a_run_that_starts_anew_says_what_it_starts_from(learned, tmp_path, few_examples):
    recipe = from_pretrained(tmp_path, learned / "model")
    recipe.run_dir.mkdir()
    # a process that was killed before the first checkpoint left these, and the weights have changed since
    (recipe.run_dir / "recipe.yaml").write_text(dump_recipe(recipe))
    (recipe.run_dir / "pretrained.json").write_text('{"name": "theirs", "commit": null, "sha256": "0"}')
    record = run_recipe(recipe)
    weights = (learned / "model" / "model.safetensors").read_bytes()
    assert record.pretrained.sha256 == hashlib.sha256(weights).hexdigest()


def test_goes_on_from_a_checkpoint(learned, tmp_path, few_examples):
    recipe = from_pretrained(tmp_path, learned / "model", dropout=0.5, position_scheme="rotary")
    task = prepare_task(recipe)
    model = task.build_model("eager")
    stored = load_file(learned / "model" / "model.safetensors")
    assert all(torch.equal(weight, stored[name]) for name, weight in model.state_dict().items())
    assert model.config.dropout == 0.5
    assert model.generation_config.max_new_tokens == task.longest_target
    record = run_recipe(recipe)
    assert record.recipe.model.pretrained == str(learned / "model")
    assert "hidden_size" not in record.recipe.model.fields
    sizes = [petty2023.size(record, key) for key in ("num_hidden_layers", "hidden_size", "intermediate_size")]
    assert sizes == [2, 32, 64]
    assert not {"dropout", "vocab_size", *record.recipe.model.fields} & record.pretrained_fields.keys()
    vocabularies = [
        json.loads((folder / "model" / "tokenizer.json").read_text()) for folder in (learned, recipe.run_dir)
    ]
    assert vocabularies[0]["model"] == vocabularies[1]["model"]
    assert weights(recipe.run_dir / "model") != weights(learned / "model")


def test_a_tokenizer_of_pieces(tmp_path, monkeypatch, learned):
    """As those of language models: it has other words, no padding, and no start symbol, so that EOS separates."""
    monkeypatch.setattr(hf_sysgen.training.tasks.registry, "load_benchmark", lambda *args, **kwargs: short_scan())
    folder = subword_checkpoint(learned, tmp_path / "pretrained", unknown="<unk>")
    recipe = from_pretrained(tmp_path, folder, max_steps=1, eval_steps=None)
    task = prepare_task(recipe)
    tokenizer = task.vocabulary.tokenizer
    train = task.splits["train"]
    assert train.sources.flat[train.sources.lengths[0] - 1] == tokenizer.eos_token_id
    assert (train.targets.flat == tokenizer.eos_token_id).sum() == len(train)
    assert train.targets.lengths[0] > len(task.benchmark["train"][0]["target"].split()) + 1
    text = tokenizer.decode(train.targets.flat[: train.targets.lengths[0] - 1])
    assert text == task.benchmark["train"][0]["target"]
    run_recipe(recipe)
    words = read_lines(recipe.run_dir / "predictions.jsonl")[0]
    assert words["target_length"] == task.splits["validation"].targets.lengths[0] - 1


def subword_checkpoint(learned: Path, folder: Path, unknown: str | None = None, letters: str = "") -> Path:
    """The trained model's weights beside a tokenizer of single letters (or those given)."""
    from tokenizers import Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE
    from transformers import PreTrainedTokenizerFast

    shutil.copytree(learned / "model", folder, ignore=shutil.ignore_patterns("complete"))
    model = AutoModelForCausalLM.from_pretrained(folder)
    texts = {text for split in small_scan().values() for name in ("input", "target") for text in split[name]}
    letters = letters or "".join(sorted(set("".join(texts)) - {" "}))
    symbols = [symbol for symbol in (unknown, "<end>") if symbol]
    ids = {symbol: index for index, symbol in enumerate([*symbols, "▁", *letters])}
    backend = Tokenizer(BPE(ids, [], unk_token=unknown))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    model.resize_token_embeddings(len(ids))
    model.save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<end>", unk_token=unknown).save_pretrained(folder)
    return folder


def test_a_model_of_the_zoo_is_fine_tuned_by_its_name(learned, tmp_path, monkeypatch):
    (tmp_path / "ours").symlink_to(learned / "model")
    monkeypatch.setattr("hf_sysgen.zoo.CHECKPOINTS", tmp_path)
    for name in ("ours", str(learned), str(learned / "model")):
        recipe = with_type(decoder_recipe(tmp_path, model="auto", pretrained=name))
        assert recipe.model.type == "depth_width_decoder"
    with pytest.raises(RecipeError) as caught:
        check_recipe(decoder_recipe(tmp_path, model="auto", pretrained="ours").replace(**{"model.revision": "main"}))
    assert caught.value.key == "model.revision"


def test_what_a_checkpoint_contradicts(learned, tmp_path, few_examples, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    sizes = {"hidden_size": 32, "intermediate_size": 64}

    def refused(**changes: Any) -> str:
        with pytest.raises(RecipeError) as caught:
            prepare_task(decoder_recipe(tmp_path, **{**sizes, **changes})).build_model("eager")
        assert "\n" not in str(caught.value)
        return str(caught.value)

    trained = str(learned / "model")
    assert f"model.hidden_size=16 contradicts model.pretrained={trained}" in refused(pretrained=trained, hidden_size=16)
    assert "model.share_layers=True contradicts" in refused(pretrained=trained, share_layers=True)
    assert "data.tokenization=characters" in refused(pretrained=trained, tokenization="characters")
    assert "config.json" in refused(pretrained=str(tmp_path / "absent"))
    assert "set data.joint_vocabulary=true" in refused(joint_vocabulary=False)
    assert "training.label_smoothing_factor" in refused(label_smoothing_factor=0.1)
    with pytest.raises(RecipeError) as of_an_encoder_decoder:
        parse_recipe(tiny_sections(pretrained=trained))
    assert of_an_encoder_decoder.value.key == "model.pretrained"
    few = subword_checkpoint(learned, tmp_path / "few", unknown="<unk>", letters="_INTURLEFWALKGHO")
    assert "'I_JUMP'" in refused(pretrained=str(few))
    broken = tmp_path / "broken"
    shutil.copytree(learned / "model", broken, ignore=shutil.ignore_patterns("complete"))
    content = (broken / "model.safetensors").read_bytes()
    (broken / "model.safetensors").write_bytes(content[: len(content) // 2])
    assert "cannot be loaded, it may be cut short" in refused(pretrained=str(broken))
    (broken / "model.safetensors").unlink()
    torch.save(load_file(learned / "model" / "model.safetensors"), broken / "pytorch_model.bin")
    assert "model.safetensors is missing" in refused(pretrained=str(broken))
    (broken / "tokenizer.json").unlink()
    assert "no tokenizer can be loaded" in refused(pretrained=str(broken))
    relative = small_checkpoint(tmp_path / "other")
    assert "relative_transformer" in refused(pretrained=str(relative))


def small_checkpoint(folder: Path) -> Path:
    """Of an encoder-decoder model, which has a tokenizer as well."""
    task = prepare_task(parse_recipe(tiny_sections(model="relative_transformer")))
    task.build_model("eager").save_pretrained(folder)
    task.save(folder)
    return folder
