"""Marks what was found in the messages that are alive, without touching their texts, and leads the eye there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QPoint, QTimer
from PySide6.QtGui import QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QTextEdit
from shiboken6 import isValid

from app.chat.attachment_chips import Chip
from app.chat.finder import Hit
from app.chat.found_text import any_of, places_in, reasoning_paragraphs
from app.chat.text_view import TextView
from app.chat.transcript import Transcript
from app.theme import Theme
from app.throttle import Throttle
from app.widgets.unseen_steps import UnseenSteps

if TYPE_CHECKING:
    from app.chat.message_view import MessageWidget

MARK_EVERY_MS = 120  # while texts grow
FLASH_MS = 2500


class FoundMarks(QObject):
    """Marks every hit in the transcript, and the current one more strongly."""

    def __init__(self, transcript: Transcript, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._transcript = transcript
        self._theme = theme
        self._pattern: re.Pattern[str] | None = None
        self._current: Hit | None = None
        self._marked: dict[TextView, object] = {}  # what each text was marked for
        self._flashed: Sequence[TextView | Chip] = ()
        self._steps = UnseenSteps(transcript.viewport(), self)
        self._refresher = Throttle(MARK_EVERY_MS, self._mark_all, self)
        self._flash_timer = QTimer(self)
        self._flash_timer.setSingleShot(True)
        self._flash_timer.setInterval(FLASH_MS)
        self._flash_timer.timeout.connect(self._end_flash)
        transcript.shown_changed.connect(self._on_shown)

    def show_pattern(self, pattern: re.Pattern[str] | None) -> None:
        """Mark what ``pattern`` matches; None marks nothing."""
        self._pattern, self._current = pattern, None
        self._mark_all()

    def go_to(self, hit: Hit) -> None:
        """Make ``hit`` the current one and scroll as far as is needed to see it."""
        self._current = hit
        self._steps.begin(self._going_to(hit))

    def _going_to(self, hit: Hit) -> Iterator[None]:
        yield from self._transcript.approach(hit.message_id)
        widget = self._transcript.widget_of(hit.message_id)
        if widget is None or self._pattern is None:
            return
        chips = _found_chips(widget, self._pattern)
        if hit.ordinal < len(chips):
            yield from self._bring_chip_into_view(widget, chips[hit.ordinal])
            self._mark_all()
            return
        num_folded = _num_above(widget, self._pattern)
        places = self._places(widget, self._pattern)
        if not num_folded <= hit.ordinal < num_folded + len(places):
            num_folded = len(chips)
            places = self._revealed(widget, self._pattern)
        yield from self._bring_into_view(widget, places, hit.ordinal - num_folded)
        self._mark_all()

    def flash(self, message_id: str, words: Sequence[str]) -> None:
        """Scroll to the first of ``words`` in a message, and mark them in it for a moment."""
        self._steps.begin(self._flashing(message_id, words))

    def _flashing(self, message_id: str, words: Sequence[str]) -> Iterator[None]:
        yield from self._transcript.approach(message_id)
        widget = self._transcript.widget_of(message_id)
        if widget is None or not words:
            return
        self._end_flash()
        longest = any_of([max(words, key=len)])
        places = self._places(widget, longest)
        if not places and (chips := _found_chips(widget, longest)):
            yield from self._bring_chip_into_view(widget, chips[0])
        else:
            yield from self._bring_into_view(widget, places or self._revealed(widget, longest), 0)
        if self._transcript.widget_of(message_id) is not widget:
            return  # another conversation is shown meanwhile
        self._flashed = (*widget.texts, *_found_chips(widget, any_of(words)))
        for view in self._flashed:
            if isinstance(view, Chip):
                view.mark("current")
                continue
            self._mark(view, places_in(view.document(), any_of(words)), is_current=lambda _number: True)
        self._flash_timer.start()

    def _revealed(self, widget: MessageWidget, pattern: re.Pattern[str]) -> list[tuple[TextView, int, int]]:
        """Unfold a message; gives the places in all of it."""
        widget.reveal()
        self._transcript.go_to(widget.message_id)  # its height is true again
        return self._places(widget, pattern)

    def _places(self, widget: MessageWidget, pattern: re.Pattern[str]) -> list[tuple[TextView, int, int]]:
        return [(view, start, end) for view in widget.texts for start, end in places_in(view.document(), pattern)]

    def _bring_into_view(
        self, widget: MessageWidget, places: Sequence[tuple[TextView, int, int]], ordinal: int
    ) -> Iterator[None]:
        view, start, _end = places[min(ordinal, len(places) - 1)] if places else (None, 0, 0)
        if view is None or not view.isVisibleTo(widget):  # the tree of a structured answer may stand in its place
            yield from self._transcript.make_room_above(widget, 0)
            self._transcript.bring_into_view(widget, 0, self._theme.px(24))
            return
        cursor = QTextCursor(view.document())
        cursor.setPosition(start)
        box = view.cursorRect(cursor)
        bar = view.horizontalScrollBar()
        if not 0 <= box.left() <= view.viewport().width() - self._theme.px(24):
            bar.setValue(bar.value() + box.left() - view.viewport().width() // 3)
        top = view.viewport().mapTo(widget, QPoint(0, box.top())).y()
        yield from self._transcript.make_room_above(widget, top)
        self._transcript.bring_into_view(widget, top, top + box.height())

    def _bring_chip_into_view(self, widget: MessageWidget, chip: Chip) -> Iterator[None]:
        top = chip.mapTo(widget, QPoint(0, 0)).y()
        yield from self._transcript.make_room_above(widget, top)
        self._transcript.bring_into_view(widget, top, top + chip.height())

    def _on_shown(self) -> None:
        if self._pattern is not None:
            self._refresher.request()

    def _mark_all(self) -> None:
        """Mark the texts that differ from what was marked in them last."""
        marked: dict[TextView, object] = {}
        for widget in self._transcript.widgets:
            current = self._current if self._current and self._current.message_id == widget.message_id else None
            self._mark_chips(widget, current)
            before = _num_above(widget, self._pattern) if current is not None and self._pattern is not None else 0
            for view in widget.texts:
                if view in self._flashed:
                    continue
                state = (self._pattern, current, before, view.document().characterCount())
                marked[view] = state
                is_whole = all(mark.cursor.hasSelection() for mark in view.extraSelections())
                if self._marked.get(view) != state or not is_whole:  # what is written anew loses its marks
                    places = places_in(view.document(), self._pattern) if self._pattern is not None else []
                    ordinal = current.ordinal - before if current is not None else -1
                    self._mark(view, places, is_current=lambda number, ordinal=ordinal: number == ordinal)
                before += len(view.extraSelections())
        self._marked = marked

    def _mark_chips(self, widget: MessageWidget, current: Hit | None) -> None:
        found = _found_chips(widget, self._pattern) if self._pattern is not None else []
        for chip in widget.chips:
            is_current = current is not None and chip in found[current.ordinal : current.ordinal + 1]
            if chip not in self._flashed:
                chip.mark("current" if is_current else "found" if chip in found else "")

    def _mark(self, view: TextView, places: Sequence[tuple[int, int]], is_current: object) -> None:
        assert callable(is_current)
        if not places and not view.extraSelections():
            return
        marks = []
        for number, (start, end) in enumerate(places):
            mark = QTextEdit.ExtraSelection()
            cursor = QTextCursor(view.document())
            cursor.setPosition(start)
            cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
            mark.cursor = cursor
            mark.format = self._format(is_current=bool(is_current(number)))
            marks.append(mark)
        view.setExtraSelections(marks)

    def _format(self, *, is_current: bool) -> QTextCharFormat:
        made = QTextCharFormat()
        made.setBackground(self._theme.colour("accent" if is_current else "found"))
        made.setForeground(self._theme.colour("on_accent" if is_current else "text"))
        return made

    def _end_flash(self) -> None:
        flashed, self._flashed = self._flashed, ()
        self._flash_timer.stop()
        for view in flashed:
            if not isValid(view):
                continue
            if isinstance(view, Chip):
                view.mark("")
            else:
                view.setExtraSelections([])
                self._marked.pop(view, None)
        if flashed:
            self._mark_all()


def _found_chips(widget: MessageWidget, pattern: re.Pattern[str]) -> list[Chip]:
    """The chips in whose names the first hits of a message are, one for each hit."""
    return [chip for chip in widget.chips for _ in pattern.finditer(chip.name)]


def _num_above(widget: MessageWidget, pattern: re.Pattern[str]) -> int:
    """How many hits a message has above its texts: in the names of what is attached, and in what is folded."""
    return len(_found_chips(widget, pattern)) + sum(
        1 for text in reasoning_paragraphs(widget.folded_text) for _ in pattern.finditer(text)
    )
