"""Tests of whether one model is better than another, over examples.

Chaabouni et al. 2021 mark what "stat. sig. improves over Transformer" in Tables 5, 7 and 8, with p < 10^-3 and p <
0.05, and do not name the test. With their means and standard errors, no unpaired test over seeds gives p < 10^-3 for
English-Sinhala: for 2.54 +- 0.03 against 2.32 +- 0.08, even the normal distribution gives two-sided p = 0.01.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hf_sysgen.errors import UserError
from hf_sysgen.evaluation.metrics.bleu import bleu_setup, setup_of
from hf_sysgen.evaluation.metrics.comp import comp_hits
from hf_sysgen.evaluation.metrics.sequences import check_paired
from hf_sysgen.results.predictions import Row, column, read_predictions, texts
from hf_sysgen.results.reading import read_record
from hf_sysgen.results.record import PREDICTIONS, RESULTS
from hf_sysgen.tables import table

# metrics for which an example is right or wrong
MATCHED = ("accuracy", "comp")


class Significance(NamedTuple):
    """
    The outcome of a test.

    Attributes:
        difference: mean of the second model minus mean of the first; for `bleu_test` of the corpus scores.
        p_value: two-sided: probability of a difference at least as large if the models are equal.
    """

    difference: float
    p_value: float


def mcnemar_test(first: Sequence[bool], second: Sequence[bool]) -> Significance:
    """
    McNemar's exact test of two models on the same examples (accuracy, COMP). Under the null hypothesis, if only one
    model is right, it is each of the two with probability 1/2.

    Args:
        first, second: whether each example is right.

    Raises:
        UserError: there are no examples, or not as many on both sides.
    """
    check_paired(first, second, "results of the second model")
    gained = sum(1 for before, after in zip(first, second, strict=True) if after and not before)
    lost = sum(1 for before, after in zip(first, second, strict=True) if before and not after)
    from scipy.stats import binomtest

    p_value = float(binomtest(gained, gained + lost).pvalue) if gained + lost else 1.0
    return Significance((gained - lost) / len(first), p_value)


def permutation_test(
    first: Sequence[float], second: Sequence[float], samples: int = 10_000, seed: int = 0
) -> Significance:
    """
    Paired permutation test of the mean of any score per example. Under the null hypothesis, each difference has either
    sign. Exact if there are at most `samples` assignments of signs, otherwise over that many random ones.

    Raises:
        UserError: there are no examples, or not as many on both sides, or a score is not finite.
    """
    check_paired(first, second, "results of the second model")
    _finite(first, second)
    differences = np.asarray(second, np.float64) - np.asarray(first, np.float64)
    varying = differences[differences != 0]
    p_value = share_as_large(
        len(varying), lambda swaps: (1 - 2 * swaps) @ varying, 1e-9 * float(np.abs(varying).sum()), samples, seed
    )
    return Significance(float(differences.mean()), p_value)


def share_as_large(
    count: int, difference: Callable[[np.ndarray], float], rounding: float, samples: int, seed: int
) -> float:
    """
    The p-value of a paired test: of the ways to exchange the results of the two models on some examples, the share with
    at least the difference that was observed, whatever its sign. Exact if there are at most `samples` ways, otherwise
    over that many random ones and the one that was observed.

    Args:
        count: N, examples on which the models differ.
        difference: the difference if the examples that are 1 in (N,) are exchanged.
        rounding: what rounding may add to a difference; it must not decide.
    """
    limit = abs(difference(np.zeros(count, np.int64))) - rounding
    if 2**count <= samples:
        ways = np.arange(2**count)[:, None] >> np.arange(count) & 1
        return float(np.mean([abs(difference(swaps)) >= limit for swaps in ways]))
    generator = np.random.default_rng(seed)
    hits = sum(abs(difference(generator.integers(0, 2, count))) >= limit for _ in range(samples))
    return float((hits + 1) / (samples + 1))


def bleu_test(
    first: Sequence[str],
    second: Sequence[str],
    references: Sequence[str],
    setup: str = "tokenized",
    samples: int = 10_000,
    seed: int = 0,
) -> Significance:
    """
    Randomization test of BLEU (Riezler & Maxwell 2005): predictions of the two models change sides. sacrebleu's own
    counts only differences larger than the observed one, so that two equal models have p = 1 / (samples + 1).

    Args:
        first, second: predictions on the same examples.
        references, setup: see `hf_sysgen.evaluation.metrics.bleu.bleu`.
        samples, seed: see [`share_as_large`].

    Raises:
        UserError: there are no examples, or not as many on both sides; DataError: a library is not installed.
    """
    check_paired(first, second, "results of the second model")
    check_paired(first, references)
    chosen = setup_of(setup)
    metric, wanted = chosen.metric(), chosen.prepare(references)

    def counts(texts: Sequence[str]) -> np.ndarray:
        """Right and all n-grams of 1 to 4 words, and both lengths, of each text (N, 10)."""
        found = [metric.corpus_score([text], [[one]]) for text, one in zip(chosen.prepare(texts), wanted, strict=True)]
        return np.array([[*one.counts, *one.totals, one.sys_len, one.ref_len] for one in found])

    def score(summed: np.ndarray) -> float:
        *ngrams, length, wanted_length = summed.tolist()
        return metric.compute_bleu(
            ngrams[:4], ngrams[4:], length, wanted_length, metric.smooth_method, metric.smooth_value
        ).score  # fmt: skip

    before, after = counts(first), counts(second)
    both, start = (before + after).sum(0), before.sum(0)
    varying = (after - before)[(before != after).any(1)]

    def difference(swaps: np.ndarray) -> float:
        moved = start + swaps @ varying
        return score(both - moved) - score(moved)

    p_value = share_as_large(len(varying), difference, 1e-9, samples, seed)
    return Significance(score(after.sum(0)) - score(start), p_value)


def runs_test(first: str | Path, second: str | Path, metric: str = "accuracy", split: str = "test") -> Significance:
    """
    Whether the second of two runs is better on a split, paired by example, from the files in their folders.

    For the paper's Table 8, of two seeds:

        runs_test("runs/noun_adjective_transformer/seed0", "runs/noun_adjective_sag_t5/seed0", metric="comp")

    Args:
        first, second: folders with `results.json` and `predictions.jsonl`, of one benchmark and config.
        metric: `accuracy` or `comp`, by `mcnemar_test`; `bleu`, by `bleu_test` in the benchmark's setup; or a number
            per example, such as `loss`, by `permutation_test`.

    Raises:
        UserError: the runs are not of the same examples, or these have no such metric; a folder holds no
            finished run.
    """
    if metric in MATCHED:
        return mcnemar_test(*runs_hits(first, second, metric, split))
    names, before, after = _predictions(first, second, split)
    if metric == "bleu":
        (old, references), (new, _) = (texts(rows, metric) for rows in (before, after))
        return bleu_test(old, new, references, setup=bleu_setup(*names, split))
    scores = column(before, metric), column(after, metric)
    if not all(isinstance(value, int | float) for values in scores for value in values):
        raise UserError(f"predictions of {split} have no number {metric!r}; use e.g. loss")
    return permutation_test(*scores)


def runs_hits(
    first: str | Path, second: str | Path, metric: str = "accuracy", split: str = "test"
) -> tuple[list[bool], list[bool]]:
    """
    Whether each example of a split is right, in two runs.

    Args:
        first, second, split: as in [`runs_test`].
        metric: `accuracy` or `comp`.

    Raises:
        as [`runs_test`].
    """
    _, before, after = _predictions(first, second, split)
    if metric == "accuracy":
        return column(before, "exact", metric), column(after, "exact", metric)
    (old, references), (new, _) = (texts(rows, metric) for rows in (before, after))
    pairs = column(before, "pairs", metric)
    return comp_hits(old, references, pairs), comp_hits(new, references, pairs)


def right_where_wrong(one: Sequence[bool], other: Sequence[bool]) -> float:
    """
    Chaabouni et al. 2021, section 7: of the examples that the other model gets wrong, the share that this one gets
    right; NaN if there are none.
    """
    hits = [hit for hit, known in zip(one, other, strict=True) if not known]
    return sum(hits) / len(hits) if hits else math.nan


def compare_runs(first: str | Path, second: str | Path, metric: str = "accuracy", split: str = "test") -> str:
    """
    What `hf-sysgen score FIRST --against SECOND` prints: both runs, their difference and its p-value; for `accuracy`
    and `comp` also how often one is right where the other is wrong.

    Args, raises: as [`runs_test`].
    """
    hits = runs_hits(first, second, metric, split) if metric in MATCHED else None
    found = runs_test(first, second, metric, split) if hits is None else mcnemar_test(*hits)
    rows = [(f"{metric}, {second} minus {first}", f"{found.difference:+.4f}"), ("p-value", f"{found.p_value:.2g}")]
    if hits is not None:
        names = (str(first), str(second))
        for one, other in ((0, 1), (1, 0)):
            share = right_where_wrong(hits[one], hits[other])
            rows.append((f"{names[one]} right where {names[other]} is wrong", f"{share:.4f}"))
    return table((split, ""), rows)


def _predictions(first: str | Path, second: str | Path, split: str) -> tuple[tuple[str, str], list[Row], list[Row]]:
    """Benchmark and config, and the rows of both runs, for the same examples."""
    folders = [Path(run).parent if Path(run).name == PREDICTIONS else Path(run) for run in (first, second)]
    for folder in folders:
        if folder.is_file():
            raise UserError(f"{folder}: give a run's folder, or its {PREDICTIONS}")
    data = [read_record(folder / RESULTS).recipe.data for folder in folders]
    names = [(one.benchmark, one.config) for one in data]
    if names[0] != names[1]:
        raise UserError(f"{first} is of {' '.join(names[0])}, {second} of {' '.join(names[1])}: compare like with like")
    before, after = (
        sorted(read_predictions(folder / PREDICTIONS, split), key=lambda row: row.row) for folder in folders
    )
    if _examples(before) != _examples(after):
        raise UserError(f"{first} and {second} have other examples in {split}: a paired test needs the same ones")
    return names[0], before, after


def _examples(rows: Sequence[Row]) -> list[tuple[Any, Any]]:
    # predictions without targets are not text
    return [(row.input, getattr(row, "target", None)) for row in rows]


def _finite(*scores: Sequence[float]) -> None:
    if wrong := [value for some in scores for value in some if not math.isfinite(value)]:
        raise UserError(f"a score is {wrong[0]}: a test needs finite ones; leave out the run that diverged")
