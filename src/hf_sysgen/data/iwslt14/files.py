"""The text of IWSLT14 German-English: as fairseq's script made it, and made here from the archive of the campaign.

The script is fairseq's `examples/translation/prepare-iwslt14.sh`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from hf_sysgen.data.archives import open_member
from hf_sysgen.data.text.translation import Pair, clean, moses_tokenizer, paired, split_lines

LANGUAGES = ("de", "en")
# the files that make up the test set, in order
EVALUATION = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
MAX_LENGTH, RATIO = 175, 1.5
# every so many cleaned training pairs, one becomes validation
VALIDATION_EVERY = 23

_ABOUT_A_TALK = ("<url>", "<talkid>", "<keywords>")
_TAG = re.compile("</?(?:title|description)>")
_SEGMENT = re.compile(r'<seg id="[0-9]*">\s*|\s*</seg>\s*')


def talk_lines(lines: Iterable[str]) -> list[str]:
    """The text in a train.tags file: sentences, and titles and descriptions of talks."""
    return [_TAG.sub("", line) for line in lines if not any(tag in line for tag in _ABOUT_A_TALK)]


def segment_lines(lines: Iterable[str]) -> list[str]:
    """The segments of an evaluation file, with straight apostrophes."""
    return [_SEGMENT.sub("", line).replace("\u2019", "'") for line in lines if "<seg id" in line]


def prepare(archive: str | Path) -> dict[str, list[Pair]]:
    """
    Train, validation and test set from the campaign's de-en.tgz: tokenized, lowercased, the training text cleaned.

    Cleaning comes before lowercasing; the test set is not cleaned.

    Raises:
        DataError: the archive is damaged or another one; the extra `translation` is not installed.
    """
    tokenizers = {language: moses_tokenizer(language) for language in LANGUAGES}

    def read(name: str, language: str) -> list[str]:
        with open_member(archive, f"de-en/{name}") as stream:
            return split_lines(stream.read(), f"{archive}: member de-en/{name}")

    def tokenized(lines: list[str], language: str) -> list[str]:
        return [tokenizers[language](line) for line in lines]

    talks = [tokenized(talk_lines(read(f"train.tags.de-en.{side}", side)), side) for side in LANGUAGES]
    kept = _lowercased(clean(paired(talks, f"{archive}: train.tags.de-en"), MAX_LENGTH, ratio=RATIO))
    test: list[Pair] = []
    for name in EVALUATION:
        file = f"IWSLT14.{name}.de-en"
        segments = [tokenized(segment_lines(read(f"{file}.{side}.xml", side)), side) for side in LANGUAGES]
        test += _lowercased(paired(segments, f"{archive}: {file}"))
    return {
        "train": [pair for number, pair in enumerate(kept, 1) if number % VALIDATION_EVERY],
        "validation": kept[VALIDATION_EVERY - 1 :: VALIDATION_EVERY],
        "test": test,
    }


def git_blob_id(lines: Iterable[str]) -> str:
    """The git id of a file with these lines."""
    content = "".join(f"{line}\n" for line in lines).encode()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _lowercased(pairs: Iterable[Pair]) -> list[Pair]:
    return [(source.lower(), target.lower()) for source, target in pairs]
