"""English passivization on the real files: counts, every target, the definition of the splits."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset, DatasetDict
from upstream_files import Files

from hf_sysgen.data import DataError, benchmark_info
from hf_sysgen.data.english_passivization.builder import EnglishPassivization
from hf_sysgen.data.english_passivization.grammar import (
    DETERMINERS,
    NOUNS,
    PREPOSITIONS,
    TASKS,
    VERBS,
    parse,
)


@pytest.fixture(scope="module")
def parts(files: Files, tmp_path_factory: pytest.TempPathFactory) -> DatasetDict:
    return files.load("english_passivization", "nps", tmp_path_factory.mktemp("passivization"))


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> EnglishPassivization:
    return EnglishPassivization(cache_dir=tmp_path_factory.mktemp("unprepared"))


def failed(builder: EnglishPassivization, parts: DatasetDict) -> list[str]:
    return [check.fact for check in builder.checks(parts) if not check.holds]


def test_counts_of_the_paper() -> None:
    [config] = benchmark_info("english_passivization").configs.values()
    assert config.num_examples == {"train": 100_000, "validation": 1_000, "test_iid": 10_000, "test": 10_000}


def test_definition(parts: DatasetDict, builder: EnglishPassivization, files: Files) -> None:
    checks = list(builder.checks(parts))
    wrong = [check.fact for check in checks if not check.holds]
    # of a part, the counts are others
    counted = [fact for fact in wrong if re.search(r" has [\d,]+ (examples|sources to be repeated)", fact)]
    assert wrong == counted
    assert len(counted) == (0 if files.whole else 2 * len(parts))
    # count, tasks, targets, subjects and repeats of each split
    assert len(checks) == 5 * len(parts)


def test_stated_tasks_add_up(parts: DatasetDict, builder: EnglishPassivization) -> None:
    [config] = benchmark_info("english_passivization").configs.values()
    stated = {}
    for check in builder.checks(parts):
        if found := re.fullmatch(r"(\w+) has ([\d,]+) sources to be repeated, ([\d,]+) to be passivized", check.fact):
            stated[found[1]] = sum(int(number.replace(",", "")) for number in found.groups()[1:])
    assert stated == config.num_examples


def test_subjects_by_hand(parts: DatasetDict, files: Files) -> None:
    # by the words alone: the third word of a longer subject is a preposition
    def longer(split: str, task: str) -> int:
        return sum(
            source.split()[2] in PREPOSITIONS for source in parts[split]["input"][:] if source.endswith(f" . {task}")
        )

    assert longer("train", "decl") == 34_259 or (not files.whole and longer("train", "decl") > 0)
    assert [longer(split, "passiv") for split in parts] == [0, 0, 0, len(parts["test"])]


def test_vocabulary(parts: DatasetDict) -> None:
    words = {word for source in parts["train"]["input"][:] for word in source.split()}
    assert words == {*DETERMINERS, *NOUNS, *PREPOSITIONS, *VERBS, *TASKS, "."}
    targets = {word for target in parts["train"]["target"][:] for word in target.split()}
    assert targets == words - set(TASKS) | {"was", "were"}


def test_rows_are_upstream_lines(parts: DatasetDict, files: Files) -> None:
    # upstream's other form of the same file has the task in front
    upstream = [json.loads(line)["translation"] for line in files.lines("passiv_en_nps/passiv_en_nps.dev.json")]
    ours = [
        {"src": row["input"].rpartition(" ")[0], "prefix": f"{row['input'].rpartition(' ')[2]}: ", "tgt": row["target"]}
        for row in parts["validation"]
    ]
    assert ours == upstream


@pytest.mark.parametrize(
    ("source", "target"),
    [
        # Petty et al. 2023, table 2, with the task
        (
            "our vultures admired her walrus above some zebra . passiv",
            "her walrus above some zebra was admired by our vultures .",
        ),
        ("my yak annoyed the newts . decl", "my yak annoyed the newts ."),
        # a noun in -s that is one, its plural, and agreement with the head
        (
            "my yak annoyed the tyrannosaurus near her yaks . passiv",
            "the tyrannosaurus near her yaks was annoyed by my yak .",
        ),
        ("my yak annoyed the walruses by our yak . passiv", "the walruses by our yak were annoyed by my yak ."),
        ("some zebras by the newt amused your quails . passiv", "your quails were amused by some zebras by the newt ."),
    ],
)
def test_target(source: str, target: str) -> None:
    assert parse(source).target == target


def test_parse() -> None:
    sentence = parse("some zebras by the newt amused your quails . passiv")
    assert sentence == ("some zebras by the newt", "amused", "your quails", "passiv")


@pytest.mark.parametrize(
    "source",
    [
        "",
        "my yak",
        "my yak annoyed",
        "my yak annoyed the newts",
        "my yak annoyed the newts .",
        "my yak annoyed the newts . quest",
        "my yak annoyed the newts decl",
        "my yak annoyed the newts . decl decl",
        "yak annoyed the newts . decl",
        "my yak giggled . decl",
        "my yak annoyed the cats . decl",
        "my yak near my annoyed the newts . decl",
        "my yak of my yak annoyed the newts . decl",
    ],
)
def test_not_of_the_grammar(source: str) -> None:
    with pytest.raises(ValueError, match=r"English passivization: '.*'"):
        parse(source)


@pytest.mark.parametrize(
    ("split", "rows", "fact"),
    [
        ("test", [("my yak annoyed the newts . passiv", None)], "every subject to be passivized in test"),
        ("validation", [("my yak by our newt annoyed the newts . passiv", None)], "no subject to be passivized"),
        ("test_iid", [("my yak annoyed the yaks . passiv", "the yaks was annoyed by my yak .")], "every target"),
        ("test_iid", [("my yak yak . passiv", "yak .")], "every target of test_iid"),
        ("validation", [("the yak admired my newt . decl", None)] * 2, "no source of validation is in it twice"),
    ],
)
def test_a_broken_split_is_told(
    builder: EnglishPassivization, split: str, rows: list[tuple[str, str | None]], fact: str
) -> None:
    tiny: dict[str, list[tuple[str, str]]] = {
        "train": [("my yak annoyed the yaks . decl", "my yak annoyed the yaks .")],
        "validation": [],
        "test_iid": [],
        "test": [],
    }
    parts = DatasetDict({name: _dataset(pairs) for name, pairs in tiny.items()})
    before = set(failed(builder, parts))
    # nothing but the counts is wrong with it
    assert all(" has " in told and "subject" not in told for told in before)
    parts[split] = _dataset([(source, target or parse(source).target) for source, target in rows])
    (told,) = {told for told in failed(builder, parts) if told not in before}
    assert told.startswith(fact)


def _dataset(pairs: list[tuple[str, str]]) -> Dataset:
    return Dataset.from_dict({"input": [source for source, _ in pairs], "target": [target for _, target in pairs]})


@pytest.mark.parametrize("line", ["my yak annoyed the newts . decl", "a\tb\tc"])
def test_a_line_that_is_no_pair(tmp_path: Path, line: str) -> None:
    builder: Any = EnglishPassivization(cache_dir=tmp_path)
    path = tmp_path / "file"
    path.write_text(f"a . decl\ta .\n{line}\n")
    with pytest.raises(DataError, match="line 2"):
        list(builder._generate_examples({"train": str(path)}, "train"))
