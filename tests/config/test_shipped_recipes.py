"""The recipe files: they run, and they have the papers' values."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from made_examples import use_short_examples
from tiny_runs import shrunk
from tiny_text import write_tokenizer

from hf_sysgen.config.fields import flatten
from hf_sysgen.config.io import load_recipe, read_recipe, shipped_files, shipped_recipes
from hf_sysgen.data import benchmark_info
from hf_sysgen.models import CONFIGS, DepthWidthConfig
from hf_sysgen.reports.papers import papers
from hf_sysgen.results.reading import read_record
from hf_sysgen.training.run import run_recipe
from hf_sysgen.training.tasks.registry import prepare_task

ROOT = Path(__file__).parents[2]
FILES = sorted(path for path in ROOT.glob("recipes/*/*.yaml") if path.parent.name != "accelerate")
# they do not have the paper's setup
REDUCED = {path.stem for path in FILES if "quick" in path.stem} | {name for paper in papers() for name in paper.reduced}


def test_there_are_recipes():
    assert len(FILES) >= 6


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_recipe_runs_two_steps(path, tmp_path, monkeypatch):
    use_short_examples(monkeypatch)
    head = path.read_text(encoding="utf-8").splitlines()
    assert head[0].startswith("# ")
    assert any(line.startswith("# Paper:") for line in head)
    assert any(line.startswith("# Measured here:") for line in head)
    assert any(line.startswith("# Command:") for line in head)
    recipe = load_recipe(path)
    overrides = [*shrunk(recipe), f"output_dir={tmp_path / 'run'}"]
    if recipe.data.benchmark == "c4":
        overrides.append(f"data.tokenizer={write_tokenizer(tmp_path / 'tokenizer')}")
    results = run_recipe(load_recipe(path, overrides))
    assert results.steps == 2
    assert read_record(tmp_path / "run" / "results.json").recipe.model.type == recipe.model.type


def counted_seeds(path: Path) -> list[int] | None:
    """The seeds that a recipe's head names."""
    found = re.search(r"^# .*seeds (\d+) to (\d+)\)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [*range(int(found[1]), int(found[2]) + 1)] if found else None


def test_heads_name_files_and_overrides_that_exist():
    for path in FILES:
        head = " ".join(line.lstrip("# ") for line in path.read_text("utf-8").splitlines() if line.startswith("#"))
        for file in re.findall(r"(?:recipes|perf)/[\w./-]+\w", head):
            assert (ROOT / file).is_file(), path
        for code in re.findall(r"`([^`]*)`", head):
            if "=" in code:
                load_recipe(path, [word.replace("cutoff_N", "cutoff_22") for word in code.split()])


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
    for path in (path for path in FILES if path.parent.name == "bergen2021" and path.stem not in REDUCED):
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
    cells = [
        load_recipe(path) for path in FILES if path.match("csordas2021/scan_length26_*") and "quick" not in path.stem
    ]
    assert len(cells) == 4
    for recipe in cells:
        training = recipe.training
        assert (training.max_steps, training.learning_rate, training.max_grad_norm) == (50_000, 1e-3, 5.0)
        assert (recipe.batches.sampling, recipe.batches.size) == ("with_replacement", 256)
        assert (recipe.schedule.type, recipe.evaluation.early_stopping) == ("constant", None)
        fields = {"hidden_size": 128, "intermediate_size": 256, "num_attention_heads": 8, "dropout": 0.1,
                  "encoder_layers": 3, "decoder_layers": 3}  # fmt: skip
        assert fields.items() <= recipe.model.fields.items()


def test_the_paper_s_setup_of_the_edge_transformer():
    """Table 1: L, d, h, batch, learning rate, and the number of epochs or steps; the rest is quoted from others."""
    quoted = {"clutrr_gat_234", "cogs_graph_universal", "cogs_graph_transformer", "cfq_dependencies_bilstm"}
    paths = [path for path in FILES if path.parent.name == "bergen2021" and path.stem not in quoted | REDUCED]
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
        config = CONFIGS[recipe.model.type](**recipe.model.fields)
        fields = config.num_hidden_layers, config.hidden_size, config.num_attention_heads
        batch = getattr(recipe.batches, "size", None) or recipe.batches.max_tokens
        assert (*fields, batch, recipe.training.learning_rate) == table[key]
        seen.add(key)
    assert seen == set(table)
    sizes = {
        name: benchmark_info(cell.data.benchmark).configs[cell.data.config].num_examples["train"]
        for name, cell in cells.items()
    }
    epochs_of = {"clutrr_edge_234": 50, "clutrr_rat_234": 50, "clutrr_rrat_234": 50, "cfq_edge": 100,
                 "cfq_sparql_universal": 100}  # fmt: skip
    for name, epochs in epochs_of.items():
        assert cells[name].training.max_steps == epochs * -(-sizes[name] // cells[name].batches.size)
    # without the filter, as the heads say
    for name in ("cfq_edge", "cfq_sparql_universal"):
        size = benchmark_info("cfq").configs["mcd1_edge_unfiltered"].num_examples["train"]
        text = (ROOT / "recipes" / "bergen2021" / f"{name}.yaml").read_text(encoding="utf-8")
        assert f"`training.max_steps={100 * -(-size // cells[name].batches.size)}`" in text
    # clutrr/train.py, cogs/train.py and cfq/train.py of the authors' code: schedule, warm-up, decay, clipping, dropout
    trained = {
        "clutrr_edge_234": ("linear", 100, 0.0, 1.0, 0.2), "clutrr_rat_234": ("linear", 100, 0.0, 1.0, 0.2),
        "clutrr_rrat_234": ("linear", 100, 0.0, 1.0, 0.2), "cogs_graph_edge": ("linear", 1000, 0.01, 1.0, 0.1),
        "cfq_edge": ("linear", 1000, 0.0, 100.0, 0.1),
    }  # fmt: skip
    for name, values in trained.items():
        cell = cells[name]
        training = cell.training
        how = cell.schedule.type, cell.schedule.warmup_steps, training.weight_decay, training.max_grad_norm
        assert (*how, cell.model.fields["dropout"]) == values, name
    parsers = [cells[f"cfq_dependencies_{name}"] for name in ("edge", "transformer", "universal")]
    assert {cell.training.max_steps for cell in parsers} == {8000}
    assert cells["cogs_graph_edge"].training.max_steps == 24_155 * 200 // 100


def test_the_paper_s_setup_of_gated_attention_on_scan():
    """Chaabouni et al. 2021, Appendix A.1: what all share, and the grid of each architecture."""
    shared = {"batches.size": 256, "training.learning_rate": 5e-4, "training.max_grad_norm": 1.0, "model.dropout": 0.1,
              "model.attention_dropout": 0.1, "training.adam_beta1": 0.9, "training.adam_beta2": 0.999,
              "schedule.type": "constant", "batches.sampling": "epochs", "training.label_smoothing_factor": 0.0,
              "training.weight_decay": 0.0, "evaluation.early_stopping": None}  # fmt: skip
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
        keys = recipe.flat()
        assert shared.items() <= keys.items()
        assert recipe.training.max_steps == 250 * -(-counts["addprim_jump"] // 256)
        sweep = yaml.safe_load((path.parent / "sweeps" / f"appendix_a1_{name}.yaml").read_text(encoding="utf-8"))
        assert sweep["recipes"] == [f"../{path.name}"]
        for cell in sweep["cells"]:
            steps = {**keys, **cell}["training.max_steps"]
            assert steps == 250 * -(-counts[cell.get("data.config", "addprim_jump")] // 256)
        grid = {"num_attention_heads": [4, 8], "hidden_size": [128, 256], "intermediate_size": [256, 512],
                "encoder_layers": depths, "decoder_attention_heads": [4, 8], "decoder_hidden_size": [128, 256],
                "decoder_intermediate_size": [256, 512], "decoder_layers": depths}  # fmt: skip
        if name != "transformer":
            assert (keys["model.encoder_gate_start"], keys["model.decoder_gate_start"]) == (-1, -1)
        if name not in ("transformer", "sag"):
            grid["attention_span"] = [2, 4, 6]
        assert sweep["axes"] == {f"model.{key}": values for key, values in grid.items()}
        assert sweep["seeds"] == [0, 1, 2]
        config = CONFIGS[recipe.model.type](**recipe.model.fields)
        assert all(getattr(config, key) in values for key, values in grid.items())


def test_the_paper_s_setup_of_gated_attention_in_translation():
    """Chaabouni et al. 2021, Appendix A.2, and where it is silent what its recipes name instead."""
    usual = {"schedule": {"type": "inverse_sqrt", "warmup_steps": 4000, "warmup_init_lr": 1e-7},
             "training": {"max_grad_norm": 0.0, "adam_beta2": 0.98}, "evaluation": {"num_beams": 5},
             "batches": {"sampling": "max_tokens"}, "model": {"tie_word_embeddings": True}}  # fmt: skip
    setups = {
        "iwslt14": {
            "model": {"hidden_size": 512, "intermediate_size": 1024, "num_attention_heads": 4, "encoder_layers": 6,
                      "decoder_layers": 6, "dropout": 0.3, "activation_dropout": 0.0},
            "training": {"learning_rate": 5e-4, "weight_decay": 1e-4, "label_smoothing_factor": 0.1},
            "batches": {"max_tokens": 1024, "per_update": 4, "epochs": 40},
            "evaluation": {"early_stopping": {"metric": "bleu"}, "length_penalty": 1.0},
            "data": {"joint_vocabulary": False},
        },
        "flores": {
            "model": {"hidden_size": 512, "intermediate_size": 2048, "num_attention_heads": 2, "encoder_layers": 5,
                      "decoder_layers": 5, "dropout": 0.4, "activation_dropout": 0.2, "share_all_embeddings": True,
                      "encoder_normalize_before": True, "decoder_normalize_before": True},
            "training": {"learning_rate": 1e-3, "weight_decay": 1e-4, "label_smoothing_factor": 0.2},
            "batches": {"max_tokens": 4000, "per_update": 4, "epochs": 100},
            "evaluation": {"early_stopping": {"metric": "loss"}, "length_penalty": 1.2},
        },
        "noun_adjective": {
            "model": {"hidden_size": 1024, "intermediate_size": 4096, "num_attention_heads": 16, "encoder_layers": 6,
                      "decoder_layers": 6, "dropout": 0.1, "activation_dropout": 0.0, "share_all_embeddings": True},
            "training": {"learning_rate": 7e-4, "weight_decay": 0.0, "label_smoothing_factor": 0.1},
            "batches": {"max_tokens": 4000, "per_update": 6, "epochs": 30},
            "evaluation": {"early_stopping": {"metric": "loss"}, "length_penalty": 1.0},
        },
    }  # fmt: skip
    gates = {"iwslt14": [1.0, 0.0], "flores": [2.0, 1.0, 0.0], "noun_adjective": [1.0, 0.0]}
    for benchmark, setup in setups.items():
        folder = shipped_recipes() / "chaabouni2021"
        spans = [f"{benchmark}_{name}" for name in ("sag_convolution", "sag_fixed_span", "sag_t5")]
        grids = {"transformer": [f"{benchmark}_transformer"], "sag": [f"{benchmark}_sag"], "spans": spans}
        for name, recipes in grids.items():
            sweep = yaml.safe_load((folder / f"sweeps/appendix_a2_{benchmark}_{name}.yaml").read_text(encoding="utf-8"))
            assert sweep["recipes"] == [f"../{recipe}.yaml" for recipe in recipes]
            grid = {"model.attention_dropout": [0.0, 0.2]}
            if name != "transformer":
                starts = gates[benchmark]
                grid |= {
                    "model.encoder_gate_start": [-start for start in starts],
                    "model.decoder_gate_start": starts,
                }
            if name == "spans":
                grid["model.attention_span"] = [2, 4, 6]
            assert sweep["axes"] == grid
            pre_norm = {"model.encoder_normalize_before": True, "model.decoder_normalize_before": True}
            searched = benchmark != "flores" and name != "transformer"
            assert (pre_norm in sweep.get("cells", [])) == searched
            for recipe in recipes:
                keys = load_recipe(folder / f"{recipe}.yaml").flat()
                assert {**flatten(usual), **flatten(setup)}.items() <= keys.items(), recipe
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
            assert recipe.model.fields == {
                key: getattr(DepthWidthConfig.from_size_class(name, depth), key)
                for key in ("num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads")
            }
            assert (recipe.training.max_steps, recipe.batches.size) == (1_000_000, 128)
            assert (recipe.data.context_length, recipe.model.size_class) == (1024, name)
            assert (recipe.paper.metric, recipe.paper.validation) == ("perplexity", perplexity)
            assert recipe.paper.cell == f"Table 3, C4 val. PPL, {name}, {depth} layer{'s' * (depth > 1)}"
            text = path.read_text(encoding="utf-8")
            assert f"C4 val. PPL: {perplexity}. " in text
            assert f"recipes/petty2023/{path.name}\n" in text
            own = ("model.size_class", *(f"model.{key}" for key in recipe.model.fields), "training.learning_rate",
                   "paper.cell", "paper.validation")  # fmt: skip
            others.add(json.dumps({key: value for key, value in recipe.flat().items() if key not in own}))
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
        pytest.param(
            "cfq", {"transformer": "0.685M", "relative": "0.751M", "universal": "1.4M", "relative_universal": "1.5M"},
            marks=pytest.mark.slow,
        ),
    ],
)  # fmt: skip
def test_models_have_the_paper_s_sizes_with_real_words(benchmark, sizes, data_dir):
    recipes = {path.stem: load_recipe(path, [f"data.data_dir={data_dir}"]) for path in FILES}
    task = prepare_task(recipes[f"{benchmark}_transformer"])
    for name, size in sizes.items():
        task.recipe = recipes[f"{benchmark}_{name}"]
        found = task.build_model("eager").num_parameters()
        if isinstance(size, str):
            digits = len(size.removesuffix("M").partition(".")[2])
            found = f"{found / 1e6:.{digits}f}M"
        assert found == size


def test_mean_words_of_dependency_batches_are_those_the_recipes_name(data_dir):
    # the others take theirs from a base
    files = [path for path in FILES if path.stem.startswith("cfq_dep") and "max_tokens: " in path.read_text()]
    assert len(files) >= 3
    overrides = [f"data.data_dir={data_dir}", "data.config=mcd1_own_heads"]
    task = prepare_task(load_recipe(files[0], overrides))
    lengths = task.splits["train"].source_target_lengths()[0]
    for path in files:
        said = re.search(r"max_tokens: .*, ([0-9]+) in the mean", path.read_text())
        task.recipe = load_recipe(path, overrides)
        mean = np.mean([lengths[batch].sum() for batch in task.batches(1, 0, 1).batches])
        assert int(said[1]) == round(mean)


def test_reading_a_file_and_checking_it_give_one_cell():
    """But for the sizes that a size class decides: reports read recipes without models."""
    for file, path in shipped_files().items():
        read, loaded = read_recipe(path), load_recipe(path)
        assert read.file == loaded.file == file
        if loaded.model.size_class is None:
            assert read.to_dict() == loaded.to_dict()
        else:
            decided = {f"model.{key}" for key in loaded.model.fields}
            assert set(read.differences(loaded, "result")) <= decided
