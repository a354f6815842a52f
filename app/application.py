"""The composition root: makes the services, the window and what connects them, runs Qt, takes all down again."""

from __future__ import annotations

import importlib
import logging
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QEvent, QLibraryInfo, QLocale, QObject, QSocketNotifier, Qt, QTimer, QTranslator, Signal
from PySide6.QtGui import QFileOpenEvent
from PySide6.QtWidgets import QApplication, QWidget

from app import translation
from app.context import AppContext
from app.crash_banner import show_recovery
from app.engine_client import Engine
from app.late_engine import LateEngine
from app.logs import install_exception_hooks, start_logging
from app.paths import APP_NAME, AppPaths
from app.single_instance import SingleInstance
from app.theme import Theme, apply_theme
from app.translation import tr
from app.turns import Turns
from app.window.attention import Attention
from app.window.main_window import RESTART_STATUS, MainWindow
from app.window.pages import MODELS, PageEntry
from engine.protocol import Event

if TYPE_CHECKING:
    from app.chat.highlighter import Highlighter
    from app.extraction.workspace import ExtractionWorkspace

_log = logging.getLogger(__name__)

PAINT_WAIT_MS = 1000
_CHAT_MODULES = ("app.chat.answer", "app.chat.own_message", "PySide6.QtNetwork")
"""What messages are shown with, and what listens for a second start."""


def run(paths: AppPaths, model: Path | None = None) -> int:
    """Run the app until its window is closed; returns the exit status."""
    start_logging(paths.log_file)
    QApplication.setApplicationName(APP_NAME)
    QApplication.setDesktopFileName("fireside")
    application = Application(sys.argv[:1])
    speak_language(application)
    instance = SingleInstance(paths.lock_file)
    if not instance.acquire():
        return _raise_running(instance, paths, model)
    try:
        status = _run_window(application, instance, paths, model)
    finally:
        instance.release()
    if status == RESTART_STATUS:
        start_again()
        return 0
    return status


def start_again() -> None:
    """Start the app once more, as this process was started, without waiting for it."""
    import subprocess

    subprocess.Popen([sys.executable, *sys.orig_argv[1:]], start_new_session=True)


def _run_window(application: Application, instance: SingleInstance, paths: AppPaths, model: Path | None) -> int:
    signals = _QuitSignals(application.quit)
    context = AppContext(paths, partial(LateEngine, partial(_make_engine, paths)))
    controller = context.controller
    reporter = _Reporter()
    reporter.reported.connect(controller.notice, Qt.ConnectionType.QueuedConnection)
    install_exception_hooks(reporter.reported.emit)
    theme = apply_theme(application, context.settings)
    window = MainWindow(controller, context.settings, theme, feature_pages(context, theme), context.kept_chats)

    def on_second_start(path: str) -> None:
        window.come_forward()
        if path:
            controller.load_model(path)

    def on_painted() -> None:
        steps = [*chat_steps(window, context, model), instance.listen, context.start_engine]
        context.prepare(prepare_chat, lambda: Turns(steps, window))

    def on_state(state: Qt.ApplicationState) -> None:
        if state == Qt.ApplicationState.ApplicationActive:
            controller.refresh_models()  # files may have come while the person was elsewhere

    context.when_complete(lambda: watch_extraction(window.attention, context.extraction))
    instance.raise_requested.connect(on_second_start)
    application.file_opened.connect(controller.load_model)
    application.applicationStateChanged.connect(on_state)
    application.aboutToQuit.connect(context.close)
    show_recovery(window.banner, context, model)
    FirstPaint(window, on_painted)
    window.show()
    try:
        return int(application.exec())
    finally:
        signals.close()


def prepare_chat() -> None:
    """What messages are shown with; made beside the window, whose thread it would hold up for 0.1 s."""
    for name in _CHAT_MODULES:
        importlib.import_module(name)
    from PySide6.QtGui import QGradient

    from app.chat.blocks import BlockStream

    QGradient.Preset  # noqa: B018 - an enum of 169 members, made when it is first asked for, as by any brush
    BlockStream().push("A word, for which the parser and its plain data are made.")


def chat_steps(window: MainWindow, context: AppContext, model: Path | None) -> list[Callable[[], object]]:
    """What brings the last chat into a window that stands: each takes a few hundredths of a second."""

    def highlighter() -> Highlighter:
        from app.chat.highlighter import shared_highlighter  # which is imported by then

        return shared_highlighter()

    transcript = window.chat_page.transcript
    transcript.hold()  # beside the imports each message would take several times as long
    context.when_complete(transcript.let_grow)
    return [
        lambda: highlighter().hold(),
        transcript.viewport,  # Qt's classes of widgets become Python's when one of them is first asked for
        lambda: len(context.controller.current_messages),
        partial(context.open, model),
        lambda: transcript.has_room,  # True, and so again, until all that is in sight is made
        lambda: highlighter().go_on(),
    ]


class FirstPaint(QObject):
    """Calls ``then`` when a window was painted for the first time, or nobody could see that it was not."""

    def __init__(self, window: QWidget, then: Callable[[], None]) -> None:
        super().__init__(window)
        self._then = then
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self._on_time)
        self._timer.start(PAINT_WAIT_MS)
        window.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Paint:
            watched.removeEventFilter(self)
            self._timer.start(0)  # the picture is on the screen when the loop turns again
        return False

    def _on_time(self) -> None:
        self._then()
        self.deleteLater()


def _make_engine(paths: AppPaths, on_event: Callable[[Event], None]) -> Engine:
    from engine import EngineConfig, EngineThread

    return EngineThread(on_event, EngineConfig(snapshot_folder=paths.snapshots))


def watch_extraction(attention: Attention, workspace: ExtractionWorkspace) -> None:
    """A table that takes long is a job, too."""

    def on_state() -> None:
        if workspace.is_running:
            attention.job_began("extraction")
        elif workspace.is_finished:
            attention.job_ended("extraction", tr("Extraction"), tr("Every row of the table has its answer."))

    workspace.state_changed.connect(on_state)


def feature_pages(context: AppContext, theme: Theme) -> list[PageEntry]:
    """The pages beside the chat: one line each."""
    return [
        PageEntry(
            "extraction",
            tr("Extraction"),
            partial(_make_extraction_page, context, theme),
            "Ctrl+Shift+X",
            prepare=context.when_complete,
        ),
        PageEntry(
            MODELS,
            tr("Models"),
            partial(_make_models_page, context, theme),
            "Ctrl+Shift+M",
            prepare=context.when_complete,
        ),
    ]


def _make_extraction_page(context: AppContext, theme: Theme) -> QWidget:
    from app.extraction.page import ExtractionPage

    return ExtractionPage(context.extraction, context.schemas, theme)


def _make_models_page(context: AppContext, theme: Theme) -> QWidget:
    from app.library.models_page import ModelsPage

    page = ModelsPage(context.models, theme)
    page.chat_requested.connect(context.controller.load_model)
    page.chat_requested.connect(page.closed)
    return page


def _raise_running(instance: SingleInstance, paths: AppPaths, model: Path | None) -> int:
    if instance.raise_other(model):
        loads = "" if model is None else f" and loads {model.name}"
        print(f"Fireside is running already; its window was brought to the front{loads}.")
        return 0
    print(
        f"Fireside is running already with the chats in {paths.data} but does not answer: close it, or end its "
        "process, and start again.",
        file=sys.stderr,
    )
    return 1


class _Reporter(QObject):
    """Carries a sentence from any thread to the GUI thread."""

    reported = Signal(str)


def speak_language(application: QApplication) -> None:
    """Let Qt use the language in force: its own texts, dates, and the direction of the layout."""
    locale = QLocale(translation.current().code)
    QLocale.setDefault(locale)
    application.setLayoutDirection(locale.textDirection())
    texts = QTranslator(application)
    if texts.load(locale, "qtbase", "_", QLibraryInfo.path(QLibraryInfo.LibraryPath.TranslationsPath)):
        application.installTranslator(texts)


class Application(QApplication):
    """Qt's application, with the files that the system hands a running app (macOS).

    Signals:
        file_opened(path): the person opened a file with Fireside.
    """

    file_opened = Signal(str)

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QFileOpenEvent) and event.file():
            self.file_opened.emit(event.file())
            return True
        return super().event(event)


class _QuitSignals(QObject):
    """Turns SIGINT and SIGTERM into a clean end.

    Python runs a signal's handler only when it executes, which it may not while Qt waits; so the interpreter also
    writes each signal to a socket that Qt watches.
    """

    def __init__(self, quit_app: Callable[[], None]) -> None:
        super().__init__()
        self._quit = quit_app
        self._receiver, self._sender = socket.socketpair()
        self._receiver.setblocking(False)
        self._sender.setblocking(False)
        self._notifier = QSocketNotifier(self._receiver.fileno(), QSocketNotifier.Type.Read, self)
        self._notifier.activated.connect(self._on_readable)
        self._old_descriptor = signal.set_wakeup_fd(self._sender.fileno(), warn_on_full_buffer=False)
        self._old_handlers: dict[int, Any] = {
            number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)
        }

    def close(self) -> None:
        """Give the signals back."""
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_descriptor)
        self._notifier.setEnabled(False)
        self._receiver.close()
        self._sender.close()

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        _log.info("ending on signal %d", number)
        QTimer.singleShot(0, self._quit)  # while the app still starts, there is no loop yet that could be ended

    def _on_readable(self) -> None:
        try:
            self._receiver.recv(64)
        except BlockingIOError:
            return
