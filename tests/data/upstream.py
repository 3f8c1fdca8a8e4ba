"""A local server instead of upstream: files under GitHub's paths, and faults on demand."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

import pytest


class Upstream(ThreadingHTTPServer):
    """Serves `files` (path with leading "/" to content).

    Attributes:
        faults: what the next GETs meet, one each: an HTTP status, "drop" (no answer), "cut" (half of what was asked
            for, then the connection ends), "ignore range" (the whole file, whatever was asked for).
        gets: path and Range header of each GET.
        pause: GETs are answered while it is set.
    """

    daemon_threads = True

    def __init__(self, files: Mapping[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = dict(files)
        self.faults: list[int | str] = []
        self.gets: list[tuple[str, str | None]] = []
        self.pause = threading.Event()
        self.pause.set()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_: Any) -> None:
        """A killed client is not an error of this server."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Upstream

    def do_GET(self) -> None:
        path, asked = unquote(self.path), self.headers.get("Range")
        self.server.gets.append((path, asked))
        self.server.pause.wait(60)
        fault = self.server.faults.pop(0) if self.server.faults else None
        body = self.server.files.get(path)
        if isinstance(fault, int) or body is None:
            self.send_response(fault if isinstance(fault, int) else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if fault == "drop":
            self.close_connection = True
            return
        start = 0
        etag = f'"{hash(body)}"'
        if asked and fault != "ignore range" and self.headers.get("If-Range", etag) == etag:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(body):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(body)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        else:
            self.send_response(200)
        self.send_header("ETag", etag)
        rest = body[start:]
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        if fault == "cut":
            self.close_connection = True
            rest = rest[: len(rest) // 2]
        self.wfile.write(rest)

    def log_message(self, *_: Any) -> None:
        pass


def hurried(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Do not wait between attempts of a download. Returns the list of waits that were skipped."""
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    return waits


@contextmanager
def serving(files: Mapping[str, bytes]) -> Iterator[Upstream]:
    server = Upstream(files)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()
