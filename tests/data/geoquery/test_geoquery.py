"""GeoQuery on the real files: every line of the conversion, every split by its definition."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from upstream_files import Files

from hf_sysgen.data import DataError, benchmark_info, load_benchmark
from hf_sysgen.data.geoquery.builder import Geoquery, split_ids
from hf_sysgen.data.geoquery.entities import anonymize, convert, places
from hf_sysgen.data.geoquery.funql import (
    CLASSES,
    COMPARISONS,
    ENTITIES,
    FILTERS,
    RELATIONS,
    SETS,
    Term,
    atoms,
    compounds,
    divergence,
    normalize,
    parse,
    replace,
    subterms,
    write,
)

GEOQUERY = benchmark_info("geoquery")

GEOBASE = """/* state(name, abbreviation, ...) */
state('new york','ny','albany',17.558e+6,49.1e+3,11,'new york','buffalo','rochester','yonkers').
state('ohio','oh','columbus',10.8e+6,41.3e+3,17,'cleveland','columbus','cincinnati','toledo').
city('ohio','oh','akron',237177).
river('ohio',1569,['pennsylvania','ohio']).
mountain('alaska','ak','mckinley',6194).
highlow('ohio','oh','campbell hill',472,'ohio river',132).
"""


@pytest.fixture(scope="session")
def examples(sample: Files) -> list[Any]:
    return convert(
        sample.read("geoquery/geography-multilingual.xml"), sample.read("geoquery/geobase").decode("latin-1")
    )


@pytest.fixture(scope="session")
def load(tmp_path_factory: pytest.TempPathFactory, sample: Files) -> Callable[[str], Any]:
    cache_dir = tmp_path_factory.mktemp("geoquery")
    return lambda config: load_benchmark("geoquery", config, data_dir=sample.folder, cache_dir=cache_dir)


def tsv(sample: Files, name: str) -> list[list[str]]:
    return [line.split("\t") for line in sample.lines(f"geoquery/nqg/{name}.tsv")]


def test_conversion_is_upstreams(examples: list[Any], sample: Files) -> None:
    assert len(examples) == 892
    upstream = tsv(sample, "dataset")
    assert [[example["input"], example["target"]] for example in examples[:880]] == upstream


@pytest.mark.parametrize(
    ("config", "folder"),
    [("standard", "standard"), ("template", "template_1"), ("tmcd", "tmcd_1"), ("length", "length_1")],
)
def test_splits_are_upstreams(load: Callable[[str], Any], sample: Files, config: str, folder: str) -> None:
    for split, part in load(config).items():
        rows = [list(pair) for pair in zip(part["input"], part["target"], strict=True)]
        assert rows == tsv(sample, f"{folder}/{split}")


@pytest.mark.parametrize("config", GEOQUERY.configs)
def test_definition(load: Callable[[str], Any], tmp_path: Path, config: str) -> None:
    dataset = load(config)
    checks = list(Geoquery(config_name=config, cache_dir=tmp_path).checks(dataset))
    assert [check for check in checks if not check.holds] == []
    kind = config.removeprefix("csl_").partition("_")[0]
    assert len(checks) == len(dataset) + 1 + {"standard": 0, "template": 1, "length": 2, "tmcd": 2}[kind]


@pytest.mark.parametrize("config", ["standard", "tmcd", "length"])
def test_repeated_questions(load: Callable[[str], Any], config: str) -> None:
    # what the errata say
    parts = load(config)
    known = set(parts["train"]["input"])
    repeated = sum(question in known for question in parts["test"]["input"])
    assert f"{repeated} of {len(parts['test'])} test questions" in GEOQUERY.configs[config].errata[0]


def test_random_split_is_the_least_divergent(load: Callable[[str], Any]) -> None:
    def of(config: str) -> float:
        return divergence(load(config)["train"]["target"], load(config)["test"]["target"])

    assert of("standard") < of("template") < of("length") < of("tmcd")


def test_entities_restore_the_query(examples: list[Any], sample: Files) -> None:
    corpus = sample.read("geoquery/geography-multilingual.xml").decode()
    queries = re.findall(r"<mrl lang='geo-funql'>\s*(.*?)\s*</mrl>", corpus)
    # the twelve of the extension are written otherwise
    assert len(queries) == 880
    for query, example in zip(queries, examples[:880], strict=True):
        tree = parse(example["target"])
        for number, identifier in enumerate(example["entities"]):
            assert f"m{number}" in example["input"].split()
            tree = replace(tree, Term(f"m{number}"), parse(identifier))
        assert tree == normalize(parse(query))


def test_all_names_are_declared(examples: list[Any]) -> None:
    # of the second list of names that upstream publishes, for its grammar of the targets
    known = RELATIONS | CLASSES | ENTITIES | FILTERS | SETS | COMPARISONS.keys() | {"answer", "0", "m0", "m1"}
    assert atoms(example["target"] for example in examples[:880]) <= known


@pytest.mark.parametrize(
    ("query", "normal"),
    [
        ("answer(city(loc_2(stateid('virginia'))))", "answer(intersection(city,loc_2(stateid(virginia))))"),
        ("answer(largest(state(all)))", "answer(largest(state))"),
        ("answer(largest_one(area_1(state(all))))", "answer(largest_one(area_1,state))"),
        ("answer(most(state(loc_1(place(all)))))", "answer(most(state,loc_1,place))"),
        ("answer(exclude(state(all), next_to_2(state(all))))", "answer(exclude(state,next_to_2(state)))"),
        ("answer(place(higher_2(0)))", "answer(intersection(place,higher_2(0)))"),
        ("answer( population_1 ( cityid ( 'new york' , _ ) ) )", "answer(population_1(cityid(new york,_)))"),
    ],
)
def test_normalize(query: str, normal: str) -> None:
    assert str(normalize(parse(query))) == normal
    assert write(normalize(parse(query))).replace(" ", "") == normal.replace(" ", "")


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("answer(city(all)", "answer"),
        ("answer(city(all)))", "answer"),
        ("answer()", "answer"),
        ("", "''"),
        ("answer(town(all))", "town"),
        ("answer(city(all),state(all))", "answer"),
        ("answer(most(state))", "most"),
        ("answer(intersection(city(all)))", "intersection"),
        ("answer(city)", "city"),
    ],
)
def test_damaged_query(query: str, named: str) -> None:
    with pytest.raises(ValueError, match=named) as caught:
        normalize(parse(query))
    assert "\n" not in str(caught.value)


names = st.sampled_from(sorted(RELATIONS | CLASSES | {"m0", "x y", "_"}))
trees = st.recursive(
    names.map(Term), lambda inner: st.builds(Term, names, st.lists(inner, min_size=1, max_size=3).map(tuple))
)


@given(trees)
def test_written_is_read_back(tree: Term) -> None:
    quoted = re.sub(r"x y", "'x y'", str(tree))
    assert parse(quoted) == tree
    assert write(parse(quoted)).replace(" ", "") == str(tree).replace(" ", "")
    assert sum(compounds([quoted]).values()) == sum(1 for _ in subterms(tree)) - 1


def test_geobase() -> None:
    known = places(GEOBASE)
    assert known["stateid(new york)"] == ("stateid('new york')", ("new york",), 0)
    assert known["cityid(new york,_)"].names == ("new york",)
    assert known["cityid(akron,oh)"] == ("cityid('akron','oh')", ("akron ohio", "akron oh"), 21)
    assert known["placeid(mckinley)"].names == ("mckinley",)
    assert known["placeid(ohio river)"].names == ("ohio river",)
    assert known["riverid(ohio)"].names == ("ohio",)
    # 2 states, 10 cities and springfield twice each, 1 river, 3 places, the country
    assert len(known) == 2 + 2 * 11 + 1 + 3 + 1


def test_anonymize() -> None:
    known = places(GEOBASE)
    query = parse("answer(exclude(loc_2(stateid(ohio)),loc_2(stateid(new york))))")
    words, tree, replaced = anonymize("what is in ohio but not in new york", query, known)
    # the longer identifier is m0
    assert words == "what is in m1 but not in m0"
    assert str(tree) == "answer(exclude(loc_2(m1),loc_2(m0)))"
    assert replaced == ["stateid('new york')", "stateid('ohio')"]
    # not named in the question, and not part of another word
    assert anonymize("what is in ohios", query, known) == ("what is in ohios", query, [])


def test_divergence_by_hand() -> None:
    assert divergence(["f(a)"], ["f(a)"]) == pytest.approx(0, abs=1e-12)
    assert divergence(["f(a)"], ["f(b)"]) == 1
    assert divergence(["f(a)", "f(b)"], ["f(a)"]) == pytest.approx(1 - 0.5**0.1, abs=1e-12)


@pytest.mark.parametrize(
    "content",
    [b"{", b"[0, 1, 2]", b'{"train": 1}', b'{"train": [0, "1"]}', b'{"train": [0, 1], "test": [1]}',
     b'{"train": [0, 1], "test": [3]}'],
)  # fmt: skip
def test_damaged_split(content: bytes) -> None:
    with pytest.raises(DataError, match=r"^here: "):
        split_ids(content, "here", 3)
    assert split_ids(json.dumps({"train": [2, 0], "test": [1]}).encode(), "here", 3) == {"train": [2, 0], "test": [1]}


@pytest.mark.parametrize(
    ("corpus", "message"),
    [
        (b"<examples>", "XML"),
        (b"<examples><example id='4'/></examples>", "example 4 .*nl"),
        (b"<examples><example id='4'><nl lang='en'>Why ?</nl></example></examples>", "mrl"),
    ],
)
def test_damaged_corpus(corpus: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        convert(corpus, GEOBASE)
