"""What the menu Edit can do with the widget that has the keyboard; what it cannot do is not offered."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtGui import QGuiApplication, QKeySequence
from PySide6.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QLineEdit,
    QMenu,
    QPlainTextEdit,
    QTextEdit,
    QWidget,
)

from app.translation import tr

Edits = dict[str, Callable[[], object]]
"""What can be done now, by the names of Qt's slots."""

_UNDO = "undo"


def add_edits(menu: QMenu, undo: Callable[[], object], can_undo: Callable[[], bool]) -> None:
    """Fill ``menu`` with undo, redo, cut, copy, paste and select all.

    ``undo`` takes back the last deletion where the text that is written has nothing to undo.
    """

    def edits_now() -> Edits:
        edits = possible_edits(QApplication.focusWidget())
        if _UNDO not in edits and can_undo():
            edits[_UNDO] = undo
        return edits

    def run(name: str) -> None:
        edits_now().get(name, bool)()

    standard = QKeySequence.StandardKey
    actions = []
    for name, text, key in (
        (_UNDO, tr("Undo"), standard.Undo),
        ("redo", tr("Redo"), standard.Redo),
        ("cut", tr("Cut"), standard.Cut),
        ("copy", tr("Copy"), standard.Copy),
        ("paste", tr("Paste"), standard.Paste),
        ("selectAll", tr("Select all"), standard.SelectAll),
    ):
        # The text fields handle the keys themselves; the menu only shows them, else one of the two would win at
        # random.
        action = menu.addAction(text + "\t" + QKeySequence(key).toString(QKeySequence.SequenceFormat.NativeText))
        action.setData(name)
        action.triggered.connect(lambda _checked=False, name=name: run(name))
        actions.append(action)

    def refresh(*_widgets: object) -> None:
        edits = edits_now()
        for action in actions:
            action.setEnabled(action.data() in edits)

    refresh()
    menu.aboutToShow.connect(refresh)


def possible_edits(focus: QWidget | None) -> Edits:
    """What can be done with ``focus`` now."""
    if isinstance(focus, QLineEdit):
        return _in_line(focus)
    across = _across_messages(focus) if focus is not None else {}
    if isinstance(focus, QPlainTextEdit | QTextEdit):
        return _in_text(focus) | (across if focus.isReadOnly() else {})
    if isinstance(focus, QAbstractItemView):
        is_many = focus.selectionMode() == QAbstractItemView.SelectionMode.ExtendedSelection
        return {"selectAll": focus.selectAll} if is_many and focus.model().rowCount() else {}
    return across


def _in_line(field: QLineEdit) -> Edits:
    edits: Edits = {}
    is_shown = field.echoMode() == QLineEdit.EchoMode.Normal
    if field.hasSelectedText() and is_shown:
        edits["copy"] = field.copy
    if field.text() and field.selectedText() != field.text():
        edits["selectAll"] = field.selectAll
    if field.isReadOnly():
        return edits
    if field.isUndoAvailable():
        edits[_UNDO] = field.undo
    if field.isRedoAvailable():
        edits["redo"] = field.redo
    if field.hasSelectedText() and is_shown:
        edits["cut"] = field.cut
    if QGuiApplication.clipboard().text():
        edits["paste"] = field.paste
    return edits


def _in_text(field: QPlainTextEdit | QTextEdit) -> Edits:
    edits: Edits = {}
    has_selection = field.textCursor().hasSelection()
    if has_selection:
        edits["copy"] = field.copy
    if not field.document().isEmpty():
        edits["selectAll"] = field.selectAll
    if field.isReadOnly():
        return edits
    if field.document().isUndoAvailable():
        edits[_UNDO] = field.undo
    if field.document().isRedoAvailable():
        edits["redo"] = field.redo
    if has_selection:
        edits["cut"] = field.cut
    if field.canPaste():
        edits["paste"] = field.paste
    return edits


def _across_messages(focus: QWidget) -> Edits:
    """What is selected may reach over several messages, and a whole message may have the keyboard."""
    from app.chat.message_view import MessageWidget  # not before the window is there
    from app.chat.selection import selection_around

    selection = selection_around(focus)
    if selection is None:
        return {}
    edits: Edits = {}
    if isinstance(focus, MessageWidget):
        edits = {"copy": focus.copy, "selectAll": lambda: selection.select_all(focus.texts)}
    if selection.views:
        edits["copy"] = selection.copy
    return edits
