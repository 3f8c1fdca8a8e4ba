"""Get the files of a benchmark: from a mirror, by download or rebuilt, and always checked.

`locate` turns a `Source` into a local path. It never returns a file with another checksum than the source's. Without a
known checksum, the first download is trusted and pinned.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import logging
import os
import shutil
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, cast
from urllib.parse import urlsplit
from urllib.request import url2pathname

import filelock

from hf_sysgen.data.archives import open_member
from hf_sysgen.data.errors import DamagedData, DataError
from hf_sysgen.data.info import Source
from hf_sysgen.errors import is_disk_full, one_line
from hf_sysgen.files import write_atomic

DATA_DIR_VARIABLE = "HF_SYSGEN_DATA_DIR"
# what recipes and Python call the folder, and what commands call it
DATA_DIR = "data_dir or --data-dir"
# attempts if the server has an error, and seconds before the second one, which double each time
ATTEMPTS, FIRST_WAIT = 5, 0.5
Dir = str | Path | None

log = logging.getLogger(__name__)


def locate(source: Source, data_dir: Dir = None, cache_dir: Dir = None) -> Path:
    """Local path of a source's file, with its checksum verified. Read it with `open_file`, as it may be gzipped.

    It comes from the first of: `data_dir`; the mirror folder named by `HF_SYSGEN_DATA_DIR`, if the file is there; the
    cache, which is filled by `source.rebuild` or else from `source.url`.

    Args:
        source: the file.
        data_dir: a folder laid out like a mirror (`<data_dir>/<source.mirror>`). If given, it is the only place.
        cache_dir: root of the cache, defaults to that of `datasets`. Files are kept in its `downloads` folder.

    Raises:
        DataError: the file is missing, cannot be downloaded or written to the cache, or has another sha256.
    """
    folder = mirror_folder(source.name, data_dir)
    if folder and (path := _find(folder, source, cache_dir)):
        return path
    # a mirror may have only some benchmarks
    if folder is None or data_dir is None:
        return _cached(source, cache_dir)
    wanted = f"{source.mirror}[.gz]"
    if archive := source.archive:
        if any(path.is_file() for path, _ in _places(folder, archive)):
            return _cached(source, cache_dir, data_dir)
        wanted += f" and no archive {archive.mirror}"
    raise DataError(
        f"{source.name}: no file {wanted} in {data_dir}; put it there, or leave {DATA_DIR} out to download it"
    )


def mirror_folder(what: str, data_dir: Dir = None) -> Path | None:
    """`data_dir`, or else the mirror folder that `HF_SYSGEN_DATA_DIR` names; None if neither is given.

    Args:
        what: what is looked for; the error names it.

    Raises:
        DataError: there is no such folder.
    """
    named = os.environ.get(DATA_DIR_VARIABLE) or None if data_dir is None else data_dir
    if named is None:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        setting = f"{DATA_DIR_VARIABLE}, or unset it" if data_dir is None else DATA_DIR
        # it is relative to the current folder, which the user may not think of
        path = folder.absolute()
        problem = f"{path} is a file; give its folder as" if path.exists() else f"there is no folder {path}; correct"
        raise DataError(f"{what}: {problem} {setting}")
    return folder


def with_found_checksum(source: Source, data_dir: Dir = None) -> Source | None:
    """The source, with the checksum of the file in the mirror folder; None without that file. For files that users
    make themselves, so that their content is not known in advance.

    Raises:
        DataError: there is no such folder; DamagedData: the file cannot be read.
    """
    folder = mirror_folder(source.name, data_dir)
    for path, opener in _places(folder, source) if folder else ():
        if path.is_file():
            try:
                num_bytes, sha256 = _digest(path, opener, "sha256")
            except (EOFError, OSError, zlib.error) as error:
                raise DamagedData(f"{source.name}: cannot read {path} ({one_line(error)}); replace it") from error
            return replace(source, sha256=sha256, num_bytes=num_bytes)
    return None


def open_file(path: str | Path) -> BinaryIO:
    """Open a located file to read bytes, through gzip if its name ends in ".gz"."""
    return cast(BinaryIO, gzip.open(path, "rb")) if str(path).endswith(".gz") else open(path, "rb")


def read_lines(path: str | Path) -> list[str]:
    """The lines of a located UTF-8 file. Only a newline ends a line; the last line may have none."""
    with open_file(path) as stream:
        lines = stream.read().decode("utf-8").split("\n")
    return lines if lines[-1] else lines[:-1]


def _find(folder: Path, source: Source, cache_dir: Dir) -> Path | None:
    """The checked file in a mirror folder, or None if there is none."""
    for path, opener in _places(folder, source):
        if path.is_file():
            _check(source, path, opener, "delete or replace that file", cache_dir)
            return path
    return None


def _places(folder: Path, source: Source) -> tuple[tuple[Path, Callable], ...]:
    """The paths at which a mirror folder may have a file, each with the function that opens it."""
    plain = folder / source.mirror
    return (plain, open), (plain.with_name(plain.name + ".gz"), gzip.open)


def _check(source: Source, path: Path, opener: Callable, advice: str, cache_dir: Dir) -> None:
    """Raise a DataError if the content of the file is not that of the source."""
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
            f"; expected is the checksum of the first download on this machine: to accept another, delete {record} "
            f"and the data prepared from the first one, the benchmark's folder in {record.parent.parent}"
        )
    if found != expected:
        size = "" if source.num_bytes is None else f"{source.num_bytes} bytes with "
        raise DamagedData(f"{source.name}: {what}, expected {size}{kind} {expected}; {advice}")
    if source.num_bytes not in (None, num_bytes):
        raise DataError(
            f"{source.name}: {path} is the right file and has {num_bytes} bytes; correct num_bytes={source.num_bytes}"
        )


def _digest(path: Path, opener: Callable, kind: str) -> tuple[int, str]:
    """Size of a file's content, in bytes, and its hexadecimal sha256 or git blob id."""
    now = path.stat()
    return _digest_of(path, opener, kind, (now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns))


# cached, because each file of an archive asks for the archive
@functools.lru_cache
def _digest_of(path: Path, opener: Callable, kind: str, state: tuple[int, ...]) -> tuple[int, str]:
    """As `_digest`; a file is read again only if it has changed."""
    # git hashes the size before the content
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


def _recorded(source: Source, found: str, cache_dir: Dir) -> tuple[str, Path]:
    """The digest of this source's first download on this machine, and the file that records it."""
    path = _entry(source, cache_dir)
    record = path.with_name(path.name + ".sha256")
    try:
        if not record.is_file():
            record.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(record, f"{found}  {path.name}\n".encode())
        return record.read_text(encoding="utf-8").split()[0], record
    except OSError as error:
        raise _unwritable(source, record.parent, error) from error


def _entry(source: Source, cache_dir: Dir) -> Path:
    """The file's path in the cache."""
    if cache_dir is None:
        import datasets

        cache_dir = datasets.config.HF_DATASETS_CACHE
    # without a known digest of the content, address and path decide: the members of an archive share the address
    key = source.checksum or f"url-{hashlib.sha256(f'{source.url} {source.path}'.encode()).hexdigest()}"
    return Path(cache_dir).expanduser() / "downloads" / f"{key}-{Path(source.path).name}"


def _cached(source: Source, cache_dir: Dir, data_dir: Dir = None) -> Path:
    """The file in the cache, put there if needed; `data_dir` may have the archive that contains it.

    The process with the file's lock renames it into place after the check. So an interrupted process may leave a
    download to resume, but never a file that looks complete.
    """
    path = _entry(source, cache_dir)
    if _is_whole(source, path, cache_dir):
        return path
    unfinished = path.with_name(path.name + ".unfinished")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(f"{path}.lock"):
            # another process may have finished it meanwhile
            if not _is_whole(source, path, cache_dir):
                if path.is_file():
                    log.warning("%s: %s was damaged after its check; fetching it again", source.name, path)
                _fill(source, unfinished, cache_dir, data_dir)
                os.replace(unfinished, path)
    except OSError as error:
        raise _unwritable(source, path.parent, error) from error
    return path


def _is_whole(source: Source, path: Path, cache_dir: Dir) -> bool:
    """Whether the cache has the undamaged file."""
    with suppress(DataError):
        if path.is_file():
            _check(source, path, open, "", cache_dir)
            return True
    return False


def _fill(source: Source, path: Path, cache_dir: Dir, data_dir: Dir) -> None:
    """Make or download the file, and check it. A broken download stays for the next attempt only if the file is
    pinned."""
    resumable = bool(source.checksum) and source.rebuild is None and source.archive is None
    resumed = resumable and path.is_file()
    try:
        if resumed and _is_whole(source, path, cache_dir):
            # a process was killed after the last byte, before the check
            return
        if not resumed:
            path.unlink(missing_ok=True)
        if source.rebuild is not None:
            path.write_bytes(source.rebuild())
            advice = "the rebuilt file is not the upstream one: reinstall hf-sysgen"
        elif source.archive is not None:
            _extract(source, source.archive, path, cache_dir, data_dir)
            advice = f"upstream's archive is not the one expected: set {DATA_DIR_VARIABLE} to a folder that holds it"
        else:
            _download(source, path)
            advice = (
                f"the file at {source.url} has changed, or the download is damaged: try again, "
                f"or set {DATA_DIR_VARIABLE} to a folder that holds {source.mirror}"
            )
        _check(source, path, open, advice, cache_dir)
    except (OSError, DataError) as error:
        # the next attempt continues this part, unless the disk is full or the content is wrong
        broken_off = resumable and not isinstance(error, (OSError, DamagedData))
        if broken_off and path.is_file() and path.stat().st_size:
            raise
        path.unlink(missing_ok=True)
        if not (resumed and isinstance(error, DataError)):
            raise
        # the part from an earlier process was another file's
        _fill(source, path, cache_dir, data_dir)


def _extract(source: Source, archive: Source, path: Path, cache_dir: Dir, data_dir: Dir) -> None:
    where = locate(archive, data_dir, cache_dir)
    with open_member(where, source.path) as member, open(path, "wb") as file:
        shutil.copyfileobj(member, file)


def _download(source: Source, path: Path) -> None:
    """Download from the source's address. The content of `path` is taken as the beginning."""
    import datasets

    url, advice = source.url, f"set {DATA_DIR_VARIABLE} to a folder that holds {source.mirror}"
    if datasets.config.HF_HUB_OFFLINE and not url.startswith("file:"):
        raise DataError(
            f"{source.name}: cannot download {url} in offline mode; unset HF_HUB_OFFLINE and HF_DATASETS_OFFLINE, or "
            f"{advice}"
        )
    try:
        _fetch(url, path, source.name)
    except DataError as error:
        raise DataError(
            f"{source.name}: cannot download {url} ({error}); check the network and the address, or {advice}"
        ) from error


def _fetch(url: str, path: Path, title: str) -> None:
    """
    Download with the hub's client: it has proxies, certificates and a progress bar, and resumes dropped connections.
    Raises DataError: the reason, without the address.

    pooch restarts after a break, and the largest archive has 2.3 GB. The client does not retry server errors (5xx);
    this does.
    """
    from huggingface_hub.errors import HfHubHTTPError
    from huggingface_hub.file_download import http_get

    if url.startswith("file:"):
        try:
            shutil.copyfile(url2pathname(urlsplit(url).path), path)
        except FileNotFoundError as error:
            raise DataError("there is no such file") from error
        return
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with open(path, "ab") as file:
                # a download that is unpacked on the way cannot be resumed
                headers = {"Accept-Encoding": "identity"}
                http_get(url, file, resume_size=file.tell(), headers=headers, displayed_filename=title)
            return
        except HfHubHTTPError as error:
            status = error.response.status_code
            what = f"HTTP {status} {error.response.reason_phrase}"
            if status == 416:
                # the existing part is not the beginning of this file
                path.unlink()
            elif status < 500:
                raise DataError(what) from error
            if attempt == ATTEMPTS:
                raise DataError(f"{what}; tried {attempt} times") from error
            wait = FIRST_WAIT * 2 ** (attempt - 1)
            log.warning("%s: %s; trying again in %g s", title, what, wait)
            time.sleep(wait)
        except OSError:
            # an error of the disk
            raise
        # errors of the client's layers: no such host, refused, timed out, no certificate
        except Exception as error:
            raise DataError(one_line(error)) from error


def _unwritable(source: Source, folder: Path, error: OSError) -> DataError:
    if is_disk_full(error):
        size = "its size is not known" if source.num_bytes is None else f"it has {source.num_bytes:,} bytes"
        return DataError(
            f"{source.name}: no space left in {folder} ({one_line(error)}): {size}; free some, "
            "or set HF_DATASETS_CACHE to a folder on another disk"
        )
    return DataError(
        f"{source.name}: cannot write in {folder} ({one_line(error)}); set HF_DATASETS_CACHE to a folder that you may "
        "write in"
    )
