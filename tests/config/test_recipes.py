"""Recipes: the schema, its errors, and every file of recipes/ for two steps."""

from __future__ import annotations

import functools
import json
import re
import sysconfig
import typing
from pathlib import Path

import made_examples
import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from made_examples import any_benchmark
from tiny_runs import SIZES, TINY, short_scan, shrunk
from tiny_text import write_tokenizer

import hf_sysgen.config.recipe
import hf_sysgen.training.run
import hf_sysgen.training.tasks.base
from hf_sysgen.config.check import DERIVED_FIELDS, own_fields
from hf_sysgen.config.io import dump_recipe, load_recipe, parse_recipe, recipe_setups, shipped_recipes
from hf_sysgen.config.recipe import Recipe, RecipeError
from hf_sysgen.data import benchmark_info
from hf_sysgen.models import CONFIGS, DepthWidthConfig
from hf_sysgen.reports.papers import papers
from hf_sysgen.results.record import read_record
from hf_sysgen.training.run import run_recipe
from hf_sysgen.training.tasks import translation as translation_task
from hf_sysgen.training.tasks.base import prepare_task

ROOT = Path(__file__).parents[2]
FILES = sorted(path for path in ROOT.glob("recipes/*/*.yaml") if path.parent.name != "accelerate")
# what differs between the files of a benchmark is the model, which the other one runs
SLOW = [path for path in FILES if path.stem.startswith(("iwslt14_", "flores_", "noun_adj")) and path.stem[-3:] != "_t5"]
SLOW += [path for path in FILES if path.stem.startswith("pretrain_") and path.stem != "pretrain_134M_6"]


def test_there_are_recipes():
    assert len(FILES) >= 6


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=pytest.mark.slow) if path in SLOW else path for path in FILES],
    ids=lambda path: path.stem,
)
def test_every_recipe_runs_two_steps(path, tmp_path, monkeypatch):
    monkeypatch.setattr(hf_sysgen.training.tasks.base, "load_benchmark", any_benchmark)
    # whose outputs are short: a model that has learned nothing writes as far as it may
    monkeypatch.setattr(made_examples, "small_scan", short_scan)
    search = functools.partial(translation_task.search_settings, max_length=8)
    monkeypatch.setattr(translation_task, "search_settings", search)
    head = path.read_text(encoding="utf-8").splitlines()
    assert head[0].startswith("# ")
    assert any(line.startswith("# Paper:") for line in head)
    assert any(line.startswith("# Measured here:") for line in head)
    assert any(line.startswith("# Command:") for line in head)
    recipe = load_recipe(path)
    assert recipe.config in benchmark_info(recipe.benchmark).configs
    overrides = [*shrunk(recipe), f"output_dir={tmp_path / 'run'}"]
    if recipe.benchmark == "c4":
        overrides.append(f"tokenizer={write_tokenizer(tmp_path / 'tokenizer')}")
    results = run_recipe(load_recipe(path, overrides))
    assert results.steps == 2
    assert read_record(tmp_path / "run" / "results.json").recipe.model == load_recipe(path).model


def counted_seeds(path: Path) -> list[int] | None:
    """The seeds that a recipe's head names."""
    found = re.search(r"^# .*seeds (\d+) to (\d+)\)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [*range(int(found[1]), int(found[2]) + 1)] if found else None


def test_heads_name_the_seeds_of_the_sweeps_that_run_them():
    """But for quick sweeps, which run the paper's setup less often, and a footnote's runs, which it counts apart."""
    heads = {path.stem: seeds for path in FILES if (seeds := counted_seeds(path))}
    assert len(heads) >= 50
    swept = set()
    for path in ROOT.glob("recipes/*/sweeps/*.yaml"):
        keys = yaml.safe_load(path.read_text(encoding="utf-8"))
        for name in (Path(recipe).stem for recipe in keys["recipes"]):
            apart = path.stem == "table7_cfq_length_learning_rate" or path.stem.endswith("_quick")
            if name in heads and (not apart or name.endswith("_quick")):
                assert heads[name] == keys["seeds"], (path.stem, name)
                swept.add(name)
    # which is of no table
    assert heads.keys() - swept == {"cogs_graph_transformer"}
    assert heads["cogs_graph_transformer"] == heads["cogs_graph_universal"]


def test_heads_say_of_how_many_runs_the_paper_s_numbers_are():
    """As the papers' files count them, which leave out what is quoted."""
    made = {(cell.run.recipe, cell.seeds) for paper in papers() for table in paper.tables for cell in table if cell.run}
    counts = 0
    for path in (path for path in FILES if path.parent.name == "bergen2021" and "quick" not in path.stem):
        title = path.read_text(encoding="utf-8").partition("\n")[0]
        known = {seeds for recipe, seeds in made if recipe == path.stem}
        if said := re.search(r"\(mean of (\d+) runs\)", title):
            # where a text has another number of the recipe beside its table's, its runs may not be counted
            assert known - {None} <= {int(said[1])}, path.stem
            assert counted_seeds(path) == [*range(int(said[1]))], path.stem
            counts += 1
        else:
            assert known <= {None}, path.stem
            assert "(quoted there from " in title or path.stem == "cogs_graph_transformer"
    assert counts >= 12


def test_the_paper_s_setup_of_the_scan_cells():
    cells = [load_recipe(path) for path in FILES if path.stem.startswith("scan_length26_") and "quick" not in path.stem]
    assert len(cells) == 4
    for recipe in cells:
        assert (recipe.steps, recipe.batch_size, recipe.learning_rate, recipe.max_grad_norm) == (50_000, 256, 1e-3, 5.0)
        assert (recipe.schedule, recipe.sampling, recipe.early_stopping) == ("constant", "with_replacement", "none")
        fields = {"hidden_size": 128, "intermediate_size": 256, "num_attention_heads": 8, "dropout": 0.1,
                  "encoder_layers": 3, "decoder_layers": 3}  # fmt: skip
        assert fields.items() <= dict(recipe.model_fields).items()


def test_the_paper_s_setup_of_the_edge_transformer():
    """Table 1: L, d, h, batch, learning rate, and the number of epochs or steps; the rest is quoted from others."""
    quoted = {"clutrr_gat_234", "cogs_graph_universal", "cogs_graph_transformer", "cfq_dependencies_bilstm"}
    paths = [path for path in FILES if path.parent.name == "bergen2021" and path.stem not in quoted]
    cells = {path.stem: load_recipe(path) for path in paths}
    table = {
        "clutrr_edge": (8, 200, 4, 400, 1e-3), "clutrr_rat": (8, 320, 8, 200, 1e-3),
        "clutrr_rrat": (6, 320, 8, 200, 1e-3), "cfq_dependencies_edge": (7, 360, 4, 500, 1e-3),
        "cfq_dependencies_transformer": (7, 360, 4, 1000, 1e-3), "cfq_dependencies_universal": (8, 360, 4, 500, 1e-3),
        "cfq_edge": (6, 256, 8, 64, 6e-4), "cfq_sparql_universal": (4, 256, 8, 64, 6e-4),
        "cogs_graph_edge": (3, 64, 4, 100, 5e-4),
    }  # fmt: skip
    seen = set()
    for name, recipe in cells.items():
        key = name.removesuffix("_234").removesuffix("_23")
        if not name.endswith("_quick"):
            config = CONFIGS[recipe.model](**recipe.model_fields)
            fields = config.num_hidden_layers, config.hidden_size, config.num_attention_heads
            assert (*fields, recipe.batch_size or recipe.max_tokens, recipe.learning_rate) == table[key]
            seen.add(key)
    assert seen == set(table)
    sizes = {
        name: benchmark_info(cell.benchmark).configs[cell.config].num_examples["train"] for name, cell in cells.items()
    }
    epochs_of = {"clutrr_edge_234": 50, "clutrr_rat_234": 50, "clutrr_rrat_234": 50, "cfq_edge": 100,
                 "cfq_sparql_universal": 100}  # fmt: skip
    for name, epochs in epochs_of.items():
        assert cells[name].steps == epochs * -(-sizes[name] // cells[name].batch_size)
    # without the filter, as the heads say
    for name in ("cfq_edge", "cfq_sparql_universal"):
        size = benchmark_info("cfq").configs["mcd1_edge_unfiltered"].num_examples["train"]
        text = (ROOT / "recipes" / "bergen2021" / f"{name}.yaml").read_text(encoding="utf-8")
        assert f"`steps={100 * -(-size // cells[name].batch_size)}`" in text
    # clutrr/train.py, cogs/train.py and cfq/train.py of the authors' code: schedule, warm-up, decay, clipping, dropout
    trained = {
        "clutrr_edge_234": ("linear", 100, 0.0, 1.0, 0.2), "clutrr_rat_234": ("linear", 100, 0.0, 1.0, 0.2),
        "clutrr_rrat_234": ("linear", 100, 0.0, 1.0, 0.2), "cogs_graph_edge": ("linear", 1000, 0.01, 1.0, 0.1),
        "cfq_edge": ("linear", 1000, 0.0, 100.0, 0.1),
    }  # fmt: skip
    for name, values in trained.items():
        cell = cells[name]
        how = cell.schedule, cell.warmup_steps, cell.weight_decay, cell.max_grad_norm
        assert (*how, cell.model_fields["dropout"]) == values, name
    assert {cells[f"cfq_dependencies_{name}"].steps for name in ("edge", "transformer", "universal")} == {8000}
    assert cells["cogs_graph_edge"].steps == 24_155 * 200 // 100


def test_the_paper_s_setup_of_gated_attention_on_scan():
    """Chaabouni et al. 2021, Appendix A.1: what all share, and the grid of each architecture."""
    shared = {"batch_size": 256, "learning_rate": 5e-4, "max_grad_norm": 1.0, "dropout": 0.1, "attention_dropout": 0.1,
              "adam_beta1": 0.9, "adam_beta2": 0.999, "schedule": "constant", "sampling": "epochs", "max_tokens": None,
              "label_smoothing": 0.0, "weight_decay": 0.0, "early_stopping": "none"}  # fmt: skip
    grids = {
        "transformer": [4, 6, 8],
        "sag": [4, 6, 8],
        "sag_convolution": [4, 6],
        "sag_fixed_span": [4],
        "sag_t5": [4],
    }
    counts = {config: info.num_examples["train"] for config, info in benchmark_info("scan").configs.items()}
    for name, depths in grids.items():
        path = shipped_recipes() / "chaabouni2021" / f"scan_{name}.yaml"
        recipe = load_recipe(path)
        keys = recipe.to_dict()
        assert shared.items() <= keys.items()
        assert keys["steps"] == 250 * -(-counts["addprim_jump"] // 256)
        sweep = yaml.safe_load((path.parent / "sweeps" / f"appendix_a1_{name}.yaml").read_text(encoding="utf-8"))
        assert sweep["recipes"] == [f"../{path.name}"]
        for cell in sweep["cells"]:
            steps = {**keys, **cell}["steps"]
            assert steps == 250 * -(-counts[cell.get("config", "addprim_jump")] // 256)
        grid = {"num_attention_heads": [4, 8], "hidden_size": [128, 256], "intermediate_size": [256, 512],
                "encoder_layers": depths, "decoder_attention_heads": [4, 8], "decoder_hidden_size": [128, 256],
                "decoder_intermediate_size": [256, 512], "decoder_layers": depths}  # fmt: skip
        if name != "transformer":
            assert (keys["encoder_gate_start"], keys["decoder_gate_start"]) == (-1, -1)
        if name not in ("transformer", "sag"):
            grid["attention_span"] = [2, 4, 6]
        assert (sweep["axes"], sweep["seeds"]) == (grid, [0, 1, 2])
        config = CONFIGS[recipe.model](**recipe.model_fields)
        assert all(getattr(config, key) in values for key, values in grid.items())


def test_the_paper_s_setup_of_gated_attention_in_translation():
    """Chaabouni et al. 2021, Appendix A.2, and where it is silent what its recipes name instead."""
    usual = {"schedule": "inverse_sqrt", "warmup_steps": 4000, "warmup_init_lr": 1e-7, "max_grad_norm": 0.0, "beams": 5,
             "sampling": "max_tokens", "adam_beta2": 0.98, "tie_word_embeddings": True}  # fmt: skip
    setups = {
        "iwslt14": {"hidden_size": 512, "intermediate_size": 1024, "num_attention_heads": 4, "encoder_layers": 6,
                    "decoder_layers": 6, "learning_rate": 5e-4, "dropout": 0.3, "activation_dropout": 0.0,
                    "weight_decay": 1e-4, "label_smoothing": 0.1, "max_tokens": 1024, "batches_per_update": 4,
                    "epochs": 40, "early_stopping": "bleu", "length_penalty": 1.0, "joint_vocabulary": False},
        "flores": {"hidden_size": 512, "intermediate_size": 2048, "num_attention_heads": 2, "encoder_layers": 5,
                   "decoder_layers": 5, "learning_rate": 1e-3, "dropout": 0.4, "activation_dropout": 0.2,
                   "weight_decay": 1e-4, "label_smoothing": 0.2, "max_tokens": 4000, "batches_per_update": 4,
                   "epochs": 100, "early_stopping": "loss", "length_penalty": 1.2, "share_all_embeddings": True,
                   "encoder_normalize_before": True, "decoder_normalize_before": True},
        "noun_adjective": {"hidden_size": 1024, "intermediate_size": 4096, "num_attention_heads": 16,
                           "encoder_layers": 6, "decoder_layers": 6, "learning_rate": 7e-4, "dropout": 0.1,
                           "activation_dropout": 0.0, "weight_decay": 0.0, "label_smoothing": 0.1, "max_tokens": 4000,
                           "batches_per_update": 6, "epochs": 30, "early_stopping": "loss", "length_penalty": 1.0,
                           "share_all_embeddings": True},
    }  # fmt: skip
    gates = {"iwslt14": [1.0, 0.0], "flores": [2.0, 1.0, 0.0], "noun_adjective": [1.0, 0.0]}
    for benchmark, setup in setups.items():
        folder = shipped_recipes() / "chaabouni2021"
        spans = [f"{benchmark}_{name}" for name in ("sag_convolution", "sag_fixed_span", "sag_t5")]
        grids = {"transformer": [f"{benchmark}_transformer"], "sag": [f"{benchmark}_sag"], "spans": spans}
        for name, recipes in grids.items():
            sweep = yaml.safe_load((folder / f"sweeps/appendix_a2_{benchmark}_{name}.yaml").read_text(encoding="utf-8"))
            assert sweep["recipes"] == [f"../{recipe}.yaml" for recipe in recipes]
            grid = {"attention_dropout": [0.0, 0.2]}
            if name != "transformer":
                starts = gates[benchmark]
                grid |= {"encoder_gate_start": [-start for start in starts], "decoder_gate_start": starts}
            if name == "spans":
                grid["attention_span"] = [2, 4, 6]
            assert sweep["axes"] == grid
            pre_norm = {"encoder_normalize_before": True, "decoder_normalize_before": True}
            searched = benchmark != "flores" and name != "transformer"
            assert (pre_norm in sweep.get("cells", [])) == searched
            for recipe in recipes:
                keys = load_recipe(folder / f"{recipe}.yaml").to_dict()
                assert {**usual, **setup}.items() <= keys.items(), recipe
                assert all(keys[key] in values for key, values in grid.items()), recipe


def test_the_paper_s_setup_of_pretraining():
    """Petty et al. 2023, Tables 1 and 3: one file for each model, which differ in nothing else."""
    perplexities = {
        "41M": {1: 43.9, 2: 30.0, 3: 28.0, 4: 27.5, 5: 27.4, 6: 27.7, 7: 28.2},
        "134M": {1: 31.7, 2: 21.1, 6: 17.4, 8: 17.0, 12: 16.9, 16: 16.9, 21: 17.0},
        "374M": {1: 26.5, 2: 17.3, 4: 14.7, 6: 14.0, 8: 13.7, 12: 13.4, 16: 13.2, 24: 13.1},
    }
    files = {path.stem: path for path in FILES if path.stem.startswith("pretrain_") and "quick" not in path.stem}
    assert sorted(files) == sorted(f"pretrain_{name}_{depth}" for name, row in perplexities.items() for depth in row)
    others = set()
    for name, row in perplexities.items():
        for depth, perplexity in row.items():
            path = files[f"pretrain_{name}_{depth}"]
            recipe = load_recipe(path)
            assert dict(recipe.model_fields) == {
                key: getattr(DepthWidthConfig.from_size_class(name, depth), key)
                for key in ("num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads")
            }
            assert (recipe.steps, recipe.batch_size, recipe.context_length) == (1_000_000, 128, 1024)
            assert (recipe.size_class, recipe.paper_metric, recipe.paper_validation) == (name, "perplexity", perplexity)
            assert recipe.paper_cell == f"Table 3, C4 val. PPL, {name}, {depth} layer{'s' * (depth > 1)}"
            text = path.read_text(encoding="utf-8")
            assert f"C4 val. PPL: {perplexity}. " in text
            assert f"recipes/petty2023/{path.name}\n" in text
            own = ("size_class", "num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads",
                   "learning_rate", "paper_cell", "paper_validation")  # fmt: skip
            others.add(json.dumps({key: value for key, value in recipe.to_dict().items() if key not in own}))
    assert len(others) == 1


def test_models_have_the_paper_s_sizes():
    """Table 5, with the vocabularies that the whole benchmark gives."""
    sizes = {"transformer": 992_007, "universal": 332_551, "relative": 1_091_847, "relative_universal": 365_831}
    recipes = {path.stem: load_recipe(path) for path in FILES}
    task = prepare_task(recipes["scan_length26_transformer"])
    counts = {name: len(split) for name, split in task.splits.items()}
    assert counts == {"train": 16_458, "validation": 1_828, "test": 2_624}
    for name, size in sizes.items():
        task.recipe = recipes[f"scan_length26_{name}"]
        model = task.build_model("eager")
        assert model.num_parameters() == size
        assert model.generation_config.max_new_tokens == 49


@pytest.mark.parametrize(
    ("benchmark", "sizes"),
    [
        # facts of the authors' code: sums over its parameters with the words of all splits
        ("cogs", {"transformer": 9_297_256, "universal": 5_095_784, "relative": 10_349_928,
                  "relative_universal": 5_622_120}),
        # Table 5, rounded
        ("cfq", {"transformer": "0.685M", "relative": "0.751M", "universal": "1.4M", "relative_universal": "1.5M"}),
    ],
)  # fmt: skip
def test_models_have_the_paper_s_sizes_with_real_words(benchmark, sizes, sample):
    """The parts of the files have all words."""
    recipes = {path.stem: load_recipe(path, [f"data_dir={sample.folder}"]) for path in FILES}
    recipe = recipes[f"{benchmark}_transformer"]
    with sample.pinned(benchmark, recipe.config):
        task = prepare_task(recipe)
    for name, size in sizes.items():
        task.recipe = recipes[f"{benchmark}_{name}"]
        found = task.build_model("eager").num_parameters()
        if isinstance(size, str):
            digits = len(size.removesuffix("M").partition(".")[2])
            found = f"{found / 1e6:.{digits}f}M"
        assert found == size


def test_mean_words_of_dependency_batches_are_those_the_recipes_name(data_dir):
    files = [path for path in FILES if path.stem.startswith("cfq_dependencies_")]
    assert len(files) == 5
    overrides = [f"data_dir={data_dir}", "config=mcd1_own_heads"]
    task = prepare_task(load_recipe(files[0], overrides))
    lengths = task.splits["train"].side_lengths()[0]
    for path in files:
        said = re.search(r"max_tokens: .*, ([0-9]+) in the mean", path.read_text())
        task.recipe = load_recipe(path, overrides)
        mean = np.mean([lengths[batch].sum() for batch in task.batches(1, 0, 1).batches])
        assert int(said[1]) == round(mean)


def test_unknown_keys_name_the_closest():
    for wrong, right in (("learning_rat", "learning_rate"), ("hidden_sise", "hidden_size"), ("Steps", "steps")):
        with pytest.raises(RecipeError, match=f"unknown key '{wrong}', did you mean '{right}'"):
            parse_recipe({**TINY, wrong: 1})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "relative_univrsal_transformer"}, "did you mean 'relative_universal_transformer'"),
        ({"model": 3}, "model: expected a name"),
        ({"steps": "three"}, "steps: expected a whole number, got 'three'"),
        ({"steps": 2.5}, "steps: expected a whole number, got 2.5"),
        ({"steps": True}, "steps: expected a whole number, got True"),
        ({"steps": 0}, "steps=0 must be greater than 0"),
        ({"learning_rate": "1e-3"}, "learning_rate: expected a finite number"),
        ({"learning_rate": float("nan")}, "learning_rate: expected a finite number"),
        ({"learning_rate": float("inf")}, "learning_rate: expected a finite number"),
        ({"seed": -1}, "seed=-1 must not be negative"),
        ({"train_eos": 1}, "train_eos: expected true or false"),
        ({"config": None}, "config: expected text, got nothing"),
        ({"schedule": "cosine"}, "schedule='cosine' is none of constant, noam, inverse_sqrt, linear"),
        ({"schedule": "noam"}, "schedule=noam needs warmup_steps"),
        ({"schedule": "linear", "warmup_steps": 6}, "warmup_steps=6 must be less than steps=6"),
        ({"warmup_steps": 5}, "warmup_steps=5 has no effect under schedule=constant"),
        ({"warmup_init_lr": 0.5}, "warmup_init_lr=0.5 has no effect under schedule=constant"),
        (
            {"schedule": "noam", "warmup_steps": 5, "warmup_init_lr": 0.5},
            "warmup_init_lr=0.5 has no effect under schedule=noam",
        ),
        ({"early_stopping_patience": 2}, "early_stopping_patience=2 has no effect under early_stopping=none"),
        ({"sample_losses": True, "eval_every": 0}, "sample_losses=true needs evaluations"),
        (
            {"optimizer": "nesterov", "momentum": 0.9, "adam_beta1": 0.8},
            "adam_beta1=0.8 has no effect under optimizer=nesterov",
        ),
        (
            {"optimizer": "nesterov", "momentum": 0.9, "adam_epsilon": 1.0},
            "adam_epsilon=1.0 has no effect under optimizer=nesterov",
        ),
        ({"length_groups": 99}, "length_groups=99 is more than batch_size=8"),
        ({"label_smoothing": 1.0}, "label_smoothing=1.0 must be in"),
        ({"adam_beta2": 1}, "adam_beta2=1.0 must be in"),
        ({"eval_examples": 0}, "eval_examples=0 must be at least 1, or null"),
        ({"early_stopping": "loss", "eval_every": 0}, "early_stopping needs evaluations"),
        ({"early_stopping": False}, "early_stopping=False is none of none, loss, accuracy"),
        ({"static_batches": True, "length_groups": 2}, "length_groups=2 does not go with static_batches"),
        ({"momentum": 0.9}, "momentum=0.9 has no effect under optimizer=adam"),
        ({"optimizer": "nesterov"}, "optimizer=nesterov needs momentum"),
        ({"optimizer": "nesterov", "momentum": 1.0}, "momentum=1.0 must be in [0, 1)"),
        ({"optimizer": "nesterov", "momentum": 0.9, "weight_decay": 0.1}, "weight_decay=0.1 does not go with"),
        (
            {"optimizer": "nesterov", "momentum": 0.9, "static_batches": True},
            "optimizer=nesterov does not go with static",
        ),
        ({"static_batches": True, "precision": "fp16"}, "precision=fp16 does not go with static_batches"),
        ({"hidden_size": 17}, "hidden_size=17 is not a multiple of num_attention_heads=2"),
        ({"hidden_size": "wide"}, "hidden_size"),
        ({"embedding_scaling": "ped"}, "position_scheme='relative'"),
        ({"learning_rate": 10**400}, "learning_rate: expected a finite number"),
        ({"seed": 2**32}, "seed=4294967296 must be less than 2^32"),
        ({"steps": 10**20}, "steps=100000000000000000000 must be less than 2^32"),
        ({"paper_test": 98.2}, "paper_test=98.2 must be in [0, 1]"),
        ({"num_attention_heads": True}, "num_attention_heads"),
        ({"vocab_size": 9}, "vocab_size: is derived from the benchmark's words"),
        ({3: 4}, "3: keys are words"),
    ],
    ids=str,
)
def test_wrong_values_are_one_line_that_names_the_key(changes, message):
    with pytest.raises(RecipeError) as caught:
        parse_recipe({**TINY, **changes})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("file", "given", "message"),
    [
        (
            "chaabouni2021/scan_sag",
            "attention_span=4",
            "attention_span=4 has no effect under self_attention=full; remove it",
        ),
        (
            "chaabouni2021/scan_sag_fixed_span",
            "t5_bias_init=zeros",
            "t5_bias_init=zeros has no effect under self_attention=fixed",
        ),
        (
            "chaabouni2021/scan_sag_t5",
            "convolution_groups=full",
            "convolution_groups=full has no effect under self_attention=t5",
        ),
        (
            "chaabouni2021/scan_transformer",
            "encoder_gate_start=0.5",
            "encoder_gate_start=0.5 has no effect under self_attention_",
        ),
        (
            "chakravarthy2022/scan_jump_filler",
            "renormalization=each_row",
            "has no effect under attention_threshold=None",
        ),
        ("petty2023/pretrain_41M_2", "relative_buckets=8", "has no effect under position_scheme=rotary"),
        ("bergen2021/cfq_dependencies_bilstm", "attention_dropout=0.3", "has no effect under encoder=bilstm"),
    ],
)
def test_fields_without_effect_make_no_other_cell(file, given, message):
    with pytest.raises(RecipeError) as caught:
        load_recipe(f"{file}.yaml", [given])
    assert message in str(caught.value)


def test_fields_at_their_default_are_no_mistake():
    """A sweep may give all of its recipes what only some of them make use of, as long as it changes nothing."""
    load_recipe("chaabouni2021/scan_sag.yaml", ["attention_span=2"])
    load_recipe("chaabouni2021/scan_sag_t5.yaml", ["attention_span=4"])
    load_recipe("chakravarthy2022/scan_jump_filler.yaml", ["renormalization=each_row", "attention_threshold=0.1"])


def test_tables_of_fields_without_effect_are_of_fields():
    """And of values that the other one may have, which a config checks."""
    tables = {config: config.no_effect for config in CONFIGS.values() if config.no_effect}
    assert len(tables) >= 5
    for config, table in tables.items():
        for key, (other, values) in table.items():
            assert key in own_fields(config)
            for value in values:
                assert getattr(config(**{other: value, "num_labels": 3}), other) == value


@pytest.mark.parametrize("key", ["model", "benchmark", "config", "steps", "batch_size", "learning_rate"])
def test_missing_keys(key):
    with pytest.raises(RecipeError, match=f"`{key}` is missing"):
        parse_recipe({name: value for name, value in TINY.items() if name != key})


def write(folder: Path, text: str) -> Path:
    path = folder / "r.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_numbers_with_exponents_are_numbers(tmp_path):
    keys = {**TINY, "learning_rate": None}
    text = yaml.safe_dump(keys).replace("learning_rate: null", "learning_rate: 1e-3")
    assert load_recipe(write(tmp_path, text)).learning_rate == 1e-3
    assert load_recipe(write(tmp_path, text), ["adam_epsilon=1E-8", "steps=7"]).steps == 7


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("steps: 1\nsteps: 2\n", "line 2: key 'steps' stands twice"),
        ("- a\n- b\n", "this is a list"),
        ("", "this is nothing"),
        ("a: [1\n", "not YAML in line 2"),
        ("a: \0\n", "not YAML: unacceptable character"),
        ("? [a]\n: 1\n", "not YAML in line 1: keys are words"),
        ("a: &a [*a]\n", "not YAML in line 1"),
        (f"a: {'9' * 5000}\n", "not YAML: Exceeds the limit"),
        ("model: 2020-13-45\n", "unknown model '2020-13-45'"),
        ("a: 1\n---\na: 2\n", "not YAML in line 2"),
        ("a: !!python/object/apply:os.system ['true']\n", "not YAML"),
        ("a: !!timestamp a\n", "not YAML: a tag does not fit its value"),
        ("a: !!bool a\n", "not YAML: a tag does not fit its value"),
    ],
)
def test_files_that_are_no_recipes(tmp_path, text, message):
    with pytest.raises(RecipeError, match=r"r\.yaml") as caught:
        load_recipe(write(tmp_path, text))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read_and_overrides_that_are_none(tmp_path):
    with pytest.raises(RecipeError, match=r"absent\.yaml: cannot read the recipe"):
        load_recipe(tmp_path / "absent.yaml")
    path = write(tmp_path, yaml.safe_dump(TINY))
    path.with_name("binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RecipeError, match="cannot read"):
        load_recipe(path.with_name("binary.yaml"))
    for override in ("steps", "=3", ""):
        with pytest.raises(RecipeError, match="an override is key=value"):
            load_recipe(path, [override])
    for value in ("[1", "!!timestamp a", "!!bool a", "!!int a"):
        with pytest.raises(RecipeError, match="not YAML"):
            load_recipe(path, [f"steps={value}"])
    with pytest.raises(RecipeError, match="unknown key 'stepz'"):
        load_recipe(path, ["stepz=3"])


def test_an_override_that_makes_another_cell(tmp_path):
    """It joins the name, so the folder, and the file's paper number no longer stands beside the result."""
    path = tmp_path / "cell.yaml"
    path.write_text(yaml.safe_dump({**TINY, "paper_cell": "Table 1", "paper_test": 0.5, "paper_validation": 1.0}))

    def loaded(*overrides: str) -> tuple:
        recipe = load_recipe(path, overrides)
        return recipe.name, recipe.paper_cell, recipe.paper_test, recipe.paper_validation

    same = ("cell", "Table 1", 0.5, 1.0)
    assert loaded() == same
    assert loaded("seed=3", "static_batches=false", "eval_examples=null", "attention=sdpa") == same
    assert loaded("config=length_cutoff_26") == same  # as in the file
    assert loaded("config=length_cutoff_22") == ("cell,config=length_cutoff_22", None, None, None)
    assert loaded("config=length", "paper_test=0.2") == ("cell,config=length", None, 0.2, None)
    for overrides in (("steps=7", "seed=1", "dropout=0.5"), ("dropout=0.5", "steps=7")):
        assert loaded(*overrides) == ("cell,dropout=0.5,steps=7", None, None, None)
    folder = load_recipe(path, ["config=../../a b", "output_dir=null", "seed=2"]).run_dir
    assert folder == Path("runs") / "cell,config=..-..-a-b" / "seed2"
    long = [loaded(f"config={letter * 300}")[0] for letter in "ab"]
    assert all(len(name) < 170 for name in long)
    assert long[0] != long[1]


def test_an_override_of_what_the_file_leaves_out(tmp_path):
    """There the default of the model's config holds: another value is another cell, the same one none."""
    keys = {**TINY, "model": "role_filler_transformer", "config": "addprim_jump", "paper_test": 0.5}
    path = write(tmp_path, yaml.safe_dump(keys))

    def loaded(*overrides: str) -> tuple:
        recipe = load_recipe(path, overrides)
        return recipe.name, recipe.paper_test

    assert loaded() == loaded("attention_threshold=0.08", "dropout=0.1") == ("r", 0.5)
    assert loaded("attention_threshold=null") == ("r,attention_threshold=None", None)
    # a checkpoint need not have the defaults
    keys = {key: value for key, value in TINY.items() if key not in SIZES}
    write(tmp_path, yaml.safe_dump({**keys, "model": "depth_width_decoder", "pretrained": "somewhere"}))
    assert loaded("dropout=0.1") == ("r,dropout=0.1", None)


def test_shipped_recipes_are_found_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("csordas2021/scan_length26_relative.yaml", "recipes/csordas2021/scan_length26_relative.yaml"):
        assert load_recipe(name, ["seed=4"]).run_dir == Path("runs/scan_length26_relative/seed4")
    (tmp_path / "csordas2021").mkdir()
    (tmp_path / "csordas2021" / "scan_length26_relative.yaml").write_text(yaml.safe_dump(TINY))
    assert load_recipe("csordas2021/scan_length26_relative.yaml").steps == TINY["steps"]
    with pytest.raises(RecipeError, match="cannot read the recipe"):
        load_recipe("csordas2021/none.yaml")


@pytest.mark.parametrize(
    ("recorded", "folder"),
    [
        # pip install, pip install --user: two and three folders above the packages
        ("../../../share", "prefix/share"),
        ("../../share", "prefix/lib/share"),
        # pip install --target
        ("../../share", "prefix/lib/python3/site-packages/share"),
    ],
)
def test_installed_recipes_are_found(recorded, folder, tmp_path, monkeypatch):
    packages = tmp_path / "prefix" / "lib" / "python3" / "site-packages"
    (packages / "hf_sysgen-0.1.0.dist-info").mkdir(parents=True)
    (packages / "hf_sysgen-0.1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: hf-sysgen\n")
    (packages / "hf_sysgen-0.1.0.dist-info" / "RECORD").write_text(
        f"{recorded}/hf-sysgen/recipes/csordas2021/tiny.yaml,,\n"
    )
    monkeypatch.syspath_prepend(packages)
    monkeypatch.setattr(hf_sysgen.config.recipe, "__file__", str(packages / "hf_sysgen" / "config" / "recipe.py"))
    # those of an installation of this very environment
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path / "none"))
    with pytest.raises(RecipeError, match="the package's recipes are not there; install hf-sysgen again"):
        recipe_setups()
    recipes = tmp_path / folder / "hf-sysgen" / "recipes" / "csordas2021"
    recipes.mkdir(parents=True)
    (recipes / "tiny.yaml").write_text(yaml.safe_dump(TINY))
    assert shipped_recipes().resolve() == recipes.parent
    assert list(recipe_setups()) == ["tiny"]


def test_every_folder_of_recipes_is_shipped():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for folder in {path.parent for path in ROOT.glob("recipes/*/*.yaml")}:
        kinds = sorted({path.suffix for path in folder.iterdir() if path.is_file()}, reverse=True)
        patterns = ", ".join(f'"recipes/{folder.name}/*{kind}"' for kind in kinds)
        assert f'"share/hf-sysgen/recipes/{folder.name}" = [{patterns}]' in text


def test_an_override_may_mend_the_file(tmp_path):
    path = tmp_path / "broken.yaml"
    path.write_text(yaml.safe_dump({**TINY, "hidden_size": 17}))
    assert load_recipe(path, ["hidden_size=18"]).model_fields["hidden_size"] == 18
    with pytest.raises(RecipeError, match="hidden_size=17"):
        load_recipe(path)


def test_texts_that_look_like_numbers_stay_texts(tmp_path):
    """In what a run's folder keeps."""
    for text in ("1e3", "12", "1.5e-7", "2020-01-01", "null"):
        recipe = parse_recipe({**TINY, "config": text})
        assert load_recipe(write(tmp_path, dump_recipe(recipe))).config == text


def test_hash_is_over_what_decides_the_result():
    recipe = parse_recipe(TINY)
    for key, value in {"output_dir": "x", "tracker": "none", "log_every": 9, "paper_test": 0.5}.items():
        assert parse_recipe({**TINY, key: value}).hash == recipe.hash
    for key, value in {"seed": 1, "steps": 7, "hidden_size": 32, "eval_examples": None}.items():
        assert parse_recipe({**TINY, key: value}).hash != recipe.hash


def test_names_are_frozen():
    """Keys of published recipes: a change here breaks somebody's file."""
    assert set(RECIPE_KEYS) == {
        "model", "benchmark", "config", "tokens", "joint_vocabulary", "seed", "steps", "batch_size", "length_groups",
        "static_batches", "sampling", "train_eos", "learning_rate", "schedule", "warmup_steps", "warmup_init_lr",
        "adam_beta1", "adam_beta2", "adam_epsilon", "weight_decay", "max_grad_norm", "label_smoothing", "precision",
        "attention", "torch_compile", "gradient_checkpointing", "eval_every", "eval_examples", "eval_batch_size",
        "early_stopping", "early_stopping_patience", "save_every", "log_every", "tracker", "data_dir", "output_dir",
        "paper_cell", "paper_test", "paper_validation", "max_tokens", "batches_per_update", "pretrained",
        "optimizer", "momentum", "role_scheme", "subwords", "epochs", "beams", "length_penalty", "paper_metric",
        "validation_examples", "kept_steps", "size_class", "tokenizer", "context_length", "streams",
        "sample_losses", "resample", "source_start",
    }  # fmt: skip


# values of every kind that YAML can give, near the right ones often enough to reach the deeper checks
scalars = st.none() | st.booleans() | st.integers(-3, 300) | st.floats() | st.text(max_size=8)
values = (
    scalars | st.lists(scalars, max_size=2) | st.sampled_from([*CONFIGS, "constant", "noam", "loss", "bf16", "eager"])
)
keys = st.sampled_from([*RECIPE_KEYS, *SIZES, "dropout", "embedding_scaling", "share_layers", *DERIVED_FIELDS])


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(keys | st.text(max_size=12), values, max_size=4))
def test_any_mapping_is_a_recipe_or_one_clear_line(changes):
    recipe, message = None, ""
    try:
        recipe = parse_recipe({**TINY, **changes})
    except RecipeError as error:
        message = str(error)
    if recipe is None:
        assert message
        assert "\n" not in message
        if message.startswith("unknown key"):
            suggestion = message.rpartition("did you mean '")[2].removesuffix("'?")
            assert suggestion in (*RECIPE_KEYS, *CONFIGS[changes.get("model", TINY["model"])].__dataclass_fields__)
        return
    again = parse_recipe(yaml.safe_load(dump_recipe(recipe)), recipe.name)
    assert again.hash == recipe.hash
    hints = typing.get_type_hints(Recipe)
    assert type(again.steps) is hints["steps"]
    assert again.to_dict() == recipe.to_dict()
