"""Role schemes: SCAN's and their entropies, COGS', users' files, and the authors' role ids."""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections import Counter

import datasets
import pytest
from safetensors.torch import load_file

from hf_sysgen.data import DataError, load_benchmark
from hf_sysgen.data.cogs.files import parse
from hf_sysgen.data.cogs.roles import lexicon
from hf_sysgen.data.fetch import open_file
from hf_sysgen.data.scan.files import examples, rebuild
from hf_sysgen.data.scan.files import parse as parse_scan
from hf_sysgen.data.text.roles import RoleScheme, read_role_scheme, role_scheme, role_schemes

ADD_JUMP = "add_prim_split/tasks_{}_addprim_jump.txt"
SCAN_SCHEMES = [name for name in role_schemes() if name.startswith("scan_")]


@functools.cache
def scan_words() -> tuple[set[str], set[str]]:
    """All words of the sources and of the targets."""
    first, second = ({word for text in texts for word in text.split()} for texts in zip(*examples(), strict=True))
    return first, second


@functools.cache
def sources(part: str) -> list[str]:
    return [command for command, _ in parse_scan(rebuild(ADD_JUMP.format(part)))]


def small(texts=("jump left", "walk"), targets=("I_TURN_LEFT I_JUMP", "I_WALK")) -> datasets.Dataset:
    return datasets.Dataset.from_dict({"input": list(texts), "target": list(targets)})


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("scan_words", 3.5163),
        ("scan_pairs", 3.3305),
        # the paper, section 4.2.2
        ("scan_prim", 3.127),
        ("scan_prim_dir", 2.8859),
        ("scan_prim_dir_turn", 2.8859),
        ("scan_prim_num", 2.9424),
        ("scan_prim_dir_num", 2.7016),
        ("scan_prim_dir_num_manner", 2.5411),
        ("scan_prim_dir_num_manner_conj", 2.4031),
    ],
)
def test_entropies_of_add_jump(name, bits):
    digits = len(str(bits).partition(".")[2])
    assert round(role_scheme(name).entropy(sources("test")), digits) == bits


def test_only_the_test_set_has_the_paper_s_entropy():
    scheme = role_scheme("scan_prim")
    assert round(scheme.entropy(sources("train")), 4) == 3.1949
    assert round(scheme.entropy(sources("test")), 4) == 3.1267


def test_entropy_by_hand():
    scheme = role_scheme("scan_prim")
    # prim, prim, left, twice
    assert scheme.entropy(["jump left", "walk twice"]) == pytest.approx(1.5)
    assert scheme.entropy(["I_JUMP I_WALK", "I_TURN_LEFT"], "target") == pytest.approx(math.log2(3) - 2 / 3)


def test_the_main_scheme():
    scheme = role_scheme("scan_prim")
    assert (len(scheme.source_names), len(scheme.target_names)) == (10, 3)
    named = {word: scheme.source_names[role] for word, role in scheme.source_roles.items()}
    assert {word for word, role in named.items() if role == "prim"} == {"jump", "walk", "run", "look"}
    assert all(word == role for word, role in named.items() if role != "prim")
    assert set(scheme.target_names) == {"PRIM", "I_TURN_LEFT", "I_TURN_RIGHT"}


@pytest.mark.parametrize("name", SCAN_SCHEMES)
def test_every_word_of_scan_has_a_role_in_every_scheme(name):
    scheme = role_scheme(name)
    assert scheme.name == name
    for side, words in zip(("source", "target"), scan_words(), strict=True):
        roles = scheme.source_roles if side == "source" else scheme.target_roles
        assert set(roles) == words
        names = scheme.source_names if side == "source" else scheme.target_names
        assert set(roles.values()) == set(range(len(names)))


def test_each_level_merges_the_one_before():
    chain = [
        "scan_words", "scan_pairs", "scan_prim", "scan_prim_dir", "scan_prim_dir_num", "scan_prim_dir_num_manner",
        "scan_prim_dir_num_manner_conj",
    ]  # fmt: skip
    for finer, coarser in itertools.pairwise(map(role_scheme, chain)):
        pairs = {(finer.source_roles[word], coarser.source_roles[word]) for word in finer.source_roles}
        assert len(pairs) == len(finer.source_names) > len(coarser.source_names)


def test_the_authors_role_ids(golden_dir):
    """Their roles are words of the vocabularies, which have one id for all primitives, and symbols keep their ids."""
    described = json.loads((golden_dir / "role_filler" / "a_roles_thresh_roleloss.json").read_text())
    tensors = load_file(golden_dir / "role_filler" / "a_roles_thresh_roleloss.safetensors")
    scheme = role_scheme("scan_prim")
    for side, key, names in (("source", "src", scheme.source_names), ("target", "trg", scheme.target_names)):
        vocabulary = described[f"{key}_vocab"]
        for sentence, row in zip(described["sentences"], tensors[f"in.{key}_ann"].tolist(), strict=True):
            # they lower-case everything
            text = sentence[key].upper() if side == "target" else sentence[key]
            ours = [names[role].lower() for role in scheme.roles(text, side)]
            theirs = [vocabulary[token] for token in row]
            assert theirs[0] == "<sos>"
            assert theirs[1 : theirs.index("<eos>")] == ours
            assert set(theirs[theirs.index("<eos>") + 1 :]) <= {"<pad>"}
    theirs = tensors["in.role_map"].tolist()
    words = described["trg_vocab"][3:]
    for role, word in zip(theirs[3:], words, strict=False):
        name = "prim" if word == "prim" else scheme.target_names[scheme.target_roles[word.upper()]].lower()
        assert described["trg_vocab"][role] == name
    assert theirs[:3] == [0, 1, 2]


def test_annotate():
    scheme = role_scheme("scan_prim")
    annotated = scheme.annotate(small())
    assert annotated.column_names == ["input", "target", "input_roles", "target_roles"]
    assert annotated.features["input_roles"] == datasets.List(datasets.Value("int32"))
    left, prim = scheme.source_names.index("left"), scheme.source_names.index("prim")
    assert annotated["input_roles"][:] == [[prim, left], [prim]]
    turn, target_prim = scheme.target_names.index("I_TURN_LEFT"), scheme.target_names.index("PRIM")
    assert annotated["target_roles"][:] == [[turn, target_prim], [target_prim]]


def test_annotate_nothing():
    """A split of which nothing is left has the columns of the others."""
    some = datasets.Dataset.from_dict({"input": ["jump twice"], "target": ["I_JUMP I_JUMP"]})
    scheme = role_scheme("scan_prim")
    assert scheme.annotate(some.select([])).features == scheme.annotate(some).features


def test_annotate_again_and_part_by_part():
    first, second = role_scheme("scan_words"), role_scheme("scan_prim")
    # rows taken out and put in another order, as a dataset keeps them: by index
    parts = datasets.DatasetDict(train=small().select([1, 0]), test=small())
    annotated = second.annotate(first.annotate(parts))
    assert set(annotated) == {"train", "test"}
    for name, part in annotated.items():
        assert part.column_names == ["input", "target", "input_roles", "target_roles"]
        assert part["input_roles"][:] == [second.roles(text) for text in parts[name]["input"]]


def test_a_word_without_a_role():
    parts = datasets.DatasetDict(test=small(("walk", "jump leftt")))
    with pytest.raises(DataError, match=r"test, example 1: .*'leftt'.*'jump leftt'"):
        role_scheme("scan_prim").annotate(parts)
    with pytest.raises(DataError, match=r"example 1: .*'walk' of 'walk'"):
        role_scheme("scan_prim").annotate(small(targets=("I_WALK", "walk")))
    with pytest.raises(DataError, match="'' of 'jump  left'"):
        role_scheme("scan_prim").roles("jump  left")
    assert role_scheme("scan_prim").roles("") == []


def test_role_map():
    scheme = role_scheme("scan_prim")
    vocabulary = ["I_JUMP", "I_TURN_LEFT", "</s>", "I_WALK"]
    roles = scheme.role_map(vocabulary, symbols=("</s>",))
    assert roles[0] == roles[3] != roles[1]
    assert roles[2] == len(scheme.target_names)
    with pytest.raises(DataError, match="'</s>'"):
        scheme.role_map(vocabulary)


def test_schemes_that_contradict_themselves():
    with pytest.raises(ValueError, match=r"role 1 .*'b'"):
        RoleScheme({"a": 0, "b": 1}, {}, ["one"], [])
    with pytest.raises(ValueError, match=r"target .*'one'"):
        RoleScheme({}, {"a": 0}, [], ["one", "one"])


SCHEME = "source: {jump: prim, walk: prim, left: left}\ntarget: {I_JUMP: PRIM, I_WALK: PRIM, I_TURN_LEFT: turn}\n"


def write(folder, text, name="mine.yaml"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_scheme_from_a_file(tmp_path):
    scheme = role_scheme(write(tmp_path, SCHEME))
    assert (scheme.name, scheme.source_names, scheme.target_names) == ("mine", ("prim", "left"), ("PRIM", "turn"))
    assert scheme.annotate(small())["input_roles"][:] == [[0, 1], [0]]
    both = {"source": {"jump": "prim", "walk": "prim", "left": "left"},
            "target": {"I_JUMP": "PRIM", "I_WALK": "PRIM", "I_TURN_LEFT": "turn"}}  # fmt: skip
    assert role_scheme(str(write(tmp_path, json.dumps(both, indent="\t"), "mine.json"))) == scheme


def test_words_of_a_file_are_text(tmp_path):
    """YAML would turn these into a boolean, a number and null."""
    scheme = role_scheme(write(tmp_path, "source: {no: 1, 07: null, on: yes}\ntarget: {x: x}\n"))
    assert scheme.source_roles == {"no": 0, "07": 1, "on": 2}
    assert scheme.source_names == ("1", "null", "yes")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("source: {a: b}\n", "the file"),
        ("source: {a: b}\ntarget: {a: b}\nroles: {}\n", "roles"),
        ("source: {a: b}\ntarget:\n  a: b\n  c:\n", "target.c"),
        ("source: {a: b}\ntarget:\n  a: b\n  a: c\n", "line 4: found duplicate key"),
        ("source: {a: [b]}\ntarget: {a: b}\n", "source.a"),
        ("source: [a]\ntarget: {a: b}\n", "source"),
        ("- a\n", "the file"),
        ("", "the file"),
        ("source: {a: b\n", "line 2"),
        ("source: {a b: c}\ntarget: {}\n", "source.a b"),
        ("source: {[a]: b}\ntarget: {}\n", "source"),
        ("source: {{a: b}: c}\ntarget: {}\n", "line 1"),
        ("source: &all {a: *all}\ntarget: {}\n", "source.a"),
        ("source: {a: \x01}\ntarget: {}\n", "#x0001"),
    ],
)
def test_files_that_are_no_schemes(text, place, tmp_path):
    path = write(tmp_path, text)
    with pytest.raises(DataError) as caught:
        role_scheme(path)
    assert place in str(caught.value).removeprefix(f"{path}: ")
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_letters_of_json(tmp_path):
    text = json.dumps({"source": {"\U0001f600": "a b", "x": 1}, "target": {}})
    assert "\\ud83d\\ude00" in text
    scheme = role_scheme(write(tmp_path, text, "mine.json"))
    assert scheme.named_roles("source") == {"\U0001f600": "a b", "x": "1"}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"source": {"a": null}, "target": {}}', "source.a"),
        ('{"source": {"a": true}, "target": {}}', "source.a"),
        ('{"source": {"a": "b", "a": "c"}, "target": {}}', "'a' is repeated"),
        ('{"source": {"a b": "c"}, "target": {}}', "source.a b"),
        ('{"source": {"": "c"}, "target": {}}', "source."),
        ('{"source": ["a"], "target": {}}', "source"),
        ("[]", "the file"),
        ('{"source": {},\n "target": {a: b}}', "line 2"),
        ("", "line 1"),
        ("[" * 100_000, "RecursionError"),
    ],
)
def test_json_that_is_no_scheme(text, place, tmp_path):
    path = write(tmp_path, text, "mine.json")
    with pytest.raises(DataError) as caught:
        role_scheme(path)
    assert place in str(caught.value).removeprefix(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_no_such_scheme(tmp_path):
    with pytest.raises(DataError, match=r"'scan_prime'.* cogs_category"):
        role_scheme("scan_prime")
    with pytest.raises(DataError, match="absent"):
        role_scheme(tmp_path / "absent.yaml")


COGS = [
    ("A rose was helped by Emma .",
     "rose ( x _ 1 ) AND help . theme ( x _ 3 , x _ 1 ) AND help . agent ( x _ 3 , Emma )"),
    ("The cake in a box rolled .",
     "* cake ( x _ 1 ) ; cake . nmod . in ( x _ 1 , x _ 4 ) AND box ( x _ 4 ) AND roll . theme ( x _ 5 , x _ 1 )"),
    ("shark", "LAMBDA a . shark ( a )"),
    ("crawl", "LAMBDA a . LAMBDA e . crawl . agent ( e , a )"),
    ("Paula", "Paula"),
]  # fmt: skip


def cogs_parts() -> dict[str, datasets.Dataset]:
    texts, targets = zip(*COGS, strict=True)
    return {"train": small(texts, targets)}


def test_roles_of_cogs_by_hand():
    scheme = role_scheme("cogs_category", cogs_parts())

    def named(text, side):
        names = scheme.source_names if side == "source" else scheme.target_names
        return " ".join(names[role] for role in scheme.roles(text, side))

    assert named("A shark was helped by Paula .", "source") == "a noun was verb by name ."
    assert named("The shark in a cake rolled .", "source") == "the noun in a noun verb ."
    target = "* shark ( x _ 17 ) ; roll . theme ( x _ 5 , Paula )"
    assert named(target, "target") == "* noun ( x _ number ) ; verb . theme ( x _ number , name )"
    assert named("LAMBDA a . LAMBDA e . crawl . agent ( e , a )", "target") == (
        "LAMBDA a . LAMBDA e . verb . agent ( e , a )"
    )
    scheme = role_scheme("cogs_pos", cogs_parts())
    assert named("The shark in a cake rolled .", "source") == "determiner noun preposition determiner noun verb ."
    assert named("cake . nmod . in ( x _ 1 , x _ 4 )", "target") == (
        "noun . nmod . preposition ( x _ number , x _ number )"
    )
    assert named("LAMBDA a . crawl . agent ( e , a )", "target") == "LAMBDA bound . verb . thematic ( bound , bound )"


def test_schemes_of_cogs_need_its_splits():
    with pytest.raises(DataError, match="cogs_pos"):
        role_scheme("cogs_pos")
    with pytest.raises(DataError, match="COGS"):
        role_scheme("cogs_pos", {"train": small()})


def test_a_word_of_two_classes():
    with pytest.raises(DataError, match="'rose' is a noun and a verb"):
        lexicon([*COGS, ("rose", "LAMBDA a . LAMBDA e . rose . agent ( e , a )")])


def test_roles_of_the_whole_of_cogs(data_dir):
    parts = {}
    for split, name in (("train", "train"), ("test", "gen")):
        with open_file(data_dir / "cogs" / f"{name}.tsv") as stream:
            parts[split] = parse(stream.read())
    found = lexicon((example.sentence, example.target) for rows in parts.values() for example in rows)
    # monastery and gardner are in gen alone; a verb has several forms in sentences, one in logical forms
    counts = {side: Counter(role for role in words.values() if role in ("noun", "name", "verb", "number"))
              for side, words in found.items()}  # fmt: skip
    assert counts["source"] == {"noun": 408, "name": 103, "verb": 222}
    assert counts["target"] == {"noun": 408, "name": 103, "verb": 134, "number": 200}
    closed = {word for word, role in found["source"].items() if role not in ("noun", "name", "verb")}
    assert closed == {".", "A", "The", "a", "beside", "by", "in", "on", "that", "the", "to", "was"}
    assert {word for word in found["target"] if word.isdigit()} == {str(number) for number in range(200)}


def test_annotating_a_loaded_benchmark():
    benchmark = load_benchmark("scan", "addprim_jump")
    annotated = role_scheme("scan_prim").annotate(benchmark)
    assert {name: len(part) for name, part in annotated.items()} == {"train": 14_670, "test": 7_706}
    for text, roles in zip(annotated["test"]["input"][:50], annotated["test"]["input_roles"][:50], strict=True):
        assert len(roles) == text.count(" ") + 1


@pytest.mark.parametrize("suffix", ["yaml", "json"])
def test_files_that_would_take_long_are_refused(suffix, tmp_path):
    path = tmp_path / f"roles.{suffix}"
    path.write_text("{" + ", ".join(f'"word{number}": "x"' for number in range(30_000)) + "}")
    with pytest.raises(DataError, match=suffix):
        read_role_scheme(path)
