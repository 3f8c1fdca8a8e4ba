"""Translation from text to BLEU: real text of Europarl and FLoRes, and made text with pairs that were held out."""

from __future__ import annotations

import functools
import json
import shutil
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
import sacrebleu
import torch
from europarl_session import opus_pairs
from made_examples import made_examples
from tiny_runs import read_lines, tiny_recipe
from transformers import AutoModelForSeq2SeqLM
from upstream_files import Files

import hf_sysgen.evaluation.commands
import hf_sysgen.training.tasks.registry
from hf_sysgen.config.errors import RecipeError
from hf_sysgen.data import benchmark_info, load_benchmark
from hf_sysgen.data.archives import open_member
from hf_sysgen.data.text.splits import TokenizedSplit
from hf_sysgen.data.text.translation import moses_detokenizer, moses_tokenizer
from hf_sysgen.errors import UserError
from hf_sysgen.evaluation.checkpoints import load_checkpoint
from hf_sysgen.evaluation.commands import evaluate_checkpoint, predict_lines
from hf_sysgen.evaluation.isolated_process import predict_isolated
from hf_sysgen.evaluation.metrics.comp import comp
from hf_sysgen.evaluation.score import score_predictions
from hf_sysgen.models import CONFIGS, MODELS
from hf_sysgen.results.predictions import read_predictions
from hf_sysgen.training.batches import MaxTokensBatches
from hf_sysgen.training.run import run_recipe
from hf_sysgen.training.tasks import translation as translation_task
from hf_sysgen.training.tasks.registry import prepare_task
from hf_sysgen.training.trainer import steps_of

FLORES = benchmark_info("flores")

TRANSLATION = {
    "model": "sag_t5_transformer", "tokenization": "bpe", "subwords": 120, "num_beams": 3,
    "sampling": "max_tokens", "max_tokens": 400, "examples": None, "batch_size": 7, "label_smoothing_factor": 0.1,
}  # fmt: skip

# merges that the text of `made_examples` gives
MOST = 90


def recipe_of(folder: Path, benchmark: str, config: str, **changes: Any):
    return tiny_recipe(folder, **{**TRANSLATION, "benchmark": benchmark, "config": config, **changes})


@pytest.fixture(autouse=True)
def short_search(monkeypatch: pytest.MonkeyPatch) -> None:
    search = functools.partial(translation_task.fairseq_generation_kwargs, max_length=12)
    monkeypatch.setattr(translation_task, "fairseq_generation_kwargs", search)


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch):
    def use(data: datasets.DatasetDict) -> None:
        for module in (hf_sysgen.training.tasks.registry, hf_sysgen.evaluation.commands):
            monkeypatch.setattr(module, "load_benchmark", lambda *args, **kwargs: data)

    return use


@pytest.fixture(scope="module")
def iwslt(sample: Files) -> datasets.DatasetDict:
    """Real sentences, tokenized and in lower case, as IWSLT14 has them; from French, as its own are not free."""
    write = {language: moses_tokenizer(language) for language in ("fr", "en")}
    pairs = [
        {"input": write["fr"](french).lower(), "target": write["en"](english).lower()}
        for english, french in opus_pairs(sample.path("mt/europarl/en-fr.dummy_data.zip"))
        if 5 < len(english.split()) < 25
    ]
    parts = {"train": pairs[:60], "validation": pairs[60:69], "test": pairs[69:80]}
    return datasets.DatasetDict({split: datasets.Dataset.from_list(rows) for split, rows in parts.items()})


def test_iwslt14_to_bleu_and_away(iwslt, tmp_path, use, capsys):
    """One run and all that is done with it: its numbers, evaluation and prediction by its checkpoint, a stranger."""
    data = iwslt
    use(data)
    recipe = recipe_of(
        tmp_path, "iwslt14", "de-en", tie_word_embeddings=True, early_stopping={"metric": "bleu"}, eval_steps=3
    )
    results = run_recipe(recipe)
    rows = read_lines(tmp_path / "run" / "predictions.jsonl")
    of = {name: [row for row in rows if row["split"] == name] for name in ("validation", "test")}
    assert [row["target"] for row in of["test"]] == data["test"]["target"][:]
    texts = {name: [[row[key] for row in part] for key in ("prediction", "target")] for name, part in of.items()}
    # test over the tokens, validation over running text
    predictions, references = texts["test"]
    plain = sacrebleu.BLEU(tokenize="none", smooth_method="none", force=True)
    assert results.splits["test"].metrics["bleu"] == plain.corpus_score(predictions, [references]).score
    write = moses_detokenizer("en")
    running = [[write(text) for text in side] for side in texts["validation"]]
    expected = sacrebleu.corpus_bleu(running[0], [running[1]])
    assert results.splits["validation"].metrics["bleu"] == expected.score
    assert "tok:13a" in results.splits["validation"].bleu_signature
    assert len(results.curve("validation", "bleu")) == 2
    assert not any("test" in entry.evaluations for entry in results.history)

    checkpoint = tmp_path / "run" / "model"
    model, tokenizer = load_checkpoint(checkpoint)
    assert (model.generation_config.num_beams, model.generation_config.max_new_tokens) == (3, 13)
    # two tables: the decoder's has the pieces of targets only
    assert model.config.vocab_size < model.config.source_vocab_size == len(tokenizer)
    printed = evaluate_checkpoint(checkpoint, "iwslt14", "de-en", None, None, tmp_path / "again", 5)
    again = json.loads((tmp_path / "again" / "metrics.json").read_text())
    for name, summary in again.items():
        assert summary["bleu"] == pytest.approx(results.splits[name].metrics["bleu"], rel=1e-6)
        assert summary["loss"] == pytest.approx(results.splits[name].metrics["loss_teacher"], rel=1e-4)
    assert printed.splitlines()[0].split() == ["split", "examples", "bleu", "accuracy", "loss"]
    with pytest.raises(UserError, match=r"metrics\.json"):
        score_predictions(tmp_path / "again")
    # a checkpoint that sets no limit, and a split that is asked for twice
    settings = json.loads((checkpoint / "generation_config.json").read_text())
    del settings["max_new_tokens"]
    free = shutil.copytree(checkpoint, tmp_path / "free")
    (free / "generation_config.json").write_text(json.dumps(settings))
    (free / "complete").unlink()
    evaluate_checkpoint(free, "iwslt14", "de-en", ["validation"] * 2, None, tmp_path / "free_of_limits", 5)
    rows = read_predictions(tmp_path / "free_of_limits" / "predictions.jsonl")
    assert len(rows) == len(data["validation"])
    sentences = data["test"]["input"][:2]
    lines = list(predict_lines(checkpoint, sentences))
    assert lines == [text.replace("<unk>", "") for text in predictions[:2]]
    assert list(predict_lines(checkpoint, sentences, beams=1, max_new_tokens=3)) != lines
    assert predict_isolated(str(checkpoint), sentences) == lines


def training_text(files: Files, folder: Path, lines: int) -> Path:
    """A data folder whose training text is raw FLoRes dev: the archive, and one file for each side."""
    archive = FLORES.configs["ne-en"].sources["archive"].mirror
    path = folder / "data" / archive
    path.parent.mkdir(parents=True)
    path.symlink_to(files.folder / archive)
    for language in ("ne", "en"):
        with open_member(path, f"wikipedia_en_ne_si_test_sets/wikipedia.dev.ne-en.{language}") as stream:
            text = stream.read().decode("utf-8").split("\n")[:lines]
        (path.parent / f"train.ne-en.{language}").write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
    return folder / "data"


@pytest.mark.parametrize("config", ["ne-en", "en-ne"])
def test_flores_from_raw_text(files, tmp_path, monkeypatch, config):
    """Both directions by the loader itself; of the splits a few examples each."""
    folder = training_text(files, tmp_path, 40)
    sizes = {"train": 40, "validation": 5, "test_iid": 6, "test": 7}

    def load(name: str, config: str, data_dir: str) -> datasets.DatasetDict:
        with files.pinned(name, config):
            loaded = load_benchmark(name, config, data_dir=data_dir, cache_dir=tmp_path / "cache")
        return datasets.DatasetDict({split: loaded[split].select(range(count)) for split, count in sizes.items()})

    monkeypatch.setattr(hf_sysgen.training.tasks.registry, "load_benchmark", load)
    recipe = recipe_of(
        tmp_path,
        "flores",
        config,
        tokenization="sentencepiece",
        subwords=200,
        joint_vocabulary=True,
        length_penalty=1.2,
        share_all_embeddings=True,
        tie_word_embeddings=True,
        max_steps=2,
        data_dir=str(folder),
        eval_steps=1,
        early_stopping={"metric": "loss"},
        max_tokens=2000,
    )
    results = run_recipe(recipe)
    assert {name: summary.examples for name, summary in results.splits.items()} == {
        name: count for name, count in sizes.items() if name != "train"
    }
    test = [row for row in read_lines(tmp_path / "run" / "predictions.jsonl") if row["split"] == "test"]
    sides = [row["prediction"] for row in test], [[row["target"] for row in test]]
    plain = sacrebleu.BLEU(tokenize="none", smooth_method="none", force=True)
    metric = sacrebleu.BLEU() if config == "ne-en" else plain
    assert results.splits["test"].metrics["bleu"] == metric.corpus_score(*sides).score
    model, tokenizer = load_checkpoint(tmp_path / "run")
    assert model.config.vocab_size == model.config.source_vocab_size == len(tokenizer) == 199


def test_noun_adjective_has_comp(tmp_path, use):
    data = made_examples("noun_adjective")
    # validation begins with an unusable pair, so that the indices of judged examples do not start at 0
    sides = {"input": "a", "target": " ".join(data["validation"]["target"][0].split() * 9)}
    unusable = datasets.Dataset.from_list([{**data["validation"][0], **sides}], features=data["validation"].features)
    data["validation"] = datasets.concatenate_datasets([unusable, data["validation"]])
    use(data)
    recipe = recipe_of(
        tmp_path,
        "noun_adjective",
        "modified",
        joint_vocabulary=True,
        share_all_embeddings=True,
        subwords=MOST,
        tie_word_embeddings=True,
        max_steps=60,
        save_steps=60,
        hidden_size=32,
        learning_rate=0.01,
        eval_steps=None,
        dropout=0.0,
        num_beams=1,
        attention_dropout=0.0,
    )
    results = run_recipe(recipe)
    test = [row for row in read_lines(tmp_path / "run" / "predictions.jsonl") if row["split"] == "test"]
    assert [row["pairs"] for row in test] == data["test"]["pairs"][:]
    columns = [[row[key] for row in test] for key in ("prediction", "target", "pairs")]
    summary = results.splits["test"].metrics
    assert summary["comp"] == comp(*columns)["comp"]
    assert summary["comp_same_form"] == comp(*columns, rule="same_form")["comp"]
    assert results.splits["test"].comp_other_references == 0
    # only the test set has pairs that were held out
    assert "comp" not in results.splits["validation"].metrics
    assert summary["loss"] > summary["loss_teacher"] > 0
    printed = evaluate_checkpoint(tmp_path / "run", "noun_adjective", "modified", ["test"], None, None, 4)
    assert f"{summary['comp']:.4f}" in printed
    # the command judges the examples of the run
    evaluate_checkpoint(tmp_path / "run", "noun_adjective", "modified", ["validation"], None, tmp_path / "out", 4)
    ours, theirs = ([row for row in read_lines(tmp_path / folder / "predictions.jsonl") if row["split"] == "validation"]
                    for folder in ("run", "out"))  # fmt: skip
    assert [row["row"] for row in ours] == [row["row"] for row in theirs] == list(range(1, len(data["validation"])))
    assert [row["prediction"] for row in ours] == [row["prediction"] for row in theirs]


@pytest.mark.parametrize(
    ("benchmark", "config", "kept"),
    [
        ("iwslt14", "de-en", 5),
        ("flores", "ne-en", 3),
        ("flores", "en-si", 1),
        ("noun_adjective", "modified", 2),
    ],
)
def test_pairs_of_unlikely_lengths_are_left_out(tmp_path, use, benchmark, config, kept):
    """Of letters, which are never merged, so that pieces can be counted."""
    lengths = [(6, 7), (2, 3), (4, 7), (251, 251), (3, 0)]
    pairs = [{"input": " ".join("ab"[:1] * first), "target": " ".join("c" * second), "pairs": [f"{first}"]}
             for first, second in lengths]  # fmt: skip
    data = datasets.DatasetDict({name: datasets.Dataset.from_list(pairs) for name in ("train", "validation", "test")})
    data["train"] = datasets.concatenate_datasets([data["train"], datasets.Dataset.from_list([
        {"input": "", "target": "zz zz", "pairs": []}])])  # fmt: skip
    use(data)
    recipe = recipe_of(
        tmp_path, benchmark, config, subwords=1, max_tokens=2000, joint_vocabulary=True, early_stopping=None
    )
    task = prepare_task(recipe)
    expected = kept + 1 if benchmark == "iwslt14" else kept
    assert len(task.splits["train"]) == expected
    assert task.judged_rows("validation").tolist() == list(range(2 if benchmark == "noun_adjective" else 5))
    assert task.judged_rows("test").tolist() == list(range(5))
    for row in range(kept):
        source = task.splits["train"][np.array([row])]["input_ids"]
        assert source.shape[1] == lengths[row][0] + 1


def test_shares_of_several_processes_are_the_whole(iwslt, tmp_path, use):
    use(iwslt)
    task = prepare_task(recipe_of(tmp_path, "iwslt14", "de-en"))
    model = task.build_model("eager")
    rows = np.array([0, 2, 3, 7, 8])
    whole = task.evaluate(model, "test", rows, final=True, rank=0, world=1)
    shares = [task.evaluate(model, "test", rows, final=True, rank=rank, world=2) for rank in range(2)]
    assert sorted(record.row for share in shares for record in share) == rows.tolist()
    by_row = {record.row: record for record in whole}
    for record in (record for share in shares for record in share):
        assert record.prediction == by_row[record.row].prediction
        assert record.loss == pytest.approx(by_row[record.row].loss, rel=1e-5)
    # without translating, what is measured is the same
    brief = task.evaluate(model, "test", rows, final=False, rank=0, world=1)
    assert all(set(record.numbers()) == {"row", "loss", "loss_teacher", "target_length"} for record in brief)
    assert task.summarize(brief, "test").loss == pytest.approx(task.summarize(whole, "test").loss, rel=1e-6)


def test_loss_is_that_of_training(iwslt, tmp_path, use):
    """A mean over pieces, smoothed: what the trainer computes of one batch of all examples."""
    use(iwslt)
    task = prepare_task(recipe_of(tmp_path, "iwslt14", "de-en"))
    model = task.build_model("eager").eval()
    split: TokenizedSplit = task.splits["test"]
    batch = split[np.arange(len(split))]
    shifted = model.prepare_decoder_input_ids_from_labels(batch["labels"])
    with torch.no_grad():
        logits = model(batch["input_ids"], attention_mask=batch["attention_mask"], decoder_input_ids=shifted).logits
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten(), label_smoothing=0.1)
    records = task.evaluate(model, "test", np.arange(len(split)), final=False, rank=0, world=1)
    assert task.summarize(records, "test").loss == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize("model", [name for name, config in CONFIGS.items() if AutoModelForSeq2SeqLM in MODELS[config]])
def test_any_encoder_decoder_translates(tmp_path, use, model):
    use(made_examples("iwslt14"))
    recipe = recipe_of(
        tmp_path,
        "iwslt14",
        "de-en",
        model=model,
        max_steps=2,
        eval_steps=None,
        joint_vocabulary=True,
        label_smoothing_factor=0.0,
        subwords=MOST,
    )
    assert run_recipe(recipe).splits["test"].metrics["bleu"] >= 0
    assert len(list(predict_lines(tmp_path / "run", ["The new source needs the decision ."]))) == 1


def test_epochs_end_a_run(tmp_path, use):
    use(made_examples("iwslt14"))
    changes = {"eval_steps": None, "max_steps": 100, "epochs": 2}
    recipe = recipe_of(tmp_path, "iwslt14", "de-en", max_tokens=300, subwords=MOST, **changes)
    task = prepare_task(recipe)
    per_epoch = MaxTokensBatches(task.splits["train"], 300, 1, seed=0).updates_per_epoch
    assert 2 * per_epoch == steps_of(recipe, task) < 100
    assert run_recipe(recipe).steps == 2 * per_epoch


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"tokenization": "words", "subwords": None}, "data.tokenization"),
        ({"early_stopping": {"metric": "accuracy"}}, "evaluation.early_stopping.metric"),
        ({"benchmark": "scan", "config": "simple", "subwords": None, "num_beams": 1}, "data.tokenization"),
        ({"benchmark": "scan", "config": "simple", "tokenization": "words", "subwords": None}, "evaluation.num_beams"),
        ({"tokenization": "sentencepiece"}, "data.joint_vocabulary"),
        ({"subwords": None}, "data.subwords"),
        ({"num_beams": 1, "length_penalty": 1.2}, "evaluation.length_penalty"),
        ({"epochs": 3, "sampling": "with_replacement", "max_tokens": ..., "size": 8}, "batches.epochs"),
        ({"share_all_embeddings": True}, "model.share_all_embeddings"),
        ({"paper": {"metric": "bleu", "test": 101.0}}, "paper.test"),
    ],
    ids=str,
)
def test_recipes_that_cannot_be_run(tmp_path, use, changes, key):
    use(made_examples("iwslt14"))
    with pytest.raises(RecipeError) as caught:
        run_recipe(recipe_of(tmp_path, **{"benchmark": "iwslt14", "config": "de-en", "subwords": MOST, **changes}))
    assert caught.value.key == key
    assert not (tmp_path / "run").exists()


def test_flores_without_a_training_text_says_what_to_do(files, tmp_path):
    recipe = recipe_of(tmp_path, "flores", "ne-en", data_dir=str(files.folder))
    message = r"no split `train` .* mt/flores/train\.ne-en\.ne and \.en"
    with files.pinned("flores", "ne-en"), pytest.raises(RecipeError, match=message):
        run_recipe(recipe)
