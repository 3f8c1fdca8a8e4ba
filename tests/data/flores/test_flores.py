"""FLoRes on the real files: counts, disjoint splits, the prepared text."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pytest
from reference.subword_encoders import sentencepiece_encoder
from upstream_files import Files

from hf_sysgen.data import DataError, benchmark_info, load_benchmark
from hf_sysgen.data.archives import open_member
from hf_sysgen.data.describe import measured_text
from hf_sysgen.data.flores.builder import UPSTREAM_SPLITS, Flores
from hf_sysgen.data.text.translation import learn_sentencepiece

FLORES = benchmark_info("flores")


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory, files: Files) -> Callable[[str], Any]:
    cache_dir = tmp_path_factory.mktemp("flores")
    loaded: dict[str, Any] = {}

    def load(config: str) -> Any:
        if config not in loaded:
            loaded[config] = files.load("flores", config, cache_dir)
        return loaded[config]

    return load


@pytest.mark.parametrize("config", FLORES.configs)
def test_definition(load: Callable[[str], Any], files: Files, tmp_path: Path, config: str) -> None:
    dataset = load(config)
    assert list(dataset) == ["validation", "test_iid", "test"]
    checks = list(files.builder("flores", config, tmp_path).checks(dataset))
    assert [check for check in checks if not check.holds] == []
    assert len(checks) == 3 * files.whole + 2 * 3 + 1
    # no split is train, so nothing is said of words that it lacks
    assert re.search(r"Vocabulary\n +input: [\d,]+ different words; target: ", measured_text(dataset))
    for part in dataset.values():
        assert part.column_names == ["input", "target", "document"]
        for column in part.column_names:
            assert all(line and line == " ".join(line.split()) for line in part[column])


@pytest.mark.parametrize(("foreign", "script"), [("ne", "\u0900-\u097f"), ("si", "\u0d80-\u0dff")])
def test_both_directions(load: Callable[[str], Any], files: Files, foreign: str, script: str) -> None:
    first, last = script.split("-")
    for split, part in UPSTREAM_SPLITS.items():
        there, back = load(f"{foreign}-en")[split], load(f"en-{foreign}")[split]
        assert there["input"] == back["target"]
        assert there["target"] == back["input"]
        # the Indic side is in its script, but for lines left in English; the other one is upstream's English
        assert sum(any(first <= letter <= last for letter in line) for line in there["input"]) > 0.99 * len(there)
        member = f"wikipedia_en_ne_si_test_sets/wikipedia.{part}.{foreign}-en.en"
        with open_member(files.folder / FLORES.configs["ne-en"].sources["archive"].mirror, member) as stream:
            english = stream.read().decode().split("\n")
        assert [line.split() for line in there["target"]] == [line.split() for line in english[:-1]]


def test_first_line(load: Callable[[str], Any]) -> None:
    assert load("ne-en")["validation"][0] == {
        "input": "पुटिनको आफ्नै ' नाइट उल्भ्स ' नामको बाइक राइडर ग्याङ पनि छ ।",
        "target": "Putin has his own bike rider gang names 'Night Wolves'.",
        "document": "भ्लादिमिर पुटिन",
    }


def test_pieces(load: Callable[[str], Any], files: Files) -> None:
    part = load("si-en")["validation"]
    lines = [*part["input"][:400], *part["target"][:400]]
    size = 700 if files.whole else 300
    encode = sentencepiece_encoder(learn_sentencepiece(lines, size))
    pieces = [encode(line).split() for line in lines]
    assert len({piece for line in pieces for piece in line}) <= size
    # every letter is covered, so nothing is lost but sentencepiece's own normalization of a few
    joined = ["".join(line).replace("▁", " ").strip() for line in pieces]
    assert sum(first == second for first, second in zip(joined, lines, strict=True)) >= 0.9 * len(lines)


def test_training_text_of_the_user(files: Files, tmp_path: Path) -> None:
    """Two plain files beside the archive. Another text is prepared again, and one side alone is an error."""
    archive = FLORES.configs["ne-en"].sources["archive"].mirror
    (tmp_path / archive).parent.mkdir(parents=True)
    (tmp_path / archive).symlink_to(files.folder / archive)
    folder = (tmp_path / archive).parent

    def load(config: str) -> Any:
        with files.pinned("flores", config):
            return load_benchmark("flores", config, data_dir=tmp_path, cache_dir=tmp_path / "cache")

    (folder / "train.ne-en.ne").write_text("नेपाल हो।\n\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"mt/flores/train.ne-en.en\[.gz\]"):
        load("en-ne")
    (folder / "train.ne-en.en").write_text("It  is\u2028Nepal.\nTwo.\n", encoding="utf-8")
    loaded = load("en-ne")
    assert list(loaded) == ["train", "validation", "test_iid", "test"]
    assert loaded["train"][:] == {
        "input": ["It is Nepal.", "Two."], "target": ["नेपाल हो ।", ""], "document": ["", ""]
    }  # fmt: skip
    (folder / "train.ne-en.en").write_text("One.\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"train.ne-en.ne: 2 .* 1 "):
        load("ne-en")


def test_check_finds_shared_sentences(load: Callable[[str], Any], files: Files, tmp_path: Path) -> None:
    dataset = load("ne-en")
    mixed = datasets.DatasetDict({**dataset, "test_iid": dataset["test"]})
    failed = [check for check in files.builder("flores", "ne-en", tmp_path).checks(mixed) if not check.holds]
    facts = ["no input is in both test_iid and test", "no target is in both test_iid and test"]
    assert [check.fact for check in failed] == ["test_iid has 2,835 examples"] * files.whole + facts
    assert failed[0].found.split()[0] == ("2,924" if files.whole else "60")


def test_uneven_archive(tmp_path: Path) -> None:
    path = tmp_path / "sets.tgz"
    with tarfile.open(path, "w:gz") as tar:
        for kind, content in (("en", b"a\n"), ("ne", b"a\nb\n"), ("doc_id", b"x\n")):
            info = tarfile.TarInfo(f"wikipedia_en_ne_si_test_sets/wikipedia.dev.ne-en.{kind}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    builder = Flores(config_name="en-ne", cache_dir=tmp_path)
    with pytest.raises(DataError, match="dev has 1 of en, 2 of ne, 1 of doc_id"):
        list(builder._generate_examples(str(path), "dev"))
