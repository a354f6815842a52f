"""The composer: where a message is written, and the one button that sends and stops."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget

from app.chat.attachment_chips import AttachmentChips
from app.storage.records import AttachmentRecord
from app.theme import Theme
from app.translation import tr
from app.widgets.buttons import IconButton, LookButton
from app.widgets.file_dialogs import choose_files
from app.widgets.growing_edit import GrowingEdit
from app.widgets.label import ElidingLabel, Label

_COUNT_AFTER_MS = 250
_HINT = tr("Enter sends · Shift+Enter new line")
_BUSY_HINT = tr("Esc stops the answer")


class Composer(QWidget):
    """A field that grows to eight lines, a token count, Send or Stop.

    Signals:
        send_requested(text): the text stays until ``clear_text``, in case it is not taken.
        stop_requested: end the answer that is being written.
        count_requested(text): the text rested; count its tokens.
        draft_changed(text): the person wrote; keep it.
        text_pasted(text): a long text to attach.
        files_given(paths): files to attach.
        attachment_opened(AttachmentRecord), attachment_removed(AttachmentRecord): of the draft's.
    """

    send_requested = Signal(str)
    stop_requested = Signal()
    count_requested = Signal(str)
    draft_changed = Signal(str)
    text_pasted = Signal(str)
    files_given = Signal(list)
    attachment_opened = Signal(object)
    attachment_removed = Signal(object)

    def __init__(self, theme: Theme, schema_picker: QWidget | None = None, parent: QWidget | None = None) -> None:
        """``schema_picker`` stands beside the button that attaches."""
        super().__init__(parent)
        self._theme = theme
        self._is_busy = False
        self._is_setting = False
        self._has_attachments = False
        self._frame = QFrame()
        self._frame.setObjectName("composer")
        self.edit = GrowingEdit(theme, max_lines=8, min_lines=1)
        self.edit.setPlaceholderText(tr("Write a message"))
        self.edit.setAccessibleName(tr("Message"))
        self.edit.takes_attachments = True
        self.chips = AttachmentChips(theme, can_remove=True)
        self._attach = IconButton(theme, "attach", tr("Attach text, code, tables or PDFs (Ctrl+Shift+A)"))
        self._attach.clicked.connect(self.choose_files)
        self._count = ElidingLabel("", "muted")
        self._count.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._count.setAccessibleName(tr("Length of the message"))
        self._button = LookButton(theme, tr("Send"), "primary")
        self._promise = ElidingLabel(tr("Everything stays on this machine."), "muted")
        self._hint = Label(_HINT, "muted")
        self._inside = QVBoxLayout(self._frame)
        self._foot = QHBoxLayout()
        self._foot.addWidget(self._attach)
        if schema_picker is not None:
            self._foot.addWidget(schema_picker)
        self._foot.addWidget(self._count, 1)
        self._foot.addWidget(self._button)
        self._inside.addWidget(self.chips)
        self._inside.addWidget(self.edit)
        self._inside.addLayout(self._foot)
        self._below = QHBoxLayout()
        self._below.addWidget(self._promise, 1)
        self._below.addWidget(self._hint)
        self._column = QVBoxLayout(self)
        self._column.addWidget(self._frame)
        self._column.addLayout(self._below)
        self._count_timer = self._timer(_COUNT_AFTER_MS, lambda: self.count_requested.emit(self.text))
        self.edit.textChanged.connect(self._on_text)
        self.edit.submitted.connect(self._on_submit)
        self.edit.cancelled.connect(self.stop_requested)
        self.edit.focus_changed.connect(self._on_focus)
        self.edit.long_text_pasted.connect(self.text_pasted)
        self.edit.files_given.connect(self.files_given)
        self.chips.opened.connect(self.attachment_opened)
        self.chips.removed.connect(self.attachment_removed)
        self._button.clicked.connect(self._on_button)
        self._apply_metrics()
        theme.changed.connect(self._apply_metrics)
        self._refresh()

    @property
    def text(self) -> str:
        """What is written, as it is."""
        return self.edit.toPlainText()

    def set_text(self, text: str) -> None:
        """Show a draft or a suggestion, with the cursor at its end."""
        if text != self.text:
            self._is_setting = True
            self.edit.setPlainText(text)
            self._is_setting = False
            cursor = self.edit.textCursor()
            cursor.movePosition(cursor.MoveOperation.End)
            self.edit.setTextCursor(cursor)

    def clear_text(self) -> None:
        """The message was taken."""
        self.edit.clear()
        self._count_timer.stop()
        self._count.set_whole_text("")

    def show_attachments(self, records: Sequence[AttachmentRecord]) -> None:
        """What is attached to the draft."""
        self._has_attachments = bool(records)
        self.chips.show_attachments(records)
        self._count_timer.start()
        self._refresh()
        self._settle()

    def choose_files(self) -> None:
        """Let the person choose files to attach."""
        if paths := choose_files(self, tr("Attach files")):
            self.files_given.emit(paths)

    def set_busy(self, is_busy: bool) -> None:
        """An answer is being written: the button stops it."""
        self._is_busy = is_busy
        if is_busy:
            self.edit.set_ground("card")  # not before: the first picture would wait for Qt's classes
        self._refresh()

    @property
    def can_send(self) -> bool:
        """There is something to send."""
        return bool(self.text.strip()) or self._has_attachments

    def set_cost(self, text: str) -> None:
        """What sending it would cost, as far as it is known."""
        self._count.set_whole_text(text if self.can_send else "")

    def _timer(self, interval_ms: int, action: object) -> QTimer:
        timer = QTimer(self)
        timer.setSingleShot(True)
        timer.setInterval(interval_ms)
        timer.timeout.connect(action)
        return timer

    def _on_text(self) -> None:
        if self.can_send:
            self._count_timer.start()
        else:
            self._count_timer.stop()
            self._count.set_whole_text("")
        if not self._is_setting:
            self.draft_changed.emit(self.text)
        self._refresh()
        self._settle()

    def _settle(self) -> None:
        """Take the height that the text needs now: Qt's layouts would need a picture for each widget around it."""
        widget: QWidget | None = self._frame if self.isVisible() else None
        while widget is not None and not widget.isWindow():
            if (layout := widget.layout()) is not None:
                layout.activate()
            widget = widget.parentWidget()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._show_hint()

    def _show_hint(self) -> None:
        """Where the keys have no room nothing is said of them."""
        self._hint.setVisible(self._hint.sizeHint().width() <= self.width())

    def _on_submit(self) -> None:
        if self.can_send and not self._is_busy:
            self.send_requested.emit(self.text.strip())

    def _on_button(self) -> None:
        if self._is_busy:
            self.stop_requested.emit()
        else:
            self._on_submit()

    def _on_focus(self, has_focus: bool) -> None:
        self._frame.setProperty("active", has_focus)
        self._frame.style().unpolish(self._frame)
        self._frame.style().polish(self._frame)

    def _refresh(self) -> None:
        self._button.setText(tr("Stop") if self._is_busy else tr("Send"))
        self._button.setAccessibleName(tr("Stop the answer") if self._is_busy else tr("Send the message"))
        self._button.setEnabled(self._is_busy or self.can_send)
        self._fit_button()
        self._hint.setText(_BUSY_HINT if self._is_busy else _HINT)
        self._show_hint()

    def _apply_metrics(self) -> None:
        px = self._theme.px
        self._inside.setContentsMargins(px(13), px(12), px(12), px(10))
        self._inside.setSpacing(px(10))
        self._foot.setSpacing(px(10))
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(px(8))
        self._button.setFixedHeight(px(34))
        self._fit_button()

    def _fit_button(self) -> None:
        """The button keeps its whole word, whatever stands beside it."""
        self._button.ensurePolished()
        self._button.setMinimumWidth(max(self._theme.px(55), self._button.sizeHint().width()))
