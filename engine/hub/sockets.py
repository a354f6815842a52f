"""Ends requests from outside: at a deadline, or because a person wants it, whatever the other side sends.

The time limits of the HTTP library are for one read, so an answer of a byte now and then never meets them.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any


class Sockets:
    """The sockets that some requests opened. Any thread may shut them."""

    def __init__(self) -> None:
        self._sockets: list[Any] = []
        self._lock = threading.Lock()

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """The ``trace`` extension of a request: learns of each connection as it is made."""
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            opened = info["return_value"].get_extra_info("socket")
            with self._lock:
                self._sockets = [known for known in self._sockets if known.fileno() >= 0]
                self._sockets.append(opened)

    def shut(self) -> None:
        """Cut them; who waits for one of them goes on with an error or an end."""
        with self._lock:
            for opened in self._sockets:
                with contextlib.suppress(OSError):
                    opened.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def time_limit(seconds: float, shut: Callable[[], None]) -> Iterator[threading.Event]:
    """Meanwhile ``shut`` is called once after ``seconds``; the event tells whether it was."""
    is_over = threading.Event()

    def end() -> None:
        is_over.set()
        shut()

    timer = threading.Timer(max(0.0, seconds), end)
    timer.daemon = True
    timer.start()
    try:
        yield is_over
    finally:
        timer.cancel()
