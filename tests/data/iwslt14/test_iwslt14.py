"""IWSLT14: the files of the script, and the same text made from an archive with upstream's layout."""

from __future__ import annotations

import io
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import datasets
import pytest

from hf_sysgen.data import DataError, benchmark_info, load_benchmark
from hf_sysgen.data.iwslt14.builder import GIT_BLOBS, Iwslt14
from hf_sysgen.data.iwslt14.files import (
    EVALUATION,
    LANGUAGES,
    git_blob_id,
    prepare,
    segment_lines,
    talk_lines,
)
from hf_sysgen.data.text.translation import moses_tokenizer, paired, split_lines

IWSLT14 = benchmark_info("iwslt14")

PREPARED = Path("mt", "iwslt14.tokenized.de-en", "tmp")
RAW = Path("mt", "iwslt14", "de-en")


def lines(path: Path) -> list[str]:
    return split_lines(path.read_bytes(), str(path))


@pytest.mark.parametrize(("split", "name", "size"), [("validation", "valid", 7_283), ("test", "test", 6_750)])
def test_published_files(data_dir: Path, split: str, name: str, size: int) -> None:
    sides = [lines(data_dir / PREPARED / f"{name}.{language}") for language in LANGUAGES]
    assert tuple(git_blob_id(side) for side in sides) == GIT_BLOBS[split]
    assert len(paired(sides, "")) == size
    for line in sides[0] + sides[1]:
        assert line == " ".join(line.split()) == line.lower()


@pytest.mark.parametrize("language", LANGUAGES)
def test_test_set_from_raw(data_dir: Path, language: str) -> None:
    files = [data_dir / RAW / f"IWSLT14.{name}.de-en.{language}.xml" for name in EVALUATION]
    if not files[0].is_file():
        pytest.skip(f"needs the archive's evaluation files in {RAW} of the data folder")
    tokenize = moses_tokenizer(language)
    made = [tokenize(line).lower() for file in files for line in segment_lines(lines(file))]
    assert made == lines(data_dir / PREPARED / f"test.{language}")


def test_sizes_fit() -> None:
    # every 23rd of the cleaned pairs is validation
    sizes = IWSLT14.configs["de-en"].num_examples
    assert (sizes["train"] + sizes["validation"]) // 23 == sizes["validation"]  # type: ignore[operator]


def test_talk_lines() -> None:
    raw = ["<url>http://x</url>", "<keywords>a, b</keywords>", "<talkid>1</talkid>", "<title>A: B</title>"]
    raw += ["<description>TED: C</description>", " One. ", ""]
    assert talk_lines(raw) == ["A: B", "TED: C", " One. ", ""]


def test_segment_lines() -> None:
    raw = ['<doc docid="1">', "<title>T</title>", '<seg id="12"> It\u2019s 1 < 2. </seg>', "</doc>"]
    assert segment_lines(raw) == ["It's 1 < 2."]


def test_git_blob_id(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("ä\n\nb\n", encoding="utf-8")
    expected = subprocess.run(["git", "hash-object", path], capture_output=True, text=True, check=True).stdout.strip()
    assert git_blob_id(["ä", "", "b"]) == expected


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """The archive's layout: 50 sentences, of which one is too long and one unlike its translation."""
    words = ["Wort"] * 50
    words[9] = " ".join(["Wort"] * 176)
    words[30] = "Wort Wort Wort Wort Wort"
    talk = ["<url>http://x</url>", "<title>Titel</title>", "<talkid>7</talkid>"]
    files = {
        "train.tags.de-en.de": [*talk, *(f"{word} Nr. {number}." for number, word in enumerate(words))],
        "train.tags.de-en.en": [*talk, *(f"Word no. {number}." for number in range(50))],
    }
    for name in EVALUATION:
        for language, text in zip(LANGUAGES, ("Das ist's.", "That\u2019s it."), strict=True):
            xml = ["<mteval>", f'<seg id="1"> {text} </seg>', f'<seg id="2"> {name} </seg>', "</mteval>"]
            files[f"IWSLT14.{name}.de-en.{language}.xml"] = xml
    path = tmp_path / "de-en.tgz"
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            data = "".join(f"{line}\n" for line in content).encode()
            info = tarfile.TarInfo(f"de-en/{name}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def test_prepare(archive: Path) -> None:
    parts = prepare(archive)
    assert list(parts) == list(IWSLT14.configs["de-en_from_archive"].splits)
    # the title and 48 of the 50 sentences are left
    assert parts["train"][:2] == [("titel", "titel"), ("wort nr. 0 .", "word no . 0 .")]
    assert len(parts["train"]) == 49 - 2
    # the 23rd and the 46th of them, with the title before and one or two left out
    assert parts["validation"] == [("wort nr. 22 .", "word no . 22 ."), ("wort nr. 46 .", "word no . 46 .")]
    assert parts["test"][:2] == [("das ist &apos; s .", "that &apos;s it ."), ("ted.dev2010", "ted.dev2010")]
    assert [target for _, target in parts["test"][1::2]] == [name.lower() for name in EVALUATION]


def test_builder(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = IWSLT14.configs["de-en_from_archive"]
    source = replace(config.sources["archive"], git_blob="", mirror="de-en.tgz")
    small = replace(config, sources={"archive": source}, num_examples={"train": None, "validation": None, "test": 10})
    monkeypatch.setitem(IWSLT14.configs, config.name, small)  # type: ignore[arg-type]
    dataset = load_benchmark("iwslt14", config.name, data_dir=archive.parent, cache_dir=tmp_path)
    assert dataset["test"][0] == {"input": "das ist &apos; s .", "target": "that &apos;s it ."}
    builder = Iwslt14(config_name=config.name, data_dir=archive.parent, cache_dir=tmp_path)
    checks = list(builder.checks(dataset))
    # another text than the published one, and clean
    assert [check.fact.split()[0] for check in checks if not check.holds] == [
        f"{split}.{language}" for split in GIT_BLOBS for language in LANGUAGES
    ]
    assert len(checks) == 1 + 6 + 2
    unclean = datasets.Dataset.from_dict({"input": ["a b c d"], "target": ["x"]})
    failed = [check for check in builder.checks(datasets.DatasetDict({**dataset, "train": unclean})) if not check.holds]
    assert failed[-1].found == "1 pairs that are not so"


def test_published_config(data_dir: Path, tmp_path: Path) -> None:
    """The config needs six files; with train in place, the published ones pass."""
    for side in LANGUAGES:
        for name in ("valid", "test", "train"):
            path = tmp_path / PREPARED / f"{name}.{side}"
            path.parent.mkdir(parents=True, exist_ok=True)
            if name != "train":
                path.write_bytes((data_dir / PREPARED / path.name).read_bytes())
    with pytest.raises(DataError, match=r"mt/iwslt14\.tokenized\.de-en/tmp/train\.de"):
        load_benchmark("iwslt14", "de-en", data_dir=tmp_path, cache_dir=tmp_path)
    for side in LANGUAGES:
        (tmp_path / PREPARED / f"train.{side}").write_text("not it\n")
    with pytest.raises(DataError, match=r"[0-9a-f]{40}, .*30660ed508af"):
        load_benchmark("iwslt14", "de-en", data_dir=tmp_path, cache_dir=tmp_path)
