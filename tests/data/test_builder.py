"""What all builders share: files from upstream, interrupted preparation, and errors in one line."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import datasets
import pytest
from huggingface_hub import close_session
from upstream import Upstream, hurried, serving
from upstream_files import Files

import hf_sysgen.data.builder
import hf_sysgen.data.info
import hf_sysgen.data.verify
from hf_sysgen.data import BenchmarkInfo, ConfigInfo, DataError, Source, benchmark_info, load_benchmark, registry
from hf_sysgen.data.builder import BenchmarkBuilder, builder_configs
from hf_sysgen.data.errors import DamagedData
from hf_sysgen.data.fetch import locate, open_file
from hf_sysgen.data.registry import benchmark_builder
from hf_sysgen.data.verify import verify

SCAN = benchmark_info("scan")


def toy(**counts: int | None) -> BenchmarkInfo:
    content = b"one\ntwo\nthree\n"
    source = Source("owner/name", "0" * 40, "toy.txt", None, 1_000_003, "MIT", "toy.txt", rebuild=lambda: content)
    config = ConfigInfo("only", "A toy.", counts, {"all": replace(source, num_bytes=len(content))})
    return BenchmarkInfo("toy", "Toy", "A toy.", "", "@misc{toy}", "", {"only": config})


TOY_SPLITS = ("train", "test")
TOY = replace(toy(**dict.fromkeys(TOY_SPLITS, 3)), builder=f"{__name__}:Toy")


class Toy(BenchmarkBuilder):
    BENCHMARK = TOY
    BUILDER_CONFIGS = builder_configs(TOY, version="1.0.0")
    fault: Any = None

    def _info(self) -> datasets.DatasetInfo:
        return self.describe(datasets.Features({"input": datasets.Value("string")}))

    empty, column = "", "input"
    last: Any = ""

    def _generate_examples(self, files: dict[str, str], split: str) -> Iterator[tuple[int, dict[str, str]]]:
        for row, line in enumerate(Path(files["all"]).read_text().splitlines()):
            if split == self.empty:
                continue
            if self.fault is not None and (split, row) == ("test", 1):
                raise self.fault
            yield row, {self.column: line if row < 2 else self.last or line}


@pytest.fixture
def toy_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "benchmarks", lambda: {"toy": TOY})


def prepared(cache_dir: Path, fault: Exception | None = None) -> datasets.DatasetDict:
    builder = Toy(cache_dir=cache_dir)
    builder.fault = fault
    builder.download_and_prepare()
    return builder.as_dataset()


def test_a_reader_s_error_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"toy\.txt: line 2"):
        prepared(tmp_path, DataError("toy.txt: line 2 is wrong"))
    # as of JSON that is nested deep
    with pytest.raises(DamagedData, match="RecursionError"):
        prepared(tmp_path, RecursionError("maximum recursion depth exceeded"))
    # its kind stays
    with pytest.raises(DamagedData, match=r"^toy\.txt: "):
        prepared(tmp_path, DamagedData("toy.txt: is cut short"))
    # nothing of it is taken for prepared data
    assert not list(tmp_path.rglob("*.arrow"))
    assert {split: len(part) for split, part in prepared(tmp_path).items()} == {"train": 3, "test": 3}


@pytest.mark.parametrize(
    ("attribute", "value", "said"),
    [
        ("empty", "test", "toy only: test has no examples"),
        ("column", "goal", "toy only: train has the columns goal, "),
        # Arrow would write it as a text
        ("last", ["three"], r"toy only: train: the 'input' of example 2 is \['three'\], and should be a text"),
    ],
)
def test_examples_that_cannot_be_meant(attribute: str, value: str, said: str, tmp_path: Path) -> None:
    builder = Toy(cache_dir=tmp_path)
    setattr(builder, attribute, value)
    with pytest.raises(DataError, match=said) as caught:
        builder.download_and_prepare()
    # no prepared data is to blame
    assert not isinstance(caught.value, DamagedData)
    assert not list(tmp_path.rglob("*.arrow"))


def test_other_errors_keep_their_traceback(tmp_path: Path) -> None:
    with pytest.raises(datasets.exceptions.DatasetGenerationError) as caught:
        prepared(tmp_path, ZeroDivisionError("a bug"))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("is_seen_before", [False, True])
def test_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_seen_before: bool) -> None:
    if is_seen_before:
        monkeypatch.setattr("datasets.builder.has_sufficient_disk_space", lambda *args, **kwargs: False)
    with pytest.raises(DataError, match=r"^toy only: .*toy.* 14 bytes") as caught:
        prepared(tmp_path, OSError(28, "No space left on device"))
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.rglob("*.arrow"))


@pytest.mark.parametrize("damage", ["cut", "absent", "cut info"])
def test_prepared_data_that_was_damaged(tmp_path: Path, damage: str) -> None:
    folder = Path(prepared(tmp_path)["train"].cache_files[0]["filename"]).parent
    arrow, info = folder / "toy-train.arrow", folder / "dataset_info.json"
    if damage == "absent":
        arrow.unlink()
    else:
        path = arrow if damage == "cut" else info
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DamagedData, match=rf"^toy only: .*{folder}"):
        prepared(tmp_path)
    shutil.rmtree(folder)
    assert len(prepared(tmp_path)["train"]) == 3


def test_limits_of_the_machine_are_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared(tmp_path)
    for error in (OSError(errno.EMFILE, "Too many open files"), MemoryError()):
        monkeypatch.setattr("datasets.arrow_reader.ArrowReader.read", mock.Mock(side_effect=error))
        with pytest.raises(type(error)) as caught:
            prepared(tmp_path)
        assert caught.value is error


def lines(dataset: Any) -> list[str]:
    return [example["input"] for example in dataset]


@pytest.mark.parametrize(
    ("split", "found"),
    [
        ("test", ["one", "two", "three"]),
        (datasets.Split.TEST, ["one", "two", "three"]),
        ("train[:34%]", ["one"]),
        ("train[1:] + test[-1:]", ["two", "three", "three"]),
        ("all", ["one", "two", "three"] * 2),
    ],
)
def test_split_and_part(toy_only: None, tmp_path: Path, split: Any, found: list[str]) -> None:
    dataset = load_benchmark("toy", split=split, cache_dir=tmp_path)
    assert isinstance(dataset, datasets.Dataset)
    assert lines(dataset) == found


def test_stream(toy_only: None, tmp_path: Path) -> None:
    whole = load_benchmark("toy", streaming=True, cache_dir=tmp_path)
    assert isinstance(whole, datasets.IterableDatasetDict)
    assert {name: lines(part) for name, part in whole.items()} == {key: ["one", "two", "three"] for key in TOY_SPLITS}
    train = load_benchmark("toy", split="train", streaming=True, cache_dir=tmp_path)
    assert isinstance(train, datasets.IterableDataset)
    # each epoch reads the files again
    assert lines(train) == lines(train) == ["one", "two", "three"]
    both = load_benchmark("toy", split="train+test", streaming=True, cache_dir=tmp_path)
    assert lines(both.skip(2).take(2)) == ["three", "one"]
    # nothing was prepared
    assert not list(tmp_path.rglob("*.arrow"))


@pytest.mark.parametrize(
    ("split", "streaming", "named"),
    [
        ("tran", False, "'train'"),
        ("train+tets[:1]", True, "'test'"),
        ("train[:1", False, "train[:1"),
        ("train[:1]", True, "streaming"),
        (["train", "test"], False, "train+test"),
    ],
)
def test_wrong_split_is_told_before_any_work(
    toy_only: None, tmp_path: Path, split: Any, streaming: bool, named: str
) -> None:
    with pytest.raises(DataError) as caught:
        load_benchmark("toy", split=split, streaming=streaming, cache_dir=tmp_path)  # type: ignore[call-overload]
    assert named in str(caught.value)
    assert not list(tmp_path.rglob("*.arrow"))


@pytest.mark.parametrize("split", ["train[:0]", "train[3:]", "train[:200%]"])
def test_part_that_is_not_there(toy_only: None, tmp_path: Path, split: str) -> None:
    with pytest.raises(DataError) as caught:
        load_benchmark("toy", split=split, cache_dir=tmp_path)
    # the prepared data is not to blame
    assert not isinstance(caught.value, DamagedData)
    assert split in str(caught.value)


def flip(path: Path, text: bytes) -> None:
    """Flip a bit of the text's first letter. Arrow reads the other word without an error."""
    content = bytearray(path.read_bytes())
    content[content.index(text)] ^= 1
    path.write_bytes(content)


def test_another_word_in_prepared_data_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small data is checked at each load, large data only by `data verify`."""
    folder = Path(prepared(tmp_path)["train"].cache_files[0]["filename"]).parent
    flip(folder / "toy-test.arrow", b"three")
    with pytest.raises(DamagedData, match=r"toy-test\.arrow"):
        prepared(tmp_path)
    monkeypatch.setattr(hf_sysgen.data.builder, "LOADED_BYTES", 10)
    assert prepared(tmp_path)["test"]["input"][:] == ["one", "two", "uhree"]
    monkeypatch.setattr(hf_sysgen.data.verify, "benchmark_builder", lambda *args, **kwargs: Toy(cache_dir=tmp_path))
    with pytest.raises(DamagedData, match=r"toy-test\.arrow"):
        list(verify("toy", "only"))


def test_data_that_an_older_version_prepared(tmp_path: Path) -> None:
    """The folder also has a file of `map`, which may be deleted."""
    data = prepared(tmp_path)
    folder = Path(data["train"].cache_files[0]["filename"]).parent
    (folder / "complete").unlink()
    mapped = Path(data["train"].map(lambda row: {"input": row["input"] * 2}).cache_files[0]["filename"])
    assert mapped.parent == folder
    assert len(prepared(tmp_path)["train"]) == 3
    mapped.unlink()
    flip(folder / "toy-train.arrow", b"three")
    with pytest.raises(DamagedData, match=r"toy-train\.arrow"):
        prepared(tmp_path)


@pytest.mark.parametrize("is_prepared", [False, True])
@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_cache_that_may_not_be_written_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, is_prepared: bool
) -> None:
    """Intact data is not called damaged. Root can write everywhere, so here the lock raises the error."""
    if is_prepared:
        prepared(tmp_path)

    def refuse(path: str) -> None:
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(datasets.builder, "FileLock", refuse)
    message = rf"^toy only: .*{tmp_path} .*HF_DATASETS_CACHE"
    with pytest.raises(DataError, match=message) as caught:
        prepared(tmp_path)
    assert not isinstance(caught.value, DamagedData)


@pytest.mark.parametrize("folder", ["", "below"])
def test_cache_in_a_file_s_place(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"^toy only: .*file"):
        prepared(tmp_path / "file" / folder)


def test_cache_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in /proc, where even root cannot create files."""

    def refuse(path: str, *args: object, **kwargs: object) -> None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(Path(path).parent))

    monkeypatch.setattr(os, "makedirs", refuse)
    with pytest.raises(DataError, match=r"^toy only: .*cache .*HF_DATASETS_CACHE"):
        prepared(tmp_path / "absent" / "cache")


def test_what_a_reader_may_not_read_is_not_the_cache(tmp_path: Path) -> None:
    fault = PermissionError(errno.EACCES, "Permission denied", "/elsewhere/toy.txt")
    with pytest.raises(datasets.exceptions.DatasetGenerationError):
        prepared(tmp_path, fault)
    with pytest.raises(DataError, match="HF_DATASETS_CACHE"):
        prepared(tmp_path, PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "toy")))


def test_changed_code_of_one_s_own_prepares_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules[Toy.__module__]
    for number, text in enumerate(("first", "second", "first")):
        (tmp_path / f"{number}.py").write_text(text)
    folders = []
    for number in range(3):
        monkeypatch.setattr(module, "__file__", str(tmp_path / f"{number}.py"))
        folders.append(Toy(cache_dir=tmp_path / "cache").cache_dir)
    assert folders[0] == folders[2] != folders[1]


def test_the_package_s_own_code_is_known_by_its_version(tmp_path: Path) -> None:
    builder = benchmark_builder("scan", "length", cache_dir=tmp_path)
    assert builder.cache_dir.endswith(SCAN.configs["length"].fingerprint)


def test_modules_stay_as_they_are(tmp_path: Path) -> None:
    script = (
        "import pathlib, sys, hf_sysgen.data.builder as builder\n"
        "from hf_sysgen.data import load_benchmark\n"
        "load_benchmark('scan', 'length', cache_dir=sys.argv[1])\n"
        "assert builder.Path is pathlib.Path\n"
        "assert 'scipy' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", script, str(tmp_path)], check=True)


def test_missing_dependency(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(datasets.exceptions.DatasetGenerationError):
        prepared(tmp_path, ModuleNotFoundError("No module named 'parser'"))
    monkeypatch.setattr(Toy, "BENCHMARK", replace(TOY, extra="parsing"))
    message = r"^toy only: .*'parser'.*hf-sysgen\[parsing\]$"
    with pytest.raises(DataError, match=message):
        prepared(tmp_path, ModuleNotFoundError("No module named 'parser'"))


def test_file_is_checked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = Toy(cache_dir=tmp_path)
    first = builder.locate_sources()
    monkeypatch.setattr(hf_sysgen.data.builder, "locate", None)
    assert builder.locate_sources() == first


def test_data_dir_is_looked_at_when_prepared(tmp_path: Path) -> None:
    assert load_benchmark("scan", "length", cache_dir=tmp_path)["train"].num_rows == 16_990
    with pytest.raises(DataError, match=r"scan/length_split/tasks_train_length.txt"):
        load_benchmark("scan", "length", cache_dir=tmp_path, data_dir=tmp_path)
    wrong = tmp_path / "wrong" / "scan" / "length_split" / "tasks_train_length.txt"
    wrong.parent.mkdir(parents=True)
    wrong.write_text("IN: jump OUT: I_JUMP\n")
    with pytest.raises(DataError, match="21 bytes"):
        load_benchmark("scan", "length", cache_dir=tmp_path, data_dir=tmp_path / "wrong")


def test_mirror_must_be_there_when_prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_benchmark("scan", "length", cache_dir=tmp_path)
    monkeypatch.setenv("HF_SYSGEN_DATA_DIR", str(tmp_path / "absent"))
    with pytest.raises(DataError, match=r"scan: .*absent.*HF_SYSGEN_DATA_DIR"):
        load_benchmark("scan", "length", cache_dir=tmp_path)


def test_counts_are_checked(tmp_path: Path) -> None:
    builder = Toy(cache_dir=tmp_path)
    data = prepared(tmp_path)
    assert [check.holds for check in builder.checks(data)] == [True, True]
    data["test"] = data["test"].select(range(2))
    assert list(builder.checks(data))[1] == ("test has 3 examples", False, "2")
    del data["test"]
    assert list(builder.checks(data))[1] == ("there is a split test", False, "only train")


PREPARE = """
import sys
import hf_sysgen.data.builder
import hf_sysgen.data.info
import hf_sysgen.data.verify
from hf_sysgen.data import load_benchmark
from hf_sysgen.data.scan.builder import Scan
hf_sysgen.data.info.GITHUB = sys.argv[2]
if "stop" in sys.argv:
    def generate(self, files, split):
        yield 0, {"input": "jump", "target": "I_JUMP"}
        print(split, flush=True)
        if split == "test":
            sys.stdin.read()
    Scan._generate_examples = generate
print({split: len(part) for split, part in load_benchmark("scan", "mcd1", cache_dir=sys.argv[1]).items()})
"""


def preparing(cache_dir: Path, address: str, *words: str) -> subprocess.Popen:
    environment = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", PREPARE, str(cache_dir), address, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


@pytest.fixture
def upstream(sample: Files, monkeypatch: pytest.MonkeyPatch) -> Iterator[Upstream]:
    """SCAN's MCD files, served like GitHub."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    close_session()
    hurried(monkeypatch)
    sources = SCAN.configs["mcd1"].sources.values()
    files = {}
    for source in sources:
        with open_file(locate(source, sample.folder)) as stream:
            files[f"/{source.repository}/{source.commit}/{source.path}"] = stream.read()
    with serving(files) as server:
        monkeypatch.setattr(hf_sysgen.data.info, "GITHUB", server.address)
        yield server


def test_real_files_over_a_bad_connection(tmp_path: Path, upstream: Upstream) -> None:
    upstream.faults = [503, "cut", "cut", "drop", "ignore range", 429, "cut"]
    data = load_benchmark("scan", "mcd1", cache_dir=tmp_path)
    assert {split: len(part) for split, part in data.items()} == {"train": 8365, "test": 1045}
    assert upstream.faults == []


def test_wrong_real_file(tmp_path: Path, upstream: Upstream) -> None:
    path = next(path for path in upstream.files if "test" in path)
    upstream.files[path] = upstream.files[path].replace(b"I_JUMP", b"I_WALK", 1)
    with pytest.raises(DataError, match=r"tasks_test_mcd1\.txt: .*252346 bytes.*sha256"):
        load_benchmark("scan", "mcd1", cache_dir=tmp_path)
    assert not list(tmp_path.rglob("*.arrow"))


def test_killed_in_the_middle_then_two_at_once(tmp_path: Path, upstream: Upstream) -> None:
    killed = preparing(tmp_path, upstream.address, "stop")
    assert killed.stdout is not None
    assert [killed.stdout.readline() for _ in "ab"] == ["train\n", "test\n"], killed.stderr
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    assert list(tmp_path.rglob("*.arrow")), "it was to be killed after train was written"
    upstream.gets.clear()
    processes = [preparing(tmp_path, upstream.address) for _ in "ab"]
    answers = [process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0, 0], answers
    assert {out for out, _ in answers} == {"{'train': 8365, 'test': 1045}\n"}
    # the files were whole already
    assert upstream.gets == []
    # and what the killed one left is gone
    assert not [path for path in tmp_path.rglob("*incomplete*") if path.is_dir()]
