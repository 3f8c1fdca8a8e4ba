"""Small checkpoints of transformers' own model types with random weights and tokenizers of their own, as on the hub."""

from __future__ import annotations

from pathlib import Path

import torch
from tiny_runs import short_scan
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

KINDS = ("t5", "llama", "gpt2")


def make(folder: Path, kind: str) -> Path:
    """A checkpoint of one of `KINDS`; its tokenizer splits SCAN's words into pieces."""
    texts = [text for column in ("input", "target") for text in short_scan()["train"][column]]
    tokenizer = (pieces if kind == "t5" else byte_pairs)(texts)
    torch.manual_seed(0)
    size = len(tokenizer)
    if kind == "t5":
        config = T5Config(
            vocab_size=size, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4,
            decoder_start_token_id=0, pad_token_id=0, eos_token_id=1,
        )  # fmt: skip
        model = T5ForConditionalGeneration(config)
    elif kind == "llama":
        model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=size,
                hidden_size=32,
                intermediate_size=48,
                num_hidden_layers=2,
                num_attention_heads=4,
                num_key_value_heads=2,
                bos_token_id=0,
                eos_token_id=[1, 3],
            )
        )
    else:
        model = GPT2LMHeadModel(
            GPT2Config(vocab_size=size, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=1)
        )
    for weight in model.parameters():
        # far from uniform, so that every position and token counts
        weight.data.mul_(3)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def pieces(texts: list[str]) -> PreTrainedTokenizerFast:
    """As T5's: pieces of words, EOS behind a text, an unknown symbol."""
    backend = Tokenizer(models.Unigram())
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    symbols = ["<pad>", "</s>", "<unk>"]
    backend.train_from_iterator(
        texts, trainers.UnigramTrainer(vocab_size=50, special_tokens=symbols, unk_token="<unk>", show_progress=False)
    )
    backend.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")


def byte_pairs(texts: list[str]) -> PreTrainedTokenizerFast:
    """As Llama 3's: pairs of bytes, a start symbol before a text, no padding."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    backend.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=280, initial_alphabet=alphabet, special_tokens=["<bos>", "<eos>"], show_progress=False
        ),
    )
    backend.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 0)])
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<bos>", eos_token="<eos>")
