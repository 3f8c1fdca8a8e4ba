"""Subword tokenizers for translation, learned from the text, as standard fast tokenizers that travel with checkpoints.

The papers' libraries learn the pieces; `tokenizers` only applies them. Needs the extra `translation`.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import filelock

from hf_sysgen.data.errors import DataError
from hf_sysgen.data.text.translation import learn_bpe, learn_sentencepiece, library
from hf_sysgen.data.text.vocabulary import EOS, Vocabulary
from hf_sysgen.errors import one_line
from hf_sysgen.files import write_atomic

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

UNKNOWN = "<unk>"
# subword-nmt's mark for the end of a word while it learns
END_OF_WORD = "</w>"


def bpe_vocabulary(
    sources: Sequence[str],
    targets: Sequence[str],
    num_merges: int,
    joint: bool = True,
    cache_dir: str | Path | None = None,
) -> Vocabulary:
    """
    Byte pairs of Sennrich et al. 2016, learned by subword-nmt from both sides, sources first, as fairseq's
    `prepare-iwslt14.sh` does. With the published codes, each of the 28,066 lines of IWSLT14's validation and test sets
    gives the published pieces.

    Ids, in order: pieces of the target, sorted; `</s>`; `<unk>`; if the tables are not joint, all other pieces.

    - joint (fairseq's `--joined-dictionary`): both tables cover all ids. These include pieces that a further merge
    always uses up, which fairseq's dictionary lacks.
    - not joint (IWSLT14): the decoder's table covers the pieces of targets, as in fairseq. The encoder's table covers
    all pieces; fairseq's has those of sources. A piece that is new in sources has an untrained row; fairseq reads
    `<unk>`, which is untrained too.

    Args:
        sources, targets: tokens of the training split, joined by single spaces.
        num_merges: 10,000 for IWSLT14, 40,000 for WMT14 English-French.
        cache_dir: see `load_or_learn`.

    Raises:
        DataError: too little text for so many merges, or the extra is not installed.
    """
    lines = [*sources, *targets]

    def learn() -> bytes:
        try:
            return learn_bpe(lines, num_merges).encode()
        except (ValueError, IndexError) as error:  # subword-nmt has no error for this
            raise DataError(f"subwords={num_merges}: cannot be learned from {len(sources):,} pairs: {error}") from error

    codes = load_or_learn("bpe", "subword-nmt", num_merges, lines, learn, cache_dir).decode()
    merges = [tuple(code.split(" ")) for code in codes.rstrip("\n").split("\n")[1:]]
    if len(merges) < num_merges:
        raise DataError(
            f"subwords={num_merges}: {len(sources):,} pairs give only {len(merges):,} merges; give more text, or ask "
            "for fewer"
        )
    words = {word for line in lines for word in line.split(" ") if word}
    letters = sorted({letter for word in words for letter in (*word[:-1], word[-1] + END_OF_WORD)})
    pieces = list(dict.fromkeys([*letters, *(part for merge in merges for part in merge), *map("".join, merges)]))
    if joint:
        return _bpe(sorted(pieces), [], merges)
    apply = _bpe(pieces, [], merges).tokenizer.backend_tokenizer
    encoded = apply.encode_batch(list(targets), add_special_tokens=False)
    of_target = {piece for line in encoded for piece in line.tokens}
    return _bpe(sorted(of_target), sorted(set(pieces) - of_target), merges)


def _bpe(pieces: list[str], others: list[str], merges: list[tuple]) -> Vocabulary:
    from tokenizers import Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE

    ids = {piece: row for row, piece in enumerate([*pieces, EOS, UNKNOWN, *others])}
    backend = Tokenizer(BPE(ids, merges, unk_token=UNKNOWN, end_of_word_suffix=END_OF_WORD))
    backend.pre_tokenizer = pre_tokenizers.CharDelimiterSplit(" ")
    backend.decoder = decoders.BPEDecoder(suffix=END_OF_WORD)
    return Vocabulary(_fast(backend), len(pieces) + 2, len(ids), source_id_offset=0)


def sentencepiece_vocabulary(
    sources: Sequence[str], targets: Sequence[str], size: int, cache_dir: str | Path | None = None
) -> Vocabulary:
    """
    A joint byte pair encoding of sentencepiece with FLoRes' settings, one table for both sides. Lines of Nepali and
    English give exactly sentencepiece's pieces. One line in 2,000 of Sinhala does not: a vowel sign is written in
    parts, which `tokenizers` joins in another order.

    Ids, in order: the pieces, in the order of merging; `</s>`; `<unk>`.

    Args:
        sources, targets: text of the training split.
        size: number of pieces, with sentencepiece's three symbols: 5,000 for FLoRes.
        cache_dir: see `load_or_learn`.

    Raises:
        DataError: too little text for so many pieces, or the extra is not installed.
    """
    lines = [*sources, *targets]

    def learn() -> bytes:
        try:
            return learn_sentencepiece(lines, size)
        except RuntimeError as error:
            reason = " ".join(str(error).split())
            raise DataError(f"subwords={size}: cannot be learned from {len(sources):,} pairs: {reason}") from error

    model = load_or_learn("sentencepiece", "sentencepiece", size, lines, learn, cache_dir)
    parsed = library("sentencepiece.sentencepiece_model_pb2", "sentencepiece").ModelProto.FromString(model)
    pieces = [piece.piece for piece in parsed.pieces if piece.type == piece.NORMAL]
    known = set(pieces)
    # sentencepiece joins the two neighbours whose union comes first in the list
    merges = [
        (piece[:at], piece[at:])
        for piece in pieces
        for at in range(1, len(piece))
        if piece[:at] in known and piece[at:] in known
    ]
    from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers
    from tokenizers.models import BPE

    ids = {piece: row for row, piece in enumerate([*pieces, EOS, UNKNOWN])}
    backend = Tokenizer(BPE(ids, merges, unk_token=UNKNOWN, fuse_unk=True))
    backend.normalizer = normalizers.Sequence(
        [
            normalizers.Precompiled(parsed.normalizer_spec.precompiled_charsmap),
            # the step above splits letters from their signs
            normalizers.NFKC(),
            normalizers.Strip(),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    backend.decoder = decoders.Metaspace(prepend_scheme="always")
    return Vocabulary(_fast(backend), len(ids), len(ids), source_id_offset=0)


def _fast(backend: Tokenizer) -> PreTrainedTokenizerFast:
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    backend.post_processor = TemplateProcessing(single=f"$A {EOS}", special_tokens=[(EOS, backend.token_to_id(EOS))])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token=EOS,
        pad_token=EOS,
        unk_token=UNKNOWN,
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
        # a symbol inside a text is text
        split_special_tokens=True,
    )


def encode_subwords(
    tokenizer: PreTrainedTokenizerFast, texts: Sequence[str], vocab_size: int | None = None
) -> list[list[int]]:
    """
    Ids of `pieces </s>` for each text.

    Args:
        vocab_size: for targets, the number of ids in the decoder's table; other pieces become `<unk>`.

    Raises:
        DataError: the tokenizer has no `<unk>`.
    """
    if tokenizer.unk_token_id is None:
        raise DataError("the tokenizer knows only whole words; translation needs a subword tokenizer")
    encoded = tokenizer(list(texts))["input_ids"] if texts else []
    if vocab_size is not None:
        encoded = [[token if token < vocab_size else tokenizer.unk_token_id for token in ids] for ids in encoded]
    return encoded


def load_or_learn(
    kind: str,
    package: str,
    size: int,
    lines: Sequence[str],
    learn: Callable[[], bytes],
    cache_dir: str | Path | None = None,
) -> bytes:
    """
    What is learned from these lines: from the cache, or learned now and kept there. With several processes, one learns.

    Args:
        kind, size: what is learned; package: the library; its version is part of the key.
        lines: the text to learn from.
        cache_dir: root of the cache, defaults to that of `datasets`; files are kept in its `subwords` folder.

    Raises:
        DataError: the library is not installed, or the cache cannot be written to.
    """
    library(package.replace("-", "_"), package)
    if cache_dir is None:
        import datasets

        cache_dir = datasets.config.HF_DATASETS_CACHE
    digest = hashlib.sha256(f"{kind} {size} {package} {importlib.metadata.version(package)}".encode())
    for line in lines:
        digest.update(f"\n{line}".encode())
    path = Path(cache_dir).expanduser() / "subwords" / f"{kind}-{size}-{digest.hexdigest()[:16]}"
    try:
        if not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            with filelock.FileLock(f"{path}.lock"):
                if not path.is_file():
                    write_atomic(path, learn())
        return path.read_bytes()
    except OSError as error:
        raise DataError(
            f"{path}: cannot be kept: {one_line(error)}; set HF_DATASETS_CACHE to another folder"
        ) from error
