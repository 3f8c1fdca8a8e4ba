"""Reading CoNLL-U, looking up published trees by question, and the configs with our own heads."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import datasets
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tarballs import pack
from upstream_files import Files

from hf_sysgen.data import DataError, benchmark_info, load_benchmark
from hf_sysgen.data.cfq.dependencies import OWN_HEADS, CfqDependencies, derive_tree, example, read_published_trees
from hf_sysgen.data.cfq.files import DATASET, QUERY, QUESTION
from hf_sysgen.data.cfq.splits import FAMILIES
from hf_sysgen.data.cfq.trees import Sentence, is_content, is_tree, read_trees

CFQ_DEPENDENCIES = benchmark_info("cfq_dependencies")
ARCHIVE, PARSES = CFQ_DEPENDENCIES.config("mcd2").sources.values()

# two trees, laid out as Universal Dependencies describe it; "'s" is in two in the second
FRAGMENT = """\
# sent_id = 1
1\tDid\t_\t_\t_\t_\t3\tAUX\t_\t_
2\tM0\t_\t_\t_\t_\t3\tNSUBJ\t_\t_
3\tmarry\t_\t_\t_\t_\t0\tROOT\t_\t_
4\tM1\t_\t_\t_\t_\t3\tOBJ\t_\t_

1-2\tWas\t_\t_\t_\t_\t_\t_\t_\t_
1\tWas\t_\t_\t_\t_\t6\tCOP\t_\t_
2\tM0\t_\t_\t_\t_\t6\tNSUBJ\t_\t_
3\tM1\t_\t_\t_\t_\t6\tNMOD:POSS\t_\t_
4\t'\t_\t_\t_\t_\t3\tCASE\t_\t_
5\ts\t_\t_\t_\t_\t4\tGOESWITH\t_\t_
5.1\tgone\t_\t_\t_\t_\t_\t_\t_\t_
6\tchild\t_\t_\t_\t_\t0\tROOT\t_\t_
"""
FIRST = Sentence(("Did", "M0", "marry", "M1"), (3, 3, 0, 3), ("AUX", "NSUBJ", "ROOT", "OBJ"))
SECOND = Sentence(
    ("Was", "M0", "M1", "'", "s", "child"),
    (6, 6, 6, 3, 4, 0),
    ("COP", "NSUBJ", "NMOD:POSS", "CASE", "GOESWITH", "ROOT"),
)


@pytest.mark.parametrize("ending", ["", "\n", "\n\n\n"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_fragment(ending: str, line_end: str) -> None:
    lines = (FRAGMENT + ending).replace("\n", line_end).encode().splitlines(keepends=True)
    assert list(read_trees(lines, "here")) == [FIRST, SECOND]


def row(number: object, head: object = 0, label: str = "ROOT") -> bytes:
    return f"{number}\tM0\t_\t_\t_\t_\t{head}\t{label}\t_\t_\n".encode()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([b"1 M0 0 ROOT\n"], "here: line 1 "),
        ([b"# a\n", row(2)], "here: line 2 "),
        ([row("x")], "here: line 1 "),
        ([row(1), row(2, "up")], "here: line 2 "),
        ([b"\xff\n"], "here: line 1 "),
        ([row(1), b"\n", row(1), row(2)], "here: sentence 2 "),
        ([row(1, 2), row(2, 1)], "here: sentence 1 "),
        ([row(1), row(2, 3), row(3, 2)], "here: sentence 1 "),
        ([row(1), row(2, 7)], "here: sentence 1 "),
        ([row(1), row(2, -1)], "here: sentence 1 "),
    ],
)
def test_no_conllu(lines: list[bytes], message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(read_trees(lines, "here"))


@given(st.lists(st.integers(-1, 6), max_size=6))
def test_is_tree(heads: list[int]) -> None:
    def reaches_root(token: int) -> bool:
        for _ in heads:
            if token != 0:
                if not 0 < token <= len(heads):
                    return False
                token = heads[token - 1]
        return token == 0

    expected = heads.count(0) == 1 and all(reaches_root(token) for token in range(1, len(heads) + 1))
    assert is_tree(heads) == expected


def test_content_words() -> None:
    # upper case only, without what follows a colon: as the papers' script has it
    assert [is_content(label) for label in ("ROOT", "NSUBJ", "NMOD:POSS", "CONJ")] == [True] * 4
    functional = ("AUX", "COP", "MARK", "DET", "CLF", "CASE", "CC", "PUNCT")
    assert not any(is_content(label) for label in (*functional, "root", "nsubj", ""))


def test_published(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu"
    path.write_text(FRAGMENT)
    # in the order of the questions, whatever is one token in the file
    questions = ["Was M0 M1 's child", "Did M0 marry M1"]
    assert list(read_published_trees(questions, str(path))) == [SECOND, FIRST]
    with pytest.raises(DataError, match=r"a\.conllu: .*'Who married M0'"):
        list(read_published_trees([*questions, "Who married M0"], str(path)))


def test_own() -> None:
    assert derive_tree("Did M0 marry M1") == FIRST
    with pytest.raises(DataError, match="'Did M0 kiss M1'"):
        derive_tree("Did M0 kiss M1")


def test_example() -> None:
    assert example(SECOND) == {
        "input": "Was M0 M1 ' s child",
        "target": "6:COP 6:NSUBJ 6:NMOD:POSS 3:CASE 4:GOESWITH 0:ROOT",
        "tokens": SECOND.tokens,
        "heads": SECOND.heads,
        "labels": SECOND.labels,
        "content_word": [False, True, True, False, True, True],
    }


QUESTIONS = ["Did M0 marry M1", "Was M0 M1 's child", "Who was M2 's gender", "Did M1 marry M0"]


@pytest.fixture
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], datasets.DatasetDict]:
    """Prepares a config from an archive of four questions and a file of the trees of two."""

    def prepare(config: str) -> datasets.DatasetDict:
        name = FAMILIES[config.removesuffix(OWN_HEADS)].split
        if config.endswith(OWN_HEADS):
            splits = {"trainIdxs": [1, 0], "devIdxs": [2], "testIdxs": [3]}
        else:
            splits = {"trainIdxs": [1], "devIdxs": [0], "testIdxs": [0]}
        path = pack(
            tmp_path / "a.tar.gz",
            {
                DATASET: json.dumps([{QUESTION: question, QUERY: "SELECT"} for question in QUESTIONS]).encode(),
                f"cfq/splits/{name}.json": json.dumps(splits).encode(),
            },
        )
        trees = tmp_path / "a.conllu"
        trees.write_text(FRAGMENT)
        info = CFQ_DEPENDENCIES.configs[config]
        sources = {
            role: dataclasses.replace(
                source, sha256=hashlib.sha256(file.read_bytes()).hexdigest(), num_bytes=None, address=file.as_uri()
            )
            for role, source, file in (("archive", ARCHIVE, path), ("parses", PARSES, trees))
            if role in info.sources
        }
        monkeypatch.setitem(CFQ_DEPENDENCIES.configs, config, dataclasses.replace(info, sources=sources))
        return load_benchmark("cfq_dependencies", config, cache_dir=tmp_path / "cache")

    return prepare


def test_prepared_with_published_trees(prepared: Callable[[str], datasets.DatasetDict]) -> None:
    parts = prepared("mcd2")
    assert list(parts) == ["train", "validation_generalization", "test"]
    assert parts["train"]["tokens"][:] == [list(SECOND.tokens)]
    assert parts["train"]["heads"][:] == [list(SECOND.heads)]
    assert parts["test"][0] == {
        key: list(value) if isinstance(value, tuple) else value for key, value in example(FIRST).items()
    }


def test_prepared_with_own_heads(prepared: Callable[[str], datasets.DatasetDict], tmp_path: Path) -> None:
    parts = prepared("mcd3_own_heads")
    assert parts["train"]["input"][:] == [QUESTIONS[1], QUESTIONS[0]]
    assert parts["validation_generalization"]["target"][:] == ["5:NSUBJ 5:COP 5:NMOD 3:CASE 0:ROOT"]
    builder = CfqDependencies(config_name="mcd3_own_heads", cache_dir=tmp_path / "cache")
    wrong = {check.fact for check in builder.checks(parts) if not check.holds}
    # nothing is wrong but the sizes
    assert wrong == {check.fact for check in builder.checks(parts) if "examples" in check.fact}


def test_checks_see_a_wrong_tree(prepared: Callable[[str], datasets.DatasetDict], tmp_path: Path) -> None:
    parts = prepared("mcd3_own_heads")
    builder = CfqDependencies(config_name="mcd3_own_heads", cache_dir=tmp_path / "cache")
    cyclic = parts["test"].map(lambda row: {"heads": [2, 1, *row["heads"][2:]]})
    masked = parts["train"].map(lambda row: {"content_word": [True] * len(row["tokens"])})
    wrong = datasets.DatasetDict({**parts, "test": cyclic, "train": masked})
    found = [check.found for check in builder.checks(wrong) if "tree with one root" in check.fact]
    assert found == [
        "2 exceptions, the first: ['Was', 'M0', 'M1', \"'s\", 'child']",
        "",
        f"1 exceptions, the first: {['Did', 'M1', 'marry', 'M0']}",
    ]


def test_what_a_config_says() -> None:
    for name, config in CFQ_DEPENDENCIES.configs.items():
        # nobody takes our trees for the published ones
        assert ("own heads" in config.description) == name.endswith(OWN_HEADS) == bool(config.errata)
        assert ("parses" in config.sources) != name.endswith(OWN_HEADS)
        assert {"train", *config.kinds} == set(config.splits)
    assert PARSES.url.startswith("https://media.githubusercontent.com/media/emilygoodwin/CFQ-dependencies/7d6a1fff")


def test_pointer(sample: Files) -> None:
    pointer = sample.read("cfq_dependency/parsed-CFQ-corpus.conllu.lfs-pointer").decode()
    assert f"oid sha256:{PARSES.sha256}\nsize {PARSES.num_bytes}" in pointer


@pytest.mark.slow
def test_mcd1_own_heads(data_dir: Path, tmp_path: Path) -> None:
    parts = load_benchmark("cfq_dependencies", "mcd1_own_heads", data_dir=data_dir, cache_dir=tmp_path)
    builder = CfqDependencies(config_name="mcd1_own_heads", cache_dir=tmp_path)
    assert [check.fact for check in builder.checks(parts) if not check.holds] == []
    assert parts.num_rows == {"train": 95_743, "validation_generalization": 11_968, "test": 11_968}
