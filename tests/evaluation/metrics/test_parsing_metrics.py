"""Scores of dependency trees by hand, and the best tree against all trees."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
from made_records import made_rows

from hf_sysgen.data.cfq.trees import is_tree
from hf_sysgen.errors import UserError
from hf_sysgen.evaluation.metrics.modules import load_metric
from hf_sysgen.evaluation.metrics.parsing import attachment_scores, correct_arcs, correct_heads, spanning_tree
from hf_sysgen.evaluation.metrics.summary import summarize


def test_heads_and_arcs_by_hand():
    gold, gold_labels = [2, 0, 2, 3], ["AUX", "ROOT", "OBJ", "NMOD"]
    heads, labels = [2, 0, 2, 2], ["AUX", "ROOT", "NSUBJ", "NMOD"]
    assert correct_heads(heads, gold) == 3
    assert correct_arcs(heads, labels, gold, gold_labels) == [True, True, False, False]


def test_subtypes_do_not_count():
    assert correct_arcs([0, 1], ["ROOT", "NMOD:poss"], [0, 1], ["ROOT", "NMOD"]) == [True, True]
    assert correct_arcs([0, 1], ["ROOT", "OBJ:poss"], [0, 1], ["ROOT", "NMOD:poss"]) == [True, False]


def test_lists_of_different_lengths_are_an_error():
    with pytest.raises(ValueError, match="zip"):
        correct_heads([0, 1], [0])
    for wrong in ((["0:root"] * 2, ["0:root"]), (["0:root"] * 2, ["0:root"] * 2, [[True]])):
        with pytest.raises(UserError, match="2 predictions"):
            attachment_scores(*wrong)


def test_shares_are_over_tokens():
    """A long sentence weighs more: 1 of 2 and 3 of 8 are 4 of 10, not 7/16."""
    records = [
        {"row": 0, "exact": False, "tokens": 2, "correct_heads": 2, "correct_arcs": 1},
        {"row": 1, "exact": True, "tokens": 8, "correct_heads": 7, "correct_arcs": 3},
    ]
    summary = summarize(made_rows(records))
    expected = {"accuracy": 0.5, "las": 0.4, "uas": 0.9}
    assert summary.metrics == pytest.approx(expected, rel=1e-15)
    assert summary.tokens is None


@functools.cache
def all_trees(size: int) -> np.ndarray:
    return np.array([heads for heads in itertools.product(range(size + 1), repeat=size) if is_tree(heads)])


def best_of_all(scores: np.ndarray) -> list[int]:
    trees = all_trees(len(scores))
    return trees[scores[np.arange(len(scores)), trees].sum(1).argmax()].tolist()


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_the_best_tree_of_all(size):
    generator = np.random.default_rng(size)
    no_trees = 0
    for _ in range(25):
        scores = generator.normal(size=(size, size + 1)) * 5
        alone = scores.copy()
        alone[np.arange(size), np.arange(size) + 1] = -np.inf
        no_trees += not is_tree(alone.argmax(1).tolist())
        assert spanning_tree(scores) == best_of_all(scores)
    # else the search was never asked
    assert no_trees > 3 or size == 1


def test_one_root_though_two_would_score_higher():
    """Both tokens score the root highest; one may have it."""
    assert spanning_tree(np.array([[9.0, 0.0, 1.0], [8.0, 3.0, 0.0]])) == [0, 1]
    assert spanning_tree(np.array([[9.0, 0.0, 7.0], [8.0, 3.0, 0.0]])) == [2, 0]


def test_the_scores_are_left_alone():
    scores = np.zeros((2, 3), np.float32)
    spanning_tree(scores)
    assert (scores == 0).all()


def test_attachment_scores_by_hand():
    metric = load_metric("dependency_parsing", keep_in_memory=True)
    predictions, references = ["2:nsubj 0:root 2:obj", "0:root"], ["2:nsubj:pass 0:root 1:obj", "0:dep"]
    found = metric.compute(predictions=predictions, references=references)
    assert found == {"las": 2 / 4, "uas": 3 / 4, "exact_match": 0.0}
    content = [[True, True, False], [True]]
    assert attachment_scores(predictions, references, content)["exact_match"] == 0.5


@pytest.mark.parametrize(
    ("predictions", "references", "message"),
    [
        ([], [], "no predictions"),
        ([""], [""], "no tokens"),
        (["0:root"], ["2:a 0:root"], "1 tokens in prediction 0, 2 in its reference"),
        (["root"], ["0:root"], "'root' is not a tree"),
        (["x:root"], ["0:root"], "'x:root' is not a tree"),
    ],
)
def test_no_trees(predictions, references, message):
    with pytest.raises(UserError, match=message):
        attachment_scores(predictions, references)
