"""Counts what is looked for in all messages of a branch, in turns so short that nobody waits; knows no widgets."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import chain

from PySide6.QtCore import QObject, QTimer, Signal

from app.chat.conversation import MessageView
from app.chat.found_text import (
    Wanted,
    attachment_names,
    call_paragraphs,
    content_paragraphs,
    reasoning_paragraphs,
    source_of,
)
from app.storage.records import MessageRecord
from engine.plain_data import dataclass
from engine.protocol import Role

TURN_S = 0.006  # how long is looked before the event loop gets its turn
MAX_KEPT_CHARACTERS = 4_000_000  # of texts that are kept as they are shown, for the next letter that is typed


@dataclass(frozen=True)
class Hit:
    """One place: the message, and the how manieth of its places it is, from 0."""

    message_id: str
    ordinal: int


class Finder(QObject):
    """Looks through messages in order, beginning where the person reads.

    Attributes:
        current: the hit that is shown; None for none.

    Signals:
        counted: ``total`` or ``position`` may differ.
        arrived(Hit): another hit is the current one.
    """

    counted = Signal()
    arrived = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.current: Hit | None = None
        self._wanted: Wanted | None = None
        self._views: list[MessageView] = []
        self._counts: dict[
            str, tuple[tuple[str, ...], int]
        ] = {}  # of each message: what it was counted in, its hits
        self._texts: dict[str, tuple[str, list[str]]] = {}  # of each answer: its source, its paragraphs
        self._num_kept = 0
        self._due: list[MessageView] = []  # the next one last
        self._reading: Iterator[int] | None = None
        self._seeks = False  # the first hit that is found becomes the current one
        self._behind: set[str] = set()  # messages before the one where the person reads
        self._step = 0  # that was asked for before all were counted
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._on_turn)

    @property
    def is_done(self) -> bool:
        """All messages are counted."""
        return not self._due and self._reading is None

    @property
    def total(self) -> int:
        """How many hits there are, as far as they are counted."""
        return sum(self._num_in(view.record.id) for view in self._views)

    @property
    def position(self) -> int:
        """Which of them the current one is, from 1; 0 for none."""
        before = 0
        for view in self._views:
            if self.current is not None and view.record.id == self.current.message_id:
                return before + self.current.ordinal + 1
            before += self._num_in(view.record.id)
        return 0

    def look_for(self, wanted: Wanted | None, messages: Sequence[MessageView], start_id: str = "") -> None:
        """Count anew; the nearest hit from the message ``start_id`` on, else before it, becomes the current one."""
        self._counts, self.current, self._reading = {}, None, None
        self._wanted = wanted
        self._step = 0
        self._seeks = wanted is not None
        self._views = list(messages)
        first = next((n for n, view in enumerate(messages) if view.record.id == start_id), 0)
        self._behind = {view.record.id for view in messages[:first]}
        self._due = [*messages[:first], *reversed(messages[first:])] if wanted else []
        self._timer.start(0)
        self.counted.emit()

    def refresh(self, messages: Sequence[MessageView]) -> None:
        """Take up another state of the conversation: what is counted stays so, and the current hit where it is."""
        self._views = list(messages)
        if self.current is not None and all(view.record.id != self.current.message_id for view in messages):
            self.current = None
        if self._wanted is not None:
            due = [view for view in messages if self._counted_in(view.record.id) != source_of(view)]
            self._reading = None
            ahead = [view for view in due if view.record.id not in self._behind]
            self._due = [view for view in due if view.record.id in self._behind] + ahead[::-1]
            self._timer.start(0)

    def stop(self) -> None:
        """Forget everything."""
        self.look_for(None, ())
        self._timer.stop()
        self._texts.clear()
        self._num_kept = 0

    def step(self, by: int) -> None:
        """Go to the next hit (1) or the previous one (-1), round the ends."""
        if not self.is_done:
            self._step = by
            return
        hits = [view.record.id for view in self._views if self._num_in(view.record.id)]
        if not hits:
            return
        if self.current is None:
            self._arrive(Hit(hits[0], 0) if by > 0 else Hit(hits[-1], self._num_in(hits[-1]) - 1))
            return
        message_id, ordinal = self.current.message_id, self.current.ordinal + by
        if not 0 <= ordinal < self._num_in(message_id):
            index = hits.index(message_id) if message_id in hits else 0
            message_id = hits[(index + by) % len(hits)]
            ordinal = 0 if by > 0 else self._num_in(message_id) - 1
        self._arrive(Hit(message_id, ordinal))

    def _num_in(self, message_id: str) -> int:
        return self._counts.get(message_id, ((), 0))[1]

    def _counted_in(self, message_id: str) -> tuple[str, ...] | None:
        found = self._counts.get(message_id)
        return found[0] if found is not None else None

    def _arrive(self, hit: Hit) -> None:
        self._seeks = False
        self.current = hit
        self.arrived.emit(hit)
        self.counted.emit()

    def _on_turn(self) -> None:
        ends = time.perf_counter() + TURN_S
        while self._due or self._reading is not None:
            view = self._due[-1] if self._due else None
            if self._reading is None and view is not None:
                self._reading = self._count(view)
            assert self._reading is not None
            if next(self._reading, None) is None:
                self._reading = None
                if view is not None:
                    self._due.pop()
                    if self._seeks and self._num_in(view.record.id):
                        self._found_first(view.record.id)
            if time.perf_counter() > ends:
                return
        self._timer.stop()
        self.counted.emit()
        if self._step:
            step, self._step = self._step, 0
            self.step(step)

    def _found_first(self, message_id: str) -> None:
        """The nearest hit: the first from the start on, or the last before it."""
        self._arrive(Hit(message_id, self._num_in(message_id) - 1 if message_id in self._behind else 0))

    def _count(self, view: MessageView) -> Iterator[int]:
        """Count the hits in a message, a paragraph at a time."""
        assert self._wanted is not None
        total = 0
        for text in chain(attachment_names(view), self._paragraphs(view.record)):
            total += sum(1 for _ in self._wanted.pattern.finditer(text))
            yield total
        self._counts[view.record.id] = (source_of(view), total)

    def _paragraphs(self, record: MessageRecord) -> Iterator[str]:
        """What a message shows, from top to bottom; without its text where that cannot have what is looked for."""
        assert self._wanted is not None
        yield from reasoning_paragraphs(record.reasoning)
        if record.role is not Role.ASSISTANT or self._wanted.may_be_in(record.content):
            yield from self._text_of(record)
        yield from call_paragraphs(record)

    def _text_of(self, record: MessageRecord) -> Iterator[str]:
        kept = self._texts.get(record.id)
        if kept is not None and kept[0] == record.content:
            yield from kept[1]
            return
        texts: list[str] = []
        for text in content_paragraphs(record):
            texts.append(text)
            yield text
        if self._num_kept < MAX_KEPT_CHARACTERS:
            self._num_kept += len(record.content)
            self._texts[record.id] = (record.content, texts)
