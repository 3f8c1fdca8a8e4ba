"""
Translate with a checkpoint as a stranger would: `python -I stranger.py FOLDER SENTENCE ...`, with transformers and
torch, through the Auto classes and the checkpoint's own code. This package is made impossible to import first.
"""

import sys


class Absent:
    """An import hook that hides this package, installed or not."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "hf_sysgen":
            raise ModuleNotFoundError(f"{name} is hidden: a checkpoint must load without it")
        return None


def main(folder, sentences):
    sys.meta_path.insert(0, Absent())
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, trust_remote_code=True)
    batch = tokenizer(sentences, padding=True, return_tensors="pt")
    for words in tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True):
        print(words)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
