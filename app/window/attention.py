"""Reaching a person who is elsewhere: the tray, off by default, and a word when a long job ends unwatched."""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QApplication, QMenu, QSystemTrayIcon, QWidget

from app.settings import Settings
from app.translation import tr

LONG_S = 10.0


class Attention(QObject):
    """Watches jobs of one window.

    Attributes:
        icon: in the system's tray while the setting asks for it; None otherwise.

    Signals:
        notified(title, text): a long job ended while the window was not looked at.
        show_requested, quit_requested: chosen in the tray.
    """

    notified = Signal(str, str)
    show_requested = Signal()
    quit_requested = Signal()

    def __init__(self, window: QWidget, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(window)
        self._window = window
        self._settings = settings
        self._clock = clock
        self._began: dict[str, float] = {}
        self.icon: QSystemTrayIcon | None = None
        self.notified.connect(self._show_message)
        settings.changed.connect(self._on_setting)
        self._on_setting("tray")

    @property
    def keeps_running(self) -> bool:
        """The window may be closed and the app go on, because the tray leads back to it."""
        return self.icon is not None

    def job_began(self, key: str) -> None:
        """A job that may take long begins; one that is known already goes on."""
        self._began.setdefault(key, self._clock())

    def job_ended(self, key: str, title: str, text: str) -> None:
        """The job ended; when it took long and nobody looks, the person is told."""
        began = self._began.pop(key, None)
        if began is None or self._clock() - began < LONG_S or self._window.isActiveWindow():
            return
        if self._settings.value("notifications"):
            self.notified.emit(title, text)

    def _show_message(self, title: str, text: str) -> None:
        QApplication.alert(self._window)
        if QSystemTrayIcon.isSystemTrayAvailable() and QSystemTrayIcon.supportsMessages():
            icon = self.icon or QSystemTrayIcon(self._window.windowIcon(), self)
            icon.show()
            icon.showMessage(title, text)
            if icon is not self.icon:  # only there to speak
                icon.messageClicked.connect(self.show_requested)
                icon.messageClicked.connect(icon.deleteLater)

    def _on_setting(self, key: str) -> None:
        if key != "tray":
            return
        is_wanted = bool(self._settings.value("tray")) and QSystemTrayIcon.isSystemTrayAvailable()
        if is_wanted and self.icon is None:
            self.icon = self._make_icon()
            self.icon.show()
        elif not is_wanted and self.icon is not None:
            self.icon.hide()
            self.icon.deleteLater()
            self.icon = None

    def _make_icon(self) -> QSystemTrayIcon:
        icon = QSystemTrayIcon(QApplication.windowIcon(), self)
        icon.setToolTip("Fireside")
        menu = QMenu(self._window)
        menu.addAction(tr("Show Fireside")).triggered.connect(self.show_requested)
        menu.addAction(tr("Quit")).triggered.connect(self.quit_requested)
        icon.setContextMenu(menu)
        icon.activated.connect(self._on_activated)
        icon.messageClicked.connect(self.show_requested)
        return icon

    def _on_activated(self, reason: QSystemTrayIcon.ActivationReason) -> None:
        if reason != QSystemTrayIcon.ActivationReason.Context:
            self.show_requested.emit()
