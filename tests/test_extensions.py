"""Files of one's own that cannot be used are told in one line, before any work."""

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
from transformers import AutoModel
from typer.testing import CliRunner

import hf_sysgen
from hf_sysgen.cli.main import app
from hf_sysgen.extensions import EXTENSIONS_VARIABLE, ExtensionError, extension_files, own_benchmarks, own_models
from hf_sysgen.hub.model_card import what_is
from hf_sysgen.hub.repository import PublishError
from hf_sysgen.models import CONFIGS

MODELS = Path(hf_sysgen.__file__).parent / "models"


def example(document: str, name: str) -> str:
    return next(block.text for block in blocks(ROOT / "docs" / document) if (block.path or "").endswith(name))


# two classes that one Auto class would find
TREES = """
class LinearBiasForGraphParsing(LinearBiasForConditionalGeneration):
    pass


class LinearBiasForDependencyParsing(LinearBiasForConditionalGeneration):
    pass
"""
VARIANT = example("new_variant.md", "modeling_linear_bias.py")
BENCHMARK = example("new_benchmark.md", "benchmark_reverse.py")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(EXTENSIONS_VARIABLE, str(tmp_path))
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.rpartition(".")[2].startswith(("modeling_", "benchmark_")):
            del sys.modules[name]


def test_none_without_the_variable(monkeypatch):
    monkeypatch.delenv(EXTENSIONS_VARIABLE, raising=False)
    assert extension_files("modeling") == []
    assert not own_benchmarks(())
    assert not dict(own_models(MODELS, ()))


def test_other_files_are_left_alone(folder):
    (folder / "notes.py").write_text("raise AssertionError")
    (folder / "benchmark_reverse.py").write_text(BENCHMARK)
    assert not dict(own_models(MODELS, ()))
    assert list(own_benchmarks(())) == ["reverse"]


def test_a_folder_without_a_file_of_a_right_name(folder):
    (folder / "linear_bias.py").write_text(VARIANT)
    for kind in ("modeling", "benchmark"):
        with pytest.raises(ExtensionError, match=r"has no file modeling_\*\.py or benchmark_\*\.py; name a variant's"):
            extension_files(kind)


def test_a_variant_is_found_with_its_classes(folder):
    (folder / "modeling_linear_bias.py").write_text(VARIANT)
    ((config, classes),) = own_models(MODELS, CONFIGS)
    assert config.model_type == "linear_bias_transformer"
    assert {auto.__name__: model.__name__ for auto, model in classes.items()} == {
        "AutoModel": "LinearBiasModel",
        "AutoModelForSeq2SeqLM": "LinearBiasForConditionalGeneration",
    }
    # saving finds the siblings of the file beside it
    file = Path(sys.modules[config.__module__].__file__)
    assert file.read_text() == VARIANT
    assert (file.parent / "seq2seq.py").read_bytes() == (MODELS / "seq2seq.py").read_bytes()


def without(text: str, part: str, instead: str = "") -> str:
    assert part in text
    return text.replace(part, instead)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import torch\n\ndef (", r"modeling_mine\.py, line 3: invalid syntax"),
        ("import torch\n\ntorch.nothing", r"modeling_mine\.py, line 3: AttributeError: .*nothing"),
        ("raise ValueError('one\\n  two')", "line 1: ValueError: one two"),
        (
            "from .helper import X",
            r"line 1: hf_sysgen/models has no helper\.py; a variant is one file: put what it needs",
        ),
        ("import math\n\nimport pandas.io", "line 3: who loads the checkpoint may lack pandas"),
        ("def f():\n    from yaml import load", "line 2: who loads the checkpoint may lack yaml"),
        ("try:\n    import hf_sysgen\nexcept ImportError:\n    pass", "line 2: this import does not travel"),
        (without(VARIANT, ".seq2seq", "hf_sysgen.models.seq2seq"), r"line \d+: this import does not travel"),
        ("from . import layers", "line 1: this import does not travel"),
        ("from ..data import load_benchmark", "line 1: this import does not travel"),
        ("import hf_sysgen", "line 1: this import does not travel"),
        ("import torch", "no config class in it"),
        (without(VARIANT, "@strict\n"), "LinearBiasConfig lacks @strict"),
        (without(VARIANT, " = 0.5\n"), r"LinearBiasConfig\(\) must work, give every field a default .*'steepest'"),
        (without(VARIANT, "float | int = 0.5", "int = 0.5"), r"LinearBiasConfig\(\) must work, .* expected int"),
        (without(VARIANT, '"linear_bias_transformer"', '"t5"'), "model_type 't5' of LinearBiasConfig is taken"),
        (without(VARIANT, '"linear_bias_transformer"', '"relative_transformer"'), "'relative_transformer' .* is taken"),
        (without(VARIANT, "    model_class = LinearBiasModel\n"), "model_class of LinearBiasForCond.* of this file"),
        (
            without(VARIANT, "    config_class = LinearBiasConfig\n    encoder_class", "    encoder_class"),
            "config_class of LinearBiasModel must be",
        ),
        (without(VARIANT, "LinearBiasForConditionalGeneration", "LinearBiasHead"), "needs a class whose name ends in"),
        (
            VARIANT + TREES,
            "TokenClassification finds one class of a config, not both .*ForGraphParsing and .*ForDependencyParsing",
        ),
    ],
)
def test_what_is_wrong_with_a_variant(text, message, folder):
    (folder / "modeling_mine.py").write_text(text)
    with pytest.raises(ExtensionError, match=message) as caught:
        dict(own_models(MODELS, CONFIGS))
    assert "\n" not in str(caught.value)
    assert "modeling_mine.py" in str(caught.value)


def test_a_name_that_the_package_has(folder):
    (folder / "modeling_edge_transformer.py").write_text(VARIANT)
    with pytest.raises(ExtensionError, match=r"modeling_edge_transformer\.py: the package has a file of that name"):
        dict(own_models(MODELS, CONFIGS))


def test_what_is_built_on_and_what_may_be_lacking(folder):
    """A class that others extend is not taken for the bare model, and a package inside `try` may be lacking."""
    base = "class LinearBiasPreTrainedModel(LinearBiasModel):\n    pass\n"
    optional = "try:\n    import no_such_package\nexcept ImportError:\n    no_such_package = None\n"
    (folder / "modeling_linear_bias.py").write_text(VARIANT + base + optional)
    ((_, classes),) = own_models(MODELS, CONFIGS)
    assert classes[AutoModel].__name__ == "LinearBiasModel"


def test_the_copy_is_for_all_to_read(folder):
    (folder / "modeling_linear_bias.py").write_text(VARIANT)
    (folder / "attention.py").write_text("raise AssertionError")
    ((config, _),) = own_models(MODELS, CONFIGS)
    copy = Path(sys.modules[config.__module__].__file__).parent
    assert copy.stat().st_mode & 0o777 == 0o755
    assert list(copy.parent.iterdir()) == [copy]
    assert (copy / "attention.py").read_bytes() == (MODELS / "attention.py").read_bytes()


def test_a_copy_that_fails_leaves_nothing(folder, monkeypatch):
    def full(path, content):
        raise OSError("no space left")

    (folder / "modeling_mine.py").write_text(VARIANT)
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(ExtensionError, match=r"cannot write to .*: no space left"):
        dict(own_models(MODELS, CONFIGS))
    assert list((folder / "modules" / "hf_sysgen_extensions").iterdir()) == []


def test_a_cache_that_cannot_be_written(folder, monkeypatch):
    (folder / "modeling_mine.py").write_text(VARIANT)
    (folder / "file").write_text("")
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(folder / "file"))
    with pytest.raises(ExtensionError, match=r"cannot write to .* set HF_MODULES_CACHE to another folder"):
        dict(own_models(MODELS, CONFIGS))


@pytest.mark.parametrize(
    ("text", "taken", "message"),
    [
        ("1 / 0", (), "benchmark_reverse.py, line 1: ZeroDivisionError"),
        ("import datasets", (), "no subclass of BenchmarkBuilder"),
        (BENCHMARK, ("reverse",), "there is a benchmark 'reverse' already"),
        (
            without(BENCHMARK, "_reverse:Reverse", ":R"),
            (),
            "'benchmark:R' of reverse must be 'benchmark_reverse:Reverse'",
        ),
    ],
)
def test_what_is_wrong_with_a_benchmark(text, taken, message, folder):
    (folder / "benchmark_reverse.py").write_text(text)
    with pytest.raises(ExtensionError, match=message):
        own_benchmarks(taken)


def test_what_is_no_benchmark_info(folder):
    (folder / "benchmark_reverse.py").write_text("class Reverse:\n    BENCHMARK = 'reverse'\n")
    with pytest.raises(ExtensionError, match=r"reverse\.py: BENCHMARK of Reverse must be a BenchmarkInfo, not str"):
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
    with pytest.raises(ExtensionError, match="none is no folder; name one, or unset it"):
        extension_files("modeling")


COMMANDS = [
    ["list"], ["train", "recipe.yaml"], ["compare", "recipe.yaml"], ["evaluate", "model", "scan"], ["predict", "jump"],
    ["look", "attention", "model", "jump"], ["look", "biases", "model"], ["look", "example", "run"],
    ["look", "story", "model", "Ann wife Bob, Ann ? Bob"], ["publish", "model", "me/model"], ["card", "results.json"],
    ["sweep", "sweep.yaml"], ["data", "list"], ["data", "describe", "scan"],
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_commands_that_read_it_say_so(words, tmp_path):
    """In a fresh process, where the first import of the models or benchmarks reads the folder."""
    (tmp_path / "recipe.yaml").write_text("model: sysgen_transformer\n")
    (tmp_path / "sweep.yaml").write_text("recipes: [recipe.yaml]\nseeds: [0]\n")
    (tmp_path / "results.json").write_text("{}")
    (tmp_path / "run").mkdir()
    shutil.copy(ROOT / "results" / "clutrr_edge_234_quick-seed0.json", tmp_path / "run" / "results.json")
    output = ["-o", "picture.png"] if words[0] == "look" else []
    done = command(["-m", "hf_sysgen.cli", *words, *output], tmp_path, **{EXTENSIONS_VARIABLE: "none"})
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert EXTENSIONS_VARIABLE in done.stderr


def test_a_recipe_says_where_a_variant_may_be(tmp_path):
    (tmp_path / "mine.yaml").write_text("model: linear_bias_transformer\n")
    result = CliRunner().invoke(app, ["train", str(tmp_path / "mine.yaml")])
    assert result.exit_code == 2
    assert EXTENSIONS_VARIABLE in result.stderr


def test_a_checkpoint_says_where_its_variant_may_be(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "linear_bias_transformer"}))
    result = CliRunner().invoke(app, ["predict", "-c", str(tmp_path), "jump"])
    assert result.exit_code == 2
    assert "model_type is 'linear_bias_transformer', which is none of this package's" in result.stderr
    assert EXTENSIONS_VARIABLE in result.stderr


def test_a_card_says_where_its_variant_may_be():
    with pytest.raises(PublishError, match=f"'linear_bias_transformer', which is none .* {EXTENSIONS_VARIABLE}"):
        what_is("linear_bias_transformer")


def test_tests_know_no_models_of_the_machine(monkeypatch):
    monkeypatch.setenv(EXTENSIONS_VARIABLE, "none")
    runpy.run_path(str(ROOT / "tests" / "conftest.py"))
    assert EXTENSIONS_VARIABLE not in os.environ
