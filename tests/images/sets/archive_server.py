"""A web server on loopback that serves an archive, and misbehaves as it is told to."""

from __future__ import annotations

import hashlib
import socket
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class ArchiveServer:
    """Serves ``files`` (path to bytes). All faults are by path.

    Attributes:
        log: what was asked: method, path, Range header, status.
        cuts: lengths after which the connection is cut, one for each GET to come.
        extra_length: what is added to Content-Length.
        status: an answer instead of the file; for so many requests (-1: always).
        redirects: where the file is instead.
        stalls: bytes after which nothing comes any more, once.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.files: dict[str, bytes] = {}
        self.log: list[tuple[str, str, str, int]] = []
        self.cuts: dict[str, list[int]] = {}
        self.extra_length: dict[str, int] = {}
        self.status: dict[str, tuple[int, int]] = {}
        self.redirects: dict[str, str] = {}
        self.stalls: dict[str, int] = {}
        self.ranges = self.etags = self.heads = True
        self.closing = threading.Event()
        archive = self

        class Handler(_Handler):
            served = archive

        self.http = _Server(("127.0.0.1", 0), Handler)
        if tls:
            self.http.socket = tls.wrap_socket(self.http.socket, server_side=True)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.http.server_port}"
        self._thread = threading.Thread(target=self.http.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self.closing.set()
        self.http.shutdown()
        self._thread.join()
        self.http.server_close()

    def gets(self, name: str) -> list[tuple[str, int]]:
        """Range and status of the GETs of the file of that name."""
        return [
            (asked, code)
            for method, path, asked, code in self.log
            if method == "GET" and path.endswith(f"/{name}")
        ]


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: clients go away when a test kills them."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    served: ArchiveServer

    def log_message(self, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        if self.served.heads:
            self.answer()
        else:
            self.plain(501)

    def do_GET(self) -> None:
        self.answer()

    def answer(self) -> None:
        served, path = self.served, self.path
        code, times = served.status.get(path, (0, 0))
        if times:
            served.status[path] = (code, times - 1)
            return self.plain(code)
        if path in served.redirects:
            return self.plain(302, {"Location": served.redirects[path]})
        if path not in served.files:
            return self.plain(404)
        content = served.files[path]
        etag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
        headers = {"ETag": etag} if served.etags else {}
        begin = self.range_start()
        if begin and served.ranges and self.headers.get("If-Range", etag) == etag:
            if begin >= len(content):
                return self.plain(416, {"Content-Range": f"bytes */{len(content)}"})
            headers["Content-Range"] = f"bytes {begin}-{len(content) - 1}/{len(content)}"
            self.send(206, headers, content[begin:])
        else:
            self.send(200, headers, content)

    def range_start(self) -> int:
        text = self.headers.get("Range", "")
        return int(text.removeprefix("bytes=").rstrip("-")) if text else 0

    def plain(self, code: int, headers: dict[str, str] | None = None) -> None:
        self.send(code, headers or {}, b"")

    def send(self, code: int, headers: dict[str, str], body: bytes) -> None:
        served, path = self.served, self.path
        served.log.append((self.command, path, self.headers.get("Range", ""), code))
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) + served.extra_length.get(path, 0)))
        self.end_headers()
        if self.command == "HEAD" or code not in (200, 206):
            return
        cuts = served.cuts.get(path)
        cut = cuts.pop(0) if cuts else None
        stall = served.stalls.pop(path, None)
        self.wfile.write(body[: cut if cut is not None else stall])
        self.wfile.flush()
        if stall is not None:
            served.closing.wait(30)
        if cut is not None or stall is not None or path in served.extra_length:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_WR)
