"""Where a benchmark's files come from: pinned, mirrored, checked.

A `Source` names one file of one upstream commit and the sha256 of its content. `locate` turns it into a local path, and
never returns a path whose content does not have that sha256.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import tempfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast
from urllib.parse import quote

DATA_DIR_VARIABLE = "HF_SYSGEN_DATA_DIR"


class DataError(ValueError):
    """A benchmark's data is missing, wrong or asked for by a wrong name. The message is one line."""


@dataclass(frozen=True)
class Source:
    """One upstream file, frozen.

    A file on another host is a `WebSource`.

    Attributes:
        repository: "owner/name" on GitHub.
        commit: full commit hash.
        path: path inside the repository at that commit.
        sha256: hexadecimal digest of the upstream content.
        num_bytes: size of the upstream content, in bytes.
        licence: what the upstream repository allows.
        mirror: path inside a mirror folder; the file may stand there gzipped, with ".gz" appended to its name.
        rebuild: makes the same bytes without a network, where the benchmark's definition allows it.
    """

    repository: str
    commit: str
    path: str
    sha256: str
    num_bytes: int
    licence: str
    mirror: str
    rebuild: Callable[[], bytes] | None = field(default=None, repr=False, compare=False)

    @property
    def url(self) -> str:
        return f"https://raw.githubusercontent.com/{self.repository}/{self.commit}/{quote(self.path)}"

    @property
    def name(self) -> str:
        """`repository@commit:path` with a short commit, for messages."""
        return f"{self.repository}@{self.commit[:8]}:{self.path}"


@dataclass(frozen=True)
class WebSource(Source):
    """One upstream file that is served outside GitHub.

    Attributes:
        repository: who publishes it, for messages.
        commit: the version they give it, "" where they give none.
        path: the file's name.
        address: where it is served.
    """

    address: str = field(kw_only=True)

    @property
    def url(self) -> str:
        return self.address

    @property
    def name(self) -> str:
        return f"{self.repository}{'@' + self.commit if self.commit else ''}:{self.path}"


def locate(source: Source, data_dir: str | Path | None = None, cache_dir: str | Path | None = None) -> Path:
    """Local path of a source's file, checked against its sha256. Read it with `open_file`, as it may be gzipped.

    Taken from the first of: `data_dir`; the mirror folder named by `HF_SYSGEN_DATA_DIR`, if the file is in it; the
    cache, which is filled by `source.rebuild`, or without one from `source.url`.

    Args:
        source: the file.
        data_dir: a folder laid out like a mirror (`<data_dir>/<source.mirror>`). What is asked for by name must be
            there: nothing else is tried.
        cache_dir: root of the cache, defaults to that of `datasets`. Files are kept in its `downloads` folder.

    Raises:
        DataError: the file is absent, cannot be had, or has another sha256.
    """
    if data_dir is not None:
        path = _find(Path(data_dir).expanduser(), source)
        if path is None:
            raise DataError(
                f"{source.name}: no file {source.mirror}[.gz] in data_dir {data_dir}; "
                "put it there, or leave data_dir out to have it fetched"
            )
        return path
    if mirror := os.environ.get(DATA_DIR_VARIABLE):
        folder = Path(mirror).expanduser()
        if not folder.is_dir():
            raise DataError(f"{source.name}: {DATA_DIR_VARIABLE}={mirror} is not a folder; correct or unset it")
        # a mirror may hold some benchmarks only
        if path := _find(folder, source):
            return path
    return _cached(source, cache_dir)


def open_file(path: str | Path) -> BinaryIO:
    """Open a located file for reading bytes, through gzip where its name ends in ".gz"."""
    return cast(BinaryIO, gzip.open(path, "rb")) if str(path).endswith(".gz") else open(path, "rb")


def _find(folder: Path, source: Source) -> Path | None:
    """The checked file in a mirror folder, or None where the folder has none."""
    plain = folder / source.mirror
    zipped = plain.with_name(plain.name + ".gz")
    for path, opener in ((plain, open), (zipped, gzip.open)):
        if path.is_file():
            _check(source, path, opener)
            return path
    return None


def _check(source: Source, path: Path, opener: Callable, origin: str | None = None) -> None:
    """Raise a DataError unless the file's content has the source's sha256."""
    digest, num_bytes = hashlib.sha256(), 0
    where = origin or str(path)
    advice = (
        f"try again, or set {DATA_DIR_VARIABLE} to a folder that holds {source.mirror}"
        if origin
        else "delete or replace that file"
    )
    try:
        with opener(path, "rb") as stream:
            while chunk := stream.read(1 << 20):
                digest.update(chunk)
                num_bytes += len(chunk)
    except (EOFError, OSError, zlib.error) as error:
        raise DataError(f"{source.name}: cannot read {where} ({_one_line(error)}); {advice}") from error
    if digest.hexdigest() != source.sha256:
        raise DataError(
            f"{source.name}: {where} has {num_bytes} bytes with sha256 {digest.hexdigest()}, "
            f"expected {source.num_bytes} bytes with sha256 {source.sha256}; {advice}"
        )


def _cached(source: Source, cache_dir: str | Path | None) -> Path:
    """The file in the cache, put there first if needed.

    A name holds the content's sha256, and a file gets its name, in one step, only after its content was checked. So
    processes may race for it, and an interrupted one leaves nothing that a later one could take for the file.
    """
    if cache_dir is None:
        import datasets

        cache_dir = datasets.config.HF_DATASETS_CACHE
    folder = Path(cache_dir).expanduser() / "downloads"
    path = folder / f"{source.sha256}-{Path(source.path).name}"
    if path.is_file():
        # a file damaged on disk after it was checked is replaced below
        with suppress(DataError):
            _check(source, path, open)
            return path
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        if source.rebuild is not None:
            made, origin = Path(scratch) / "rebuilt", "the rebuilt file"
            made.write_bytes(source.rebuild())
        else:
            made, origin = _download(source, scratch), source.url
        _check(source, made, open, origin)
        os.replace(made, path)
    return path


def _download(source: Source, folder: str) -> Path:
    import datasets

    config = datasets.DownloadConfig(cache_dir=folder, use_etag=False, download_desc=f"Downloading {source.name}")
    try:
        return Path(datasets.DownloadManager(download_config=config).download(source.url))
    # fsspec and aiohttp raise whatever their layers do: not found, refused, timed out, cut short, offline
    except Exception as error:
        raise DataError(
            f"{source.name}: cannot download {source.url} ({_one_line(error)}); "
            f"check the network, or set {DATA_DIR_VARIABLE} to a folder that holds {source.mirror}"
        ) from error


def _one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
