"""`hf-sysgen data`: what it prints, what it exits with, and one line for everything that cannot be used."""

from __future__ import annotations

import itertools
import re
import statistics
import sys
import warnings
from pathlib import Path

import datasets
import huggingface_hub.constants
import pytest
from typer.testing import CliRunner

import hf_sysgen.data.builder
import hf_sysgen.data.describe
import hf_sysgen.data.fetch
import hf_sysgen.data.text.byte_pairs
from hf_sysgen.cli.data import quiet
from hf_sysgen.cli.main import app
from hf_sysgen.data import benchmark_info, list_benchmarks, load_benchmark

SCAN = benchmark_info("scan")


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file comes from anywhere but the mirror, where a test names it."""
    monkeypatch.delenv("HF_SYSGEN_DATA_DIR", raising=False)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def invoke(*words: str | Path):
    return CliRunner().invoke(app, ["data", *map(str, words)])


def assert_one_line_error(result, *parts: str) -> None:
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("error: ")
    assert all(part in line for part in parts), line


def test_list() -> None:
    result = CliRunner().invoke(app, ["list", "benchmarks"])
    assert result.exit_code == 0
    for benchmark in list_benchmarks():
        assert f"\n{benchmark.name}: " in f"\n{result.output}"
        for config in benchmark.configs:
            assert f"\n  {config} " in result.output
    lines = [line.split(maxsplit=1) for line in result.output.splitlines()]
    assert ["length_cutoff_26", "train 16,458 / validation 1,828 / test 2,624"] in lines
    assert max(map(len, result.output.splitlines())) <= 120


@pytest.mark.parametrize("benchmark", list_benchmarks(), ids=lambda benchmark: benchmark.name)
def test_describe(benchmark, cache: Path) -> None:
    """Everything that is known of a config is on its page."""
    for name, config in benchmark.configs.items():
        result = invoke("describe", benchmark.name, name, "--cache-dir", cache)
        assert result.exit_code == 0, result.output
        page = " ".join(result.stdout.split())
        facts = [
            *map(config.meaning, config.splits),
            *benchmark.errata,
            *config.errata,
            benchmark.restriction,
            config.description,
        ]
        facts += [benchmark.citation, config.citation, config.licence]
        for source in config.sources.values():
            facts += [source.url, source.checksum, source.mirror]
        for fact in facts:
            assert " ".join(fact.split()) in page
        for split, count in config.num_examples.items():
            assert f"{split} {'not known' if count is None else f'{count:,}'}" in page


def test_describe_all_configs() -> None:
    result = invoke("describe", "scan")
    assert result.exit_code == 0
    assert all(f"  {name}: train " in result.output for name in SCAN.configs)


def test_lengths(cache: Path) -> None:
    assert "add --lengths" in invoke("describe", "scan", "length", "--cache-dir", cache).output
    assert invoke("describe", "scan", "length", "--cache-dir", cache, "--lengths").stderr == ""
    rows = [line.split() for line in _lengths(cache, "--lengths")]
    data = load_benchmark("scan", "length", cache_dir=cache)
    for split, column in itertools.product(("train", "test"), ("input", "target")):
        sizes = sorted(len(text.split()) for text in data[split][column])
        measured = [min(sizes), statistics.median_low(sizes), max(sizes), sum(sizes)]
        assert [split, column, *(f"{size:,}" for size in measured)] in rows
    assert len(rows) == 5
    # prepared now, so without being asked
    assert _lengths(cache) == _lengths(cache, "--lengths")


def _lengths(cache: Path, *options: str) -> list[str]:
    result = invoke("describe", "scan", "length", "--cache-dir", cache, *options)
    assert result.exit_code == 0, result.output
    words = " ".join(result.output.split())
    assert "input: 13 different words, not in train: test 0; target: 6 different words" in words
    return result.output.partition("Lengths, in words between spaces\n")[2].partition("\n\n")[0].splitlines()


def test_prepare(tmp_path: Path) -> None:
    first = invoke("prepare", "scan", "simple", "--cache-dir", tmp_path)
    assert first.exit_code == 0, first.output
    assert first.stdout.startswith("scan simple: 20,910 examples, ")
    assert " rows/s, " in first.stdout
    assert first.stderr == ""
    assert "was prepared" in invoke("prepare", "scan", "simple", "--cache-dir", tmp_path).stdout


def test_a_stream_is_not_prepared(tmp_path: Path) -> None:
    result = invoke("prepare", "c4", "--cache-dir", tmp_path)
    assert result.exit_code == 0
    assert result.stdout.startswith("c4 en: ")
    assert invoke("describe", "c4").exit_code == 0


def test_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only the config at work is left."""
    tried = []

    def interrupt(self, *_, **__):
        tried.append(self.config.name)
        raise KeyboardInterrupt

    monkeypatch.setattr(hf_sysgen.data.builder.BenchmarkBuilder, "download_and_prepare", interrupt)
    result = invoke("prepare", "scan", "--cache-dir", tmp_path)
    assert (result.exit_code, result.stderr) == (130, "error: interrupted\n")
    assert tried == ["simple"]


def test_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    given = []
    monkeypatch.setattr(hf_sysgen.data.describe, "describe_text", lambda *_, data_dir, **__: given.append(data_dir))
    assert invoke("describe", "c4", "--data-dir", "https://host/folder").exit_code == 0
    monkeypatch.setattr(
        hf_sysgen.data.text.byte_pairs, "save_byte_pairs", lambda *_, data_dir: given.append(data_dir) or (1, 1)
    )
    assert invoke("tokenizer", "folder", "--data-dir", "https://host/folder").exit_code == 0
    assert given == ["https://host/folder"] * 2


@pytest.mark.parametrize("decided", [True, False, None])
def test_quiet_leaves_what_the_environment_decides(monkeypatch: pytest.MonkeyPatch, decided: bool | None) -> None:
    """Nothing is warned of, and afterwards bars are as they were."""
    for module in (datasets.config, sys.modules["datasets.utils.tqdm"]):
        monkeypatch.setattr(module, "HF_DATASETS_DISABLE_PROGRESS_BARS", decided)
    for module in (huggingface_hub.constants, sys.modules["huggingface_hub.utils.tqdm"]):
        monkeypatch.setattr(module, "HF_HUB_DISABLE_PROGRESS_BARS", decided)
    monkeypatch.setattr(sys.modules["datasets.utils.tqdm"], "_hf_datasets_progress_bars_disabled", bool(decided))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with quiet():
            assert datasets.are_progress_bars_disabled() == (decided is not False)
    assert datasets.are_progress_bars_disabled() == bool(decided)


def test_prepare_what_cannot_be_had(tmp_path: Path) -> None:
    result = invoke("prepare", "scan", "mcd1", "--cache-dir", tmp_path)
    assert_one_line_error(result, "tasks_train_mcd1.txt", "offline mode", "HF_SYSGEN_DATA_DIR")


def verified(result) -> list[tuple[str, str]]:
    """The status of each line with what it is of; the last line counts them."""
    *lines, total = result.stdout.splitlines()
    found = [(line.split()[0], line) for line in lines]
    statuses = [status for status, _ in found]
    counts = [statuses.count("ok"), statuses.count("FAILED") + statuses.count("DAMAGED"), statuses.count("SKIPPED")]
    assert [int(count) for count in re.findall(r"\d+", total)] == counts
    return found


def test_verify(cache: Path) -> None:
    result = invoke("verify", "scan", "length", "--cache-dir", cache)
    assert result.exit_code == 0, result.output
    found = verified(result)
    assert {status for status, _ in found} == {"ok", "note"}
    assert [line for status, line in found if status == "note" and "3,920" in line]


def test_verify_finds_wrong_data(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = hf_sysgen.data.builder.BenchmarkBuilder.as_dataset

    def swapped(self) -> datasets.DatasetDict:
        parts = whole(self)
        return datasets.DatasetDict({"train": parts["test"], "test": parts["train"]})

    monkeypatch.setattr(hf_sysgen.data.builder.BenchmarkBuilder, "as_dataset", swapped)
    result = invoke("verify", "scan", "length", "--cache-dir", cache)
    assert result.exit_code == 1
    failed = [line for status, line in verified(result) if status == "FAILED"]
    # how many there are of either split, and how long their actions are
    assert len(failed) == 4
    assert all("train" in line or "test" in line for line in failed)
    assert sum("16,990" in line and "3,920" in line for line in failed) == 2


def test_verify_says_what_it_skips(tmp_path: Path) -> None:
    result = invoke("verify", "scan", "mcd2", "--cache-dir", tmp_path)
    assert result.exit_code == 2
    ((status, line),) = verified(result)
    assert status == "SKIPPED"
    assert "tasks_train_mcd2.txt" in line


def test_verify_tells_damaged_from_absent(tmp_path: Path) -> None:
    wrong = tmp_path / "scan_mcd" / "tasks_train_mcd2.txt"
    wrong.parent.mkdir()
    wrong.write_text("IN: jump OUT: I_JUMP\n")
    result = invoke("verify", "scan", "mcd2", "--cache-dir", tmp_path / "cache", "--data-dir", tmp_path)
    assert result.exit_code == 1
    ((status, line),) = verified(result)
    assert status == "DAMAGED"
    assert str(wrong) in line


@pytest.mark.parametrize("command", ["prepare", "verify"])
def test_all(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every config of every benchmark is tried, whatever became of those before."""

    def nothing(self, *_, **__):
        raise hf_sysgen.data.fetch.DataError(f"no {self.BENCHMARK.name} {self.config.name} today")

    monkeypatch.setattr(hf_sysgen.data.builder.BenchmarkBuilder, "download_and_prepare", nothing)
    result = invoke(command, "--all", "--cache-dir", tmp_path)
    assert result.exit_code == 2
    for benchmark in list_benchmarks():
        for config in benchmark.configs:
            (line,) = [
                line for line in result.output.splitlines() if re.search(rf"\b{benchmark.name} {config}[: ]", line)
            ]
            assert line.startswith(("error: ", "SKIPPED "))
            # 305 GB, which are not tried
            assert "today" not in line or benchmark.name != "c4"


@pytest.mark.parametrize("command", ["prepare", "verify"])
def test_wrong_names(command: str) -> None:
    assert_one_line_error(invoke(command), "name a benchmark, or give --all")
    assert_one_line_error(invoke(command, "scan", "--all"), "give either scan or --all")
    assert_one_line_error(invoke(command, "scam"), "did you mean 'scan'")
    assert_one_line_error(invoke(command, "scan", "lenght"), "did you mean 'length'")


def test_describe_wrong_names() -> None:
    assert_one_line_error(invoke("describe", "scam"), "did you mean 'scan'")
    assert_one_line_error(invoke("describe", "scan", "lenght"), "did you mean 'length'")
    assert_one_line_error(invoke("describe", "scan", "--lengths"), "scan has several configs, name one of: simple, ")
