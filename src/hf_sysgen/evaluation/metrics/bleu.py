"""BLEU in each setup of Chaabouni et al. 2021, with sacrebleu (the extra `translation`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from hf_sysgen.data.text.translation import bpe_decoder, library, moses_detokenizer, sentencepiece_decoder
from hf_sysgen.errors import UserError
from hf_sysgen.evaluation.metrics.sequences import check_paired


@dataclass(frozen=True)
class Setup:
    """
    How texts are prepared for BLEU.

    Attributes:
        pieces: subword-nmt's or sentencepiece's pieces, which are joined to tokens. Texts without pieces do not change.
        tokenized: BLEU over the tokens of the text, unsmoothed, as fairseq-generate prints it; otherwise over
            sacrebleu's tokens, with its defaults.
        detokenize: language (two letters) of the Moses detokenizer to apply first; "" for none.
    """

    pieces: Literal["none", "subword_nmt", "sentencepiece"] = "none"
    tokenized: bool = True
    detokenize: str = ""

    def prepare(self, texts: Sequence[str]) -> list[str]:
        """The texts, as they are compared."""
        if self.pieces == "subword_nmt":
            texts = [bpe_decoder(text) for text in texts]
        elif self.pieces == "sentencepiece":
            texts = [sentencepiece_decoder(text) for text in texts]
        if self.detokenize:
            step = moses_detokenizer(self.detokenize)
            texts = [step(text) for text in texts]
        return list(texts)

    def metric(self) -> Any:
        """A new sacrebleu metric. Raises DataError where sacrebleu is not installed."""
        bleu = library("sacrebleu").BLEU
        # forced: sacrebleu warns of tokenized text, which is intended here
        return bleu(tokenize="none", smooth_method="none", force=True) if self.tokenized else bleu()


SETUPS = {
    "tokenized": Setup(),
    # sacrebleu's tokens of running text
    "detokenized": Setup(tokenized=False),
    # lowercase Moses tokens
    "iwslt14": Setup(pieces="subword_nmt"),
    # what chooses the checkpoint there: sacrebleu of detokenized text
    "iwslt14_validation": Setup(pieces="subword_nmt", tokenized=False, detokenize="en"),
    "flores_into_english": Setup(pieces="sentencepiece", tokenized=False),
    # tokens of the Indic NLP Library
    "flores_from_english": Setup(pieces="sentencepiece"),
    # Moses tokens with their case
    "noun_adjective": Setup(pieces="subword_nmt"),
}


def bleu_setup(benchmark: str, config: str, split: str) -> str:
    """The BLEU setup of a benchmark: one of `SETUPS`."""
    if benchmark == "iwslt14":
        return "iwslt14_validation" if split == "validation" else "iwslt14"
    if benchmark == "flores":
        return "flores_into_english" if config.endswith("-en") else "flores_from_english"
    return benchmark if benchmark == "noun_adjective" else "tokenized"


def setup_of(name: str) -> Setup:
    """A setup by name. Raises UserError with the names there are."""
    if name not in SETUPS:
        raise UserError(f"no setup {name!r} of bleu; there are {', '.join(SETUPS)}")
    return SETUPS[name]


class Bleu(TypedDict):
    """Corpus BLEU; both scores are between 0 and 100, lengths are in tokens."""

    bleu: float
    precisions: list[float]
    brevity_penalty: float
    prediction_length: int
    reference_length: int
    signature: str


def bleu(predictions: Sequence[str], references: Sequence[str], setup: str = "tokenized") -> Bleu:
    """
    Corpus BLEU with one reference.

    Args:
        predictions, references: in pieces, as a model writes them, or joined.
        setup: one of `SETUPS`.

    Returns:
        BLEU, its parts (`precisions` are of 1- to 4-grams), and sacrebleu's signature.

    Raises:
        UserError: no such setup, no predictions, or not as many references; DataError: a library is not installed.
    """
    chosen = setup_of(setup)
    check_paired(predictions, references)
    metric = chosen.metric()
    score = metric.corpus_score(chosen.prepare(predictions), [chosen.prepare(references)])
    return {
        "bleu": score.score,
        "precisions": list(score.precisions),
        "brevity_penalty": score.bp,
        "prediction_length": score.sys_len,
        "reference_length": score.ref_len,
        "signature": str(metric.get_signature()),
    }
