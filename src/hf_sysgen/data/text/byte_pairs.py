"""A subword tokenizer for language models, trained on a stream of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from hf_sysgen.data.errors import DataError
from hf_sysgen.data.registry import benchmark_info, load_benchmark
from hf_sysgen.data.text.vocabulary import EOS
from hf_sysgen.errors import one_line

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

BYTES = 256


def train_byte_pairs(texts: Iterable[str], vocab_size: int = 32_000) -> PreTrainedTokenizerFast:
    """
    Byte-pair encoding over bytes (Sennrich et al. 2016, Radford et al. 2019): it encodes any text, and decoding gives
    the same text. The same texts give the same tokenizer.

    Args:
        texts: read once; only the counts of words are kept in memory.
        vocab_size: subwords, with all 256 bytes and `</s>`. `</s>` has id 0, and no text encodes to it.

    Raises:
        DataError: `vocab_size` is too small, or there is too little text for it.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    if vocab_size <= BYTES:
        raise DataError(f"vocab_size {vocab_size} must be more than {BYTES}: each byte is a subword, and </s>")
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[EOS],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    backend.train_from_iterator(texts, trainer)
    if (found := backend.get_vocab_size()) < vocab_size:
        raise DataError(f"the texts give {found:,} subwords, not {vocab_size:,}; give more text, or ask for fewer")
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token=EOS,
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
        # `</s>` inside a text is text
        split_special_tokens=True,
    )


def save_byte_pairs(
    folder: Path,
    benchmark: str = "c4",
    vocab_size: int = 32_000,
    documents: int = 1_000_000,
    data_dir: str | Path | None = None,
) -> tuple[int, int]:
    """
    Train a tokenizer on the first documents of a benchmark's training text and save it in a folder, for
    `AutoTokenizer.from_pretrained` and `data.tokenizer` of a recipe.

    Returns:
        the number of documents and of their characters.

    Raises:
        DataError: the folder has a tokenizer already, or cannot be created; the benchmark is not text; see also
            `train_byte_pairs`, `load_benchmark`.
    """
    if (folder / "tokenizer.json").exists():
        raise DataError(f"{folder} has a tokenizer already; give another folder, or remove it")
    if (task := benchmark_info(benchmark).task) != "language_modeling":
        raise DataError(f"{benchmark} is not text for language models, its task is {task}; give c4")
    is_new = not folder.exists()
    try:
        # checked before the text is read, which takes hours; `save_pretrained` gives no error if the path is a file
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder}: cannot be written to: {one_line(error)}") from error
    counts = [0, 0]

    def counted() -> Iterator[str]:
        for document in islice(load_benchmark(benchmark, split="train", data_dir=data_dir), documents):
            counts[0] += 1
            counts[1] += len(document["text"])
            yield document["text"]

    try:
        tokenizer = train_byte_pairs(counted(), vocab_size)
    except DataError:
        if is_new:
            folder.rmdir()
        raise
    try:
        tokenizer.save_pretrained(folder)
    except OSError as error:
        raise DataError(f"{folder}: cannot be written to: {one_line(error)}") from error
    return counts[0], counts[1]
