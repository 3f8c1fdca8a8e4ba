"""
A small T5 of transformers with random weights and the words of SCAN, in a folder that a recipe takes as its pretrained
checkpoint: `python perf/random_t5.py [FOLDER]`. It stands in for a checkpoint of the hub; nothing is pretrained in it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from transformers import T5Config, T5ForConditionalGeneration

from hf_sysgen.data import load_benchmark
from hf_sysgen.data.text.vocabulary import build_vocabulary

FOLDER = Path("runs/random_t5")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    folder = parser.parse_args().folder
    train = load_benchmark("scan", "length_cutoff_26")["train"]
    tokenizer = build_vocabulary(train["input"][:], train["target"][:], joint=True, start=False).tokenizer
    end = tokenizer.eos_token_id
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=len(tokenizer), d_model=96, d_kv=24, d_ff=256, num_layers=2, num_heads=4,
        pad_token_id=end, eos_token_id=end, decoder_start_token_id=end,
    )  # fmt: skip
    T5ForConditionalGeneration(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    print(folder)


if __name__ == "__main__":
    main()
