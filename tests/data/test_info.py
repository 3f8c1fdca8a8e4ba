"""Reading `info.yaml`: its rows and references, and errors for wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest

import hf_sysgen.data
from hf_sysgen.data import DataError
from hf_sysgen.data.info import FILE, BenchmarkInfo, read_benchmarks, read_info

OURS = sorted(Path(hf_sysgen.data.__file__).parent.glob(f"*/{FILE}"))

INFO = """
name: letters_twice
task: seq2seq
title: Letters
description: To be doubled.
homepage: https://example.org
citation: [keysers2020measuring, "@misc{letters}"]
files:
  - repository: owner/letters
    commit: 0123456789abcdef0123456789abcdef01234567
    folder: upstream
    mirror: letters
    licence: MIT (owner/letters)
    files:
      a3.txt: {bytes: 3}
      a5.zip: {path: elsewhere/a5.zip}
  - repository: owner/letters
    archive: letters/a5.zip
    mirror: letters/a5
    licence: MIT (owner/letters)
    files: {inner.txt: }
configs:
  up_to_{most}:
    for_each:
      - {most: 3, file: letters/a3.txt, examples: 7}
      - {most: 5, file: letters/a5/inner.txt, examples: null}
    description: At most {most} letters.
    citation: ["@misc{braces}"]
    files: {train: "{file}"}
    splits:
      train: {examples: "{examples}", tests: Up to {most}.}
      test: {examples: 2, kind: compositional}
"""


def read(folder: Path, text: str) -> BenchmarkInfo:
    (folder / "info.yaml").write_text(text.replace("tests: Up to {most}.", 'tests: "Up to {most}."'))
    return read_info(folder / "builder.py")


def test_rows_and_references(tmp_path: Path) -> None:
    info = read(tmp_path, INFO)
    assert info.builder.endswith(".builder:LettersTwice")
    assert info.citation.startswith("@inproceedings{keysers2020measuring,")
    assert info.citation.endswith("}\n@misc{letters}")
    three, five = info.configs.values()
    assert (three.name, five.name) == ("up_to_3", "up_to_5")
    assert three.description == "At most 3 letters."
    assert three.citation == "@misc{braces}"
    assert three.what_it_tests == {"train": "Up to 3."}
    assert (three.num_examples, five.num_examples) == ({"train": 7, "test": 2}, {"train": None, "test": 2})
    assert three.kinds == {"test": "compositional"}
    assert (three.of_kind("compositional"), three.of_kind("other")) == (("test",), ())
    assert (three.sources["train"].path, three.sources["train"].num_bytes) == ("upstream/a3.txt", 3)
    archive = five.sources["train"].archive
    assert archive is not None
    assert archive.path == "elsewhere/a5.zip"
    assert five.sources["train"].url == archive.url


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("homepage:", "home:", "homepage"),
        ("task: seq2seq", "task: sequences", "task"),
        ("bytes: 3", "size: 3", "files.0.files.a3.txt.size"),
        ("examples: 7", "examples: many", "configs.up_to_3.splits.train.examples"),
        ("kind: compositional", "kind: hard", "configs.up_to_3.splits.test.kind"),
        (", kind: compositional", "", "splits.test.kind"),
        ("tests: Up to {most}.}", "kind: other}", "splits.train.kind"),
        ("letters/a3.txt", "letters/b3.txt", "letters/b3.txt"),
        ("name: letters_twice", "name: letters_twice\nname: again", "name"),
        ("keysers2020measuring", "keysers1920measuring", "keysers1920measuring"),
        ("At most {most}", "At most {least}", "least"),
    ],
)
def test_what_is_wrong_is_named(old: str, new: str, key: str, tmp_path: Path) -> None:
    assert INFO.count(old) >= 1
    with pytest.raises(DataError) as caught:
        read(tmp_path, INFO.replace(old, new, 1))
    assert str(tmp_path / "info.yaml") in str(caught.value)
    assert key in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.parent.name)
def test_own_files_mean_the_same_in_yaml_1_2(path: Path, tmp_path: Path) -> None:
    # elsewhere the same file is read as YAML 1.2, which refuses a key that stands twice
    copy = tmp_path / path.parent.name / FILE
    copy.parent.mkdir()
    copy.write_bytes(path.read_bytes())
    assert read_benchmarks(path) == read_benchmarks(copy)
