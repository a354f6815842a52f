"""Ends requests from outside: at a deadline, or because a person wants it, whatever the other side sends.

The time limits of the HTTP library are for one read, so an answer of a byte now and then never meets them.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Mapping
from typing import Any

_SLICE_S = 1.0


class Sockets:
    """The sockets that some requests opened. Any thread may shut them."""

    def __init__(self) -> None:
        self._sockets: list[Any] = []
        self._connecting = threading.local()  # what this thread made last, and its double while a handshake lasts
        self._limits: set[threading.Event] = set()
        self._is_shut = False
        self._lock = threading.Lock()

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """The ``trace`` extension of a request: learns of each connection as it is made."""
        if event.endswith("start_tls.started"):
            self._double()
        elif event.endswith(("start_tls.complete", "start_tls.failed")):
            self._drop_double()
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._connecting.socket = info["return_value"].get_extra_info("socket")
            self._watch(self._connecting.socket)

    def _double(self) -> None:
        """A handshake takes the socket away and gives another when it is done: a double can be cut meanwhile."""
        with contextlib.suppress(OSError):
            if (opened := getattr(self._connecting, "socket", None)) is not None:
                self._connecting.double = opened.dup()
                self._watch(self._connecting.double)

    def _drop_double(self) -> None:
        """The connection ends with its last socket, so the double must not outlive the handshake."""
        double = self._connecting.__dict__.pop("double", None)
        if double is not None:
            with self._lock:
                self._sockets.remove(double)
            double.close()

    def _watch(self, opened: Any) -> None:
        with self._lock:
            self._sockets = [known for known in self._sockets if known.fileno() >= 0]
            self._sockets.append(opened)
            is_late = self._is_shut or any(limit.is_set() for limit in self._limits)
        if is_late:
            self._cut()

    def shut(self) -> None:
        """Cut them and all that come: who waits for one of them goes on with an error or an end."""
        self._is_shut = True
        self._cut()

    @contextlib.contextmanager
    def limit(self, seconds: float) -> Iterator[threading.Event]:
        """Meanwhile all are cut once after ``seconds``; the event tells whether they were.

        Of time in which this program does not run, because the computer sleeps, a slice counts at most.
        """
        is_over, is_left = threading.Event(), threading.Event()

        def watch() -> None:
            left_s = seconds
            while left_s > 0:
                if is_left.wait(min(left_s, _SLICE_S)):
                    return
                left_s -= _SLICE_S
            is_over.set()
            self._cut()

        with self._lock:
            self._limits.add(is_over)
        threading.Thread(target=watch, daemon=True).start()
        try:
            yield is_over
        finally:
            is_left.set()
            with self._lock:
                self._limits.discard(is_over)

    def _cut(self) -> None:
        with self._lock:
            for opened in self._sockets:
                with contextlib.suppress(OSError):
                    opened.shutdown(socket.SHUT_RDWR)
