"""
Predict with a checkpoint without this package: `python -I isolated.py FOLDER` reads a JSON list of sentences, and
writes a list of predictions and how many of them did not end. Uses only torch, transformers' Auto classes and the
checkpoint's own code. An import of this package raises an error.
"""

import json
import sys
from typing import Any


class ImportBlocker:
    """An import hook that hides this package, installed or not."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "hf_sysgen":
            raise ModuleNotFoundError(f"{name} is hidden: a checkpoint must load without it")
        return None


def main(folder):
    sys.meta_path.insert(0, ImportBlocker())
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    # they come when the checkpoint has been found right; none of its code runs before
    sentences = json.load(sys.stdin)
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
    # padding is known from the mask
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    config = AutoConfig.from_pretrained(folder, trust_remote_code=True)
    alone = not config.is_encoder_decoder
    auto_class: Any = AutoModelForCausalLM if alone else AutoModelForSeq2SeqLM
    model = auto_class.from_pretrained(folder, trust_remote_code=True)
    template = getattr(config, "prompt_template", None) or "{input}"
    prompts, side = [template.replace("{input}", text) for text in sentences], "left" if alone else "right"
    batch = tokenizer(prompts, padding=True, padding_side=side, return_tensors="pt")
    # a decoder's output begins with its input, an encoder-decoder's with the start token, which may be EOS
    generated = model.generate(**batch)[:, batch["input_ids"].shape[1] if alone else 1 :]
    cut = len(sentences) - int((generated == tokenizer.eos_token_id).any(dim=1).sum())
    print("\n" + json.dumps([tokenizer.batch_decode(generated, skip_special_tokens=True), cut]))


if __name__ == "__main__":
    main(sys.argv[1])
