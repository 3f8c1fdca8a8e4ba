"""The Mathematics Dataset on generated samples and a small archive of the published layout; running its generator."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from upstream_files import Files

from hf_sysgen.data import DataError, benchmark_info, load_benchmark
from hf_sysgen.data.info import ConfigInfo, Source
from hf_sysgen.data.mathematics.builder import Mathematics
from hf_sysgen.data.mathematics.files import (
    DIFFICULTIES,
    PLACES,
    longest_number,
    read_pairs,
    solve,
    split_module,
)
from hf_sysgen.data.mathematics.generate import GENERATED, main

MATHEMATICS = benchmark_info("mathematics")
ARCHIVE = next(iter(MATHEMATICS.config("numbers__place_value").sources.values())).archive

MODULES = ["arithmetic__add_or_sub", "numbers__place_value"]


def module_files(module: str) -> dict[str, str]:
    """Role -> path, in the order in which repeated questions are removed: the first one stays."""
    sources = MATHEMATICS.config(module).sources
    return {role: "/".join(source.path.split("/")[-2:]) for role, source in sources.items()}


# stands in for the generator's package and its flags, whose real ones need an environment of their own
GENERATE = """
import random
import numpy
filtered_modules = {}
class Problem:
    def __init__(self, regime):
        self.question = f"What is {random.randrange(10**6)} plus {numpy.random.randint(10**6)}?"
        self.answer = regime
def init_modules(train_split):
    assert train_split
    for regime in ("train-easy", "train-medium", "train-hard", "interpolate", "extrapolate"):
        names = ["arithmetic__add_or_sub", "numbers__place_value"]
        names = [name + "_big" for name in names] if regime == "extrapolate" else names
        filtered_modules[regime] = {name: lambda regime=regime: Problem(regime) for name in names}
def sample_from_module(module):
    return module(), 0
"""


@pytest.mark.parametrize("module", MODULES)
def test_definition(files: Files, tmp_path: Path, module: str) -> None:
    config = f"{module}_generated"
    dataset = load_benchmark("mathematics", config, data_dir=files.folder, cache_dir=tmp_path)
    builder = Mathematics(config_name=config, data_dir=files.folder, cache_dir=tmp_path)
    checks = list(builder.checks(dataset))
    assert [check for check in checks if not check.holds] == []
    # repeats, answers by split, lengths
    assert len(checks) == 1 + 3 + 1
    # a tenth of each of three files, some of whose lines repeat a question of another
    sizes = [len(part) for part in dataset.values()]
    assert list(dataset) == ["train", "validation", "test_iid", "test"]
    train, test = (3_000, 1_000) if files.whole else (100, 30)
    assert sizes[0] + sizes[1] <= 3 * train
    assert sizes[1] in range(sum(sizes[:2]) // 10 - 2, sum(sizes[:2]) // 10 + 1)
    assert sizes[3] == test
    # as upstream writes them
    first = files.lines(f"{GENERATED}/{module_files(module)['extrapolate']}")[:2]
    assert list(dataset["test"][0].values()) == first


def test_every_answer_of_the_samples(files: Files) -> None:
    for module in MODULES:
        for path in module_files(module).values():
            pairs = list(read_pairs(files.lines(f"{GENERATED}/{path}")))
            assert len(pairs) in ((1_000, 3_000) if files.whole else (30, 100))
            assert all(solve(question) == Decimal(answer) for question, answer in pairs)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is the tens digit of 4831?", "3"),
        ("What is the hundred billions digit of 960511517612?", "9"),
        ("1789789.56036+326", "1790115.56036"),
        ("What is -0.7 less than -3261704196037?", "-3261704196036.3"),
        ("Subtract -1 from 0.5.", "1.5"),
        ("What is the distance between -4 and 2.5?", "6.5"),
        ("Calculate 3.02015 - -3.2020745398.", "6.2222245398"),
    ],
)
def test_solve(question: str, answer: str) -> None:
    assert solve(question) == Decimal(answer)


def test_no_such_question() -> None:
    with pytest.raises(ValueError, match="'What is 2 times 3"):
        solve("What is 2 times 3?")


@given(st.integers(0, 10**12 - 1), st.integers(0, 11))
def test_place_by_arithmetic(number: int, place: int) -> None:
    if number >= 10**place and number:
        assert solve(f"What is the {PLACES[place]} digit of {number}?") == number // 10**place % 10


def test_split_by_hand() -> None:
    def numbered(start: int, count: int) -> list[tuple[str, str]]:
        return [(f"q{number}", f"a{number}") for number in range(start, start + count)]

    files = {
        # a repeat within a file, across difficulties, and of a held-out question in a test file
        "train-easy": [*numbered(0, 20), ("q3", "later")],
        "train-medium": [*numbered(10, 10), *numbered(20, 30)],
        "train-hard": numbered(50, 9),
        "interpolate": numbered(0, 60),
        "extrapolate": [("q59", "a59"), ("q60", "a60")],
    }
    parts: dict[str, list[tuple[str, str]]] = {}
    for split, pair in split_module(files):
        parts.setdefault(split, []).append(pair)
    held_out = {f"q{row}" for row in np.random.RandomState(1234).choice(20, 2, replace=False)}
    held_out |= {f"q{20 + row}" for row in np.random.RandomState(1234).choice(30, 3, replace=False)}
    assert {question for question, _ in parts["validation"]} == held_out
    assert sorted(parts["train"] + parts["validation"]) == sorted(numbered(0, 59))
    assert parts["test_iid"] == [("q59", "a59")]
    assert parts["test"] == [("q60", "a60")]


def test_at_most_ten_thousand_held_out() -> None:
    files = {role: [] for role in module_files(MODULES[0])}
    files["train-hard"] = [(str(number), "") for number in range(100_010)]
    parts = [split for split, _ in split_module(files)]
    assert parts.count("validation") == 10_000


def test_longest_number() -> None:
    assert longest_number(["What is 12.25 plus -7?", "1 + 2"]) == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [("q\n", "line 1"), ("q\na\n\nb\n", "line 3"), ("q\na\nq\n \n", "line 3")],
)
def test_damaged_file(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        list(read_pairs(text.splitlines(keepends=True)))
    assert list(read_pairs(["q \n", "a\r\n"])) == [("q", "a")]


def small_files(folder: Path, module: str) -> None:
    for number, (role, name) in enumerate(module_files(module).items()):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        count = 20 if role in DIFFICULTIES else 5
        values = range(100 * number, 100 * number + count)
        path.write_text("".join(f"{value} + {10**number}\n{value + 10**number}\n" for value in values))


@pytest.fixture
def archived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The published config with a small archive in place of the published one."""
    folder = tmp_path / "upstream"
    small_files(folder / "mathematics_dataset-v1.0", MODULES[0])
    path = tmp_path / ARCHIVE.path
    with tarfile.open(path, "w:gz") as tar:
        tar.add(folder / "mathematics_dataset-v1.0", "mathematics_dataset-v1.0")
    archive = replace(
        ARCHIVE,
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        num_bytes=path.stat().st_size,
        address=path.as_uri(),
    )
    config = MATHEMATICS.configs[MODULES[0]]
    sources: dict[str, Source] = {}
    for role, source in config.sources.items():
        sources[role] = replace(source, archive=archive)

    def config_info(*_: object) -> ConfigInfo:
        return replace(config, sources=sources)

    monkeypatch.setattr(Mathematics, "config_info", config_info)
    return path


def test_published_layout(archived: Path, tmp_path: Path) -> None:
    dataset = load_benchmark("mathematics", MODULES[0], cache_dir=tmp_path / "cache")
    assert {split: len(part) for split, part in dataset.items()} == {
        "train": 54,
        "validation": 6,
        "test_iid": 5,
        "test": 5,
    }
    assert dataset["test"][0] == {"input": "400 + 10000", "target": "10400"}
    found = {check.fact: check for check in Mathematics(config_name=MODULES[0]).checks(dataset)}
    # what is said of the published files is not true of these
    assert not found["train has 1,969,029 examples"].holds
    assert found["every answer of test is right"].holds


def test_archive_of_another_content(archived: Path, tmp_path: Path) -> None:
    archived.write_bytes(archived.read_bytes()[:-10])
    with pytest.raises(DataError, match=r"mathematics_dataset@v1\.0:mathematics_dataset-v1\.0\.tar\.gz"):
        load_benchmark("mathematics", MODULES[0], cache_dir=tmp_path / "cache")


def test_archive_is_pinned() -> None:
    assert ARCHIVE.num_bytes == 2_333_082_954
    assert all(source.url == ARCHIVE.address for source in MATHEMATICS.configs[MODULES[0]].sources.values())


def test_generated_files_decide_the_data(tmp_path: Path) -> None:
    config = f"{MODULES[0]}_generated"
    cache = tmp_path / "cache"
    for number, name in enumerate("ab"):
        small_files(tmp_path / name / GENERATED, MODULES[0])
        path = tmp_path / name / GENERATED / "extrapolate" / "arithmetic__add_or_sub_big.txt"
        path.write_text(f"{number} + 12345\n{number + 12345}\n")
        # what was prepared from another folder is not taken for this one's
        test = load_benchmark("mathematics", config, data_dir=tmp_path / name, cache_dir=cache)["test"]
        assert test[0]["input"] == f"{number} + 12345"


def test_generated_files_are_absent(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"mathematics.generate") as caught:
        load_benchmark("mathematics", f"{MODULES[0]}_generated", data_dir=tmp_path)
    assert "train-easy/arithmetic__add_or_sub.txt" in str(caught.value)
    with pytest.raises(DataError, match="mathematics arithmetic__add_or_sub_generated"):
        load_benchmark("mathematics", f"{MODULES[0]}_generated")


@pytest.fixture
def generator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "packages" / "mathematics_dataset"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "generate.py").write_text(GENERATE)
    (package.parent / "absl").mkdir()
    (package.parent / "absl" / "__init__.py").touch()
    (package.parent / "absl" / "flags.py").write_text("def FLAGS(arguments): assert len(arguments) == 1\n")
    monkeypatch.setenv("PYTHONPATH", str(package.parent))


def run(folder: Path, *more: str) -> int:
    return main(["--output", str(folder), "--per-difficulty", "10", "--per-test", "4", *more])


@pytest.mark.usefixtures("generator")
def test_generator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path / "one") == 0
    assert f"wrote 10 files in {tmp_path / 'one' / GENERATED}" in capsys.readouterr().out
    run(tmp_path / "again")
    run(tmp_path / "other", "--seed", "1")
    texts = {
        name: {path.name + path.parent.name: path.read_text() for path in (tmp_path / name).rglob("*.txt")}
        for name in ("one", "again", "other")
    }
    assert texts["one"] == texts["again"]
    assert texts["one"].keys() == texts["other"].keys()
    assert all(texts["one"][name] != texts["other"][name] for name in texts["one"])
    # no two files are drawn alike
    assert len({text.splitlines()[0] for text in texts["one"].values()}) == 10
    dataset = load_benchmark("mathematics", f"{MODULES[1]}_generated", data_dir=tmp_path / "one", cache_dir=tmp_path)
    assert {split: len(part) for split, part in dataset.items()} == {
        "train": 27,
        "validation": 3,
        "test_iid": 4,
        "test": 4,
    }
    assert set(dataset["test"]["target"]) == {"extrapolate"}


@pytest.mark.usefixtures("generator")
@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--python", "/nowhere/python"), "/nowhere/python: "),
        (("--per-test", "0"), "--per-test"),
        (("--seed", "x"), "--seed"),
    ],
)
def test_generator_is_told_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...], message: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        run(tmp_path / "one", *more)
    assert message in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.usefixtures("generator")
def test_generator_overwrites_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        run(tmp_path)
    assert "is there already" in capsys.readouterr().err


def test_generator_is_not_installed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hf_sysgen.data.mathematics.generate", "--output", str(tmp_path / "one")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "needs mathematics_dataset, see --help" in done.stderr.splitlines()[-1]
    assert not list(tmp_path.rglob("*.txt"))
