"""Prepare text for translation as the papers' shell scripts do, with the Python versions of those scripts, which need
the extra `translation`. Nothing here imports `datasets`.
"""

from __future__ import annotations

import importlib
import io
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hf_sysgen.data.errors import DamagedData, DataError

Pair = tuple[str, str]
Step = Callable[[str], str]

# whitespace for perl's \s+
_BLANKS = re.compile(r"\s+")
# a period at the end of the text is its own token, except in a row of dots
_LAST_PERIOD = re.compile(r"(?<=[^\s.])\.$")


def split_lines(content: bytes, where: str) -> list[str]:
    """
    The lines of a text file: only a newline ends one, as in the shell.

    Raises:
        DataError: the text is not UTF-8, or its last line does not end.
    """
    try:
        lines = content.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise DamagedData(f"{where}: is not UTF-8 at byte {error.start:,}; replace the file") from error
    if lines.pop():
        raise DamagedData(
            f"{where}: its last line {len(lines) + 1:,} has no newline, so it is cut short; replace the file"
        )
    return lines


def paired(sides: Sequence[list[str]], where: str) -> list[Pair]:
    """
    The pairs of source and target lines of a text.

    Raises:
        DataError: they have different numbers of lines.
    """
    sources, targets = sides
    if len(sources) != len(targets):
        raise DamagedData(
            f"{where}: {len(sources):,} lines of source but {len(targets):,} of target; replace the files"
        )
    return list(zip(sources, targets, strict=True))


def moses_tokenizer(language: str, aggressive: bool = False) -> Step:
    """
    Moses' tokenizer.perl, with its escapes (`&apos;`): a line to tokens joined by single spaces.

    If the last word looks like an abbreviation or a number ("in the U.S."), sacremoses leaves the period on it;
    tokenizer.perl splits it off, and so does this. Each of the 13,500 lines of the IWSLT14 test set is as published.

    Args:
        language: two letters; decides which words keep their period and how apostrophes are split.
        aggressive: also split words at hyphens (option -a).
    """
    tokenizer = library("sacremoses").MosesTokenizer(lang=language)

    def tokenize(line: str) -> str:
        tokens = tokenizer.tokenize(line, aggressive_dash_splits=aggressive, return_str=True)
        return _LAST_PERIOD.sub(" .", tokens)

    return tokenize


def moses_normalizer(language: str) -> Step:
    """Moses' normalize-punctuation.perl, then remove-non-printing-char.perl, which replaces each such character by a
    space."""
    normalizer = library("sacremoses").MosesPunctNormalizer(lang=language, perl_parity=True)
    unprintable = library("regex").compile(r"\p{C}")

    def normalize(line: str) -> str:
        return unprintable.sub(" ", normalizer.normalize(line))

    return normalize


def clean(pairs: Iterable[Pair], max_length: int, min_length: int = 1, ratio: float = 1.5) -> Iterator[Pair]:
    """
    Moses' clean-corpus-n.perl: drop pairs with a side that is too short or too long, or with too different lengths.

    Args:
        pairs: source and target, as tokens with blanks between them. They are returned with single spaces and without
            "|".
        max_length: maximum of tokens on a side; min_length: minimum.
        ratio: maximum ratio of the lengths of both sides.
    """
    for pair in pairs:
        source, target = (_BLANKS.sub(" ", side.replace("|", "")).strip() for side in pair)
        if not source or not target:
            continue
        lengths = source.count(" ") + 1, target.count(" ") + 1
        if min(lengths) < min_length or max(lengths) > min(max_length, ratio * min(lengths)):
            continue
        # more than 1,000 letters are not a word
        if max(map(len, f"{source} {target}".split(" "))) <= 1000:
            yield source, target


def indic_tokenizer(language: str) -> Step:
    """
    Normalization and tokenization of the Indic NLP Library, which FLoRes applies to Nepali and Sinhala
    (`floresv1/scripts/indic_norm_tok.py`), with nuktas kept.
    """
    library("indicnlp", "indic-nlp-library")
    from indicnlp.normalize.indic_normalize import IndicNormalizerFactory
    from indicnlp.tokenize.indic_tokenize import trivial_tokenize

    normalizer = IndicNormalizerFactory().get_normalizer(language, remove_nuktas=False)

    def tokenize(line: str) -> str:
        return " ".join(trivial_tokenize(normalizer.normalize(line), language))

    return tokenize


def learn_bpe(lines: Iterable[str], num_merges: int) -> str:
    """
    Byte pair encoding of Sennrich et al. 2016 (arXiv:1508.07909): the codes file that subword-nmt's learn_bpe writes.

    Args:
        lines: tokenized text; for a joint code, of both languages one after the other.
        num_merges: 10,000 for IWSLT14, 40,000 for WMT14 English-French.
    """
    module = library("subword_nmt.learn_bpe", "subword-nmt")
    codes = io.StringIO()
    module.learn_bpe(io.StringIO("".join(f"{line}\n" for line in lines)), codes, num_merges)
    return codes.getvalue()


def bpe_decoder(line: str) -> str:
    """Subwords back to tokens."""
    return line.replace("@@ ", "").removesuffix("@@")


def moses_detokenizer(language: str) -> Step:
    """Moses' detokenizer.perl: tokens to text, with escapes (`&apos;`) replaced."""
    detokenizer = library("sacremoses").MosesDetokenizer(lang=language)
    return lambda line: detokenizer.detokenize(line.split())


def learn_sentencepiece(lines: Iterable[str], vocab_size: int) -> bytes:
    """
    A joint byte pair encoding of sentencepiece, with the settings of FLoRes (`floresv1/prepare-neen.sh`).

    Args:
        lines: text of both languages, Nepali or Sinhala through `indic_tokenizer`, English as it is.
        vocab_size: 5,000 in FLoRes.

    Returns:
        The model's file.
    """
    sentencepiece = library("sentencepiece")
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder, "text")
        text.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        sentencepiece.SentencePieceTrainer.train(
            input=str(text),
            model_prefix=str(Path(folder, "bpe")),
            vocab_size=vocab_size,
            character_coverage=1.0,
            model_type="bpe",
            minloglevel=2,
        )
        return Path(folder, "bpe.model").read_bytes()


def sentencepiece_decoder(line: str) -> str:
    """Pieces back to text; text without pieces stays as it is."""
    return line.replace(" ", "").replace("▁", " ").strip() if "▁" in line else line


def library(module: str, package: str = "") -> Any:
    """A module of the extra `translation`. Raises DataError where it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise DataError(
            f"this needs {package or module}, which is not installed: pip install 'hf-sysgen[translation]'"
        ) from error
