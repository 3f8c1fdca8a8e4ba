"""The papers' analyses compared with numbers computed by hand from their formulas."""

from __future__ import annotations

import csv
import math
import re
import statistics
from pathlib import Path
from typing import Any

import pytest
from made_records import made_record, made_rows
from typer.testing import CliRunner

from hf_sysgen.analysis import commands as analyse
from hf_sysgen.analysis import csordas2021 as devil
from hf_sysgen.analysis.finding import read_runs
from hf_sysgen.analysis.petty2023 import (
    accuracy_at_loss,
    at_equal_loss,
    by_structure,
    cumulative_share,
    effective_rank,
    generalization,
    lexical_structural,
    lowest_losses,
    matched_perplexity,
    perplexities,
    ranks,
)
from hf_sysgen.analysis.plotting import (
    Panel,
    check_picture,
)
from hf_sysgen.cli.analyse import ANALYSES
from hf_sysgen.cli.main import app
from hf_sysgen.errors import UserError
from hf_sysgen.results.evaluations import Evaluation, read_evaluations, write_evaluation
from hf_sysgen.results.record import LogEntry, Record, write_record

RESULTS = Path(__file__).parents[2] / "results"


def made(file: str = "cell", seed: int = 0, recipe: dict | None = None, splits: dict | None = None, **curves: list):
    """A record. recipe: dotted key -> value; curves: SPLIT_METRIC -> logged (step, number)."""
    fields = {key: curves.pop(key) for key in ("pretrained_fields", "num_parameters", "steps") if key in curves}
    by_step: dict[int, dict[str, Any]] = {}
    for key, points in curves.items():
        for step, number in points:
            by_step.setdefault(step, {"step": step})[f"eval_{key}"] = number
    history = [LogEntry.of(entry, ("validation", "test")) for entry in by_step.values()]
    fields = {"steps": max(by_step, default=1), "num_parameters": 7, **fields}
    values = {dotted(key): value for key, value in (recipe or {}).items()}
    return made_record(file=file, seed=seed, splits=splits, recipe_values=values, history=history, **fields)


def dotted(key: str) -> str:
    places = {"type": "model.type", "benchmark": "data.benchmark", "config": "data.config", "size": "batches.size"}
    training = ("kept_steps", "learning_rate")
    return places.get(key, key if "." in key or key == "output_dir" else
                      f"{'training' if key in training else 'model'}.{key}")  # fmt: skip


def every(interval: int, *numbers: float) -> list[tuple[int, float]]:
    return [(interval * (index + 1), number) for index, number in enumerate(numbers)]


def test_early_stopping_keeps_the_step_of_the_best_loss():
    # best at 1500, then five evaluations that are not smaller: noticed at 4000
    losses = every(500, 3, 2, 1, 1, 4, 1, 5, 6, 0.5)
    assert devil.stopping_step(losses) == 1500
    assert devil.stopping_step(losses, as_worded=True) == 1500
    # evaluations that patience is no multiple of: the code subtracts patience from where it notices
    assert devil.stopping_step(every(1000, 2, 1, 1, 1, 1)) == 5000 - 2500
    assert devil.stopping_step(every(1000, 2, 1, 1, 1, 1), as_worded=True) == 2000
    # never triggered: the code says last minus patience, the paper what was best
    falling = every(500, 5, 4, 3, 2, 1, 0.5, 0.4)
    assert devil.stopping_step(falling) == 1000
    assert devil.stopping_step(falling, as_worded=True) == 3500


def test_figure_1_of_a_cell():
    losses = [
        every(500, 3, 1, 2, 2, 2, 2, 2, 2),
        every(500, 3, 2, 1, 2, 2, 2, 2, 2),
        every(500, 9, 9, 9, 9, 1, 2, 2, 2),
    ]
    accuracy = every(500, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
    records = [
        made(
            seed=seed,
            splits={"test": 0.8},
            validation_loss=one,
            test_accuracy=[(s, a + 0.1 * seed) for s, a in accuracy],
        )
        for seed, one in enumerate(losses)
    ]
    found = devil.early_stopping(records)
    # the runs stop at 1000, 1500 and, never triggered, at 4000 - 2500
    assert (found.step, found.unstopped) == (1500, 1)
    assert found.stopped == pytest.approx((0.2 + 0.4 + 0.5) / 3)
    assert found.final == pytest.approx((0.8 + 0.9 + 1.0) / 3)
    assert found.accuracies[0] == pytest.approx((500, 0.2, 0.1))
    with pytest.raises(UserError, match="no loss of validation during training"):
        devil.early_stopping([made(test_accuracy=accuracy)])


def test_figure_1_by_the_code_or_as_worded():
    losses = every(500, 5, 4, 3, 2, 1, 0.5, 0.4)
    runs = [(Path("run"), made(splits={"test": 0.8}, validation_loss=losses, test_accuracy=every(500, *[0.1] * 7)))]
    found = [analyse.early_stopping(runs, **given) for given in ({}, {"as_worded": True})]
    assert [one.rows[0][1] for one in found] == [1000, 3500]
    # the patience never ended
    assert [len(one.notes) for one in found] == [1, 1]
    assert not analyse.early_stopping(runs, patience=0).notes


def test_loss_against_accuracy_leaves_the_first_steps_out():
    record = made(validation_loss=every(500, 3, 2, 1), test_accuracy=every(500, 0.1, 0.2, 0.3))
    assert devil.loss_against_accuracy([record], "validation", "test") == [(2, 0.2, 1000), (1, 0.3, 1500)]
    with pytest.raises(UserError, match="no evaluation from step 9000"):
        devil.loss_against_accuracy([record], "validation", "test", first_step=9000)


def test_loss_against_accuracy_by_cell():
    """Each cell has its marker and its place in the legend; a run without late evaluations is left out."""
    curves = {"validation_loss": every(500, 3, 2, 1), "test_accuracy": every(500, 0.1, 0.2, 0.3)}
    runs = [
        (Path("run"), made(seed=seed, recipe={"dropout": dropout}, splits={"validation": 1.0, "test": 0.3}, **some))
        for seed, dropout, some in (
            (0, 0.1, curves),
            (1, 0.1, curves),
            (0, 0.2, curves),
            (1, 0.2, {"validation_loss": every(500, 3), "test_accuracy": every(500, 0.1)}),
        )
    ]
    found = analyse.loss_accuracy(runs, "validation", "test")
    first, second = dict.fromkeys(row[0] for row in found.rows)
    steps = [(first, 1000), (first, 1500)] * 2 + [(second, 1000), (second, 1500)]
    assert [(row[0], row[3]) for row in found.rows] == steps
    assert len(found.notes) == 1
    figure = found.draw()
    assert [len(drawn.get_offsets()) for drawn in figure.axes[0].collections] == [4, 2]
    (legend,) = figure.legends
    assert len({text.get_text() for text in legend.get_texts()}) == 2
    assert len({handle.get_marker() for handle in legend.legend_handles}) == 2


def test_decomposition():
    """Good: right at any evaluation, also in the middle."""
    evaluations = [
        Evaluation(1000, [1.0, 2.0, 4.0, 20.0], [False, False, False, False]),
        Evaluation(2000, [0.5, 3.0, 6.0, 1.0], [True, False, True, False]),
        Evaluation(3000, [0.1, 8.0, 0.3, 15.0], [True, False, False, False]),
    ]
    found = devil.decompose(evaluations, bins=3, largest=15.0)
    assert found.steps == [1000, 2000, 3000]
    assert found.good == pytest.approx([2.5, 3.25, 0.2])
    assert found.bad == pytest.approx([11.0, 2.0, 11.5])
    assert found.all == pytest.approx([6.75, 2.625, 5.85])
    assert found.edges == [0, 5, 10, 15]
    assert found.good_counts == ([2, 0, 0], [2, 0, 0])
    # 20 is beyond all bins; 15 is in the last one
    assert found.bad_counts == ([1, 0, 0], [0, 1, 1])
    assert found.num_good == 2
    none = devil.decompose([Evaluation(1, [1.0], [False])])
    assert math.isnan(none.good[0])
    assert len(none.edges) == 41


def test_steps_to_a_share_of_the_best():
    # 0.8 of 0.5 is 0.4, between 0.2 at 200 and 0.5 at 300
    accuracy = every(100, 0.1, 0.2, 0.5, 0.3)
    assert devil.steps_to_share(accuracy) == pytest.approx(200 + 100 * 2 / 3)
    # of the final accuracy: 0.24
    assert devil.steps_to_share(accuracy, as_worded=True) == pytest.approx(200 + 100 * 0.04 / 0.3)
    assert devil.steps_to_share(every(100, 0.9, 1.0)) == 100
    assert devil.steps_to_share(every(100, 0.0, 0.0)) is None


def speedup(records: list[Record], **options: Any) -> float:
    """Of the relative Transformer, in the only comparison."""
    (models,) = devil.convergence(records, **options).values()
    return devil.speedups(models)["relative_transformer"]


def test_convergence_takes_the_best_scaling_and_the_median_run():
    def run(model, name, seed, *accuracy):
        return made(name, seed, {"type": model}, test_accuracy=every(100, *accuracy))

    absolute = [run("sysgen_transformer", "slow", 0, 0.0, 0.0, 0.0, 1.0)]
    # at 1.0 after 200 and 400 steps: 0.8 at 180 and 380, never: not counted
    absolute += [run("sysgen_transformer", "fast", seed, *([0.0] * seed), 0.0, 1.0) for seed in (0, 2)]
    relative = [run("relative_transformer", "relative", 0, 0.5, 1.0)]
    # 0.8 is at 160 steps; the absolute ones': median of 180 and 380, or 380
    assert speedup([*absolute, *relative]) == pytest.approx(280 / 160)
    with pytest.raises(UserError, match="absolute"):
        devil.convergence(relative)
    with pytest.raises(UserError, match="2 runs left out"):
        devil.convergence([*relative, *(run("sysgen_transformer", "never", seed, 0.0, 0.0) for seed in range(2))])


def test_convergence_of_three_runs_is_their_median_or_as_worded_their_mean():
    """Runs that need 80, 180 and 680 steps: 180, or 940 / 3."""

    def run(model, seed, before):
        return made(model, seed, {"type": model}, test_accuracy=every(100, *[0.0] * before, 1.0))

    absolute = [run("sysgen_transformer", seed, before) for seed, before in enumerate((0, 1, 6))]
    steps = [100.0, 180.0, 680.0]
    relative = [run("relative_transformer", 0, 1)]
    assert speedup([*absolute, *relative]) == pytest.approx(1.0)
    assert speedup([*absolute, *relative], as_worded=True) == pytest.approx(statistics.fmean(steps) / 180)


def test_convergence_compares_runs_of_one_length_and_any_precision(tmp_path):
    def run(model, length, seed, *accuracy, **more):
        recipe = {"type": model, "training.max_steps": length, **more}
        return made(model, seed, recipe, validation_accuracy=every(100, *accuracy))

    absolute, relative = devil.PAIRS[1]
    records = [
        run(absolute, 400, 0, 0.0, 0.0, 0.0, 1.0),
        run(relative, 400, 0, 0.0, 1.0),
        run(relative, 400, 1, 0.0, 0.0, 1.0, **{"training.bf16": True}),
        # without the same model at its length, and without a pair at all
        run(devil.PAIRS[0][1], 400, 0, 1.0),
        run(relative, 900, 0, 1.0),
    ]
    runs = keep(tmp_path / "runs", *records, run("lstm_seq2seq", 400, 0, 1.0))
    done = invoke("convergence", runs, "--split", "validation", "-o", tmp_path / "out")
    assert done.exit_code == 0, done.output
    _, *rows = csv.reader((tmp_path / "out" / "convergence.csv").read_text().splitlines())
    assert {tuple(row[1:4]): [float(cell or "nan") for cell in row[4:]] for row in rows} == {
        ("400", devil.PAIRS[0][1], "1"): [100, pytest.approx(math.nan, nan_ok=True)],
        ("400", absolute, "1"): [380, pytest.approx(math.nan, nan_ok=True)],
        ("400", relative, "2"): [pytest.approx(230), pytest.approx(380 / 230)],
    }


def test_convergence_leaves_upscaled_embeddings_out_on_pcfg_as_the_authors():
    def run(benchmark, model, scaling, before):
        fields = {"type": model, "benchmark": benchmark, "embedding_scaling": scaling}
        return made(f"{model}{scaling}", 0, fields, test_accuracy=every(100, *[0.0] * before, 1.0))

    for benchmark, steps in (("pcfg_set", 280), ("cogs", 180)):
        runs = [
            run(benchmark, "sysgen_transformer", "teu", 1),
            run(benchmark, "sysgen_transformer", "ped", 2),
            run(benchmark, "relative_transformer", "none", 3),
        ]
        assert speedup(runs) == pytest.approx(steps / 380)
        assert speedup(runs, as_worded=True) == pytest.approx(180 / 380)


def test_convergence_leaves_the_relative_model_out_on_place_value_as_the_authors():
    def run(model, before):
        fields = {"type": model, "benchmark": "mathematics", "config": "numbers__place_value"}
        return made(model, 0, fields, test_accuracy=every(100, *[0.0] * before, 1.0))

    shared = [run(model, before) for model, before in zip(devil.PAIRS[1], (1, 2), strict=True)]
    runs = [*(run(model, before) for model, before in zip(devil.PAIRS[0], (1, 3), strict=True)), *shared]
    assert [len(devil.speedups(one)) for one in devil.convergence(runs).values()] == [1]
    assert [len(devil.speedups(one)) for one in devil.convergence(runs, as_worded=True).values()] == [2]


def test_runs_that_never_learn_are_named_and_not_counted():
    curves = [(model, seed, [0.0, last]) for model in devil.PAIRS[0] for seed, last in enumerate((1.0, 0.0))]
    runs = [made(model, seed, {"type": model}, test_accuracy=every(100, *ys)) for model, seed, ys in curves]
    found = analyse.convergence([(Path(), run) for run in runs])
    assert {row[3] for row in found.rows} == {1}
    assert [run.title for run in runs if run.seed == 1] == [note.partition(":")[0] for note in found.notes]
    for models in devil.convergence(runs).values():
        assert [one.accuracies[-1][1] for one in models.values()] == [0.5, 0.5]


def test_a_run_shorter_than_the_patience_is_named():
    run = made("short", splits={"test": 0.8}, validation_loss=every(10, 2, 1), test_accuracy=every(10, 0.1, 0.2))
    with pytest.raises(UserError, match=rf"{re.escape(run.title)}: 20 updates .* 2,500"):
        analyse.early_stopping([(Path(), run)])


def test_table_8_takes_the_scaling_that_generalizes_best():
    runs = [
        made("a", seed, splits={"validation": iid, "test": general})
        for seed, (iid, general) in enumerate(((1.0, 0.2), (0.8, 0.4)))
    ]
    runs += [made("b", splits={"validation": 1.0, "test": 0.1}), made("c", splits={"test": 0.9})]
    ((benchmark, row),) = devil.iid_table(runs)
    assert benchmark == "cogs current"
    assert row["sysgen_transformer"] == pytest.approx((0.9, math.sqrt(0.02), 0.3))


def test_table_8_of_mathematics_is_of_interpolation():
    splits = {"validation": 0.9, "test_iid": 0.7, "test": 0.2}
    math_runs = [
        made("m", seed, recipe={"benchmark": "mathematics", "config": "c"}, splits=splits) for seed in range(2)
    ]
    assert devil.iid_table([*math_runs, *(made("c", seed, splits=splits) for seed in range(2))]) == [
        ("mathematics c", {"sysgen_transformer": (0.7, 0.0, 0.2)}),
        ("cogs current", {"sysgen_transformer": (0.9, 0.0, 0.2)}),
    ]


def test_a_single_run_has_no_spread_in_tables():
    runs = [made(f"batch {size}", 0, {"size": size}, {"test": 0.5, "validation": 1.0}) for size in (64, 128)]
    found = [(Path(), run) for run in runs]
    assert analyse.iid_table(found).rows == [("cogs current", "1.00 (0.50)")]
    steps = runs[0].recipe.training.max_steps
    assert analyse.batch_table(found).rows == [
        ("cogs current", steps, "sysgen_transformer", 128, "0.50", 64, "0.50", "1.00")
    ]


def test_tables_say_which_setup_they_show():
    runs = [
        made(f"{rate} of {size}", 0, {"size": size, "training.learning_rate": rate}, {"test": rate, "validation": 1.0})
        for size, rate in ((64, 0.1), (64, 0.2), (128, 0.1))
    ]
    found = [(Path(), run) for run in runs]
    (note,) = analyse.iid_table(found).notes
    assert note.startswith("cogs current, sysgen_transformer: 3 setups")
    assert all(run.name in note for run in runs)
    # setups that were trained for longer are in no row
    longer = [
        made(
            f"long {rate}",
            0,
            {"size": 64, "training.learning_rate": rate, "training.max_steps": 123_456},
            {"test": 1.0},
        )
        for rate in (0.1, 0.2)
    ]
    (note,) = analyse.batch_table([*found, *((Path(), run) for run in longer)]).notes
    assert [run.name in note for run in runs] == [True, True, False]
    assert analyse.iid_table(found[1:2]).notes == []
    one_split = made("one split", splits={"test": 0.5})
    assert analyse.iid_table([found[1], (Path(), one_split)]).notes == [
        f"left out, as not judged on both splits: {one_split.title}"
    ]


def test_table_9():
    runs = [
        made(f"batch {size}", seed, {"size": size}, {"test": accuracy})
        for size, values in ((4096, (0.3, 0.5)), (1024, (0.9, 0.9)), (512, (0.1, 0.2)))
        for seed, accuracy in enumerate(values)
    ]  # fmt: skip
    (rows,) = devil.batch_table(runs).values()
    row = rows["sysgen_transformer"]
    assert row.big == pytest.approx((4096, 0.4, math.sqrt(0.02)))
    assert row.small == pytest.approx((512, 0.15, math.sqrt(0.005)))
    assert row.ratio == pytest.approx(0.15 / 0.4)
    with pytest.raises(UserError, match="two batch sizes"):
        devil.batch_table(runs[:2])
    # of two cells with one batch, the better one counts, whichever comes first
    worse = made("worse", 0, {"size": 512, "training.learning_rate": 0.5}, {"test": 0.01})
    for several in ([worse, *runs], [*runs, worse]):
        (rows,) = devil.batch_table(several).values()
        assert rows["sysgen_transformer"].small[1] == pytest.approx(0.15)
    # a longer run is compared with none of these, one in another precision with all
    longer = made("longer", 0, {"size": 8192, "training.max_steps": 123_456}, {"test": 1.0})
    again = made("batch 4096", 2, {"size": 4096, "training.bf16": True}, {"test": 0.7})
    compared, alone = devil.batch_table([*runs, longer, again]).values()
    assert alone == {}
    assert compared["sysgen_transformer"].big == pytest.approx((4096, 0.5, 0.2))


def test_accuracies_by_relations_are_over_seeds():
    stories = [{"k=10": [4, first], "k=2": [1, 1.0]} for first in (0.25, 0.75)]
    runs = [
        made("edge", seed, splits={"test": {"accuracy": 0.5, "by_category": one}}) for seed, one in enumerate(stories)
    ]
    other = made("rat", splits={"test": {"accuracy": 0.5, "by_category": {"k=2": [1, 0.5]}}})
    found = analyse.relations([(Path(), run) for run in (*runs, other)])
    assert found.rows == [("edge", 2, 1.0, 0.0, 2), ("edge", 10, 0.5, math.sqrt(0.125), 2), ("rat", 2, 0.5, 0.0, 1)]
    for splits in ({"test": {"accuracy": 0.5, "by_category": {"primitive": [1, 0.5]}}}, {"validation": 0.5}):
        with pytest.raises(UserError, match="edge seed 3"):
            analyse.relations([(Path(), made("edge", 3, splits=splits))])


def test_accuracies_by_the_entropy_of_roles():
    """The paper has 3.127 bits for its main scheme, on the test set of add-jump."""
    runs = [
        made("cell", seed, {"benchmark": "scan", "config": "addprim_jump", "data.role_scheme": scheme},
             {"test": accuracy})
        for scheme, seed, accuracy in (("scan_prim", 0, 0.9), ("scan_prim", 1, 0.7), ("scan_prim_dir_num", 0, 0.2))
    ]  # fmt: skip
    # other examples, so the same roles have another entropy
    fields = {"benchmark": "scan", "config": "simple_chakravarthy2022", "data.role_scheme": "scan_prim"}
    runs.append(made("other", 0, fields, {"test": 1.0}))
    found = analyse.role_entropy([(Path(), run) for run in runs])
    (_, abstract, low, *rest), (_, scheme, entropy, *main), (name, same, high, *_) = found.rows
    assert (name, same) == ("other", scheme)
    assert high > entropy
    assert (abstract, scheme) == ("scan_prim_dir_num", "scan_prim")
    assert round(entropy, 3) == 3.127
    assert low < entropy
    assert rest == [0.2, 0.0, 1]
    assert main == pytest.approx([0.8, math.sqrt(0.02), 2])
    with pytest.raises(UserError, match="cell seed 0"):
        analyse.role_entropy([(Path(), made(splits={"test": 0.5}))])


def sized(depth: int, width: int = 8, inner: int = 16, **more):
    sizes = {"num_hidden_layers": depth, "hidden_size": width, "intermediate_size": inner, "num_attention_heads": 2}
    file = more.pop("file", f"{depth} layers {width}")
    return made(file, recipe=sizes | more.pop("recipe", {}), **more)


def test_perplexities_are_relative_to_the_best_of_a_class():
    runs = [
        sized(depth, inner=64 // depth, splits={"validation": {"accuracy": 0.0, "perplexity": value}})
        for depth, value in ((4, 30.0), (1, 40.0), (2, 20.0))
    ]
    wide = sized(1, width=32, splits={"validation": {"accuracy": 0.0, "perplexity": 5.0}}, num_parameters=41_159_168)
    found = perplexities([*runs, wide])
    assert list(found) == ["0.0k", "41M"]
    assert [(one.depth, one.ratio, one.perplexity, one.relative) for one in found["0.0k"]] == [
        (1, 0.125, 40.0, 2.0), (2, 0.25, 20.0, 1.0), (4, 0.5, 30.0, 1.5),
    ]  # fmt: skip
    with pytest.raises(UserError, match="no perplexity"):
        perplexities([sized(1)])
    with pytest.raises(UserError, match=r"no model\.hidden_size"):
        perplexities([made(recipe={"num_hidden_layers": 1})])


def test_classes_of_one_rounded_size_are_told_apart_by_width():
    runs = [
        sized(2, width=width, splits=in_text(perplexity), num_parameters=count)
        for width, count, perplexity in ((8, 41_159_168, 20.0), (16, 41_100_000, 30.0), (32, 134_000_000, 10.0))
    ]
    found = {name: [one.perplexity for one in ones] for name, ones in perplexities(runs).items()}
    assert found == {"41M, width 16": [30.0], "41M, width 8": [20.0], "134M": [10.0]}
    assert list(found) == ["41M, width 16", "41M, width 8", "134M"]


def test_runs_of_an_edited_recipe_are_another_cell(tmp_path):
    runs = [
        made("one", seed, recipe, {"test": accuracy}, test_accuracy=every(100, accuracy), test_loss=every(100, 1.0))
        for seed, recipe, accuracy in ((0, {}, 0.25), (1, {"learning_rate": 2e-3}, 0.75), (2, {}, 0.5))
    ]
    assert {record.name for record in runs} == {"one"}
    done = invoke("double-descent", keep(tmp_path / "runs", *runs), "-o", tmp_path / "out")
    assert done.exit_code == 0
    _, *rows = csv.reader((tmp_path / "out" / "double-descent.csv").read_text().splitlines())
    assert sorted((row[3], row[5]) for row in rows if row[1] == "accuracy") == [("0.375", "2"), ("0.75", "1")]
    assert len({row[0] for row in rows}) == 2


def test_lexical_and_structural_cases_count_examples():
    categories = {
        "cp_recursion": [3, 0.0], "pp_recursion": [1, 1.0], "obj_pp_to_subj_pp": [1, 0.0],
        "active_to_passive": [1, 1.0], "subj_to_obj_common": [3, 0.5],
    }  # fmt: skip
    record = sized(2, splits={"test": {"accuracy": 0.5, "by_category": categories}})
    assert lexical_structural(record) == pytest.approx((2.5 / 4, 1 / 5))
    assert generalization([record]) == {"cogs current": {"0.0k": [(2, 0.5)]}}
    with pytest.raises(UserError, match="cp_recursion"):
        lexical_structural(sized(2, splits={"test": {"accuracy": 0.5, "by_category": {"active_to_passive": [1, 1.0]}}}))


def tuned_from(checkpoint: str, seed: int = 0, accuracy: float = 0.5, fields: dict | None = None, **recipe: Any):
    return sized(
        2, seed=seed, recipe={"pretrained": checkpoint, **recipe}, **(fields or {}),
        validation_loss_teacher=every(10, 2, 1), test_accuracy=every(10, 0.0, accuracy),
        splits={"test": {"accuracy": accuracy, "by_category": {
            "cp_recursion": [1, accuracy], "active_to_passive": [1, accuracy]}}},
    )  # fmt: skip


def test_means_are_over_seeds_alone(tmp_path, monkeypatch):
    # a seed of pretraining is one too, and where a run reads, writes and looks makes no other model
    edited = sized(2, seed=2, recipe={"learning_rate": 2e-3})
    keep(tmp_path / "p2", *(sized(2, seed=seed, recipe={"output_dir": f"{seed}"}) for seed in range(2)), edited)
    monkeypatch.chdir(tmp_path)
    start = "p2/0/model"
    seeds = [
        tuned_from(start, 0, 0.2, output_dir="a", **{"evaluation.batch_size": 1}),
        tuned_from(str(tmp_path / "p2" / "1" / "model"), 1, 0.4, **{"batches.length_buckets": 4}),
        # the default of this model's config
        tuned_from(start, 2, 0.9, share_layers=False),
    ]
    assert generalization(seeds)["cogs current"]["0.0k"] == [(2, pytest.approx(0.5))]
    # without a record of pretraining the folder decides
    gone = [tuned_from("gone/seed0/model"), tuned_from(str(tmp_path / "gone" / "seed0" / "model"), 1)]
    assert generalization(gone)["cogs current"]["0.0k"] == [(2, 0.5)]
    with pytest.raises(UserError, match=r"model\.pretrained"):
        generalization([gone[0], tuned_from("gone/seed1/model", 1)])
    for other, message in (
        (tuned_from("p2/0/step-10"), "model.pretrained is model of .* and step-10 of .*"),
        (tuned_from("p2/2/model"), "model.pretrained is model of .* and model of .*"),
        (tuned_from(start, share_layers=True), "model.share_layers is False and True"),
        (tuned_from(start, learning_rate=2e-3), "training.learning_rate is 0.001 and 0.002"),
        (tuned_from(start, fields={"steps": 100}), "training.max_steps is 20 and 100"),
        (tuned_from(start, fields={"pretrained_fields": {"dropout": 0.5}}), "model.dropout is 0.1 and 0.5"),
    ):
        for analysis in (generalization, by_structure, lambda runs: at_equal_loss(runs, 1.0)):
            with pytest.raises(UserError, match=f"2 layers 8 seed 0 and 2 layers 8 seed 0 are not.*: {message};"):
                analysis([seeds[0], other])
    # early stopping ends each seed elsewhere
    early = {"evaluation.early_stopping": {"metric": "loss", "patience": 5}}
    stopping = [tuned_from("m", seed, fields={"steps": 10 * seed}, **early) for seed in (1, 2)]
    assert generalization(stopping)["cogs current"]["0.0k"] == [(2, 0.5)]
    pretrained = [
        sized(2, recipe=recipe, splits={"validation": {"accuracy": 0.0, "perplexity": 20.0}})
        for recipe in ({}, {"share_layers": True})
    ]
    with pytest.raises(UserError, match="share_layers is False and True"):
        perplexities(pretrained)


@pytest.mark.parametrize("name", ["generalization-depth", "lexical-structural", "equal-loss"])
def test_runs_of_figure_6_are_left_out_of_the_others(name, tmp_path):
    final, matched = tuned_from("runs/p2/seed0/model", accuracy=0.6), tuned_from("runs/p2/seed0/step-10", accuracy=0.2)
    # alone on their benchmark, they are what was asked for
    alone = tuned_from("runs/p2/seed0/step-20", accuracy=0.3, benchmark="cogs_vf")
    runs = keep(tmp_path / "runs", final, named(matched, "matched"), named(alone, "alone"))
    done = invoke(name, runs, "-o", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert (len(done.stderr.splitlines()), "matched seed 0" in done.stderr) == (1, True)
    _, *rows = csv.reader((tmp_path / "out" / f"{name}.csv").read_text().splitlines())
    assert {(row[0], row[-1]) for row in rows} == {("cogs current", "0.6"), ("cogs_vf current", "0.3")}


@pytest.mark.parametrize("name", ["generalization-depth", "lexical-structural", "equal-loss"])
def test_runs_of_benchmarks_without_what_an_analysis_takes_are_passed_over(name, tmp_path):
    pretrained = sized(2, recipe={"benchmark": "c4"}, splits=in_text(20.0))
    # no categories, and no split to measure a loss on
    geoquery = [
        sized(2, seed=seed, recipe={"pretrained": "m", "benchmark": "geoquery"}, splits={"test": 0.5})
        for seed in range(2)
    ]
    tuned = tuned_from("m", accuracy=0.25)
    done = invoke(name, keep(tmp_path / "runs", pretrained, *geoquery, tuned), "-o", tmp_path / "out")
    assert done.exit_code == 0, done.output
    passed_over = "c4 current (1 run)" + ", geoquery current (2 runs)" * (name != "generalization-depth")
    assert done.stderr.endswith(f": {passed_over}\n")
    _, *rows = csv.reader((tmp_path / "out" / f"{name}.csv").read_text().splitlines())
    benchmarks = {"cogs current", "geoquery current"} if name == "generalization-depth" else {"cogs current"}
    assert {row[0] for row in rows} == benchmarks
    # of an encoder-decoder, which has two depths
    other = made("other", splits={"test": 0.9})
    done = invoke(name, keep(tmp_path / "more", pretrained, tuned, other), "-o", tmp_path / "out")
    assert done.exit_code == 0
    assert done.stderr.splitlines()[0].endswith(": other seed 0")
    # the same folder for the figures of pretraining
    done = invoke("perplexity-depth", tmp_path / "runs", "-o", tmp_path / "out")
    left = "geoquery current (2 runs), cogs current (1 run)"
    assert done.exit_code == 0
    assert done.stderr.endswith(f": {left}\n")
    # none is left, and of a benchmark that has it a run has not
    lacking = named(tuned, "lacking").model_copy(update={"splits": {}, "history": []})
    for runs in ([pretrained, geoquery[0].model_copy(update={"splits": {}})], [tuned, lacking]):
        folder = keep(tmp_path / runs[1].name, *runs)
        done = invoke(name, folder, "-o", tmp_path / "out")
        assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
        assert done.stderr.startswith(f"error: {runs[1].title}: ")


def test_figure_3_marks_the_usual_ratios(monkeypatch):
    """Black: the feed-forward block four times as wide as the model. Red: as wide."""
    panels = []
    monkeypatch.setattr(analyse, "draw_panels", lambda found: panels.extend(found))
    runs = [(Path(), sized(depth, splits=in_text(9.0 - depth))) for depth in (1, 2)]
    analyse.perplexity_depth(runs).draw()
    assert panels[-1].rules == [(1.0, "red"), (0.25, "black")]


def test_checkpoints_of_equal_perplexity():
    runs = [
        sized(1, validation_perplexity=every(10, 90, 50, 40)),
        sized(2, recipe={"kept_steps": [10, 20]}, validation_perplexity=every(10, 60, 40, 20)),
        sized(4, recipe={"kept_steps": [10]}, validation_perplexity=every(10, 35, 30, 25)),
    ]
    (matches,) = matched_perplexity(runs).values()
    assert [(one.reference_depth, one.depth, one.step, one.perplexity) for one in matches] == [
        (1, 1, 30, 40), (1, 2, 20, 40), (1, 4, 10, 35), (2, 2, 30, 20), (2, 4, None, None), (4, 4, 30, 25),
    ]  # fmt: skip
    # 40 at step 20 is of weights that are gone; at step 30 it is 20
    gone = sized(2, recipe={"kept_steps": [10, 25]}, validation_perplexity=every(10, 60, 40, 20))
    (matches,) = matched_perplexity([runs[0], gone]).values()
    assert (matches[1].step, matches[1].perplexity) == (30, 20)
    # evaluations every 10 steps, which does not divide 35 steps: the final weights are judged at the end
    ends = {"validation": {"accuracy": 0.0, "perplexity": 18.0}}
    longer = gone.model_copy(update={"steps": 35, "splits": made(splits=ends).splits})
    (matches,) = matched_perplexity([runs[0], longer]).values()
    assert [(one.step, one.perplexity) for one in matches[1:]] == [(35, 18.0), (35, 18.0)]
    with pytest.raises(UserError, match="second run of depth 1"):
        matched_perplexity([runs[0], runs[0]])


def test_accuracy_at_equal_loss():
    losses, accuracy = every(10, 0.8, 0.4, 0.1), every(10, 0.0, 0.2, 0.6)
    # halfway between the first two evaluations
    assert accuracy_at_loss(losses, accuracy, 0.6) == pytest.approx(0.1)
    assert accuracy_at_loss(losses, accuracy, 0.9) == 0.0
    assert accuracy_at_loss(losses, accuracy, 0.05) is None
    runs = [
        sized(1, validation_loss_teacher=losses, test_accuracy=accuracy),
        sized(2, validation_loss_teacher=every(10, 0.5, 0.2, 0.3), test_accuracy=every(10, 0.1, 0.4, 0.9)),
    ]
    assert lowest_losses(runs) == [0.1, 0.2]
    found = at_equal_loss(runs, 0.2)["cogs current"]["0.0k"]
    assert found == [(1, pytest.approx(0.2 + 0.4 * 2 / 3)), (2, 0.4)]


def test_a_run_shorter_than_the_patience_is_left_out(tmp_path):
    curves = {"test_accuracy": every(500, 0.25, 0.5), "validation_loss": every(500, 1.0, 0.5)}
    longer = {"test_accuracy": every(2000, 0.2, 0.4, 0.6), "validation_loss": every(2000, 1.0, 1.5, 2.0)}
    runs = keep(tmp_path / "runs", made("short", **curves), made("longer", 1, **longer))
    done = invoke("early-stopping", runs)
    assert done.exit_code == 0
    assert "short" not in done.stdout.partition("left out")[0]
    # noticed at 6000, the first evaluation 2500 steps after the best one
    assert "3500" in done.stdout
    assert invoke("early-stopping", runs, "--as-worded").exit_code == 0


def test_ranks_of_singular_values():
    assert effective_rank([2.0, 2.0, 2.0]) == pytest.approx(3)
    assert effective_rank([5.0, 0.0]) == pytest.approx(1)
    # p = 1/4, 3/4
    assert effective_rank([1.0, 3.0]) == pytest.approx(math.exp(0.25 * math.log(4) + 0.75 * math.log(4 / 3)))
    expected = [(1 / 3, 0.5), (2 / 3, 0.875), (1, 1)]
    for point, right in zip(cumulative_share([1.0, 4.0, 3.0]), expected, strict=True):
        assert point == pytest.approx(right)


def test_ranks_of_a_checkpoint(tmp_path):
    """Projections with known singular values; stacked ones are separated."""
    import torch

    from hf_sysgen.models import DepthWidthConfig, DepthWidthForCausalLM

    sizes = {"hidden_size": 4, "intermediate_size": 6, "num_attention_heads": 2, "num_hidden_layers": 2}
    model = DepthWidthForCausalLM(DepthWidthConfig(vocab_size=5, **sizes))
    values = {"gate": ([1, 1, 1, 1], [2, 2, 0, 0]), "input": ([3, 1, 0, 0],) * 2, "output": ([1, 0, 0, 0],) * 2}

    def weight(singular: list[int]) -> torch.Tensor:
        left, right = (torch.linalg.qr(torch.randn(size, 4))[0] for size in (6, 4))
        return left @ torch.diag(torch.tensor(singular).float()) @ right.T

    with torch.no_grad():
        for index, layer in enumerate(model.model.layers):
            gate, up, down = (weight(values[name][index]) for name in ("gate", "input", "output"))
            layer.feed_forward.gate_up_proj.weight.copy_(torch.cat((gate, up)))
            layer.feed_forward.down_proj.weight.copy_(down.T)
    model.save_pretrained(tmp_path / "model")
    # as a fine-tuned run, whose recipe has no sizes
    (folder, record), *_ = read_runs([keep(tmp_path / "runs", made(splits={"test": 0.5}))])
    model.save_pretrained(folder / "model")
    record = record.model_copy(update={"pretrained_fields": sizes})
    rows = analyse.ranks([(folder, record)]).rows
    assert [row[2:6] for row in rows] == [(2, 4 / 6, name, 4) for name in ("gate", "input", "output")]
    # seeds are averaged, and benchmarks are apart
    other = record.model_copy(update={"recipe": record.recipe.replace(**{"data.config": "other"})})
    again = record.model_copy(update={"seed": 1})
    found = analyse.ranks([(folder, record), (folder, again), (folder, other)]).rows
    assert [(row[0], row[-1]) for row in found] == [(row[0], 2) for row in rows] + [("cogs other", 1)] * 3
    assert [row[1:7] for row in found] == [pytest.approx(row[1:7]) for row in rows] * 2
    found = {one.projection: one for one in ranks(tmp_path)}
    assert {name: one.full for name, one in found.items()} == {"gate": 4, "input": 4, "output": 4}
    assert found["gate"].effective == pytest.approx((4 + 2) / 2, abs=1e-3)
    assert found["input"].effective == pytest.approx(effective_rank([3, 1]), abs=1e-3)
    assert found["output"].effective == pytest.approx(1, abs=1e-3)
    expected = [(0.25, 0.375), (0.5, 0.75), (0.75, 0.875), (1, 1)]
    for point, right in zip(found["gate"].cumulative, expected, strict=True):
        assert point == pytest.approx(right, abs=1e-4)


def test_evaluations_are_read_in_order(tmp_path):
    records = made_rows([{"loss": 0.5, "exact": True}, {"loss": 1.25, "exact": False}])
    for step in (1000, 500, 20000, 500):
        write_evaluation(tmp_path, "test", step, records)
    write_evaluation(tmp_path, "validation", 500, records[:1])
    found = read_evaluations(tmp_path, "test")
    assert [one.step for one in found] == [500, 1000, 20000]
    assert found[0] == Evaluation(500, [0.5, 1.25], [True, False])


def named(record: Record, file: str) -> Record:
    return record.model_copy(update={"file": file})


def keep(folder: Path, *records) -> Path:
    for index, record in enumerate(records):
        write_record(folder / str(index) / "results.json", record)
    return folder


def invoke(*words):
    return CliRunner().invoke(app, ["analyse", *map(str, words)])


def test_commands_write_table_and_figure(tmp_path):
    tuned = [
        sized(
            depth, recipe={"pretrained": "p"}, validation_loss=every(500, 3, 2, 1), test_loss=every(500, 3, 4, 5),
            validation_loss_teacher=every(500, 3, 2, 1), test_accuracy=every(500, 0.1, 0.2, 0.3),
            validation_accuracy=every(500, 0.1, 0.2, 0.3),
            splits={"validation": 1.0, "test": {"accuracy": 0.3, "by_category": {
                "cp_recursion": [1, 0.0], "active_to_passive": [1, 0.6]}}},
        )
        for depth in (1, 2)
    ]  # fmt: skip
    runs = keep(tmp_path / "runs", *tuned)
    names = (
        "early-stopping",
        "loss-accuracy",
        "double-descent",
        "generalization-depth",
        "lexical-structural",
        "equal-loss",
    )
    for name in names:
        options = ("--patience", "1000") if name == "early-stopping" else ()
        done = invoke(name, runs, *options, "-o", tmp_path / "out")
        assert done.exit_code == 0, done.output
        assert (tmp_path / "out" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        rows = list(csv.reader((tmp_path / "out" / f"{name}.csv").read_text().splitlines()))
        assert len(rows) > 2
        assert len({len(row) for row in rows}) == 1
    done = invoke("iid-table", runs, "-o", tmp_path / "out")
    assert "1.00 (0.30)" in done.stdout
    for step in (1, 2):
        examples = made_rows([{"loss": 0.5, "exact": True}, {"loss": 2.0 * step, "exact": False}])
        write_evaluation(runs / "0", "test", step, examples)
    assert invoke("good-bad-loss", runs / "0", "-o", tmp_path / "out").exit_code == 0
    assert (tmp_path / "out" / "good-bad-loss.csv").read_text() == "step,good,bad,all\n1,0.5,2.0,1.25\n2,0.5,4.0,2.25\n"
    several = invoke("good-bad-loss", runs, "-o", tmp_path / "out")
    assert (several.exit_code, "one run" in several.stderr) == (2, True)


def in_text(perplexity: float) -> dict[str, dict[str, float]]:
    return {"validation": {"accuracy": 0.0, "perplexity": perplexity}}


def test_fine_tuning_from_matched_checkpoints(tmp_path):
    """The script names the checkpoints that exist and comments on the others; their runs make the second panel."""
    pretrained = keep(
        tmp_path / "pre trained",
        sized(1, validation_perplexity=every(10, 90, 40), splits=in_text(40.0)),
        sized(2, recipe={"kept_steps": [10]}, validation_perplexity=every(10, 40, 20), splits=in_text(20.0)),
        sized(4, recipe={"kept_steps": [10]}, validation_perplexity=every(10, 35, 30), splits=in_text(30.0)),
    )
    for folder in ("0/model", "1/step-10", "1/model", "2/model"):
        (pretrained / folder).mkdir()
    tuned = keep(
        tmp_path / "tuned", sized(2, recipe={"pretrained": str(pretrained / "1" / "step-10")}, splits={"test": 0.5})
    )
    done = invoke("matched-perplexity", pretrained, tuned, "-o", tmp_path / "out", "--recipe", "petty2023/cogs_vf")
    assert done.exit_code == 0, done.output
    script = (tmp_path / "out" / "matched-perplexity.sh").read_text().splitlines()
    assert [line.partition(": ")[0] for line in script] == [
        "set -e",
        f"hf-sysgen train petty2023/cogs_vf 'model.pretrained={pretrained / '0' / 'model'}'",
        f"hf-sysgen train petty2023/cogs_vf 'model.pretrained={pretrained / '1' / 'step-10'}'",
        f"# {pretrained / '2' / 'step-10'}",
        f"hf-sysgen train petty2023/cogs_vf 'model.pretrained={pretrained / '1' / 'model'}'",
        f"# {pretrained / '2'}",
        f"hf-sysgen train petty2023/cogs_vf 'model.pretrained={pretrained / '2' / 'model'}'",
    ]
    assert invoke("perplexity-depth", pretrained, "-o", tmp_path / "out").exit_code == 0


def test_accuracies_at_equal_perplexity_are_of_one_benchmark(tmp_path, monkeypatch):
    pretrained = keep(
        tmp_path / "pretrained",
        sized(1, validation_perplexity=every(10, 90, 40), splits=in_text(40.0)),
        sized(2, recipe={"kept_steps": [10]}, validation_perplexity=every(10, 40, 20), splits=in_text(20.0)),
    )
    runs = [
        tuned_from(str(pretrained / folder), seed, accuracy, **{"benchmark": benchmark, "config": "c"})
        for folder, benchmark, accuracies in (
            ("0/model", "cogs", (0.25,)),
            ("1/step-10", "cogs", (0.5, 0.75)),
            ("1/step-10", "geoquery", (0.875,)),
        )
        for seed, accuracy in enumerate(accuracies)
    ]
    other = named(tuned_from("elsewhere/model"), "other")
    done = invoke("matched-perplexity", pretrained, keep(tmp_path / "tuned", *runs, other), "-o", tmp_path / "out")
    assert done.exit_code == 0
    assert done.stderr.endswith(": other seed 0\n")
    header, *rows = csv.reader((tmp_path / "out" / "matched-perplexity.csv").read_text().splitlines())
    assert header[1:] == ["reference layers", "layers", "step", "perplexity", "benchmark", "accuracy on test"]
    assert [row[1:] for row in rows] == [
        ["1", "1", "20", "40.0", "cogs c", "0.25"],
        ["1", "2", "10", "40.0", "cogs c", "0.625"],
        ["1", "2", "10", "40.0", "geoquery c", "0.875"],
        ["2", "2", "20", "20.0", "", ""],
    ]
    panels: list[Panel] = []
    monkeypatch.setattr(analyse, "draw_panels", lambda found: panels.extend(found))
    finding = analyse.matched_perplexity(read_runs([pretrained, tmp_path / "tuned"]))
    finding.draw()
    assert [(panel.title.split(", ")[1], [line.points for line in panel.lines]) for panel in panels[1:]] == [
        ("cogs c", [[(1, 0.25), (2, 0.625)]]),
        ("geoquery c", [[(2, 0.875)]]),
    ]
    done = invoke("matched-perplexity", pretrained, "-o", tmp_path / "out", "--recipe", "r.yaml")
    assert (done.exit_code, "r.yaml" in done.stderr) == (2, True)
    keep(tmp_path / "mixed", runs[1], runs[2].model_copy(update={"steps": 5}))
    done = invoke("matched-perplexity", pretrained, tmp_path / "mixed", "-o", tmp_path / "out")
    assert (done.exit_code, "training.max_steps" in done.stderr) == (2, True)


@pytest.mark.parametrize("size_class", ["41M", "134M", "374M"])
def test_shipped_recipes_of_pretraining_keep_what_figure_6_takes(size_class):
    """With perplexities that always fall and are lower for deeper models."""
    from hf_sysgen.config.io import read_recipe, shipped_recipes

    runs = []
    for path in (shipped_recipes() / "petty2023").glob(f"pretrain_{size_class}_*.yaml"):
        training = read_recipe(path).training
        depth = int(path.stem.rpartition("_")[2])
        steps = sorted({*range(training.eval_steps, training.max_steps + 1, training.eval_steps), *training.kept_steps})
        curve = [(step, (1 + 1 / depth) * (1 + training.max_steps / step)) for step in steps]
        kept = {"training.max_steps": training.max_steps, "kept_steps": list(training.kept_steps)}
        runs.append(sized(depth, recipe=kept, validation_perplexity=curve))
    (matches,) = matched_perplexity(runs).values()
    kept = {*runs[0].recipe.training.kept_steps, runs[0].steps}
    deeper = [match for match in matches if match.depth > match.reference_depth]
    assert len(deeper) == len(runs) * (len(runs) - 1) / 2
    assert {match.step for match in deeper} <= kept


def test_what_cannot_be_written_is_told_before_the_work(tmp_path):
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(UserError, match=r"folder\.png"):
        check_picture(tmp_path / "folder.png")
    check_picture(tmp_path / "folder.png" / "deeper" / "x.png")
    # only a finished picture makes folders
    assert not (tmp_path / "folder.png" / "deeper").exists()
    # where even root can write nothing
    with pytest.raises(UserError, match=r"/proc/x\.png: cannot be written to"):
        check_picture("/proc/x.png")


def test_commands_say_in_a_line_what_is_missing(tmp_path):
    runs = keep(tmp_path / "runs", made(splits={"test": 0.5}))
    (runs / "0" / "empty").mkdir()
    unreadable = tmp_path / "cell-seed0.json"
    unreadable.write_text("{")
    pretrained = keep(tmp_path / "pretrained", sized(2, validation_perplexity=every(10, 40, 20)))
    tuned = keep(tmp_path / "tuned", tuned_from(str(pretrained / "0" / "model")))
    elsewhere = keep(tmp_path / "elsewhere", tuned_from("m").model_copy(update={"splits": {}}))
    untested = keep(
        tmp_path / "untested", tuned_from(str(pretrained / "0" / "model")).model_copy(update={"splits": {}})
    )
    for words, named in (
        (("early-stopping", tmp_path / "none"), str(tmp_path / "none")),
        (("early-stopping", runs / "0" / "empty"), "results.json"),
        (("early-stopping", unreadable), str(unreadable)),
        (("early-stopping", runs), "accuracy of test"),
        (("good-bad-loss", runs / "0"), "evaluation.save_example_losses"),
        (("convergence", runs), "accuracy of test"),
        (("ranks", runs), "model.num_hidden_layers"),
        (("loss-accuracy", runs, keep(tmp_path / "other", made(splits={"gen": 0.5}))), "--loss-split"),
        (("matched-perplexity", tuned), "model.pretrained"),
        (("matched-perplexity", pretrained, untested), "2 layers 8 seed 0: "),
        (("matched-perplexity", pretrained, elsewhere), "2 layers 8 seed 0: "),
        (("equal-loss", tuned, "--loss", "0.0002"), "0.0002"),
    ):
        done = invoke(*words, "-o", tmp_path / "out")
        assert (done.exit_code, named in done.stderr, len(done.stderr.splitlines())) == (2, True, 1), done.output


def test_kept_records_are_runs_too(tmp_path):
    folder = keep(tmp_path / "runs", made(splits={"test": 0.5}))
    run = made("cell", 1, splits={"test": 0.75})
    kept = run.kept_at(tmp_path / "results")
    write_record(kept, run)
    for paths in ([folder, tmp_path / "results"], [folder / "0", kept], [folder / "0" / "results.json", kept]):
        assert [(path, record.seed) for path, record in read_runs(paths)] == [(folder / "0", 0), (kept, 1)]


def test_a_run_and_its_kept_record_are_one_run(tmp_path):
    run = made(recipe={"output_dir": "elsewhere"}, splits={"test": 0.5})
    folder = keep(tmp_path / "runs", run) / "0"
    kept = run.kept_at(tmp_path / "results")
    write_record(kept, run.without_local_paths())
    for paths in ([folder, kept], [kept, folder], [tmp_path]):
        assert [path for path, _ in read_runs(paths)] == [folder]


def test_runs_without_what_an_analysis_takes_are_counted(tmp_path):
    curves = {"test_accuracy": every(500, 0.25, 0.5), "test_loss": every(500, 2.0, 1.0)}
    curves |= {"validation_accuracy": every(500, 0.5, 1.0), "validation_loss": every(500, 1.0, 0.5)}
    stories = {"test": {"accuracy": 0.5, "by_category": {"k=2": [1, 0.5]}}, "validation": 1.0}
    runs = keep(tmp_path / "runs", made(splits=stories, **curves), made("bare", 3, splits={"validation": 0.5}))
    for name, option in (
        ("early-stopping", ("--patience", "500")), ("loss-accuracy", ("--loss-split", "test")), ("double-descent", ()),
        ("relations", ()),
    ):  # fmt: skip
        done = invoke(name, runs, *option, "-o", tmp_path / "out")
        assert done.exit_code == 0, done.output
        assert "1 of 2" in done.stderr
        assert "bare seed 3" in done.stderr


def test_every_analysis_of_kept_records(tmp_path, monkeypatch):
    """Those of checkpoints and of single examples say in a line that a kept record has none."""
    monkeypatch.chdir(tmp_path)
    scan = RESULTS / "csordas2021" / "scan_length26_quick_universal-seed0.json"
    tuned = RESULTS / "petty2023" / "cogs_vf_quick-seed0.json"
    of = {"relations": RESULTS / "bergen2021", "role-entropy": RESULTS / "chakravarthy2022"}
    of |= dict.fromkeys(("early-stopping", "loss-accuracy", "double-descent", "good-bad-loss"), scan)
    of |= dict.fromkeys(("convergence", "iid-table"), scan.parent)
    of |= {"perplexity-depth": RESULTS / "petty2023", "matched-perplexity": RESULTS / "petty2023"}
    of |= dict.fromkeys(("generalization-depth", "lexical-structural", "equal-loss", "ranks"), tuned)
    # no kept model has two sizes of batches
    assert {*of} == {*ANALYSES} - {"batch-table"}
    refused = set()
    for name, path in of.items():
        done = invoke(name, path)
        if done.exit_code:
            refused.add(name)
            assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1), done.output
            assert done.stderr.startswith(f"error: {path}")
    assert refused == {"good-bad-loss", "matched-perplexity", "ranks"}
