"""The person's own message: a bubble on the right with the text exactly as typed, edited in place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QResizeEvent, QTextBlockFormat, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget

from app.chat.attachment_chips import AttachmentChips, Chip
from app.chat.blocks import displayable
from app.chat.conversation import MessageView
from app.chat.figures import count
from app.chat.message_actions import OWN_ACTIONS
from app.chat.message_view import MessageWidget
from app.chat.prose import LINE_PX
from app.chat.text_view import TextView
from app.theme import Theme
from app.translation import tr
from app.widgets.buttons import TextButton

_FOLDED_LINES = 24
_FOLDED_CHARACTERS = 4000
_BUBBLE_PX = 560
_PIECE_CHARACTERS = 6000  # of one's own text that are written in one turn of the event loop


class OwnMessage(MessageWidget):
    """The bubble. Long texts are folded; nothing in them is interpreted."""

    def __init__(self, theme: Theme, view: MessageView, parent: QWidget | None = None) -> None:
        super().__init__(theme, view, OWN_ACTIONS, is_own=True, parent=parent)
        self.setObjectName("ownMessage")
        px = theme.px
        self._bubble = QFrame()
        self._bubble.setProperty("look", "bubble")
        self._text = PlainText(theme)
        self._unfold = TextButton(theme, "")
        self._unfold.setAccessibleName(tr("Show the whole message"))
        self._unfold.clicked.connect(self._show_all)
        self._unfold.hide()
        inside = QVBoxLayout(self._bubble)
        inside.setContentsMargins(px(14), px(7), px(14), px(12))
        inside.setSpacing(px(4))
        inside.addWidget(self._text)
        inside.addWidget(self._unfold, 0, Qt.AlignmentFlag.AlignLeft)
        self._row = QHBoxLayout()
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.addStretch(1)
        self._row.addWidget(self._bubble)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(px(1))
        self.attached = AttachmentChips(theme, can_remove=False, align_right=True)
        self.attached.opened.connect(self.attachment_opened)
        self._gap = QWidget()
        self._gap.setFixedHeight(px(6))
        column.addWidget(self.attached)
        column.addWidget(self._gap)
        column.addLayout(self._row)
        column.addWidget(self.foot)
        self.edited = self._bubble
        self.edit_layout = self._row
        self.show_view(view)

    @property
    def texts(self) -> list[TextView]:
        return [self._text]

    @property
    def chips(self) -> Sequence[Chip]:
        return self.attached.chips

    def show_view(self, view: MessageView) -> None:
        """Show another state of the same message."""
        self.view = view
        self.foot.set_siblings(view.sibling_index, view.num_siblings)
        content = view.record.content
        self.setAccessibleName(tr("You: {content}", content=content[:200]))
        self.attached.show_attachments(view.attachments)
        self._gap.setVisible(bool(view.attachments))
        self._bubble.setVisible(bool(content.strip()) and self._editor is None)
        lines = content.splitlines()
        folded = "\n".join(lines[:_FOLDED_LINES])[:_FOLDED_CHARACTERS]
        is_long = len(lines) > _FOLDED_LINES + 4 or len(content) > _FOLDED_CHARACTERS + 500
        self._text.show_text(folded + " …" if is_long else content)
        self._unfold.setText(
            tr("Show all {count} lines", count=count(len(lines))) if len(lines) > 1 else tr("Show all")
        )
        self._unfold.setVisible(is_long)
        self._fit_bubble(self.width())
        self._lay_out()

    def begin_edit(self, unfinished: str | None = None) -> None:
        super().begin_edit(unfinished)
        self._row.setStretch(0, 0)  # the editor begins where the column does

    def end_edit(self) -> None:
        super().end_edit()
        self._row.setStretch(0, 1)

    def completing(self) -> Iterator[None]:
        return self._text.completing()

    def reveal(self) -> None:
        if not self._unfold.isHidden():
            self._show_all()

    def _show_all(self) -> None:
        self._text.show_text(self.view.record.content)
        self._unfold.hide()
        self._fit_bubble(self.width())
        self._lay_out()

    def heightForWidth(self, width: int) -> int:
        self._fit_bubble(width)  # as it will be at that width: lines that break elsewhere need another height
        return super().heightForWidth(width)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_bubble(self.width())
        self._activate()

    def _lay_out(self) -> None:
        """Have everything in its place now: a picture may be drawn before Qt lets the layouts hear of a change."""
        self._text.updateGeometry()
        self._bubble.updateGeometry()
        self._row.invalidate()
        self.grown.emit(self)
        self._activate()

    def _activate(self) -> None:
        for layout in (self.layout(), self._bubble.layout()):
            assert layout is not None
            layout.activate()

    def _fit_bubble(self, own_width: int) -> None:
        px = self._theme.px
        limit = min(px(_BUBBLE_PX), max(own_width - px(40), min(px(120), own_width)))
        unfold_width = self._unfold.sizeHint().width() if not self._unfold.isHidden() else 0
        width = min(max(self._text.ideal_width, unfold_width) + px(28), limit)
        if width != self._bubble.minimumWidth():
            self._bubble.setFixedWidth(width)
            self._row.invalidate()  # Qt tells the layout around it alone


class PlainText(TextView):
    """Text exactly as it was typed, which knows the width it would like."""

    def __init__(self, theme: Theme) -> None:
        super().__init__(theme)
        self.ideal_width = 0
        self._rest = ""  # of the text, which the next turns write
        self._turns = QTimer(self)
        self._turns.timeout.connect(self._on_turn)
        self.setAccessibleName(tr("Text of your message"))

    def show_text(self, text: str) -> None:
        """Show ``text``: its beginning now, more of a long one with each turn of the event loop."""
        document = self.document()
        document.clear()
        block = QTextBlockFormat()
        block.setLineHeight(self._theme.px(LINE_PX), int(QTextBlockFormat.LineHeightTypes.MinimumHeight.value))
        QTextCursor(document).setBlockFormat(block)
        document.setTextWidth(-1)
        self._rest = text
        self._write()
        self.rest_cursor()
        self.ideal_width = int(document.idealWidth()) + 2
        self.updateGeometry()

    def completing(self) -> Iterator[None]:
        """Write what the next turns would, in steps."""
        while self._rest:
            self._write()
            yield
        self.updateGeometry()

    def _on_turn(self) -> None:
        self._write()
        self.updateGeometry()

    def _write(self) -> None:
        end = len(self._rest)
        if end > _PIECE_CHARACTERS:  # at a line's end, or between two words
            end = _PIECE_CHARACTERS
            end = max(self._rest.rfind(space, end // 2, end) + 1 for space in "\n ") or end
        plain = QTextCharFormat()
        plain.setFont(self._theme.font())
        plain.setForeground(self._theme.colour("text"))
        cursor = QTextCursor(self.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.insertText(displayable(self._rest[:end]), plain)
        self._rest = self._rest[end:]
        if self._rest:
            self._turns.start(0)
        else:
            self._turns.stop()
