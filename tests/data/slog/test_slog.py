"""SLOG: the cases by their definition, and that the generalization set stays in its archive."""

from __future__ import annotations

import zipfile

import pytest

from hf_sysgen.data.errors import DataError
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
