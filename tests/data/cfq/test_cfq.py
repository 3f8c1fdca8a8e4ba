"""CFQ's splits against their definition and the papers' counts, from the text files and from an archive made here.

A part of the text files has all words, the longest questions and queries, and 1,000 validation examples become 20.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import datasets
import pytest
from tarballs import pack
from upstream_files import Files

from hf_sysgen.data import DataError, benchmark_info, load_benchmark
from hf_sysgen.data.cfq import files as cfq_files
from hf_sysgen.data.cfq.builder import Cfq
from hf_sysgen.data.cfq.files import DATASET
from hf_sysgen.data.cfq.splits import EDGE, FAMILIES, family_of
from hf_sysgen.data.fetch import locate
from hf_sysgen.data.info import Source

CFQ = benchmark_info("cfq")
ARCHIVE = CFQ.config("mcd2").sources["archive"]

Load = Callable[[str], datasets.DatasetDict]
Failed = Callable[[str, datasets.DatasetDict], list[str]]
LAYOUT = Path("cfq", "derived_original_layout", "cfq")


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory, files: Files) -> Iterator[Callable[[str], datasets.DatasetDict]]:
    """The configs that the text files make."""
    cache_dir = tmp_path_factory.mktemp("cfq")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cfq_files, "EDGE_VALIDATION", 1_000 if files.whole else 20)
        yield lambda config: files.load("cfq", config, cache_dir)


@pytest.fixture
def failed(files: Files, tmp_path: Path) -> Callable[[str, datasets.DatasetDict], list[str]]:
    def failed(config: str, dataset: datasets.DatasetDict) -> list[str]:
        checks = list(files.builder("cfq", config, tmp_path).checks(dataset))
        assert len(checks) > 3 * files.whole
        return [f"{check.fact}: {check.found}" for check in checks if not check.holds]

    return failed


def test_mcd1(load: Load, failed: Failed, files: Files) -> None:
    parts = load("mcd1")
    # Csordas et al. 2021, table 10
    if files.whole:
        assert parts.num_rows == {"train": 95_743, "validation_generalization": 11_968, "test": 11_968}
    longest = {
        (split, column): max(len(text.split()) for text in part[column][:])
        for split, part in parts.items()
        for column in ("input", "target")
    }
    assert [longest["train", "input"], longest["train", "target"]] == [29, 95]
    assert [longest["test", "input"], longest["test", "target"]] == [30, 103]
    words = {
        column: {split: {word for text in part[column][:] for word in text.split()} for split, part in parts.items()}
        for column in ("input", "target")
    }
    # Keysers et al. 2020: the same atoms on both sides, combined differently
    assert words["input"]["test"] <= words["input"]["train"]
    assert words["target"]["test"] <= words["target"]["train"]
    assert len(set().union(*words["input"].values(), *words["target"].values())) == 181
    assert failed("mcd1", parts) == []


def test_checks_see_a_wrong_split(load: Load, failed: Failed, files: Files) -> None:
    parts = load("mcd1")
    kept = parts["test"].select(range(len(parts["test"]) - 2))
    moved = datasets.concatenate_datasets([kept, parts["train"].select([7, 8])])
    wrong = datasets.DatasetDict({**parts, "test": moved, "train": parts["train"].select(range(9))})
    found = failed("mcd1", wrong)
    assert ("train has 95,743 examples: 9" in found) == files.whole
    assert any(fact.startswith("no question of test is in train: 2 exceptions, the first: ") for fact in found)
    assert any(fact.startswith("up to 29 tokens in the questions of train, up to 95 in its queries") for fact in found)


def test_edge(load: Load, failed: Failed, files: Files) -> None:
    parts, plain = load("mcd1_edge"), load("mcd1")
    if files.whole:
        assert parts.num_rows == {"train": 93_054, "validation": 1_000, "test": 11_968}
    assert failed("mcd1_edge", parts) == []
    # train of `mcd1` less the queries of 50 tokens or more, counting "count(*)" once
    short = sum(len(text.replace("count ( * )", "count(*)").split()) < 50 for text in plain["train"]["target"][:])
    assert short == len(parts["train"]) + len(parts["validation"])
    # the tokenizer that the authors published has 179 entries, three of them special
    words = {word for part in parts.values() for column in part[:].values() for text in column for word in text.split()}
    assert len(words) == 176
    assert words >= {"m1", "'s", "count(*)", "select", "^ns:people.person.gender", "ns:m.05zppz"}


def test_edge_unfiltered(load: Load, failed: Failed, files: Files) -> None:
    whole, filtered = load("mcd1_edge_unfiltered"), load("mcd1_edge")
    if files.whole:
        assert whole.num_rows == {"train": 94_743, "validation": 1_000, "test": 11_968}
    assert failed("mcd1_edge_unfiltered", whole) == []
    # what it has more are the queries of 50 tokens or more, and they alone; the order is the same
    pairs = [(row["input"], row["target"]) for row in whole["train"]]
    lengths = [len(query.split()) for _, query in pairs]
    assert sum(length >= 50 for length in lengths) == len(whole["train"]) - len(filtered["train"]) > 0
    assert [pair for pair, length in zip(pairs, lengths, strict=True) if length < 50] == [
        (row["input"], row["target"]) for row in filtered["train"]
    ]
    # the longest example has so many nodes, ends included; perf/triangular_attention.py measures these
    assert max(len(question.split()) + length + 2 for (question, _), length in zip(pairs, lengths, strict=True)) == 122
    for split in ("validation", "test"):
        assert whole[split][:] == filtered[split][:]


def test_checks_see_a_long_query(load: Load, failed: Failed) -> None:
    parts = load("mcd1_edge_unfiltered")
    wrong = datasets.DatasetDict({**parts, "train": parts["train"].select(range(len(load("mcd1_edge")["train"])))})
    [found] = failed("mcd1_edge", wrong)
    assert found.startswith("no query of train has 50 tokens or more: ")
    long = parts["train"].filter(lambda row: len(row["target"].split()) >= 50).select(range(5))
    found = failed("mcd1_edge_unfiltered", datasets.DatasetDict({**parts, "validation": long}))
    assert any(fact.startswith("no query of validation has 50 tokens or more: 5 exceptions") for fact in found)
    exact = long.map(lambda row: {"target": " ".join(row["target"].split()[:50])})
    found = failed("mcd1_edge_unfiltered", datasets.DatasetDict({**parts, "validation": exact}))
    assert any(fact.startswith("no query of validation has 50 tokens or more: 5 exceptions") for fact in found)


@pytest.fixture
def from_archive(files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Source]:
    """Replaces CFQ's archive by one of real records, whole or cut short, for a config."""

    def prepare(config: str, kept: float = 1.0) -> Source:
        split = files.read(LAYOUT / "splits" / "mcd1.json")
        name = FAMILIES[family_of(config)].split
        path = pack(
            tmp_path / "made.tar.gz",
            {f"cfq/splits/{name}.json": split, DATASET: files.read(LAYOUT / "dataset.json")},
        )
        content = path.read_bytes()[: int(kept * path.stat().st_size)]
        path.write_bytes(content)
        source = dataclasses.replace(
            ARCHIVE, sha256=hashlib.sha256(content).hexdigest(), num_bytes=len(content), address=path.as_uri()
        )
        info = dataclasses.replace(CFQ.configs[config], sources={"archive": source})
        monkeypatch.setitem(CFQ.configs, config, info)
        return source

    return prepare


@pytest.mark.parametrize("config", [name for name in CFQ.configs if not name.startswith("mcd1")])
def test_from_archive(
    from_archive: Callable[..., Source], files: Files, tmp_path: Path, config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from_archive(config)
    # these have 500 for test, or 60
    monkeypatch.setattr(cfq_files, "EDGE_VALIDATION", validation := 101 if files.whole else 11)
    parts = load_benchmark("cfq", config, cache_dir=tmp_path / "cache")
    assert list(parts) == list(CFQ.configs[config].splits)
    if config in EDGE:
        assert parts.num_rows["validation"] == validation
        assert all("count ( * )" not in text for text in parts["test"]["target"][:])
        long = sum(len(text.split()) >= 50 for text in parts["train"]["target"][:])
        assert (long == 0) == EDGE[config].filtered
    else:
        assert sum(parts.num_rows.values()) == len(json.loads(files.read(LAYOUT / "dataset.json")))
    assert all(text == " ".join(text.split()) for part in parts.values() for text in part["target"][:])


def test_archive_and_texts_agree(load: Load, from_archive: Callable[..., Source], tmp_path: Path) -> None:
    whole = load("mcd1")
    from_archive("mcd2")
    parts = load_benchmark("cfq", "mcd2", cache_dir=tmp_path / "cache")
    for split, part in parts.items():
        columns = whole[split]
        known = set(zip(columns["input"][:], columns["target"][:], strict=True))
        assert set(zip(part["input"][:], part["target"][:], strict=True)) <= known


def test_truncated_archive_leaves_no_data(from_archive: Callable[..., Source], tmp_path: Path) -> None:
    from_archive("mcd3", kept=0.5)
    with pytest.raises(DataError, match=r"member cfq/dataset\.json"):
        load_benchmark("cfq", "mcd3", cache_dir=tmp_path / "cache")
    assert not list((tmp_path / "cache").rglob("*.arrow"))


def test_archive_of_another_content(from_archive: Callable[..., Source], tmp_path: Path) -> None:
    source = from_archive("mcd3")
    path = tmp_path / "data" / source.mirror
    path.parent.mkdir(parents=True)
    path.write_bytes(b"something else")
    with pytest.raises(DataError, match=r"google-research/cfq:cfq\.tar\.gz: .* 14 bytes with sha256"):
        load_benchmark("cfq", "mcd3", data_dir=tmp_path / "data", cache_dir=tmp_path / "cache")


def test_streaming(from_archive: Callable[..., Source], tmp_path: Path) -> None:
    from_archive("mcd3")
    stream = Cfq(config_name="mcd3", cache_dir=tmp_path / "cache").as_streaming_dataset("test")
    prepared = load_benchmark("cfq", "mcd3", cache_dir=tmp_path / "cache")["test"]
    # twice: what was handed on is read again
    for _ in range(2):
        assert list(stream.take(3)) == [prepared[row] for row in range(3)]


def test_what_a_config_says() -> None:
    for name, config in CFQ.configs.items():
        assert config.licence.startswith("CC-BY-4.0 (google-research/cfq)")
        assert (config.kinds["test"] == "compositional") == (not name.startswith("random")), name


def member(path: Path, content: bytes, inside: str = "data/a.txt") -> Source:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data/a.txt", b"alpha\n")
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    outer = Source("owner/name", "", path.name, sha256, None, "MIT", path.name, address=path.as_uri())
    digest = hashlib.sha256(content).hexdigest()
    return Source("owner/name", "", inside, digest, len(content), "MIT", "bench/a.txt", archive=outer)


def test_file_of_an_archive(tmp_path: Path) -> None:
    source = member(tmp_path / "a.zip", b"alpha\n")
    path = locate(source, cache_dir=tmp_path / "cache")
    assert path.read_bytes() == b"alpha\n"
    # the archive is not needed again
    (tmp_path / "a.zip").unlink()
    for archive in (tmp_path / "cache" / "downloads").glob("*.zip"):
        archive.unlink()
    assert locate(source, cache_dir=tmp_path / "cache") == path
    # and a mirror has the file itself
    mirrored = tmp_path / "mirror" / "bench" / "a.txt"
    mirrored.parent.mkdir(parents=True)
    mirrored.write_bytes(b"alpha\n")
    assert locate(source, data_dir=tmp_path / "mirror") == mirrored


@pytest.mark.parametrize(
    ("content", "inside", "message"),
    [
        (b"beta\n", "data/a.txt", r"owner/name:a\.zip!data/a\.txt: "),
        (b"alpha\n", "data/b.txt", r"member data/b\.txt: .*data/a\.txt"),
    ],
)
def test_wrong_file_of_an_archive(tmp_path: Path, content: bytes, inside: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        locate(member(tmp_path / "a.zip", content, inside), cache_dir=tmp_path / "cache")
    assert not list((tmp_path / "cache").rglob("*.txt"))


def test_texts_are_files_of_one_pinned_archive() -> None:
    files = CFQ.config("mcd1").sources
    assert len(files) == 6
    pinned = "thousfeet/LEAR/e26c9d875c593de6e2e51b9d66f65c6f07be9575/CFQ_experiment/cfq_data.zip"
    assert {source.url for source in files.values()} == {f"https://raw.githubusercontent.com/{pinned}"}
