"""Preparation of text: each step on cases by hand, and on the published IWSLT14 files where they are here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from reference.subword_encoders import bpe_encoder, sentencepiece_encoder

from hf_sysgen.data import DataError
from hf_sysgen.data.text.translation import (
    bpe_decoder,
    clean,
    indic_tokenizer,
    learn_bpe,
    learn_sentencepiece,
    moses_normalizer,
    moses_tokenizer,
    paired,
    split_lines,
)

PREPARED = Path("mt", "iwslt14.tokenized.de-en")


def test_split_lines() -> None:
    assert split_lines("a\u2028b\r\n\nc\n".encode(), "x") == ["a\u2028b\r", "", "c"]
    with pytest.raises(DataError, match=r"x: .* line 2 "):
        split_lines(b"a\nb", "x")
    with pytest.raises(DataError, match=r"x: .*byte 2"):
        split_lines(b"a\n\xff\n", "x")


def test_paired() -> None:
    with pytest.raises(DataError, match=r"x: 2 .* 1 "):
        paired([["a", "b"], ["c"]], "x")


@pytest.mark.parametrize(
    ("language", "line", "tokens"),
    [
        ("en", "It's  a state-of-the-art test, isn't it?", "It &apos;s a state-of-the-art test , isn &apos;t it ?"),
        ("de", 'Er sagte: "Ja [heute] & morgen."', "Er sagte : &quot; Ja &#91; heute &#93; &amp; morgen . &quot;"),
        # a last period is a token, also after what looks like an abbreviation; an earlier one is not
        ("en", "Dr. Lee left the U.S. for the U.K.", "Dr. Lee left the U.S. for the U.K ."),
        ("de", "Es waren drei aus 10.", "Es waren drei aus 10 ."),
        ("de", "Na ja...", "Na ja ..."),
        ("en", "", ""),
    ],
)
def test_moses_tokenizer(language: str, line: str, tokens: str) -> None:
    assert moses_tokenizer(language)(line) == tokens


def test_aggressive_tokenizer() -> None:
    assert moses_tokenizer("fr", aggressive=True)("celle-ci l'a") == "celle @-@ ci l&apos; a"


def test_moses_normalizer() -> None:
    normalize = moses_normalizer("fr")
    # a soft hyphen is not printed, so it becomes a space; an apostrophe that curls becomes a quotation mark
    assert normalize("PPE\u00adDE «\u00a0oui\u00a0» … 1\u00a0000") == 'PPE DE "oui" ... 1,000'
    assert normalize("l\u2019an") == "l'an"


@pytest.mark.parametrize(
    ("source", "target", "kept"),
    [
        ("a b", "x y z", True),
        ("a b", "x y z w", False),
        ("a b c d", "x y", False),
        ("", "", False),
        ("a b c d e f", "x y z w v u", False),
        ("a " + "b" * 1000, "x y", True),
        ("a " + "b" * 1001, "x y", False),
    ],
)
def test_clean(source: str, target: str, kept: bool) -> None:
    assert list(clean([(source, target)], max_length=5)) == [(source, target)] * kept


def test_clean_also() -> None:
    assert list(clean([("a", "b"), (" a  | b ", "c\td")], max_length=5, min_length=2)) == [("a b", "c d")]


def test_bpe() -> None:
    # both come three times; then the greater pair is first
    lines = ["lower newer wider", "low low"]
    codes = learn_bpe(lines, 2)
    assert codes.splitlines()[1:] == ["l o", "e r</w>"]
    encoded = bpe_encoder(codes)("low newer")
    assert encoded == "lo@@ w n@@ e@@ w@@ er"
    assert bpe_decoder(encoded) == "low newer"


@pytest.mark.parametrize("split", ["valid", "test"])
@pytest.mark.parametrize("language", ["de", "en"])
def test_published_bpe(data_dir: Path, split: str, language: str) -> None:
    encode = bpe_encoder((data_dir / PREPARED / "code").read_text(encoding="utf-8"))
    plain, pieces = (
        (data_dir / PREPARED / folder / f"{split}.{language}").read_text(encoding="utf-8").split("\n")[:2_001]
        for folder in ("tmp", "")
    )
    assert [encode(line) for line in plain] == pieces
    assert [bpe_decoder(line) for line in pieces] == plain


def test_sentencepiece() -> None:
    lines = ["the cat sat on the mat", "the dog sat on the cat", "le chat et le chien"] * 5
    encode = sentencepiece_encoder(learn_sentencepiece(lines, 40))
    pieces = encode("the cat et le dog")
    assert pieces.replace(" ", "").replace("▁", " ").strip() == "the cat et le dog"
    assert len({piece for line in lines for piece in encode(line).split()}) <= 40
    # a frequent word is one piece, a letter never seen is no error
    assert pieces.split()[0] == "▁the"
    assert encode("the ü") == "▁the ▁ ü"


def test_indic_tokenizer() -> None:
    # a danda is a token; the two-part spelling of a vowel becomes one sign
    assert indic_tokenizer("ne")("नेपाल हो।") == "नेपाल हो ।"
    assert indic_tokenizer("si")("මම, ඔබ.") == "මම , ඔබ ."


@pytest.mark.parametrize(
    ("step", "package"),
    [
        (lambda: moses_tokenizer("en"), "sacremoses"),
        (lambda: indic_tokenizer("ne"), "indic-nlp-library"),
        (lambda: learn_bpe([], 1), "subword-nmt"),
        (lambda: learn_sentencepiece([], 1), "sentencepiece"),
    ],
)
def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, step: Callable[[], Any], package: str) -> None:
    import importlib

    def absent(name: str) -> Any:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(DataError, match=rf"{package}.*hf-sysgen\[translation\]"):
        step()
