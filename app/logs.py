"""The log file, Qt's messages in it, and what happens to an exception that nobody caught."""

from __future__ import annotations

import faulthandler
import logging
import logging.handlers
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from PySide6.QtCore import QMessageLogContext, QtMsgType, qInstallMessageHandler

from app.translation import tr

_log = logging.getLogger("app")
_qt_log = logging.getLogger("qt")

MAX_LOG_BYTES = 1 << 20
_LEVELS = {
    QtMsgType.QtDebugMsg: logging.DEBUG,
    QtMsgType.QtInfoMsg: logging.INFO,
    QtMsgType.QtWarningMsg: logging.WARNING,
    QtMsgType.QtCriticalMsg: logging.ERROR,
    QtMsgType.QtFatalMsg: logging.CRITICAL,
}


class LogFile(logging.handlers.RotatingFileHandler):
    """The log file at ``path``. Where the disk refuses it, a line on the terminal says so, and the app goes on."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, maxBytes=MAX_LOG_BYTES, backupCount=1, encoding="utf-8")
        self._is_refused = self._has_failed = False  # by the last record, by this one
        self._is_emitting = False

    def emit(self, record: logging.LogRecord) -> None:
        self._has_failed, self._is_emitting = False, True
        super().emit(record)
        self._is_emitting = False
        self._is_refused = self._has_failed

    def flush(self) -> None:
        try:
            super().flush()
        except OSError:
            if self._is_emitting:
                raise  # else it is the end, where the file has to be closed all the same

    def handleError(self, record: logging.LogRecord) -> None:
        error = sys.exception()
        if not isinstance(error, OSError):
            super().handleError(record)  # a mistake in the call, which has a place in the source
            return
        self._has_failed = True
        if not self._is_refused and sys.stderr is not None:
            print(
                f"The log file cannot be written ({error.strerror or error}): {self.baseFilename}", file=sys.stderr
            )


def start_logging(path: Path) -> None:
    """Log to ``path``, and warnings to the terminal too; without a writable file to the terminal alone."""
    terminal = logging.StreamHandler(sys.stderr)
    terminal.setLevel(logging.WARNING)
    handlers: list[logging.Handler] = [terminal]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handlers.append(LogFile(path))
    except OSError as error:
        print(f"No log file: {error}", file=sys.stderr)
    logging.basicConfig(
        level=logging.INFO, handlers=handlers, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    if sys.stderr is not None:
        faulthandler.enable()
    qInstallMessageHandler(_on_qt_message)


def install_exception_hooks(on_exception: Callable[[str], None]) -> None:
    """Log exceptions that nobody caught and hand ``on_exception`` one sentence, from whatever thread they come."""

    def report(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            sys.__excepthook__(kind, error or kind(), trace)
            return
        _log.critical("an exception that nobody caught", exc_info=(kind, error or kind(), trace))
        on_exception(
            tr(
                "Something went wrong inside Fireside ({name}: {error}); the log file says more.",
                name=kind.__name__,
                error=error,
            )
        )

    def report_thread(arguments: threading.ExceptHookArgs) -> None:
        report(arguments.exc_type, arguments.exc_value, arguments.exc_traceback)

    sys.excepthook = report
    threading.excepthook = report_thread


def _on_qt_message(kind: QtMsgType, context: QMessageLogContext, message: str) -> None:
    _qt_log.log(_LEVELS.get(kind, logging.WARNING), "%s: %s", context.category or "default", message)
