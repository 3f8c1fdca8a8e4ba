"""Subword tokenizers: the published pieces, the libraries' pieces, round trips, tables, and the cache."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from reference.subword_encoders import bpe_encoder, sentencepiece_encoder
from transformers import AutoTokenizer
from upstream_files import Files

from hf_sysgen.data import DataError
from hf_sysgen.data.text import subwords as module
from hf_sysgen.data.text.subwords import (
    UNKNOWN,
    bpe_vocabulary,
    encode_subwords,
    load_or_learn,
    sentencepiece_vocabulary,
)
from hf_sysgen.data.text.translation import learn_bpe, learn_sentencepiece

PREPARED = Path("mt", "iwslt14.tokenized.de-en")
FILES = ("valid.de", "valid.en", "test.de", "test.en")
SOURCES = ["der hund sah die katze", "die katze sah den hund", "ein hund", "eine katze &amp; ein hund"] * 3
TARGETS = ["the dog saw the cat", "the cat saw the dog", "a dog", "a cat &amp; a dog"] * 3


def pieces_of(vocabulary, texts: list[str]) -> list[list[str]]:
    ids = vocabulary.tokenizer(texts, add_special_tokens=False)["input_ids"]
    return [vocabulary.tokenizer.convert_ids_to_tokens(row) for row in ids]


def as_subword_nmt(pieces: list[str]) -> str:
    return " ".join(piece.removesuffix("</w>") if piece.endswith("</w>") else f"{piece}@@" for piece in pieces)


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


@pytest.mark.parametrize("count", [1_000, pytest.param(None, marks=pytest.mark.slow)])
def test_published_pieces(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int | None) -> None:
    """With the published codes: every line of both sides of both splits, and back."""
    codes = (data_dir / PREPARED / "code").read_text(encoding="utf-8")
    monkeypatch.setattr(module, "learn_bpe", lambda text, merges: codes)
    plain, pieces = (
        {
            name: lines(data_dir / PREPARED / folder / name)[:count]
            for name in ("valid.de", "valid.en", "test.de", "test.en")
        }
        for folder in ("tmp", "")
    )
    sides = ([*plain["valid.de"], *plain["test.de"]], [*plain["valid.en"], *plain["test.en"]])
    vocabulary = bpe_vocabulary(*sides, 10_000, joint=False, cache_dir=tmp_path)
    for name, expected in pieces.items():
        found = pieces_of(vocabulary, plain[name])
        assert [as_subword_nmt(row) for row in found] == expected
        encoded = encode_subwords(vocabulary.tokenizer, plain[name])
        assert [vocabulary.tokenizer.decode(ids[:-1]) for ids in encoded] == plain[name]
    # the decoder knows what targets have, and the two symbols; the encoder all
    of_target = {piece for name in ("valid.en", "test.en") for line in pieces[name] for piece in line.split(" ")}
    assert vocabulary.vocab_size == len(of_target) + 2
    assert vocabulary.source_vocab_size == len(vocabulary.tokenizer) > vocabulary.vocab_size


@pytest.mark.parametrize("joint", [True, False])
def test_bpe_is_subword_nmt_s(tmp_path: Path, joint: bool) -> None:
    vocabulary = bpe_vocabulary(SOURCES, TARGETS, 12, joint, cache_dir=tmp_path)
    encode = bpe_encoder(learn_bpe([*SOURCES, *TARGETS], 12))
    texts = [*SOURCES, *TARGETS, "the katze", "dog dog"]
    assert [as_subword_nmt(row) for row in pieces_of(vocabulary, texts)] == [encode(text) for text in texts]
    tokenizer = vocabulary.tokenizer
    assert [tokenizer.decode(ids, skip_special_tokens=True) for ids in encode_subwords(tokenizer, texts)] == texts
    assert sorted(tokenizer.get_vocab().values()) == list(range(vocabulary.source_vocab_size))
    assert (vocabulary.vocab_size == vocabulary.source_vocab_size) == joint
    assert tokenizer.eos_token_id == vocabulary.vocab_size - 2 == tokenizer.pad_token_id
    assert tokenizer.unk_token_id == vocabulary.vocab_size - 1


def test_what_a_side_does_not_know(tmp_path: Path) -> None:
    vocabulary = bpe_vocabulary(["x y zz zz"], ["a b"], 1, joint=False, cache_dir=tmp_path)
    tokenizer = vocabulary.tokenizer
    eos, unknown = tokenizer.eos_token_id, tokenizer.unk_token_id
    assert vocabulary.vocab_size == 4
    # source letters have rows of the encoder; a target with one has an unknown label; new letters are unknown to both
    known = tokenizer.get_vocab()["x</w>"]
    assert 4 <= known < vocabulary.source_vocab_size
    assert encode_subwords(tokenizer, ["x a ü"]) == [[known, 0, unknown, eos]]
    assert encode_subwords(tokenizer, ["x a ü"], vocabulary.vocab_size) == [[unknown, 0, unknown, eos]]
    # symbols in a text are text
    assert encode_subwords(tokenizer, [f"a </s> {UNKNOWN}"])[0].count(eos) == 1
    assert encode_subwords(tokenizer, []) == []


slow = pytest.mark.slow


@pytest.mark.parametrize(
    ("config", "size", "count", "differing"),
    [
        ("ne-en", 1000, 500, 0),
        pytest.param("ne-en", 5000, None, 0, marks=slow),
        pytest.param("si-en", 5000, None, 9, marks=slow),
    ],
)
def test_pieces_are_sentencepiece_s(
    files: Files, tmp_path: Path, config: str, size: int, count: int | None, differing: int
) -> None:
    """Both sides of all three splits, pieces learned from the first."""
    if not files.whole:
        if count is None:
            pytest.skip("so many pieces need all lines of the files")
        size = 400
    benchmark = files.load("flores", config, tmp_path)
    sides = [benchmark["validation"][column][:count] for column in ("input", "target")]
    vocabulary = sentencepiece_vocabulary(*sides, size, cache_dir=tmp_path)
    assert vocabulary.vocab_size == vocabulary.source_vocab_size == size - 1  # <s> is left out
    encode = sentencepiece_encoder(learn_sentencepiece([*sides[0], *sides[1]], size))
    known = vocabulary.tokenizer.get_vocab()
    wrong = 0
    for split in benchmark.values():
        for column in ("input", "target"):
            texts = split[column][:count]
            expected = [[piece if piece in known else UNKNOWN for piece in encode(text).split(" ")] for text in texts]
            wrong += sum(a != b for a, b in zip(pieces_of(vocabulary, texts), expected, strict=True))
    assert wrong == differing
    text = "Putin  has his own bike rider gang names 'Night Wolves'. "
    assert vocabulary.tokenizer.decode(vocabulary.tokenizer(text)["input_ids"], skip_special_tokens=True) == " ".join(
        text.split()
    )


@pytest.mark.parametrize(("learn", "size"), [(bpe_vocabulary, 29), (sentencepiece_vocabulary, 40)])
def test_a_saved_tokenizer_is_the_same(tmp_path: Path, learn, size: int) -> None:
    tokenizer = learn(SOURCES, TARGETS, size, cache_dir=tmp_path).tokenizer
    tokenizer.save_pretrained(tmp_path / "saved")
    assert not list((tmp_path / "saved").glob("*.py"))
    texts = ["the katze saw", f"a {UNKNOWN} </s> dog"]
    loaded = AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert loaded(texts) == tokenizer(texts)
    assert loaded.decode(loaded(texts[0])["input_ids"], skip_special_tokens=True) == texts[0]


def test_learned_once(tmp_path: Path) -> None:
    calls = []

    def learn() -> bytes:
        calls.append(1)
        return b"codes"

    def get(size: int, text: str) -> bytes:
        return load_or_learn("bpe", "subword-nmt", size, [text], learn, tmp_path)

    assert [get(3, "a"), get(3, "a")] == [b"codes"] * 2
    assert len(calls) == 1
    get(4, "a")
    get(3, "b")
    assert len(calls) == 3
    # a shared cache is for all to read
    umask = os.umask(0)
    os.umask(umask)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "subwords").glob("*[!k]")} == {0o666 & ~umask}
    assert sorted(path.suffix for path in (tmp_path / "subwords").iterdir()) == ["", "", "", *[".lock"] * 3]


def test_the_same_pieces_anew(tmp_path: Path) -> None:
    for learn, size in ((bpe_vocabulary, 29), (sentencepiece_vocabulary, 40)):
        first, second = (learn(SOURCES, TARGETS, size, cache_dir=tmp_path / name).tokenizer for name in ("a", "b"))
        assert first.backend_tokenizer.to_str() == second.backend_tokenizer.to_str()


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"subwords=5000: .*12 pairs"):
        sentencepiece_vocabulary(SOURCES, TARGETS, 5000, cache_dir=tmp_path)
    with pytest.raises(DataError, match=r"^subwords=30: 12 pairs .*29 merges"):
        bpe_vocabulary(SOURCES, TARGETS, 30, cache_dir=tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be kept"):
        bpe_vocabulary(SOURCES, TARGETS, 3, cache_dir=tmp_path / "file")
