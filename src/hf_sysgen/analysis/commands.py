"""The analyses of `hf-sysgen analyse ...`, each a function of runs."""

from __future__ import annotations

import math
import shlex
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hf_sysgen.analysis import FIRST_STEP, PATIENCE, SHARE, csordas2021, petty2023
from hf_sysgen.analysis.by_data import accuracies_by_relations, entropy_of_roles, scheme_of
from hf_sysgen.analysis.csordas2021 import accuracies, benchmark_of, curve, mean_curve
from hf_sysgen.analysis.finding import Finding, folder_of
from hf_sysgen.analysis.plotting import (
    LAYERS,
    Bars,
    Cloud,
    Histogram,
    Line,
    Panel,
    draw_clouds,
    draw_panels,
    draw_with_histograms,
)
from hf_sysgen.config.io import load_recipe
from hf_sysgen.errors import UserError
from hf_sysgen.results.cells import by_cell, labels
from hf_sysgen.results.evaluations import read_evaluations
from hf_sysgen.results.record import MODEL, Record
from hf_sysgen.tables import counted

STEP = "training step"


# see `read_runs`
Runs = list[tuple[Path, Record]]


def _records(runs: Runs) -> list[Record]:
    return [record for _, record in runs]


def _having(runs: Runs, what: Callable[[Record], object]) -> tuple[list[Record], list[str]]:
    """
    The records that have what the analysis needs, and a line on the others.

    Raises:
        UserError: none has it; the error of the first.
    """
    having, errors = [], []
    for record in _records(runs):
        try:
            what(record)
            having.append(record)
        except UserError as error:
            errors.append(error)
    if not having:
        raise errors[0]
    return having, [f"left out {len(errors)} of {len(runs)} runs, the first is {errors[0]}"] if errors else []


def early_stopping(runs: Runs, patience: int = PATIENCE, as_worded: bool = False, split: str = "test") -> Finding:
    """
    Csordas et al. 2021, Figure 1.

    Args:
        patience: steps without a better loss on validation.
        as_worded: as the paper words it, where its code differs.
    """

    def needed(one: Record) -> object:
        accuracies, losses = curve(one, split, "accuracy"), curve(one, "validation", "loss")
        try:
            return accuracies, csordas2021.stopping_step(losses, patience, as_worded)
        except UserError as error:
            raise UserError(f"{one.title}: {error}") from error

    records, notes = _having(runs, needed)
    cells = by_cell(records)
    stoppings = [
        (name, csordas2021.early_stopping(records, patience, as_worded, split))
        for name, records in zip(labels(cells), cells, strict=True)
    ]
    taken = "of the best loss" if as_worded else f"{patience} before the end, as in the authors' code"
    notes += [
        f"{name}: {one.unstopped} of {counted(len(own), 'run')} ended before the patience did; the step is {taken}"
        for (name, one), own in zip(stoppings, cells, strict=True)
        if one.unstopped
    ]
    rows = [(name, one.step, one.stopped, one.final) for name, one in stoppings]
    lines = [_banded(name, one.accuracies) for name, one in stoppings]
    rules = [(one.step, name) for name, one in stoppings]
    panel = Panel("dashed: where early stopping would have stopped", STEP, f"accuracy on {split}", lines, rules,
                  ends=(-0.03, 1.03))  # fmt: skip
    header = ("cell", "stopping step (median)", "accuracy there", "final accuracy")
    return Finding("early-stopping", header, rows, lambda: draw_panels([panel]), notes=notes)


def _banded(label: str, points: Sequence[tuple[int, float, float]], dashed: bool = False) -> Line:
    return Line(label, [(step, mean) for step, mean, _ in points], [spread for *_, spread in points], dashed)


def loss_accuracy(
    runs: Runs, loss_split: str | None = None, accuracy_split: str | None = None, first_step: int = FIRST_STEP
) -> Finding:
    """
    Csordas et al. 2021, Figure 4, IID and generalization each against itself, and Figure 2; or the splits given.

    Args:
        first_step: evaluations before it are left out.
    """
    if loss_split is None and accuracy_split is None:
        both = [split for split in ("validation", "test") if all(split in one.splits for _, one in runs)]
        pairs = [(split, split) for split in both] + ([("validation", "test")] if len(both) == 2 else [])
        if not pairs:
            raise UserError("the runs share neither validation nor test; name splits by --loss-split and "
                                "--accuracy-split, or give fewer runs")  # fmt: skip
    else:
        one, other = str(loss_split), str(accuracy_split)
        pairs = [(other if loss_split is None else one, one if accuracy_split is None else other)]
    records, notes = _having(
        runs,
        lambda record: [
            csordas2021.loss_against_accuracy([record], loss, accuracy, first_step) for loss, accuracy in pairs
        ],
    )
    cells = by_cell(records)
    clouds, rows = [], []
    for loss, accuracy in pairs:
        points = {
            name: csordas2021.loss_against_accuracy(of_cell, loss, accuracy, first_step)
            for name, of_cell in zip(labels(cells), cells, strict=True)
        }
        title = counted(len(records), "run")
        clouds.append(Cloud(title, f"loss on {loss} (nats per token)", f"accuracy on {accuracy}", points))
        rows += [(name, loss, accuracy, step, x, y) for name, some in points.items() for x, y, step in some]
    header = ("cell", "loss on", "accuracy on", "step", "loss", "accuracy")
    return Finding("loss-accuracy", header, rows, lambda: draw_clouds(clouds, STEP), notes=notes)


def double_descent(runs: Runs, split: str = "test") -> Finding:
    """Csordas et al. 2021, Figure 3."""
    panels, rows = [], []
    records, notes = _having(runs, lambda record: (curve(record, split, "accuracy"), curve(record, split, "loss")))
    cells = by_cell(records)
    for metric, y in (("accuracy", "accuracy"), ("loss", "loss (nats per token)")):
        lines = []
        for name, records in zip(labels(cells), cells, strict=True):
            points = mean_curve([curve(record, split, metric) for record in records])
            lines.append(_banded(name, points))
            rows += [(name, metric, *point, len(records)) for point in points]
        panels.append(Panel(f"{metric} on {split}", STEP, y, lines))
    header = ("cell", "metric", "step", "mean", "standard deviation", "runs")
    return Finding("double-descent", header, rows, lambda: draw_panels(panels), notes=notes)


def good_bad_loss(runs: Runs, split: str = "test") -> Finding:
    """
    Csordas et al. 2021, Figure 5, for one run, trained with evaluation.save_example_losses=true. Raises UserError:
    there are several.
    """
    if len(runs) > 1:
        raise UserError(f"good-bad-loss is of one run, and these are {len(runs)}; give one of them")
    run, record = runs[0]
    found = csordas2021.decompose(read_evaluations(folder_of(run, "losses of single examples"), split))
    rows = list(zip(found.steps, found.good, found.bad, found.all, strict=True))
    named = (("good", found.good), ("bad", found.bad), ("all", found.all))
    lines = [
        Line(name, [point for point in zip(found.steps, values, strict=True) if not math.isnan(point[1])])
        for name, values in named
    ]
    ends = (f"step {found.steps[0]}", f"step {found.steps[-1]}")
    histograms = [
        Histogram(
            f'loss of "{name}" examples', "loss (nats per token)", found.edges, dict(zip(ends, counts, strict=True))
        )
        for name, counts in (("good", found.good_counts), ("bad", found.bad_counts))
    ]
    title = f"{record.name}, {split}: {found.num_good:,} good examples"
    panel = Panel("mean loss", STEP, "loss (nats per token)", lines)
    header = ("step", "good", "bad", "all")
    return Finding("good-bad-loss", header, rows, lambda: draw_with_histograms(panel, histograms, title))


def convergence(runs: Runs, share: float = SHARE, as_worded: bool = False, split: str = "test") -> Finding:
    """
    Csordas et al. 2021, Figure 6, beside the accuracies that it is made of.

    Args:
        share: of the accuracy that is to be reached.
        as_worded: as the paper words it, where its code differs.
    """

    records, notes = _having(runs, lambda record: curve(record, split, "accuracy"))
    rows, panels, ratios = [], [], {}
    labels_of = {relative: f"{relative} (dashed: {absolute})" for absolute, relative in csordas2021.PAIRS}
    x = f"{STEP} (vertical line: {100 * share:g} % of the {'last' if as_worded else 'best'})"
    found = csordas2021.convergence(records, share, as_worded, split)

    def place(record: Record) -> tuple[object, ...] | None:
        benchmark, model = (benchmark_of(record), record.recipe.training.max_steps), record.recipe.model.type
        return (*benchmark, model) if csordas2021.converges(record, as_worded) and benchmark in found else None

    for record in records:
        if csordas2021.steps_to_share(curve(record, split, "accuracy"), share, as_worded) is None:
            notes.append(f"{record.title}: not in the steps, as its accuracy on {split} is 0")
    notes += csordas2021.choices(records, place, "that needs the fewest steps")
    for (benchmark, updates), models in found.items():
        name = f"{benchmark}\n{updates:,} updates"
        speedups = csordas2021.speedups(models)
        ratios[name] = {labels_of[model]: ratio for model, ratio in speedups.items()}
        lines, rules = [], []
        for absolute, relative in csordas2021.PAIRS:
            for model in (relative, absolute):
                if one := models.get(model):
                    rows.append((benchmark, updates, model, one.runs, one.steps, speedups.get(model)))
                    lines.append(_banded(labels_of[relative], one.accuracies, dashed=model == absolute))
                    rules.append((one.steps, labels_of[relative]))
        panels.append(Panel(name, x, f"accuracy on {split}", lines, rules, ends=(-0.03, 1.03)))
    bars = Bars("steps: absolute / relative", ratios, rule=1.0)
    header = ("benchmark", "updates", "model", "runs", f"steps to {share:g}", "absolute / relative")
    return Finding("convergence", header, rows, lambda: draw_panels(panels, bars=bars), notes=notes)


def _spread(mean: float, deviation: float) -> str:
    return f"{mean:.2f}" if math.isnan(deviation) else f"{mean:.2f} ± {deviation:.2f}"


def iid_table(runs: Runs) -> Finding:
    """Csordas et al. 2021, Table 8."""
    given = _records(runs)
    records = [*filter(csordas2021.has_iid, given)]
    found = csordas2021.iid_table(records)
    models = list(dict.fromkeys(model for _, row in found for model in row))
    models.sort(key=lambda model: csordas2021.MODELS.index(model) if model in csordas2021.MODELS else 9)
    rows = [
        (benchmark, *(f"{_spread(*row[model][:2])} ({row[model][2]:.2f})" if model in row else "-" for model in models))
        for benchmark, row in found
    ]
    notes = _left_out([one for one in given if not csordas2021.has_iid(one)], "not judged on both splits")
    notes += csordas2021.choices(
        records, lambda one: (benchmark_of(one), one.recipe.model.type), "with the best mean accuracy on test"
    )
    return Finding("iid-table", ("IID (generalization)", *models), rows, notes=notes)


def batch_table(runs: Runs) -> Finding:
    """Csordas et al. 2021, Table 9."""
    records, notes = _having(runs, lambda record: accuracies([record], "test"))
    rows, shown = [], set()
    for (benchmark, updates), models in csordas2021.batch_table(records).items():
        for model, row in models.items():
            shown |= {(benchmark, model, updates, size) for size, *_ in (row.big, row.small)}
            big, small = (_spread(mean, spread) for _, mean, spread in (row.big, row.small))
            rows.append((benchmark, updates, model, row.big[0], big, row.small[0], small, f"{row.ratio:.2f}"))

    def place(record: Record) -> tuple[object, ...] | None:
        recipe = record.recipe
        if recipe.batches.sampling == "max_tokens":
            return None
        key = (benchmark_of(record), recipe.model.type, recipe.training.max_steps, recipe.batches.size)
        return (*key[:2], f"{key[2]:,} updates", f"batches of {key[3]}") if key in shown else None

    notes += csordas2021.choices(records, place, "with the best mean accuracy on test")
    header = ("benchmark", "updates", "model", "big batch", "accuracy", "small batch", "accuracy", "ratio")
    return Finding("batch-table", header, rows, notes=notes)


def relations(runs: Runs) -> Finding:
    """
    Bergen et al. 2021, Figure 3: accuracy on the test stories of CLUTRR by their number of relations. Raises UserError:
    a run has no test stories by their number of relations.
    """
    having, notes = _having(runs, accuracies_by_relations)
    rows, lines = [], []
    cells = by_cell(having)
    for name, records in zip(labels(cells), cells, strict=True):
        points = mean_curve([accuracies_by_relations(record) for record in records])
        rows += [(name, *point, len(records)) for point in points]
        lines.append(_banded(name, points))
    panel = Panel("mean, and standard deviation over seeds", "relations in a test story, k", "accuracy on test", lines,
                  ends=(-0.03, 1.03))  # fmt: skip
    header = ("cell", "k", "accuracy", "sd", "runs")
    return Finding("relations", header, rows, lambda: draw_panels([panel]), notes=notes)


def role_entropy(runs: Runs) -> Finding:
    """
    Chakravarthy et al. 2022, Figure 3: accuracy on test against the entropy of the roles there. Raises UserError,
    DataError: no run has roles, or its data is missing.
    """
    having, notes = _having(runs, lambda record: (scheme_of(record), accuracies([record], "test")))
    cells = by_cell(having)
    rows: list[tuple[str, str, float, float, float, int]] = []
    for name, records in zip(labels(cells), cells, strict=True):
        values = accuracies(records, "test")
        scheme, entropy = scheme_of(records[0]), entropy_of_roles(records[0])
        rows.append((name, scheme, entropy, statistics.fmean(values), csordas2021.spread(values), len(values)))
    rows.sort(key=lambda row: row[2:4])
    lines = [Line(name, [(entropy, mean)]) for name, _, entropy, mean, *_ in rows]
    panel = Panel("roles from the most to the least abstract", "entropy of the roles of test (bits)",
                  "accuracy on test", lines, ends=(-0.03, 1.03))  # fmt: skip
    header = ("cell", "roles", "entropy", "accuracy", "sd", "runs")
    return Finding("role-entropy", header, rows, lambda: draw_panels([panel]), notes=notes)


def perplexity_depth(runs: Runs) -> Finding:
    """Petty et al. 2023, Figures 2 and 3."""
    records, notes = _of_benchmarks_with(runs, petty2023.final_perplexity)
    found = petty2023.perplexities(records)
    rows = [(name, one.depth, one.ratio, one.perplexity, one.relative) for name, ones in found.items() for one in ones]

    def lines(x: str, y: str) -> list[Line]:
        return [Line(name, sorted((getattr(one, x), getattr(one, y)) for one in ones)) for name, ones in found.items()]

    panels = [
        Panel("Figure 2", LAYERS, "validation perplexity", lines("depth", "perplexity"), log_x=True, log_y=True),
        Panel("Figure 3, left", LAYERS, "perplexity / best of its class", lines("depth", "relative"), log_x=True),
        Panel("Figure 3, right (black: 1/4, red: 1)", "d_model / d_ff", "perplexity / best of its class",
              lines("ratio", "relative"), [(1.0, "red"), (0.25, "black")], log_x=True),
    ]  # fmt: skip
    header = ("class", "layers", "d_model / d_ff", "perplexity", "relative")
    return Finding("perplexity-depth", header, rows, lambda: draw_panels(panels), notes=notes)


def generalization_depth(runs: Runs) -> Finding:
    """Petty et al. 2023, Figure 4."""
    records, notes = _fine_tuned(runs, petty2023.on_test)
    found = petty2023.generalization(records)
    return _against_depth("generalization-depth", found, "accuracy on test", notes)


def _of_benchmarks_with(runs: Runs, what: Callable[[Record], object]) -> tuple[list[Record], list[str]]:
    """The runs on benchmarks whose runs have what the analysis needs, and a line that names the other benchmarks."""
    records = _records(runs)
    deep = [record for record in records if petty2023.has_depth(record)]
    flat = [record for record in records if not petty2023.has_depth(record)]
    records, others = petty2023.of_benchmarks_with(deep or records, what)
    names = ", ".join(f"{benchmark} ({counted(len(ones), 'run')})" for benchmark, ones in others.items())
    notes = [f"left out, as they lack what this analysis needs: {names}"] if others else []
    return records, _left_out(flat if deep else [], "of models without one depth") + notes


def _fine_tuned(runs: Runs, what: Callable[[Record], object]) -> tuple[list[Record], list[str]]:
    """The runs that were fine-tuned from final weights, and lines that name the others."""
    records, passed_over = _of_benchmarks_with(runs, what)
    records, left = petty2023.from_final_weights(records)
    return records, passed_over + _left_out(left, "fine-tuned from weights of a step")


def _left_out(records: Sequence[Record], why: str) -> list[str]:
    names = ", ".join(one.title for one in records)
    return [f"left out, as {why}: {names}"] if records else []


def equal_loss(runs: Runs, loss: float | None = None) -> Finding:
    """
    Petty et al. 2023, Figure 7.

    Args:
        loss: on validation; default: the smallest that all runs have. The paper's is 0.0002.
    """
    records, notes = _fine_tuned(runs, petty2023.loss_and_accuracy)
    loss = max(petty2023.lowest_losses(records)) if loss is None else loss
    found = petty2023.at_equal_loss(records, loss)
    return _against_depth("equal-loss", found, f"accuracy on test at loss {loss:.3g}", notes)


def _against_depth(
    name: str, found: Mapping[str, Mapping[str, Sequence[tuple[int, float]]]], y: str, notes: Sequence[str]
) -> Finding:
    rows = [
        (benchmark, cls, *point) for benchmark, by in found.items() for cls, points in by.items() for point in points
    ]
    panels = [
        Panel(benchmark, LAYERS, y, [Line(cls, points) for cls, points in by.items()], ends=(-0.03, 1.03))
        for benchmark, by in found.items()
    ]
    return Finding(name, ("benchmark", "class", "layers", y), rows, lambda: draw_panels(panels), notes=notes)


def lexical_structural(runs: Runs) -> Finding:
    """Petty et al. 2023, Figure 5."""
    records, notes = _fine_tuned(runs, petty2023.lexical_structural)
    found = petty2023.by_structure(records)
    rows = [
        (benchmark, cls, kind, *point)
        for benchmark, by in found.items() for cls, kinds in by.items()
        for kind, points in kinds.items() for point in points
    ]  # fmt: skip
    panels = [
        Panel(
            f"{benchmark} (dashed: structural)", LAYERS, "accuracy on test",
            [
                Line(cls, points, dashed=kind == "structural")
                for cls, kinds in by.items() for kind, points in kinds.items()
            ],
            ends=(-0.03, 1.03),
        )
        for benchmark, by in found.items()
    ]  # fmt: skip
    header = ("benchmark", "class", "cases", "layers", "accuracy")
    return Finding("lexical-structural", header, rows, lambda: draw_panels(panels), notes=notes)


def matched_perplexity(runs: Runs, recipe: str = "recipes/petty2023/cogs.yaml") -> Finding:
    """
    Petty et al. 2023, Figure 6: which checkpoints to fine-tune, as a table and as commands; and, of the runs that were
    fine-tuned from them, their accuracies. Steps are those of kept_steps, whose weights can be
    fine-tuned, and the last.

    Args:
        recipe: of the fine-tuning.

    Raises:
        RecipeError: there is no such recipe, or it is wrong.
    """
    load_recipe(recipe)
    pretraining = [(run, one) for run, one in runs if one.recipe.model.pretrained is None]
    tuned = [one for _, one in runs if one.recipe.model.pretrained is not None]
    if not pretraining:
        raise UserError("no pretraining run among these: all have model.pretrained; give the pretraining runs too")
    by_class = petty2023.classes(_records(pretraining))
    folders = {id(record): folder_of(run, "checkpoints to fine-tune") for run, record in pretraining}
    by_checkpoint: dict[Path, dict[str, list[Record]]] = {}
    for record in tuned:
        petty2023.on_test(record)
        checkpoint = Path(record.recipe.model.pretrained or "").resolve()
        by_checkpoint.setdefault(checkpoint, {}).setdefault(benchmark_of(record), []).append(record)
    rows: list[Sequence[Any]] = []
    script = ["set -e"]
    # class and benchmark -> layers of the reference -> a point for each model
    accuracies: dict[tuple[str, str], dict[int, list[tuple[float, float]]]] = {}
    matched = set()
    for name, matches in petty2023.matched_perplexity(_records(pretraining)).items():
        by_depth = {petty2023.size(record, "num_hidden_layers"): record for record in by_class[name]}
        for match in matches:
            record = by_depth[match.depth]
            folder = folders[id(record)]
            row = (name, match.reference_depth, match.depth, match.step, match.perplexity)
            if match.step is None:
                rows.append((*row, None, None))
                reference = _layers(match.reference_depth)
                script.append(f"# {folder}: reaches the perplexity of {reference} at no step with kept weights")
                continue
            checkpoint = folder / (MODEL if match.step == record.steps else f"step-{match.step}")
            matched.add(checkpoint.resolve())
            ends = petty2023.ends_by_benchmark(by_checkpoint.get(checkpoint.resolve(), {}))
            rows += [(*row, *end) for end in ends.items() or ((None, None),)]
            for benchmark, accuracy in ends.items():
                references = accuracies.setdefault((name, benchmark), {})
                references.setdefault(match.reference_depth, []).append((match.depth, accuracy))
            if checkpoint.exists():
                script.append(shlex.join(("hf-sysgen", "train", recipe, f"model.pretrained={checkpoint}")))
            else:
                script.append(f"# {checkpoint}: is missing, so it is not fine-tuned")
    panels = []
    for name, records in by_class.items():
        lines = [
            Line(_layers(petty2023.size(record, "num_hidden_layers")), curve(record, "validation", "perplexity"))
            for record in records
        ]
        panels.append(Panel(f"{name}, pretraining", STEP, "validation perplexity", lines, log_y=True, smooth=True))
    for (name, benchmark), references in accuracies.items():
        lines = [Line(_layers(depth), sorted(ends)) for depth, ends in sorted(references.items())]
        title = f"{name}, {benchmark}, fine-tuned at the perplexity of its reference"
        panels.append(Panel(title, LAYERS, "accuracy on test", lines))
    left = [record for record in tuned if Path(record.recipe.model.pretrained or "").resolve() not in matched]
    notes = _left_out(left, "fine-tuned from none of these checkpoints")
    header = ("class", "reference layers", "layers", "step", "perplexity", "benchmark", "accuracy on test")
    # one command per checkpoint, even if several references share it
    script = list(dict.fromkeys(script))
    return Finding("matched-perplexity", header, rows, lambda: draw_panels(panels), script, notes)


def _layers(depth: int) -> str:
    return f"{depth} layer" + "s" * (depth > 1)


def ranks(runs: Runs) -> Finding:
    """
    Petty et al. 2023, Figures 9 and 10, from the checkpoints of the runs; of several seeds the mean.

    Raises:
        UserError: runs of one benchmark, class and depth are of several cells, or see `petty2023.ranks`.
    """
    folders = {id(record): folder_of(run, "checkpoint") for run, record in runs}
    rows, panels = [], []
    effective: dict[tuple[str, str], list[Line]] = {}
    for name, records in petty2023.classes(_records(runs)).items():
        # benchmark, projection -> layers -> of each run
        found: dict[tuple[str, str], dict[int, list[tuple[float, petty2023.Ranks]]]] = {}
        cells: dict[tuple[str, int], Record] = {}
        for record in records:
            benchmark = benchmark_of(record)
            depth, width, inner = (
                petty2023.size(record, key) for key in ("num_hidden_layers", "hidden_size", "intermediate_size")
            )
            first = cells.setdefault((benchmark, depth), record)
            if first.cell_key != record.cell_key:
                raise UserError(f"{first.title} and {record.title} are not one cell over seeds; give one of them")
            for one in petty2023.ranks(folders[id(record)]):
                by_depth = found.setdefault((benchmark, one.projection), {})
                by_depth.setdefault(depth, []).append((width / inner, one))
        for (benchmark, projection), by_depth in found.items():
            points, lines = [], []
            for depth, measured in sorted(by_depth.items()):
                (ratio, first_run), *_ = measured
                mean = statistics.fmean(one.effective for _, one in measured)
                rows.append((benchmark, name, depth, ratio, projection, first_run.full, mean, len(measured)))
                points.append((depth, mean))
                # runs of one depth and class have equally many singular values
                places = zip(*(one.cumulative for _, one in measured), strict=True)
                curve_of = [(place[0][0], statistics.fmean(share for _, share in place)) for place in places]
                lines.append(Line(_layers(depth), curve_of))
            title = f"{name}, {benchmark}, {projection} projections"
            panels.append(Panel(title, "rank / k", "share of the singular values", lines, ends=(0, 1.02), smooth=True))
            effective.setdefault((benchmark, projection), []).append(Line(name, points))
    for (benchmark, projection), lines in effective.items():
        panels.append(Panel(f"{benchmark}, {projection} projections", LAYERS, "effective rank", lines))
    header = ("benchmark", "class", "layers", "d_model / d_ff", "projection", "k", "effective rank", "runs")
    return Finding("ranks", header, rows, lambda: draw_panels(panels))
