"""Two small dialogs: the keyboard shortcuts, and what this program is."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QGridLayout, QVBoxLayout, QWidget

from app.theme import Theme
from app.translation import tr
from app.widgets.buttons import LookButton
from app.widgets.label import Label

_FIXED_SHORTCUTS = (
    ("Enter", tr("Send the message")),
    ("Shift+Enter", tr("Break the line")),
    ("Esc", tr("Stop the answer, leave a field or the settings")),
)


def show_shortcuts(parent: QWidget, theme: Theme, shortcuts: Sequence[tuple[str, str]]) -> QDialog:
    """All shortcuts in two columns; closes with Escape."""
    dialog, column = _dialog(parent, theme, tr("Keyboard shortcuts"))
    grid = QGridLayout()
    grid.setHorizontalSpacing(theme.px(28))
    grid.setVerticalSpacing(theme.px(6))
    for row, (keys, name) in enumerate((*_FIXED_SHORTCUTS, *shortcuts)):
        half = (len(_FIXED_SHORTCUTS) + len(shortcuts) + 1) // 2
        keys_label = Label(keys, "muted")
        grid.addWidget(Label(name), row % half, 0 if row < half else 2)
        grid.addWidget(keys_label, row % half, 1 if row < half else 3)
    column.insertLayout(1, grid)
    dialog.open()
    return dialog


def show_about(parent: QWidget, theme: Theme) -> QDialog:
    """What this program is, in three lines."""
    dialog, column = _dialog(parent, theme, "Fireside")
    text = Label(
        tr(
            "Version {version}\n\nChats with language models that run on this machine, with an engine of its own.\n"
            "Nothing you write leaves it. Licensed under Apache-2.0.",
            version=_version(),
        )
    )
    column.insertWidget(1, text)
    dialog.open()
    return dialog


def _dialog(parent: QWidget, theme: Theme, title: str) -> tuple[QDialog, QVBoxLayout]:
    dialog = QDialog(parent)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.setWindowTitle(title)
    column = QVBoxLayout(dialog)
    column.setContentsMargins(theme.px(24), theme.px(20), theme.px(24), theme.px(16))
    column.setSpacing(theme.px(14))
    head = Label(title, "section")
    close = LookButton(theme, tr("Close"))
    close.setDefault(True)
    close.clicked.connect(dialog.reject)
    column.addWidget(head)
    column.addWidget(close, 0, Qt.AlignmentFlag.AlignRight)
    return dialog, column


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("fireside")
    except PackageNotFoundError:
        return tr("from a checkout")
