"""Analyses of Petty et al. 2023, from results records and checkpoints: Figures 2 to 7, 9 and 10.

A size class is the models of one width, as in the paper (Table 1). Its name is its number of parameters, with its width
if two classes would have the same name.
"""

from __future__ import annotations

import math
import os
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from safetensors import SafetensorError, safe_open

from hf_sysgen.analysis.csordas2021 import Curve, benchmark_of, curve
from hf_sysgen.config.fields import effect_of
from hf_sysgen.data.cogs.files import STRUCTURAL
from hf_sysgen.errors import UserError, shorten
from hf_sysgen.results.reading import read_record
from hf_sysgen.results.record import RESULTS, Record, SplitMetrics

if TYPE_CHECKING:
    import numpy as np

# (depth, mean over seeds), the smallest depth first
ByDepth: TypeAlias = list[tuple[int, float]]
Measure = TypeVar("Measure")
# name of a feed-forward weight -> the projections stacked in it
PROJECTIONS = {"gate_up_proj": ("gate", "input"), "fc1": ("input",), "down_proj": ("output",), "fc2": ("output",)}


def size(record: Record, key: str) -> int:
    """A field of the model's config, from the recipe or from its pretrained checkpoint. Raises UserError if absent."""
    fields = record.pretrained_fields | record.recipe.model.fields
    if key not in fields:
        raise UserError(f"{record.title}: its recipe has no model.{key}")
    return fields[key]


def has_depth(record: Record) -> bool:
    """Whether the model has one stack, and so one depth and width."""
    return {"num_hidden_layers", "hidden_size"} <= {*record.pretrained_fields, *record.recipe.model.fields}


def classes(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Records by size class, the smallest class first, by depth. Raises UserError: see `size`."""
    by_width: dict[int, list[Record]] = {}
    for record in sorted(records, key=lambda one: size(one, "num_hidden_layers")):
        by_width.setdefault(size(record, "hidden_size"), []).append(record)
    found = sorted(by_width.items(), key=lambda one: (_parameters(one[1]), one[0]))
    names = [_in_words(_parameters(runs)) for _, runs in found]
    return {
        name if names.count(name) == 1 else f"{name}, width {width}": runs
        for name, (width, runs) in zip(names, found, strict=True)
    }


def _parameters(records: Sequence[Record]) -> float:
    return statistics.median(record.num_parameters for record in records)


def _in_words(count: float) -> str:
    unit, name = (1e6, "M") if count >= 1e6 else (1e3, "k")
    return f"{round(count / unit) if count >= 10 * unit else round(count / unit, 1)}{name}"


def from_final_weights(records: Sequence[Record]) -> tuple[list[Record], list[Record]]:
    """
    The runs for Figures 4, 5 and 7, and the runs that are left out: those fine-tuned from weights of a step, as for
    Figure 6, if the benchmark also has runs from final weights.
    """
    tuned = [record for record in records if record.recipe.model.pretrained is not None]
    final = {benchmark_of(record) for record in tuned if not _from_a_step(record)}
    left = [record for record in tuned if _from_a_step(record) and benchmark_of(record) in final]
    return [record for record in records if not any(record is one for one in left)], left


def _from_a_step(record: Record) -> bool:
    return re.fullmatch(r"step-\d+", Path(record.recipe.model.pretrained or "").name) is not None


def of_benchmarks_with(
    records: Sequence[Record], what: Callable[[Record], object]
) -> tuple[list[Record], dict[str, list[Record]]]:
    """
    Split runs by benchmark: benchmarks on which at least one run has what the analysis needs, and the others.

    Raises:
        UserError: no run has it; the error of the first run, preferably of a fine-tuned one.
    """
    having, errors = set(), []
    for record in records:
        try:
            what(record)
            having.add(benchmark_of(record))
        except UserError as error:
            errors.append((record.recipe.model.pretrained is None, error))
    if not having:
        raise min(errors, key=lambda one: one[0])[1]
    others: dict[str, list[Record]] = {}
    for record in records:
        if benchmark_of(record) not in having:
            others.setdefault(benchmark_of(record), []).append(record)
    return [record for record in records if benchmark_of(record) in having], others


def check_seeds(records: Sequence[Record]) -> None:
    """Raises UserError if records that are to be averaged differ in more than the seed."""
    first = _cell(records[0])
    for record in records[1:]:
        other = _cell(record)
        for key in sorted({*first, *other}):
            values = [_value(one, key) for one in (first, other)]
            if values[0] != values[1]:
                raise UserError(
                    f"{records[0].title} and {record.title} are not two seeds of one model: {key} is {values[0]} "
                    f"and {values[1]}; give runs of one of them"
                )


def _cell(record: Record) -> dict[str, Any]:
    """Dotted key -> values that the runs of a cell share over seeds."""
    fields = {f"model.{key}": value for key, value in record.pretrained_fields.items()} | record.recipe.flat()
    if record.recipe.evaluation.early_stopping is None:
        # epochs may end a run before the recipe's steps
        fields["training.max_steps"] = record.steps
    if (pretrained := record.recipe.model.pretrained) is not None:
        fields["model.pretrained"] = _came_from(pretrained)
    return {key: value for key, value in fields.items() if effect_of(key) == "result"}


def _came_from(pretrained: str) -> str:
    """What a run started from: the same for the seeds of pretraining, whose records are beside their checkpoints."""
    folder = Path(pretrained).resolve()
    try:
        file, cell = read_record(folder.parent / RESULTS).cell_key
    except UserError:
        # these weights have no record; the same folder may have another path
        return os.path.relpath(folder)
    return f"{folder.name} of {file} ({cell})"


def _value(fields: Mapping[str, Any], key: str) -> Any:
    """The value of a field; a missing one has the default of the model's config."""
    if key in fields:
        return fields[key]
    from hf_sysgen.models import CONFIGS

    return getattr(CONFIGS.get(fields["model.type"]), key.removeprefix("model."), None)


@dataclass(frozen=True)
class Pretrained:
    """
    A model of Figures 2 and 3.

    Attributes:
        depth: number of layers.
        ratio: d_model / d_ff.
        perplexity: of the final weights on validation; mean over seeds.
        relative: perplexity divided by the smallest of its class.
    """

    depth: int
    ratio: float
    perplexity: float
    relative: float


def perplexities(records: Sequence[Record]) -> dict[str, list[Pretrained]]:
    """
    Figures 2 and 3: the models of each size class by depth.

    Raises:
        UserError: a record has no perplexity, or see `check_seeds`.
    """
    found = {}
    for name, runs in classes(records).items():
        ratios = {
            size(one, "num_hidden_layers"): size(one, "hidden_size") / size(one, "intermediate_size") for one in runs
        }
        means = dict(_by_depth(runs, final_perplexity))
        best = min(means.values())
        found[name] = [Pretrained(depth, ratios[depth], mean, mean / best) for depth, mean in means.items()]
    return found


def final_perplexity(record: Record) -> float:
    """On validation, of the final weights. Raises UserError: the record has none."""
    perplexity = record.splits["validation"].perplexity if "validation" in record.splits else None
    if perplexity is None:
        raise UserError(f"{record.title}: no perplexity on validation")
    return perplexity


def generalization(records: Sequence[Record]) -> dict[str, dict[str, ByDepth]]:
    """
    Figure 4: benchmark -> size class -> (depth, accuracy on `test`, mean over seeds).

    Raises:
        UserError: a record has no such split, or see `check_seeds`.
    """
    return _by_class(records, lambda runs: _by_depth(runs, lambda record: on_test(record).accuracy or 0.0))


def by_structure(records: Sequence[Record]) -> dict[str, dict[str, dict[str, ByDepth]]]:
    """
    Figure 5: benchmark -> size class -> "lexical" and "structural" -> (depth, accuracy, mean over seeds), over the
    examples of each kind of category: three of COGS test a structure, the other 18 a word.

    Raises:
        UserError: a record has no such categories, or see `check_seeds`.
    """
    return _by_class(
        records,
        lambda runs: {
            "lexical": _by_depth(runs, lambda record: lexical_structural(record)[0]),
            "structural": _by_depth(runs, lambda record: lexical_structural(record)[1]),
        },
    )


def lexical_structural(record: Record) -> tuple[float, float]:
    """Accuracy over all lexical and over all structural examples of `test`. Raises UserError: there are none."""
    counts = {False: [0, 0.0], True: [0, 0.0]}
    for category, (examples, accuracy) in on_test(record).by_category.items():
        counts[category in STRUCTURAL][0] += examples
        counts[category in STRUCTURAL][1] += examples * accuracy
    if not all(examples for examples, _ in counts.values()):
        raise UserError(f"{record.title}: no accuracy by category with {', '.join(STRUCTURAL)} among them")
    return counts[False][1] / counts[False][0], counts[True][1] / counts[True][0]


def on_test(record: Record) -> SplitMetrics:
    """What the final weights have on `test`. Raises UserError: the record has no such split."""
    if "test" not in record.splits:
        raise UserError(f"{record.title}: no split test")
    return record.splits["test"]


def _by_class(records: Sequence[Record], measure: Callable[[list[Record]], Measure]) -> dict[str, dict[str, Measure]]:
    """Benchmark -> size class -> the measure of its runs."""
    found: dict[str, dict[str, Measure]] = {}
    for name, runs in classes(records).items():
        for benchmark in dict.fromkeys(map(benchmark_of, runs)):
            own = [record for record in runs if benchmark_of(record) == benchmark]
            found.setdefault(benchmark, {})[name] = measure(own)
    return found


def _by_depth(records: Sequence[Record], value: Callable[[Record], float | None]) -> ByDepth:
    """Means over seeds, of the runs that have the value. Raises UserError: see `check_seeds`."""
    seeds: dict[int, list[tuple[Record, float]]] = {}
    for record in records:
        if (found := value(record)) is not None:
            seeds.setdefault(size(record, "num_hidden_layers"), []).append((record, found))
    for runs in seeds.values():
        check_seeds([record for record, _ in runs])
    return [(depth, statistics.fmean(y for _, y in runs)) for depth, runs in sorted(seeds.items())]


def matched_step(reference: float, perplexity: Curve) -> int | None:
    """
    Figure 6: the first of these steps at which a model has at most the final perplexity of the reference; `None` if
    there is none.
    """
    return next((step for step, value in perplexity if value <= reference), None)


def with_weights(record: Record) -> Curve:
    """
    Validation perplexity at the steps whose weights a run keeps: `kept_steps` and the last step.

    Raises:
        UserError: see `curve`.
    """
    known = dict(curve(record, "validation", "perplexity"))
    final = record.splits["validation"].perplexity if "validation" in record.splits else None
    if final is not None:
        # the last step need not be a multiple of `training.eval_steps`
        known[record.steps] = final
    kept = {*record.recipe.training.kept_steps, max(known)}
    return [(step, known[step]) for step in sorted(kept & known.keys())]


@dataclass(frozen=True)
class Match:
    """A checkpoint to fine-tune for Figure 6; for the reference itself its last step."""

    reference_depth: int
    depth: int
    step: int | None
    perplexity: float | None


def matched_perplexity(records: Sequence[Record]) -> dict[str, list[Match]]:
    """
    Figure 6 (left): for each size class and each model of it as the reference, the first step at which it and each
    deeper model has the reference's final validation perplexity, among steps [`with_weights`], because only those can
    be fine-tuned.

    Raises:
        UserError: a depth has several runs, or see `curve`.
    """
    found = {}
    for name, runs in classes(records).items():
        curves: dict[int, Curve] = {}
        for record in runs:
            depth = size(record, "num_hidden_layers")
            if depth in curves:
                raise UserError(f"{record.name}: a second run of depth {depth} in class {name}; give one of each")
            curves[depth] = with_weights(record)
        matches = []
        for reference, points in curves.items():
            step, final = points[-1]
            matches.append(Match(reference, reference, step, final))
            for depth in (depth for depth in curves if depth > reference):
                step_there = matched_step(final, curves[depth])
                value = dict(curves[depth])[step_there] if step_there is not None else None
                matches.append(Match(reference, depth, step_there, value))
        found[name] = matches
    return found


def ends_by_benchmark(runs: Mapping[str, Sequence[Record]]) -> dict[str, float]:
    """
    Figure 6 (right): accuracy on `test` of the runs that were fine-tuned from one checkpoint, mean over seeds.

    Raises:
        UserError: a record has no such split, or see `check_seeds`.
    """
    for records in runs.values():
        check_seeds(records)
    return {
        benchmark: statistics.fmean(on_test(record).accuracy or 0.0 for record in records)
        for benchmark, records in runs.items()
    }


def accuracy_at_loss(losses: Curve, accuracies: Curve, loss: float) -> float | None:
    """
    Figure 7: the generalization accuracy where the in-distribution loss first is `loss`, both interpolated linearly
    between evaluations. If a run starts below, the accuracy of its first evaluation; `None` if it never reaches it.
    """
    known = dict(accuracies)
    points = [(value, known[step]) for step, value in losses if step in known]
    before: tuple[float, float] | None = None
    for value, accuracy in points:
        if value <= loss:
            if before is None:
                return accuracy
            share = (before[0] - loss) / (before[0] - value)
            return before[1] + share * (accuracy - before[1])
        before = (value, accuracy)
    return None


def loss_and_accuracy(record: Record) -> tuple[Curve, Curve]:
    """
    In-distribution loss of the language model, teacher-forced, and generalization accuracy during fine-tuning. Raises
    UserError: see `curve`.
    """
    return curve(record, "validation", "loss_teacher"), curve(record, "test", "accuracy")


def lowest_losses(records: Sequence[Record]) -> list[float]:
    """The smallest in-distribution loss of each run. Raises UserError: see `curve`."""
    return [min(value for _, value in loss_and_accuracy(record)[0]) for record in records]


def at_equal_loss(records: Sequence[Record], loss: float) -> dict[str, dict[str, ByDepth]]:
    """
    Figure 7: benchmark -> size class -> (depth, [`accuracy_at_loss`], mean over seeds) of the runs that reach it.

    Args:
        loss: loss on `validation`; the paper's is 0.0002 on COGS.

    Raises:
        UserError: no run reaches it, or see `curve` and `check_seeds`.
    """
    found = _by_class(
        records, lambda runs: _by_depth(runs, lambda record: accuracy_at_loss(*loss_and_accuracy(record), loss))
    )
    if not any(points for by_class in found.values() for points in by_class.values()):
        smallest = min(lowest_losses(records))
        raise UserError(f"no run reaches a loss of {loss:g} on validation; the smallest is {smallest:g}")
    return found


def effective_rank(singular_values: Sequence[float]) -> float:
    """exp(-sum p_i ln p_i) with p the singular values over their sum (Roy & Vetterli 2007; Appendix C)."""
    from scipy.stats import entropy

    return math.exp(entropy(singular_values))


def cumulative_share(singular_values: Sequence[float]) -> list[tuple[float, float]]:
    """Figure 9: for i = 1 ... k, (i / k, share of the l1 norm that the i largest have)."""
    import numpy as np

    share = np.cumsum(np.sort(np.asarray(singular_values, np.float64))[::-1])
    return [((i + 1) / len(share), float(value / share[-1])) for i, value in enumerate(share)]


@dataclass(frozen=True)
class Ranks:
    """
    A projection of a checkpoint's feed-forward blocks.

    Attributes:
        projection: "input", "output", or "gate", the second input projection of gated blocks, which the paper's blocks
            have but its text does not mention.
        cumulative: [`cumulative_share`], averaged over layers.
        effective: [`effective_rank`], averaged over layers.
        full: k, the smaller of both widths.
    """

    projection: str
    cumulative: list[tuple[float, float]]
    effective: float
    full: int


def ranks(checkpoint: Path) -> list[Ranks]:
    """
    Figures 9 and 10 for the feed-forward blocks of a checkpoint; no other weights are read.

    Raises:
        UserError: there is no checkpoint, it cannot be read, or it has no such blocks.
    """
    import numpy as np

    found: dict[str, list[Any]] = {}
    for name, weight in feed_forward_weights(checkpoint):
        parts = PROJECTIONS[name]
        for projection, part in zip(parts, np.split(weight, len(parts)), strict=True):
            found.setdefault(projection, []).append(np.linalg.svd(part, compute_uv=False))
    if not found:
        raise UserError(f"{checkpoint}: no feed-forward blocks with {', '.join(PROJECTIONS)}")
    return [
        Ranks(
            projection,
            [tuple(point) for point in np.mean([cumulative_share(one) for one in layers], axis=0).tolist()],
            statistics.fmean(map(effective_rank, layers)),
            len(layers[0]),
        )
        for projection, layers in sorted(found.items())
    ]


def feed_forward_weights(checkpoint: Path) -> list[tuple[str, np.ndarray]]:
    """Names, as in `PROJECTIONS`, and float64 weights (out, in) of all layers."""
    from hf_sysgen.evaluation.checkpoint_folders import checkpoint_folder

    file = checkpoint_folder(checkpoint) / "model.safetensors"
    pattern = re.compile(rf"feed_forward\.({'|'.join(PROJECTIONS)})\.weight$")
    try:
        with safe_open(file, "pt") as tensors:
            names = [(match[1], key) for key in tensors.keys() if (match := pattern.search(key))]  # noqa: SIM118
            return [(name, tensors.get_tensor(key).double().numpy()) for name, key in names]
    except (OSError, SafetensorError) as error:
        raise UserError(f"{file}: cannot be read: {shorten(error)}") from error
