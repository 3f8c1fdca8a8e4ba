"""Tasks on graphs and trees: their batches, their loss, what a run leaves, and that it resumes and shares its work."""

from __future__ import annotations

import functools
import json
import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import datasets
import numpy as np
import pytest
import torch
from invariance import SHARED_BATCHES, SMOOTH, assert_a_kill_leaves_no_trace, assert_two_processes_train_as_one, curve
from made_examples import any_benchmark, made_examples
from tiny_runs import SMALL, read_lines, tiny_recipe, write_recipe
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification, AutoTokenizer

import hf_sysgen.training.run
import hf_sysgen.training.tasks.registry
from hf_sysgen.config.errors import RecipeError
from hf_sysgen.config.io import load_recipe
from hf_sysgen.config.recipe import Recipe
from hf_sysgen.data import DataError
from hf_sysgen.data.cfq.trees import is_content, is_tree
from hf_sysgen.data.clutrr.kinship import TARGETS
from hf_sysgen.data.text.vocabulary import encode_sources
from hf_sysgen.errors import UserError
from hf_sysgen.evaluation.checkpoints import load_checkpoint, predict
from hf_sysgen.evaluation.metrics.summary import summarize
from hf_sysgen.files import COMPLETE
from hf_sysgen.results.predictions import read_predictions
from hf_sysgen.results.reading import read_record
from hf_sysgen.results.record import SplitMetrics
from hf_sysgen.training.evaluate import evaluate_by_task
from hf_sysgen.training.run import run_recipe
from hf_sysgen.training.tasks.graphs import COLUMNS
from hf_sysgen.training.tasks.registry import prepare_task

SHARED: dict[str, Any] = {"model": "edge_transformer", "num_hidden_layers": 2, "decoder_layers": ...}
KEYS = {
    "clutrr": {"benchmark": "clutrr", "config": "gen_train234_test2to10"},
    "rrat": {
        "benchmark": "clutrr", "config": "gen_train234_test2to10", "model": "relation_aware_transformer",
        "update_relations": True,
    },
    "gat": {"benchmark": "clutrr", "config": "gen_train234_test2to10", "model": "graph_attention_network"},
    "cogs_graph": {"benchmark": "cogs_graph", "config": "gen_2020"},
    "cogs_transformer": {"benchmark": "cogs_graph", "config": "gen_2020", "model": "transformer_graph_parser"},
    "cfq_dependencies": {
        "benchmark": "cfq_dependencies", "config": "mcd1_own_heads", "model": "edge_dependency_parser",
    },
    "cfq_biaffine": {
        "benchmark": "cfq_dependencies", "config": "mcd1_own_heads", "model": "biaffine_dependency_parser",
        "biaffine_size": 11, "biaffine_dropout": 0.0,
    },
    "cfq_bilstm": {
        "benchmark": "cfq_dependencies", "config": "mcd1_own_heads", "model": "biaffine_dependency_parser",
        "biaffine_size": 11, "biaffine_dropout": 0.0, "encoder": "bilstm", "objective": "heads",
    },
}  # fmt: skip
QUERIES = {"benchmark": "cfq", "config": "mcd1_edge", "joint_vocabulary": True}


def tiny(folder: Path, keys: dict[str, Any], **changes: Any) -> Recipe:
    return tiny_recipe(folder, **{**SHARED, **keys, **changes})


def tiny_file(folder: Path, keys: dict[str, Any], **changes: Any) -> Path:
    return write_recipe(folder, **{**SHARED, **keys, **changes})


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (KEYS["cfq_bilstm"] | {"hidden_size": 15, "num_attention_heads": ...}, "hidden_size"),
        (KEYS["gat"] | {"max_nodes": 2}, "max_nodes"),
        (KEYS["clutrr"] | {"triangular_implementation": "triton"}, "triton"),
        (KEYS["cogs_graph"] | {"frozen_token_id": 10_000}, "frozen_token_id"),
        (
            {"model": "conv_seq2seq", "num_hidden_layers": ..., "max_position_embeddings": 4, "kernel_size": 3},
            "max_position_embeddings",
        ),
    ],
)
def test_what_fits_no_data_is_told_before_training(keys, value, tmp_path, few_examples):
    with pytest.raises(RecipeError, match=value):
        run_recipe(tiny(tmp_path, keys))
    assert not list((tmp_path / "run").glob("checkpoint-*"))
    assert not (tmp_path / "run" / "recipe.yaml").exists()


# batches


@pytest.mark.parametrize("name", ["cfq_dependencies", "cfq_bilstm"])
def test_trees_against_a_loop(name, tmp_path, few_examples):
    """Of a parser that chooses heads, arcs are the only labels."""
    task = prepare_task(tiny(tmp_path, KEYS[name]))
    examples, rows = made_examples("cfq_dependencies")["train"], np.array([4, 0, 9])
    batch = task.splits["train"][rows]
    size = batch["input_ids"].shape[1]
    assert size == 1 + max(len(examples[int(row)]["tokens"]) for row in rows)
    for index, row in enumerate(rows.tolist()):
        example = examples[row]
        words = example["tokens"]
        known = task.tokenizer.convert_ids_to_tokens(batch["input_ids"][index])
        assert known[: len(words) + 1] == ["[ROOT]", *words]
        assert batch["attention_mask"][index].tolist() == [1] * (len(words) + 1) + [0] * (size - len(words) - 1)
        for dependent in range(size):
            for head in range(size):
                if dependent == 0 or max(dependent, head) > len(words):
                    expected = -100
                elif example["heads"][dependent - 1] == head:
                    expected = task.names.index(example["labels"][dependent - 1])
                else:
                    expected = -100 if name == "cfq_bilstm" else 0
                assert batch["labels"][index, dependent, head] == expected


@pytest.mark.parametrize("name", KEYS)
def test_of_no_rows_a_batch_without_labels(name, tmp_path, few_examples):
    batch = prepare_task(tiny(tmp_path, KEYS[name])).splits["train"][np.empty(0, np.int64)]
    assert (batch["labels"] == -100).all()
    assert {len(tensor) for tensor in batch.values()} == {1}


@pytest.mark.parametrize("name", KEYS)
def test_neighbours_are_of_similar_length(name, tmp_path, few_examples):
    split = prepare_task(tiny(tmp_path, KEYS[name])).splits["train"]
    mask = "node_mask" if "node_mask" in split[np.zeros(1, np.int64)] else "attention_mask"
    rows = split.by_length(np.arange(SMALL["train"]))
    lengths = split[rows][mask].sum(1).tolist()
    assert lengths == sorted(lengths)
    assert len(set(lengths)) > 1
    assert sorted(rows.tolist()) == list(range(SMALL["train"]))
    assert all(np.array_equal(side, split.lengths) for side in split.source_target_lengths())


def test_the_model_of_the_paper_has_its_size(few_examples):
    """All that the authors' code instantiates, but 40,000 that it throws away."""
    task = prepare_task(load_recipe("bergen2021/clutrr_edge_234.yaml"))
    assert task.build_model("eager").num_parameters() == 608_818 - 40_000


def test_real_words_have_the_authors_ids(data_dir):
    """Their counts, and one word that only gen has, whose labels are all known."""
    task = prepare_task(
        load_recipe("bergen2021/cogs_graph_edge.yaml", [f"data.data_dir={data_dir}", "model.share_layers=false"])
    )
    assert {kind: len(names) for kind, names in task.names.items()} == {
        "role": 9, "category": 5, "noun_type": 4, "verb": 136,
    }  # fmt: skip
    assert len(task.tokenizer) == 746
    assert task.tokenizer.convert_tokens_to_ids("A") == 1
    # of theirs, 2 rows of distances, 2 maps and another one in each layer are never used
    model = task.build_model("eager")
    assert model.num_parameters() == 243_227 + 64 - 2 * 64 - (2 + 3) * (64 * 64 + 64)


# losses


@pytest.mark.parametrize("name", KEYS)
def test_the_loss_is_the_model_s(name, tmp_path, few_examples):
    task = prepare_task(tiny(tmp_path, KEYS[name]))
    model = task.build_model("eager").eval()
    batch = task.splits["train"][np.arange(7)]
    labels = batch.pop("labels")
    alone = (
        {f"{kind}_labels": labels[..., index] for index, kind in enumerate(COLUMNS)}
        if KEYS[name]["benchmark"] == "cogs_graph"
        else {"labels": labels}
    )
    ours = task.loss(model(**batch), labels, num_items_in_batch=(labels != -100).sum())
    torch.testing.assert_close(ours, model(**batch, **alone).loss)


@pytest.mark.parametrize("name", KEYS)
def test_records_have_the_loss_of_each_example(name, tmp_path, few_examples):
    task = prepare_task(tiny(tmp_path, KEYS[name]))
    model = task.build_model("eager").train()
    records = {record.row: record for record in task.evaluate(model, "test", np.arange(13), True, 0, 1)}
    assert model.training
    shared = [task.evaluate(model, "test", np.arange(13), True, rank, 2) for rank in range(2)]
    assert {len(part) for part in shared} == {6, 7}
    assert {record.row for part in shared for record in part} == set(records) == set(range(13))
    model.eval()
    for row in range(13):
        batch = task.splits["test"][np.array([row])]
        labels = batch.pop("labels")
        with torch.no_grad():
            loss = task.loss(model(**batch), labels, num_items_in_batch=(labels != -100).sum())
        assert records[row].loss == pytest.approx(float(loss), rel=1e-4)


@pytest.mark.parametrize("name", KEYS)
def test_parts_make_the_same_update(name, tmp_path, few_examples):
    """61 examples in batches of 20: the epoch's last one has one row, so that three of four groups are empty."""
    exact = {"node_init": "zeros"} if name == "gat" else {}
    keys = {**KEYS[name], **SMOOTH, **exact, "sampling": "epochs", "size": 20, "max_steps": 4, "eval_steps": None}
    curves = [curve(run_recipe(tiny(tmp_path / str(n), keys, length_buckets=n))) for n in (1, 4)]
    assert len(curves[0]) == 8
    assert curves[1] == pytest.approx(curves[0], rel=1e-4)


@pytest.mark.parametrize("key", [{"label_smoothing_factor": 0.1}, {"joint_vocabulary": True}], ids=str)
def test_keys_that_are_about_texts(key, tmp_path, few_examples):
    with pytest.raises(RecipeError, match=rf"{next(iter(key))}=.* has no effect"):
        run_recipe(tiny(tmp_path, KEYS["clutrr"], **key))


def test_random_nodes_are_the_same_in_each_evaluation(tmp_path, few_examples):
    """And training goes on as without one."""
    weights = []
    for steps in (1, None):
        (tmp_path / str(steps)).mkdir()
        recipe = tiny(tmp_path / str(steps), {**KEYS["rrat"], "node_init": "uniform"}, eval_steps=steps, max_steps=3)
        run_recipe(recipe)
        model = AutoModelForSequenceClassification.from_pretrained(recipe.run_dir / "model")
        weights.append({name: weight.tolist() for name, weight in model.state_dict().items()})
    assert weights[0] == weights[1]
    task = prepare_task(recipe)
    scores = [
        [row.loss for row in task.evaluate(model, "test", np.arange(len(task.splits["test"])), True, 0, 1)]
        for _ in range(2)
    ]
    assert scores[0] == scores[1]


def test_a_model_without_the_head(tmp_path, few_examples):
    with pytest.raises(
        RecipeError,
        match=r"data\.benchmark=cogs_graph.*edge_transformer, transformer_",
    ):
        run_recipe(tiny(tmp_path, KEYS["cogs_graph"], model="relation_aware_transformer"))


# runs


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders of runs that have learnt a part of it, by task."""

    @functools.cache
    def run(name: str) -> Path:
        folder = tmp_path_factory.mktemp(name)
        hf_sysgen.training.run.quiet_libraries()
        recipe = tiny(
            folder, {**KEYS, "cfq": QUERIES}[name], max_steps=30, size=16, eval_steps=15, save_steps=30, dropout=0.0,
            learning_rate={"cfq_dependencies": 0.01, "cogs_transformer": 0.05}.get(name, 0.005),
        )  # fmt: skip
        with mock.patch.object(hf_sysgen.training.tasks.registry, "load_benchmark", any_benchmark):
            run_recipe(recipe)
        return folder / "run"

    return run


@pytest.mark.parametrize("name", KEYS)
def test_metrics_follow_from_predictions(name, runs):
    record, rows = read_record(runs(name) / "results.json"), read_lines(runs(name) / "predictions.jsonl")
    expected = [(split, row) for split in ("validation", "test") for row in range(SMALL[split])]
    assert [(row["split"], row["row"]) for row in rows] == expected
    for split, metrics in record.splits.items():
        summary = summarize(read_predictions(runs(name) / "predictions.jsonl", split))
        assert summary == metrics
    assert 0 < sum(row["exact"] for row in rows) < len(rows)
    assert [step for step, _ in record.curve("test", "accuracy")] == [15, 30]


# evaluated again, by `hf-sysgen evaluate`


def again(run: Path, output: Path | None = None, data: tuple[str, str] | None = None, **options: Any) -> str:
    recipe = read_record((run if run.name == "run" else run.parent) / "results.json").recipe
    benchmark, config = data or (recipe.data.benchmark, recipe.data.config)
    given = {"splits": ["test"], "data_dir": None, "batch_size": None, **options}
    return evaluate_by_task(str(run), benchmark, config, output=output, **given)


@pytest.mark.parametrize("name", KEYS)
def test_a_checkpoint_is_evaluated_again(name, runs, tmp_path, few_examples, capsys):
    run = runs(name)
    capsys.readouterr()
    text = again(run / "model", tmp_path / "out")
    assert "warning" not in capsys.readouterr().err
    record = read_record(run / "results.json")
    found = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert {split: SplitMetrics.model_validate(one) for split, one in found.items()} == {"test": record.splits["test"]}
    assert f"{record.splits['test'].accuracy:.4f}" in text
    rows = [row for row in read_lines(run / "predictions.jsonl") if row["split"] == "test"]
    assert read_lines(tmp_path / "out" / "predictions.jsonl") == rows


def test_evaluated_in_other_batches_and_on_one_split(runs, few_examples):
    text = again(runs("gat"), splits=["test"], batch_size=3)
    accuracy = read_record(runs("gat") / "results.json").splits["test"].accuracy
    header, row = (line.split() for line in text.splitlines()[:2])
    assert (row[0], int(row[1]), float(row[2])) == ("test", SMALL["test"], pytest.approx(accuracy, abs=1e-4))
    assert header[:3] == ["split", "examples", "accuracy"]


def test_evaluated_on_other_files(runs, monkeypatch, capsys):
    """Here with one story less to train on, which changes no number of the test."""

    def other(*args: Any, **kwargs: Any) -> datasets.DatasetDict:
        made = any_benchmark(*args, **kwargs)
        return datasets.DatasetDict({**made, "train": made["train"].select(range(len(made["train"]) - 1))})

    monkeypatch.setattr(hf_sysgen.training.tasks.registry, "load_benchmark", any_benchmark)
    run = runs("gat")
    capsys.readouterr()
    monkeypatch.setattr(hf_sysgen.training.tasks.registry, "load_benchmark", other)
    again(run)
    assert "has other examples than the run had" in capsys.readouterr().err


def test_evaluated_without_a_record(runs, tmp_path, few_examples):
    shutil.copytree(runs("gat") / "model", tmp_path / "alone" / "model")
    with pytest.raises(UserError, match=r"clutrr needs the results\.json of its run"):
        evaluate_by_task(str(tmp_path / "alone"), "clutrr", KEYS["gat"]["config"], ["test"], None, None, None)


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (("cogs_graph", "gen_2020"), UserError, "was trained on clutrr; give a model for graph_parsing"),
        (("clutrr", "gen_train5"), DataError, "gen_train5"),
    ],
)
def test_evaluated_on_what_it_was_not_made_for(data, error, message, runs, few_examples):
    with pytest.raises(error, match=message):
        again(runs("clutrr"), data=data)


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        (["test", "train"], "the split train of cogs_graph is not judged"),
        (["test", "test_iid"], "no examples of test_iid are judged"),
        (["tset"], "unknown split 'tset'"),
    ],
)
def test_evaluated_on_a_split_without_judged_examples(splits, message, runs, few_examples):
    """`test_iid` is not among the made examples."""
    with pytest.raises((UserError, DataError), match=message):
        again(runs("cogs_graph"), splits=splits)


def test_evaluated_with_another_model_s_record(runs, tmp_path, few_examples):
    shutil.copytree(runs("gat") / "model", tmp_path / "run" / "model")
    shutil.copy(runs("rrat") / "results.json", tmp_path / "run")
    with pytest.raises(UserError, match=r"results\.json: is of a relation_aware_transformer, and .* graph_attention"):
        again(tmp_path / "run")


def test_evaluated_without_its_tokenizer(runs, tmp_path, few_examples):
    shutil.copytree(runs("cogs_graph"), tmp_path / "run")
    for path in (tmp_path / "run" / "model").glob("*token*"):
        path.unlink()
    (tmp_path / "run" / "model" / COMPLETE).unlink(missing_ok=True)
    with pytest.raises(UserError, match=r"model: tokenizer\.json is missing"):
        again(tmp_path / "run")


def test_evaluated_from_its_folder(runs, few_examples, monkeypatch):
    monkeypatch.chdir(runs("gat") / "model")
    assert evaluate_by_task(".", "clutrr", KEYS["gat"]["config"], ["test"], None, None, None) == again(runs("gat"))


@pytest.mark.parametrize(
    ("name", "said"), [("cogs_graph", "label_names, tokenizer"), ("cfq_dependencies", "id2label, tokenizer")]
)
def test_evaluated_with_words_of_other_numbers(name, said, runs, monkeypatch):
    """The same words, met in another order; and one label less."""

    def changed(split: datasets.Dataset) -> datasets.Dataset:
        split = split.select(range(len(split) - 1, -1, -1))
        if name == "cogs_graph":
            return split
        label = split[0]["labels"][0]
        return split.map(lambda row: {"labels": [label] * len(row["labels"])})

    def other(*args: Any, **kwargs: Any) -> datasets.DatasetDict:
        return datasets.DatasetDict({split: changed(rows) for split, rows in any_benchmark(*args, **kwargs).items()})

    monkeypatch.setattr(hf_sysgen.training.tasks.registry, "load_benchmark", other)
    with pytest.raises(UserError, match=rf"words or labels are not those of .* \({said}\); copy"):
        again(runs(name))


@pytest.mark.parametrize("name", ["clutrr", "rrat", "gat"])
def test_a_stranger_labels_relations(name, runs):
    """With what the checkpoint says of its labels."""
    model = AutoModelForSequenceClassification.from_pretrained(runs(name) / "model").eval()
    edge_ids = {label: index for index, label in enumerate(model.config.edge_labels)}
    rows = [row for row in read_lines(runs(name) / "predictions.jsonl") if row["split"] == "test"]
    for row, example in zip(rows, made_examples("clutrr")["test"], strict=True):
        size = 1 + max(map(max, example["edges"]))
        graph = torch.zeros(1, size, size, dtype=torch.int64)
        for (first, last), label in zip(example["edges"], example["edge_types"], strict=True):
            graph[0, first, last] = edge_ids[label]
        logits = model(edge_ids=graph, query=torch.tensor([example["query_edge"]])).logits
        assert model.config.id2label[int(logits.argmax())] == row["prediction"]
        assert row["exact"] == (row["prediction"] == row["target"] == example["target"])
        assert row["category"] == f"k={example['k']}"
    assert model.config.label2id == {label: index for index, label in enumerate(TARGETS)}


@pytest.mark.parametrize("name", ["cogs_graph", "cogs_transformer"])
def test_a_stranger_parses_graphs(name, runs):
    model = AutoModelForTokenClassification.from_pretrained(runs(name) / "model").eval()
    tokenizer = AutoTokenizer.from_pretrained(runs(name) / "model")
    for row in read_lines(runs(name) / "predictions.jsonl"):
        out = model(**tokenizer(row["input"], return_tensors="pt"))
        wrong = []
        for kind, names in model.config.label_names.items():
            found = [names[label] for label in out[f"{kind}_logits"][0].argmax(-1).tolist()]
            assert found == row["prediction"][COLUMNS[kind]]
            assert row[f"{kind}_exact"] == (found == row[COLUMNS[kind]])
            wrong.append(found != row[COLUMNS[kind]])
        parents = out.parent_logits[0].argmax(-1).tolist()
        found = [-1 if parent == word else parent for word, parent in enumerate(parents)]
        assert found == row["prediction"]["parents"]
        assert row["parent_exact"] == (found == row["parents"])
        assert row["exact"] == (not any(wrong) and row["parent_exact"])
        assert row["category"] in ("short", "active", "deep")


@pytest.mark.parametrize("name", ["cfq_dependencies", "cfq_biaffine", "cfq_bilstm"])
def test_a_stranger_parses_dependencies(name, runs):
    model = AutoModelForTokenClassification.from_pretrained(runs(name) / "model").eval()
    tokenizer = AutoTokenizer.from_pretrained(runs(name) / "model")
    rows = read_lines(runs(name) / "predictions.jsonl")
    for row in rows:
        logits = model(**tokenizer(row["input"], return_tensors="pt")).logits[0]
        best = 1 + logits[..., 1:].argmax(-1)
        arcs = [arc.split(":") for arc in row["prediction"].split()]
        assert is_tree([int(head) for head, _ in arcs])
        for token, (head, label) in enumerate(arcs, start=1):
            assert model.config.id2label[int(best[token, int(head)])] == label
        gold = [arc.split(":") for arc in row["target"].split()]
        assert row["correct_heads"] == sum(arc[0] == right[0] for arc, right in zip(arcs, gold, strict=True))
        assert row["correct_arcs"] == sum(arc == right for arc, right in zip(arcs, gold, strict=True))
        content = [is_content(label) for _, label in gold]
        assert row["exact"] == all(arc == right for arc, right, it in zip(arcs, gold, content, strict=True) if it)
    metrics = read_record(runs(name) / "results.json").splits["test"].metrics
    test = [row for row in rows if row["split"] == "test"]
    assert metrics["las"] == sum(row["correct_arcs"] for row in test) / sum(row["tokens"] for row in test)
    assert metrics["uas"] >= metrics["las"] > 0


def test_a_stranger_writes_queries(runs):
    """By `generate`, token by token, without what evaluation knows of references."""
    model, tokenizer = load_checkpoint(runs("cfq"))
    assert len(tokenizer) == model.config.vocab_size
    rows = read_lines(runs("cfq") / "predictions.jsonl")
    texts, _ = predict(model, tokenizer, [row["input"] for row in rows])
    for row, text in zip(rows, texts, strict=True):
        assert text.split()[: row["target_length"] + 1] == row["prediction"].split()
    assert 0 < sum(row["exact"] for row in rows) < len(rows)
    encoded = encode_sources(tokenizer, [rows[0]["input"]])[0]
    assert tokenizer.convert_ids_to_tokens(encoded) == [*rows[0]["input"].split(), "</s>"]


def test_one_table_needs_a_joint_vocabulary(tmp_path, few_examples):
    with pytest.raises(RecipeError) as caught:
        run_recipe(tiny(tmp_path, {**QUERIES, "joint_vocabulary": False}))
    assert caught.value.key == "data.joint_vocabulary"


def test_killed_once(tmp_path):
    recipe = tiny_file(tmp_path, KEYS["cogs_graph"], sampling="epochs", length_buckets=2)
    assert_a_kill_leaves_no_trace(recipe, tmp_path)


@pytest.mark.parametrize("name", ["cfq_dependencies", "cogs_graph", "rrat", "gat", "cfq_bilstm"])
def test_two_processes_make_the_updates_of_one(name, tmp_path, few_examples):
    """An epoch ends on a batch of 13; losses are means over labels, of which sentences have more or less."""
    exact = {"node_init": "zeros"} if name == "gat" else {}
    keys = {**KEYS[name], **SHARED_BATCHES, **exact}
    alone = run_recipe(tiny(tmp_path / "one", keys))
    assert_two_processes_train_as_one(alone, tiny_file(tmp_path, keys), tmp_path)
