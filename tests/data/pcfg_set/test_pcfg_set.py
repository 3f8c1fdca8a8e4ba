"""PCFG SET on real lines: every target, the definition of the splits; on the whole files, the paper's counts.

The sources of the training sets are not to be had. What is shown of them: their targets; those pairs that the published
test sets of other configs give away (`derived_partial_train`); and small sets made here.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from upstream_files import Files

from hf_sysgen.data import DataError, benchmark_info, load_benchmark
from hf_sysgen.data.builder import builder_configs
from hf_sysgen.data.fetch import locate, open_file
from hf_sysgen.data.pcfg_set.builder import HELD_OUT_PAIRS, PcfgSet
from hf_sysgen.data.pcfg_set.grammar import SYMBOLS, adjacent_functions, functions, interpret

PCFG_SET = benchmark_info("pcfg_set")

UPSTREAM = {"base": "pcfgset", "productivity": "productivity", "systematicity": "systematicity"}
Lines = list[str]
Read = Callable[[str], Lines]
# a source with its function, in either of its names, and a source of an exceptional pair
TINY = {
    "validation": ["shift A1 B2 C3"],
    "validation_target": ["B2 C3 A1"],
    "substitutivity": {
        "train": ["repeat A2 B2", "echo repeat_twin A3 B3", "append_twin A4 B4 , C4", "remove_second_twin A5 , B5",
                  "swap_first_last_twin A6 B6"],
        "train_target": ["A2 B2 A2 B2", "A3 B3 A3 B3 B3", "A4 B4 C4", "A5", "B6 A6"],
        "test": ["append repeat A7 , repeat B7", "append repeat A7 , repeat B7"],
        "test_target": ["A7 A7 B7 B7", "A7 A7 B7 B7"],
        "test_synonym": ["append repeat_twin A7 , repeat_twin B7", "append_twin repeat A7 , repeat B7"],
    },
    "overgeneralisation": {
        "train": ["repeat A2 B2", "reverse echo A8 B8", "prepend reverse echo A9 B9 , C9"],
        "train_target": ["A2 B2 A2 B2", "A8 B8 B8", "C9 A9 B9 B9"],
        "test": ["reverse echo A8 B8", "prepend reverse echo A9 B9 , C9"],
        "test_target": ["B8 B8 A8", "C9 B9 B9 A9"],
        "test_exception": ["A8 B8 B8", "C9 A9 B9 B9"],
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def read(files: Files) -> Read:
    return lambda path: files.lines(f"pcfg_set/{path}")


@pytest.fixture(scope="module")
def read_whole(data_dir: Path) -> Read:
    """Lines of an upstream file, checked against its sha256."""
    sources = {source.path: source for config in PCFG_SET.configs.values() for source in config.sources.values()}

    def read(path: str) -> Lines:
        with open_file(locate(sources[f"data/pcfgset/{path}"], data_dir)) as stream:
            return stream.read().decode().splitlines()

    return read


def made(folder: Path, config: str, contents: Mapping[str, Lines], sizes: Mapping[str, int]) -> PcfgSet:
    """A builder of that config, of files with these lines by role."""
    info = PCFG_SET.configs[config]
    assert set(contents) == set(info.sources)
    sources = {}
    for role, source in info.sources.items():
        content = ("\n".join(contents[role]) + "\n").encode()
        path = folder / "data" / source.mirror
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        sources[role] = replace(source, sha256=hashlib.sha256(content).hexdigest(), num_bytes=len(content))
    benchmark = replace(PCFG_SET, configs={config: replace(info, sources=sources, num_examples=sizes)})
    made_class = type(
        "Made", (PcfgSet,), {"BENCHMARK": benchmark, "BUILDER_CONFIGS": builder_configs(benchmark, "1.0.0")}
    )
    return made_class(config_name=config, cache_dir=folder / "cache", data_dir=folder / "data")


def prepared(builder: PcfgSet) -> tuple[Any, list[str]]:
    """The data set, and the facts that do not hold."""
    builder.download_and_prepare()
    dataset = builder.as_dataset()
    return dataset, [check.fact for check in builder.checks(dataset) if not check.holds]


def is_held_out(source: str) -> bool:
    return not adjacent_functions(source).isdisjoint(HELD_OUT_PAIRS)


@pytest.mark.parametrize("folder", ["pcfgset", "productivity", "systematicity"])
def test_every_published_target(read: Read, folder: str) -> None:
    parts = ["test", "dev"] if folder == "pcfgset" else ["test"]
    for part in parts:
        sources, targets = read(f"{folder}/{part}.src"), read(f"{folder}/{part}.tgt")
        assert [interpret(source) for source in sources] == targets


@pytest.mark.parametrize(
    ("config", "train", "test"),
    [("base", 82_622, 9_721), ("productivity", 81_010, 11_333), ("systematicity", 82_168, 10_175)],
)
def test_counts_of_the_paper(read_whole: Read, config: str, train: int, test: int) -> None:
    folder = UPSTREAM[config]
    counts = {
        "train": len(read_whole(f"{folder}/train.tgt")),
        "validation": len(read_whole("pcfgset/dev.src")),
        "test": len(read_whole(f"{folder}/test.src")),
    }
    assert counts == dict(PCFG_SET.configs[config].num_examples) == {"train": train, "validation": 4_860, "test": test}


def test_productivity_and_systematicity_share_base_among_them(read_whole: Read) -> None:
    pool = Counter(read_whole("pcfgset/train.tgt") + read_whole("pcfgset/test.tgt"))
    for config in ("productivity", "systematicity"):
        assert Counter(read_whole(f"{config}/train.tgt") + read_whole(f"{config}/test.tgt")) == pool


def test_definition_of_the_tests(read: Read, files: Files) -> None:
    lengths = [len(functions(source)) for source in read("productivity/test.src")]
    assert lengths == sorted(lengths)
    assert (lengths[0], lengths[-1]) == (9, 35)
    assert all(map(is_held_out, read("systematicity/test.src")))
    if not files.whole:
        return
    # and nothing of base's test that belongs there is missing
    base, longer, held_out = (set(read(f"{folder}/test.src")) for folder in UPSTREAM.values())
    assert {source for source in base if len(functions(source)) >= 9} == base & longer
    assert {source for source in base if is_held_out(source)} == base & held_out
    assert {source for source in longer if is_held_out(source)} == longer & held_out
    assert {source for source in held_out if len(functions(source)) >= 9} == longer & held_out


def test_the_validation_set_is_of_base(read_whole: Read) -> None:
    # the numbers that the configs' `tests` name
    sources = read_whole("pcfgset/dev.src")
    assert sum(len(functions(source)) >= 9 for source in sources) == 611
    assert sum(map(is_held_out, sources)) == 521
    assert "611 of its 4,860" in PCFG_SET.configs["productivity"].what_it_tests["validation"]
    assert "521 of its 4,860" in PCFG_SET.configs["systematicity"].what_it_tests["validation"]


def test_vocabulary(read_whole: Read) -> None:
    sources = [source for folder in UPSTREAM.values() for source in read_whole(f"{folder}/test.src")]
    words = {word for source in sources for word in source.split()}
    # Csordas et al. 2021, table 10, has 4 more: the synonyms of the substitutivity test
    assert len(words) == 531
    assert words >= set(SYMBOLS)
    assert max(len(source.split()) for source in sources) == 71
    assert max(len(target.split()) for target in read_whole("productivity/test.tgt")) == 736


@pytest.mark.parametrize("config", list(UPSTREAM))
def test_builder(read: Read, files: Files, tmp_path: Path, config: str) -> None:
    contents = {}
    for part, split in (("pcfgset/dev", "validation"), (f"{UPSTREAM[config]}/test", "test")):
        contents |= {split: read(f"{part}.src"), f"{split}_target": read(f"{part}.tgt")}
    # a known pair is one with a target of train; three of base's 16,674 are not of train, as test has that target, too
    test = set(contents["test"])
    partial = f"derived_partial_train/{UPSTREAM[config]}/train"
    pairs = zip(read(f"{partial}.src"), read(f"{partial}.tgt"), strict=True)
    known = [pair for pair in pairs if pair[0] not in test]
    if files.whole:
        assert len(known) == {"base": 16_671, "productivity": 15_058, "systematicity": 16_220}[config]
        known = known[::5]
    contents["train"], contents["train_target"] = map(list, zip(*known, strict=True))
    sizes = {split: len(contents[split]) for split in PCFG_SET.configs[config].num_examples}
    dataset, failed = prepared(made(tmp_path, config, contents, sizes))
    assert failed == []
    assert {split: len(part) for split, part in dataset.items()} == sizes
    for split, part in dataset.items():
        assert part.column_names == ["input", "target"]
        assert part["input"][:] == contents[split]
        assert part["target"][:] == contents[f"{split}_target"]


@pytest.mark.parametrize(
    ("config", "split", "source", "fact"),
    [
        (
            "productivity",
            "train",
            "copy copy copy copy copy copy copy copy copy A1",
            "every input of train has 1 to 8 functions",
        ),
        ("productivity", "test", "copy A1 B1", "every input of test has 9 to 35 functions"),
        ("systematicity", "train", "echo swap_first_last repeat A1 B1", "no input of train has a held-out pair"),
        ("systematicity", "test", "repeat append copy A1 , B1", "every input of test has a held-out pair"),
        ("base", "test", "shift A1 B2 C3", "no input of test is in train or validation"),
    ],
)
def test_a_broken_split_is_told(tmp_path: Path, config: str, split: str, source: str, fact: str) -> None:
    inputs = {
        "base": {"train": ["echo A1 B1"], "test": ["copy A1 B1"]},
        "productivity": {"train": ["copy A1", "copy " * 8 + "B1"], "test": ["copy " * 9 + "C1", "copy " * 35 + "D1"]},
        "systematicity": {"train": ["swap_first_last copy repeat A1 B1"], "test": ["append swap_first_last A1 , B1"]},
    }[config] | {"validation": TINY["validation"]}

    def facts(name: str) -> list[str]:
        contents = {
            role: lines
            for part, sources in inputs.items()
            for role, lines in ((part, sources), (f"{part}_target", [interpret(source) for source in sources]))
        }
        sizes = {part: len(inputs[part]) for part in ("train", "validation", "test")}
        return prepared(made(tmp_path / name, config, contents, sizes))[1]

    assert facts("right") == []
    inputs[split] = [*inputs[split], source]
    (told,) = facts("wrong")
    assert told.startswith(fact)


def tiny(kind: str, **changed: Lines) -> dict[str, Any]:
    parts = {role: lines for role, lines in TINY.items() if role.startswith("validation")}
    return {**parts, **TINY[kind], **changed}  # type: ignore[dict-item]


def sizes_of(contents: Mapping[str, Lines]) -> dict[str, int]:
    return {split: len(contents[split]) for split in ("train", "validation", "test")}


@pytest.mark.parametrize(
    ("changed", "fact"),
    [
        ({}, None),
        (
            {"test_synonym": ["append repeat_twin A7 , repeat B7", "append_twin repeat A7 , repeat B7"]},
            "every synonym_input renames one function",
        ),
        (
            {"test_synonym": ["append_twin repeat_twin A7 , repeat_twin B7"] * 2},
            "every synonym_input renames one function",
        ),
        ({"train": ["repeat A2 B2"], "train_target": ["A2 B2 A2 B2"]}, "train has all four synonyms"),
        ({"test_target": ["A7 A7 B7 B7", "A7 A7 B7"]}, "every target of test is what its input means"),
    ],
)
def test_substitutivity(tmp_path: Path, changed: dict[str, Lines], fact: str | None) -> None:
    contents = tiny("substitutivity", **changed)
    dataset, failed = prepared(made(tmp_path, "substitutivity_primitive", contents, sizes_of(contents)))
    assert [told[: len(fact)] for told in failed] == [fact] if fact else failed == []
    assert dataset["test"].column_names == ["input", "target", "synonym_input"]
    assert dataset["test"]["synonym_input"][:] == contents["test_synonym"]
    assert set(dataset["train"]["synonym_input"]) == {None}


@pytest.mark.parametrize(
    ("changed", "fact"),
    [
        ({}, None),
        ({"test_exception": ["A8 B8 B8", "C9 B9 B9 A9"]}, "every exception_target is what the exception means"),
        ({"test_target": ["B8 B8 A8", "C9 A9 B9 B9"]}, "every target of test is what its input means"),
        ({"train_target": ["A2 B2 A2 B2", "A8 A8 B8", "C9 A9 B9 B9"]}, "every target of train is what its input"),
        (
            {"train": ["repeat A2 B2", "reverse echo A8 B8", "echo remove_first A9 B9 , C9"],
             "train_target": ["A2 B2 A2 B2", "A8 B8 B8", "A9 B9 C9"]},
            "the inputs of train with an exceptional pair",
        ),
    ],
)  # fmt: skip
def test_overgeneralisation(tmp_path: Path, changed: dict[str, Lines], fact: str | None) -> None:
    contents = tiny("overgeneralisation", **changed)
    dataset, failed = prepared(made(tmp_path, "overgeneralisation_0.1", contents, sizes_of(contents)))
    assert [told[: len(fact)] for told in failed] == [fact] if fact else failed == []
    assert dataset["test"]["exception_target"][:] == contents["test_exception"]
    assert set(dataset["validation"]["exception_target"]) == {None}


def test_files_of_unequal_length(tmp_path: Path) -> None:
    contents = tiny("substitutivity", train_target=["A2 B2 A2 B2"])
    builder = made(tmp_path, "substitutivity_primitive", contents, sizes_of(contents))
    with pytest.raises(DataError, match=r"train\.src has 5, .*train\.tgt has 1"):
        builder.download_and_prepare()


def test_train_is_pinned_by_the_id_that_git_gives_it(tmp_path: Path) -> None:
    sources = PCFG_SET.configs["systematicity"].sources
    assert [role for role, source in sources.items() if source.sha256 is None] == ["train"]
    assert sources["train"].checksum == "77f60c1bb8b583cfef6144f1de04d3d62b6b57f4"
    path = tmp_path / "pcfg_set" / "systematicity" / "train.src"
    path.parent.mkdir(parents=True)
    path.write_text("copy A1 B1\n")
    with pytest.raises(DataError, match=r"77f60c1bb8b583cfef6144f1de04d3d62b6b57f4"):
        load_benchmark("pcfg_set", "systematicity", data_dir=tmp_path, cache_dir=tmp_path / "cache")
