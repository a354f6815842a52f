"""A text field that grows with its text: Enter submits, Shift+Enter breaks the line, composing is left alone."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QEvent, QMimeData, QPointF, QSize, Qt, Signal
from PySide6.QtGui import (
    QFocusEvent,
    QInputMethodEvent,
    QKeyEvent,
    QKeySequence,
    QPainter,
    QPaintEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import QFrame, QPlainTextEdit, QSizePolicy, QWidget

from app.theme import Theme

LONG_CHARACTERS = 2500
LONG_LINES = 40
MAX_PLAIN_CHARACTERS = 50_000
"""A longer text would be laid out anew with each key; it is attached even when it is pasted plainly."""


class GrowingEdit(QPlainTextEdit):
    """Plain text, one line high at rest and up to ``max_lines``; then it scrolls.

    Attributes:
        takes_attachments: long texts and files are for whoever listens to the signals, not for the field.

    Signals:
        submitted: Enter without Shift, not while an input method composes.
        cancelled: Escape.
        focus_changed(has_focus): the keyboard came or went.
        long_text_pasted(text): a text that is too long to be read in the field; it was not put in.
        files_given(paths): files were dropped on the field, or pasted.
    """

    submitted = Signal()
    cancelled = Signal()
    focus_changed = Signal(bool)
    long_text_pasted = Signal(str)
    files_given = Signal(list)

    def __init__(
        self, theme: Theme, *, max_lines: int = 8, min_lines: int = 1, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self._max_lines = max_lines
        self._min_lines = min_lines
        self._room: int | None = None
        self._ground = ""
        self._is_composing = False
        self._pastes_plainly = False
        self.takes_attachments = False
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setTabChangesFocus(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.document().setDocumentMargin(0)
        self.document().documentLayout().documentSizeChanged.connect(self._fit)
        self._fit()
        self.document().clearUndoRedoStacks()  # the margin was a step that could be undone
        theme.changed.connect(self._fit)

    def set_room(self, height: int) -> None:
        """Grow to no more than this height, in pixels, where it has so little room; to the least lines always."""
        if height != self._room:
            self._room = height
            self._fit()

    @property
    def is_composing(self) -> bool:
        """An input method holds text that is not committed yet."""
        return self._is_composing

    def set_ground(self, colour_name: str) -> None:
        """Paint what is behind the text here, in a colour of the theme: so nothing below blinks with the cursor."""
        if colour_name != self._ground:
            self._ground = colour_name
            self.viewport().setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)

    def _put_aside(self) -> None:
        """Lay each paragraph in sight to the side on which its text begins: Qt lays all of them to the left."""
        block, top = self.firstVisibleBlock(), self.contentOffset().y()
        while block.isValid() and top < self.viewport().height():
            top += self.blockBoundingRect(block).height()  # which lays the block out, if it is not
            if block.textDirection() == Qt.LayoutDirection.RightToLeft:
                lines, left = block.layout(), self.document().documentMargin()
                for line in (lines.lineAt(index) for index in range(lines.lineCount())):
                    room = line.width() - line.naturalTextWidth() - self.cursorWidth()
                    line.setPosition(QPointF(left + max(0.0, room), line.y()))
            block = block.next()

    def paintEvent(self, event: QPaintEvent) -> None:
        self._put_aside()
        if self._ground:
            painter = QPainter(self.viewport())
            painter.fillRect(event.rect(), self._theme.colour(self._ground))
            painter.end()
        super().paintEvent(event)

    def inputMethodEvent(self, event: QInputMethodEvent) -> None:
        self._is_composing = bool(event.preeditString())
        super().inputMethodEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        is_enter = event.key() in {Qt.Key.Key_Return, Qt.Key.Key_Enter}
        if event.matches(QKeySequence.StandardKey.Paste) or _is_plain_paste(event):
            self._pastes_plainly = _is_plain_paste(event)
            self.paste()
            self._pastes_plainly = False
        elif event.matches(QKeySequence.StandardKey.Undo):
            event.setAccepted(self._undo_text())  # if not, the window may have something to take back
        elif is_enter and self._is_composing:
            event.accept()  # the Enter that commits a composition sends nothing
        elif is_enter and not event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            event.accept()
            self.submitted.emit()
        elif event.key() == Qt.Key.Key_Escape and not self._is_composing:
            event.accept()
            self.cancelled.emit()
        else:
            super().keyPressEvent(event)

    def _undo_text(self) -> bool:
        """Undo the last change that can be seen, if there is one: some steps change formats alone."""
        before = self.toPlainText()
        while self.document().isUndoAvailable() and self.toPlainText() == before:
            self.undo()
        return self.toPlainText() != before

    def insertFromMimeData(self, source: QMimeData) -> None:
        paths = [Path(url.toLocalFile()) for url in source.urls() if url.isLocalFile()]
        if self.takes_attachments and paths:
            self.files_given.emit(paths)
        elif source.hasText():
            text = source.text()
            is_wanted_here = self._pastes_plainly and len(text) <= MAX_PLAIN_CHARACTERS
            if self.takes_attachments and is_long(text) and not is_wanted_here:
                self.long_text_pasted.emit(text)
            else:
                self.insertPlainText(text)

    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        return source.hasText() or (self.takes_attachments and source.hasUrls())

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.focus_changed.emit(True)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self._is_composing = False
        self.focus_changed.emit(False)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def sizeHint(self) -> QSize:
        return QSize(self._theme.px(200), self.height())

    def _fit(self) -> None:
        lines = max(self._min_lines, round(self.document().size().height()))
        spacing, most = self.fontMetrics().lineSpacing(), self._max_lines
        if self._room is not None:
            most = max(self._min_lines, min(most, (self._room - 2) // spacing))
        height = min(lines, most) * spacing + 2
        needs_bar = lines > most
        policy = Qt.ScrollBarPolicy.ScrollBarAsNeeded if needs_bar else Qt.ScrollBarPolicy.ScrollBarAlwaysOff
        if policy != self.verticalScrollBarPolicy():
            self.setVerticalScrollBarPolicy(policy)
        if height != self.height() or height != self.minimumHeight():
            self.setFixedHeight(height)


def is_long(text: str) -> bool:
    """Whether a pasted text is better attached than written into the field."""
    return len(text) > LONG_CHARACTERS or text.count("\n") >= LONG_LINES


def _is_plain_paste(event: QKeyEvent) -> bool:
    wanted = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
    return event.key() == Qt.Key.Key_V and event.modifiers() == wanted
