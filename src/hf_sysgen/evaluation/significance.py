"""Whether one model is better than another: tests over examples, and over seeds.

Chaabouni et al. 2021 mark what "stat. sig. improves over Transformer" in Tables 5, 7 and 8, with p < 10^-3 and p <
0.05, and do not name the test. Of the means and standard errors that they print, no unpaired test over seeds gives p <
10^-3 for English-Sinhala (2.54 +- 0.03 against 2.32 +- 0.08: two-sided p = 0.01 even of the normal distribution).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from hf_sysgen.evaluation.bleu import setup_of
from hf_sysgen.evaluation.sequences import MetricError


class Significance(NamedTuple):
    """
    A test's outcome.

    Attributes:
        difference: mean of the second model minus mean of the first one; of `bleu_test` of the corpus scores.
        p_value: two-sided: how often a difference at least as large comes where there is none.
    """

    difference: float
    p_value: float


def match_test(first: Sequence[bool], second: Sequence[bool]) -> Significance:
    """
    McNemar's exact test of two models on the same examples (accuracy, COMP): where just one of them is right, either is
    it with probability 1/2.

    Args:
        first, second: whether each example is right.

    Raises:
        MetricError: there are no examples, or not as many on both sides.
    """
    _paired(first, second)
    gained = sum(1 for before, after in zip(first, second, strict=True) if after and not before)
    lost = sum(1 for before, after in zip(first, second, strict=True) if before and not after)
    discordant = gained + lost
    tail = sum(math.comb(discordant, count) for count in range(min(gained, lost) + 1))
    return Significance((gained - lost) / len(first), min(1.0, 2 * tail / 2**discordant))


def permutation_test(
    first: Sequence[float], second: Sequence[float], samples: int = 10_000, seed: int = 0
) -> Significance:
    """
    Paired permutation test of the mean of any score by example: where the models are alike, each difference has either
    sign. Exact where all assignments of signs are at most `samples`, else over that many random ones.

    Raises:
        MetricError: there are no examples, or not as many on both sides.
    """
    import numpy as np

    _paired(first, second)
    differences = np.asarray(second, np.float64) - np.asarray(first, np.float64)
    varying = differences[differences != 0]
    observed = abs(differences.sum())
    # rounding must not decide whether a permutation is as large as what was observed
    limit = observed - 1e-9 * np.abs(differences).sum()
    if 2 ** len(varying) <= samples:
        bits = np.arange(2 ** len(varying))[:, None] >> np.arange(len(varying)) & 1
        p_value = float(np.mean(np.abs((1 - 2 * bits) @ varying) >= limit))
    else:
        generator = np.random.default_rng(seed)
        as_large = sum(
            int(abs((1 - 2 * generator.integers(0, 2, len(varying))) @ varying) >= limit) for _ in range(samples)
        )
        # what was observed is one of the permutations
        p_value = (as_large + 1) / (samples + 1)
    return Significance(float(differences.mean()), p_value)


def bleu_test(
    first: Sequence[str],
    second: Sequence[str],
    references: Sequence[str],
    setup: str = "tokenized",
    samples: int = 10_000,
) -> Significance:
    """
    Approximate randomization of BLEU (Riezler & Maxwell 2005), sacrebleu's: predictions of the two models change sides
    at random.

    Args:
        first, second: predictions on the same examples.
        references, setup: see `hf_sysgen.evaluation.bleu.bleu`.
        samples: random exchanges.

    Raises:
        MetricError: there are no examples, or not as many on both sides; DataError: a library is not installed.
    """
    _paired(first, second)
    _paired(first, references)
    chosen = setup_of(setup)
    metric = chosen.metric()
    from sacrebleu.significance import PairedTest

    systems: Any = [("first", chosen.prepare(first)), ("second", chosen.prepare(second))]
    test: Any = PairedTest(systems, {"BLEU": metric}, [chosen.prepare(references)], test_type="ar", n_samples=samples)
    before, after = test()[1]["BLEU"]
    return Significance(after.score - before.score, float(after.p_value))


def seeds_test(first: Sequence[float], second: Sequence[float], paired: bool = False) -> Significance:
    """
    Student's t-test of scores by seed (the extra `metrics`): Welch's, which lets the variances differ.

    Args:
        first, second: one score for each run.
        paired: whether runs belong together, as of one seed. Their difference is tested then.

    Raises:
        MetricError: fewer than two runs on a side, paired runs that are not as many, or scipy is not installed.
    """
    if min(len(first), len(second)) < 2:
        raise MetricError(f"{len(first)} and {len(second)} runs: a test over seeds needs at least two on each side")
    if paired:
        _paired(first, second)
    try:
        from scipy import stats
    except ImportError as error:
        raise MetricError("this needs scipy, which is not installed: pip install 'hf-sysgen[metrics]'") from error
    difference = math.fsum(second) / len(second) - math.fsum(first) / len(first)
    outcome = stats.ttest_rel(second, first) if paired else stats.ttest_ind(second, first, equal_var=False)
    return Significance(difference, float(outcome.pvalue))


def _paired(first: Sequence, second: Sequence) -> None:
    if len(first) != len(second) or not len(first):
        raise MetricError(f"{len(first)} and {len(second)} examples: a paired test needs the same ones, at least one")
