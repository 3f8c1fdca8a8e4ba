"""Where a benchmark's files come from: pinned, mirrored, checked.

A `Source` names one file of one upstream commit and the sha256 of its content, or the id that git gives to that
content where nothing else is known. `locate` turns it into a local path, and never returns a path whose content does
not have that checksum. Where nobody knows one, the first content seen counts.
"""

from __future__ import annotations

import errno
import functools
import gzip
import hashlib
import logging
import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, cast
from urllib.parse import quote

from hf_sysgen.data.download import DownloadError, download, one_line
from hf_sysgen.errors import UserError
from hf_sysgen.files import write_whole

DATA_DIR_VARIABLE = "HF_SYSGEN_DATA_DIR"
GITHUB = "https://raw.githubusercontent.com"

log = logging.getLogger(__name__)


class DataError(UserError):
    """A benchmark's data is missing, wrong or asked for by a wrong name. The message is one line."""


class DamagedData(DataError):
    """A benchmark's file is there, but is not what it must be: cut short, changed, or another file."""


@dataclass(frozen=True)
class Source:
    """One upstream file, frozen.

    A file on another host is a `WebSource`, a file of an archive a `MemberSource`.

    Attributes:
        repository: "owner/name" on GitHub.
        commit: full commit hash.
        path: path inside the repository at that commit.
        sha256: hexadecimal digest of the upstream content, None where it is not known.
        num_bytes: size of the upstream content, in bytes, None where it is not known.
        licence: what the upstream repository allows.
        mirror: path inside a mirror folder; the file may stand there gzipped, with ".gz" appended to its name.
        rebuild: makes the same bytes without a network, where the benchmark's definition allows it.
        git_blob: hexadecimal id that git gives to the content, which the upstream tree records of every file. It pins a
            file that nobody could read when the source was written, and is looked at only where there is no `sha256`.
            Without either, the sha256 of the first content seen on a machine is kept in its cache, and any later
            difference is an error.
    """

    repository: str
    commit: str
    path: str
    sha256: str | None
    num_bytes: int | None
    licence: str
    mirror: str
    rebuild: Callable[[], bytes] | None = field(default=None, repr=False, compare=False)
    git_blob: str = field(default="", kw_only=True)

    @property
    def checksum(self) -> str:
        """The digest that pins the content: the sha256, the git blob id where there is none, or ""."""
        return self.sha256 or self.git_blob

    @property
    def checksum_kind(self) -> str:
        return "git blob id" if self.git_blob and not self.sha256 else "sha256"

    @property
    def url(self) -> str:
        return f"{GITHUB}/{self.repository}/{self.commit}/{quote(self.path)}"

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


@dataclass(frozen=True)
class MemberSource(Source):
    """One file of an upstream archive. A mirror has the file itself, or the archive, which the cache gets it out of.

    Attributes:
        path: path inside the archive; checksum and size are those of the file, too.
        archive: the archive, which is looked for and kept like any file.
    """

    archive: Source = field(kw_only=True)

    @property
    def url(self) -> str:
        return self.archive.url

    @property
    def name(self) -> str:
        return f"{self.archive.name}!{self.path}"


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
        DataError: the file is absent, cannot be had, cannot be written to the cache, or has another sha256.
    """
    if data_dir is not None:
        folder, wanted = Path(data_dir).expanduser(), f"{source.mirror}[.gz]"
        if path := _find(folder, source, cache_dir):
            return path
        if isinstance(source, MemberSource):
            if any(path.is_file() for path, _ in _places(folder, source.archive)):
                return _cached(source, cache_dir, data_dir)
            wanted += f" and no archive {source.archive.mirror}"
        raise DataError(
            f"{source.name}: no file {wanted} in data_dir {data_dir}; "
            "put it there, or leave data_dir out to have it fetched"
        )
    # a mirror may hold some benchmarks only
    if (mirror := mirror_folder(source.name)) and (path := _find(mirror, source, cache_dir)):
        return path
    return _cached(source, cache_dir)


def mirror_folder(what: str) -> Path | None:
    """The mirror folder that `HF_SYSGEN_DATA_DIR` names, None where it is not set.

    Args:
        what: what is looked for, for the error.

    Raises:
        DataError: there is no such folder.
    """
    if not (named := os.environ.get(DATA_DIR_VARIABLE)):
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise DataError(f"{what}: {DATA_DIR_VARIABLE}={named} is not a folder; correct or unset it")
    return folder


def as_found(source: Source, data_dir: str | Path | None = None) -> Source | None:
    """The source pinned to what the mirror folder has of it, None where there is no such file.

    For what users make themselves: nobody else can say what it holds.

    Raises:
        DataError: `HF_SYSGEN_DATA_DIR` names no folder; DamagedData: the file cannot be read.
    """
    folder = Path(data_dir).expanduser() if data_dir is not None else mirror_folder(source.name)
    for path, opener in _places(folder, source) if folder else ():
        if path.is_file():
            try:
                num_bytes, sha256 = _digest(path, opener, "sha256")
            except (EOFError, OSError, zlib.error) as error:
                raise DamagedData(f"{source.name}: cannot read {path} ({one_line(error)}); make it anew") from error
            return replace(source, sha256=sha256, num_bytes=num_bytes)
    return None


def open_file(path: str | Path) -> BinaryIO:
    """Open a located file for reading bytes, through gzip where its name ends in ".gz"."""
    return cast(BinaryIO, gzip.open(path, "rb")) if str(path).endswith(".gz") else open(path, "rb")


def read_lines(path: str | Path) -> list[str]:
    """The lines of a located UTF-8 file. Only a newline ends a line; the last one may lack it."""
    with open_file(path) as stream:
        lines = stream.read().decode("utf-8").split("\n")
    return lines if lines[-1] else lines[:-1]


def no_space(error: BaseException) -> bool:
    """Whether a file could not be written because the disk, or what one may use of it, is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _find(folder: Path, source: Source, cache_dir: str | Path | None) -> Path | None:
    """The checked file in a mirror folder, or None where the folder has none."""
    for path, opener in _places(folder, source):
        if path.is_file():
            _check(source, path, opener, "delete or replace that file", cache_dir)
            return path
    return None


def _places(folder: Path, source: Source) -> tuple[tuple[Path, Callable], ...]:
    """Where a mirror folder may have a file, each with what opens it."""
    plain = folder / source.mirror
    return (plain, open), (plain.with_name(plain.name + ".gz"), gzip.open)


def _check(source: Source, path: Path, opener: Callable, advice: str, cache_dir: str | Path | None) -> None:
    """Raise a DataError unless the file's content is the source's."""
    kind, expected = source.checksum_kind, source.checksum
    try:
        num_bytes, found = _digest(path, opener, kind)
    except (EOFError, OSError, zlib.error) as error:
        raise DamagedData(f"{source.name}: cannot read {path} ({one_line(error)}); {advice}") from error
    what = f"{path} has {num_bytes} bytes with {kind} {found}"
    if not expected:
        if source.num_bytes not in (None, num_bytes):
            raise DamagedData(f"{source.name}: {what}, expected {source.num_bytes} bytes; {advice}")
        expected, record = _recorded(source, found, cache_dir)
        advice += (
            f"; expected is what the first content seen here had: to accept another, delete {record} and what was "
            f"prepared from the first, the benchmark's folder in {record.parent.parent}"
        )
    if found != expected:
        size = "" if source.num_bytes is None else f"{source.num_bytes} bytes with "
        raise DamagedData(f"{source.name}: {what}, expected {size}{kind} {expected}; {advice}")


def _digest(path: Path, opener: Callable, kind: str) -> tuple[int, str]:
    """Size of a file's content, in bytes, and its hexadecimal sha256 or git blob id."""
    now = path.stat()
    return _digest_of(path, opener, kind, (now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns))


# an archive is asked for anew by each of its files
@functools.lru_cache
def _digest_of(path: Path, opener: Callable, kind: str, state: tuple[int, ...]) -> tuple[int, str]:
    """As `_digest`; a file is read again only in another state."""
    # git puts the size before the content, which is read twice for it
    start = b"" if kind == "sha256" else b"blob %d\0" % sum(map(len, _chunks(path, opener)))
    digest, num_bytes = (hashlib.sha256 if kind == "sha256" else hashlib.sha1)(start), 0
    for chunk in _chunks(path, opener):
        digest.update(chunk)
        num_bytes += len(chunk)
    return num_bytes, digest.hexdigest()


def _chunks(path: Path, opener: Callable) -> Iterator[bytes]:
    with opener(path, "rb") as stream:
        while chunk := stream.read(1 << 20):
            yield chunk


def _recorded(source: Source, found: str, cache_dir: str | Path | None) -> tuple[str, Path]:
    """The digest that the first content of this source had here, and the file that says so."""
    path = _entry(source, cache_dir)
    record = path.with_name(path.name + ".sha256")
    try:
        if not record.is_file():
            record.parent.mkdir(parents=True, exist_ok=True)
            write_whole(record, f"{found}  {path.name}\n".encode())
        return record.read_text(encoding="utf-8").split()[0], record
    except OSError as error:
        raise _unwritable(source, record.parent, error) from error


def _entry(source: Source, cache_dir: str | Path | None) -> Path:
    """The file's path in the cache."""
    if cache_dir is None:
        import datasets

        cache_dir = datasets.config.HF_DATASETS_CACHE
    # where the content's digest is not known, that of the address stands for it; an archive's files share one
    key = source.checksum or f"url-{hashlib.sha256(f'{source.url} {source.path}'.encode()).hexdigest()}"
    return Path(cache_dir).expanduser() / "downloads" / f"{key}-{Path(source.path).name}"


def _cached(source: Source, cache_dir: str | Path | None, data_dir: str | Path | None = None) -> Path:
    """The file in the cache, put there first if needed; `data_dir` may have the archive that it is a member of.

    A file gets its name, in one step, only after its content was checked, by the process that holds its lock. So what
    an interrupted process leaves can be gone on with, but never be taken for the file.
    """
    path = _entry(source, cache_dir)
    if _is_whole(source, path, cache_dir):
        return path
    import filelock

    unfinished = path.with_name(path.name + ".unfinished")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(f"{path}.lock"):
            # another process may have been at it
            if not _is_whole(source, path, cache_dir):
                if path.is_file():
                    log.warning("%s: %s was damaged after it was checked; getting it anew", source.name, path)
                _fill(source, unfinished, cache_dir, data_dir)
                os.replace(unfinished, path)
    except OSError as error:
        raise _unwritable(source, path.parent, error) from error
    return path


def _is_whole(source: Source, path: Path, cache_dir: str | Path | None) -> bool:
    """Whether the cache has the file. One that was damaged on disk after it was checked is replaced."""
    with suppress(DataError):
        if path.is_file():
            _check(source, path, open, "", cache_dir)
            return True
    return False


def _fill(source: Source, path: Path, cache_dir: str | Path | None, data_dir: str | Path | None) -> None:
    """Make or download the file, and check it. Only a download that broke off stays, for the next attempt."""
    downloaded = source.rebuild is None and not isinstance(source, MemberSource)
    resumed = bool(source.checksum) and path.is_file() and downloaded
    try:
        if not resumed:
            path.unlink(missing_ok=True)
        if source.rebuild is not None:
            path.write_bytes(source.rebuild())
            advice = "the rebuilt file is not the upstream one: reinstall hf-sysgen"
        elif isinstance(source, MemberSource):
            _extract(source, path, cache_dir, data_dir)
            advice = f"upstream's archive is not the one expected: set {DATA_DIR_VARIABLE} to a folder that holds it"
        else:
            _download(source, path)
            advice = (
                f"it came from {source.url}, and upstream or something on the way has changed it: try again, "
                f"or set {DATA_DIR_VARIABLE} to a folder that holds {source.mirror}"
            )
        _check(source, path, open, advice, cache_dir)
    except (OSError, DataError) as error:
        kept = isinstance(error.__cause__, DownloadError) and bool(source.checksum)
        if not kept:
            path.unlink(missing_ok=True)
        if not (resumed and isinstance(error, DataError)) or kept:
            raise
        # the beginning that an earlier process left was not this file's
        _fill(source, path, cache_dir, data_dir)


def _extract(source: MemberSource, path: Path, cache_dir: str | Path | None, data_dir: str | Path | None) -> None:
    # archives.py raises DataError
    from hf_sysgen.data.archives import open_member

    archive = locate(source.archive, data_dir, cache_dir)
    with open_member(archive, source.path) as member, open(path, "wb") as file:
        shutil.copyfileobj(member, file)


def _download(source: Source, path: Path) -> None:
    import datasets

    advice = f"set {DATA_DIR_VARIABLE} to a folder that holds {source.mirror}"
    if datasets.config.HF_HUB_OFFLINE and not source.url.startswith("file:"):
        raise DataError(
            f"{source.name}: cannot download {source.url} in offline mode; unset HF_HUB_OFFLINE and "
            f"HF_DATASETS_OFFLINE, or {advice}"
        )
    try:
        download(source.url, path, f"Downloading {source.name}")
    except DownloadError as error:
        raise DataError(
            f"{source.name}: cannot download {source.url} ({error}); check the network and the address, or {advice}"
        ) from error


def _unwritable(source: Source, folder: Path, error: OSError) -> DataError:
    if no_space(error):
        size = "its size is not known" if source.num_bytes is None else f"it has {source.num_bytes:,} bytes"
        return DataError(
            f"{source.name}: no space left in {folder} ({one_line(error)}): {size}; free some, "
            "or set HF_DATASETS_CACHE to a folder on another disk"
        )
    return DataError(
        f"{source.name}: cannot write in {folder} ({one_line(error)}); set HF_DATASETS_CACHE to a folder that you may "
        "write in"
    )
