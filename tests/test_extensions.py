"""Files of one's own that cannot be used are told in one line, before any work."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from documents import ROOT, blocks
from typer.testing import CliRunner

import hf_sysgen
from hf_sysgen.cli import app
from hf_sysgen.extensions import EXTENSIONS_VARIABLE, ExtensionError, extension_files, own_benchmarks, own_models
from hf_sysgen.models import CONFIGS

MODELS = Path(hf_sysgen.__file__).parent / "models"


def example(document: str, name: str) -> str:
    return next(block.text for block in blocks(ROOT / "docs" / document) if (block.path or "").endswith(name))


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
    assert not own_benchmarks(())
    assert not dict(own_models(MODELS, ()))


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
        ("from .no_such import X", r"modeling_mine\.py, line 1: ModuleNotFoundError: .*no_such"),
        (without(VARIANT, ".seq2seq", "hf_sysgen.models.seq2seq"), r"line \d+: this import does not travel"),
        ("from . import layers", "line 1: this import does not travel"),
        ("from ..data import load_benchmark", "line 1: this import does not travel"),
        ("import hf_sysgen", "line 1: this import does not travel"),
        ("import torch", "no config class in it"),
        (without(VARIANT, "@strict\n"), "LinearBiasConfig lacks @strict"),
        (without(VARIANT, '"linear_bias_transformer"', '"t5"'), "model_type 't5' of LinearBiasConfig is taken"),
        (without(VARIANT, '"linear_bias_transformer"', '"relative_transformer"'), "'relative_transformer' .* is taken"),
        (without(VARIANT, "    model_class = LinearBiasModel\n"), "model_class of LinearBiasForCond.* of this file"),
        (
            without(VARIANT, "    config_class = LinearBiasConfig\n    encoder_class", "    encoder_class"),
            "config_class of LinearBiasModel must be",
        ),
        (without(VARIANT, "LinearBiasForConditionalGeneration", "LinearBiasHead"), "needs a class whose name ends in"),
    ],
)
def test_what_is_wrong_with_a_variant(text, message, folder):
    (folder / "modeling_mine.py").write_text(text)
    with pytest.raises(ExtensionError, match=message) as caught:
        dict(own_models(MODELS, CONFIGS))
    assert "\n" not in str(caught.value)
    assert "modeling_mine.py" in str(caught.value)


def test_a_name_that_the_package_has(folder):
    (folder / "modeling_mine.py").write_text(VARIANT)
    (folder / "attention.py").write_text("")
    with pytest.raises(ExtensionError, match=r"attention\.py: the package has a file of that name"):
        dict(own_models(MODELS, CONFIGS))


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


def test_a_folder_that_is_not_there(monkeypatch, tmp_path):
    monkeypatch.setenv(EXTENSIONS_VARIABLE, str(tmp_path / "none"))
    with pytest.raises(ExtensionError, match="none is no folder; name one, or unset it"):
        extension_files("modeling")


def test_a_recipe_says_where_a_variant_may_be(tmp_path):
    (tmp_path / "mine.yaml").write_text("model: linear_bias_transformer\n")
    result = CliRunner().invoke(app, ["train", str(tmp_path / "mine.yaml")])
    assert result.exit_code == 2
    assert EXTENSIONS_VARIABLE in result.stderr
