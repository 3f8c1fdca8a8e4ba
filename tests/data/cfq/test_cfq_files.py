"""The two forms of CFQ's text, and the archive: read record by record in little memory, and damaged in every way."""

from __future__ import annotations

import io
import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tarballs import pack
from upstream_files import Files

from hf_sysgen.data import DataError
from hf_sysgen.data.cfq import files as cfq_files
from hf_sysgen.data.cfq.files import (
    DATASET,
    QUERY,
    QUESTION,
    edge_form,
    edge_parts,
    original,
    original_query,
    preprocess,
    preprocess_query,
    preprocess_question,
    read_archive,
    read_records,
    read_texts,
)

Pairs = dict[str, list[tuple[str, str]]]


def members(records: Any, splits: Any) -> dict[str, bytes]:
    return {DATASET: json.dumps(records).encode(), "cfq/splits/mcd2.json": json.dumps(splits).encode()}


RECORDS = [
    {QUESTION: f"Did M{n} marry M1 's actor", QUERY: f"SELECT count(*) WHERE {{\nM{n} ns:a.b m.0{n}\n}}"}
    for n in range(5)
]
SPLITS = {"trainIdxs": [4, 0], "devIdxs": [3], "testIdxs": [1]}


@pytest.fixture(scope="module")
def texts(files: Files) -> Pairs:
    """The preprocessed pairs of mcd1."""
    folders = {"train": "train", "validation": "dev", "test": "test"}
    ends = {"input": "encode", "target": "decode"}
    return read_texts(
        {
            f"{part}_{column}": str(files.path(f"cfq/mcd1/{folder}/{folder}_{end}.txt"))
            for part, folder in folders.items()
            for column, end in ends.items()
        }
    )


def test_forms() -> None:
    question = "Was M0 's actor , star , and editor M1"
    query = "SELECT count(*) WHERE {\n?x0 ns:a.b/ns:c.d|ns:e.f M0 .\n?x0 ^ns:g.h ns:m.05zppz .\nFILTER ( ?x0 != M1 )\n}"
    assert preprocess_question(question) == "Was M0 ' s actor , star , and editor M1"
    preprocessed = "SELECT count ( * ) WHERE { ?x0 a.b/ns:c.d|ns:e.f M0 . ?x0 ^ns:g.h m_05zppz . FILTER ( ?x0 != M1 ) }"
    assert preprocess_query(query) == preprocessed
    assert original((preprocess_question(question), preprocessed)) == (question, " ".join(query.split()))
    assert edge_form((question, query)) == (
        "was m0 's actor , star , and editor m1",
        "select count(*) where { ?x0 ns:a.b/ns:c.d|ns:e.f m0 . ?x0 ^ns:g.h ns:m.05zppz . filter ( ?x0 != m1 ) }",
    )
    assert original_query("?x0 a film.actor . M1 a people.person") == "?x0 a ns:film.actor . M1 a ns:people.person"


@pytest.mark.parametrize("part", ["validation", "test", "train"])
def test_forms_of_every_real_pair(texts: Pairs, part: str) -> None:
    # both ways: nothing is lost in either form
    assert all(preprocess(original(pair)) == pair for pair in texts[part])


def test_real_records(texts: Pairs, files: Files, tmp_path: Path) -> None:
    """Records in the original form and the archive's layout, positions permuted."""
    layout = "cfq/derived_original_layout/cfq"
    dataset, splits = files.read(f"{layout}/dataset.json"), json.loads(files.read(f"{layout}/splits/mcd1.json"))
    archive = pack(tmp_path / "cfq.tar.gz", {DATASET: dataset, "cfq/splits/mcd1.json": json.dumps(splits).encode()})
    parts = read_archive(archive, "mcd1")
    records = json.loads(dataset)
    assert sum(map(len, parts.values())) == len(records)
    for part, key in cfq_files.SPLIT_KEYS.items():
        assert parts[part] == [(records[row][QUESTION], records[row][QUERY]) for row in splits[key]]
        # the same lines as google-research's preprocess.py wrote into the same part
        assert set(map(preprocess, parts[part])) <= set(texts[part])
        # this copy has "ns:^ns:" where CFQ has "^ns:", which preprocessing does not show
        plain = [pair for pair in parts[part] if "^" not in pair[1]]
        assert len(plain) > (0.98 if files.whole else 0.9) * len(parts[part])
        assert all(edge_form(original(preprocess(pair))) == edge_form(pair) for pair in plain)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


class Trickle(io.BytesIO):
    """A stream that gives at most so many bytes at once."""

    def __init__(self, content: bytes, most: int):
        super().__init__(content)
        self.most = most

    def read(self, size: int | None = -1) -> bytes:
        return super().read(self.most if size is None or size < 0 else min(size, self.most))


@settings(max_examples=60)
@given(
    records=st.lists(st.dictionaries(st.text(), JSON, max_size=4), max_size=5),
    layout=st.sampled_from([{}, {"indent": 0}, {"indent": 2}, {"separators": (",", ":")}]),
    ascii_only=st.booleans(),
    chunk=st.integers(1, 40),
)
def test_records_as_json_has_them(records: list[dict], layout: dict, ascii_only: bool, chunk: int) -> None:
    content = json.dumps(records, ensure_ascii=ascii_only, **layout).encode("utf-8", "surrogatepass")
    try:
        content.decode()
    except UnicodeDecodeError:
        content = json.dumps(records, **layout).encode()
    assert list(read_records(Trickle(content, chunk), "here")) == records


@pytest.mark.parametrize(
    ("content", "record", "reason"),
    [
        (b"", 0, "cut short"),
        (b"[", 0, "cut short"),
        (b'[{"a": 1}', 1, "cut short"),
        (b'[{"a": 1}, {"b"', 1, "Expecting ':'"),
        (b'[{"a": 1}, {"b": oops}]', 1, "Expecting value"),
        (b'[{"a": 1}, 7]', 1, "a int, not an object"),
        (b'[{"a": "\xff"}]', 0, "invalid start byte"),
    ],
)
def test_damaged_array(content: bytes, record: int, reason: str) -> None:
    with pytest.raises(DataError, match=rf"^here: record {record} .*{reason}"):
        list(read_records(io.BytesIO(content), "here"))


def test_endless_record() -> None:
    stream = io.BytesIO(b'[{"a": "' + b"x" * (64 << 20))
    with pytest.raises(DataError, match="record 0"):
        list(read_records(stream, "here"))
    # it gave up long before the end
    assert stream.tell() < 32 << 20


def test_archive(tmp_path: Path) -> None:
    parts = read_archive(pack(tmp_path / "a.tar.gz", members(RECORDS, SPLITS)), "mcd2")
    assert {part: [question[4:6] for question, _ in pairs] for part, pairs in parts.items()} == {
        "train": ["M4", "M0"],
        "validation": ["M3"],
        "test": ["M1"],
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (members(RECORDS[:3], SPLITS), r"dataset\.json: .* 3 records.* mcd2 .* [34]"),
        (members([{"question": "Who"}] * 5, SPLITS), r"record 0 .*'questionPatternModEntities'"),
        (members(RECORDS, {"trainIdxs": [0]}), r"mcd2\.json: .*'devIdxs'"),
        (members(RECORDS, [1, 2]), r"mcd2\.json: "),
        (members(RECORDS, SPLITS) | {"cfq/splits/mcd2.json": b"{"}, r"mcd2\.json: "),
        ({DATASET: b"[]"}, r"member cfq/splits/mcd2\.json: .*cfq/dataset\.json"),
        ({"cfq/splits/mcd2.json": json.dumps(SPLITS).encode()}, r"dataset\.json: "),
        (
            {"cfq/splits/mcd2.json": json.dumps(SPLITS).encode(), "../" + DATASET: b"[]"},
            r"dataset\.json: ",
        ),
    ],
)
def test_wrong_archive(tmp_path: Path, content: dict[str, bytes], message: str) -> None:
    archive = pack(tmp_path / "a.tar.gz", content)
    with pytest.raises(DataError, match=message) as caught:
        read_archive(archive, "mcd2")
    assert "\n" not in str(caught.value)


def test_split_outside_the_archive(tmp_path: Path) -> None:
    archive = pack(tmp_path / "a.tar.gz", members(RECORDS, SPLITS) | {"cfq/outside.json": b"{}"})
    with pytest.raises(DataError, match=r"\.\./outside"):
        read_archive(archive, "../outside")


@pytest.mark.parametrize("kept", [0.2, 0.6, 0.95])
def test_truncated_archive(tmp_path: Path, kept: float) -> None:
    # the splits come first, so that the cut is in the array
    content = dict(reversed(members(RECORDS * 2_000, SPLITS | {"testIdxs": [9_999]}).items()))
    archive = pack(tmp_path / "a.tar.gz", content)
    archive.write_bytes(archive.read_bytes()[: int(kept * archive.stat().st_size)])
    with pytest.raises(DataError, match=r"a\.tar\.gz: member cfq/dataset\.json"):
        read_archive(archive, "mcd2")


def test_memory(tmp_path: Path) -> None:
    def array() -> Iterator[bytes]:
        yield b"[\n"
        for number in range(20_000):
            record = {"ruleTree": f"{number}" * 500, QUESTION: f"q{number}", QUERY: "SELECT"}
            yield (b",\n" if number else b"") + json.dumps(record).encode()
        yield b"\n]\n"

    content = {DATASET: b"".join(array()), "cfq/splits/mcd2.json": json.dumps(SPLITS | {"testIdxs": [19_999]}).encode()}
    archive, size = pack(tmp_path / "a.tar.gz", content), len(content.pop(DATASET))
    tracemalloc.start()
    parts = read_archive(archive, "mcd2")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert parts["test"] == [("q19999", "SELECT")]
    # a few chunks of a megabyte, however long the array is
    assert size > 45e6
    assert peak < 15e6


@pytest.mark.parametrize("validation_from", ["train", "test"])
def test_edge_parts(validation_from: str) -> None:
    def part(name: str, count: int) -> list[tuple[str, str]]:
        return [(f"{name}{row}", " ".join(["x"] * (1 + row % 60))) for row in range(count)]

    parts = {"train": part("train", 6_000), "validation": part("dev", 10), "test": part("test", 3_000)}
    chosen = edge_parts(parts, validation_from)
    short = [pair for pair in parts["train"] if pair[1].count("x") <= 49]
    pool = short if validation_from == "train" else parts["test"]
    rest, other = ("train", parts["test"]) if validation_from == "train" else ("test", short)
    assert list(chosen) == ["train", "validation", "test"]
    assert len(chosen["validation"]) == 1_000
    assert sorted(chosen["validation"] + chosen[rest]) == sorted(pool)
    assert chosen["test" if rest == "train" else "train"] == other
    # in the order of the pool, and the same each time
    assert chosen["validation"] == [pair for pair in pool if pair in set(chosen["validation"])]
    assert chosen == edge_parts(parts, validation_from)
    # without the filter, only train changes, by the long queries
    whole = edge_parts(parts, validation_from, filtered=False)
    assert whole["validation"] == chosen["validation"]
    assert whole["test"] == chosen["test"]
    assert [pair for pair in whole["train"] if pair in set(short)] == chosen["train"]
    assert set(whole["train"]) - set(chosen["train"]) == set(parts["train"]) - set(short)
