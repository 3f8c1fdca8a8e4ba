"""Noun-adjective ordering: the rule by hand, on a session of Europarl with a parser's output, and the whole builder."""

from __future__ import annotations

import io
import re
import sys
import tarfile
import types
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import pytest
from europarl_session import opus_pairs
from upstream_files import Files

from hf_sysgen.data import DataError, benchmark_info, load_benchmark
from hf_sysgen.data.conllu import Word, read_conllu
from hf_sysgen.data.noun_adjective import parses
from hf_sysgen.data.noun_adjective.builder import PARSES, NounAdjective, assign
from hf_sysgen.data.noun_adjective.parses import (
    ConlluParser,
    SpacyParser,
    europarl_pairs,
    main,
    sentences_to_parse,
    write_conllu,
)
from hf_sysgen.data.noun_adjective.rule import FORMS, HELD_OUT, TRAIN_PAIRS, Use, nouns, pairs_of, split_of, uses

NOUN_ADJECTIVE = benchmark_info("noun_adjective")
ARCHIVE = NOUN_ADJECTIVE.config("modified").sources["archive"]

FRAGMENT = Path(__file__).with_name("europarl_fragment.conllu")
ADJECTIVES = {adjective for adjective, _ in TRAIN_PAIRS}


def parse(sentence: str) -> list[Word]:
    """The parse of a list of noun phrases: adjectives modify the next noun, after "and" the last one."""
    words = sentence.split()
    parsed = []
    for at, form in enumerate(words):
        noun = next((i for i in range(at + 1, len(words)) if words[i].lower() in FORMS or words[i] == "thing"), None)
        if form.lower() in ADJECTIVES and noun is not None and words[noun - 1 : noun]:
            coordinated = at >= 2 and words[at - 1] == "and"
            parsed.append(
                Word(form, form.lower(), at - 1 if coordinated else noun + 1, "conj" if coordinated else "amod")
            )
        else:
            parsed.append(Word(form, "_", 0, "root"))
    return parsed


def test_held_out_pairs() -> None:
    assert len(HELD_OUT) == len(set(HELD_OUT)) == 32
    assert len(TRAIN_PAIRS) == 8
    assert not set(HELD_OUT) & set(TRAIN_PAIRS)
    # Table 2 of the paper, and its example
    assert ("specific", "response") in TRAIN_PAIRS
    assert ("new", "response") in HELD_OUT
    assert {("permanent", "population"), ("first", "institution"), ("big", "organisation")} < set(HELD_OUT)
    # in the same order of French as the pair of train: neither
    assert not {("effective", "response"), ("good", "source")} & set(HELD_OUT + TRAIN_PAIRS)
    assert Counter(adjective for adjective, _ in HELD_OUT) == dict.fromkeys(ADJECTIVES, 4)


def test_nouns() -> None:
    assert nouns("Organizations, an organisation and our Responsibilities") == ["organisation"] * 2 + ["responsibility"]
    assert nouns("open-source solutions' decision-making") == ["source", "solution", "decision"]
    assert nouns("responsible, resourceful, populated, institutional, undecision") == []
    assert len(FORMS) == 18


@pytest.mark.parametrize(
    ("sentence", "found", "strict", "with_bare"),
    [
        ("a thing", [], "train", "train"),
        ("a specific response", ["specific response"], "train", "train"),
        ("specific Responses to new sources", ["new source", "specific response"], "train", "train"),
        ("a new response", ["new response"], "test", "test"),
        ("a big and good solution", ["big solution", "good solution"], "test", "test"),
        # both columns on one noun, or one noun as in train and one as in test
        ("a specific and new response", ["new response", "specific response"], None, None),
        ("a specific response or a new institution", ["new institution", "specific response"], None, None),
        # an adjective of the same column as the one in train
        ("an effective response", ["effective response"], None, None),
        ("a response", [], None, "train"),
        ("a response and a specific response", ["specific response"], None, "train"),
        ("a response and a permanent source", ["permanent source"], None, "test"),
    ],
)
def test_rule(sentence: str, found: list[str], strict: str | None, with_bare: str | None) -> None:
    sentence_uses = uses(sentence, parse(sentence))
    assert pairs_of(sentence_uses) == found
    assert split_of(sentence_uses, bare=False) == strict
    assert split_of(sentence_uses, bare=True) == with_bare


def test_uses_of_lemmas_and_tokens() -> None:
    words = [Word("Newer", "new", 2, "amod"), Word("sources", "source", 0, "root"), Word("FIRST", "_", 2, "amod")]
    assert uses("Newer sources FIRST", words) == [Use("source", frozenset({"new", "first"}))]
    # a noun inside of a token has no adjective, nor one that only some other relation joins to it
    words = [Word("open-source", "open-source", 2, "amod"), Word("solution", "solution", 0, "root")]
    assert uses("open-source solution", words) == [
        Use("solution", frozenset({"open-source"})),
        Use("source", frozenset()),
    ]
    words = [Word("responses", "response", 2, "nsubj"), Word("new", "new", 0, "root")]
    assert uses("responses new", words) == [Use("response", frozenset())]


@pytest.fixture(scope="module")
def session(sample: Files) -> list[tuple[str, str]]:
    return opus_pairs(sample.path("mt/europarl/en-fr.dummy_data.zip"))


@pytest.mark.parametrize(("bare", "kept"), [(False, 710), (True, 742)])
def test_session_with_a_parser(session: list[tuple[str, str]], bare: bool, kept: int) -> None:
    assert len(session) == 752
    parses = ConlluParser(FRAGMENT).parse(sentences_to_parse(session))
    splits, pairs = assign((source for source, _ in session), parses, bare)
    assert len(pairs) == 11
    assert Counter(splits) == {
        "train": kept - round(kept * 0.0996),
        "validation": round(kept * 0.0996),
        None: 752 - kept,
    }
    phrases = re.compile(rf"\b({'|'.join(ADJECTIVES)}) ({'|'.join(FORMS)})\b", re.IGNORECASE)
    adjacent = {row: found for row, (source, _) in enumerate(session) if (found := phrases.findall(source))}
    # where one of the eight adjectives stands right before one of the nouns, the parser agrees
    assert [pairs[row] for row in adjacent] == [["effective response"], ["new source"]]
    assert [splits[row] is None for row in adjacent] == [True, False]


def test_validation_is_drawn_anew_by_seed() -> None:
    sentences = ["nothing"] * 200
    drawn = [assign(sentences, iter(()), bare=False, seed=seed)[0] for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert Counter(drawn[0]) == {"train": 180, "validation": 20}


def test_parses_of_other_sentences(tmp_path: Path) -> None:
    path = tmp_path / "parses.conllu"

    def parsed(*texts: str) -> Iterator[list[Word]]:
        with open(path, "w", encoding="utf-8") as file:
            write_conllu(([Word(form, "_", 0, "root") for form in text.split()] for text in texts), file)
        return ConlluParser(path).parse(["(A response)", "a “source”."])

    # what parsers do to brackets, quotes and blanks is no difference
    assert [len(words) for words in parsed("-LRB- A resp onse -RRB-", "a `` source '' .")] == [5, 5]
    with pytest.raises(DataError, match=r"sentence 2, 'a “source”\.';"):
        list(parsed("A response"))
    with pytest.raises(DataError, match=r"parse 1 .*'A', .*'.A response.'"):
        list(parsed("A", "response", "a source"))
    with pytest.raises(DataError, match="2 sentences"):
        list(parsed("A response", "a source", "b"))


def read(lines: Iterable[str], where: str) -> Iterator[list[Word]]:
    return read_conllu((line.encode() for line in lines), where)


def test_read_conllu() -> None:
    row = "{}\tdu\tde\tADP\tIN\t_\t{}\tcase\t_\t_\n"
    text = ["# sent_id = 1\n", row.format("1-2", "_"), row.format(1, 2), row.format(2, 0), "\n", "\n", row.format(1, 0)]
    assert [[word.head for word in words] for words in read(text, "x")] == [[2, 0], [0]]
    for wrong in ("1\tdu\n", row.format(1, "_"), "some text\n"):
        with pytest.raises(DataError, match="x: line 2 "):
            list(read(["# a comment\n", wrong], "x"))


def test_fragment_is_round() -> None:
    with open(FRAGMENT, encoding="utf-8") as file:
        text = file.read()
    written = io.StringIO()
    write_conllu(read(text.splitlines(keepends=True), "x"), written)
    assert written.getvalue() == text.partition("\n")[2]


ENGLISH = ["A specific response.", "A new response!", "", "Big things,  first things", "Une source", "good, effective"]
ENGLISH += ["A new source is permanent", "A particular problem - \u2019s all"] + ["Nothing here"] * 12


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A mirror with an archive like Europarl's, and parses of its sentences."""
    path = tmp_path / ARCHIVE.mirror
    path.parent.mkdir(parents=True)
    french = [f"Phrase n\u2019est-ce {number}" for number in range(len(ENGLISH))]
    with tarfile.open(path, "w:gz") as tar:
        for language, lines in (("fr", french), ("en", ENGLISH)):
            data = "".join(f"{line}\n" for line in lines).encode()
            info = tarfile.TarInfo(f"europarl-v7.fr-en.{language}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    for config in list(NOUN_ADJECTIVE.configs.values()):
        small = replace(config, sources={"archive": replace(ARCHIVE, sha256=None)})
        monkeypatch.setitem(NOUN_ADJECTIVE.configs, config.name, small)  # type: ignore[arg-type]
    return tmp_path


def put_parses(folder: Path) -> None:
    main(["sentences", str(folder / ARCHIVE.mirror), str(folder / "sentences.en")])
    sentences = (folder / "sentences.en").read_text(encoding="utf-8").splitlines()
    assert sentences == [ENGLISH[row] for row in (0, 1, 4, 6)]
    with open(folder / PARSES.mirror, "w", encoding="utf-8") as file:
        write_conllu((parse(re.sub(r"([.!])", r" \1", sentence)) for sentence in sentences), file)


def test_builder(folder: Path, tmp_path: Path) -> None:
    put_parses(folder)
    loaded = {
        config: load_benchmark("noun_adjective", config, data_dir=folder, cache_dir=tmp_path / "cache")
        for config in NOUN_ADJECTIVE.configs
    }
    # of 19 pairs with two sides, one is test and one has a noun without an adjective
    sizes = {config: {split: len(part) for split, part in dataset.items()} for config, dataset in loaded.items()}
    assert sizes == {
        "modified": {"train": 15, "validation": 2, "test": 1},
        "modified_or_bare": {"train": 16, "validation": 2, "test": 1},
    }
    expected = {"input": "A new response !", "target": "Phrase n&apos; est @-@ ce 1", "pairs": ["new response"]}
    assert loaded["modified"]["test"][0] == expected
    builder = NounAdjective(config_name="modified", data_dir=folder, cache_dir=tmp_path / "cache")
    learned = datasets.concatenate_datasets([loaded["modified"]["train"], loaded["modified"]["validation"]])
    whole = datasets.DatasetDict({**loaded["modified"], "train": learned})
    checks = list(builder.checks(whole))
    assert len(checks) == 3 * 2 + 2
    assert [
        check for check in checks if check.fact.startswith(("train", "validation", "test", "every")) and not check.holds
    ] == []
    # the small corpus has new, permanent and specific with one of the nouns only
    assert checks[-1].found == "3 exceptions, the first: new"
    # the checks can fail
    swapped = datasets.DatasetDict({**loaded["modified"], "train": loaded["modified"]["test"], "test": learned})
    assert len([check for check in builder.checks(swapped) if not check.holds]) >= 4


def test_other_parses_are_other_data(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"mt/europarl/fr-en\.conllu"):
        load_benchmark("noun_adjective", "modified", data_dir=folder, cache_dir=tmp_path)
    with pytest.raises(DataError, match="noun_adjective"):
        load_benchmark("noun_adjective", "modified", cache_dir=tmp_path)
    put_parses(folder)
    path = folder / PARSES.mirror
    first = NounAdjective(config_name="modified", data_dir=folder, cache_dir=tmp_path)
    path.write_text(path.read_text(encoding="utf-8").replace("amod", "compound"), encoding="utf-8")
    second = NounAdjective(config_name="modified", data_dir=folder, cache_dir=tmp_path)
    assert first.cache_dir != second.cache_dir
    with pytest.raises(DataError, match=r"fr-en\.conllu: .* test"):
        load_benchmark("noun_adjective", "modified", data_dir=folder, cache_dir=tmp_path)
    path.write_text("", encoding="utf-8")
    with pytest.raises(DataError, match=r"sentence 1, 'A specific response\.'"):
        load_benchmark("noun_adjective", "modified", data_dir=folder, cache_dir=tmp_path)


@pytest.mark.parametrize(("english", "french", "message"), [("a\n", "b\nc\n", "fr .*en"), ("a\nb\n", "c\n", "en .*fr")])
def test_uneven_archive(tmp_path: Path, english: str, french: str, message: str) -> None:
    path = tmp_path / "fr-en.tgz"
    with tarfile.open(path, "w:gz") as tar:
        for language, text in (("en", english), ("fr", french)):
            info = tarfile.TarInfo(f"europarl-v7.fr-en.{language}")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    with pytest.raises(DataError, match=message):
        list(europarl_pairs(path))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sentences", "absent.tgz", "new"], "absent.tgz: member europarl-v7.fr-en.en: "),
        (["spacy", "good", "absent.en", "new"], "absent.en: "),
        (["spacy", "bad", "sentences.en", "new"], "spaCy model bad: "),
        (["spacy", "good", "sentences.en", "no/new"], "no/new: "),
    ],
)
def test_a_command_that_cannot_be_done(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """One line, status 2, and no file that could be taken for a result."""
    spacy = types.SimpleNamespace(load=lambda model: Pipeline("tagger", *(["parser"] if model == "good" else [])))
    monkeypatch.setitem(sys.modules, "spacy", spacy)
    monkeypatch.chdir(tmp_path)
    Path("sentences.en").write_text("A source\n", encoding="utf-8")
    assert main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {message}")
    assert [path.name for path in tmp_path.iterdir()] == ["sentences.en"]


class Token(types.SimpleNamespace):
    """The part of spaCy's tokens that we use."""


class Pipeline:
    def __init__(self, *names: str) -> None:
        self.pipe_names = names

    def pipe(self, sentences: Any) -> Iterator[list[Token]]:
        for sentence in sentences:
            tokens = [
                Token(text=form, lemma_=form.lower(), dep_="amod", i=at) for at, form in enumerate(sentence.split(" "))
            ]
            for token in tokens:
                token.head = tokens[-1]
            yield tokens


def test_spacy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(model: str) -> Pipeline:
        if model == "absent":
            raise OSError("no\nmodel")
        return Pipeline("tagger", *(["parser"] if model == "good" else []))

    monkeypatch.setitem(sys.modules, "spacy", types.SimpleNamespace(load=load))
    (tmp_path / "in").write_text("New  response\na source\n", encoding="utf-8")
    main(["spacy", "good", str(tmp_path / "in"), str(tmp_path / "out")])
    first, second = read((tmp_path / "out").read_text(encoding="utf-8").splitlines(), "out")
    assert first == [Word("New", "new", 3, "amod"), Word("_", "_", 3, "amod"), Word("response", "response", 0, "amod")]
    assert [word.form for word in second] == ["a", "source"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]
    with pytest.raises(DataError, match="spaCy model absent: "):
        SpacyParser("absent")
    with pytest.raises(DataError, match=r"spaCy model bad: .*tagger"):
        SpacyParser("bad")
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(DataError, match=r"hf-sysgen\[parsing\]"):
        SpacyParser("good")


def test_help_tells_what_the_script_is_for(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert (parses.__doc__ or "").strip() in capsys.readouterr().out
