"""Tables of one's own as a benchmark."""

import gzip
import json

import pytest

from hf_sysgen.data.errors import DataError
from hf_sysgen.data.table_benchmark import TableBenchmark

FILES = {"train": "train.tsv", "validation": "validation.csv", "test": "more/test.jsonl"}
NAMES = {"input": "question", "target": "answer", "category": "kind"}


class ShortTables(TableBenchmark):
    FILES = FILES


class LongTables(TableBenchmark):
    FILES = FILES
    COLUMNS = NAMES
    LICENCE, DESCRIPTION = "MIT", "Letters."


@pytest.fixture
def folder(tmp_path):
    tables = tmp_path / "tables"
    (tables / "more").mkdir(parents=True)
    # a quote is a letter in .tsv; in .csv it holds commas and ends of lines together
    (tables / "train.tsv").write_text('input\ttarget\na "b\tb a\n"c\ta, b\n')
    (tables / "validation.csv.gz").write_bytes(
        gzip.compress('target,other,input\n"a, b",1,"a\n""b"\n'.encode("utf-8-sig"))
    )
    rows = [{"input": "c", "target": "ç\u2028"}, {"target": "", "input": "d"}]
    (tables / "more/test.jsonl").write_text("\n\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n")
    return tables


def prepared(builder_class, folder):
    builder = builder_class(data_dir=folder, cache_dir=folder.parent / "cache")
    builder.download_and_prepare()
    return {name: list(split) for name, split in builder.as_dataset().items()}


def test_the_three_formats(folder):
    assert prepared(ShortTables, folder) == {
        "train": [{"input": 'a "b', "target": "b a"}, {"input": '"c', "target": "a, b"}],
        "validation": [{"input": 'a\n"b', "target": "a, b"}],
        "test": [{"input": "c", "target": "ç\u2028"}, {"input": "d", "target": ""}],
    }


def test_names_of_ones_own(folder):
    (folder / "train.tsv").write_text("kind\tanswer\tquestion\nx\tb\ta\n")
    (folder / "validation.csv.gz").unlink()
    (folder / "validation.csv").write_text("kind,answer,question\ny,b,a\n")
    (folder / "more/test.jsonl").write_text('{"question": "q", "answer": "r", "kind": "z"}')
    found = prepared(LongTables, folder)
    assert found["train"] == [{"input": "a", "target": "b", "category": "x"}]
    assert [found[name][0]["category"] for name in ("validation", "test")] == ["y", "z"]
    info = LongTables.BENCHMARK
    assert (info.name, info.builder, info.licence) == ("long_tables", f"{__name__}:LongTables", "MIT")
    assert info.config().splits == tuple(FILES)


def test_a_changed_table_is_prepared_again(folder):
    before = prepared(ShortTables, folder)
    (folder / "train.tsv").write_text("input\ttarget\nz\ty\n")
    after = prepared(ShortTables, folder)
    assert after["train"] == [{"input": "z", "target": "y"}]
    assert after["test"] == before["test"]


def test_the_folder_of_the_variable(folder, monkeypatch):
    monkeypatch.setenv("HF_SYSGEN_DATA_DIR", str(folder))
    builder = ShortTables(cache_dir=folder.parent / "cache")
    builder.download_and_prepare()
    assert len(builder.as_dataset("train")) == 2


@pytest.mark.parametrize(
    ("file", "content", "parts"),
    [
        ("train.tsv", b"input\tgoal\na\tb\n", ["train.tsv, line 1", "'target'", "'input', 'goal'", "COLUMNS"]),
        ("validation.csv", b"input\na,b\n", ["validation.csv, line 1", "'target'"]),
        ("train.tsv", b"\ninput\ttarget\na\tb\n", ["train.tsv, line 1", "'input'"]),
        ("train.tsv", b"input\ttarget\na\tb\n\na\n", ["train.tsv, line 4", "1 values for the 2 columns"]),
        ("train.tsv", b"input\ttarget\na\tb\tc\n", ["train.tsv, line 2", "3 values for the 2 columns"]),
        ("train.tsv", b"input\ttarget\tinput\na\tb\tc\n", ["train.tsv, line 1", "'input'"]),
        ("train.tsv", b"input\ttarget\na\tb\n \tb\n", ["train.tsv, line 3", "'input' is empty"]),
        ("train.tsv", b"input\ttarget\n", ["train.tsv", "no examples", "FILES"]),
        ("train.tsv", b"", ["train.tsv", "no examples", "FILES"]),
        ("more/test.jsonl", b"\n", ["test.jsonl", "no examples", "FILES"]),
        ("train.tsv", b"input\ttarget\n\xff\tb\n", ["train.tsv", "UTF-8"]),
        ("validation.csv", b'input,target\na,b\n"a,b\nc,d\n', ["validation.csv, line 3", "quote is not closed"]),
        ("validation.csv", b'input,target\n"a,b\n' + b"c,d\n" * 40_000, ["csv, line 2", "not closed"]),
        ("validation.csv", b'input,target\na,b\n"a,b\nc,"d"\n', ["validation.csv, line 3", "'\"'"]),
        ("validation.csv", b"input,target\na,\n,b\n", ["validation.csv, line 3", "'input' is empty"]),
        ("more/test.jsonl", b'\n{"input": "a"', ["test.jsonl, line 2", "not JSON"]),
        ("more/test.jsonl", b"[" * 100_000, ["test.jsonl, line 1", "not JSON"]),
        (
            "more/test.jsonl",
            b'{"input": "a", "input": "b", "target": "c"}',
            ["test.jsonl, line 1: two values are called 'input'"],
        ),
        ("more/test.jsonl", b'\n{"input": "a"}', ["test.jsonl, line 2", "'target'"]),
        ("more/test.jsonl", b'["a", "b"]', ["test.jsonl, line 1", "object"]),
        ("more/test.jsonl", b'{"input": "a", "target": 3}', ["test.jsonl, line 1", "'target' is 3"]),
    ],
    ids=lambda value: None if isinstance(value, list) else str(value)[:30],
)
def test_what_is_wrong_with_a_table(file, content, parts, folder):
    (folder / "validation.csv.gz").unlink()
    (folder / "validation.csv").write_text("input,target\na,b\n")
    (folder / file).write_bytes(content)
    with pytest.raises(DataError) as caught:
        prepared(ShortTables, folder)
    assert all(part in str(caught.value) for part in parts), caught.value


def test_a_missing_table_is_named(folder, monkeypatch):
    (folder / "train.tsv").unlink()
    with pytest.raises(DataError, match=r"short_tables:train\.tsv: no file .*data_dir or --data-dir"):
        prepared(ShortTables, folder)
    monkeypatch.delenv("HF_SYSGEN_DATA_DIR", raising=False)
    with pytest.raises(DataError, match="data_dir"):
        ShortTables(cache_dir=folder.parent / "cache").download_and_prepare()


@pytest.mark.parametrize(
    ("attributes", "part"),
    [
        ({"FILES": {}}, "FILES"),
        ({"FILES": "train.tsv"}, "FILES"),
        ({"FILES": {"train": 3}}, "FILES"),
        ({"FILES": {"train": "train.txt"}}, "'train.txt'"),
        ({"FILES": {"train": "/tables/train.csv"}}, "'/tables/train.csv'"),
        ({"FILES": {"test-ood": "test.csv"}}, "'test-ood'"),
        ({"FILES": {"all": "test.csv"}}, "'all'"),
        ({"COLUMNS": {"question": "input", "answer": "target"}}, "'input'"),
        ({"COLUMNS": {"input": "input"}}, "'target'"),
        ({"COLUMNS": ["input", "target"]}, "COLUMNS"),
        ({"LICENCE": None}, "LICENCE"),
    ],
    ids=str,
)
def test_what_is_wrong_with_a_class(attributes, part):
    with pytest.raises(ValueError, match=f"of Other.*{part}|{part} of Other"):
        type("Other", (TableBenchmark,), {"FILES": FILES, **attributes})


@pytest.mark.parametrize(
    ("class_name", "name"), [("Letters", "letters"), ("SCANLike", "scan_like"), ("MyCOGS2Table", "my_cogs2_table")]
)
def test_its_name(class_name, name):
    class Shared(TableBenchmark):
        """What several benchmarks share has no files."""

        LICENCE = "MIT"

    info = type(class_name, (Shared,), {"FILES": FILES}).BENCHMARK
    assert (info.name, info.title, info.licence) == (name, class_name, "MIT")


def test_a_long_cell(folder):
    long = "a " * 200_000
    (folder / "train.tsv").write_text(f"input\ttarget\n{long}\tb\n")
    assert prepared(ShortTables, folder)["train"] == [{"input": long, "target": "b"}]
