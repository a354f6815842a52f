"""What tests of the window do again and again."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction

from app.window.main_window import MainWindow
from tests.app.fake_controller import FakeController

CTRL = Qt.KeyboardModifier.ControlModifier


def action_of(window: MainWindow, text: str) -> QAction:
    found = [action for action in window.findChildren(QAction) if action.text().split("\t")[0] == text]
    assert found, text
    return found[0]


def calls_of(fake: FakeController, name: str) -> list[tuple[object, ...]]:
    return [call for call in fake.calls if call[0] == name]
