"""The graph form of COGS: the converter against every byte of the published files, or of lines by their sha256."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import datasets
import pytest
from upstream_files import Files

from hf_sysgen.data.cogs.files import parse
from hf_sysgen.data.cogs.graph import CogsGraph, gen_dev_lines
from hf_sysgen.data.cogs.graph_forms import Graph, to_graph

UPSTREAM = {"train": "train.tsv", "dev": "dev.tsv", "test": "test.tsv", "gen": "gen_2020.tsv"}
PUBLISHED = {
    "train": "train_seqtag.jsonl",
    "validation": "dev_seqtag.jsonl",
    "validation_generalization": "gen_dev_seqtag.jsonl",
    "test_iid": "test_seqtag.jsonl",
    "test": "gen_seqtag.jsonl",
}


def published(files: Files, split: str) -> bytes:
    return files.read(f"cogs_graph/{PUBLISHED[split]}")


def graphs(files: Files, split: str) -> Iterator[dict[str, Any]]:
    return map(json.loads, published(files, split).splitlines())


@pytest.fixture
def whole(data_dir: Path) -> Files:
    return Files(data_dir, whole=True)


def graph_line(graph: Graph, category: str) -> str:
    """The line of a seqtag file (bergen/EdgeTransformer, cogs/data): JSON, `category` being that of the example."""
    keys = ("tokens", "parent", "role", "category", "noun_type", "verb_name", "distribution")
    return json.dumps(dict(zip(keys, (*graph, category), strict=True)))


@pytest.mark.parametrize("name", UPSTREAM)
def test_every_byte(files: Files, name: str) -> None:
    lines = [
        graph_line(to_graph(sentence, target), category)
        for sentence, target, category in parse(files.read(f"cogs/{UPSTREAM[name]}"))
    ]
    ours = "\n".join(lines).encode()
    if not files.whole:
        digests = json.loads(files.read("cogs_graph/rows_sha256.json"))
        assert hashlib.sha256(ours).hexdigest() == digests[name]
        return
    assert ours == published(files, {"train": "train", "dev": "validation", "test": "test_iid", "gen": "test"}[name])
    if name == "gen":
        tuning = "\n".join(lines[row] for row in gen_dev_lines()).encode()
        assert tuning == published(files, "validation_generalization")


def check_rows(rows: Iterable[dict[str, Any]], theirs: Iterable[dict[str, Any]]) -> None:
    columns = dict(zip(Graph._fields, ("tokens", "parent", "role", "category", "noun_type", "verb_name"), strict=True))
    for row, graph in zip(rows, theirs, strict=True):
        assert [row[name] for name in columns] == [graph[name] for name in columns.values()]
        assert row["category"] == graph["distribution"]
        assert row["input"] == " ".join(graph["tokens"])


@pytest.mark.parametrize("split", ["validation", "validation_generalization"])
def test_streamed(whole: Files, tmp_path: Path, split: str) -> None:
    builder = whole.builder("cogs_graph", "gen_2020", tmp_path)
    check_rows(builder.as_streaming_dataset(split), graphs(whole, split))


def test_rows_of_one_line(tmp_path: Path) -> None:
    line = "Ava ran .\trun . agent ( x _ 1 , Ava )\tin_distribution\n"
    (tmp_path / "train.tsv").write_text(line)
    files = {"train": str(tmp_path / "train.tsv")}
    ((number, row),) = CogsGraph(config_name="gen_2020")._generate_examples(files, "train")
    assert (number, row["tokens"], row["parents"]) == (0, ["Ava", "ran", "."], [1, -1, -1])
    assert (row["input"], row["target"]) == ("Ava ran .", "run . agent ( x _ 1 , Ava )")


@pytest.mark.slow
def test_loaded(whole: Files, tmp_path: Path) -> None:
    parts = whole.load("cogs_graph", "gen_2020", tmp_path)
    assert {split: len(part) for split, part in parts.items()} == {
        "train": 24_155,
        "validation": 3_000,
        "validation_generalization": 999,
        "test_iid": 3_000,
        "test": 21_000,
    }
    check_rows(parts["validation_generalization"], graphs(whole, "validation_generalization"))
    assert not [check for check in CogsGraph(config_name="gen_2020").checks(parts) if not check.holds]


def test_vocabularies_of_bergen(whole: Files) -> None:
    # load.py of Bergen et al. without gen, their [PAD] left out
    rows = [graph for split in ("train", "validation", "test_iid") for graph in graphs(whole, split)]
    sizes = {name: len({word for row in rows for word in row[name]}) for name in rows[0] if name != "distribution"}
    del sizes["parent"]
    assert sizes == {"tokens": 744, "role": 8, "category": 4, "noun_type": 3, "verb_name": 135}


def test_by_hand() -> None:
    sentence = "A boy on the table wanted to see Ava ."
    target = (
        "* table ( x _ 4 ) ; boy ( x _ 1 ) AND boy . nmod . on ( x _ 1 , x _ 4 ) AND "
        "want . agent ( x _ 5 , x _ 1 ) AND "
        "want . xcomp ( x _ 5 , x _ 7 ) AND see . agent ( x _ 7 , x _ 1 ) AND see . theme ( x _ 7 , Ava )"
    )
    graph = to_graph(sentence, target)
    assert graph.parents == [-1, 5, 1, -1, 2, -1, -1, 5, 7, -1]
    assert graph.roles == ["", "agent", "PREP", "", "PP_NOUN", "", "", "xcomp", "theme", ""]
    assert graph.word_categories == ["", "CNOUN", "", "", "CNOUN", "VERB", "", "VERB", "PNOUN", ""]
    assert graph.noun_types == ["", "INDEF", "", "", "DEF", "", "", "", "", ""]
    assert graph.verb_names == ["", "", "", "", "", "want", "", "see", "", ""]


@pytest.mark.parametrize(
    ("word", "target", "category", "verb"),
    [
        ("Ava", "Ava", "PNOUN", ""),
        ("cat", "LAMBDA a . cat ( a )", "CNOUN", ""),
        ("run", "LAMBDA a . LAMBDA e . run . agent ( e , a )", "VERB", "run"),
        ("see", "LAMBDA a . LAMBDA b . LAMBDA e . see . agent ( e , b ) AND see . theme ( e , a )", "VERB", "see"),
    ],
)
def test_word_alone(word: str, target: str, category: str, verb: str) -> None:
    assert to_graph(word, target) == Graph([word], [-1], [""], [category], [""], [verb])


@pytest.mark.parametrize(
    ("sentence", "target", "message"),
    [
        ("A cat ran .", "cat ( x _ 9 )", "a variable of 'cat ( x _ 9 )' stands for no word of 'A cat ran .'"),
        ("A cat ran .", "run . agent ( x _ 2 , Ava )", "expected 'Ava' once among tokens 0 to 3 of 'A cat ran .'"),
        ("A cat in a box ran .", "cat . nmod . on ( x _ 1 , x _ 4 )", "expected 'on' once among tokens 2 to 3"),
        (
            "Ava saw Ava .",
            "see . agent ( x _ 1 , x _ 0 ) AND see . theme ( x _ 1 , x _ 0 )",
            "token 0 has two parents in 'Ava saw Ava .'",
        ),
        ("Ava saw Ava .", "see . agent ( x _ 1 , Ava )", "expected 'Ava' once"),
        ("Ava ran .", "run ( Ava )", "no conjunct"),
    ],
)
def test_errors(sentence: str, target: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]*$") as caught:
        to_graph(sentence, target)
    assert message in str(caught.value)


def test_checks_see() -> None:
    good = to_graph("Ava ran .", "run . agent ( x _ 1 , Ava )")
    bad = {
        "cycle": good._replace(parents=[1, 0, -1], roles=["agent", "ccomp", ""]),
        "own parent": good._replace(parents=[1, 1, -1], roles=["agent", "ccomp", ""]),
        "no role": good._replace(roles=["", "", ""]),
        "no parent": good._replace(roles=["agent", "agent", ""]),
        "short": good._replace(noun_types=[""]),
    }
    row = {"input": "Ava ran .", "target": "run . agent ( x _ 1 , Ava )", "category": "in_distribution"}
    parts = {
        split: [{**row, **graph._asdict()} for graph in (good, *wrong)]
        for split, wrong in (("train", ()), ("validation", bad.values()), ("test_iid", ()), ("test", ()))
    }
    parts["validation_generalization"] = [{**parts["train"][0], "input": "Mia ran ."}]
    dataset = datasets.DatasetDict({split: datasets.Dataset.from_list(rows) for split, rows in parts.items()})
    found = {check.fact: check for check in CogsGraph(config_name="gen_2020").checks(dataset)}
    assert found["every graph of train is a forest with labels for each word"].holds
    wrong = found["every graph of validation is a forest with labels for each word"]
    assert wrong.found == "5 exceptions, the first: row 1"
    assert not found["validation_generalization is a part of test"].holds
    assert found["validation_generalization has every category of test"].found.startswith("21 exceptions")
