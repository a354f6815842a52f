"""The command palette: everything the menus can do, chats, models and settings, found by typing a few letters."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, QPersistentModelIndex, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QApplication,
    QFrame,
    QLineEdit,
    QListView,
    QVBoxLayout,
    QWidget,
)
from shiboken6 import isValid

from app.storage.spelling import folded
from app.theme import Theme
from app.translation import tr
from app.widgets.label import Label
from app.widgets.row_delegate import RowDelegate
from engine.plain_data import dataclass

DETAIL = int(Qt.ItemDataRole.UserRole) + 1
MAX_SHOWN = 60
_ROWS_IN_SIGHT = 10
_ROW_PX = 34
_WIDTH_PX = 560
_Index = QModelIndex | QPersistentModelIndex


@dataclass(frozen=True)
class PaletteCommand:
    """One thing that can be done.

    Attributes:
        title: what it is called.
        detail: its shortcut, or what kind of thing it is.
        run: does it.
    """

    title: str
    detail: str
    run: Callable[[], object]


def find_commands(commands: Sequence[PaletteCommand], text: str) -> list[PaletteCommand]:
    """The commands that have every word of ``text``; those that begin with one come first."""
    words = folded(text).split()
    ranked: list[tuple[int, int, PaletteCommand]] = []
    for place, command in enumerate(commands):
        title = folded(command.title)
        whole = f"{title} {folded(command.detail)}"
        if not all(word in whole for word in words):
            continue
        starts = [f" {title}".find(f" {word}") for word in words]
        rank = 0 if words and title.startswith(words[0]) else 1 if min(starts, default=0) >= 0 else 2
        ranked.append((rank, place, command))
    return [command for _, _, command in sorted(ranked, key=lambda entry: entry[:2])[:MAX_SHOWN]]


class _CommandsModel(QAbstractListModel):
    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.commands: list[PaletteCommand] = []

    def show_commands(self, commands: list[PaletteCommand]) -> None:
        self.beginResetModel()
        self.commands = commands
        self.endResetModel()

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008 - Qt's signature
        return 0 if parent.isValid() else len(self.commands)

    def data(self, index: _Index, role: int = int(Qt.ItemDataRole.DisplayRole)) -> object:
        command = self.commands[index.row()]
        if role == int(Qt.ItemDataRole.AccessibleTextRole):
            return f"{command.title}, {command.detail}" if command.detail else command.title
        return {int(Qt.ItemDataRole.DisplayRole): command.title, DETAIL: command.detail}.get(role)


class CommandPalette(QFrame):
    """Lies over the window: a field and the commands that fit what is typed. Enter runs the marked one.

    Escape, or the focus going elsewhere, closes it.
    """

    def __init__(self, theme: Theme, commands: Sequence[PaletteCommand], parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("palette")
        self.setAccessibleName(tr("Commands"))
        self._theme = theme
        self._commands = tuple(commands)
        self._before = QApplication.focusWidget()
        self.field = QLineEdit()
        self.field.setPlaceholderText(tr("What would you like to do?"))
        self.field.setAccessibleName(tr("Find a command, a chat or a setting"))
        self.list = QListView()
        self.list.setObjectName("paletteList")
        self.list.setAccessibleName(tr("What fits"))
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.list.setMouseTracking(True)
        self._model = _CommandsModel(self)
        self.list.setModel(self._model)
        self.list.setItemDelegate(RowDelegate(theme, self.list, DETAIL, _ROW_PX))
        self._nothing = Label(tr("Nothing has these words."), "help")
        column = QVBoxLayout(self)
        px = theme.px
        column.setContentsMargins(px(10), px(10), px(10), px(10))
        column.setSpacing(px(8))
        for widget in (self.field, self._nothing, self.list):
            column.addWidget(widget)
        self.field.setFixedHeight(px(38))
        self.list.setFixedHeight(px(_ROW_PX) * _ROWS_IN_SIGHT)
        self._window = parent
        self.setFixedWidth(min(px(_WIDTH_PX), parent.width()))
        self.field.textChanged.connect(self._on_text)
        self.list.clicked.connect(self._run)
        self.list.entered.connect(self.list.setCurrentIndex)
        QApplication.instance().focusChanged.connect(self._on_focus)  # type: ignore[union-attr]
        self._on_text("")

    def open_at(self, top: int) -> None:
        """Show it in the middle of the window, ``top`` pixels below its upper edge; it ends inside the window."""
        row = self._theme.px(_ROW_PX)
        room = self._window.height() - top - (self.sizeHint().height() - self.list.height()) - row // 2
        self.list.setFixedHeight(row * min(max(room // row, 2), _ROWS_IN_SIGHT))
        self.adjustSize()
        self.move((self._window.width() - self.width()) // 2, top)
        self.show()
        self.raise_()
        self.field.setFocus(Qt.FocusReason.PopupFocusReason)

    @property
    def titles(self) -> list[str]:
        """What is listed now."""
        return [command.title for command in self._model.commands]

    def keyPressEvent(self, event: QKeyEvent) -> None:
        steps = {
            Qt.Key.Key_Down: 1,
            Qt.Key.Key_Up: -1,
            Qt.Key.Key_PageDown: _ROWS_IN_SIGHT,
            Qt.Key.Key_PageUp: -_ROWS_IN_SIGHT,
        }
        if event.key() == Qt.Key.Key_Escape:
            self._leave()
        elif event.key() in {Qt.Key.Key_Return, Qt.Key.Key_Enter}:
            self._run(self.list.currentIndex())
        elif (step := steps.get(Qt.Key(event.key()))) is not None:
            row = min(max(self.list.currentIndex().row() + step, 0), self._model.rowCount() - 1)
            self.list.setCurrentIndex(self._model.index(row))
        else:
            super().keyPressEvent(event)

    def _on_text(self, text: str) -> None:
        self._model.show_commands(find_commands(self._commands, text))
        has_any = self._model.rowCount() > 0
        self.list.setVisible(has_any)
        self._nothing.setVisible(not has_any)
        self.list.setCurrentIndex(self._model.index(0) if has_any else QModelIndex())
        self.adjustSize()

    def _run(self, index: QModelIndex) -> None:
        if index.isValid():
            run = self._model.commands[index.row()].run
            self._leave()
            run()

    def _leave(self) -> None:
        if self.isHidden():
            return
        had_focus = self.isAncestorOf(QApplication.focusWidget() or self)
        self.hide()
        self.deleteLater()
        if had_focus and self._before is not None and isValid(self._before):
            self._before.setFocus(Qt.FocusReason.PopupFocusReason)

    def _on_focus(self, _old: QWidget | None, new: QWidget | None) -> None:
        if new is not None and not self.isAncestorOf(new):
            self._leave()
