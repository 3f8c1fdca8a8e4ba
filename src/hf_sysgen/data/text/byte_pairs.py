"""A tokenizer of subwords, trained on a stream of text: what language models read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from hf_sysgen.data.errors import DataError
from hf_sysgen.data.registry import benchmark_info, load_benchmark
from hf_sysgen.data.text.vocabulary import EOS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

BYTES = 256


def train_byte_pairs(texts: Iterable[str], vocab_size: int = 32_000) -> PreTrainedTokenizerFast:
    """
    Byte-pair encoding over bytes (Sennrich et al. 2016, Radford et al. 2019): every text can be written, and is
    decoded to itself. The same texts give the same tokenizer.

    Args:
        texts: gone through once; not kept, but for the number of times that each word occurs.
        vocab_size: subwords, all 256 bytes and `</s>` included; `</s>` is id 0 and is never made of text's bytes.

    Raises:
        DataError: `vocab_size` is too small, or the texts are too few for it.
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
        # `</s>` in the text of others is text
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
    Train a tokenizer on the first documents of a benchmark's training text and put it into a folder, where
    `AutoTokenizer.from_pretrained` and a recipe's `tokenizer` find it.

    Returns:
        the number of documents and of their characters.

    Raises:
        DataError: the folder has a tokenizer, or cannot be made; the benchmark has no text; see `train_byte_pairs`,
            `load_benchmark`.
    """
    if (folder / "tokenizer.json").exists():
        raise DataError(f"{folder} has a tokenizer, which is not overwritten; give another folder, or remove it")
    if (task := benchmark_info(benchmark).task) != "language_modeling":
        raise DataError(f"{benchmark} is no text for language models, its task is {task}; give c4")
    try:
        # before the text is read, which takes hours; `save_pretrained` says nothing where a file is in the way
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder}: cannot be written to: {error}") from error
    counts = [0, 0]

    def counted() -> Iterator[str]:
        for document in islice(load_benchmark(benchmark, data_dir=data_dir)["train"], documents):
            counts[0] += 1
            counts[1] += len(document["text"])
            yield document["text"]

    tokenizer = train_byte_pairs(counted(), vocab_size)
    try:
        tokenizer.save_pretrained(folder)
    except OSError as error:
        raise DataError(f"{folder}: cannot be written to: {error}") from error
    return counts[0], counts[1]
