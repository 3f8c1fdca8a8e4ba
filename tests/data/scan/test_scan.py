"""Each SCAN split against its definition, as its paper states it, and against the papers' counts."""

from __future__ import annotations

import gzip
import hashlib
import json
import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import datasets
import pytest
from upstream_files import Files

import hf_sysgen.data.builder
from hf_sysgen.data import DataError, benchmark_info, load_benchmark
from hf_sysgen.data.scan.builder import LENGTH_CUTOFFS, Scan, resplit
from hf_sysgen.data.scan.files import parse, rebuild
from hf_sysgen.data.scan.grammar import commands, interpret

SCAN = benchmark_info("scan")

Splits = dict[str, list[tuple[str, str]]]
LINE = {command: line for line, (command, _) in enumerate(parse(rebuild("tasks.txt")))}
MEANING = {command: interpret(command) for command in commands()}
MCD = ["mcd1", "mcd2", "mcd3"]
# one of each family
CHECKED = [
    "simple",
    "length",
    "addprim_jump",
    "addprim_jump_chakravarthy2022",
    "template_right",
    "length_cutoff_26",
    "mcd1",
]
REMADE = [config for config in SCAN.configs if config not in MCD]


@pytest.fixture(scope="session")
def load(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Splits]:
    """Each config's (input, target) pairs by split, loaded once; made without a file or network where possible."""
    cache_dir = tmp_path_factory.mktemp("scan")
    loaded: dict[str, Splits] = {}

    def load(config: str, data_dir: Path | None = None) -> Splits:
        if config not in loaded:
            parts = load_benchmark("scan", config, data_dir=data_dir, cache_dir=cache_dir)
            assert all(part.column_names == ["input", "target"] for part in parts.values())
            columns = {split: part.to_dict() for split, part in parts.items()}
            loaded[config] = {split: list(zip(*column.values(), strict=True)) for split, column in columns.items()}
        return loaded[config]

    return load


def inputs(pairs: list[tuple[str, str]]) -> list[str]:
    return [command for command, _ in pairs]


def lengths(pairs: list[tuple[str, str]]) -> list[int]:
    return [len(actions.split()) for _, actions in pairs]


def check_examples(config: str, parts: Splits) -> None:
    """Checks for all configs: declared counts, right targets, no test input in train."""
    assert {split: len(pairs) for split, pairs in parts.items()} == dict(SCAN.configs[config].num_examples)
    assert list(parts) == list(SCAN.configs[config].splits)
    for pairs in parts.values():
        assert all(MEANING[command] == actions for command, actions in pairs)
    seen: set[str] = set()
    for pairs in parts.values():
        # the one command that is in train many times
        both = (
            {"jump"} if config == "addprim_jump_chakravarthy2022" and seen and pairs is parts["validation"] else set()
        )
        assert seen & set(inputs(pairs)) == both
        seen.update(inputs(pairs))


@pytest.mark.parametrize("config", REMADE)
def test_examples(load: Callable[..., Splits], config: str) -> None:
    check_examples(config, load(config))


@pytest.mark.parametrize("config", MCD)
def test_mcd(load: Callable[..., Splits], sample: Files, config: str) -> None:
    parts = load(config, sample.folder)
    check_examples(config, parts)
    # Keysers et al. 2020: the same atoms on both sides, combined differently
    train_words, test_words = (
        {word for command in inputs(pairs) for word in command.split()} for pairs in parts.values()
    )
    assert train_words == test_words
    assert len(train_words) == 13


def test_simple(load: Callable[..., Splits]) -> None:
    parts = load("simple")
    assert len(parts["train"]) == 16_728
    assert len(parts["test"]) == 4_182
    assert set(inputs(parts["train"] + parts["test"])) == set(MEANING)


def test_length(load: Callable[..., Splits]) -> None:
    parts = load("length")
    assert len(parts["train"]) == 16_990
    assert len(parts["test"]) == 3_920
    assert max(lengths(parts["train"])) == 22
    assert min(lengths(parts["test"])) == 24
    assert max(lengths(parts["test"])) == 48


@pytest.mark.parametrize(
    ("config", "primitive", "train", "copies", "test"),
    [("addprim_jump", "jump", 14_670, 1_467, 7_706), ("addprim_turn_left", "turn left", 21_890, 2_189, 1_208)],
)
def test_addprim(load: Callable[..., Splits], config: str, primitive: str, train: int, copies: int, test: int) -> None:
    parts = load(config)
    count = Counter(inputs(parts["train"]))
    assert count.total() == train
    assert count.pop(primitive) == copies
    # no other command is repeated, or has the primitive
    assert set(count.values()) == {1}
    assert not [command for command in count if primitive in command]
    assert len(parts["test"]) == test
    assert set(inputs(parts["test"])) == {c for c in MEANING if primitive in c and c != primitive}


@pytest.mark.parametrize(("config", "train"), [("simple", 13_383), ("addprim_jump", 11_736)])
def test_held_out(load: Callable[..., Splits], config: str, train: int) -> None:
    """Train and validation are upstream's train, a fifth of it held out; their counts of "jump" are the authors'."""
    parts, whole = load(f"{config}_chakravarthy2022"), load(config)
    assert Counter(parts["train"]) + Counter(parts["validation"]) == Counter(whole["train"])
    assert parts["test"] == whole["test"]
    assert len(parts["train"]) == train
    if config == "addprim_jump":
        assert [inputs(parts[name]).count("jump") for name in ("train", "validation")] == [1_192, 275]


@pytest.mark.parametrize(
    ("config", "held_out", "left_out", "train", "test"),
    [
        ("template_around_right", "around right", "turn around right", 15_225, 4_476),
        ("template_jump_around_right", "jump around right", "turn around right", 18_528, 1_173),
        ("template_opposite_right", "opposite right", "turn opposite right", 15_225, 4_476),
    ],
)
def test_template(
    load: Callable[..., Splits], config: str, held_out: str, left_out: str, train: int, test: int
) -> None:
    parts = load(config)
    assert len(parts["train"]) == train
    assert len(parts["test"]) == test
    assert not [command for command in inputs(parts["train"]) if held_out in command]
    assert all(held_out in command and left_out not in command for command in inputs(parts["test"]))
    absent = set(MEANING) - set(inputs(parts["train"] + parts["test"]))
    assert absent == {command for command in MEANING if left_out in command}
    assert len(absent) == 1_209


def test_template_right(load: Callable[..., Splits]) -> None:
    parts = load("template_right")
    held_out = {f"{action} right" for action in ("walk", "look", "run", "jump")}
    assert not [command for command in inputs(parts["train"]) if any(phrase in command for phrase in held_out)]
    assert all(any(phrase in command for phrase in held_out) for command in inputs(parts["test"]))
    assert not [command for command in inputs(parts["train"] + parts["test"]) if "turn right" in command]
    # right itself is known from the other two manners
    assert any("around right" in command for command in inputs(parts["train"]))
    assert any("opposite right" in command for command in inputs(parts["train"]))


@pytest.mark.parametrize(("config", "cutoff"), LENGTH_CUTOFFS.items())
def test_length_cutoff(load: Callable[..., Splits], config: str, cutoff: int) -> None:
    parts = load(config)
    assert max(lengths(parts["train"] + parts["validation"])) == cutoff
    assert min(lengths(parts["test"])) > cutoff
    assert sum(map(len, parts.values())) == 20_910
    # the same lines of tasks.txt, in the same order, as the authors' code picks
    golden = json.loads(Path(__file__).with_name("scan_resplit_sha256.json").read_text())["splits"][str(cutoff)]
    for split, pairs in parts.items():
        lines = ",".join(str(LINE[command]) for command in inputs(pairs))
        assert hashlib.sha256(lines.encode()).hexdigest() == golden[split]


def test_length_cutoff_of_the_paper(load: Callable[..., Splits]) -> None:
    # Csordas et al. 2021, table 10
    parts = load("length_cutoff_26")
    assert [len(pairs) for pairs in parts.values()] == [16_458, 1_828, 2_624]
    known, new = parts["train"] + parts["validation"], parts["test"]
    assert max(len(command.split()) for command in inputs(known)) == 9
    assert max(len(command.split()) for command in inputs(new)) == 9
    assert max(lengths(new)) == 48


def test_resplit_indices(data_dir: Path) -> None:
    content = gzip.decompress((data_dir / "scan_length_cutoff" / "csordas_resplit_indices.json.gz").read_bytes())
    theirs = json.loads(content)
    all_lengths = lengths(parse(rebuild("tasks.txt")))
    assert set(theirs) == {str(cutoff) for cutoff in LENGTH_CUTOFFS.values()}
    for cutoff, indices in theirs.items():
        ours = resplit(all_lengths, int(cutoff))
        assert ours == {"train": indices["train"], "validation": indices["iid"], "test": indices["val"]}


def test_rows_are_upstream_lines(load: Callable[..., Splits]) -> None:
    # what `rebuild` makes has the checksums of upstream's files, see test_scan_files.py
    upstream = rebuild("length_split/tasks_test_length.txt").decode().splitlines()
    assert [f"IN: {command} OUT: {actions}" for command, actions in load("length")["test"]] == upstream


def test_prepared_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load_benchmark("scan", "length", cache_dir=tmp_path)

    def no_source(*_: object) -> Path:
        raise AssertionError("looked for a file that is not needed")

    monkeypatch.setattr(hf_sysgen.data.builder, "locate", no_source)
    second = load_benchmark("scan", "length", cache_dir=tmp_path)
    assert {split: part.cache_files for split, part in first.items()} == {
        split: part.cache_files for split, part in second.items()
    }
    # another config or content is another place
    place = Path(first["test"].cache_files[0]["filename"]).parent
    assert place == tmp_path / "scan" / "length" / "1.0.0" / SCAN.configs["length"].fingerprint


def test_wrong_file_leaves_no_data(tmp_path: Path) -> None:
    path = tmp_path / "data" / "scan" / "length_split" / "tasks_train_length.txt"
    path.parent.mkdir(parents=True)
    path.write_text("IN: jump OUT: I_JUMP\n")
    with pytest.raises(DataError, match=r"tasks_train_length\.txt.* 21 bytes"):
        load_benchmark("scan", "length", data_dir=tmp_path / "data", cache_dir=tmp_path / "cache")
    assert not list((tmp_path / "cache").rglob("*.arrow"))
    # and does not stand in the way of the right one
    assert len(load_benchmark("scan", "length", cache_dir=tmp_path / "cache")["train"]) == 16_990


def test_two_processes_at_once(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from hf_sysgen.data import load_benchmark\n"
        "parts = load_benchmark('scan', 'length_cutoff_26', cache_dir=sys.argv[1])\n"
        "print({split: len(part) for split, part in parts.items()}, parts['test'][2623]['input'])\n"
    )
    command = [sys.executable, "-W", "error", "-c", script, str(tmp_path)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in "ab"]
    answers = [process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0, 0], answers
    assert answers[0][0] == answers[1][0]
    assert "'test': 2624" in answers[0][0]


def test_streaming(tmp_path: Path) -> None:
    stream = Scan(config_name="length_cutoff_26", cache_dir=tmp_path).as_streaming_dataset("validation")
    prepared = load_benchmark("scan", "length_cutoff_26", cache_dir=tmp_path)["validation"]
    assert list(stream.take(3)) == [prepared[row] for row in range(3)]


def test_builder(tmp_path: Path) -> None:
    builder = pickle.loads(pickle.dumps(Scan(config_name="length", cache_dir=tmp_path, data_dir="/nowhere")))
    assert builder.config_id == "length"
    assert builder.info.license == "BSD-3-Clause (brendenlake/SCAN)"
    assert "compositional test" in builder.info.description
    with pytest.raises(DataError, match=r"length_split/tasks_train_length\.txt: .*no folder .*nowhere"):
        builder.download_and_prepare()
    with pytest.raises(DataError, match="'length'"):
        Scan(config_name="lenght", cache_dir=tmp_path)


def broken(config: str, data: datasets.DatasetDict) -> Iterator[tuple[str, datasets.DatasetDict]]:
    """The data with one error, and the beginning of the fact that fails."""
    train, test = data["train"], data["test"]

    def changed(**parts: datasets.Dataset) -> datasets.DatasetDict:
        return datasets.DatasetDict({**data, **parts})

    def with_row(part: datasets.Dataset, row: dict[str, str]) -> datasets.Dataset:
        """The same number of examples, the last one replaced."""
        return datasets.concatenate_datasets([part.select(range(len(part) - 1)), datasets.Dataset.from_list([row])])

    def example(command: str) -> dict[str, str]:
        return {"input": command, "target": MEANING[command]}

    yield "train has ", changed(train=train.select(range(len(train) - 1)))
    yield "every target of train", changed(train=with_row(train, {**train[0], "target": test[0]["target"] + " I_RUN"}))
    yield "no command is in both train and test", changed(train=with_row(train, test[0]))
    yield "no command is twice in test", changed(test=with_row(test, test[0]))
    if config == "simple":
        yield "every command of the grammar", changed(train=with_row(train, train[0]))
    if config in ("length", "length_cutoff_26"):
        yield "train has at most", changed(train=with_row(train, test[0]))
        yield "test has more than", changed(test=with_row(test, train[0]))
    if config == "length_cutoff_26":
        yield "validation has at most", changed(validation=with_row(data["validation"], test[0]))
    if config == "addprim_jump":
        copy = train[:]["input"].index("jump")
        others = [row for row in range(len(train)) if row != copy]
        other = next(row for row, command in enumerate(train["input"]) if command != "jump")
        yield '"jump" alone is a tenth', changed(train=train.select([*others, other]))
        yield "train has no other command", changed(train=with_row(train, example("jump twice")))
        yield "every other command of train is there once", changed(train=train.select([*others, other]))
        yield "test has every longer command", changed(test=with_row(test, example("walk")))
    if config == "template_right":
        yield "no command of train has one of: walk right", changed(train=with_row(train, example("walk right")))
        yield "every command of test has one of", changed(test=with_row(test, example("walk left")))
        yield 'just the commands with "turn right"', changed(test=with_row(test, example("turn right")))
    if config == "mcd1":
        rare = [row for row, command in enumerate(test["input"]) if "thrice" not in command]
        yield "train and test have the same words", changed(test=test.select(rare))


@pytest.mark.parametrize("config", CHECKED)
def test_checks(config: str, sample: Files, tmp_path: Path) -> None:
    """All checks hold on the data, and each fails if its fact is false."""
    builder = Scan(config_name=config, cache_dir=tmp_path, data_dir=sample.folder if config in MCD else None)
    builder.download_and_prepare()
    data = builder.as_dataset()
    facts = [check.fact for check in builder.checks(data) if check.holds]
    assert facts == [check.fact for check in builder.checks(data)]
    for fact, wrong in broken(config, data):
        assert any(known.startswith(fact) for known in facts), fact
        check = next(check for check in builder.checks(wrong) if check.fact.startswith(fact))
        assert not check.holds
        assert check.found
