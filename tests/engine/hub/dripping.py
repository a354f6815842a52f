"""A server that sends each answer byte by byte and never ends it."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator


@contextlib.contextmanager
def dripping_server(beginning: bytes, drip: bytes = b"a", pause_s: float = 0.02) -> Iterator[str]:
    """The address of a server that answers with ``beginning`` and then with ``drip``, for ever."""
    listener = socket.create_server(("127.0.0.1", 0))
    is_over = threading.Event()

    def answer(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            connection.recv(1 << 16)
            connection.sendall(beginning)
            while not is_over.is_set():
                connection.sendall(drip)
                time.sleep(pause_s)

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        is_over.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
