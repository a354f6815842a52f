"""Where the window stands: remembered, and always on a screen that exists."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from PySide6.QtCore import QByteArray, QRect, QSize
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMainWindow


def clamped(wanted: QRect, screens: Sequence[QRect]) -> QRect:
    """``wanted`` made small enough for, and moved onto, the screen that it shares most with; else the first one."""

    def shared(screen: QRect) -> int:
        part = screen.intersected(wanted)
        return max(0, part.width()) * max(0, part.height())

    room = max(screens, key=shared)
    size = wanted.size().boundedTo(room.size())
    left = min(max(wanted.left(), room.left()), room.left() + room.width() - size.width())
    top = min(max(wanted.top(), room.top()), room.top() + room.height() - size.height())
    return QRect(left, top, size.width(), size.height())


def restore_placement(window: QMainWindow, stored: str, default: QSize) -> None:
    """Put the window where ``stored`` says, maximised if it was; without that, in the default size."""
    window.resize(default)
    if stored:
        window.restoreGeometry(QByteArray.fromBase64(stored.encode("ascii", errors="ignore")))
    if window.isMaximized() or window.isFullScreen():
        return
    first = window.screen() or QGuiApplication.primaryScreen()
    screens = [first, *(screen for screen in QGuiApplication.screens() if screen is not first)]
    inside = clamped(window.geometry(), [screen.availableGeometry() for screen in screens])
    if inside != window.geometry():
        window.setGeometry(inside)


def placement_of(window: QMainWindow) -> str:
    """What ``restore_placement`` understands."""
    return base64.b64encode(window.saveGeometry().data()).decode("ascii")
