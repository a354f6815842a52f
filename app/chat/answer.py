"""The model's answer: folded reasoning, the text, how it ended, and the foot with its figures."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace

from PySide6.QtCore import QPoint, QTimer
from PySide6.QtGui import QFocusEvent, QTextCursor
from PySide6.QtWidgets import QMenu, QVBoxLayout, QWidget

from app.chat.answer_body import AnswerBody
from app.chat.block_parts import affordable
from app.chat.closer_look import place_in_source
from app.chat.conversation import MessageView
from app.chat.figures import figure, seconds, seed_of, statistics_line
from app.chat.limit_offers import LimitOffers, limit_actions
from app.chat.message_actions import ANSWER_ACTIONS, MessageAction
from app.chat.message_view import MessageWidget
from app.chat.reasoning_fold import ReasoningFold
from app.chat.structured_view import StructuredView
from app.chat.text_view import TextView
from app.chat.tool_calls import calls_of
from app.chat.tool_card import ResultsForm, ToolCard
from app.storage.records import MessageStatus
from app.theme import Theme
from app.translation import tr
from app.widgets.label import Label
from engine.protocol import Channel, ToolCall

_LEAST_PIECE, _MOST_PIECE, _MOST_FENCES = 200, 1500, 4
TURN_S = 0.015
"""A long text is shown in pieces of so many characters and fences, fewer where they cost much, for so long in each
turn of the event loop."""

_TITLE_EVERY_S = 0.5  # the message is laid out anew for each

_ENDINGS = {
    MessageStatus.STOPPED: tr("Stopped."),
    MessageStatus.INTERRUPTED: tr("Interrupted: Fireside ended before the answer did."),
}
_LIMITS = {
    "length": tr("Ended at the longest answer that the settings allow."),
    "context": tr("Ended because the context is full."),
}


class Answer(MessageWidget):
    """An answer that is complete or being written."""

    def __init__(self, theme: Theme, view: MessageView, parent: QWidget | None = None) -> None:
        super().__init__(theme, view, ANSWER_ACTIONS, is_own=False, parent=parent)
        self.setObjectName("answer")
        px = theme.px
        self._pushed = ""  # the answer as far as it came
        self._num_shown = 0  # characters of it that the body has
        self._piece_size = _LEAST_PIECE
        self._turns = QTimer(self)
        self._turns.timeout.connect(self._show_more)
        self._is_finished = False
        self._reasoning = ""
        self._reasoning_began: float | None = None
        self._reasoning_ms: float | None = None
        self._titled_s = float("-inf")  # when the fold said last how long it takes
        self._fold: ReasoningFold | None = None
        self._structured: StructuredView | None = None
        self._calls: tuple[ToolCall, ...] = ()
        self._cards: list[ToolCard] = []
        self._is_open = False
        self._form: ResultsForm | None = None
        self._form_calls: tuple[ToolCall, ...] = ()
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, px(20))
        self._column.setSpacing(px(6))
        self.body = AnswerBody(theme)
        self.body.notice.connect(self.notice)
        self._ending = Label()
        self._ending.setWordWrap(True)
        self._ending.setContentsMargins(0, px(4), 0, 0)
        self._ending.setAccessibleName(tr("How the answer ended"))
        self._ending.hide()
        self._column.addWidget(self.body)
        self._column.addWidget(self._ending)
        self._offers: LimitOffers | None = None
        self._offered: tuple[MessageAction, ...] = ()
        self._column.addWidget(self.foot)
        self.edited = self.body
        self.edit_layout = self._column
        self.show_view(view)

    @property
    def texts(self) -> list[TextView]:
        reasoning = [self._fold.text_view] if self._fold is not None and self._fold.is_open else []
        return [*reasoning, *self.body.texts, *(text for card in self._cards for text in card.texts)]

    @property
    def folded_text(self) -> str:
        return "" if self._fold is None or self._fold.is_open else self._reasoning

    def reveal(self) -> None:
        if self._fold is not None:
            self._fold.open()

    @property
    def content(self) -> str:
        """The answer as far as it came."""
        return self._pushed

    @property
    def current_view(self) -> MessageView:
        if self.view.record.status is not MessageStatus.STREAMING:
            return self.view
        record = replace(self.view.record, content=self._pushed, reasoning=self._reasoning)
        return replace(self.view, record=record)

    def add_place_actions(self, menu: QMenu, view: TextView, place: QPoint) -> None:
        super().add_place_actions(menu, view, place)
        texts = self.body.texts
        if view not in texts or self.view.record.status is MessageStatus.STREAMING:
            return
        cursor = view.cursorForPosition(view.viewport().mapFromGlobal(place))
        cursor.select(QTextCursor.SelectionType.WordUnderCursor)
        word = cursor.selectedText()
        before = [text.toPlainText() for text in texts[: texts.index(view)]]
        before.append(view.toPlainText()[: cursor.selectionStart()])
        offset = place_in_source(self._pushed, "\n".join(before), word) if word.strip() else None
        if offset is not None:
            look = menu.addAction(tr("Look closer at “{word}”", word=word[:30].replace("&", "&&")))
            look.triggered.connect(lambda: self.look_requested.emit(self.message_id, offset, word, place))

    def append(self, channel: str, text: str) -> None:
        """A streamed piece, shown at once; who brings it sees to it that pieces are not too many."""
        is_call = channel == Channel.TOOL_CALL.value
        self.foot.set_status(tr("writing a call") if is_call else "")
        if channel == Channel.REASONING.value:
            self._append_reasoning(text)
            return
        if not is_call:
            self._end_reasoning()
            self._push(text)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.body.set_opaque(False)  # over the frame around it

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.body.set_opaque(True)

    def set_progress(self, text: str) -> None:
        """What is going on, in the foot."""
        if self.view.record.status is MessageStatus.STREAMING:
            self.foot.set_status(text)

    def show_view(self, view: MessageView) -> None:
        """Show another state of the same message; text that is there already is not drawn again."""
        self.view = view
        record = view.record
        is_streaming = self.body.has_caret = record.status is MessageStatus.STREAMING
        if record.reasoning and len(record.reasoning) > len(self._reasoning):
            self._append_reasoning(record.reasoning[len(self._reasoning) :])
        if is_streaming and self._is_finished:
            self._rewrite(record.content)  # it goes on: the end that was closed is open again
        elif record.content.startswith(self._pushed):
            rest = record.content[len(self._pushed) :]
            if rest:
                self._push(rest)
        elif not is_streaming:
            self._rewrite(record.content)
        self.foot.set_siblings(view.sibling_index, view.num_siblings)
        self.foot.set_busy(is_streaming)
        self.setAccessibleName(tr("Answer: {content}", content=record.content[:200]))
        if not is_streaming:
            self._finish()
        elif not self._pushed and not self._reasoning and not self.foot.status:
            self.foot.set_status(tr("waiting"))

    def _finish(self) -> None:
        self._is_finished = True
        if self._num_shown == len(self._pushed):
            self.body.finish()
        self._end_reasoning()
        record = self.view.record
        self.foot.set_status(statistics_line(record.stats))
        ending = _ENDINGS.get(record.status, "")
        if record.status is MessageStatus.FAILED:
            ending = record.error or tr("The answer failed.")
        elif record.status is MessageStatus.COMPLETE and record.stats:
            ending = _LIMITS.get(str(record.stats.get("finish_reason", "")), "")
            if not ending and not record.content.strip() and not calls_of(record):
                ending = tr("The model ended without an answer.")
        is_failure = record.status is MessageStatus.FAILED
        self._ending.setProperty("look", "caution" if is_failure else "muted")
        self._ending.style().unpolish(self._ending)
        self._ending.style().polish(self._ending)
        self._ending.setText(ending)
        self._ending.setVisible(bool(ending))
        self._show_structured()
        self._show_calls()
        self._show_offers()
        has_seed = seed_of(record.stats) is not None
        self.foot.set_unavailable(frozenset() if has_seed else frozenset({MessageAction.REPRODUCE}))

    def _show_calls(self) -> None:
        """Show the calls that the model wrote under its text."""
        calls = calls_of(self.view.record)
        if calls == self._calls:
            return
        self._calls = calls
        for shown in self._cards:
            self._take_off(shown)
        self._cards = [ToolCard(call, self._theme) for call in calls]
        for card in self._cards:
            card.notice.connect(self.notice)
            self._column.insertWidget(self._column.indexOf(self._ending), card)
        self._show_form()

    def set_open(self, is_open: bool) -> None:
        """Whether nothing follows: then the person may say what the called functions gave."""
        self._is_open = is_open
        self._show_form()
        self._show_offers()

    def _show_form(self) -> None:
        if self._form is not None:
            if self._is_open and self._form_calls == self._calls:
                return
            self._take_off(self._form)
            self._form = None
        if self._is_open and self._calls:
            self._form, self._form_calls = ResultsForm(self._calls, self._theme), self._calls
            self._form.given.connect(lambda results: self.results_given.emit(self.message_id, results))
            self._column.insertWidget(self._column.indexOf(self._ending) + 1, self._form)

    def _show_offers(self) -> None:
        """Offer ways to go on where the conversation has outgrown the context."""
        wanted = limit_actions(self.view.record) if self._is_open and self._is_finished else ()
        if wanted == self._offered:
            return
        self._offered = wanted
        if self._offers is not None:
            self._take_off(self._offers)
            self._offers = None
        if wanted:
            self._offers = LimitOffers(wanted, self._theme)
            self._offers.asked.connect(lambda action: self.asked.emit(self.message_id, action))
            self._column.insertWidget(self._column.indexOf(self._ending) + 1, self._offers)

    def _take_off(self, widget: QWidget) -> None:
        self._column.removeWidget(widget)
        widget.hide()
        widget.deleteLater()

    def _show_structured(self) -> None:
        """Show an answer that was to have a form as a tree, and its text as JSON behind that."""
        verdict = (self.view.record.stats or {}).get("structured")
        if not isinstance(verdict, dict) or self._structured is not None:
            return
        try:
            value = json.loads(self.view.record.content)
        except (ValueError, RecursionError):
            return
        structured = self._structured = StructuredView(value, verdict, self._theme)
        self._replace_body()
        self.body.push(f"```json\n{structured.json_text}\n```")
        self.body.finish()
        self.body.hide()
        structured.notice.connect(self.notice)
        structured.side_chosen.connect(lambda is_tree: self.body.setVisible(not is_tree))
        self._column.insertWidget(self._column.indexOf(self.body), structured)

    def _replace_body(self) -> None:
        self._turns.stop()
        self._num_shown = len(self._pushed)
        self.body.hide()
        place = self._column.indexOf(self.body)
        self._column.removeWidget(self.body)
        self.body.deleteLater()
        self.body = AnswerBody(self._theme)
        self.body.set_opaque(not self.hasFocus())
        self.body.has_caret = self.view.record.status is MessageStatus.STREAMING
        self.body.notice.connect(self.notice)
        self.edited = self.body
        self._column.insertWidget(place, self.body)

    def _rewrite(self, content: str) -> None:
        self._is_finished = False
        if self._structured is not None:
            self._column.removeWidget(self._structured)
            self._structured.hide()
            self._structured.deleteLater()
            self._structured = None
        self._ending.hide()
        self._replace_body()
        self._pushed, self._num_shown = "", 0
        if content:
            self._push(content)

    def let_go(self, num_parts: int) -> bool:
        self._turns.stop()
        return self.body.let_go(num_parts)

    def completing(self) -> Iterator[None]:
        while self._num_shown < len(self._pushed):
            self._show_more()
            yield

    def _push(self, text: str) -> None:
        self._pushed += text
        if not self._turns.isActive():
            self._show_more()

    @property
    def _is_short(self) -> bool:
        """Whether nobody shall see that the text comes in pieces."""
        return len(self._pushed) <= _MOST_PIECE and self._pushed.count("```") <= 3 * _MOST_FENCES

    def _show_more(self) -> None:
        """Show what waits, for as long as nobody notices; the rest in the next turn."""
        began = now = time.perf_counter()
        turn_s = TURN_S if self.isVisible() else TURN_S / 3  # what is new is also put into the window in this turn
        is_higher = self._turns.isActive()
        while self._num_shown < len(self._pushed):
            end = self._num_shown + min(self._piece_size, affordable(self._pushed, self._num_shown))
            for fence in list(re.finditer("```", self._pushed[self._num_shown : end]))[_MOST_FENCES:][:1]:
                end = self._num_shown + fence.start()
            is_higher = self.body.push(self._pushed[self._num_shown : end]) or is_higher
            self._num_shown = min(end, len(self._pushed))
            before, now = now, time.perf_counter()
            size = self._piece_size * 2 if now - before < TURN_S / 2 else self._piece_size // 2
            self._piece_size = min(max(size, _LEAST_PIECE), _MOST_PIECE)
            if now - began >= turn_s and not self._is_short:
                break
        if self._num_shown < len(self._pushed):
            self._turns.start(0)
        else:
            self._turns.stop()
            if self._is_finished:
                self.body.finish()
        if is_higher or self._is_finished:
            self.grown.emit(self)

    def _append_reasoning(self, text: str) -> None:
        if self._fold is None:
            self._fold = ReasoningFold(self._theme)
            self._column.insertWidget(0, self._fold)
            self._fold.set_title(tr("Thinking"))
        if self._reasoning_began is None and self.view.record.status is MessageStatus.STREAMING:
            self._reasoning_began = time.monotonic()
        self._reasoning += text
        self._fold.set_reasoning(self._reasoning)
        if self._reasoning_began is not None and time.monotonic() - self._titled_s >= _TITLE_EVERY_S:
            self._titled_s = time.monotonic()
            self._fold.set_title(tr("Thinking · {seconds}", seconds=seconds(self._elapsed_ms())))

    def _end_reasoning(self) -> None:
        if self._fold is None:
            return
        if self._reasoning_ms is None and self._reasoning_began is not None:
            self._reasoning_ms = self._elapsed_ms()
        known = figure(self.view.record.stats or {}, "reasoning_ms") or self._reasoning_ms
        self._fold.set_title(
            tr("Thought for {seconds}", seconds=seconds(known)) if known is not None else tr("Thought first")
        )

    def _elapsed_ms(self) -> float:
        return (time.monotonic() - (self._reasoning_began or time.monotonic())) * 1000
