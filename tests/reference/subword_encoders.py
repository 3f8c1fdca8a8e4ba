"""How the libraries that learn subwords apply them."""

from __future__ import annotations

import io

from hf_sysgen.data.text.translation import Step, library


def bpe_encoder(codes: str) -> Step:
    """Tokens to subwords with subword-nmt's codes: a piece that does not end its word ends in "@@"."""
    encoder = library("subword_nmt.apply_bpe", "subword-nmt").BPE(io.StringIO(codes))
    return lambda line: encoder.process_line(line)


def sentencepiece_encoder(model: bytes) -> Step:
    """Text to pieces of a sentencepiece model, joined by single spaces; a piece that starts a word starts with "▁"."""
    processor = library("sentencepiece").SentencePieceProcessor(model_proto=model)
    return lambda line: " ".join(processor.encode(line, out_type=str))
