"""COGS against the counts of the papers, and its 21 categories against their definition.

A part of its files has all words, all words alone and exposure examples, and 30 examples of each category.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import datasets
import pytest
from upstream_files import Files

from hf_sysgen.data import DataError, benchmark_info, load_benchmark
from hf_sysgen.data.cogs import checks as cogs_checks
from hf_sysgen.data.cogs.builder import Cogs, examples
from hf_sysgen.data.cogs.checks import (
    EXPOSURES,
    IN_DISTRIBUTION,
    PRIMITIVES,
    check_categories,
    check_definitions,
)
from hf_sysgen.data.cogs.files import CATEGORIES, LEXICAL, STRUCTURAL, Example, parse

Load = Callable[[str], datasets.DatasetDict]
Splits = dict[str, list[Example]]


@pytest.fixture(scope="module")
def load(files: Files, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Load]:
    cache_dir = tmp_path_factory.mktemp("cogs")
    with pytest.MonkeyPatch.context() as patch:
        if not files.whole:
            train = parse(files.read("cogs/train.tsv"))
            patch.setattr(cogs_checks, "IN_DISTRIBUTION", sum(row.category == "in_distribution" for row in train))
            patch.setattr(cogs_checks, "PER_CATEGORY", 30)
        yield lambda config: files.load("cogs", config, cache_dir)


@pytest.fixture(scope="module")
def gen_2020(load: Load) -> Splits:
    return dict(examples(load("gen_2020")))


def test_splits(load: Load, files: Files) -> None:
    parts = load("gen_2020")
    sizes = {"train": 24_155, "validation": 3_000, "test_iid": 3_000, "test": 21_000}
    assert benchmark_info("cogs").config("gen_2020").num_examples == sizes
    assert list(parts) == list(sizes)
    assert not files.whole or parts.num_rows == sizes
    assert parts["train"].column_names == ["input", "target", "category", "is_structural"]
    structural = [example["category"] for example in parts["test"] if example["is_structural"]]
    assert len(structural) == len(parts["test"]) // 7
    assert set(structural) == {"obj_pp_to_subj_pp", "cp_recursion", "pp_recursion"}
    assert not any(any(parts[split]["is_structural"]) for split in ("train", "validation", "test_iid"))


@pytest.mark.parametrize("config", ["gen_2020", pytest.param("current", marks=pytest.mark.slow)])
def test_definition(load: Load, files: Files, tmp_path: Path, config: str) -> None:
    checks = files.builder("cogs", config, tmp_path).checks(load(config))
    assert not [check for check in checks if not check.holds]


def test_table_10_of_csordas(gen_2020: Splits) -> None:
    # Csordas et al. 2021, table 10: 871 words of all files together; longest input / output 22/153 in train, 61/480
    words = {word for rows in gen_2020.values() for row in rows for word in f"{row.sentence} {row.target}".split()}
    assert len(words) == 871
    for split, longest in (("train", (22, 153)), ("test", (61, 480))):
        assert tuple(max(len(row[column].split()) for row in gen_2020[split]) for column in (0, 1)) == longest


def test_what_the_correction_changed(gen_2020: Splits, files: Files) -> None:
    corrected = parse(files.read("cogs/gen.tsv"))
    changed = [pair for pair in zip(gen_2020["test"], corrected, strict=True) if pair[0] != pair[1]]
    assert len(changed) == (51 if files.whole else 10)
    for before, after in changed:
        assert before._replace(target="") == after._replace(target="")
        assert before.category == "obj_pp_to_subj_pp"
        words = zip(before.target.split(), after.target.split(), strict=True)
        assert [(old, new) for old, new in words if old != new] == [("agent", "theme")]


def test_rows_are_upstream_lines(load: Load, files: Files) -> None:
    part = load("gen_2020")["test"]
    upstream = files.lines("cogs/gen_2020.tsv")
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
    step = max(1, len(gen_2020["test"]) // 500)
    few = {
        split: [row for number, row in enumerate(rows) if row.category != "in_distribution" or number % step == 0]
        for split, rows in gen_2020.items()
    }
    few["test"] = [row for number, row in enumerate(few["test"]) if number % step == 0]
    if step > 1:
        few["test"] += [
            next(row for number, row in enumerate(gen_2020["test"]) if row.category == name and number % step)
            for name in CATEGORIES
        ]
    apply, message = CHANGES[change]
    assert message not in failing(few)
    apply(few)
    assert message in failing(few)


def test_counts_see(gen_2020: Splits, files: Files) -> None:
    def failing_counts(splits: Splits) -> list[str]:
        return [check.found for check in check_categories(splits, copies=1) if not check.holds]

    assert not failing_counts(gen_2020)
    one_less = "'prim_to_subj_proper': 999" if files.whole else "'prim_to_subj_proper': 29"
    first = next(row for row in gen_2020["test"] if row.category == "prim_to_subj_proper")
    test = [row for row in gen_2020["test"] if row is not first]
    assert one_less in failing_counts({**gen_2020, "test": test})[0]
    in_distribution = [row for row in gen_2020["train"] if row.category == "in_distribution"]
    train = [row for row in gen_2020["train"] if row is not in_distribution[0]]
    assert failing_counts({**gen_2020, "train": train}) == [f"{len(in_distribution) - 1:,} and 143"]
    kept = [row for row in gen_2020["train"] if row.category != "exposure_example_unacc"]
    assert len(failing_counts({**gen_2020, "train": kept})) == 1


def test_categories() -> None:
    assert len(CATEGORIES) == len(set(CATEGORIES)) == 21
    assert len(LEXICAL) == 18
    train = benchmark_info("cogs").config("gen_2020").num_examples["train"]
    assert train == IN_DISTRIBUTION + PRIMITIVES + EXPOSURES


def test_train_100(files: Files, tmp_path: Path) -> None:
    config = benchmark_info("cogs").config("train_100_current")
    # 155 words alone and exposures, 100 times
    assert config.num_examples["train"] == 24_000 + 100 * (143 + 12)
    source = config.sources["train"]
    assert source.git_blob == "aada7b25ed6157e8a1f517d95059ba2dec88d3f4"
    with pytest.raises(DataError, match=r"cogs/train_100\.tsv"):
        Cogs(config_name=config.name, data_dir=tmp_path, cache_dir=tmp_path).download_and_prepare()
    other = tmp_path / "cogs" / "train_100.tsv"
    other.parent.mkdir()
    other.write_bytes(content := files.read("cogs/train.tsv"))
    found = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    # the id that upstream's tree gives train.tsv
    assert not files.whole or found == "eb101d5755415c4eea7071fb37d32ed56e610ef8"
    with pytest.raises(DataError, match=rf"{found}.*aada7b25"):
        Cogs(config_name=config.name, data_dir=tmp_path, cache_dir=tmp_path).download_and_prepare()


def test_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "cogs" / "train.tsv"
    path.parent.mkdir()
    path.write_text("A rose was helped .\trose ( x _ 1 )\n")
    with pytest.raises(DataError, match=r"train\.tsv.* 35 bytes"):
        load_benchmark("cogs", "current", data_dir=tmp_path, cache_dir=tmp_path / "cache")
