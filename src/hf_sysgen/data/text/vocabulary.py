"""Tokenizers of words or characters, with one id space for an encoder and a decoder embedding."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hf_sysgen.data.errors import DataError
from hf_sysgen.errors import shorten

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

EOS, SOS = "</s>", "<s>"
PAD = "[PAD]"


@dataclass(frozen=True)
class Vocabulary:
    """A tokenizer, and the ranges of its ids that the two embeddings of a model cover.

    Attributes:
        tokenizer: a standard fast tokenizer. It wraps source text as `<s> words </s>` (or, without a start, `words
            </s>`); targets end in `</s>` alone, see `encode_targets`. It pads with `</s>`: padding is known from
            attention masks. An unknown word is an error.
        vocab_size: decoder ids are [0, vocab_size): target words and `</s>`, which is also the decoder's start.
        source_vocab_size: encoder ids are [source_id_offset, source_id_offset + source_vocab_size): source words,
            `</s>` and, with a start, `<s>`.
        source_id_offset: 0 if source and target share one vocabulary.
    """

    tokenizer: PreTrainedTokenizerFast
    vocab_size: int
    source_vocab_size: int
    source_id_offset: int


def build_vocabulary(
    sources: Iterable[str],
    targets: Iterable[str],
    joint: bool = False,
    characters: bool = False,
    start: bool = True,
) -> Vocabulary:
    """
    A sorted vocabulary of blank-separated words (framework/data_structures/vocabulary.py:15-37 of Csordas et al.), or
    of characters, including blanks (the mathematics tasks).

    Ids, in order: words of targets only, words of both sides, `</s>`, words of sources only, `<s>`. So each embedding
    covers a contiguous range and has exactly the authors' number of rows, and each string has one id. A joint
    vocabulary gives both sides all words; then the ids are the authors'.

    Args:
        sources: texts of all splits; targets likewise.
        joint: whether both sides use the union of their words, as the authors do on COGS and PCFG.
        characters: whether a "word" is a character.
        start: whether there is a `<s>` before each source.

    Raises:
        DataError: there are no words, or a word is a special symbol.
    """
    source_words = {word for text in sources for word in (text if characters else text.split())}
    target_words = {word for text in targets for word in (text if characters else text.split())}
    if not source_words or not target_words:
        raise DataError("no words to build a vocabulary from: source or target texts are empty")
    if reserved := (source_words | target_words) & {EOS, SOS}:
        raise DataError(f"the data uses {', '.join(sorted(reserved))} as words, which are the vocabulary's own symbols")
    if joint:
        source_words = target_words = source_words | target_words
    shared = source_words & target_words
    target_only, source_only = sorted(target_words - shared), sorted(source_words - shared)
    words = [*target_only, *sorted(shared), EOS, *source_only, *([SOS] if start else [])]
    return Vocabulary(
        tokenizer=_tokenizer(words, characters, start),
        vocab_size=len(target_words) + 1,
        source_vocab_size=len(source_words) + (2 if start else 1),
        source_id_offset=len(target_only),
    )


def _tokenizer(words: list[str], characters: bool, start: bool) -> PreTrainedTokenizerFast:
    from tokenizers import Tokenizer, decoders
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Split, WhitespaceSplit
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    ids = {word: index for index, word in enumerate(words)}
    # no token has two blanks, so this unknown symbol never occurs, and an unknown word is an error
    backend = Tokenizer(WordLevel(ids, unk_token="  "))
    if characters:
        backend.pre_tokenizer = Split("", "isolated")
        backend.decoder = decoders.Fuse()
    else:
        backend.pre_tokenizer = WhitespaceSplit()
    symbols = [SOS, EOS] if start else [EOS]
    backend.post_processor = TemplateProcessing(
        single=f"{SOS} $A {EOS}" if start else f"$A {EOS}", special_tokens=[(name, ids[name]) for name in symbols]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=SOS if start else None,
        eos_token=EOS,
        pad_token=EOS,
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
    )


def sentence_tokenizer(sentences: Iterable[str], root: str | None = None) -> PreTrainedTokenizerFast:
    """
    A tokenizer of blank-separated words for models that label them: without an end symbol, and with `[PAD]` as id 0,
    then words in the order of their first appearance. An unknown word is an error.

    Args:
        root: a symbol with id 1 before each sentence.

    Raises:
        DataError: there are no words, or a word is one of the symbols.
    """
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    symbols = [PAD] if root is None else [PAD, root]
    words = dict.fromkeys(word for sentence in sentences for word in sentence.split())
    if not words:
        raise DataError("no words to build a vocabulary from: sentences are empty")
    if reserved := words.keys() & set(symbols):
        raise DataError(f"the data uses {', '.join(sorted(reserved))} as words, which are the vocabulary's own symbols")
    ids = {word: index for index, word in enumerate([*symbols, *words])}
    # no token has two blanks, so this unknown symbol never occurs
    backend = Tokenizer(WordLevel(ids, unk_token="  "))
    backend.pre_tokenizer = WhitespaceSplit()
    if root is not None:
        backend.post_processor = TemplateProcessing(single=f"{root} $A", special_tokens=[(root, ids[root])])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PAD,
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
    )


def encode_sources(
    tokenizer: PreTrainedTokenizerFast, texts: list[str], id_range: range | None = None
) -> list[list[int]]:
    """Ids of `<s> words </s>` for each text, without `<s>` if the tokenizer has none.

    Args:
        id_range: ids of the encoder's embedding; `None` skips the check.

    Raises:
        DataError: a text is empty or not UTF-8, or a word is unknown (or known only in targets); the message has word
            and text.
    """
    return _encode(tokenizer, texts, id_range, "source", add_special_tokens=True)


def encode_targets(
    tokenizer: PreTrainedTokenizerFast, texts: list[str], id_range: range | None = None
) -> list[list[int]]:
    """Ids of `words </s>` for each text: labels. Errors as in `encode_sources`; an empty target is allowed."""
    encoded = _encode(tokenizer, texts, id_range, "target", add_special_tokens=False)
    return [[*ids, tokenizer.eos_token_id] for ids in encoded]


def _encode(tokenizer, texts, id_range, side, add_special_tokens) -> list[list[int]]:
    for text in texts:
        if side == "source" and not text.strip():
            raise DataError("empty input: give at least one word")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            # Python's form of such bytes in arguments and input
            raise DataError(f"{shorten(text)!r}: is not UTF-8; convert it, e.g. with iconv") from error
        if EOS in text or SOS in text:
            raise DataError(f"{shorten(text)!r}: {EOS} and {SOS} mark where a text ends and starts, leave them out")
    vocabulary = tokenizer.get_vocab()
    known = [word for word, token in vocabulary.items() if id_range is None or token in id_range]
    try:
        encoded = tokenizer(texts, add_special_tokens=add_special_tokens)["input_ids"] if texts else []
    except Exception as error:  # the tokenizers library raises bare Exception
        pieces = tokenizer.backend_tokenizer.pre_tokenizer.pre_tokenize_str
        for text in texts:
            for word, _ in pieces(text):
                if word not in vocabulary:
                    raise _unknown_word(word, text, known, side) from error
        raise
    if id_range is not None:
        for text, ids in zip(texts, encoded, strict=True):
            for token in ids:
                if token not in id_range:
                    raise _unknown_word(tokenizer.convert_ids_to_tokens(token), text, known, side)
    return encoded


def _unknown_word(word: str, text: str, vocabulary: Iterable[str], side: str) -> DataError:
    known = sorted(set(vocabulary) - {EOS, SOS})
    # longer words, or a lower cutoff, would take minutes
    near = difflib.get_close_matches(word[:50], known, n=3, cutoff=0.4) or known[:3]
    return DataError(
        f"{shorten(word)!r} in {shorten(text)!r} is not in the {side} vocabulary of {len(known):,} words; "
        f"the closest: {', '.join(near)}"
    )
