"""COGS against the counts of the papers, and its 21 categories against their definition."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import datasets
import pytest

from hf_sysgen.data import DataError, benchmark_info, load_benchmark
from hf_sysgen.data.cogs.builder import Cogs, examples, read
from hf_sysgen.data.cogs.checks import check_categories, check_definitions
from hf_sysgen.data.cogs.files import CATEGORIES, LEXICAL, STRUCTURAL, Example

Load = Callable[[str], datasets.DatasetDict]
Splits = dict[str, list[Example]]


@pytest.fixture(scope="module")
def load(mirror: Path, tmp_path_factory: pytest.TempPathFactory) -> Load:
    cache_dir = tmp_path_factory.mktemp("cogs")
    return lambda config: load_benchmark("cogs", config, data_dir=mirror, cache_dir=cache_dir)


@pytest.fixture(scope="module")
def gen_2020(load: Load) -> Splits:
    return dict(examples(load("gen_2020")))


def test_splits(load: Load) -> None:
    parts = load("gen_2020")
    assert {split: len(part) for split, part in parts.items()} == {
        "train": 24_155,
        "validation": 3_000,
        "test_iid": 3_000,
        "test": 21_000,
    }
    assert parts["train"].column_names == ["input", "target", "category", "is_structural"]
    structural = [example["category"] for example in parts["test"] if example["is_structural"]]
    assert len(structural) == 3_000
    assert set(structural) == {"obj_pp_to_subj_pp", "cp_recursion", "pp_recursion"}
    assert not any(any(parts[split]["is_structural"]) for split in ("train", "validation", "test_iid"))


@pytest.mark.parametrize("config", ["gen_2020", pytest.param("current", marks=pytest.mark.slow)])
def test_definition(load: Load, mirror: Path, config: str) -> None:
    wrong = [check for check in Cogs(config_name=config, data_dir=mirror).checks(load(config)) if not check.holds]
    assert not wrong


def test_table_10_of_csordas(gen_2020: Splits) -> None:
    # Csordas et al. 2021, table 10: 871 words of all files together; longest input / output 22/153 in train, 61/480
    words = {word for rows in gen_2020.values() for row in rows for word in f"{row.sentence} {row.target}".split()}
    assert len(words) == 871
    for split, longest in (("train", (22, 153)), ("test", (61, 480))):
        assert tuple(max(len(row[column].split()) for row in gen_2020[split]) for column in (0, 1)) == longest


def test_what_the_correction_changed(gen_2020: Splits, mirror: Path) -> None:
    corrected = read(Cogs(config_name="current", data_dir=mirror).locate_sources()["test"])
    changed = [pair for pair in zip(gen_2020["test"], corrected, strict=True) if pair[0] != pair[1]]
    assert len(changed) == 51
    for before, after in changed:
        assert before._replace(target="") == after._replace(target="")
        assert before.category == "obj_pp_to_subj_pp"
        words = zip(before.target.split(), after.target.split(), strict=True)
        assert [(old, new) for old, new in words if old != new] == [("agent", "theme")]


def test_rows_are_upstream_lines(load: Load, mirror: Path) -> None:
    part = load("gen_2020")["test"]
    with gzip.open(mirror / "cogs" / "gen_2020.tsv.gz", "rt") as lines:
        upstream = [line.rstrip("\n") for line in lines]
    assert ["\t".join(row) for row in zip(part["input"], part["target"], part["category"], strict=True)] == upstream


def failing(splits: Splits) -> str:
    checks = [*check_categories(splits, copies=1), *check_definitions(splits)]
    return "\n".join(f"{check.fact}: {check.found}" for check in checks if not check.holds)


CHANGES: dict[str, tuple[Callable[[Splits], object], str]] = {
    "lost primitive": (
        lambda splits: splits["train"].remove(next(row for row in splits["train"] if row.sentence == "shark")),
        "prim_to_subj_common: shark is in train: nowhere",
    ),
    "extra exposure": (
        lambda splits: splits["train"].append(
            Example("A hippo ran .", "hippo ( x _ 1 ) AND run . agent ( x _ 2 , x _ 1 )", "in_distribution")
        ),
        "only_seen_as_unacc_subj_as_unerg_subj: train has hippo as 'theme in theme V': 1 exceptions",
    ),
    "leak": (
        lambda splits: splits["train"].append(splits["test"][-1]),
        "no sentence is in two splits, or twice in one: 1 exceptions",
    ),
    "leak into validation": (
        lambda splits: splits["validation"].append(splits["test"][0]),
        "every example of validation is in_distribution: 1 exceptions",
    ),
    "deep training example": (
        lambda splits: splits["train"].append(next(row for row in splits["test"] if row.category == "cp_recursion")),
        "CP depth up to 2: 1 exceptions",
    ),
    "modified subject in training": (
        lambda splits: splits["train"].append(next(row for row in splits["test"] if row.category == STRUCTURAL[0])),
        "no subject in train, validation and test_iid has a PP: 1 exceptions",
    ),
    "wrong category": (
        lambda splits: splits["test"].append(
            next(row for row in splits["test"] if row.category == "pp_recursion")._replace(category=STRUCTURAL[0])
        ),
        "obj_pp_to_subj_pp: a subject has a PP: 1 exceptions",
    ),
    "wrong use": (
        lambda splits: splits["test"].append(
            Example("A shark ran .", "shark ( x _ 1 ) AND run . agent ( x _ 2 , x _ 1 )", "prim_to_obj_common")
        ),
        "prim_to_obj_common: test has shark as 'theme in .*': 1 exceptions",
    ),
    "wrong verb": (
        lambda splits: splits["test"].append(
            Example(
                "The hippo ate .",
                "* hippo ( x _ 1 ) ; eat . agent ( x _ 2 , x _ 1 )",
                "only_seen_as_unacc_subj_as_unerg_subj",
            )
        ),
        "none of its verbs has a theme in train, validation and test_iid: 1 exceptions, the first: eat",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_checks_see(gen_2020: Splits, change: str) -> None:
    # few examples suffice, and are quick
    few = {
        split: [row for number, row in enumerate(rows) if row.category != "in_distribution" or number % 40 == 0]
        for split, rows in gen_2020.items()
    }
    few["test"] = [row for number, row in enumerate(few["test"]) if number % 40 == 0]
    few["test"] += [
        next(row for number, row in enumerate(gen_2020["test"]) if row.category == name and number % 40)
        for name in CATEGORIES
    ]
    apply, message = CHANGES[change]
    assert message not in failing(few)
    apply(few)
    assert message in failing(few)


def test_counts_see(gen_2020: Splits) -> None:
    def failing_counts(splits: Splits) -> list[str]:
        return [check.found for check in check_categories(splits, copies=1) if not check.holds]

    assert not failing_counts(gen_2020)
    assert "'prim_to_subj_proper': 999" in failing_counts({**gen_2020, "test": gen_2020["test"][1:]})[0]
    assert failing_counts({**gen_2020, "train": gen_2020["train"][1:]}) == ["23,999 and 143"]
    kept = [row for row in gen_2020["train"] if row.category != "exposure_example_unacc"]
    assert len(failing_counts({**gen_2020, "train": kept})) == 1


def test_categories() -> None:
    assert len(CATEGORIES) == len(set(CATEGORIES)) == 21
    assert len(LEXICAL) == 18


def test_train_100(mirror: Path, tmp_path: Path) -> None:
    config = benchmark_info("cogs").config("train_100_current")
    # 155 words alone and exposures, 100 times
    assert config.num_examples["train"] == 24_000 + 100 * (143 + 12)
    source = config.sources["train"]
    assert source.git_blob == "aada7b25ed6157e8a1f517d95059ba2dec88d3f4"
    with pytest.raises(DataError, match=r"no file cogs/train_100\.tsv\[\.gz\] in data_dir"):
        Cogs(config_name=config.name, data_dir=tmp_path, cache_dir=tmp_path).download_and_prepare()
    other = tmp_path / "cogs" / "train_100.tsv"
    other.parent.mkdir()
    other.write_bytes((mirror / "cogs" / "train.tsv").read_bytes())
    # the id that upstream's tree gives train.tsv
    with pytest.raises(DataError, match=r"git blob id eb101d5755415c4eea7071fb37d32ed56e610ef8, expected .*aada7b25"):
        Cogs(config_name=config.name, data_dir=tmp_path, cache_dir=tmp_path).download_and_prepare()


def test_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "cogs" / "train.tsv"
    path.parent.mkdir()
    path.write_text("A rose was helped .\trose ( x _ 1 )\n")
    with pytest.raises(DataError, match=r"train\.tsv has 35 bytes with sha256"):
        load_benchmark("cogs", "current", data_dir=tmp_path, cache_dir=tmp_path / "cache")
