"""A hub on this machine's loopback: enough of the HTTP interface for the real client, and every kind of trouble.

Two origins, as at the real one: the hub answers for metadata and redirects to a store, which has the bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "hf_right"
PAGE = 2
PIECE = 1 << 14


@dataclass(frozen=True)
class Fault:
    """What one answer does wrong."""

    status: int = 0
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut_after: int | None = None  # bytes of the body
    sleep_s: float = 0.0  # before the answer
    pause_s: float = 0.0  # after each piece
    piece: int = PIECE
    corrupt: bool = False
    ignores_range: bool = False
    length: int | None = None  # what Content-Length claims
    is_chunked: bool = False  # no length at all


@dataclass(frozen=True)
class Asked:
    """One request that came."""

    role: str  # hub or store
    method: str
    path: str
    range: str | None
    authorization: str | None


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """A client that hangs up is part of the tests."""


class LoopbackHub:
    """``faults[role]`` (api, resolve, store) are used up one an answer; ``always[role]`` stay."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.repositories: dict[str, dict[str, Any]] = {}
        self.blobs: dict[str, bytes] = {}
        self.faults: dict[str, list[Fault | None]] = {"api": [], "resolve": [], "store": []}
        self.always: dict[str, Fault] = {}
        self.log: list[Asked] = []
        self.num_sent = 0
        self.is_mirror = False  # a mirror that sifts by the words alone
        self.lock = threading.Lock()
        self._servers = [self._serve("hub"), self._serve("store")]
        scheme = "http" if tls is None else "https"
        self.url, self.store_url = (f"{scheme}://127.0.0.1:{server.server_address[1]}" for server in self._servers)

    def add(self, name: str, files: dict[str, bytes], **facts: Any) -> dict[str, str]:
        """A repository; returns the hash of each file."""
        hashes = {path: hashlib.sha256(data).hexdigest() for path, data in files.items()}
        self.blobs |= {hashes[path]: data for path, data in files.items()}
        sizes = {path: len(data) for path, data in files.items()}
        commit = hashlib.sha1(repr((name, hashes)).encode(), usedforsecurity=False).hexdigest()
        self.repositories[name] = {"hashes": hashes, "sizes": sizes, "sha": commit, "tags": ["gguf"], **facts}
        return hashes

    def close(self) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def fault(self, role: str) -> Fault:
        with self.lock:
            queue = self.faults[role]
            fault = queue.pop(0) if queue else None
        return fault or self.always.get(role) or Fault()

    def asked(self, role: str) -> list[Asked]:
        return [request for request in self.log if request.role == role]

    def _serve(self, role: str) -> ThreadingHTTPServer:
        handler = type("Handler", (_Handler,), {"hub": self, "role": role})
        server = _Server(("127.0.0.1", 0), handler)
        if self._tls is not None:
            server.socket = self._tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        server.daemon_threads = True
        server.block_on_close = False
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return server


@contextlib.contextmanager
def loopback_hub(tls: ssl.SSLContext | None = None) -> Iterator[LoopbackHub]:
    hub = LoopbackHub(tls)
    try:
        yield hub
    finally:
        hub.close()


def _is_wanted(name: str, facts: dict[str, Any], query: dict[str, list[str]]) -> bool:
    """What the hub itself sifts by."""
    owner = name.split("/")[0]
    return (
        all(tag in facts["tags"] for tag in query.get("filter", []))
        and query.get("author", [owner]) == [owner]
        and not ("gated" in query and facts.get("gated"))
    )


class _Handler(BaseHTTPRequestHandler):
    hub: LoopbackHub
    role: str
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None: ...

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        path, query = unquote(url.path), parse_qs(url.query)
        self.hub.log.append(
            Asked(self.role, self.command, path, self.headers["Range"], self.headers["Authorization"])
        )
        role = "store" if self.role == "store" else "api" if path.startswith("/api/") else "resolve"
        fault = self.hub.fault(role)
        time.sleep(fault.sleep_s)
        with contextlib.suppress(ConnectionError):
            if fault.status:
                self._send(fault.status, fault.body, fault.headers)
            elif role == "store":
                self._blob(path[1:], fault)
            elif path == "/api/models":
                self._search(query, url.query)
            else:
                self._repository(path, query, fault)

    def _search(self, query: dict[str, list[str]], text: str) -> None:
        wanted = query.get("search", [""])[0].lower()
        found = [
            self._info(name, facts, with_files=False)
            for name, facts in self.hub.repositories.items()
            if wanted in name.lower() and (self.hub.is_mirror or _is_wanted(name, facts, query))
        ]
        key = query.get("sort", ["trendingScore"])[0]
        if key != "trendingScore":
            found.sort(key=lambda info: info[key], reverse=True)
        start = int(query.get("cursor", ["0"])[0])
        headers = {}
        if start + PAGE < len(found):
            rest = re.sub(r"&cursor=\d+", "", text)
            headers["Link"] = f'<{self.hub.url}/api/models?{rest}&cursor={start + PAGE}>; rel="next"'
        self._json(found[start : start + PAGE], headers)

    def _repository(self, path: str, query: dict[str, list[str]], fault: Fault) -> None:
        match = re.fullmatch(r"/api/models/([^/]+/[^/]+?)(?:/revision/(.+))?", path) or re.fullmatch(
            r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path
        )
        facts = self.hub.repositories.get(match[1]) if match else None
        is_known = self.headers["Authorization"] == f"Bearer {TOKEN}"
        if match is None or facts is None or (facts.get("private") and not is_known):
            self._send(401, b"", {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"})
        elif (match[2] or "main") not in {"main", facts["sha"]}:
            self._send(404, b"", {"X-Error-Code": "RevisionNotFound", "X-Error-Message": "Invalid rev id"})
        elif path.startswith("/api/"):
            self._json(self._info(match[1], facts, with_files=True))
        elif facts.get("gated") and not is_known:
            self._send(401, b"", {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access is restricted"})
        elif match[3] not in facts["hashes"]:
            self._send(404, b"", {"X-Error-Code": "EntryNotFound", "X-Error-Message": "Entry not found"})
        else:
            digest = facts["hashes"][match[3]]
            linked = {"X-Linked-Size": str(facts["sizes"][match[3]]), "X-Linked-ETag": f'"{digest}"'}
            headers = {"Location": f"{self.hub.store_url}/{digest}", "X-Repo-Commit": facts["sha"], **linked}
            self._send(302, b"", headers | fault.headers)

    def _info(self, name: str, facts: dict[str, Any], with_files: bool) -> dict[str, Any]:
        files = [
            {"rfilename": path, "size": facts["sizes"][path]}
            | ({"lfs": {"size": facts["sizes"][path], "sha256": digest, "pointerSize": 134}} if digest else {})
            for path, digest in facts["hashes"].items()
        ]
        return {
            "id": name,
            "modelId": name,
            "sha": facts["sha"],
            "lastModified": facts.get("updated", "2026-01-02T03:04:05.000Z"),
            "private": facts.get("private", False),
            "gated": facts.get("gated", False),
            "downloads": facts.get("downloads", 1),
            "likes": facts.get("likes", 1),
            "tags": facts["tags"],
            "gguf": facts.get("gguf"),
            **({"siblings": files} if with_files else {}),
        }

    def _blob(self, digest: str, fault: Fault) -> None:
        data = self.hub.blobs.get(digest)
        if data is None:
            self._send(404)
            return
        start, stop, status, headers = 0, len(data), 200, {}
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers["Range"] or "")
        if match and not fault.ignores_range:
            start, stop = int(match[1]), min(int(match[2] or len(data)) + 1, len(data))
            if start >= len(data):
                self._send(416, b"", {"Content-Range": f"bytes */{len(data)}"})
                return
            status, headers = 206, {"Content-Range": f"bytes {start}-{stop - 1}/{len(data)}"}
        self.send_response(status)
        length = stop - start if fault.length is None else fault.length
        framing = {"Transfer-Encoding": "chunked"} if fault.is_chunked else {"Content-Length": str(length)}
        for name, value in {**headers, **framing, **fault.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self._body(data[start:stop], fault)

    def _body(self, data: bytes, fault: Fault) -> None:
        if fault.corrupt:
            data = data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :]
        sent = 0
        while sent < len(data):
            if fault.cut_after is not None and sent >= fault.cut_after:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            stop = len(data) if fault.cut_after is None else min(len(data), fault.cut_after)
            piece = data[sent : min(sent + fault.piece, stop)]
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if fault.is_chunked else piece)
            sent += len(piece)
            with self.hub.lock:
                self.hub.num_sent += len(piece)
            if fault.pause_s:
                time.sleep(fault.pause_s)
        if fault.is_chunked:
            self.wfile.write(b"0\r\n\r\n")

    def _json(self, value: object, headers: dict[str, str] | None = None) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json", **(headers or {})})

    def _send(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
