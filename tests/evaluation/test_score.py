"""Predictions scored again: by hand, compared with the record of their run, and without torch."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from made_records import made_record, made_rows
from tiny_runs import command
from typer.testing import CliRunner

from hf_sysgen.cli.main import app
from hf_sysgen.errors import UserError
from hf_sysgen.evaluation.score import score_predictions
from hf_sysgen.results.predictions import read_predictions, write_predictions
from hf_sysgen.results.record import write_record


def row(split, target, prediction, **more):
    length = len(target.split())
    exact = target == prediction
    return {"split": split, "input": "x", "target": target, "prediction": prediction, "exact": exact,
            "loss": 2.0, "loss_teacher": 1.0, "target_length": length, **more}  # fmt: skip


ROWS = [
    row("validation", "a", "a"),
    row("test", "a b", "a b", loss_teacher=0.5, category="k=10", oracle_exact=True),
    row("test", "a b c", "a  b c", loss_teacher=0.25, category="k=10", oracle_exact=True),
    row("test", "a b c", "a b", loss_teacher=1.5, category="k=9", oracle_exact=False),
]


@pytest.fixture
def run(tmp_path) -> Path:
    write_predictions(tmp_path / "predictions.jsonl", made_rows(ROWS))
    return tmp_path


def cells(text: str) -> list[list[list[str]]]:
    return [[line.split() for line in part.splitlines()] for part in text.split("\n\n")]


def test_tables_by_hand(run):
    splits, categories, lengths = cells(score_predictions(run, "sequence_exact_match"))
    assert splits == [["split", "examples", "exact_match"], ["validation", "1", "1.0000"], ["test", "3", "0.6667"]]
    assert categories[0] == ["test,", "category", "examples", "exact_match"]
    assert categories[1:] == [["k=9", "1", "0.0000"], ["k=10", "2", "1.0000"]]
    assert lengths[1:] == [["2", "1", "1.0000"], ["3", "2", "0.5000"]]


def test_what_the_run_recorded(run):
    splits, categories, _ = cells(score_predictions(run / "predictions.jsonl"))
    assert splits[0] == ["split", "examples", "accuracy", "loss", "loss_teacher", "accuracy_oracle"]
    assert splits[1] == ["validation", "1", "1.0000", "2.0000", "1.0000", "-"]
    # the run compared texts, whose blanks differ
    assert splits[2] == ["test", "3", "0.3333", "2.0000", "0.7500", "0.6667"]
    assert categories[2] == ["k=10", "2", "0.5000", "2.0000", "0.3750", "1.0000"]


@pytest.mark.parametrize("where", [0, 2])
def test_a_loss_that_is_not_finite_hides_nothing(where, tmp_path):
    rows = [{**one, "loss": math.inf if number == where else 2.0} for number, one in enumerate(ROWS[1:])]
    write_predictions(tmp_path / "predictions.jsonl", made_rows(rows))
    splits, *_ = cells(score_predictions(tmp_path))
    assert splits == [
        ["split", "examples", "accuracy", "loss", "loss_teacher", "accuracy_oracle"],
        ["test", "3", "0.3333", "nan", "0.7500", "0.6667"],
    ]


def test_digits_that_are_no_numbers_may_be_in_a_category(tmp_path):
    rows = [row("test", "a", "a", category=name) for name in ("m\u00b2", "x1\u00b2", "x10", "x9")]
    write_predictions(tmp_path / "predictions.jsonl", made_rows(rows))
    _, categories, *_ = cells(score_predictions(tmp_path))
    assert [line[0] for line in categories[1:]] == ["m\u00b2", "x1\u00b2", "x9", "x10"]


def test_perplexity_is_over_tokens_and_ends(run):
    splits, *_ = cells(score_predictions(run, "perplexity"))
    loss = (0.5 * 3 + 0.25 * 4 + 1.5 * 4) / 11
    assert splits[2] == ["test", "3", f"{math.exp(loss):.4f}", f"{loss:.4f}"]


def test_metrics_of_other_tasks(run, tmp_path):
    forms = [row("gen", "a ( x _ 1 ) AND b ( x _ 2 )", "b ( x _ 3 ) AND a ( x _ 1 )")]
    pairs = [row("test", "une nouvelle réponse", "la réponse nouveau", pairs=["new response"])]
    trees = [row("test", "q", "2:a 0:b", tokens=2, correct_heads=2, correct_arcs=1)]
    expected = {
        "cogs_match": ["0.0000", "0.0000", "1.0000"],
        "comp": ["1.0000", "0.0000"],
        "dependency_parsing": ["0.5000", "1.0000", "0.0000"],
    }
    for rows, (metric, values) in zip((forms, pairs, trees), expected.items(), strict=True):
        write_predictions(tmp_path / "predictions.jsonl", made_rows(rows))
        ((_, line),) = cells(score_predictions(tmp_path, metric))
        assert line[2:] == values
    write_predictions(tmp_path / "predictions.jsonl", made_rows(ROWS[1:]))
    assert cells(score_predictions(tmp_path, "oracle_length"))[0][1] == ["test", "3", "0.6667"]


def test_text_is_measured_by_its_nats(tmp_path):
    rows = [{"split": "validation", "row": row, "nats": nats, "correct": correct, "tokens": tokens, "input": "x"}
            for row, (nats, correct, tokens) in enumerate([(3.0, 1, 2), (9.0, 0, 6)])]  # fmt: skip
    write_predictions(tmp_path / "predictions.jsonl", made_rows(rows))
    perplexity = f"{math.exp(12 / 8):.4f}"
    assert cells(score_predictions(tmp_path)) == [
        [["split", "examples", "accuracy", "loss", "perplexity"],
         ["validation", "2", "0.1250", "1.5000", perplexity]],
    ]  # fmt: skip
    assert cells(score_predictions(tmp_path, "perplexity"))[0][1] == ["validation", "2", perplexity, "1.5000"]


def test_translations_are_measured_as_the_run_did(tmp_path):
    """Losses weigh pieces, 3 and 5 here, not examples; BLEU is there, and COMP where the record has it."""
    rows = [row("test", "la nouvelle", "la nouvelle", loss_teacher=0.5, pairs=[])]
    rows += [row("test", "une nouvelle réponse .", "la réponse nouveau .", loss_teacher=1.5, pairs=["new response"])]
    write_predictions(tmp_path / "predictions.jsonl", made_rows(rows[1:]))
    split = {"examples": 1, "accuracy": 0.0, "by_length": [], "bleu": 0.0}
    data = {"data.benchmark": "noun_adjective", "data.config": "modified"}
    write_record(tmp_path / "results.json", made_record(splits={"test": {**split, "comp": 1.0}}, recipe_values=data))
    (splits,) = cells(score_predictions(tmp_path))
    names = ["split", "examples", "accuracy", "loss", "loss_teacher", "bleu", "comp", "comp_same_form"]
    assert splits[0] == names
    assert splits[1][3:5] + splits[1][6:] == ["2.0000", "1.5000", "1.0000", "0.0000"]
    write_predictions(tmp_path / "predictions.jsonl", made_rows(rows))
    split |= {"examples": 2, "accuracy": 0.5}
    write_record(tmp_path / "results.json", made_record(splits={"test": split}, recipe_values=data))
    splits, *_ = cells(score_predictions(tmp_path))
    assert splits[0] == [name for name in names if "comp" not in name]
    assert splits[1][4] == f"{(0.5 * 3 + 1.5 * 5) / 8:.4f}"


def test_bleu_is_that_of_the_benchmark(run):
    with pytest.raises(UserError, match=r"results\.json: cannot read results"):
        score_predictions(run, "bleu")
    assert cells(score_predictions(run, "bleu", "tokenized"))[0][2][:2] == ["test", "3"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--metric", "blue"], "recorded, sequence_exact_match"),
        (["--metric", "comp"], "'pairs'"),
        (["--metric", "oracle_length"], "'oracle_exact'"),
        (["--metric", "comp", "--setup", "tokenized"], "setup=tokenized"),
        (["--split", "test"], "--split"),
    ],
)
def test_what_cannot_be_measured(run, words, message):
    result = CliRunner().invoke(app, ["score", str(run), *words])
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert message in line


@pytest.mark.parametrize(
    ("rows", "metric", "message"),
    [
        ([*ROWS, {name: value for name, value in ROWS[1].items() if name != "loss"}], "recorded", "'loss'.* 1 of 4"),
        ([{"split": "test", "nats": 1.0, "correct": 1, "tokens": 2}, ROWS[1]], "recorded", "'nats'"),
        ([{"split": "test", "nats": 1.0, "correct": 1, "tokens": 2}], "cogs_match", "'prediction'"),
        # labels of a graph's nodes
        ([row("test", "a b", {"role": ["x", "y"]})], "bleu", "predictions"),
        ([row("test", "a b", {"role": ["x", "y"]})], "sequence_exact_match", "predictions"),
    ],
)
def test_rows_of_other_tasks_and_damaged_ones(rows, metric, message, tmp_path):
    write_predictions(tmp_path / "predictions.jsonl", made_rows(rows))
    with pytest.raises(UserError, match=message):
        score_predictions(tmp_path, metric, "tokenized" if metric == "bleu" else None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "predictions"),
        ('{"split": "test", "prediction": "a", "exact": true}\n{"split": "te', "line 2"),
        ('{"exact": true, "prediction": "a"}\n', "line 1: .*split"),
        ('{"split": "test"}\n', "line 1: .*prediction"),
        ('{"split": "test", "prediction": "a", "exact": "yes"}\n', "line 1: .*exact"),
        ("[]\n", "line 1"),
    ],
)
def test_damaged_predictions(text, message, tmp_path):
    path = tmp_path / "predictions.jsonl"
    with pytest.raises(UserError, match="give the folder of a finished run"):
        read_predictions(path)
    path.write_text(text)
    with pytest.raises(UserError, match=message) as caught:
        score_predictions(tmp_path)
    assert str(path) in str(caught.value)


def test_without_torch(run):
    done = command(["-X", "importtime", "-m", "hf_sysgen.cli", "score", str(run), "--metric", "perplexity"], run)
    assert done.returncode == 0
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "hf_sysgen" in imported
    assert not imported & {"torch", "transformers", "datasets", "evaluate", "matplotlib"}
    assert "perplexity" in done.stdout
