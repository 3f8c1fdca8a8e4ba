"""Fetching one file over HTTP, HTTPS or from a file:// address: tried again where that can help, and resumed."""

from __future__ import annotations

import logging
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

# one more than the times that an attempt which brought nothing is repeated
ATTEMPTS = 5
# the same for a host that was never reached: where there is no network, waiting for it is of no use
UNREACHED_ATTEMPTS = 2
# seconds before the second attempt; doubled before each further one
FIRST_WAIT = 0.5
# seconds without a byte
TIMEOUT = 30.0

log = logging.getLogger(__name__)


class DownloadError(Exception):
    """A file cannot be had from its address. The message is one line, without the address."""


class _Passing(Exception):
    """What may be over at the next attempt: a server error, a dropped connection."""


class _Unreached(_Passing):
    """The host's name has no address, or nothing listens there."""


def download(url: str, path: Path, title: str) -> None:
    """Write what stands at `url` to `path`; what `path` holds already is taken for its beginning.

    The client is that of `huggingface_hub`, with the proxies and certificates that it was given. Server errors and
    dropped connections are tried again up to 4 times in a row, after 0.5, 1, 2, 4 s, from where the last one ended; a
    host that was never reached is tried twice.
    The content is not checked: with another beginning in `path`, it is not the upstream file.

    Args:
        url: an http, https or file address.
        path: the file to write; on failure it keeps what came.
        title: for the progress bar.

    Raises:
        DownloadError: the address answers otherwise than with a file, or not at all.
        OSError: `path` cannot be written.
    """
    if url.startswith("file:"):
        origin = Path(url2pathname(urlsplit(url).path))
        if not origin.is_file():
            raise DownloadError("there is no such file")
        shutil.copyfile(origin, path)
        return
    failures, headers, attempts = 0, {"Accept-Encoding": "identity"}, UNREACHED_ATTEMPTS
    while True:
        before = _size(path)
        try:
            _attempt(url, path, headers, title)
            return
        except _Passing as error:
            failures = 1 if _size(path) > before else failures + 1
            if not isinstance(error, _Unreached):
                attempts = ATTEMPTS
            if failures >= attempts:
                raise DownloadError(f"{error}; tried {failures} times") from error
            wait = FIRST_WAIT * 2 ** (failures - 1)
            log.warning("%s: %s; trying again in %g s", title, error, wait)
            time.sleep(wait)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _attempt(url: str, path: Path, headers: dict[str, str], title: str) -> None:
    from huggingface_hub import get_session

    start = _size(path)
    asked = {**headers, "Range": f"bytes={start}-"} if start else headers
    with ExitStack() as stack:
        # the client raises what its layers do: no such host, refused, timed out, no certificate
        try:
            response = stack.enter_context(
                get_session().stream("GET", url, headers=asked, timeout=TIMEOUT, follow_redirects=True)
            )
        except Exception as error:
            unreached = any(isinstance(cause, (socket.gaierror, ConnectionRefusedError)) for cause in causes(error))
            raise (_Unreached if unreached else _Passing)(one_line(error)) from error
        if (etag := response.headers.get("ETag", "W/")) and not etag.startswith("W/"):
            # go on at the next attempt only if it is still the same file
            headers["If-Range"] = etag
        _receive(response, path, start, title)


def _receive(response: Any, path: Path, start: int, title: str) -> None:
    from huggingface_hub.utils import tqdm

    status = response.status_code
    if status in (408, 429) or status >= 500:
        raise _Passing(f"HTTP {status} {response.reason_phrase}")
    resumed = status == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {start}-")
    if status in (206, 416) and not resumed:
        # the file on the server is not one that continues ours
        path.unlink()
        raise _Passing(f"HTTP {status} {response.reason_phrase}")
    if status not in (200, 206):
        raise DownloadError(f"HTTP {status} {response.reason_phrase}")
    length = response.headers.get("Content-Length")
    start = start if resumed else 0
    with (
        open(path, "ab" if resumed else "wb") as file,
        tqdm(
            desc=title,
            total=start + int(length) if length else None,
            initial=start,
            unit="B",
            unit_scale=True,
            disable=None,  # shown on a terminal only
            leave=False,
        ) as bar,
    ):
        chunks = response.iter_bytes()
        while True:
            try:
                chunk = next(chunks, None)
            except Exception as error:
                raise _Passing(one_line(error)) from error
            if chunk is None:
                return
            file.write(chunk)
            bar.update(len(chunk))


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error, and what it was raised from."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
