"""What every message in the transcript has: a row of actions and figures that wakes up under the pointer.

Messages show one ``MessageView`` of the controller and say what the person wants; they act on nothing themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from PySide6.QtCore import QEvent, QPoint, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QEnterEvent, QGuiApplication, QKeyEvent, QKeySequence, QResizeEvent
from PySide6.QtWidgets import QAbstractButton, QAbstractScrollArea, QBoxLayout, QMenu, QWidget

from app.chat.attachment_chips import Chip
from app.chat.context_line import ContextLine
from app.chat.conversation import MessageView
from app.chat.message_actions import MessageAction
from app.chat.message_editor import MessageEditor
from app.chat.message_foot import MessageFoot
from app.chat.selection import mime_data, selection_around
from app.chat.text_view import TextView
from app.storage.records import MessageStatus
from app.theme import Theme
from app.translation import tr
from app.widgets.growing_column import height_at
from engine.protocol import Role


class MessageWidget(QWidget):
    """What both kinds of messages share: a foot that wakes up under the pointer or the focus.

    Attributes:
        is_own: the person wrote it.
        view: the message that is shown.
        edited: the widget that an editor takes the place of, in ``edit_layout``.

    Signals:
        asked(message_id, MessageAction): what is not done here, such as another answer.
        edit_requested(message_id, text): the message was written anew.
        edit_left: an editor that had the keyboard's focus is gone.
        attachment_opened(AttachmentRecord): look at its text.
        look_requested(message_id, offset, word, place): look closer at a word, which is at a place on the screen.
        results_given(message_id, results): what the functions gave that an answer called.
        notice(text): something could not be done.
        grown(itself): it may need another height, before the next picture.
    """

    asked = Signal(str, object)
    edit_requested = Signal(str, str)
    edit_left = Signal()
    attachment_opened = Signal(object)
    look_requested = Signal(str, int, str, QPoint)
    results_given = Signal(str, list)
    notice = Signal(str)
    grown = Signal(QWidget)

    def __init__(
        self,
        theme: Theme,
        view: MessageView,
        actions: Sequence[MessageAction],
        *,
        is_own: bool,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self.is_own = is_own
        self.view = view
        self._is_hovered = False
        self._has_focus_inside = False
        self._is_last = False
        self._context_line: ContextLine | None = None
        self._keyboard_parts: list[QWidget] | None = None
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAttribute(Qt.WidgetAttribute.WA_StaticContents)
        self.foot = MessageFoot(theme, actions, is_own=is_own)
        self.foot.set_siblings(view.sibling_index, view.num_siblings)
        self._editor: MessageEditor | None = None
        self.edited: QWidget
        self.edit_layout: QBoxLayout
        self.foot.asked.connect(self.act)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self.hasFocus():
            self.update()  # the frame around it

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.LayoutRequest:
            self._keyboard_parts = None
            if height_at(self, self.width()) != self.height():
                self.grown.emit(self)  # first the height, then what is in it: nothing is squeezed meanwhile
        return super().event(event)

    @property
    def knows_keyboard_parts(self) -> bool:
        """Whether ``keyboard_parts`` need not be looked for: nothing has been laid out anew since they were."""
        return self._keyboard_parts is not None

    def forget_keyboard_parts(self) -> None:
        """Look for them anew the next time."""
        self._keyboard_parts = None

    def keyboard_parts(self) -> Sequence[QWidget]:
        """What the keyboard reaches in it, as it is read: the foot's actions are last."""
        if self._keyboard_parts is None:
            self._keyboard_parts = self._find_keyboard_parts()
        return self._keyboard_parts

    def _find_keyboard_parts(self) -> list[QWidget]:
        parts: list[QWidget] = [
            part
            for kind in (QAbstractButton, QAbstractScrollArea)  # most widgets are neither: faster
            for part in self.findChildren(kind)
            if part.focusPolicy() & Qt.FocusPolicy.TabFocus and part.isVisibleTo(self)
        ]

        def place(part: QWidget) -> tuple[bool, int, int]:
            corner, is_action = part.mapTo(self, QPoint(0, 0)), self.foot.isAncestorOf(part)
            return is_action, 0 if is_action else corner.y(), corner.x()  # actions stand in one row

        return sorted(parts, key=place)

    @property
    def message_id(self) -> str:
        """The id of the message that is shown."""
        return self.view.record.id

    @property
    def current_view(self) -> MessageView:
        """The message with all of its text that has come."""
        return self.view

    @property
    def texts(self) -> list[TextView]:
        """The texts to select in, from top to bottom."""
        raise NotImplementedError

    @property
    def chips(self) -> Sequence[Chip]:
        """What is attached, above all of that."""
        return ()

    @property
    def folded_text(self) -> str:
        """What stands above the texts, folded and not laid out yet; "" for nothing."""
        return ""

    def reveal(self) -> None:
        """Show all that the message says, where some of it is folded."""

    def act(self, action: MessageAction) -> None:
        """Do what the person asked for, or pass it on."""
        if action is MessageAction.COPY:
            self.copy()
        elif action is MessageAction.COPY_MARKDOWN:
            QGuiApplication.clipboard().setText(self.current_view.record.content)
        elif action is MessageAction.EDIT:
            self.begin_edit()
        else:
            self.asked.emit(self.message_id, action)

    def copy(self) -> None:
        """Put the message on the clipboard: as it looks for rich text, as it was written for plain text."""
        data = mime_data([(text.whole_cursor(), text.is_following) for text in self.texts])
        data.setText(self.current_view.record.content)
        QGuiApplication.clipboard().setMimeData(data)

    @property
    def unfinished_edit(self) -> str | None:
        """What is written in an editor that is open, where it is another text; else None."""
        text = None if self._editor is None else self._editor.edit.toPlainText()
        return None if text == self.view.record.content else text

    def begin_edit(self, unfinished: str | None = None) -> None:
        """Put an editor in the text's place; Enter takes the new version, Escape gives up.

        With the text of an ``unfinished`` edit it goes on with that, and the keyboard stays where it is.
        """
        if self._editor is not None:
            return
        word = tr("Send") if self.view.record.role is not Role.ASSISTANT else tr("Save")
        text = self.view.record.content if unfinished is None else unfinished
        self._editor = MessageEditor(self._theme, text, word)
        self._editor.submitted.connect(self._on_edited)
        self._editor.cancelled.connect(self.end_edit)
        self.edited.hide()
        self.foot.set_busy(True)
        self.edit_layout.insertWidget(self.edit_layout.indexOf(self.edited), self._editor, 1000)
        if unfinished is None:
            self._editor.edit.setFocus(Qt.FocusReason.OtherFocusReason)

    def end_edit(self) -> None:
        """Show the text again."""
        if self._editor is not None:
            had_focus = self._editor.edit.hasFocus()
            self.edit_layout.removeWidget(self._editor)
            self._editor.hide()
            self._editor.deleteLater()
            self._editor = None
            self.edited.show()
            self.foot.set_busy(self.view.record.status is MessageStatus.STREAMING)
            if had_focus:
                self.edit_left.emit()

    def _on_edited(self, text: str) -> None:
        self.end_edit()
        if text != self.view.record.content:
            self.edit_requested.emit(self.message_id, text)

    def show_view(self, view: MessageView) -> None:
        """Show another state of the same message."""
        raise NotImplementedError

    def complete(self) -> None:
        """Show now what waits for the next turns, because the height must be true."""
        for _ in self.completing():
            pass

    def completing(self) -> Iterator[None]:
        """As ``complete``, in steps."""
        yield from ()

    def let_go(self, _num_parts: int) -> bool:
        """Delete so many parts of a message that is shown no more; True while there are more."""
        return False

    def append(self, channel: str, text: str) -> None:
        """A streamed piece; nothing streams into a message that no model writes."""

    def set_progress(self, text: str) -> None:
        """What is going on, while a model writes the message."""

    def set_open(self, is_open: bool) -> None:
        """Whether nothing follows the message."""

    def set_context_line(self, is_shown: bool) -> None:
        """Whether the model reads from here on, and nothing above."""
        if is_shown == (self._context_line is not None):
            return
        layout = self.layout()
        assert isinstance(layout, QBoxLayout)
        if self._context_line is None:
            self._context_line = ContextLine(self._theme)
            layout.insertWidget(0, self._context_line)
        else:
            layout.removeWidget(self._context_line)
            self._context_line.hide()
            self._context_line.deleteLater()
            self._context_line = None

    def set_last(self, is_last: bool) -> None:
        """Whether it is the last message, whose foot always shows."""
        self._is_last = is_last
        self._refresh_foot()

    def set_focus_inside(self, is_inside: bool) -> None:
        """Whether the keyboard's focus is on the message or in it."""
        self._has_focus_inside = is_inside
        self._refresh_foot()

    def enterEvent(self, event: QEnterEvent) -> None:
        self._is_hovered = True
        self._refresh_foot()
        super().enterEvent(event)

    def leaveEvent(self, event: QEvent) -> None:
        self._is_hovered = False
        self._refresh_foot()
        super().leaveEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        menu = self.make_menu(event.globalPos())
        menu.aboutToHide.connect(menu.deleteLater)
        if menu.actions():
            menu.popup(event.globalPos())
        event.accept()

    def make_menu(self, place: QPoint) -> QMenu:
        """What can be done with the selection, with what is at a place on the screen, and with the message."""
        menu = QMenu(self)
        selection = selection_around(self)
        if selection is not None and selection.views:
            menu.addAction(tr("Copy the selection")).triggered.connect(selection.copy)
            copy = menu.addAction(tr("Copy the selection as Markdown"))
            copy.triggered.connect(lambda: QGuiApplication.clipboard().setText(selection.markdown()))
        view = next((view for view in self.texts if view.rect().contains(view.mapFromGlobal(place))), None)
        if view is not None:
            self.add_place_actions(menu, view, place)
        if selection is not None:
            menu.addAction(tr("Select the message")).triggered.connect(lambda: selection.select_all(self.texts))
        menu.addSeparator()
        self.foot.fill_menu(menu)
        return menu

    def add_place_actions(self, menu: QMenu, view: TextView, place: QPoint) -> None:
        """Add what can be done with what ``view`` has at a place on the screen."""
        link = view.anchorAt(view.viewport().mapFromGlobal(place))
        if link:
            menu.addAction(tr("Copy the link")).triggered.connect(lambda: QGuiApplication.clipboard().setText(link))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        selection = selection_around(self)
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy()
        elif event.matches(QKeySequence.StandardKey.SelectAll) and selection is not None:
            selection.select_all(self.texts)
        else:
            super().keyPressEvent(event)

    def _refresh_foot(self) -> None:
        self.foot.set_active(self._is_hovered or self._has_focus_inside or self._is_last)
