"""SLOG: the cases by their definition, and that the generalization set stays in its archive."""

from __future__ import annotations

import zipfile

import datasets
import pytest

import hf_sysgen.data.slog.builder
from hf_sysgen.data.cogs.files import Example
from hf_sysgen.data.errors import DataError
from hf_sysgen.data.slog.builder import Slog
from hf_sysgen.data.slog.files import CASES, DEPTHS, GROUPS, depths, generalization_set, noun_phrase, predicates


def test_cases_are_four_groups_of_seventeen():
    assert len(CASES) == sum(map(len, GROUPS.values())) == 17
    assert set(DEPTHS) == set(GROUPS["recursion_depth"])


# own sentences: none of the generalization set
@pytest.mark.parametrize(
    ("sentence", "pp", "cp", "center_embedding"),
    [
        ("A dog slept .", 0, 0, 0),
        ("The dog saw a hat on the mat .", 1, 0, 0),
        ("The dog on a mat saw a hat on the box in a room beside the bed .", 3, 0, 0),
        ("Emma gave the hat on a mat to a dog in the box .", 1, 0, 0),
        ("Emma knew that a dog slept .", 0, 1, 0),
        ("Emma knew that the dog said that Liam hoped that a hat on the mat burned .", 1, 3, 0),
        ("Emma saw a hat that the dog ate .", 0, 0, 1),
        ("Emma saw a hat that ate the dog .", 0, 0, 1),
        ("Emma saw a hat that the dog that a cat that Liam held found ate .", 0, 0, 3),
        ("Emma knew that a dog that slept saw a hat that the cat that Liam held ate .", 0, 1, 2),
    ],
)
def test_depths_are_counted_from_the_sentence(sentence, pp, cp, center_embedding):
    assert depths(sentence) == {"pp": pp, "cp": cp, "center_embedding": center_embedding}


def test_noun_phrases():
    words = ["Emma", "saw", "the", "dog"]
    assert [noun_phrase(words, place) for place in range(5)] == [1, 0, 2, 0, 0]


@pytest.mark.parametrize(
    ("variable_free", "with_variables", "found"),
    [
        (
            "see ( agent = Emma , theme = * hat ( nmod . on = TV ) )",
            (
                "* hat ( x _ 3 ) ; see . agent ( x _ 1 , Emma ) AND see . theme ( x _ 1 , x _ 3 ) AND "
                "hat . nmod . on ( x _ 3 , x _ 6 ) AND TV ( x _ 6 )"
            ),
            {"see", "hat", "TV"},
        ),
        (
            "hope ( agent = dog , ccomp = eat ( agent = Liam , theme = ? ) )",
            (
                "dog ( x _ 3 ) AND hope . agent ( x _ 4 , x _ 3 ) AND hope . ccomp ( x _ 4 , x _ 7 ) AND "
                "eat . agent ( x _ 7 , Liam ) AND eat . theme ( x _ 7 , ? )"
            ),
            {"hope", "dog", "eat"},
        ),
    ],
)
def test_both_forms_have_the_same_predicates(variable_free, with_variables, found):
    assert predicates(variable_free) == predicates(with_variables) == found


def test_another_archive_is_refused(tmp_path):
    archive = tmp_path / "generalization_sets.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.writestr("other.tsv", "a\tb\tc\n")
    with pytest.raises(DataError, match="gen_varfreeLF"):
        generalization_set(str(archive), "varfree")
    archive.write_bytes(b"no archive")
    with pytest.raises(DataError, match="gen_cogsLF"):
        generalization_set(str(archive), "cogs_lf")


def chained(kind: str, depth: int) -> str:
    """A sentence of our own with a structure of this depth."""
    if kind == "pp":
        return "Emma saw the hat" + " on the mat" * depth + " ."
    if kind == "cp":
        return "Emma knew" + " that Liam knew" * (depth - 1) + " that the dog slept ."
    return "Emma saw a hat" + " that the dog" * depth + " saw" * depth + " ."


def own_test_set() -> list[Example]:
    sentences = {case: f"Emma saw {number} dogs ." for number, case in enumerate(CASES)}
    sentences |= {case: chained(kind, most) for case, (kind, _, most) in DEPTHS.items()}
    return [Example(sentence, "see ( agent = Emma )", case) for case, sentence in sentences.items()]


def replaced(test: list[Example], number: int, **changes: str) -> list[Example]:
    return [one._replace(**changes) if row == number else one for row, one in enumerate(test)]


BAD = {
    "nothing": (lambda test: test, None),
    "a case twice": (lambda test: replaced(test, 16, category="Q_subj_active"), "17 cases of"),
    "an unknown case": (lambda test: [*test, Example("Emma ran .", "run", "other")], "17 cases of"),
    "too deep": (lambda test: replaced(test, 0, sentence=chained("pp", 4)), "PP_3: depth 3"),
    "too shallow": (lambda test: replaced(test, 1, sentence=chained("pp", 4)), "PP_5-12: depth 5 to 12"),
    "a word of train": (lambda test: replaced(test, 9, sentence="slept"), "no sentence of test is in train"),
    "another word": (lambda test: replaced(test, 9, target="see ( agent = Zoe )"), "every word"),
}


@pytest.mark.parametrize("change", BAD)
def test_checks_see(change, monkeypatch):
    apply, message = BAD[change]
    words = sorted({word for one in own_test_set() for text in one[:2] for word in text.split()} | {"ran", "run"})
    train = [Example(word, word, "primitive") for word in words]
    test = apply(own_test_set())
    rows = {"train": train, "validation": [], "test_iid": [], "test": test}
    dataset = {
        split: datasets.Dataset.from_dict(
            {name: [one[place] for one in found] for place, name in enumerate(("input", "target", "category"))}
        )
        for split, found in rows.items()
    }
    monkeypatch.setattr(hf_sysgen.data.slog.builder, "PER_CASE", 1)
    monkeypatch.setattr(hf_sysgen.data.slog.builder, "generalization_set", lambda archive, config: test)
    monkeypatch.setattr(Slog, "locate_sources", lambda self: {"test": "archive"})
    checks = [check for check in Slog(config_name="varfree").checks(dataset) if " examples" not in check.fact[-9:]]
    counts = [check for check in Slog(config_name="varfree").checks(dataset) if "17 cases" in check.fact]
    failing = [check.fact for check in (*checks, *counts) if not check.holds]
    assert len(failing) == (message is not None)
    assert all(message in fact for fact in failing)


def test_both_kinds_of_forms_are_compared(monkeypatch):
    forms = {"varfree": own_test_set(), "cogs_lf": replaced(own_test_set(), 3, target="look ( agent = Emma )")}
    empty: dict[str, list[str]] = {name: [] for name in ("input", "target", "category")}
    monkeypatch.setattr(hf_sysgen.data.slog.builder, "generalization_set", lambda archive, config: forms[config])
    monkeypatch.setattr(Slog, "locate_sources", lambda self: {"test": "archive"})
    dataset = {split: datasets.Dataset.from_dict(empty) for split in ("train", "validation", "test_iid", "test")}
    *_, last = Slog(config_name="varfree").checks(dataset)
    assert not last.holds
    assert last.found.startswith("1 exceptions")
