"""Exact match, oracle length and perplexity, as functions and as metrics of `evaluate`."""

from __future__ import annotations

import math
from pathlib import Path

import evaluate
import pytest

from hf_sysgen.errors import UserError
from hf_sysgen.evaluation.metrics.modules import METRICS, load_metric, write_space
from hf_sysgen.evaluation.metrics.sequences import exact_match, oracle_length_match, perplexity, shares


def test_exact_match():
    assert exact_match("a b", " a  b ")
    assert not exact_match("a b", "a b b")
    assert not exact_match("a b", "b a")
    assert exact_match("", "")


def test_oracle_length():
    """EOS is ignored and the length is given: extra tokens do not count, missing ones do."""
    assert oracle_length_match("a b c c c", "a b c")
    assert not oracle_length_match("a b", "a b c")
    assert not oracle_length_match("a c b", "a b c")
    assert oracle_length_match("", "")


def test_shares_by_category():
    predictions, references = ["a", "b", "c", "d"], ["a", "x", "c", "x"]
    found = shares({"exact": exact_match}, predictions, references, ["one", "one", "one", "two"])
    assert found == {
        "exact": 0.5,
        "by_category": {"one": {"examples": 3, "exact": pytest.approx(2 / 3)}, "two": {"examples": 1, "exact": 0.0}},
    }
    with pytest.raises(UserError, match="3 categories for 4 predictions"):
        shares({"exact": exact_match}, predictions, references, ["one"] * 3)
    with pytest.raises(UserError, match="no predictions"):
        shares({"exact": exact_match}, [], [])
    with pytest.raises(UserError, match="3 references for 4 predictions"):
        shares({"exact": exact_match}, predictions, references[:3])


def test_perplexity_weighs_tokens_alike():
    """3 tokens of probability 1/2 and one of 1/16: 7 halvings over 4 tokens."""
    found = perplexity([math.log(2), math.log(16)], [3, 1])
    assert found["perplexity"] == pytest.approx(2 ** (7 / 4), rel=1e-12)
    assert found["loss"] == pytest.approx(math.log(2) * 7 / 4, rel=1e-12)
    assert found["tokens"] == 4
    # the mean over no token is not a number, and counts for nothing
    assert perplexity([math.log(2), math.nan], [3, 0])["perplexity"] == pytest.approx(2.0)
    assert perplexity([1e5], [1])["perplexity"] == math.inf
    with pytest.raises(UserError, match="no tokens"):
        perplexity([1.0], [0])
    with pytest.raises(UserError, match="a length of -1 tokens"):
        perplexity([1.0, 1.0], [3, -1])
    with pytest.raises(UserError, match="lengths"):
        perplexity([1.0], [1, 2])


FORM, RENAMED = "rose ( x _ 1 ) AND dog ( x _ 2 )", "rose ( x _ 4 ) AND dog ( x _ 3 )"
TURNED = "dog ( x _ 2 ) AND rose ( x _ 1 )"
COGS_ROWS = ([FORM, RENAMED, TURNED, "rose ("], [FORM] * 4)


@pytest.mark.parametrize(
    ("name", "inputs", "expected"),
    [
        ("sequence_exact_match", {"predictions": ["a b", "a"], "references": ["a b", "b"]}, {"exact_match": 0.5}),
        ("oracle_length", {"predictions": ["a b c", "a"], "references": ["a b", "b"]}, {"oracle_length": 0.5}),
        (
            "cogs_match",
            {"predictions": COGS_ROWS[0], "references": COGS_ROWS[1]},
            {"exact_match": 0.25, "renaming_match": 0.5, "semantic_match": 0.75},
        ),
        (
            "perplexity",
            {"losses": [math.log(4)], "lengths": [2]},
            {"perplexity": pytest.approx(4.0), "loss": pytest.approx(math.log(4)), "tokens": 2},
        ),
    ],
)
def test_metrics_of_evaluate(name, inputs, expected, tmp_path):
    """At once, and batch by batch; nothing is left behind."""
    metric = load_metric(name, cache_dir=str(tmp_path))
    assert metric.name == name
    assert metric.description
    assert metric.compute(**inputs) == expected
    for row in range(len(next(iter(inputs.values())))):
        metric.add_batch(**{key: values[row : row + 1] for key, values in inputs.items()})
    assert metric.compute() == expected
    assert not list(tmp_path.rglob("*.arrow"))


def test_categories_of_a_metric(tmp_path):
    metric = load_metric("sequence_exact_match", cache_dir=str(tmp_path))
    found = metric.compute(predictions=["a", "b"], references=["a", "c"], categories=["x", "y"])
    assert {name: part["exact_match"] for name, part in found["by_category"].items()} == {"x": 1.0, "y": 0.0}


def test_metrics_combine(tmp_path):
    import evaluate

    names = ("sequence_exact_match", "oracle_length")
    both = evaluate.combine([load_metric(name, cache_dir=str(tmp_path / name)) for name in names])
    assert both.compute(predictions=["a b"], references=["a"]) == {"exact_match": 0.0, "oracle_length": 1.0}


def test_no_such_metric():
    with pytest.raises(UserError, match=r"'blue'.*\bbleu\b"):
        load_metric("blue")
    with pytest.raises(UserError, match="no config 'iwslt' of perplexity"):
        load_metric("perplexity", "iwslt")
    with pytest.raises(UserError, match="tokenized, detokenized, iwslt14"):
        load_metric("bleu", "iwslt")


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_loads(name, tmp_path):
    metric = load_metric(name, cache_dir=str(tmp_path))
    assert metric.name == name
    assert all(kind is not None for kind in metric.features.values())


@pytest.mark.parametrize("name", METRICS)
def test_a_space_is_what_evaluate_loads(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_EVALUATE_OFFLINE", "1")
    write_space(name, tmp_path)
    found, ours = evaluate.load(str(tmp_path / name)), load_metric(name)
    assert found.features == ours.features
    if name == "sequence_exact_match":
        assert found.compute(predictions=["a b", "c"], references=["a b", "d"]) == {"exact_match": 0.5}
