"""CLUTRR: graphs, kinship of every example, the definition of the splits; on the real files, counts and rules."""

from __future__ import annotations

import csv
import gzip
import hashlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_clutrr import write_clutrr
from upstream_files import Files

from hf_sysgen.data import DataError, benchmark_info
from hf_sysgen.data.clutrr.builder import parse, validation_rows
from hf_sysgen.data.clutrr.kinship import EDGE_TYPES, RELATIONS, RULES, TARGETS, compose

CLUTRR = benchmark_info("clutrr")

Load = Callable[[str], Any]
READABLE = ["gen_train23_test2to10", "gen_train234_test2to10"]
HEADER = "id,story,query,target,task_name,story_edges,edge_types,query_edge,genders\n"
LINE = (
    "1,[Ann]  met her son [Bo] . [Bo]'s sister is [Di],\"('Ann', 'Di')\",daughter,task_1.2,"
    '"[(0, 1), (1, 2)]","[\'son\', \'sister\']","(0, 2)","Ann:female,Bo:male,Di:female"\n'
)


def loader(files: Files, cache_dir: Path) -> Load:
    loaded: dict[str, Any] = {}

    def load(config: str) -> Any:
        if config not in loaded:
            loaded[config] = files.load("clutrr", config, cache_dir)
        return loaded[config]

    return load


@pytest.fixture(scope="session")
def files(files: Files, tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Made files in place of a part of upstream's."""
    return files if files.whole else Files(write_clutrr(tmp_path_factory.mktemp("made_clutrr")), whole=False)


@pytest.fixture(scope="session")
def load(tmp_path_factory: pytest.TempPathFactory, files: Files) -> Load:
    return loader(files, tmp_path_factory.mktemp("clutrr"))


@pytest.fixture(scope="session")
def load_whole(tmp_path_factory: pytest.TempPathFactory, data_dir: Path) -> Load:
    return loader(Files(data_dir, whole=True), tmp_path_factory.mktemp("whole_clutrr"))


@pytest.mark.parametrize("config", READABLE)
def test_definition(load: Load, files: Files, config: str, tmp_path: Path) -> None:
    dataset = load(config)
    checks = list(files.builder("clutrr", config, tmp_path).checks(dataset))
    assert [check.fact for check in checks if not check.holds] == []
    # counts, lengths, labels, targets and kinship by split, then stories and chains
    assert len(checks) == (5 if files.whole else 4) * len(dataset) + 2


@pytest.mark.parametrize(
    ("config", "by_k"),
    [
        ("gen_train23_test2to10", [38, 105, 190, 174, 107, 144, 150, 119, 119]),
        ("gen_train234_test2to10", [38, 107, 77, 185, 105, 155, 135, 124, 122]),
    ],
)
def test_lengths(load: Load, files: Files, config: str, by_k: list[int]) -> None:
    test = load(config)["test"]
    assert Counter(test["k"]) == dict(zip(range(2, 11), by_k if files.whole else [6] * 9, strict=True))
    assert all(len(edges) == k for edges, k in zip(test["edges"], test["k"], strict=True))
    assert max(map(len, test["names"])) == 11
    assert {label for types in load(config)["train"]["edge_types"] for label in types} == set(EDGE_TYPES)
    assert set(load(config)["train"]["target"]) == set(TARGETS)


@pytest.mark.parametrize(
    ("config", "train", "test"), [("gen_train23_test2to10", 106, 22), ("gen_train234_test2to10", 209, 35)]
)
def test_open_answers(load_whole: Load, config: str, train: int, test: int) -> None:
    # what the errata say
    parts = load_whole(config)
    found = {
        split: Counter(k for k, types in zip(part["k"], part["edge_types"], strict=True) if len(compose(types)) > 1)
        for split, part in parts.items()
    }
    assert found["train"].total() + found["validation"].total() == train
    assert found["test"].total() == test
    assert found["test"][3] == 15


def test_first_example(load_whole: Load) -> None:
    row = load_whole("gen_train234_test2to10")["test"].filter(lambda k: k == 5, input_columns="k")[0]
    assert row["input"].startswith("[Charles] went to his mother [Victoria] ''s house to play cards. [Andrew],")
    assert row["query"] == ["Donald", "Gilbert"]
    assert row["target"] == "nephew"
    assert row["edges"] == [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5]]
    assert row["edge_types"] == ["son", "mother", "son", "uncle", "son"]
    assert row["query_edge"] == [0, 5]
    assert row["names"] == ["Donald", "Charles", "Victoria", "Andrew", "Samuel", "Gilbert"]


@pytest.mark.parametrize("config", READABLE)
def test_people(load: Load, config: str) -> None:
    for row in load(config)["test"]:
        assert row["query"] == [row["names"][node] for node in row["query_edge"]]
        assert len(row["names"]) == 1 + max(max(edge) for edge in row["edges"])
        assert all(f"[{name}]" in row["input"] for name in row["names"])


def test_whole_train(load: Load, files: Files) -> None:
    config = READABLE[0]
    whole, split = load(f"{config}_whole_train"), load(config)
    assert list(whole) == ["train", "test"]
    assert not files.whole or len(whole["train"]) == 10_094
    held_out = validation_rows(len(whole["train"]))
    rows = whole["train"].to_list()
    assert split["validation"].to_list() == [row for line, row in enumerate(rows) if line in held_out]
    assert split["train"].to_list() == [row for line, row in enumerate(rows) if line not in held_out]
    assert whole["test"].to_list() == split["test"].to_list()
    lines = files.lines("clutrr/data_089907f8/1.2,1.3_train.csv")
    assert [row["target"] for row in csv.DictReader(lines)] == whole["train"]["target"]


def test_held_out() -> None:
    # int() rounds the kept rows down
    assert len(validation_rows(10_094)) == 2_019
    assert len(validation_rows(3)) == 1
    assert validation_rows(1_000) <= set(range(1_000))
    assert validation_rows(1_000) != set(range(800, 1_000))


def test_files_of_the_edge_transformer(data_dir: Path) -> None:
    sources = CLUTRR.configs["edge_train23_test2to10"].sources
    assert list(sources) == ["train", *(f"test_{k}" for k in range(2, 11))]
    for role, lines in (("test_2", 2_332), ("test_3", 2_289)):
        content = gzip.decompress((data_dir / f"{sources[role].mirror}.gz").read_bytes())
        # the two files that are at hand show that the ids are those of the contents
        assert hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest() == sources[role].git_blob
        rows = parse(content, role)
        assert len(rows) == lines
        assert all(row["target"] in compose(row["edge_types"]) for row in rows)


def test_compose_by_hand() -> None:
    assert compose(["daughter"]) == {"daughter"}
    assert compose(["mother", "brother"]) == {"uncle"}
    assert compose(["son", "mother", "son", "uncle", "son"]) == {"nephew"}
    assert compose(["husband", "father"]) == {"father-in-law"}
    assert compose(["wife", "son", "grandmother"]) == {"mother", "mother-in-law"}
    # a nephew's wife has no name in CLUTRR
    assert compose(["nephew", "wife"]) == set()
    with pytest.raises(KeyError, match="cousin"):
        compose(["cousin", "son"])


def test_rules_keep_generations() -> None:
    older = {"parent": 1, "grandparent": 2, "uncle": 1, "child": -1, "grandchild": -2, "nephew": -1, "sibling": 0}
    older |= {"spouse": 0, "parent-in-law": 1, "child-in-law": -1}
    assert {kind for kind, _ in RELATIONS.values()} == set(older)
    for (first, second), whole in RULES.items():
        assert older[first] + older[second] == older[whole]


def test_rules_are_all_in_the_data(load_whole: Load) -> None:
    train = load_whole(READABLE[0])["train"]
    pairs = {tuple(RELATIONS[label][0] for label in types) for types in train["edge_types"] if len(types) == 2}
    assert pairs == set(RULES)


def test_parse() -> None:
    assert parse((HEADER + LINE).encode(), "here") == [
        {
            "input": "[Ann] met her son [Bo] . [Bo]'s sister is [Di]",
            "query": ["Ann", "Di"],
            "target": "daughter",
            "k": 2,
            "edges": [[0, 1], [1, 2]],
            "edge_types": ["son", "sister"],
            "query_edge": [0, 2],
            "names": ["Ann", "Bo", "Di"],
        }
    ]


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        ("edge_types,", "types,", "here: .*edge_types"),
        ("['son', 'sister']", "['son', sister]", "here, line 2: "),
        ("['son', 'sister']", "['son']", "line 2: "),
        ("(1, 2)]", "(0, 2)]", "line 2: "),
        ("(0, 2)", "(0, 1)", "line 2: "),
        ("task_1.2", "task_2.2", "line 2: "),
        ("[(0, 1)", "[(0, 1", "line 2: "),
    ],
)
def test_damaged_file(good: str, bad: str, message: str) -> None:
    text = HEADER + LINE
    assert good in text
    with pytest.raises(DataError, match=message) as caught:
        parse(text.replace(good, bad).encode(), "here")
    assert "\n" not in str(caught.value)
