"""Analyses of Csordas et al. 2021, from results records: Figures 1 to 6, Tables 8 and 9.

Formulas are those of the authors' scripts (`paper/` of their code); with `as_worded`, those of the paper's text, where
it differs.
"""

from __future__ import annotations

import bisect
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from hf_sysgen.analysis import FIRST_STEP, PATIENCE, SHARE
from hf_sysgen.errors import UserError
from hf_sysgen.results.cells import PRECISION, by_cell
from hf_sysgen.results.evaluations import Evaluation
from hf_sysgen.results.record import Record
from hf_sysgen.tables import counted

# step and logged number
Curve = list[tuple[int, float]]

# a model with absolute positions, and the same with relative ones
PAIRS = (
    ("sysgen_transformer", "relative_transformer"),
    ("universal_transformer", "relative_universal_transformer"),
)
# Table 8's IID split, if it is not `validation` (plot_big_result_table_iid.py: "interpolate")
IID = {"mathematics": "test_iid"}
MODELS = tuple(model for pair in zip(*PAIRS, strict=True) for model in pair)


def curve(record: Record, split: str, metric: str) -> Curve:
    """
    The metric on a split at each evaluation of a run.

    Raises:
        UserError: nothing was.
    """
    found = record.curve(split, metric)
    if not found:
        raise UserError(
            f"{record.title}: no {metric} of {split} during training; set training.eval_steps, on a benchmark "
            f"with that split (it has: {', '.join(record.splits) or 'none'})"
        )
    return found


def mean_curve(curves: Sequence[Curve]) -> list[tuple[int, float, float]]:
    """(step, mean, standard deviation with n - 1, 0 for a single run) at the steps that all curves have."""
    values = [dict(one) for one in curves]
    steps = sorted(set.intersection(*(set(one) for one in values)))
    columns = [[one[step] for one in values] for step in steps]
    return [(step, statistics.fmean(ys), spread(ys)) for step, ys in zip(steps, columns, strict=True)]


def spread(values: Sequence[float]) -> float:
    """Standard deviation with n - 1 (lib/stat_tracker.py:28-33); 0 for a single run."""
    return statistics.stdev(values) if len(values) > 1 else 0.0


def stopping_step(losses: Curve, patience: int = PATIENCE, as_worded: bool = False) -> int:
    """
    Figure 1: the step whose weights early stopping would have kept (plot_cogs_early_stopping.py:32-44): the first
    evaluation at which the loss has not improved for `patience` steps, minus `patience`; if there is none, the last
    one minus `patience`. Only a smaller loss is an improvement (task.py:153-159).

    Args:
        losses: on the validation split, free-running.
        patience: in steps.
        as_worded: the step of the best loss so far, also if training ends first.

    Raises:
        UserError: the run is shorter than the patience.
    """
    best_step, ended = best_and_end(losses, patience)
    if as_worded:
        return best_step
    if losses[-1][0] < patience:
        raise UserError(f"{losses[-1][0]:,} updates are fewer than the patience of {patience:,}; give a smaller one")
    return (losses[-1][0] if ended is None else ended) - patience


def best_and_end(losses: Curve, patience: int) -> tuple[int, int | None]:
    """The step of the best loss before the patience ended, and the step at which it ended, or None if it never did."""
    best_step, best = losses[0]
    for step, loss in losses:
        if loss < best:
            best_step, best = step, loss
        if step - best_step >= patience:
            return best_step, step
    return best_step, None


def at(points: Curve, step: float) -> float:
    """The last number logged up to a step; for earlier steps the first number."""
    place = bisect.bisect_right([logged for logged, _ in points], step)
    return points[max(0, place - 1)][1]


@dataclass(frozen=True)
class Stopping:
    """
    Figure 1 of a cell.

    Attributes:
        accuracies: [`mean_curve`] of the generalization accuracy.
        step: median over runs of [`stopping_step`].
        stopped, final: mean over runs of the generalization accuracy at the run's own stopping step, and at the end.
        unstopped: number of runs whose training ended before the patience did.
    """

    accuracies: list[tuple[int, float, float]]
    step: float
    stopped: float
    final: float
    unstopped: int


def early_stopping(
    records: Sequence[Record], patience: int = PATIENCE, as_worded: bool = False, split: str = "test"
) -> Stopping:
    """What early stopping would choose in the runs of a cell. Raises UserError: see `curve`."""
    accuracies = [curve(record, split, "accuracy") for record in records]
    losses = [curve(record, "validation", "loss") for record in records]
    steps = [stopping_step(one, patience, as_worded) for one in losses]
    return Stopping(
        mean_curve(accuracies),
        statistics.median(steps),
        statistics.fmean(at(points, step) for points, step in zip(accuracies, steps, strict=True)),
        statistics.fmean(points[-1][1] for points in accuracies),
        sum(best_and_end(one, patience)[1] is None for one in losses),
    )


def loss_against_accuracy(
    records: Sequence[Record], loss_split: str, accuracy_split: str, first_step: int = FIRST_STEP
) -> list[tuple[float, float, int]]:
    """
    Figures 2 and 4: (loss, accuracy, step) of all evaluations of all runs from `first_step` on
    (plot_loss_accuracy.py:54-59). Raises UserError: see `curve`.
    """
    points = []
    for record in records:
        losses = dict(curve(record, loss_split, "loss"))
        points += [
            (losses[step], accuracy, step)
            for step, accuracy in curve(record, accuracy_split, "accuracy")
            if step >= first_step and step in losses
        ]
    if not points:
        raise UserError(f"no evaluation from step {first_step} on; give an earlier --first-step")
    return points


@dataclass(frozen=True)
class Decomposition:
    """
    Figure 5.

    Attributes:
        steps: of the evaluations.
        good, bad, all: mean loss at each step over the examples that are right at any evaluation, over the others, and
            over all; NaN if there are none.
        good_counts, bad_counts: histograms of these losses at the first and at the last evaluation.
        edges: of their bins.
        num_good: number of good examples.
    """

    steps: list[int]
    good: list[float]
    bad: list[float]
    all: list[float]
    good_counts: tuple[list[int], list[int]]
    bad_counts: tuple[list[int], list[int]]
    edges: list[float]
    num_good: int


def decompose(evaluations: Sequence[Evaluation], bins: int = 40, largest: float = 15.0) -> Decomposition:
    """
    Figure 5 of one run (plot_loss_analysis.py:23-53): losses of good and bad examples. Losses above the largest bin are
    not counted, as in the authors' histograms.
    """
    import numpy as np

    is_good = [any(hits) for hits in zip(*(one.exact for one in evaluations), strict=True)]

    def part(evaluation: Evaluation, good: bool) -> list[float]:
        return [loss for loss, kind in zip(evaluation.losses, is_good, strict=True) if kind == good]

    ends = (evaluations[0], evaluations[-1])
    counts = {
        good: tuple(np.histogram(part(evaluation, good), bins, (0, largest))[0].tolist() for evaluation in ends)
        for good in (True, False)
    }
    return Decomposition(
        [one.step for one in evaluations],
        [mean(part(one, True)) for one in evaluations],
        [mean(part(one, False)) for one in evaluations],
        [mean(one.losses) for one in evaluations],
        counts[True],  # type: ignore[arg-type]
        counts[False],  # type: ignore[arg-type]
        [largest * index / bins for index in range(bins + 1)],
        sum(is_good),
    )


def mean(values: Sequence[float]) -> float:
    """The mean; NaN for an empty sequence."""
    return statistics.fmean(values) if values else math.nan


def steps_to_share(accuracies: Curve, share: float = SHARE, as_worded: bool = False) -> float | None:
    """
    Figure 6: the step at which a run first has `share` of its best accuracy (plot_relatrafo_convergece.py:32-52),
    interpolated linearly between evaluations. If a run has it at its first evaluation, that step counts; the authors'
    code interpolates there with the last evaluation, which makes no sense.

    Args:
        accuracies: accuracies on a split.
        as_worded: `share` of the final accuracy.

    Returns:
        steps; `None` if the accuracy is always 0.
    """
    goal = share * (accuracies[-1][1] if as_worded else max(accuracy for _, accuracy in accuracies))
    if goal <= 0:
        return None
    before: tuple[int, float] | None = None
    for step, accuracy in accuracies:
        if accuracy >= goal:
            if before is None:
                return float(step)
            return before[0] + (step - before[0]) * (goal - before[1]) / (accuracy - before[1])
        before = (step, accuracy)
    return None


@dataclass(frozen=True)
class Converged:
    """
    A model in Figure 6.

    Attributes:
        accuracies: [`mean_curve`] of all its runs.
        steps: number of updates that they need for the share.
        runs: number of runs that reach it.
    """

    accuracies: list[tuple[int, float, float]]
    steps: float
    runs: int


def convergence(
    records: Sequence[Record], share: float = SHARE, as_worded: bool = False, split: str = "test"
) -> dict[tuple[str, int], dict[str, Converged]]:
    """
    Figure 6: how many updates models with absolute and with relative positions need
    (plot_relatrafo_convergece.py:56-67,80-83). Steps are the median over the runs of a cell, in any precision
    (`as_worded`: the mean), and the minimum over a model's cells, which differ in embedding scaling. The authors leave
    out token embedding upscaling on PCFG SET, and the relative Transformer on place_value (`as_worded`: with them).
    Only runs of one length are compared, as the learning rate may depend on it.

    Returns:
        (benchmark and config, `training.max_steps`) -> model -> its steps, where both models of a pair have runs.

    Raises:
        UserError: there is no such pair, or see `curve`.
    """
    found: dict[tuple[str, int], dict[str, Converged]] = {}
    never = 0
    for runs in by_cell((one for one in records if converges(one, as_worded)), PRECISION):
        recipe = runs[0].recipe
        curves = [curve(record, split, "accuracy") for record in runs]
        reached = [step for one in curves if (step := steps_to_share(one, share, as_worded)) is not None]
        never += len(curves) - len(reached)
        if reached:
            steps = statistics.fmean(reached) if as_worded else statistics.median(reached)
            models = found.setdefault((benchmark_of(runs[0]), recipe.training.max_steps), {})
            if recipe.model.type not in models or steps < models[recipe.model.type].steps:
                models[recipe.model.type] = Converged(mean_curve(curves), steps, len(reached))
    paired = {key: models for key, models in found.items() if speedups(models)}
    if not paired:
        some = f" ({counted(never, 'run')} left out, whose accuracy on {split} is 0)" if never else ""
        raise UserError(
            "no benchmark has runs of a model with absolute positions and runs as long of the same with relative ones: "
            + ", or ".join(" and ".join(pair) for pair in PAIRS)
            + some
        )
    return paired


def converges(record: Record, as_worded: bool) -> bool:
    """Whether a run counts in Figure 6."""
    recipe = record.recipe
    upscaled = recipe.data.benchmark == "pcfg_set" and recipe.model.fields.get("embedding_scaling") == "teu"
    relative = recipe.data.config == "numbers__place_value" and recipe.model.type == "relative_transformer"
    return recipe.model.type in MODELS and (as_worded or not (upscaled or relative))


def speedups(models: Mapping[str, Converged]) -> dict[str, float]:
    """Relative model -> steps of the absolute one divided by its own, for pairs in which both have runs."""
    return {
        relative: models[absolute].steps / models[relative].steps
        for absolute, relative in PAIRS
        if absolute in models and relative in models
    }


def choices(records: Iterable[Record], place: Callable[[Record], tuple[object, ...] | None], why: str) -> list[str]:
    """
    A line on each place of a table that several setups of a model have runs for, but shows one.

    Args:
        place: the place of a run, None if it has none.
        why: why that one is shown.
    """
    found: dict[tuple[object, ...], list[str]] = {}
    for runs in by_cell(records, PRECISION):
        if (key := place(runs[0])) is not None:
            found.setdefault(key, []).append(runs[0].name_without(PRECISION))
    return [
        f"{', '.join(map(str, key))}: {len(names)} setups, shown is the one {why}: {'; '.join(names)}"
        for key, names in found.items()
        if len(names) > 1
    ]


def benchmark_of(record: Record) -> str:
    """The name of a row in the paper's tables."""
    return f"{record.recipe.data.benchmark} {record.recipe.data.config}"


def accuracies(records: Sequence[Record], split: str) -> list[float]:
    """The accuracies of the final weights, on all examples of a split. Raises UserError: a run has none."""
    for record in records:
        if split not in record.splits or record.splits[split].accuracy is None:
            raise UserError(f"{record.title}: no accuracy of {split}")
    return [record.splits[split].accuracy or 0.0 for record in records]


def iid_table(records: Sequence[Record]) -> list[tuple[str, dict[str, tuple[float, float, float]]]]:
    """
    Table 8: for each benchmark with a split drawn like train (see `IID`), model -> mean and standard deviation of its
    accuracy there (NaN of a single run), and the mean on the generalization split. Runs of a cell count in any
    precision. Of a model's cells, e.g. of several embedding scalings, the one that is best on the generalization split
    is taken (plot_big_result_table_iid.py:57-60).
    """
    rows: dict[str, dict[str, tuple[float, float, float]]] = {}
    for runs in by_cell(filter(has_iid, records), PRECISION):
        row = rows.setdefault(benchmark_of(runs[0]), {})
        iid, general = accuracies(runs, _iid(runs[0])), statistics.fmean(accuracies(runs, "test"))
        model = runs[0].recipe.model.type
        if model not in row or general > row[model][2]:
            row[model] = (*_mean_and_spread(iid), general)
    if not rows:
        raise UserError("no run has both splits, validation (of mathematics: test_iid) and test")
    return list(rows.items())


def _mean_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation, NaN of a single run."""
    return statistics.fmean(values), spread(values) if len(values) > 1 else math.nan


def has_iid(record: Record) -> bool:
    """Whether a run was judged on both splits of Table 8."""
    return {_iid(record), "test"} <= set(record.splits)


def _iid(record: Record) -> str:
    return IID.get(record.recipe.data.benchmark, "validation")


@dataclass(frozen=True)
class BatchRow:
    """A row of Table 9, for a benchmark and model: (batch size, mean accuracy, standard deviation or NaN of a single
    run) of the large and the small batch."""

    big: tuple[int, float, float]
    small: tuple[int, float, float]

    @property
    def ratio(self) -> float:
        """Accuracy with the small batch over that with the large batch; NaN if the latter is 0."""
        return self.small[1] / self.big[1] if self.big[1] else math.nan


def batch_table(records: Sequence[Record]) -> dict[tuple[str, int], dict[str, BatchRow]]:
    """
    Table 9: for each benchmark and number of updates, model -> the final accuracy (plot_small_batch.py:25-32) with its
    largest and its smallest batch; of cells with the same batch, the better one. Runs of a cell count in any precision.

    Raises:
        UserError: no model was trained with two batch sizes for equally many updates.
    """
    found: dict[tuple[str, int], dict[str, dict[int, tuple[int, float, float]]]] = {}
    for runs in by_cell(records, PRECISION):
        recipe, values = runs[0].recipe, accuracies(runs, "test")
        if recipe.batches.sampling == "max_tokens":
            continue
        size = recipe.batches.size
        row = (size, *_mean_and_spread(values))
        models = found.setdefault((benchmark_of(runs[0]), recipe.training.max_steps), {})
        sizes = models.setdefault(recipe.model.type, {})
        sizes[size] = max(row, sizes.get(size, row), key=lambda one: one[1])
    table = {
        key: {
            model: BatchRow(sizes[max(sizes)], sizes[min(sizes)]) for model, sizes in models.items() if len(sizes) > 1
        }
        for key, models in found.items()
    }
    if not any(table.values()):
        raise UserError("no model has runs with two batch sizes and the same training.max_steps")
    return table
