"""One running app per data folder: a lock file, and a local socket by which a second start raises the first."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QLockFile, QObject, Signal

if TYPE_CHECKING:
    from PySide6.QtNetwork import QLocalServer, QLocalSocket

_log = logging.getLogger(__name__)

ANSWER_WAIT_MS = 1000
_TRY_AGAIN_S = 0.02
MAX_MESSAGE_BYTES = 1 << 16


class SingleInstance(QObject):
    """Holds the lock of a data folder, or knows that another process does.

    Signals:
        raise_requested(model path): the app was started a second time, with a model file or with "".
    """

    raise_requested = Signal(str)

    def __init__(self, lock_file: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._lock_file = lock_file
        self._lock = QLockFile(str(lock_file))
        self._lock.setStaleLockTime(
            0
        )  # never by age; the lock of a process that is gone is taken over all the same
        self._server: QLocalServer | None = None

    def acquire(self) -> bool:
        """Take the lock; False when another running app has it.

        A folder in which no lock can be made has no chats that two apps could write, so it counts as taken.
        """
        try:
            self._lock_file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            _log.warning("no lock: %s", error)
            return True
        if self._lock.tryLock(0):
            return True
        return self._lock.error() != QLockFile.LockError.LockFailedError

    def raise_other(self, model: Path | None = None) -> bool:
        """Ask the running app to show its window, and to load ``model``; False when it does not answer."""
        from PySide6.QtNetwork import QLocalSocket

        socket = QLocalSocket()
        ends = time.monotonic() + ANSWER_WAIT_MS / 1000
        socket.connectToServer(self._server_name())
        while not socket.waitForConnected(ANSWER_WAIT_MS):
            if time.monotonic() > ends:
                return False
            time.sleep(_TRY_AGAIN_S)  # it has the lock already but does not listen yet
            socket.connectToServer(self._server_name())
        text = "" if model is None else str(model)
        message = json.dumps({"model": text})  # ASCII: a name that is no UTF-8 comes through as well
        socket.write(message.encode("ascii") + b"\n")
        is_sent = bool(socket.waitForBytesWritten(ANSWER_WAIT_MS))
        socket.disconnectFromServer()
        return is_sent

    def release(self) -> None:
        """Let another app start."""
        if self._server is not None:
            self._server.close()
        self._lock.unlock()

    def listen(self) -> None:
        """Let a second start reach this one; later than the lock, for it takes time that the window waits for."""
        from PySide6.QtNetwork import QLocalServer

        if not self._lock.isLocked():
            return
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        QLocalServer.removeServer(self._server_name())  # what a killed process left; the lock says it is ours
        self._server.newConnection.connect(self._on_connection)
        if not self._server.listen(self._server_name()):
            _log.warning("a second start cannot reach this one: %s", self._server.errorString())

    def _on_connection(self) -> None:
        assert self._server is not None
        while (socket := self._server.nextPendingConnection()) is not None:
            socket.disconnected.connect(socket.deleteLater)
            socket.readyRead.connect(self._on_ready)
            if socket.canReadLine():
                self._on_message(socket)

    def _on_ready(self) -> None:
        # The sender, not a closure over it: a slot that keeps its own socket alive crashes when that is deleted.
        from PySide6.QtNetwork import QLocalSocket

        socket = self.sender()
        if isinstance(socket, QLocalSocket):
            self._on_message(socket)

    def _on_message(self, socket: QLocalSocket) -> None:
        if not socket.canReadLine():
            if socket.bytesAvailable() > MAX_MESSAGE_BYTES:
                socket.abort()
            return
        try:
            message = json.loads(bytes(socket.readLine(MAX_MESSAGE_BYTES).data()))
            model = message["model"]
        except (ValueError, TypeError, KeyError, RecursionError):
            return
        self.raise_requested.emit(model if isinstance(model, str) else "")

    def _server_name(self) -> str:
        import hashlib

        digest = hashlib.sha256(str(self._lock_file).encode("utf-8", "surrogateescape")).hexdigest()
        return f"fireside-{digest[:16]}"
