"""Read C4's shards, on this machine or elsewhere, document by document."""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from hf_sysgen.data.errors import DamagedData, DataError
from hf_sysgen.data.fetch import DATA_DIR, mirror_folder
from hf_sysgen.data.info import read_info
from hf_sysgen.errors import one_line, shorten

_FIRST = read_info(__file__).config("en").sources["first train shard"]
NUM_SHARDS = {"train": 1_024, "validation": 8}
COLUMNS = ("text", "timestamp", "url")
# bytes that identify a shard among others of the same name
BEGINNING = 4096


class Shard(NamedTuple):
    """The identity of a shard, wherever it is: its file name and, on this machine, a checksum of the beginning of its
    text."""

    name: str
    beginning: str | None

    def is_same(self, other: Shard) -> bool:
        """Whether both are the same, as far as both are known."""
        return self.name == other.name and (None in (self.beginning, other.beginning) or self == other)


def known_shards(split: str, data_dir: str | Path | None = None) -> list[Shard]:
    """The shards of [`shard_addresses`], with the same errors."""
    return [Shard(address.rpartition("/")[2], _beginning(address)) for address in shard_addresses(split, data_dir)]


def _beginning(address: str) -> str | None:
    """The checksum of the text, not of the file, as a shard may have been compressed again or cut short."""
    try:
        with gzip.open(address) as file:
            return hashlib.sha256(file.read(BEGINNING)).hexdigest()[:16]
    except (OSError, EOFError, zlib.error):
        # elsewhere, or damaged: then reading it raises the error
        return None


def shard_names(split: str) -> list[str]:
    """Names of a split's files, in order."""
    total = NUM_SHARDS[split]
    return [f"c4-{split}.{number:05}-of-{total:05}.json.gz" for number in range(total)]


def shard_addresses(split: str, data_dir: str | Path | None = None) -> list[str]:
    """Where a split's shards are, in order.

    Args:
        split: "train" or "validation".
        data_dir: a folder, or the address of one, with `c4/en/` in it. A folder may have only some of the shards.
            Without it: the mirror folder in `HF_SYSGEN_DATA_DIR` if it has shards of the split, else the hub.

    Raises:
        DataError: `data_dir` has no shard of the split, or it or `HF_SYSGEN_DATA_DIR` names no folder.
    """
    names = shard_names(split)
    if data_dir is not None and "://" in str(data_dir):
        return [f"{str(data_dir).rstrip('/')}/c4/en/{name}" for name in names]
    if folder := mirror_folder("c4 en", data_dir):
        paths = [folder / "c4" / "en" / name for name in names]
        if present := [str(path) for path in paths if path.is_file()]:
            return present
        if data_dir is not None:
            raise DataError(
                f"c4 en: no file c4/en/{names[0]} or another shard of {split} in {data_dir}; put some there, "
                f"or leave {DATA_DIR} out to stream them from the hub"
            )
    return [f"hf://datasets/{_FIRST.repository}@{_FIRST.commit}/en/{name}" for name in names]


def write_shards(folder: str | Path, split: str, texts: Sequence[str], count: int) -> None:
    """Write your own text as C4's shards; then give `folder` as `data_dir`.

    Args:
        split: "train" or "validation".
        texts: documents, distributed over the shards in turn.
        count: number of shards, the first ones of the split.

    Raises:
        DataError: a document is not text, or the split has no such number of shards.
    """
    if not 1 <= count <= NUM_SHARDS[split]:
        raise DataError(f"count={count}: {split} has 1 to {NUM_SHARDS[split]} shards; give a number of them")
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(f"document {row} is not text but {shorten(text)}; leave it out")
    for number, name in enumerate(shard_names(split)[:count]):
        path = Path(folder, "c4", "en", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        documents = ({"text": text, "timestamp": "", "url": ""} for text in texts[number::count])
        # no time stamp, so that the same texts make the same files
        path.write_bytes(gzip.compress("".join(json.dumps(one) + "\n" for one in documents).encode(), mtime=0))


def read_documents(address: str) -> Iterator[dict[str, str]]:
    """Stream the documents of one shard; nothing is kept on the disk.

    Raises:
        DataError: the shard is not available, or is not a gzipped file of JSON lines with the columns of C4.
    """
    from datasets.utils.file_utils import xopen

    line_number = 0
    try:
        with xopen(address, "rb") as raw, gzip.open(raw, "rt", encoding="utf-8") as lines:
            for line in lines:
                line_number += 1
                document = json.loads(line)
                for column in COLUMNS:
                    if not isinstance(document[column], str):
                        raise TypeError(f"{column} is no text but a {type(document[column]).__name__}")
                # fails for half of a surrogate pair, which JSON allows
                document["text"].encode()
                yield {column: document[column] for column in COLUMNS}
    # network errors and gzip's error for another format are OSErrors; zlib has its own for damaged files
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError, RecursionError) as error:
        is_absent = isinstance(error, OSError) and not isinstance(error, gzip.BadGzipFile)
        raise (DataError if is_absent else DamagedData)(
            f"c4 en: cannot read {address} after line {line_number} ({one_line(error)}); check the network or replace "
            "the file"
        ) from error
