"""COGS-vf: the converter against every published line, and its way back."""

from __future__ import annotations

import json
from pathlib import Path

import datasets
import pytest
from reference.cogs_logical_form import to_logical_form
from upstream_files import Files

from hf_sysgen.data import load_benchmark
from hf_sysgen.data.cogs.files import Example, parse
from hf_sysgen.data.cogs.variable_free import CogsVf
from hf_sysgen.data.cogs.variable_free_forms import Node, parse_variable_free, to_variable_free

FILES = ("train", "dev", "test", "gen")


def upstream(files: Files, folder: str, name: str) -> list[Example]:
    return parse(files.read(f"{folder}/{name}.tsv"))


@pytest.mark.parametrize("name", FILES)
def test_every_line(files: Files, name: str) -> None:
    ours = [
        example if example.category == "primitive" else example._replace(target=to_variable_free(example.target))
        for example in upstream(files, "cogs", name)
    ]
    theirs = upstream(files, "cogs_vf", name)
    assert ours == theirs
    for _, target, category in theirs[::7]:
        if category != "primitive":
            assert to_variable_free(to_logical_form(target)) == target


def test_pairs_of_qiu(sample: Files) -> None:
    pairs = json.loads(sample.read("cogs_vf/converter_test_pairs.json"))
    assert len(pairs) == 8
    assert [to_variable_free(pair["cogs"]) for pair in pairs] == [pair["variable_free"] for pair in pairs]


def test_order_and_repetition() -> None:
    # the controlled subject is written twice, with what modifies it
    form = (
        "* girl ( x _ 1 ) ; girl . nmod . in ( x _ 1 , x _ 4 ) AND car ( x _ 4 ) AND "
        "want . agent ( x _ 5 , x _ 1 ) AND "
        "want . xcomp ( x _ 5 , x _ 7 ) AND see . agent ( x _ 7 , x _ 1 ) AND see . theme ( x _ 7 , Ava )"
    )
    girl = "* girl ( nmod . in = car )"
    assert to_variable_free(form) == f"want ( agent = {girl} , xcomp = see ( agent = {girl} , theme = Ava ) )"


def test_parsed() -> None:
    assert parse_variable_free("see ( agent = Ava , theme = * cat ( nmod . in = box ) )") == Node(
        "see",
        False,
        (("agent", Node("Ava", False, ())), ("theme", Node("cat", True, (("nmod . in", Node("box", False, ())),)))),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "token 1 is '', expected 'a word'"),
        ("see (", "token 3 is '', expected 'a word'"),
        ("see ( agent Ava )", "token 4 is 'Ava', expected '='"),
        ("see ( agent = Ava", "token 6 is '', expected ')'"),
        ("see ( agent = Ava ) )", "token 7 is ')', expected the end"),
        ("see ( agent = Ava , )", "token 7 is ')', expected 'a word'"),
    ],
)
def test_no_variable_free_form(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]*$") as caught:
        parse_variable_free(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("LAMBDA a . cat ( a )", "has no variable-free form"),
        ("cat ( x _ 1 ) AND dog ( x _ 3 )", "found 2"),
        ("see . theme ( x _ 1 , x _ 3 )", "x _ 3 has no word"),
        (
            "run . agent ( x _ 9 , Ava ) AND a . b ( x _ 1 , x _ 2 ) AND b . a ( x _ 2 , x _ 1 )",
            "x _ 1 does not depend",
        ),
        ("a . b ( x _ 1 , x _ 1 )", "found 0"),
        ("c . d ( x _ 0 , x _ 1 ) AND a . b ( x _ 1 , x _ 2 ) AND b . a ( x _ 2 , x _ 1 )", "x _ 1 is below itself"),
        ("Ava", "no conjunct"),
    ],
)
def test_no_logical_form(target: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]*$") as caught:
        to_variable_free(target)
    assert message in str(caught.value)


def rows(files: Files, cache_dir: Path, config: str, split: str) -> list[Example]:
    builder = files.builder("cogs_vf", config, cache_dir)
    made = builder._generate_examples(builder.locate_sources(), split)
    return [Example(row["input"], row["target"], row["category"]) for _, row in made]


def test_words_alone(data_dir: Path, tmp_path: Path) -> None:
    # as Qiu et al. made it, kept by another repository
    files = Files(data_dir, whole=True)
    theirs = parse(files.read("cogs_vf/train_qiu_primitives.tsv"))
    assert rows(files, tmp_path, "gen_2020", "train") == theirs


def test_words_alone_of_recogs(files: Files, tmp_path: Path) -> None:
    assert rows(files, tmp_path, "recogs", "train") == upstream(files, "cogs_vf", "train")


def test_before_the_correction(files: Files, tmp_path: Path) -> None:
    ours, theirs = rows(files, tmp_path, "gen_2020", "test"), upstream(files, "cogs_vf", "gen")
    changed = [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]]
    assert len(changed) == (51 if files.whole else 10)
    assert {row.category for pair in changed for row in pair} == {"obj_pp_to_subj_pp"}


@pytest.mark.parametrize("config", ["gen_2020", "current", "recogs"])
def test_loaded(data_dir: Path, tmp_path: Path, config: str) -> None:
    parts = load_benchmark("cogs_vf", config, data_dir=data_dir, cache_dir=tmp_path)
    assert {split: len(part) for split, part in parts.items()} == {
        "train": 24_155,
        "validation": 3_000,
        "test_iid": 3_000,
        "test": 21_000,
    }
    assert not [check for check in CogsVf(config_name=config).checks(parts) if not check.holds]


def test_streamed(files: Files, tmp_path: Path) -> None:
    builder = files.builder("cogs_vf", "current", tmp_path)
    streamed = list(builder.as_streaming_dataset("validation").take(2))
    assert streamed == [
        {**dict(zip(("input", "target", "category"), row, strict=True)), "is_structural": False}
        for row in upstream(files, "cogs_vf", "dev")[:2]
    ]


def test_checks_see() -> None:
    row = {"input": "Ava ran .", "target": "run ( agent = Ava )", "category": "in_distribution"}
    parts = {split: [row] for split in ("train", "validation", "test_iid", "test")}
    parts["train"] = [row, {**row, "target": "cook"}, {**row, "target": "cook ( agent"}]
    parts["test"] = [{**row, "target": "LAMBDA a . cat ( a )", "category": "primitive"}]
    dataset = datasets.DatasetDict({split: datasets.Dataset.from_list(rows) for split, rows in parts.items()})
    found = {check.fact: check for check in CogsVf(config_name="recogs").checks(dataset)}
    form = "every sentence of {} has a variable-free form with a verb at its root"
    assert found[form.format("train")].found.startswith(
        "2 exceptions, the first: Example(sentence='Ava ran .', target='cook'"
    )
    assert found[form.format("validation")].holds
    assert found[form.format("test")].holds
    assert found["train has 122 targets with LAMBDA"].found == "0"
