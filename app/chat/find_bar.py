"""The bar over the transcript in which a person types what to find in the chat; finds nothing itself."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLineEdit, QSizePolicy, QWidget

from app.theme import Theme
from app.translation import tr
from app.widgets.announce import announce
from app.widgets.buttons import IconButton
from app.widgets.label import Label

_FIELD_PX = 280


class _Field(QLineEdit):
    """What to find; Enter goes on, Shift+Enter back.

    Signals:
        step_requested(by): 1 is the next hit, -1 the previous one.
    """

    step_requested = Signal(int)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in {Qt.Key.Key_Return, Qt.Key.Key_Enter}:
            self.step_requested.emit(-1 if event.modifiers() & Qt.KeyboardModifier.ShiftModifier else 1)
        else:
            super().keyPressEvent(event)


class FindBar(QFrame):
    """A field, what was found, and the ways through it.

    Attributes:
        field: where the person types.

    Signals:
        step_requested(by): 1 is the next hit, -1 the previous one.
        closed: Escape or the button.
    """

    step_requested = Signal(int)
    closed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setObjectName("findBar")
        self.setAccessibleName(tr("Find in chat"))
        self.field = _Field()
        self.field.setPlaceholderText(tr("Find in chat"))
        self.field.setAccessibleName(tr("Find in chat"))
        self.field.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._state = Label("", "muted")
        self._previous = IconButton(theme, "chevron-up", tr("Find previous"))
        self._next = IconButton(theme, "chevron-down", tr("Find next"))
        self._close = IconButton(theme, "close", tr("Close the find bar"))
        self._row = QHBoxLayout(self)
        for widget in (self.field, self._state, self._previous, self._next):
            self._row.addWidget(widget)
        self._row.addStretch(1)
        self._row.addWidget(self._close)
        self.field.step_requested.connect(self.step_requested)
        self._previous.clicked.connect(lambda: self.step_requested.emit(-1))
        self._next.clicked.connect(lambda: self.step_requested.emit(1))
        self._close.clicked.connect(self.closed)
        self._apply_metrics()
        theme.changed.connect(self._apply_metrics)

    @property
    def state(self) -> str:
        """What is said about the hits."""
        return self._state.text()

    def show_state(self, text: str, *, can_step: bool, is_final: bool) -> None:
        """Say how many hits there are; a final count is said aloud."""
        if text != self.state:
            self._state.setText(text)
            self._state.setAccessibleName(text)
            if text and is_final:
                announce(self, text)
        for button in (self._previous, self._next):
            button.setEnabled(can_step)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.closed.emit()
        else:
            super().keyPressEvent(event)

    def _apply_metrics(self) -> None:
        px = self._theme.px
        self._row.setContentsMargins(px(24), px(5), px(12), px(5))
        self._row.setSpacing(px(6))
        self.field.setMaximumWidth(px(_FIELD_PX))
        self.field.setFixedHeight(px(30))
        self._state.setMinimumWidth(px(84))
        for button in (self._previous, self._next, self._close):
            button.setFixedSize(px(28), px(28))
