"""The list of benchmarks, and errors for wrong names."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import hf_sysgen.data
from hf_sysgen.data import DataError, benchmark_info, list_benchmarks, load_benchmark

BENCHMARKS = list_benchmarks()


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda benchmark: benchmark.name)
def test_what_is_said_is_complete(benchmark: hf_sysgen.data.BenchmarkInfo) -> None:
    assert benchmark_info(benchmark.name) is benchmark
    assert benchmark.citation.startswith("@")
    assert benchmark.licence
    assert "\n" not in benchmark.description
    fingerprints = set()
    for name, config in benchmark.configs.items():
        assert config.name == name
        assert config.description.endswith(".")
        assert config.licence
        assert set(config.splits) <= {"train", "validation", "test", "validation_generalization", "test_iid"}
        assert all(count is None or count > 0 for count in config.num_examples.values())
        for source in config.sources.values():
            # an archive's checksum pins its files, too; what users generate nobody can pin
            pinned = source.archive or source
            assert len(pinned.checksum) == (64 if pinned.sha256 else 40) or name.endswith("_generated")
            # what another host serves has a version of another kind, or none
            assert len(source.commit) == 40 or pinned.address is not None
            assert source.num_bytes is None or source.num_bytes > 0
        fingerprints.add(config.fingerprint)
    assert all(len(fingerprint) == 16 for fingerprint in fingerprints)


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda benchmark: benchmark.name)
def test_says_which_split_is_the_compositional_test(benchmark: hf_sysgen.data.BenchmarkInfo) -> None:
    for config in benchmark.configs.values():
        assert [*config.kinds] == [split for split in config.splits if split != "train"]
        assert "validation" not in config.of_kind("compositional")
        assert "test_iid" not in config.of_kind("compositional")
        assert config.kinds.get("validation_generalization", "compositional") == "compositional"
    # pretraining and translation have none
    without = benchmark.task in ("language_modeling", "translation") and benchmark.name != "noun_adjective"
    assert any("test" in config.of_kind("compositional") for config in benchmark.configs.values()) != without


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda benchmark: benchmark.name)
def test_builder_has_the_same_configs(benchmark: hf_sysgen.data.BenchmarkInfo) -> None:
    module, _, class_name = benchmark.builder.partition(":")
    builder_class = getattr(importlib.import_module(module), class_name)
    assert builder_class.BENCHMARK is benchmark
    assert [config.name for config in builder_class.BUILDER_CONFIGS] == list(benchmark.configs)
    assert [config.description for config in builder_class.BUILDER_CONFIGS] == [
        config.description for config in benchmark.configs.values()
    ]


def test_unknown_benchmark() -> None:
    with pytest.raises(DataError, match=r"'scam'.*'scan'"):
        load_benchmark("scam")


def test_unknown_config() -> None:
    with pytest.raises(DataError) as caught:
        load_benchmark("scan", "length_cutof_26")
    message = str(caught.value)
    assert "did you mean 'length_cutoff_26'?" in message
    assert all(config in message for config in benchmark_info("scan").configs)
    with pytest.raises(DataError, match="unknown config of scan 26"):
        load_benchmark("scan", 26)


def test_nothing_like_it() -> None:
    with pytest.raises(DataError, match="benchmark ''"):
        load_benchmark("")


def test_config_must_be_named() -> None:
    with pytest.raises(DataError, match=r"scan .*simple, length, "):
        load_benchmark("scan")


def test_list_imports_nothing_heavy() -> None:
    script = (
        "import sys, hf_sysgen.data as data\n"
        "assert data.list_benchmarks()\n"
        "heavy = {'datasets', 'numpy', 'torch', 'transformers', 'pyarrow'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True)


def test_public_names() -> None:
    for name in hf_sysgen.data.__all__:
        assert getattr(hf_sysgen.data, name).__name__ == name
    assert set(hf_sysgen.data.__all__) <= set(dir(hf_sysgen.data))
    with pytest.raises(AttributeError, match="'load_bench'"):
        hf_sysgen.data.load_bench  # noqa: B018
