"""Checkpoints of transformers' own types: prompts, labels, loss, evaluation, adapters, and what the record says."""

from __future__ import annotations

import json
import shutil
import warnings
from hashlib import sha256
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
import torch
from tiny_pretrained import KINDS, make
from tiny_runs import read_lines, small_scan, tiny_sections
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

import hf_sysgen.training.tasks.registry
import hf_sysgen.training.trainer
from hf_sysgen.config.errors import RecipeError
from hf_sysgen.config.fields import merge
from hf_sysgen.config.io import parse_recipe
from hf_sysgen.config.recipe import Recipe
from hf_sysgen.data import benchmark_info
from hf_sysgen.errors import UserError
from hf_sysgen.evaluation.checkpoints import load_checkpoint, predict
from hf_sysgen.evaluation.evaluate import Decoded, to_word_level
from hf_sysgen.evaluation.isolated_process import predict_isolated
from hf_sysgen.evaluation.prompts import PROMPT, Prompts
from hf_sysgen.hub.model_card import snippet
from hf_sysgen.hub.publish_model import publish_model, run_card
from hf_sysgen.results.reading import read_record
from hf_sysgen.training.run import run_recipe
from hf_sysgen.training.tasks.registry import prepare_task

SHORT_AND_LONG = ["run", "walk opposite left thrice and jump around right twice"]


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pretrained")
    return {kind: make(folder / kind, kind) for kind in KINDS}


def recipe_of(checkpoint: Path, folder: Path, **sections: Any) -> Recipe:
    """Two steps of it on a few examples of SCAN."""
    tiny = {key: value for key, value in tiny_sections().items() if key != "model"}
    tiny["training"] |= {"max_steps": 2, "eval_steps": 2}
    tiny |= {"model": {"pretrained": str(checkpoint)}, "output_dir": str(folder / "run")}
    return parse_recipe(merge(tiny, sections), "tiny")


def auto_class(kind: str) -> Any:
    return AutoModelForSeq2SeqLM if kind == "t5" else AutoModelForCausalLM


@pytest.mark.parametrize("kind", KINDS)
def test_trains_and_is_judged_by_words(kind, checkpoints, tmp_path, few_examples):
    """Each example alone, by `generate` of transformers with the checkpoint that the run has saved."""
    record = run_recipe(recipe_of(checkpoints[kind], tmp_path))
    assert record.recipe.model.type == kind
    weights = (checkpoints[kind] / "model.safetensors").read_bytes()
    assert record.pretrained.sha256 == sha256(weights).hexdigest()
    assert (record.pretrained.name, record.pretrained.commit) == (str(checkpoints[kind]), None)
    assert read_record(tmp_path / "run" / "results.json") == record
    folder = tmp_path / "run" / "model"
    assert (folder / "model.safetensors").read_bytes() != weights
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = auto_class(kind).from_pretrained(folder).eval()
    rows = read_lines(tmp_path / "run" / "predictions.jsonl")
    assert len(rows) == len(small_scan()["validation"]) + len(small_scan()["test"])
    for row in rows[::5]:
        assert row["target_length"] == len(row["target"].split()) < row["tokens"]
        text = row["input"] if kind == "t5" else PROMPT.replace("{input}", row["input"])
        batch = tokenizer(text, return_tensors="pt")
        start = 1 if kind == "t5" else batch["input_ids"].shape[1]
        # as many tokens as the reference has
        ids = model.generate(**batch, max_new_tokens=row["tokens"] + 1, do_sample=False)[0, start:].tolist()
        eos = tokenizer.eos_token_id
        assert row["prediction"] == tokenizer.decode(ids[: ids.index(eos)] if eos in ids else ids)
        assert row["exact"] == (eos in ids and row["prediction"].split() == row["target"].split())


def test_exact_if_the_words_are_right_in_other_pieces(checkpoints, tmp_path, few_examples):
    tokenizer = AutoTokenizer.from_pretrained(checkpoints["gpt2"])
    letters = [tokenizer(letter, add_special_tokens=False)["input_ids"][0] for letter in " JUMP WALK"]
    records = [
        Decoded(row=0, prediction=ids, exact=False, loss=1.0, loss_teacher=1.0, target_length=length)
        for ids, length in ((letters, 12), (letters, 9), (letters[:-1], 12))
    ]
    found = to_word_level(records, tokenizer, ["JUMP WALK"])
    assert [one.exact for one in found] == [True, False, False]
    assert [(one.target_length, one.tokens) for one in found] == [(2, 12), (2, 9), (2, 12)]


def test_a_checkpoint_that_changes_during_training(checkpoints, tmp_path, few_examples, monkeypatch):
    """The record has the weights that the run started from, also if it was killed and resumed."""
    checkpoint = shutil.copytree(checkpoints["t5"], tmp_path / "t5")
    before = sha256((checkpoint / "model.safetensors").read_bytes()).hexdigest()
    recipe = recipe_of(checkpoint, tmp_path).replace(**{"training.save_steps": 1})
    step = hf_sysgen.training.trainer.SysgenTrainer.training_step

    class Killed(Exception):
        pass

    def replaced(self, *args, **kwargs):
        if self.state.global_step == 0:
            # a run without a checkpoint would start anew, from the other weights
            return step(self, *args, **kwargs)
        other = auto_class("t5").from_pretrained(checkpoint)
        torch.nn.init.zeros_(other.shared.weight)
        other.save_pretrained(checkpoint)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(hf_sysgen.training.trainer.SysgenTrainer, "training_step", replaced)
        with pytest.raises(Killed):
            run_recipe(recipe)
    assert before != sha256((checkpoint / "model.safetensors").read_bytes()).hexdigest()
    assert run_recipe(recipe).pretrained.sha256 == before


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_target_is_learned(kind, checkpoints, tmp_path, few_examples):
    """The loss of a batch is the mean over the targets' tokens, each example read alone."""
    task = prepare_task(recipe_of(checkpoints[kind], tmp_path, data={"prompt": "say {input} :"}))
    model = task.build_model("eager").eval()
    assert AutoConfig.from_pretrained(checkpoints[kind]).to_dict()["vocab_size"] == model.config.vocab_size
    rows = np.array([3, 20, 41])
    batch = task.splits["train"][rows]
    tokenizer = task.vocabulary.tokenizer
    expected = []
    for row, labels in zip(rows.tolist(), batch["labels"], strict=True):
        example = task.benchmark["train"][row]
        learned = labels[labels != -100].tolist()
        assert tokenizer.decode(learned[:-1]).split() == example["target"].split()
        assert learned[-1] == tokenizer.eos_token_id
        prompt = tokenizer(f"say {example['input']} :")["input_ids"]
        if kind == "t5":
            logits = model(input_ids=torch.tensor([prompt]), labels=torch.tensor([learned])).logits[0]
        else:
            logits = model(input_ids=torch.tensor([prompt + learned])).logits[0, len(prompt) - 1 : -1]
        expected += torch.nn.functional.cross_entropy(logits, torch.tensor(learned), reduction="none").tolist()
    inputs = {key: value for key, value in batch.items() if key != "labels"}
    if kind == "t5":
        inputs["decoder_input_ids"] = model.prepare_decoder_input_ids_from_labels(batch["labels"])
    count = int((batch["labels"] != -100).sum())
    assert count == len(expected)
    loss = task.loss(model(**inputs), batch["labels"], count)
    assert loss.item() == pytest.approx(sum(expected) / count, rel=1e-5)


def test_prompts_by_hand(checkpoints):
    tokenizer = AutoTokenizer.from_pretrained(checkpoints["llama"])
    prompts = Prompts(tokenizer, decoder=True)
    text = prompts.prompt("jump", [("walk", "WALK"), ("run", "RUN")])
    assert text == "Input: walk\nOutput: WALK\n\nInput: run\nOutput: RUN\n\nInput: jump\nOutput:"
    (source,), (target,) = prompts.encode_pairs([text], ["JUMP JUMP"])
    assert tokenizer.decode(source) == f"<bos>{text}"
    assert tokenizer.decode(target) == " JUMP JUMP<eos>"
    assert Prompts(tokenizer, decoder=False).prompt("jump") == "jump"


def test_the_saved_checkpoint_answers_as_the_run(checkpoints, tmp_path, few_examples):
    """The template that it was trained with travels in its config."""
    run_recipe(recipe_of(checkpoints["llama"], tmp_path, data={"prompt": "{input} means"}))
    model, tokenizer = load_checkpoint(tmp_path / "run")
    rows = [row for row in read_lines(tmp_path / "run" / "predictions.jsonl") if row["split"] == "test"]
    longest = max(row["tokens"] for row in rows) + 1
    answers, _ = predict(model, tokenizer, [row["input"] for row in rows], max_new_tokens=longest)
    for row, answer in zip(rows, answers, strict=True):
        assert answer.strip().startswith(row["prediction"].strip().partition("<")[0].strip())


@pytest.mark.parametrize("kind", KINDS)
def test_a_short_sentence_has_one_answer_alone_and_beside_a_long_one(kind, checkpoints, tmp_path, few_examples):
    """By transformers alone."""
    run_recipe(recipe_of(checkpoints[kind], tmp_path))
    folder = tmp_path / "run" / "model"
    tokenizer, model = AutoTokenizer.from_pretrained(folder), auto_class(kind).from_pretrained(folder)
    prompts = [Prompts(tokenizer, kind != "t5").prompt(text) for text in SHORT_AND_LONG]

    def answers(given: list[str]) -> list[str]:
        batch = tokenizer(given, padding=True, return_tensors="pt")
        start = 0 if kind == "t5" else batch["input_ids"].shape[1]
        return tokenizer.batch_decode(model.generate(**batch)[:, start:], skip_special_tokens=True)

    assert answers(prompts)[0] == answers(prompts[:1])[0]


def test_a_checkpoint_without_padding_answers_without_this_package(checkpoints, tmp_path):
    shutil.copytree(checkpoints["llama"], tmp_path / "copy")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "copy")
    tokenizer.pad_token = None
    tokenizer.save_pretrained(tmp_path / "copy")
    assert AutoTokenizer.from_pretrained(tmp_path / "copy").pad_token is None
    both, alone = (predict_isolated(str(tmp_path / "copy"), texts) for texts in (SHORT_AND_LONG, SHORT_AND_LONG[:1]))
    assert both[0] == alone[0]


def test_a_checkpoint_of_a_run_has_the_tokenizer_of_its_model(checkpoints, tmp_path, few_examples):
    run_recipe(recipe_of(checkpoints["t5"], tmp_path))
    _, tokenizer = load_checkpoint(tmp_path / "run")
    _, its_own = load_checkpoint(tmp_path / "run" / "checkpoint-2")
    assert its_own.get_vocab() == tokenizer.get_vocab()
    shutil.rmtree(tmp_path / "run" / "model")
    with pytest.raises(UserError, match=r"tokenizer\.json is missing"):
        load_checkpoint(tmp_path / "run" / "checkpoint-2")


def test_characters_that_the_tokenizer_lacks_become_tokens(checkpoints, tmp_path, monkeypatch):
    """As the braces of CFQ for T5."""
    rows = {"input": ["jump", "walk", "run"] * 4, "target": ["JUMP { WALK }", "WALK", "RUN }"] * 4}
    made = datasets.DatasetDict({name: datasets.Dataset.from_dict(rows) for name in ("train", "validation", "test")})
    monkeypatch.setattr(hf_sysgen.training.tasks.registry, "load_benchmark", lambda *args, **kwargs: made)
    before = AutoTokenizer.from_pretrained(checkpoints["t5"])
    record = run_recipe(recipe_of(checkpoints["t5"], tmp_path, batches={"size": 4}))
    after = AutoTokenizer.from_pretrained(tmp_path / "run" / "model")
    assert set(after.get_vocab()) - set(before.get_vocab()) == {"{", "}"}
    assert after.decode(after("JUMP { WALK }", add_special_tokens=False)["input_ids"]).split() == [
        "JUMP",
        "{",
        "WALK",
        "}",
    ]
    assert record.pretrained_fields["num_layers"] == 2


@pytest.mark.parametrize("kind", ["t5", "llama"])
def test_adapters_alone_are_trained_and_then_merged(kind, checkpoints, tmp_path, few_examples):
    peft = pytest.importorskip("peft", reason="needs peft: pip install 'hf-sysgen[peft]'")
    names = ["q", "v"] if kind == "t5" else ["q_proj", "v_proj"]
    recipe = recipe_of(
        checkpoints[kind], tmp_path, peft={"r": 2, "target_modules": names}, training={"learning_rate": 0.5}
    )
    record = run_recipe(recipe)
    assert record.recipe.peft.r == 2
    # beside each of the q and v of all layers: r rows of both sizes
    assert 0 < record.trained_parameters < record.num_parameters / 5
    before = auto_class(kind).from_pretrained(checkpoints[kind]).state_dict()
    after = auto_class(kind).from_pretrained(tmp_path / "run" / "model").state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed
    assert all(name.split(".")[-2] in names for name in changed)
    # the last checkpoint of the run has the adapters
    adapter = tmp_path / "run" / "checkpoint-2"
    with warnings.catch_warnings():
        # PEFT uses an older name of transformers
        warnings.simplefilter("ignore")
        loaded = auto_class(kind).from_pretrained(checkpoints[kind])
        adapted = peft.PeftModel.from_pretrained(loaded, adapter).merge_and_unload()
    for name, weight in adapted.state_dict().items():
        torch.testing.assert_close(weight, after[name])
    # with early stopping an earlier one may be kept, too
    shutil.copytree(adapter, adapter.with_name("checkpoint-1"))
    (published,) = publish_model(tmp_path / "run", "me/tuned", dry_run=True, checkpoints=True)
    assert published.tags == ("seed0-step2",)


def test_adapters_of_all_linear_maps(checkpoints, tmp_path, few_examples):
    pytest.importorskip("peft", reason="needs peft: pip install 'hf-sysgen[peft]'")
    run_recipe(recipe_of(checkpoints["llama"], tmp_path, peft={"r": 1, "target_modules": "all-linear"}))
    adapted = json.loads((tmp_path / "run" / "checkpoint-2" / "adapter_config.json").read_text())["target_modules"]
    names = {name.rpartition(".")[2] for name in adapted}
    assert names == {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}


def test_adapters_of_shared_weights_are_refused(checkpoints, tmp_path, few_examples):
    pytest.importorskip("peft", reason="needs peft: pip install 'hf-sysgen[peft]'")
    with pytest.raises(RecipeError) as refused:
        run_recipe(recipe_of(checkpoints["gpt2"], tmp_path, peft={"target_modules": ["lm_head"]}))
    assert refused.value.key == "peft.target_modules"


@pytest.mark.parametrize(
    ("sections", "key"),
    [
        ({"model": {"type": "t5", "pretrained": None}}, "model.pretrained"),
        ({"model": {"pretrained": "no/such/folder"}}, "model.pretrained"),
        ({"model": {"num_layers": 7}}, "model.num_layers"),
        ({"model": {"d_modle": 7}}, "model.d_modle"),
        ({"data": {"prompt": "no place"}}, "data.prompt"),
        ({"data": {"tokenization": "characters"}}, "data.tokenization"),
        ({"data": {"joint_vocabulary": True}}, "data.joint_vocabulary"),
        ({"model": {"revision": "main"}}, "model.revision"),
        ({"peft": {"rank": 2}}, "peft.rank"),
        ({"data": {"benchmark": "clutrr", "config": "gen_train23_test2to10"}}, "model.pretrained"),
    ],
)
def test_what_does_not_fit_is_refused(sections, key, checkpoints, tmp_path, few_examples):
    with pytest.raises(RecipeError) as refused:
        prepare_task(recipe_of(checkpoints["t5"], tmp_path, **sections)).build_model("eager")
    assert refused.value.key == key


def test_a_checkpoint_in_parts_loads(checkpoints, tmp_path):
    model = AutoModelForCausalLM.from_pretrained(checkpoints["llama"])
    shutil.copytree(checkpoints["llama"], tmp_path / "parts")
    (tmp_path / "parts" / "model.safetensors").unlink()
    model.save_pretrained(tmp_path / "parts", max_shard_size="20KB")
    index = json.loads((tmp_path / "parts" / "model.safetensors.index.json").read_text())
    assert len(set(index["weight_map"].values())) > 1
    loaded, _ = load_checkpoint(tmp_path / "parts")
    assert all(torch.equal(one, other) for one, other in zip(loaded.parameters(), model.parameters(), strict=True))


@pytest.mark.parametrize("kind", ["t5", "gpt2"])
def test_the_card_says_what_was_fine_tuned_and_its_code_runs(kind, checkpoints, tmp_path, few_examples, capsys):
    record = run_recipe(recipe_of(checkpoints[kind], tmp_path))
    card = run_card(str(tmp_path / "run"))
    assert record.pretrained.sha256[:16] in card
    code = snippet(record, benchmark_info("scan"), f'checkpoint = "{tmp_path / "run" / "model"}"')
    exec(compile(code, "card", "exec"), {})
    rows = read_lines(tmp_path / "run" / "predictions.jsonl")
    (row,) = [row for row in rows if row["input"] == record.example and row["split"] == "test"]
    # which has no end here, and perhaps padding in it
    expected = row["prediction"].replace("<pad>", "").strip()[:20]
    assert capsys.readouterr().out.split("\n")[-2].strip().startswith(expected)
