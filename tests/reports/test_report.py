"""Ours beside the papers': records found, tied to cells, compared by the rule, and written."""

from __future__ import annotations

import json
import math
import os
import re
import statistics
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from browser import BROWSER
from made_records import made_record, shipped
from scipy import stats
from typer.testing import CliRunner

from hf_sysgen.cli.main import app
from hf_sysgen.config.io import load_recipe, shipped_files, write_override
from hf_sysgen.config.sweep import load_sweep
from hf_sysgen.errors import UserError
from hf_sysgen.reports import comparison as reproduction
from hf_sysgen.reports.comparison import compare, compare_with_papers, difference_interval, summarize
from hf_sysgen.reports.curves import Curve, Point, draw_comparison, draw_curves
from hf_sysgen.reports.matching import Measurement, one_for_each_seed, runs_without_cell
from hf_sysgen.reports.page import _run_row
from hf_sysgen.reports.papers import Cell, Run, Table, find_tables, full_budget_recipe, papers
from hf_sysgen.reports.report import label, markdown_report, measured_cells, number, rule, setup_labels, terminal_report
from hf_sysgen.reports.sweep import results_text
from hf_sysgen.reports.write import write_report
from hf_sysgen.results.cells import labels
from hf_sysgen.results.reading import Collection, collect
from hf_sysgen.results.record import Record, write_record

ROOT = Path(__file__).parent.parent.parent
FILES = {Path(file).name: path for file, path in shipped_files().items()}
CELLS = [cell for paper in papers() for table in paper.tables for cell in table]
RUNS = {str(cell.run): cell.run for cell in CELLS if cell.run}
RATE = "training.learning_rate"


def made(recipe: str, seed: int, accuracy: float, overrides: dict | None = None, **fields) -> Record:
    """A record as a run of a shipped recipe leaves it."""
    split = {"examples": 10, "accuracy": accuracy, "by_length": [[2, 5, accuracy], [3, 5, accuracy]], "las": 0.5}
    test = {**split, "by_category": {"k=6": [5, 0.25], "k=10": [5, 0.75]}, **fields.pop("test", {})}
    logged = {"step": 10, "evaluations": {"test": {"accuracy": 0.1}, "validation": {"accuracy": 0.2}}}
    return made_record(
        shipped(recipe), {"validation": split, "test": test}, overrides, seed=seed, history=[logged], **fields
    )


def kept(folder: Path, records: list[Record]) -> Path:
    for index, record in enumerate(records):
        write_record(folder / f"{index}" / "results.json", record)
    return folder


def found(table: str, row: str, column: str, records: list[Record]):
    report = compare_with_papers(table, records)[0]
    return next(one for one in report if (one.cell.row, one.cell.column) == (row, column))


# ----- links


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_every_run_of_a_cell_is_one_of_a_recipe(run):
    """Its recipe holds what the cell names, and its overrides are those that the recipe says it has."""
    recipe = load_recipe(FILES[run.recipe], [write_override(key, value) for key, value in run.overrides.items()])
    assert run.matches(recipe.file, recipe.overrides)
    assert recipe.overrides.keys() == run.overrides.keys()
    assert run.setup(load_recipe(FILES[run.recipe])).cell == recipe.cell
    assert run.measure == "num_parameters" or run.measure.partition(".")[0] in ("test", "validation", "test_iid")


def test_every_printed_number_is_made_by_a_sweep():
    files = (path for path in (ROOT / "recipes").glob("*/sweeps/*.yaml") if not path.stem.startswith("appendix"))
    recipes = [run.recipe for path in files for run in load_sweep(path, ["seeds=[0]"]).runs]
    left_out = [
        (table.id, cell.row, cell.column)
        for paper in papers()
        for table in paper.tables
        for cell in table
        if cell.run and cell.mean is not None and not any(cell.run.matches(one.file, one.overrides) for one in recipes)
    ]
    assert left_out == []


def test_recipes_have_names_of_their_own():
    assert len(FILES) == len(shipped_files())


def cells_of(recipe: str) -> list[tuple[Table, Cell]]:
    """The tables and cells that a recipe without overrides makes, of a smaller budget too."""
    whole = full_budget_recipe(recipe)
    return [
        (table, cell)
        for paper in papers()
        for table in paper.tables
        for cell in table
        if cell.run and cell.run.recipe == whole and not cell.run.overrides
    ]


def test_tables_of_setups_and_figures_without_numbers_are_not_compared():
    compared = {table.id for _, table in find_tables("all") if table.compared}
    assert {"csordas2021-table3", "csordas2021-table5"} <= compared
    assert not {"csordas2021-table10", "bergen2021-table1", "petty2023-figure3", "chaabouni2021-figure1"} & compared


def test_a_run_is_shown_as_its_recipe_with_overrides():
    (cell,) = (
        one
        for _, table in find_tables("chaabouni2021-table3")
        for one in table
        if (one.row, one.column) == ("+ T5", "simple")
    )
    assert str(cell.run) == "scan_sag_t5 data.config=simple training.max_steps=16500"


def test_legends_name_what_is_drawn():
    drawn = draw_curves(
        [Curve("relative", [(0, 0.0), (1, 0.5)]), Curve("universal", [(0, 0.0)])], "step", "accuracy", "a"
    )
    compared = draw_comparison([Point("cell", 0.5, None, 0.25, None)], "share", (0.0, 1.0), "b")
    assert all(f">{name}<" in drawn for name in ("relative", "universal"))
    assert all(f">{name}<" in compared for name in ("paper", "ours", "cell"))


@pytest.mark.parametrize("recipe", FILES)
def test_a_recipe_that_names_a_cell_names_one_that_it_makes(recipe):
    about = shipped(recipe).paper
    if about.cell is None:
        # the number that a speedrun is to reach is compared with its cell in test_docs.py
        assert about.test is None or recipe.startswith("speedrun_")
        return
    name = re.match(r"(Table|Figure) \d+", about.cell)
    assert name, about.cell
    assert name[0] in {table.name for _, table in find_tables("all")}
    if about.test is None:
        # a figure that is drawn without numbers, or one that stands for several cells
        return
    text = about.cell.lower()
    # a table of one row or of one column needs no name for it
    named = [
        cell
        for table, cell in cells_of(recipe)
        if table.name == name[0]
        and (cell.row.lower() in text or len(table.cells) == 1)
        and (cell.column.lower() in text or len(table.columns) == 1)
    ]
    assert len(named) == 1, (about.cell, [cell for _, cell in cells_of(recipe)])
    scale = 100 if named[0].unit == "percent" else 1
    assert math.isclose(named[0].mean, about.test * scale, rel_tol=1e-9)
    if about.validation is not None:
        iid = [cell.mean for _, cell in cells_of(recipe) if cell.run.measure.startswith("validation")]
        assert set(iid) == {about.validation}


def test_recorded_runs_have_their_cells():
    """The results that this repository keeps are all placed, by their files and their numbers."""
    kept_results = collect([ROOT / "results"])
    assert kept_results.skipped == ()
    records = [record for _, record in kept_results.records]
    # the paper's models are larger and read more, or it draws them without numbers
    others = (
        "pretrain_quick_",
        "cogs_vf_quick",
        "geoquery_quick",
        "clutrr_rat_234",
        "clutrr_rrat_234",
        "clutrr_gat_234",
        "cfq_dependencies_edge",
        "scan_length26_random_t5",
        "speedrun_",
        # the paper's column Simple has another learning rate
        "scan_jump_role_loss_quick,data.config=simple_chakravarthy2022",
    )
    assert all(cell[0].name.startswith(others) for cell in runs_without_cell(records))
    one = found("csordas2021-table3", "SCAN (length cutoff=26)", "Uni. Trafo", records)
    record = next(r for r in records if r.name == "scan_length26_quick_universal")
    ours = next(ours for ours in one.ours if ours.name == record.name)
    assert ours.values == (record.splits["test"].accuracy,)
    assert ours.budget == 3_500 * 64 / (50_000 * 256)
    assert one.verdict == reproduction.SMALLER
    assert "batches.size 64 (paper: 256)" in ours.changes
    size = found("csordas2021-table5", "SCAN, Universal", "No. of params", records)
    assert (size.ours[0].mean, size.verdict) == (332_551, reproduction.REPRODUCED)
    # half as wide as the paper's
    assert found("csordas2021-table3", "COGS", "Trafo", records).ours
    assert not found("csordas2021-table5", "COGS, Standard", "No. of params", records).ours


def test_a_run_with_a_long_name_is_found(tmp_path):
    """Its folder's name is cut and ends in a hash; its file and overrides are in the record."""
    folder = "runs/" + "x" * 200 + "/seed0/model"
    small = {"batches.size": 512, RATE: 0.0001, "schedule.type": "constant", "training.max_steps": 50000}
    long = made("cfq_transformer", 0, 0.05, {"data.config": "mcd2", **small, "model.dropout": 0.1234567890123456})
    assert len(long.name) > 120
    records = [
        made("cogs", 0, 0.7, {"model.pretrained": folder}),
        made("cfq_transformer", 0, 0.05, {"data.config": "mcd2", **small}),
    ]
    kept(tmp_path, records)
    back = [record for _, record in collect([tmp_path]).records]
    assert [record.overrides for record in back] == [record.overrides for record in records]
    assert len(back[0].name) > 160
    assert found("csordas2021-table9", "CFQ MCD 2, Small", "Transformer", back).ours[0].values == (0.05,)
    assert runs_without_cell(back) == [[back[0]]]
    assert runs_without_cell([long]) == [[long]]


def test_overrides_in_any_order_and_runs_of_no_cell():
    cell = "CFQ MCD 2, Small", "Transformer"
    small = {"batches.size": 512, RATE: 0.0001, "schedule.type": "constant", "training.max_steps": 50000}
    mixed = dict(reversed({"data.config": "mcd2", **small}.items()))
    records = [made("cfq_transformer", 0, 0.05, mixed), made("cfq_transformer", 0, 0.5, {"model.dropout": 0.3})]
    assert found("csordas2021-table9", *cell, records).ours[0].values == (0.05,)
    assert runs_without_cell(records) == [[records[1]]]
    pretrained = {"model.pretrained": "runs/pretrain_41M_7/seed0/model"}
    one = found("petty2023-table3", "COGS", "41M, 7", [made("cogs", 0, 0.7, pretrained)])
    assert (one.cell.printed, one.ours[0].values) == ("72.3", (70.0,))
    assert one.verdict == reproduction.SINGLE


def test_runs_of_one_name_with_an_edited_recipe_are_not_pooled():
    cell = "csordas2021-table3", "SCAN (length cutoff=26)", "Uni. Trafo"
    # a field that the file leaves out
    edited = shipped("scan_length26_universal").replace(**{"model.layer_norm_eps": 1e-3})
    records = [
        made("scan_length26_universal", 0, 0.2),
        made_record(edited, {"test": 0.9}, seed=1),
        made("scan_length26_universal", 2, 0.4),
    ]
    assert len({record.name for record in records}) == 1
    assert {one.values for one in found(*cell, records).ours} == {(0.2, 0.4), (0.9,)}
    # nor outside the papers' tables, and the names of both are told apart
    outside = [
        made_record(edited.replace(seed=seed), {"test": 0.5}, file="mine", recipe_values={RATE: rate}, seed=seed)
        for seed, rate in enumerate((0.1, 0.2, 0.1))
    ]
    assert [[record.seed for record in runs] for runs in runs_without_cell(outside)] == [[0, 2], [1]]
    assert len(set(labels(runs_without_cell(outside)))) == 2
    text = markdown_report([], Collection(tuple((Path(), record) for record in outside), ()))
    assert all(name in text for name in labels(runs_without_cell(outside)))


def test_every_cell_of_the_depth_table_is_a_run_of_a_sweep():
    """Of that recipe, and from the model of its column; a recipe that is a cell has the cell's number."""
    sweeps = [load_sweep(f"petty2023/sweeps/table3_{name}.yaml") for name in ("pretraining", "fine_tuning")]
    recipes = [run.recipe for sweep in sweeps for run in sweep.runs]
    splits = {"validation": {"accuracy": 0.5, "perplexity": 50.0}, "test": 0.5}
    records = [made_record(one, splits, file=one.file) for one in recipes]
    records = [
        record.model_copy(update={"overrides": one.overrides}) for record, one in zip(records, recipes, strict=True)
    ]
    assert runs_without_cell(records) == []
    cells = list(compare_with_papers("petty2023-table3", records)[0])
    assert len(cells) == len(recipes) == 5 * 22
    for cell in cells:
        (one,) = cell.ours
        assert (one.changes, cell.verdict) == ((), reproduction.SINGLE), cell.cell
        recipe = one.records[0].recipe
        size_class, depth = cell.cell.column.split(", ")
        wanted = f"pretrain_{size_class}_{depth}"
        assert one.name == wanted or recipe.model.pretrained == f"runs/{wanted}/seed0/model"
        paper = recipe.paper.test or recipe.paper.validation
        assert paper in (None, cell.cell.mean, pytest.approx(cell.cell.mean / 100))


# ----- statistics


def table_and_cell(printed: str, spread: str | None = "std", seeds: int | None = 5, unit: str = "share"):
    cell = Cell("row", "column", printed, unit, spread, seeds, Run("recipe", {}, "test.accuracy"))
    return find_tables("csordas2021-table3")[0][1], cell


def measurement(*values: float, budget: float = 1.0, changes: tuple = ()) -> Measurement:
    return Measurement("name", values, tuple(range(len(values))), budget, (7, 7), 7, changes, ())


def test_mean_and_spread():
    records = [made("scan_length26_transformer", seed, value) for seed, value in enumerate((0.25, 0.5, 0.25, 0.5))]
    one = found("csordas2021-table3", "SCAN (length cutoff=26)", "Trafo", [*records, records[1]])
    # of a seed that is there twice one counts
    assert one.ours[0].seeds == (0, 1, 2, 3)
    # by hand: deviations of 1/8, so 4/64 / 3
    assert one.ours[0].mean == 0.375
    assert math.isclose(one.ours[0].std, math.sqrt(1 / 48))
    assert math.isclose(one.ours[0].sem, math.sqrt(1 / 48) / 2)
    assert math.isclose(one.ours[0].difference, 0.075)
    assert one.ours[0].budget == 1
    assert one.ours[0].changes == ()
    assert number(one.ours[0].std, one.cell) == "0.144"
    report = compare_with_papers("csordas2021-table3", records)
    assert "0.30 ± 0.02  0.375  0.144  0.072     4  " in terminal_report(report, collect([]))


def test_the_rule_is_in_the_whole_report_alone(tmp_path):
    one = write_report("csordas2021-table3", [tmp_path], None)
    assert rule() not in one
    assert one.endswith("`hf-sysgen report all` writes.")
    for ending in ("txt", "md"):
        write_report("all", [tmp_path], tmp_path / f"report.{ending}")
        assert rule() in (tmp_path / f"report.{ending}").read_text(encoding="utf-8")


def test_the_interval_is_welch_s():
    """Of two sides whose values are known, and where the degrees of freedom are whole."""
    ours, theirs = [0.3, 0.4, 0.5], [0.1, 0.2, 0.3]
    table, cell = table_and_cell("0.2 ± 0.1", seeds=3)
    low, high = difference_interval(cell, table, measurement(*ours))
    known = stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval(0.95)
    assert math.isclose(low, known.low - 0.05, abs_tol=1e-4)
    assert math.isclose(high, known.high + 0.05, abs_tol=1e-4)
    # a standard error says the same as the standard deviation that it was made of
    _, error = table_and_cell("0.2 ± 0.05", "sem", 4)
    _, deviation = table_and_cell("0.2 ± 0.10", "std", 4)
    assert difference_interval(error, table, measurement(*ours)) == pytest.approx(
        difference_interval(deviation, table, measurement(*ours))
    )


def test_the_interval_where_one_side_is_a_single_run():
    table, cell = table_and_cell("0.20 ± 0.10", seeds=5)
    low, high = difference_interval(cell, table, measurement(0.5))
    # t of 4 degrees of freedom, 0.1 sqrt(1 + 1/5), half of 0.01
    half = 2.7764451052 * 0.1 * math.sqrt(1.2) + 0.005
    assert (low, high) == pytest.approx((0.3 - half, 0.3 + half))
    _, alone = table_and_cell("0.20", spread=None, seeds=1)
    assert difference_interval(alone, table, measurement(0.5)) is None
    values = (0.4, 0.5, 0.6)
    half = 4.3026527299 * statistics.stdev(values) * math.sqrt(1 / 3 + 1) + 0.005
    assert difference_interval(alone, table, measurement(*values)) == pytest.approx((0.3 - half, 0.3 + half))
    # where the number of runs is not stated, two
    _, unknown = table_and_cell("0.20 ± 0.10", "std", None)
    half = 12.7062047364 * 0.1 * math.sqrt(1.5) + 0.005
    assert difference_interval(unknown, table, measurement(0.5)) == pytest.approx((0.3 - half, 0.3 + half))


def test_a_spread_printed_as_zero_is_half_a_digit():
    table, cell = table_and_cell("1.00 ± 0.00", seeds=5)
    low, high = difference_interval(cell, table, measurement(1.0))
    assert high == -low == pytest.approx(2.7764451052 * 0.005 * math.sqrt(1.2) + 0.005)


@pytest.mark.parametrize(
    ("printed", "ours", "verdict"),
    [
        ("0.81 ± 0.01", measurement(0.81, 0.811, 0.809, 0.812, 0.81), reproduction.REPRODUCED),
        ("0.81 ± 0.01", measurement(0.5, 0.51, 0.49, 0.5, 0.5), reproduction.DIFFERS),
        ("0.81 ± 0.01", measurement(0.91, 0.9, 0.92), reproduction.DIFFERS),
        ("0.81 ± 0.20", measurement(0.8, 0.81, 0.82), reproduction.OPEN),
        ("0.81 ± 0.01", measurement(0.81, 0.81, 0.81, budget=0.5), reproduction.REACHED),
        ("0.81 ± 0.01", measurement(0.95, 0.93, 0.94, budget=0.5), reproduction.REACHED),
        ("0.81 ± 0.01", measurement(0.7, 0.71, 0.72, budget=0.5), reproduction.SMALLER),
        ("0.81", measurement(0.81, budget=0.5), reproduction.SMALLER),
        # a single run has no spread of its own
        ("0.81 ± 0.01", measurement(0.81, budget=0.5), reproduction.SMALLER),
        ("0.81 ± 0.01", measurement(0.9, budget=0.5), reproduction.SMALLER),
        # a model that has learned nothing would reach such a number
        ("0.02 ± 0.01", measurement(0.02, 0.02, 0.02, budget=0.5), reproduction.SMALLER),
        ("0.03 ± 0.01", measurement(0.03, 0.03, 0.03, budget=0.5), reproduction.REACHED),
        ("0.02 ± 0.01", measurement(0.02, 0.02, 0.02, 0.02, 0.02), reproduction.REPRODUCED),
        ("0.81 ± 0.01", measurement(0.81, 0.81, 0.81, budget=1.5), reproduction.LARGER),
        ("0.81 ± 0.01", measurement(0.81, 0.81, 0.81, changes=("dropout 0.2 (paper: 0.1)",)), reproduction.OTHER),
        ("", measurement(0.81), reproduction.NO_NUMBER),
        ("?", measurement(0.81), reproduction.NO_NUMBER),
    ],
)
def test_verdicts(printed, ours, verdict):
    table, cell = table_and_cell(printed)
    assert compare(cell, table, [ours]).verdict == verdict


def test_other_data_and_other_models_reach_nothing():
    table, cell = table_and_cell("0.81 ± 0.01")
    reached = measurement(0.95, 0.93, 0.94, budget=0.5)
    assert compare(cell, table, [replace(reached, other_data=True)]).verdict == reproduction.OTHER_TASK
    assert compare(replace(cell, other_model=True), table, [reached]).verdict == reproduction.OTHER_TASK
    smaller = {"training.max_steps": 1150}
    records = [
        made("scan_jump_transformer", 0, 0.001, {**smaller, "data.config": "addprim_jump"}),
        made("scan_jump_transformer_quick", 0, 0.001),
    ]
    # an override with another set is a cell of its own, a quick recipe with another set is marked
    assert runs_without_cell(records) == [[records[0]]]
    one = found("chakravarthy2022-table1", "Transformer", "Add jump", records)
    assert [ours.other_data for ours in one.ours if not ours.chosen] == [True]
    assert one.verdict == reproduction.OTHER_TASK
    reference = made("scan_length26_transformer", 0, 0.25, smaller, test={"accuracy_oracle": 0.99})
    assert found("csordas2021-table1", "Reference, +EOS+Oracle", "26", [reference]).verdict == reproduction.OTHER_TASK


def test_an_override_with_the_paper_s_value_is_no_difference():
    name = "scan_jump_transformer_quick"
    theirs = shipped("scan_jump_transformer").data.config
    assert shipped(name).data.config != theirs
    record = made(name, 0, 0.001, {"data.config": theirs})
    assert runs_without_cell([record]) == []
    one = found("chakravarthy2022-table1", "Transformer", "Add jump", [record])
    assert not one.ours[0].other_data
    assert one.verdict == reproduction.SMALLER


def test_a_smaller_budget_has_its_own_batches():
    """Although the cell overrides its recipe's batch size. A run that overrides it with another size makes no cell."""
    cell = "chakravarthy2022-table1", "Filler + Role loss, no thresh", "Simple"
    own = {"data.config": "simple_chakravarthy2022", RATE: 1e-3, "training.max_steps": 3450}
    for recipe, overrides, count in (
        ("scan_jump_role_loss_quick", own, 1),
        ("scan_jump_role_loss_quick", own | {"batches.size": 32}, 0),
        ("scan_jump_role_loss", own, 0),
        ("scan_jump_role_loss", own | {"batches.size": 512}, 1),
    ):
        record = made(recipe, 0, 0.99, overrides)
        assert len(runs_without_cell([record])) == 1 - count
        assert len({one.name for one in found(*cell, [record]).ours}) == count


def test_an_interval_without_0_differs_although_part_of_it_is_within_the_margin():
    table, cell = table_and_cell("0.810 ± 0.001")
    ours = measurement(0.828, 0.83, 0.832)
    low, high = difference_interval(cell, table, ours)
    assert 0 < low < 0.02 < high
    assert compare(cell, table, [ours]).verdict == reproduction.DIFFERS


@pytest.mark.parametrize(
    ("budget", "verdict"),
    [(0.999, reproduction.SMALLER), (1.0, reproduction.DIFFERS), (1.001, reproduction.LARGER)],
)
def test_a_budget_is_the_papers_or_it_is_not(budget, verdict):
    table, cell = table_and_cell("0.81 ± 0.01")
    assert compare(cell, table, [measurement(0.5, 0.51, 0.52, budget=budget)]).verdict == verdict


def test_of_perplexities_less_is_reached_from_below():
    table, cell = table_and_cell("50.0 ± 0.1", unit="perplexity")
    assert compare(cell, table, [measurement(45.0, 45.1, 45.2, budget=0.5)]).verdict == reproduction.REACHED
    assert compare(cell, table, [measurement(55.0, 55.1, 55.2, budget=0.5)]).verdict == reproduction.SMALLER
    # the margin is 2 % of it
    assert compare(cell, table, [measurement(50.4, 50.5, 50.6, budget=0.5)]).verdict == reproduction.REACHED
    assert compare(cell, table, [measurement(51.4, 51.5, 51.6, budget=0.5)]).verdict == reproduction.SMALLER


def test_precision_is_marked_and_makes_no_other_cell():
    """Runs in both precisions are one measurement; of a seed in both the precision of most counts, then the paper's."""
    cell = "bergen2021-table5", "k=2,3,4, Base", "test k=10"
    half = {"training.bf16": True}
    records = [
        made("clutrr_edge_234", 0, 0.5, half, test={"by_category": {"k=10": [5, 0.25]}}),
        made("clutrr_edge_234", 0, 0.5, test={"by_category": {"k=10": [5, 0.75]}}),
        made("clutrr_edge_234", 1, 0.5, half, test={"by_category": {"k=10": [5, 0.5]}}),
    ]
    assert runs_without_cell(records) == []
    (one,) = found(*cell, records).ours
    assert (one.seeds, one.values, one.changes) == ((0, 1), (25.0, 50.0), ())
    assert one.precision.startswith("bfloat16")
    (even,) = found(*cell, records[:2]).ours
    assert (even.values, even.precision) == ((75.0,), "")
    other = made("clutrr_edge_234", 2, 0.5, test={"by_category": {"k=10": [5, 0.5]}})
    (mixed,) = found(*cell, [*records[2:], other]).ours
    assert mixed.precision.startswith("1 of 2 runs in bfloat16")
    (alone,) = found(*cell, records[1:2]).ours
    assert alone.precision == ""
    # what was computed counts, not what was asked for
    on_cpu = {"environment": {"device": "a CPU", "num_threads": 1, "precision": "float32"}}
    (told,) = found(*cell, [made("clutrr_edge_234", 0, 0.5, {"training.fp16": True}, **on_cpu)]).ours
    assert told.precision == ""
    # the paper's is mixed precision, of another kind
    records = [made("pcfg_transformer", 0, 0.5, {"training.fp16": False, **half})]
    cells = [one for table in compare_with_papers("csordas2021", records) for one in table.measured]
    assert cells
    assert {ours.precision for one in cells for ours in one.ours} == {""}


def test_the_authors_choice_on_the_test_set_has_a_row_of_its_own():
    """Of the best evaluation during training, only where evaluations were over all test examples."""
    name, cell = "scan_jump_role_loss_threshold", ("chakravarthy2022-table1", "Filler + Role loss, thresh", "Add jump")
    record = made(name, 0, 0.05)
    last, chosen = found(*cell, [record]).ours
    assert (last.values, last.chosen) == ((5.0,), False)
    assert (chosen.values, chosen.chosen) == ((10.0,), True)
    one = found(*cell, [record])
    assert (one.verdict, one.ours[1].verdict) == (one.ours[0].verdict, reproduction.CHOSEN)
    sampled = made(name, 0, 0.05, recipe_values={"evaluation.examples": 1000})
    assert [one.chosen for one in found(*cell, [sampled]).ours] == [False]
    # of one evaluation nothing is chosen
    once = record.model_copy(update={"history": []})
    assert [one.chosen for one in found(*cell, [once]).ours] == [False]


def test_the_other_embedding_scaling_stands_beside_the_cell_and_the_better_is_chosen():
    name, cell = "scan_length26_transformer", ("csordas2021-table1", "Trafo", "26")
    stated = shipped(name).model.fields["embedding_scaling"]
    other = next(scaling for scaling in ("none", "ped") if scaling != stated)
    own = [made(name, seed, 0.25) for seed in (0, 1)]
    changed = [made(name, seed, 0.5, {"model.embedding_scaling": other}) for seed in (0, 1)]
    assert runs_without_cell(changed) == []
    first, second, chosen = found(*cell, [*own, *changed]).ours
    assert (first.mean, first.changes) == (0.25, ())
    assert (second.mean, second.changes) == (0.5, (f"model.embedding_scaling {other} (paper: {stated})",))
    assert (chosen.mean, chosen.chosen) == (0.5, True)
    assert (second.verdict, chosen.verdict) == (reproduction.OTHER, reproduction.CHOSEN)
    # of one scaling nothing is chosen
    assert [one.chosen for one in found(*cell, own).ours] == [False]


def test_a_mean_of_cells_is_over_the_seeds_that_all_have():
    cell = "bergen2021-table3", "Edge Transformer", "MCD avg."
    configs = {"mcd1": {}, "mcd2": {"data.config": "mcd2_edge"}, "mcd3": {"data.config": "mcd3_edge"}}
    records = [
        made("cfq_edge", seed, accuracy + seed / 10, overrides)
        for accuracy, overrides in zip((0.5, 0.1, 0.3), configs.values(), strict=True)
        for seed in range(2)
    ]
    (one,) = found(*cell, records).ours
    assert one.seeds == (0, 1)
    assert one.values == pytest.approx((30.0, 40.0))
    assert [one.seeds for one in found(*cell, records[:-1]).ours] == [(0,)]
    assert found(*cell, records[:2]).verdict == reproduction.NOT_MEASURED


def test_cases_without_the_papers_numbers():
    """They are found by the benchmark's name, show ours alone, and count in no summary."""
    record = made("slog_transformer", 0, 0.25, test={"by_category": {"CP_3": [4, 0.5]}})
    (report,) = compare_with_papers("slog", [record])
    values = {(one.cell.row, one.cell.column): [ours.centre for ours in one.ours] for one in report.measured}
    assert values == {("Transformer", "all"): [25.0], ("Transformer", "CP_3"): [50.0]}
    assert {one.verdict for one in report.measured} == {reproduction.NO_NUMBER}
    assert report.table.name == "SLOG"
    assert all(cell.has_recipe and cell.mean is None for cell in report.table)
    assert summarize([report]) == []


def test_summary_counts_cells_by_verdict():
    table = find_tables("csordas2021-table3")[0][1]
    records = [
        made("scan_length26_transformer", seed, value) for seed, value in enumerate((0.30, 0.31, 0.29, 0.3, 0.3))
    ]
    reports = compare_with_papers("csordas2021-table3", records)
    (one,) = summarize(reports)
    assert one.with_recipe == sum(cell.has_recipe for cell in table)
    verdict = found("csordas2021-table3", "SCAN (length cutoff=26)", "Trafo", records).verdict
    assert (one.measured, dict(one.verdicts), one.counts) == (1, {verdict: 1}, 0)
    *papers_, whole = summarize(compare_with_papers("all", records))
    assert len(papers_) == sum(any(table.numbers == "printed" for table in paper.tables) for paper in papers())
    assert whole.measured == sum(paper.measured for paper in papers_)
    assert whole.with_recipe == sum(paper.with_recipe for paper in papers_)
    assert whole.others == sum(paper.others for paper in papers_)


def test_a_difference_without_weight_is_reproduced_in_percent_and_not_in_share():
    """The margin is of the unit: 1.5 percentage points are within it, 1.5 times everything is not."""
    table, cell = table_and_cell("81.0 ± 0.1", unit="percent")
    assert compare(cell, table, [measurement(82.5, 82.5, 82.5)]).verdict == reproduction.REPRODUCED
    assert compare(cell, table, [measurement(83.5, 83.5, 83.5)]).verdict == reproduction.DIFFERS
    table, cell = table_and_cell("0.810 ± 0.001")
    assert compare(cell, table, [measurement(0.835, 0.835, 0.835)]).verdict == reproduction.DIFFERS


def test_medians_are_compared_with_our_median():
    records = [made("scan_length26_relative", seed, value) for seed, value in enumerate((0.61, 0.1, 0.65))]
    one = found("csordas2021-table1", "Rel. Trafo", "26", records)
    assert one.ours[0].difference == pytest.approx(0.0)
    low, high = one.ours[0].interval
    half = 4.3026527299 * statistics.stdev([0.61, 0.1, 0.65]) * math.sqrt((1 / 3 + 1 / 5) * math.pi / 2) + 0.005
    assert (low, high) == pytest.approx((-half, half))


def test_beside_a_median_stands_our_median(tmp_path):
    """The number that the difference is of: 0.61, and not the mean of 0.4533."""
    records = [made("scan_length26_relative", seed, value) for seed, value in enumerate((0.61, 0.1, 0.65))]
    one = found("csordas2021-table1", "Rel. Trafo", "26", records)
    assert next(measured_cells(one))[1] == "0.610"
    kept(tmp_path / "runs", records)
    write_report("csordas2021-table1", [tmp_path / "runs"], tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert '<span class="ours">0.610 ± ' in text
    assert "0.453" not in text.partition('id="runs"')[0]


def test_what_many_runs_share_is_said_once(tmp_path):
    few = {"training.max_steps": 50}
    split = [{"data.config": f"length_cutoff_{cutoff}", **few} for cutoff in (22, 24, 25)]
    records = [made("scan_length26_relative", 0, 0.6, one) for one in split]
    records += [made("scan_length26_universal", 0, 0.6, one) for one in split]
    kept(tmp_path / "runs", records)
    write_report("csordas2021-table1", [tmp_path / "runs"], tmp_path / "report.md")
    lines = [
        line for line in (tmp_path / "report.md").read_text().splitlines() if "training.max_steps 50 (paper:" in line
    ]
    assert len(lines) == 1
    assert "scan_length26_relative; scan_length26_universal: " in lines[0]


def test_neighbouring_seeds_are_written_as_a_range(tmp_path):
    kept(tmp_path / "runs", [made("scan_length26_relative", seed, 0.6) for seed in (0, 1, 2, 5)])
    write_report("csordas2021-table1", [tmp_path / "runs"], tmp_path / "report.html")
    assert "seeds 0-2, 5<" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_runs_with_other_steps_are_a_line_of_their_own():
    records = [made("cogs_transformer", seed, 0.8) for seed in range(3)]
    short = {"training.max_steps": 500}
    records += [made("cogs_transformer", 0, 0.2, short), made("cogs_transformer", 1, 0.3, short)]
    one = found("csordas2021-table3", "COGS", "Trafo", records)
    assert [len(ours.values) for ours in one.ours] == [3, 2]
    assert [ours.verdict for ours in one.ours] == [reproduction.REPRODUCED, reproduction.SMALLER]
    assert one.ours[1].budget == 0.01


def test_a_changed_recipe_under_the_same_name_is_not_called_a_reproduction():
    records = [made("cogs_transformer", seed, 0.8, recipe_values={RATE: 0.01}) for seed in range(3)]
    one = found("csordas2021-table3", "COGS", "Trafo", records)
    assert (one.verdict, one.ours[0].changes) == (reproduction.OTHER, ("training.learning_rate 0.01 (paper: 0.0001)",))


@pytest.mark.parametrize(
    ("values", "change"),
    [
        ({"model.share_layers": True}, "model.share_layers True (paper: False)"),
        ({"training.neftune_noise_alpha": 5.0}, "training.neftune_noise_alpha 5.0 (paper: the default)"),
    ],
    ids=str,
)
def test_a_key_that_the_paper_s_recipe_lacks_is_a_change_too(values, change):
    records = [made("cogs_transformer", seed, 0.8, recipe_values=values) for seed in range(3)]
    one = found("csordas2021-table3", "COGS", "Trafo", records)
    assert (one.verdict, one.ours[0].changes) == (reproduction.OTHER, (change,))


def test_seeds_of_several_recipes_of_one_name_are_not_pooled():
    """Judged by what each was trained as, and not by the first of them."""
    records = [made("cogs_transformer", 0, 0.8), made("cogs_transformer", 1, 0.8)]
    records += [made("cogs_transformer", 2, 0.3, recipe_values={RATE: 0.01})]
    records += [made("cogs_transformer", 3, 0.5, recipe_values={"batches.size": 64})]
    one = found("csordas2021-table3", "COGS", "Trafo", records)
    assert [(ours.seeds, ours.budget, ours.changes) for ours in one.ours] == [
        ((0, 1), 1.0, ()),
        ((2,), 1.0, ("training.learning_rate 0.01 (paper: 0.0001)",)),
        ((3,), 0.5, ("batches.size 64 (paper: 128)",)),
    ]
    assert [ours.verdict for ours in one.ours[1:]] == [reproduction.OTHER, reproduction.SMALLER]


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_runs_of_a_seed_the_one_in_the_paper_s_precision_counts(order):
    """Where each precision has as many runs."""
    found = [
        made("cogs_transformer", 0, accuracy, recipe_values={"training.bf16": half})
        for accuracy, half in ((0.8, False), (0.4, True))
    ]
    (one,) = one_for_each_seed(found[::order], shipped("cogs_transformer"))
    assert one.splits["test"].accuracy == 0.8


def test_rows_of_one_cell_say_how_their_models_differ():
    runs = [
        made_record(shipped("cogs_transformer"), {"test": {"accuracy": 0.5}}, recipe_values=values)
        for values in (
            {},
            {"model.embedding_scaling": "none"},
            {"model.embedding_scaling": "none", "training.max_steps": 9},
        )
    ]
    one = found("csordas2021-table3", "COGS", "Trafo", runs)
    plain = label(one)
    assert set(setup_labels(one)) == {plain, f"{plain} [embedding_scaling none]"}
    assert set(setup_labels(found("csordas2021-table3", "COGS", "Trafo", runs[1:]))) == {plain}


def test_the_budget_of_runs_that_epochs_end():
    def run(steps: int, seed: int = 0, **values) -> Record:
        splits = {"test_iid": {"accuracy": 0.0, "bleu": 7.5}}
        return made_record(shipped("flores_sag"), splits, recipe_values=values, steps=steps, seed=seed)

    one = found("chaabouni2021-table7", "ne-en", "SAG", [run(34_567)])
    assert (one.ours[0].values, one.ours[0].budget, one.ours[0].steps) == ((7.5,), 1.0, (34_567, 34_567))
    assert one.ours[0].paper_steps is None
    assert one.verdict == reproduction.OPEN
    assert next(measured_cells(one))[5] == "34,567 steps (100% of examples)"
    one = found("chaabouni2021-table7", "ne-en", "SAG", [run(34_567), run(34_789, 1)])
    assert [measured.seeds for measured in one.ours] == [(0, 1)]
    assert next(measured_cells(one))[5] == "34,567 to 34,789 steps (100% of examples)"
    one = found("chaabouni2021-table7", "ne-en", "SAG", [run(34_567, **{"batches.epochs": 25})])
    assert (one.ours[0].budget, one.verdict) == (0.25, reproduction.SMALLER)
    # ended by its steps, of which nobody knows how many epochs they are
    whole = run(shipped("flores_sag").training.max_steps)
    assert found("chaabouni2021-table7", "ne-en", "SAG", [whole]).ours[0].budget is None


# ----- files


def test_files_that_are_no_records_are_named_and_the_rest_is_reported(tmp_path):
    kept(tmp_path / "runs", [made("cogs_transformer", seed, 0.8) for seed in range(2)])
    whole = (tmp_path / "runs" / "1" / "results.json").read_text()
    faults = {
        "half": whole[: len(whole) // 2],
        "empty": "",
        "list": "[]",
        "keys": json.dumps({"schema_version": 2}),
        "older keys": json.dumps({"schema_version": 1}),
        "bytes": "\udcff",
        "version": whole.replace('"schema_version": 2', '"schema_version": 99'),
    }
    for name, text in faults.items():
        (tmp_path / "runs" / name).mkdir()
        (tmp_path / "runs" / name / "results.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    result = collect([tmp_path / "runs", tmp_path / "absent"])
    assert len(result.records) == 2
    assert len(result.skipped) == len(faults) + 1
    for name in faults:
        assert sum(str(tmp_path / "runs" / name / "results.json") in line for line in result.skipped) == 1
    assert any(line.startswith(f"{tmp_path / 'absent'}: ") for line in result.skipped)
    for output in ("report.html", "report.md", "report.txt"):
        printed = write_report("csordas2021-table3", [tmp_path / "runs"], tmp_path / output)
        text = (tmp_path / output).read_text()
        for name in faults:
            assert f"{name}/results.json" in text
            assert f"{name}/results.json" in printed
        assert "0.800" in text
        assert "not measured" in text or output == "report.md"


def test_folders_within_one_another_and_kept_records(tmp_path):
    kept(tmp_path, [made("cogs_transformer", 0, 0.8)])
    one = made("cogs_transformer", 1, 0.9)
    write_record(one.kept_at(tmp_path), one)
    (tmp_path / "0" / "model").mkdir()
    (tmp_path / "0" / "model" / "config.json").write_text("{}")
    result = collect([tmp_path, tmp_path / "0", tmp_path])
    assert ([record.seed for _, record in result.records], result.skipped) == ([1, 0], ())
    # files may be given too; one that is also found in a folder counts once
    copy = tmp_path / "copy.json"
    write_record(copy, one)
    result = collect([one.kept_at(tmp_path), copy, tmp_path])
    assert [path for path, _ in result.records] == [one.kept_at(tmp_path), copy, tmp_path / "0" / "results.json"]


def test_numbers_that_a_record_lacks_leave_the_cell_unmeasured():
    report = compare_with_papers("bergen2021-table5", [made("clutrr_edge_234", 0, 0.9)])[0]
    assert {one.cell.column for one in report.measured} == {"test k=6", "test k=10"}
    record = made("clutrr_edge_234", 0, 0.9, test={"accuracy": None})
    assert not compare_with_papers("bergen2021-table4", [record])[0].measured


# ----- command


def command(*words: str):
    return CliRunner().invoke(app, ["report", *words])


def test_a_page_is_not_replaced_by_one_without_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words in ((), ("csordas2021", "--output", "report.html")):
        done = command(*words)
        assert done.exit_code == 2
        assert "runs" in done.stderr
        assert not list(tmp_path.iterdir())


def test_cases_of_the_page_are_means():
    values = [{"a": [4, accuracy], **more} for accuracy, more in ((0.25, {}), (0.75, {"b": [2, 0.5]}))]
    records = [
        made("cogs_transformer", seed, 0.8, test={"accuracy": 0.5, "by_category": one})
        for seed, one in enumerate(values)
    ]
    assert _run_row("x", records).cases == {"a": 0.5, "b": 0.5}


def test_command_prints_a_table(tmp_path):
    kept(tmp_path, [made("cogs_transformer", seed, 0.8) for seed in range(3)])
    done = command("csordas2021-table3", "--runs", str(tmp_path))
    assert done.exit_code == 0
    line = next(line for line in done.stdout.splitlines() if line.startswith("COGS, Trafo"))
    assert line.split()[2:7] == ["0.80", "±", "0.00", "0.800", "0.000"]
    assert line.endswith("reproduced")
    assert sum(line.endswith("not measured") for line in done.stdout.splitlines()) == 38


def test_a_file_of_one_table_has_the_runs_of_that_table(tmp_path):
    kept(tmp_path, [*(made("cogs_transformer", seed, 0.8) for seed in range(3)), made("scan_jump_conv", 0, 0.5)])
    for ending in ("md", "txt", "html"):
        done = command("csordas2021-table3", "--runs", str(tmp_path), "--output", str(tmp_path / f"x.{ending}"))
        assert "3 runs" in done.stdout
        assert "scan_jump_conv" not in (tmp_path / f"x.{ending}").read_text()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("csordas2021-table33",), "csordas2021-table1"),
        (("table3",), "bergen2021, chaabouni2021, chakravarthy2022, csordas2021, li2023, petty2023"),
        (("all", "--runs", "rnus"), "rnus: "),
        (("all", "--output", "report.pdf"), "report.pdf: "),
    ],
)
def test_command_with_bad_input(words, named, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = command(*words)
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")
    assert named in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        write_report("csordas2021-table3", [tmp_path], tmp_path / "file" / "report.md")


# ----- the page


class Page(HTMLParser):
    """Ids, what is asked for elsewhere, and whether every element is closed where it should be."""

    VOID = ("meta", "link", "br", "hr", "img", "input")

    def __init__(self, text: str):
        super().__init__()
        self.open, self.ids, self.references, self.tags = [], [], [], set()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        for key, value in attributes:
            if key == "id":
                self.ids.append(value)
            if key in ("href", "src", "xlink:href", "action", "srcset", "data"):
                self.references.append(value)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def whole_report(tmp_path_factory) -> Path:
    """A page of all tables, with runs of several papers, a long name, and files that are skipped."""
    folder = tmp_path_factory.mktemp("report")
    records = [made("scan_length26_transformer", seed, 0.3 + seed / 100) for seed in range(3)]
    records += [made("clutrr_edge_234", seed, 0.9) for seed in range(2)]
    records += [made("cfq_dependencies_edge", 0, 0.9, {"data.config": "mcd3"}), made("cogs_transformer", 0, 0.4)]
    # no run of ours has such an override; a file of results may
    records += [made("cogs_transformer", 0, 0.4, {"model.note": "<script>" + "x" * 80, "model.dropout": 0.3})]
    kept(folder / "runs", records)
    (folder / "runs" / "broken-seed0.json").write_text('{"cut')
    done = command("all", "--runs", str(folder / "runs"), "--output", str(folder / "report.html"))
    assert done.exit_code == 0, done.stderr
    assert f"skipped {folder / 'runs' / 'broken-seed0.json'}" in done.stdout
    return folder / "report.html"


def test_the_page_needs_nothing_else(whole_report):
    text = whole_report.read_text(encoding="utf-8")
    page = Page(text)
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    assert {"table", "svg", "nav", "main", "figure"} <= page.tags
    assert not {"script", "img", "iframe", "object", "embed"} & page.tags
    for reference in page.references:
        assert reference == "data:," or (reference[0] == "#" and reference[1:] in page.ids), reference
    assert not re.search(r"https?://|@import|url\((?!#)|//cdn", text)
    # every heading of a table can be jumped to
    assert {table.id for paper in papers() for table in paper.tables} <= set(page.ids)
    # what comes from a record is text, never markup
    assert "<script>" not in text
    assert "AMD EPYC &lt;test&gt; &amp; Co" in text
    assert "broken-seed0.json" in text
    assert "cogs_transformer,model.dropout=0.3,model.note=&lt;script&gt;" in text


def test_the_page_says_of_every_cell_what_it_is(whole_report):
    text = whole_report.read_text(encoding="utf-8")
    for paper, table in find_tables("all"):
        part = text.partition(f'<h3 id="{table.id}">')[2].partition("<h3 ")[0].partition("</section>")[0]
        cells = part[: part.find("</table>")].count("<td>")
        assert cells == (len(list(table)) if table.cells else 0), (paper.id, table.id)
    assert text.count("not measured") > 300


def test_the_page_is_the_same_each_time(whole_report, tmp_path):
    again = tmp_path / "again.html"
    write_report("all", [whole_report.parent / "runs"], again)
    assert again.read_text() == whole_report.read_text()


def markdown_tables(text: str) -> list[list[dict[str, str]]]:
    """The rows of each table, by the table's columns; each row has as many cells as there are columns."""
    tables = []
    for block in re.findall(r"(?:^\|.*\n)+", text, flags=re.M):
        header, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines())
        tables.append([dict(zip(header, row, strict=True)) for row in rows])
    return tables


def test_markdown_has_the_measured_cells(whole_report, tmp_path):
    write_report("all", [whole_report.parent / "runs"], tmp_path / "report.md")
    tables = markdown_tables((tmp_path / "report.md").read_text(encoding="utf-8"))
    rows = [row for table in tables for row in table]
    cells = {row["cell"]: row for row in rows if row.keys() >= {"cell", "paper", "ours"}}
    assert len(cells) > 1
    scan = cells["SCAN (length cutoff=26), Trafo"]
    assert (scan["paper"], float(scan["ours"])) == ("0.30 ± 0.02", pytest.approx(0.31))
    assert {float(row["ours"]) for cell, row in cells.items() if cell.endswith("Edge Transformer, MCD3, EM")} == {90.0}
    # which was not measured
    assert not any(cell.startswith("MCD3, EM") for cell in cells)
    values = [set(row.values()) for row in rows if "model.dropout=0.3" in " ".join(row.values())]
    assert any({"test", "accuracy", "0.400", "1"} <= row for row in values)


def test_runs_are_shown_by_what_they_are_judged_by(tmp_path):
    """A language model by perplexity, translation by BLEU, else by exact match; in the page and in Markdown."""
    measures = {"a": {"perplexity": 12.34}, "b": {"bleu": 7.89}, "c": {}}
    records = [made("cogs_transformer", 0, 0.4, {"model.note": name}, test=more) for name, more in measures.items()]
    kept(tmp_path / "runs", records)
    (tmp_path / "r.md").write_text("notes")
    write_report("all", [tmp_path / "runs"], tmp_path / "r.html")
    # a report is one file
    assert (tmp_path / "r.md").read_text() == "notes"
    write_report("all", [tmp_path / "runs"], tmp_path / "r.md")
    page, text = ((tmp_path / f"r.{kind}").read_text(encoding="utf-8") for kind in ("html", "md"))
    for name, measure, value in (("a", "perplexity", "12.3"), ("b", "bleu", "7.9"), ("c", "accuracy", "0.400")):
        assert f"test: {measure} {value}<" in page
        assert f"| cogs_transformer,model.note={name} | test | {measure} | {value} | 1 |" in text


def test_a_report_of_no_runs_says_so(tmp_path):
    tmp_path.joinpath("runs").mkdir()
    assert ": 0 runs" in write_report("all", [tmp_path / "runs"], tmp_path / "r.html")
    assert not [report for report in compare_with_papers("all", []) if report.measured]
    assert "Bergen et al. 2021, Table 2" in markdown_report(
        compare_with_papers("all", []), collect([tmp_path / "runs"])
    )


# ----- in a browser

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
         "--disable-background-networking", "--disable-component-update", "--disable-sync"]  # fmt: skip


def browse(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [BROWSER, *FLAGS, f"--user-data-dir={folder / 'profile'}", *words],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "HOME": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no chromium, chromium-browser or google-chrome on the PATH")
@pytest.mark.parametrize("width", [390, 1280])
def test_in_a_browser(whole_report, tmp_path, width):
    """Nothing reaches beyond the page at a phone's width and at a desktop's, and all drawings have a size."""
    script = """
      const page = document.querySelector("iframe").contentDocument, root = page.documentElement;
      const drawings = [...page.querySelectorAll("svg")].map(svg => svg.getBoundingClientRect());
      const wide = [...page.querySelectorAll("body *")].filter(
        e => !e.closest(".scroll, figure") && e.getBoundingClientRect().right > root.clientWidth + 1);
      document.body.dataset.found = JSON.stringify({
        scroll: root.scrollWidth, client: root.clientWidth, wide: wide.map(e => e.outerHTML.slice(0, 80)),
        drawings: drawings.length, flat: drawings.filter(box => box.width < 100 || box.height < 50).length,
        family: page.defaultView.getComputedStyle(page.body).fontSize, title: page.title,
        heading: page.querySelector("h1").textContent});"""
    inside = whole_report.read_text(encoding="utf-8").replace("&", "&amp;").replace('"', "&quot;")
    frame = tmp_path / "frame.html"
    frame.write_text(
        f'<!doctype html><meta charset="utf-8"><body><iframe style="border:0;width:{width}px;height:900px" '
        f'srcdoc="{inside}"></iframe><script>window.onload = () => {{{script}}}</script>',
        encoding="utf-8",
    )
    text = browse(tmp_path, "--window-size=1600,1000", "--virtual-time-budget=5000", "--dump-dom", frame.as_uri())
    quoted = re.search(r'data-found="([^"]*)"', text)
    assert quoted, text[-500:]
    measures = json.loads(quoted[1].replace("&quot;", '"').replace("&lt;", "<").replace("&gt;", ">"))
    assert measures["client"] == measures["scroll"] == width
    assert measures["wide"] == []
    assert measures["drawings"] >= 5
    assert measures["flat"] == 0
    assert measures["title"] == measures["heading"] != ""


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no chromium, chromium-browser or google-chrome on the PATH")
def test_a_screenshot_shows_the_page_light_and_dark(whole_report, tmp_path):
    from matplotlib import image

    shades = {}
    # how Blink counts them: dark is 0
    for name, scheme in (("dark", 0), ("light", 1)):
        shot = tmp_path / f"{name}.png"
        browse(tmp_path, "--window-size=1000,4000", f"--blink-settings=preferredColorScheme={scheme}",
               f"--screenshot={shot}", whole_report.as_uri())  # fmt: skip
        shades[name] = float(image.imread(shot)[..., :3].mean())
    assert shades["dark"] < 0.5 < shades["light"]


def test_results_have_mean_and_deviation_of_cells_with_seeds():
    records = [made_record(seed=seed, splits={"test": accuracy}) for seed, accuracy in enumerate((0.25, 0.5))]
    _, first, second, mean = results_text(records).splitlines()
    assert ("0.2500" in first, "0.5000" in second, "0.3750 ± 0.1768" in mean) == (True, True, True)
    assert "±" not in results_text(records[:1])
