"""BLEU as the setups of Chaabouni et al. take it, COMP, and tests of significance."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from made_records import made_record, made_rows
from typer.testing import CliRunner

from hf_sysgen.cli.main import app
from hf_sysgen.data.noun_adjective.rule import HELD_OUT, TRAIN_PAIRS
from hf_sysgen.errors import UserError
from hf_sysgen.evaluation.metrics.bleu import SETUPS, bleu, bleu_setup
from hf_sysgen.evaluation.metrics.comp import LEXICON, comp, comp_match, words
from hf_sysgen.evaluation.metrics.modules import load_metric
from hf_sysgen.evaluation.significance import (
    bleu_test,
    mcnemar_test,
    permutation_test,
    right_where_wrong,
    runs_hits,
    runs_test,
)
from hf_sysgen.results.predictions import write_predictions
from hf_sysgen.results.record import write_record

PREDICTIONS = ["the cat is on the mat .", "there is a dog in the old house", "we have found a good solution ."]
REFERENCES = ["the cat sat on the mat .", "a dog is in the old house .", "we have found a good solution ."]


def bleu_by_hand(predictions, references):
    """Papineni et al. 2002, unsmoothed, over tokens between blanks."""
    logs = []
    for order in range(1, 5):
        hits = total = 0
        for prediction, reference in zip(predictions, references, strict=True):
            ours, theirs = (
                Counter(tuple(text.split()[at : at + order]) for at in range(len(text.split()) - order + 1))
                for text in (prediction, reference)
            )
            hits += (ours & theirs).total()
            total += ours.total()
        logs.append(math.log(hits / total))
    lengths = [sum(len(text.split()) for text in texts) for texts in (predictions, references)]
    return 100 * min(1.0, math.exp(1 - lengths[1] / lengths[0])) * math.exp(sum(logs) / 4)


@pytest.mark.parametrize("setup", ["tokenized", "iwslt14", "flores_from_english", "noun_adjective"])
def test_tokenized_bleu_is_the_formula(setup):
    found = bleu(PREDICTIONS, REFERENCES, setup)
    assert found["bleu"] == pytest.approx(bleu_by_hand(PREDICTIONS, REFERENCES), rel=1e-9)
    assert (found["prediction_length"], found["reference_length"]) == (22, 22)
    assert "tok:none|smooth:none" in found["signature"]
    shorter = [text.rpartition(" ")[0] for text in PREDICTIONS]
    found = bleu(shorter, REFERENCES, setup)
    assert found["bleu"] == pytest.approx(bleu_by_hand(shorter, REFERENCES), rel=1e-9)
    assert found["brevity_penalty"] < 1


def test_detokenized_bleu_splits_running_text():
    """In detokenized text, a period after a word is its own token again; in tokenized text it is not."""
    glued = [text.replace(" .", ".") for text in PREDICTIONS]
    whole = [text.replace(" .", ".") for text in REFERENCES]
    found = bleu(glued, whole, "detokenized")
    assert found["bleu"] == pytest.approx(bleu_by_hand(PREDICTIONS, REFERENCES), rel=1e-9)
    assert "tok:13a" in found["signature"]
    assert bleu(glued, whole)["bleu"] != pytest.approx(found["bleu"], rel=1e-3)


def test_pieces_are_put_together():
    pieces = ["the c@@ at is on the mat .", "there is a dog in the old h@@ ouse", "we have found a good solu@@ tion ."]
    for setup in ("iwslt14", "noun_adjective"):
        assert bleu(pieces, REFERENCES, setup) == bleu(PREDICTIONS, REFERENCES, setup)
    pieces = ["▁the ▁c at ▁is ▁on ▁the ▁mat ▁.", "▁there ▁is ▁a ▁dog ▁in ▁the ▁old ▁h ouse",
              "▁we ▁have ▁found ▁a ▁good ▁solu tion ▁."]  # fmt: skip
    for setup in ("flores_from_english", "flores_into_english"):
        assert bleu(pieces, REFERENCES, setup) == bleu(PREDICTIONS, REFERENCES, setup)


def test_validation_of_iwslt14_is_of_detokenized_text():
    tokens = ["it &apos;s a dog , isn &apos;t it ?"] * 2
    # as Moses writes it out
    running = ["it's a dog, isn't it?"] * 2
    assert SETUPS["iwslt14_validation"].prepare(tokens) == running
    assert bleu(tokens, tokens, "iwslt14_validation") == bleu(running, running, "detokenized")


def test_bleu_needs_predictions_and_a_setup():
    with pytest.raises(UserError, match=r"'wmt'.*tokenized"):
        bleu(PREDICTIONS, REFERENCES, "wmt")
    with pytest.raises(UserError, match="no predictions"):
        bleu([], [])
    with pytest.raises(UserError, match="1 references for 2 predictions"):
        bleu(["a b", "c"], ["a b"])
    with pytest.raises(UserError, match=r"2 references.* 1 predictions"):
        bleu(["a b"], ["a b", "c"])


def test_bleu_as_a_metric(tmp_path):
    for config, setup in ((None, "tokenized"), ("flores_into_english", "flores_into_english")):
        metric = load_metric("bleu", config, cache_dir=str(tmp_path))
        found = metric.compute(predictions=PREDICTIONS, references=REFERENCES)
        assert found == bleu(PREDICTIONS, REFERENCES, setup)


# Table 6 of the paper: pair, target, prediction of SAG + T5, prediction of the Transformer
TABLE_6 = [
    ("particular responsibility",
     "Nous sommes face à une responsabilité politique particulière.",
     "Nous sommes accablés par une responsabilité politique particulière.",
     "Nous sommes accablés par une responsabilité politique."),
    ("good solution",
     "Nous voulons trouver une bonne solution à ce problème.",
     "Nous voulons trouver une bonne solution à ce problème.",
     "Nous voulons trouver une solution adéquate à ce problème."),
    ("particular decision",
     "Ce qui nous déçoit par rapport à cette décision particulière, c'est que le projet aurait pu voir le jour.",
     "Ce qui est triste dans cette décision précise, c'est que le projet aurait été clairement réalisé.",
     "Ce qui est triste dans cette mauvaise décision, c'est que le projet aurait clairement été."),
]  # fmt: skip


@pytest.mark.parametrize("rule", ["any_inflection", "same_form"])
def test_comp_of_the_paper_s_examples(rule):
    pairs, targets, ours, theirs = zip(*TABLE_6, strict=True)
    pairs = [[pair] for pair in pairs]
    assert comp(ours, targets, pairs, rule) == {"comp": pytest.approx(2 / 3), "examples": 3, "other_references": 0}
    assert comp(theirs, targets, pairs, rule)["comp"] == 0


def test_the_lexicon_has_every_word_of_the_benchmark():
    assert set(LEXICON) == {word for pair in (*TRAIN_PAIRS, *HELD_OUT) for word in pair}
    # no form belongs to two words, or a match would not tell which
    assert all(not first & second for first, second in itertools.combinations(LEXICON.values(), 2))


def test_the_two_rules_differ_in_inflection():
    reference, prediction = "de nouvelles réponses", "une réponse nouvelle"
    assert comp_match(prediction, reference, ["new response"], "any_inflection") is True
    assert comp_match(prediction, reference, ["new response"], "same_form") is False
    assert comp_match("des réponses nouvelles", reference, ["new response"], "same_form") is True


def test_every_pair_counts():
    reference = "une nouvelle réponse et une bonne institution"
    pairs = ["good institution", "new response"]
    assert comp_match(reference, reference, pairs) is True
    assert comp_match("une nouvelle réponse", reference, pairs) is False


def test_references_with_another_word():
    """ "important" for big: the reference has no form of the lexicon, but a prediction may have one."""
    references = ["une décision importante", "une bonne organisation"]
    pairs = [["big organisation"], ["good organisation"]]
    predictions = ["une grande organisation", "une organisation"]
    assert comp_match(predictions[0], references[0], pairs[0]) is None
    # the noun is there, the adjective is not
    assert comp_match("une grande décision", references[0], ["big decision"]) is None
    for rule in ("any_inflection", "same_form"):
        assert comp(predictions, references, pairs, rule) == {"comp": 0.5, "examples": 2, "other_references": 1}
        dropped = comp(predictions, references, pairs, rule, drop=True)
        assert dropped == {"comp": 0.0, "examples": 1, "other_references": 1}
    with pytest.raises(UserError, match="nothing to measure"):
        comp(predictions[:1], references[:1], pairs[:1], drop=True)


def test_words_of_moses_tokens_and_pieces():
    assert words("L&apos; organ@@ isation m&apos;a @-@ t @-@ il PREMIÈRE's l\u2019institution") >= {
        "organisation", "première", "institution"
    }  # fmt: skip
    # e and a combining accent
    assert words("re\u0301ponse") == {"réponse"}
    assert comp_match("La disorganisation nouvelle", "l' organisation nouvelle", ["new organisation"]) is False


def test_comp_refuses_what_it_cannot_match():
    with pytest.raises(UserError, match="'old house'"):
        comp(["x"], ["x"], [["old house"]])
    with pytest.raises(UserError, match="pairs"):
        comp(["x"], ["x"], [[]])
    with pytest.raises(UserError, match="'stem'"):
        comp(["x"], ["x"], [["new response"]], "stem")
    with pytest.raises(UserError, match=r"2 references.* 1 predictions"):
        comp(["x"], ["x", "y"], [["new response"]])
    with pytest.raises(UserError, match=r"0 pairs.* 1 predictions"):
        comp(["x"], ["x"], [])


def test_comp_as_a_metric(tmp_path):
    inputs = {"predictions": ["une réponse nouvelle"], "references": ["de nouvelles réponses"],
              "pairs": [["new response"]]}  # fmt: skip
    found = {rule: load_metric("comp", rule, cache_dir=str(tmp_path)).compute(**inputs)["comp"]
             for rule in (None, "any_inflection", "same_form")}  # fmt: skip
    assert found == {None: 1.0, "any_inflection": 1.0, "same_form": 0.0}


def test_match_test_is_mcnemar_s():
    """Nine examples gained and one lost: 2 * (1 + 10) / 2^10."""
    first, second = [True] + [False] * 9 + [True] * 30, [False] + [True] * 9 + [True] * 30
    assert mcnemar_test(first, second) == (pytest.approx(8 / 40), pytest.approx(22 / 1024))
    assert mcnemar_test(second, first) == (pytest.approx(-8 / 40), pytest.approx(22 / 1024))
    assert mcnemar_test([True, False], [False, True]) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("benchmark", "config", "split", "setup"),
    [
        ("flores", "ne-en", "test", "flores_into_english"),
        ("flores", "en-ne", "test", "flores_from_english"),
        ("flores", "si-en", "validation", "flores_into_english"),
        ("flores", "en-si", "test_iid", "flores_from_english"),
        ("iwslt14", "de-en", "validation", "iwslt14_validation"),
        ("iwslt14", "de-en", "test", "iwslt14"),
        ("noun_adjective", "modified", "test", "noun_adjective"),
        ("mine", "only", "test", "tokenized"),
    ],
)
def test_what_bleu_is_taken_over(benchmark, config, split, setup):
    assert bleu_setup(benchmark, config, split) == setup


def test_match_test_of_many_examples():
    """Equals the sum of binomials; with very many examples, slow summing would be seen to hang."""
    first, second = [True] * 40 + [False] * 61, [False] * 40 + [True] * 61
    expected = 2 * sum(math.comb(101, count) for count in range(41)) / 2**101
    assert mcnemar_test(first, second).p_value == pytest.approx(expected, rel=1e-12)
    assert mcnemar_test([True] * 9_900 + [False] * 10_100, [False] * 9_900 + [True] * 10_100).p_value > 0.1


def test_permutation_test_of_right_and_wrong_is_mcnemar_s():
    first, second = [1.0] + [0.0] * 9, [0.0] + [1.0] * 9
    exact = permutation_test(first, second)
    assert exact == mcnemar_test(first, second)
    # not all 1,024 assignments: the standard error of 1,000 draws is 0.005
    sampled = permutation_test(first, second, samples=1000, seed=1)
    assert sampled.p_value != exact.p_value
    assert abs(sampled.p_value - exact.p_value) < 0.02
    # never nothing: two of 2^40 assignments are as large, and what was observed counts as drawn
    assert permutation_test([0.0] * 40, [1.0] * 40, samples=50).p_value == pytest.approx(1 / 51)


def test_permutation_test_by_hand():
    """Differences 1, 2, 4: of eight sums of signs only those of all signs alike are as large as 7."""
    assert permutation_test([0, 0, 0], [1, 2, 4]) == (pytest.approx(7 / 3), pytest.approx(2 / 8))
    assert permutation_test([0.1, 0.7], [0.1, 0.7]).p_value == 1


def test_bleu_test_tells_better_from_alike():
    generator = np.random.default_rng(0)
    references = [" ".join(generator.choice(list("abcdefgh"), 9)) for _ in range(60)]
    worse = [text.replace("a", "x").replace("b", "y") for text in references]
    found = bleu_test(worse, references, references, samples=300)
    assert found.difference == pytest.approx(100 - bleu(worse, references)["bleu"])
    assert found.p_value < 0.01
    # half of the differences go each way
    mixed = [ours if row % 2 else theirs for row, (ours, theirs) in enumerate(zip(worse, references, strict=True))]
    other = [theirs if row % 2 else ours for row, (ours, theirs) in enumerate(zip(worse, references, strict=True))]
    assert bleu_test(mixed, other, references, samples=300).p_value > 0.05


@pytest.mark.parametrize("setup", ["tokenized", "detokenized"])
def test_bleu_test_counts_every_exchange(setup):
    """Against corpus BLEU of all 2^7 ways to exchange lines, two of which are equal."""
    generator = np.random.default_rng(3)
    references, first = ([" ".join(generator.choice(list("abc"), 11)) for _ in range(7)] for _ in range(2))
    second = [one if row in (2, 5) else other for row, (one, other) in enumerate(zip(first, references, strict=True))]
    second[0] = second[0][::-1]

    def difference(swaps):
        sides = [(two, one) if swap else (one, two) for swap, one, two in zip(swaps, first, second, strict=True)]
        before, after = (bleu(list(texts), references, setup)["bleu"] for texts in zip(*sides, strict=True))
        return after - before

    found = bleu_test(first, second, references, setup)
    observed = difference([0] * 7)
    assert found.difference == pytest.approx(observed)
    as_large = [abs(difference(swaps)) >= abs(observed) - 1e-9 for swaps in itertools.product((0, 1), repeat=7)]
    assert found.p_value == pytest.approx(sum(as_large) / 2**7)
    assert 0 < found.p_value < 1
    # sampled, with a standard error below 0.02
    assert abs(bleu_test(first, second, references, setup, samples=31).p_value - found.p_value) < 0.3


def test_bleu_test_of_equal_models_and_of_one_example():
    texts = ["a b c d e", "a b c d d", "e d c b a"] * 9
    assert bleu_test(texts, texts, texts[::-1]) == (0, 1)
    assert bleu_test(["a b c d"], ["a b c d e"], ["a b c d e"]).p_value == 1


def written_run(folder, predictions, benchmark="flores", config="en-ne", **columns):
    """A run's folder with one split."""
    record = made_record(recipe_values={"data.benchmark": benchmark, "data.config": config})
    write_record(folder / "results.json", record)
    rows = [
        {"split": "test", "row": row, "input": f"s {row}", "target": REFERENCES[row % 3], "prediction": text,
         "exact": text == REFERENCES[row % 3], "loss": len(text), **{name: column[row] for name, column in
                                                                    columns.items()}}
        for row, text in enumerate(predictions)
    ]  # fmt: skip
    write_predictions(
        folder / "predictions.jsonl", made_rows([{"split": "validation", "prediction": "", "exact": False}, *rows])
    )
    return folder


def test_two_runs_are_compared_by_their_predictions(tmp_path):
    first, second = written_run(tmp_path / "a", PREDICTIONS * 4), written_run(tmp_path / "b", REFERENCES * 4)
    assert runs_test(first, second) == mcnemar_test([False, False, True] * 4, [True] * 12)
    assert runs_test(first / "predictions.jsonl", second / "predictions.jsonl") == runs_test(first, second)
    with pytest.raises(UserError, match=r"b/results\.json: give a run's folder"):
        runs_test(first, second / "results.json")
    found = runs_test(first, second, "bleu")
    assert found == bleu_test(PREDICTIONS * 4, REFERENCES * 4, REFERENCES * 4, "flores_from_english")
    assert found.difference > 10
    lengths = [[float(len(text)) for text in texts * 4] for texts in (PREDICTIONS, REFERENCES)]
    assert runs_test(str(first), second, "loss") == permutation_test(*lengths)
    with pytest.raises(UserError, match="have no 'pairs', which comp needs"):
        runs_test(first, second, "comp")
    with pytest.raises(UserError, match=r"a/predictions\.jsonl.*'tset'"):
        runs_test(first, second, split="tset")
    with pytest.raises(UserError, match="cannot read results"):
        runs_test(first, tmp_path / "absent")
    # lines in another order are of the same examples
    path = second / "predictions.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(reversed(lines)))
    assert runs_test(first, second, "bleu") == found
    # a line that is there twice is no further example
    path.write_text("".join([*lines, lines[5]]))
    with pytest.raises(UserError, match=rf"line {len(lines) + 1}: row 4 of test is in line 6"):
        runs_test(first, second)
    with pytest.raises(UserError, match=r"flores en-ne.*flores ne-en"):
        runs_test(first, written_run(tmp_path / "c", REFERENCES, config="ne-en"))
    with pytest.raises(UserError, match="have other examples in test"):
        runs_test(first, written_run(tmp_path / "d", REFERENCES))
    (tmp_path / "d" / "predictions.jsonl").write_text('{"split": ')
    with pytest.raises(UserError, match="line 1"):
        runs_test(first, tmp_path / "d")


def test_runs_of_other_tasks_are_compared_or_refused(tmp_path):
    """Labels of a graph are no text, and text that is only read has no target."""
    labels = [{"role": ["a"]}, {"role": ["b"]}]
    graphs = [written_run(tmp_path / name, ["x", "y"], prediction=labels) for name in ("a", "b")]
    with pytest.raises(UserError, match="bleu"):
        runs_test(*graphs, "bleu")
    with pytest.raises(UserError, match=r"test.*'prediction'"):
        runs_test(*graphs, "prediction")
    for folder, nats in zip(graphs, (3.0, 1.0), strict=True):
        rows = [{"split": "validation", "row": row, "input": f"s {row}", "nats": nats + row} for row in range(3)]
        rows = [{**row, "correct": 1, "tokens": 2} for row in rows]
        write_predictions(folder / "predictions.jsonl", made_rows(rows))
    assert runs_test(*graphs, "nats", "validation") == (-2.0, 0.25)
    with pytest.raises(UserError, match=r"'exact'.*accuracy"):
        runs_test(*graphs, split="validation")


def test_two_runs_are_compared_by_comp(tmp_path):
    """Of twelve examples nine are gained and none is lost: 2 / 2^9."""
    pairs = [["new response"]] * 12
    texts = ["une nouvelle réponse"] * 3 + ["une réponse"] * 9
    first = written_run(tmp_path / "a", texts, "noun_adjective", "modified", pairs=pairs)
    second = written_run(tmp_path / "b", texts[:3] * 4, "noun_adjective", "modified", pairs=pairs)
    assert runs_test(first, second, "comp") == (0.75, pytest.approx(2 / 512))


def test_right_where_the_other_is_wrong(tmp_path):
    """Section 7 of Chaabouni et al.: of what one model has wrong, the share that the other has right."""
    texts = ["une nouvelle réponse", "une réponse"]
    pairs = [["new response"]] * 8
    first = written_run(tmp_path / "a", texts[:1] * 5 + texts[1:] * 3, "noun_adjective", "modified", pairs=pairs)
    second = written_run(tmp_path / "b", texts[1:] * 2 + texts[:1] * 4 + texts[1:] * 2, "noun_adjective", "modified",
                         pairs=pairs)  # fmt: skip
    hits = runs_hits(first, second, "comp")
    assert hits == ([True] * 5 + [False] * 3, [False] * 2 + [True] * 4 + [False] * 2)
    assert right_where_wrong(*hits) == 2 / 4
    assert right_where_wrong(*reversed(hits)) == 1 / 3
    assert math.isnan(right_where_wrong([True], [True]))
    done = CliRunner().invoke(app, ["score", str(first), "--against", str(second), "--metric", "comp"])
    assert done.exit_code == 0, done.output
    assert "-0.1250" in done.stdout
    assert "0.5000" in done.stdout
    assert "0.3333" in done.stdout
    done = CliRunner().invoke(app, ["score", str(first), "--against", str(second), "--setup", "iwslt14"])
    assert done.exit_code == 2


def test_what_no_test_can_do():
    for test in (mcnemar_test, permutation_test):
        with pytest.raises(UserError, match=r"^1\b.*\b2\b"):
            test([1, 0], [1])
        with pytest.raises(UserError, match=r"^no "):
            test([], [])
    with pytest.raises(UserError, match=r"^2\b.*\b1\b"):
        bleu_test(["a"], ["a"], ["a", "b"])
    with pytest.raises(UserError, match="a score is nan"):
        permutation_test([1.0, 2.0, 3.0], [1.1, math.nan, 2.0])
    with pytest.raises(UserError, match="a score is -inf"):
        permutation_test([1.0, -math.inf, 3.0], [1.1, 2.0, 2.0])
