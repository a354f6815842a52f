"""The chat page: transcript or empty state, notices and the composer, wired to the controller."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QPoint, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QApplication, QStackedWidget, QVBoxLayout, QWidget

from app.chat.composer import Composer
from app.chat.controller import ChatController
from app.chat.conversation import MessageView
from app.chat.empty_states import EmptyState
from app.chat.figures import cost_line, reading_line
from app.chat.message_actions import MessageAction
from app.chat.reading_column import COLUMN_PX, Centred
from app.chat.schema_picker import SchemaPicker
from app.chat.shown_branch import ShownBranch
from app.chat.transcript import Transcript
from app.storage.records import AttachmentRecord
from app.theme import Theme
from app.translation import tr
from app.widgets.buttons import LookButton
from app.widgets.notice_bar import NoticeBar
from engine.protocol import ModelInfo

if TYPE_CHECKING:
    from app.chat.closer_look import CloserLook
    from app.chat.find_in_chat import FindInChat


class ChatPage(QWidget):
    """Everything right of the sidebar while chatting.

    Attributes:
        branch: what can be done with the messages that are shown.

    Signals:
        open_model_requested: the person wants to choose a model file.
        find_model_requested: the person wants to look for a model.
    """

    open_model_requested = Signal()
    find_model_requested = Signal()

    def __init__(
        self,
        controller: ChatController,
        theme: Theme,
        parent: QWidget | None = None,
        *,
        can_find_models: bool = False,
    ) -> None:
        """``can_find_models`` says whether somebody listens to ``find_model_requested``."""
        super().__init__(parent)
        self.setObjectName("chatPage")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._controller = controller
        self._theme = theme
        self._can_find = can_find_models
        self._shown_id = ""
        self._loading_name = ""
        self._failure = ""
        self._waiting = self._offer = ""
        self._look = ("", QPoint())
        self.transcript = Transcript(theme)
        self.branch = ShownBranch(controller, self.transcript)
        self.empty = EmptyState(theme, can_find=can_find_models)
        self.schema_picker = SchemaPicker(controller, theme)
        self.schema_picker.undo_offered.connect(self.offer_undo)
        self.composer = Composer(theme, self.schema_picker)
        self.notice_bar = NoticeBar(theme)
        self._stack = QStackedWidget()
        self._stack.setMinimumHeight(1)  # in a low window what is said and written needs the room
        self._empty_holder = Centred(self.empty)
        self._stack.addWidget(self._empty_holder)
        self._stack.addWidget(self.transcript)
        self._foot = QWidget()
        foot = QVBoxLayout(self._foot)
        foot.setContentsMargins(0, 0, 0, 0)
        foot.addWidget(self.notice_bar)
        foot.addWidget(self.composer)
        self._foot_holder = Centred(self._foot)
        self._column = QVBoxLayout(self)
        self._column.setSpacing(0)
        self._column.addWidget(self._stack, 1)
        self._column.addWidget(self._foot_holder)
        self._to_end = LookButton(theme, tr("To the end"), "", "chevron-down", "muted", self)
        self._to_end.hide()
        self._to_end.clicked.connect(self.transcript.scroll_to_end)
        self._wire_views()
        self._wire_controller()
        self._apply_metrics()
        theme.changed.connect(self._apply_metrics)
        if controller.current_conversation.active_leaf_id is None:
            self._on_opened(controller.current_id)  # at once, for it is empty; the controller's start shows another
        else:
            self._stack.setCurrentWidget(self.transcript)

    def focus_composer(self) -> None:
        """Let the person write."""
        self.composer.edit.setFocus(Qt.FocusReason.OtherFocusReason)

    def show_notice(self, text: str) -> None:
        """Say one sentence above the composer."""
        self.notice_bar.show_text(text, for_ms=12_000)

    def offer_undo(self, text: str, undo: Callable[[], object]) -> None:
        """Say one sentence about what is gone, with the way back."""
        self.notice_bar.offer_undo(text, undo)

    @cached_property
    def finding(self) -> FindInChat:
        """Finding in the open chat; made when it is first asked for."""
        from app.chat.find_in_chat import FindInChat  # not before the window is there

        return FindInChat(self._controller, self.transcript, self._theme, self._column, self)

    # ------------------------------------------------------------------------------------------ wiring

    def _wire_views(self) -> None:
        controller, transcript, composer = self._controller, self.transcript, self.composer
        transcript.edit_requested.connect(controller.edit_and_resend)
        transcript.edit_left.connect(self.focus_composer)
        transcript.asked.connect(self._on_asked)
        transcript.notice.connect(self.show_notice)
        transcript.following_changed.connect(self._place_to_end)
        composer.send_requested.connect(self._on_send)
        composer.stop_requested.connect(self._on_stop)
        composer.count_requested.connect(controller.count_tokens)
        composer.draft_changed.connect(controller.save_draft)
        composer.text_pasted.connect(
            lambda text: controller.attachments.add_text(controller.current_conversation, text)
        )
        composer.files_given.connect(
            lambda paths: controller.attachments.add_files(controller.current_conversation, paths)
        )
        composer.attachment_removed.connect(controller.attachments.remove)
        composer.attachment_opened.connect(self._open_attachment)
        transcript.attachment_opened.connect(self._open_attachment)
        transcript.look_requested.connect(self._on_look)
        transcript.results_given.connect(self._on_results)
        self.empty.suggestion_chosen.connect(self._on_suggestion)
        self.empty.open_requested.connect(self.open_model_requested)
        self.empty.anyway_requested.connect(controller.load_anyway)
        self.empty.find_requested.connect(self.find_model_requested)

    def _wire_controller(self) -> None:
        controller = self._controller
        controller.conversation_opened.connect(self._on_opened)
        controller.message_added.connect(self._on_message)
        controller.message_changed.connect(self._on_message)
        controller.delta.connect(self._on_delta)
        controller.reading_progress.connect(self._on_reading)
        controller.generation_started.connect(self._on_generation)
        controller.generation_finished.connect(self._on_generation)
        controller.cost_known.connect(self._on_cost)
        controller.attachments.draft_changed.connect(self._on_attachments)
        controller.context_shifted.connect(self._on_shifted)
        controller.looked_closer.connect(self._on_looked)
        controller.message_found.connect(lambda message_id, words: self.finding.show_found(message_id, words))
        controller.notice.connect(self.show_notice)
        controller.waiting.connect(self._on_waiting)
        controller.model_loading.connect(self._on_model_loading)
        controller.model_loaded.connect(self._on_model_loaded)
        controller.model_failed.connect(self._on_model_failed)
        controller.model_ejected.connect(self._refresh_empty)
        controller.models_changed.connect(self._refresh_empty)

    # ------------------------------------------------------------------------------------------ the controller says

    def _on_opened(self, conversation_id: str) -> None:
        messages = self._controller.current_messages
        if conversation_id == self._shown_id:
            self.transcript.sync(messages)
        else:
            self._shown_id = conversation_id
            self.notice_bar.withdraw(self._offer)
            self.transcript.show_conversation(messages)
            self.composer.set_text(self._controller.current_conversation.draft)
            self.composer.show_attachments(self._controller.attachments.draft(self._shown_id))
        self._refresh()

    def _on_message(self, conversation_id: str, _view: MessageView) -> None:
        if conversation_id == self._shown_id:
            self.transcript.sync(self._controller.current_messages)
            self._refresh()

    def _on_delta(self, conversation_id: str, message_id: str, channel: str, text: str) -> None:
        if conversation_id == self._shown_id:
            self.transcript.append_delta(message_id, channel, text)

    def _on_attachments(self, conversation_id: str) -> None:
        if conversation_id == self._shown_id:
            self.composer.show_attachments(self._controller.attachments.draft(self._shown_id))

    def _on_shifted(self, conversation_id: str) -> None:
        if conversation_id == self._shown_id:
            self._refresh()

    def _on_cost(self, num_tokens: int, share: float, seconds: float, is_estimate: bool) -> None:
        self.composer.set_cost(cost_line(num_tokens, share, seconds, is_estimate=is_estimate))

    def _open_attachment(self, record: AttachmentRecord) -> None:
        from app.chat.attachment_dialog import AttachmentDialog  # rarely looked at

        attachments = self._controller.attachments
        if attachments.path(record).is_file():
            AttachmentDialog(record, attachments.text(record), self._theme, self).open()
        else:
            self.show_notice(tr("The text of {name} is gone: its file was deleted.", name=record.name))

    def _on_reading(self, conversation_id: str, computed: int, total: int, reused: int) -> None:
        messages = self._controller.current_messages
        if conversation_id == self._shown_id and messages:
            self.transcript.set_progress(messages[-1].record.id, reading_line(computed, total, reused))

    def _on_generation(self, conversation_id: str, _message_id: str) -> None:
        if conversation_id == self._shown_id:
            self._refresh()
            if not self._controller.is_generating:
                self.notice_bar.withdraw(self._waiting)

    def _on_model_loading(self, name: str, _fraction: float, _message: str) -> None:
        if name != self._loading_name or self._failure:
            self._loading_name, self._failure = name, ""
            self._refresh_empty()

    def _on_waiting(self, text: str) -> None:
        self._waiting = text
        finds = self._can_find and not self._controller.has_models and not self._controller.loading_name
        self.notice_bar.show_text(
            text,
            action_name=tr("Find a model") if finds else "",
            action=self.find_model_requested.emit if finds else None,
        )

    def _on_model_loaded(self, _info: ModelInfo) -> None:
        self._loading_name = self._failure = ""
        self.notice_bar.withdraw(self._waiting)
        self._refresh_empty()

    def _on_model_failed(self, reason: str) -> None:
        self._loading_name, self._failure = "", reason
        self.notice_bar.withdraw(self._waiting)
        self._refresh_empty()
        if self._stack.currentWidget() is self.transcript:
            can_load_anyway = self._controller.can_load_anyway
            self.notice_bar.show_text(
                reason,
                action_name=tr("Load anyway") if can_load_anyway else "",
                action=self._controller.load_anyway if can_load_anyway else None,
            )

    # ------------------------------------------------------------------------------------------ the person does

    def _on_send(self, text: str) -> None:
        if self._controller.send(text):
            self.composer.clear_text()
            self.transcript.scroll_to_end()

    def _on_stop(self) -> None:
        if self._controller.is_generating:
            self._controller.stop()

    def _on_asked(self, message_id: str, action: MessageAction) -> None:
        controller = self._controller
        match action:
            case MessageAction.PREVIOUS:
                controller.select_sibling(message_id, -1)
            case MessageAction.NEXT:
                controller.select_sibling(message_id, 1)
            case MessageAction.REGENERATE:
                controller.regenerate(message_id)
            case MessageAction.DROP_TURNS:
                controller.drop_turns(message_id)
            case MessageAction.LARGER_CONTEXT:
                self._offer_context(message_id)
            case MessageAction.REPRODUCE:
                controller.reproduce(message_id)
            case MessageAction.CONTINUE:
                controller.continue_answer(message_id)
            case MessageAction.FORK:
                controller.fork(message_id)

    def _offer_context(self, message_id: str) -> None:
        """Say what a larger context costs before it is taken."""
        offer = self._controller.larger_context(message_id)
        if offer is None:
            self.show_notice(
                tr("The model knows no larger context: start a new chat, or choose a model that reads more.")
                if self._controller.model_info is not None
                else tr("Load a model first.")
            )
            return
        self._offer = offer.sentence
        self.notice_bar.show_text(
            offer.sentence,
            action_name=tr("Load it again"),
            action=lambda: self._controller.enlarge_context(message_id, offer.context_length),
        )

    def _on_results(self, message_id: str, results: list[str]) -> None:
        self._controller.give_results(message_id, results)
        self.transcript.scroll_to_end()
        self.focus_composer()

    def _on_look(self, message_id: str, offset: int, word: str, place: QPoint) -> None:
        self._look = (word, place)
        self._controller.look_closer(message_id, offset)

    def _on_looked(self, look: CloserLook) -> None:
        word, place = self._look
        from app.chat.closer_look import CloserLookPopup

        is_elsewhere = QApplication.activeModalWidget() is not None or QApplication.activePopupWidget() is not None
        if look.alternatives and self.isVisible() and not is_elsewhere:  # an engine at work answers late
            popup = CloserLookPopup(look, word, self._theme, self)
            popup.chosen.connect(self._controller.branch_from)
            popup.ended.connect(self._controller.edit_and_resend)
            popup.destroyed.connect(self.focus_composer)  # where it stood is gone with the old answer
            popup.show_at(place)

    def _on_suggestion(self, text: str) -> None:
        self.composer.set_text(text)
        self.focus_composer()

    # ------------------------------------------------------------------------------------------ looks

    def _refresh(self) -> None:
        self.composer.set_busy(self._controller.is_generating)
        self.transcript.set_context_start(self._controller.context_start)
        has_messages = self._controller.has_messages
        self._stack.setCurrentWidget(self.transcript if has_messages else self._empty_holder)
        self._refresh_empty()
        self._place_to_end()

    def _refresh_empty(self) -> None:
        if self._stack.currentWidget() is not self._empty_holder:
            return
        info = self._controller.model_info
        if info is not None:
            self.empty.show_ready(info.name)
        elif self._loading_name:
            self.empty.show_loading(self._loading_name)
        elif self._failure:
            self.empty.show_failed(self._failure, can_load_anyway=self._controller.can_load_anyway)
        else:
            self.empty.show_no_model(has_models=self._controller.has_models)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_height()
        self._place_to_end()

    def event(self, event: QEvent) -> bool:
        is_done = super().event(event)
        if event.type() == QEvent.Type.LayoutRequest:
            self._fit_height()
        return is_done

    def _fit_height(self) -> None:
        """Let the text that is written grow as far as all around it has its room."""
        column, edit = self._column, self.composer.edit
        width = self.width()
        least = column.minimumHeightForWidth(width) if column.hasHeightForWidth() else column.minimumSize().height()
        edit.set_room(self.height() - least + edit.height())

    def _place_to_end(self, _is_following: bool = True) -> None:
        is_wanted = not self.transcript.is_following and self._stack.currentWidget() is self.transcript
        if is_wanted:
            self._to_end.adjustSize()
            corner = self._foot_holder.mapTo(self, QPoint(0, 0))
            left = (self.width() - self._to_end.width()) // 2
            self._to_end.move(left, corner.y() - self._to_end.height() - self._theme.px(10))
            self._to_end.raise_()
        self._to_end.setVisible(is_wanted)

    def _apply_metrics(self) -> None:
        px = self._theme.px
        self._column.setContentsMargins(0, 0, 0, px(12))
        self._foot_holder.set_metrics(px(COLUMN_PX), px(24))
        self._empty_holder.set_metrics(px(560), px(24))
        layout = self._foot.layout()
        assert layout is not None
        layout.setSpacing(px(8))
