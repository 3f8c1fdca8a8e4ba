"""Files of one's own: found, registered, carried by checkpoints; errors are one line, before any work."""

from __future__ import annotations

import importlib
import json
import os
import runpy
import shutil
import sys
from pathlib import Path

import pytest
from documents import ROOT, blocks
from tiny_runs import command
from transformers import AutoModelForSeq2SeqLM
from typer.testing import CliRunner

import hf_sysgen
from hf_sysgen.cli.main import app
from hf_sysgen.errors import UserError
from hf_sysgen.extensions import (
    EXTENSIONS_VARIABLE,
    extension_files,
    own_benchmarks,
)
from hf_sysgen.hub.model_card import describe_model_type
from hf_sysgen.models import CONFIGS, MODELS, register_own_models

PACKAGE_MODELS = Path(hf_sysgen.__file__).parent / "models"


def example(document: str, name: str) -> str:
    return next(block.text for block in blocks(ROOT / "docs" / document) if (block.path or "").endswith(name))


VARIANT = example("new_variant.md", "modeling_linear_bias.py")
BENCHMARK = example("new_benchmark.md", "benchmark_reverse.py")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(EXTENSIONS_VARIABLE, str(tmp_path))
    modules, known, configs = set(sys.modules), dict(MODELS), dict(CONFIGS)
    yield tmp_path
    for name in set(sys.modules) - modules:
        if name.rpartition(".")[2].startswith(("modeling_", "benchmark_")):
            del sys.modules[name]
    for registered, before in ((MODELS, known), (CONFIGS, configs)):
        registered.clear()
        registered.update(before)


def test_none_without_the_variable(monkeypatch):
    monkeypatch.delenv(EXTENSIONS_VARIABLE, raising=False)
    before = dict(CONFIGS)
    assert extension_files("modeling") == []
    assert not own_benchmarks(())
    register_own_models()
    assert before == CONFIGS


def test_other_files_are_left_alone(folder):
    (folder / "notes.py").write_text("raise AssertionError")
    (folder / "benchmark_reverse.py").write_text(BENCHMARK)
    register_own_models()
    assert list(own_benchmarks(())) == ["reverse"]


def test_a_folder_without_a_file_of_a_right_name(folder):
    (folder / "linear_bias.py").write_text(VARIANT)
    for kind in ("modeling", "benchmark"):
        with pytest.raises(UserError, match=r"modeling_\*\.py"):
            extension_files(kind)


def tiny_variant():
    config = CONFIGS["linear_bias_transformer"]
    sizes = {
        "hidden_size": 4,
        "intermediate_size": 4,
        "num_attention_heads": 2,
        "encoder_layers": 1,
        "decoder_layers": 1,
    }
    return AutoModelForSeq2SeqLM.from_config(config(**sizes))


def test_a_variant_is_registered_and_travels(folder, tmp_path):
    (folder / "modeling_linear_bias.py").write_text(VARIANT)
    register_own_models()
    model = tiny_variant()
    assert type(model).__name__ == "LinearBiasForConditionalGeneration"
    model.save_pretrained(tmp_path / "saved")
    assert (tmp_path / "saved" / "modeling_linear_bias.py").read_text() == VARIANT
    for name in ("seq2seq.py", "registry.py"):
        assert (tmp_path / "saved" / name).read_bytes() == (PACKAGE_MODELS / name).read_bytes()


def test_what_travels_is_what_was_imported(folder, tmp_path):
    """Neither a later change of the file, nor a file of the folder with the name of one of the package's."""
    (folder / "modeling_linear_bias.py").write_text(VARIANT)
    (folder / "attention.py").write_text("raise AssertionError")
    register_own_models()
    (folder / "modeling_linear_bias.py").write_text("raise AssertionError")
    tiny_variant().save_pretrained(tmp_path / "saved")
    assert (tmp_path / "saved" / "modeling_linear_bias.py").read_text() == VARIANT
    assert (tmp_path / "saved" / "attention.py").read_bytes() == (PACKAGE_MODELS / "attention.py").read_bytes()


def test_a_variant_imported_again_replaces_itself(folder):
    (folder / "modeling_linear_bias.py").write_text(VARIANT)
    register_own_models()
    before = len(MODELS)
    register_own_models()
    assert len(MODELS) == before
    assert type(tiny_variant()).config_class is CONFIGS["linear_bias_transformer"]


def without(text: str, part: str, instead: str = "") -> str:
    assert part in text
    return text.replace(part, instead)


TWICE = """
@register
class OtherForConditionalGeneration(LinearBiasForConditionalGeneration):
    pass
"""


# what is wrong, and words of the file that the error names
@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import torch\n\ndef (", "line 3"),
        ("import torch\n\ntorch.nothing", "line 3: .*nothing"),
        ("raise ValueError('one\\n  two')", "line 1: .*one two"),
        ("from .helper import X", r"helper\.py"),
        ("import math\n\nimport pandas.io", "pandas"),
        ("def f():\n    from yaml import load", "yaml"),
        (without(VARIANT, ".seq2seq", "hf_sysgen.models.seq2seq"), "hf_sysgen"),
        ("from . import layers", "from . import layers"),
        ("from ..data import load_benchmark", "from ..data"),
        ("import torch", "@register"),
        (without(VARIANT, "@strict\n"), "LinearBiasConfig.*@strict"),
        (without(VARIANT, " = 0.5\n"), "LinearBiasConfig.*steepest"),
        (without(VARIANT, "float | int = 0.5", "int = 0.5"), r"LinearBiasConfig\(\).*int"),
        (without(VARIANT, '"linear_bias_transformer"', '"t5"'), "'t5'"),
        (without(VARIANT, '"linear_bias_transformer"', '"relative_transformer"'), "'relative_transformer'"),
        (without(VARIANT, "    model_class = LinearBiasModel\n"), "LinearBiasForConditionalGeneration.*model_class"),
        (
            without(VARIANT, "    config_class = LinearBiasConfig\n    encoder_class", "    encoder_class"),
            "LinearBiasModel.*config_class",
        ),
        (without(VARIANT, "LinearBiasForConditionalGeneration", "LinearBiasHead"), "LinearBiasHead"),
        (VARIANT + TWICE, "LinearBiasForConditionalGeneration and OtherForConditionalGeneration"),
    ],
)
def test_what_is_wrong_with_a_variant(text, names, folder):
    (folder / "modeling_mine.py").write_text(text)
    with pytest.raises(UserError, match=rf"modeling_mine\.py.*{names}") as caught:
        register_own_models()
    assert "\n" not in str(caught.value)


def test_a_name_that_the_package_has(folder):
    (folder / "modeling_edge_transformer.py").write_text(VARIANT)
    with pytest.raises(UserError, match=r"modeling_edge_transformer\.py"):
        register_own_models()


def test_what_is_built_on_and_what_may_be_lacking(folder):
    """Only registered classes are found, and a package inside `try` may be missing."""
    base = "class LinearBiasPreTrainedModel(LinearBiasModel):\n    pass\n"
    optional = "try:\n    import no_such_package\nexcept ImportError:\n    no_such_package = None\n"
    (folder / "modeling_linear_bias.py").write_text(VARIANT + base + optional)
    register_own_models()
    assert {one.__name__ for one in MODELS[CONFIGS["linear_bias_transformer"]].values()} == {
        "LinearBiasModel", "LinearBiasForConditionalGeneration"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "taken", "message"),
    [
        ("1 / 0", (), "benchmark_reverse.py, line 1: "),
        ("import datasets", (), "BenchmarkBuilder"),
        (BENCHMARK, ("reverse",), "'reverse'"),
        (without(BENCHMARK, "_reverse:Reverse", ":R"), (), "'benchmark:R'.*'benchmark_reverse:Reverse'"),
        (BENCHMARK.replace('name="reverse"', 'task="graph_parsing", name="reverse"'), (), "task='graph_parsing'"),
        (BENCHMARK.replace('kinds={"validation"', 'kinds={"dev"'), (), r"line \d+: .*kinds .*'dev'.*validation"),
    ],
)
def test_what_is_wrong_with_a_benchmark(text, taken, message, folder):
    (folder / "benchmark_reverse.py").write_text(text)
    with pytest.raises(UserError, match=message):
        own_benchmarks(taken)


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ('{"input": source, "target": target}', '{"input": source, "target": len(3)}', "TypeError"),
        ('files["all"]', 'files["al"]', "KeyError"),
        ("pairs = list", "pairs = nothing", "NameError"),
    ],
)
def test_errors_in_a_benchmark_of_one_s_own_name_its_line(right, wrong, said, folder):
    text = BENCHMARK.replace(right, wrong)
    assert text != BENCHMARK
    line = next(n for n, one in enumerate(text.splitlines(), start=1) if wrong in one)
    path = folder / "benchmark_reverse.py"
    path.write_text(text)
    (folder / "reverse.tsv").write_text(example("new_benchmark.md", "reverse.tsv"))
    words = ["-m", "hf_sysgen.cli", "data", "verify", "reverse", "--data-dir", "."]
    done = command(words, folder, HF_DATASETS_CACHE=str(folder / "cache"))
    assert done.returncode != 0
    assert f"{path.name}, line {line}: {said}" in done.stdout
    assert "Traceback" not in done.stderr


def test_what_is_no_benchmark_info(folder):
    (folder / "benchmark_reverse.py").write_text("class Reverse:\n    BENCHMARK = 'reverse'\n")
    with pytest.raises(UserError, match=r"reverse\.py.*BENCHMARK.*Reverse.*\bstr\b"):
        own_benchmarks(())


def test_a_benchmark_that_is_built_on_the_package_s(folder, monkeypatch):
    (folder / "benchmark_reverse.py").write_text(
        f"{BENCHMARK}\n\nfrom hf_sysgen.data import benchmark_info\nSCAN = benchmark_info('scan')\n"
    )
    # as in a fresh process; afterwards the package has its registry again, which an import replaces
    monkeypatch.setattr("hf_sysgen.data.registry", sys.modules["hf_sysgen.data.registry"])
    monkeypatch.delitem(sys.modules, "hf_sysgen.data.registry")
    registry = importlib.import_module("hf_sysgen.data.registry")
    assert registry.benchmark_info("reverse").name == "reverse"


def test_a_folder_at_home(folder, monkeypatch):
    (folder / "benchmark_reverse.py").write_text(BENCHMARK)
    monkeypatch.setenv("HOME", str(folder.parent))
    monkeypatch.setenv(EXTENSIONS_VARIABLE, f"~/{folder.name}")
    assert extension_files("benchmark") == [folder / "benchmark_reverse.py"]


def test_a_folder_that_is_not_there(monkeypatch, tmp_path):
    monkeypatch.setenv(EXTENSIONS_VARIABLE, str(tmp_path / "none"))
    with pytest.raises(UserError, match="none is not a folder"):
        extension_files("modeling")


COMMANDS = [
    ["list"], ["train", "recipe.yaml"], ["evaluate", "model", "scan"], ["predict", "jump"],
    ["plot", "attention", "model", "jump"], ["plot", "biases", "model"], ["plot", "example", "run"],
    ["plot", "story", "model", "Ann wife Bob, Ann ? Bob"], ["publish", "model", "me/model"],
    ["sweep", "sweep.yaml"], ["data", "describe", "scan"],
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_commands_that_read_it_say_so(words, tmp_path):
    """In a fresh process, where the first import of the models or benchmarks reads the folder."""
    (tmp_path / "recipe.yaml").write_text(
        "model: {type: sysgen_transformer}\ndata: {benchmark: scan, config: simple}\n"
        "batches: {sampling: epochs, size: 2}\ntraining: {max_steps: 1, learning_rate: 1.0}\n"
    )
    (tmp_path / "sweep.yaml").write_text("recipes: [recipe.yaml]\nseeds: [0]\n")
    (tmp_path / "run").mkdir()
    for folder in (tmp_path, tmp_path / "run"):
        shutil.copy(ROOT / "results/bergen2021/clutrr_edge_234_quick-seed0.json", folder / "results.json")
    output = ["-o", "picture.png"] if words[0] == "plot" else []
    done = command(["-m", "hf_sysgen.cli", *words, *output], tmp_path, **{EXTENSIONS_VARIABLE: "none"})
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert EXTENSIONS_VARIABLE in done.stderr


def test_a_recipe_says_where_a_variant_may_be(tmp_path):
    (tmp_path / "mine.yaml").write_text(
        "model: {type: linear_bias_transformer}\ndata: {benchmark: scan, config: simple}\n"
        "batches: {sampling: epochs, size: 2}\ntraining: {max_steps: 1, learning_rate: 1.0}\n"
    )
    result = CliRunner().invoke(app, ["train", str(tmp_path / "mine.yaml")])
    assert result.exit_code == 2
    assert EXTENSIONS_VARIABLE in result.stderr


def test_a_checkpoint_says_where_its_variant_may_be(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "linear_bias_transformer"}))
    result = CliRunner().invoke(app, ["predict", "-c", str(tmp_path), "jump"])
    assert result.exit_code == 2
    assert "'linear_bias_transformer'" in result.stderr
    assert EXTENSIONS_VARIABLE in result.stderr


def test_a_card_says_where_its_variant_may_be():
    with pytest.raises(UserError, match=f"'linear_bias_transformer'.*{EXTENSIONS_VARIABLE}"):
        describe_model_type("linear_bias_transformer")


def test_tests_know_no_models_of_the_machine(monkeypatch):
    monkeypatch.setenv(EXTENSIONS_VARIABLE, "none")
    runpy.run_path(str(ROOT / "tests" / "conftest.py"))
    assert EXTENSIONS_VARIABLE not in os.environ
