"""A download as a card: what it is, how far it is, what it waits for, and what can be done about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QSizePolicy, QVBoxLayout, QWidget

from app.downloads.queue import DownloadQueue
from app.engine_words import told
from app.sizes import size_text
from app.theme import Theme
from app.translation import localised, tr
from app.widgets.buttons import LookButton
from app.widgets.card_head import CardHead
from app.widgets.label import ElidingLabel, WrappingLabel
from app.widgets.meter import Meter

if TYPE_CHECKING:
    from engine.hub.download_item import DownloadRow


ASK_BYTES = 50_000_000


class DownloadCard(QFrame):
    """One download."""

    def __init__(self, row: DownloadRow, queue: DownloadQueue, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("look", "card")
        self._theme = theme
        self._queue = queue
        self._row = row
        self._title = ElidingLabel("", "strong")
        self._facts = WrappingLabel("", "muted")
        self._meter = Meter(theme, tr("Downloaded"))
        self._meter.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._pause = LookButton(theme, tr("Pause"))
        self._cancel = LookButton(theme, tr("Cancel"))
        self._pause.clicked.connect(self._on_pause)
        self._cancel.clicked.connect(self._on_cancel)
        self._question = WrappingLabel("", "caution")
        self._keep = LookButton(theme, tr("Keep"))
        self._keep.clicked.connect(lambda: self._show_question(False))
        self._throw = LookButton(theme, tr("Throw away"))
        self._throw.clicked.connect(lambda: queue.cancel(self._row.id))
        self._question_part = QWidget()
        self._question_row = QHBoxLayout(self._question_part)
        self._question_row.setContentsMargins(0, 0, 0, 0)
        self._question_row.addWidget(self._question, 1)
        self._question_row.addWidget(self._keep)
        self._question_row.addWidget(self._throw)
        self._question_part.hide()
        self._column = QVBoxLayout(self)
        self._column.addWidget(CardHead(theme, self._title, (self._pause, self._cancel)))
        self._column.addWidget(self._facts)
        self._column.addWidget(self._question_part)
        self._column.addWidget(self._meter)
        self.show_row(row)
        self._apply_metrics()
        theme.changed.connect(self._apply_metrics)

    def show_row(self, row: DownloadRow) -> None:
        """Show where it is now."""
        self._row = row
        name = name_of(row)
        self._title.set_whole_text(name)
        self._facts.setText(facts_of(row))
        is_left = row.state.value == "left over"
        is_bad = is_left or row.state.value == "failed" or (row.state.value == "paused" and bool(row.message))
        look = "caution" if is_bad else "muted"
        if self._facts.property("look") != look:
            self._facts.setProperty("look", look)
            self._facts.style().polish(self._facts)
        self._meter.setVisible(not is_left)
        self._pause.setVisible(not is_left)
        self._meter.set_shares(0.0, row.num_received / row.size if row.size else 0.0)
        action = {"paused": tr("Resume"), "failed": tr("Try again")}.get(row.state.value, tr("Pause"))
        self._pause.setText(action)
        self._pause.setAccessibleName(f"{action}: {name}")
        self._cancel.setText(tr("Delete") if is_left or row.state.value == "failed" else tr("Cancel"))
        self._cancel.setAccessibleName(f"{self._cancel.text()}: {name}")

    def _on_cancel(self) -> None:
        """What took long to load is not thrown away by one click."""
        if self._row.num_received < ASK_BYTES:
            self._queue.cancel(self._row.id)
        else:
            self._question.setText(tr("Throw away {size} that is loaded?", size=size_text(self._row.num_received)))
            self._show_question(True)
            self._keep.setFocus(Qt.FocusReason.OtherFocusReason)

    def _show_question(self, is_asking: bool) -> None:
        self._question_part.setVisible(is_asking)
        self._cancel.setEnabled(not is_asking)

    def _on_pause(self) -> None:
        if self._row.state.value in {"paused", "failed"}:
            self._queue.resume(self._row.id)
        else:
            self._queue.pause(self._row.id)

    def _apply_metrics(self) -> None:
        px = self._theme.px
        self._column.setContentsMargins(px(16), px(14), px(16), px(16))
        self._column.setSpacing(px(8))
        self._question_row.setSpacing(px(6))


def name_of(row: DownloadRow) -> str:
    """Model and version; what is left of an unknown download has neither."""
    if not row.repository:
        return tr("Left over")
    return f"{row.repository.rpartition('/')[2].removesuffix('-GGUF')} · {row.label}"


def facts_of(row: DownloadRow) -> str:
    """Bytes, rate and time left, or what it waits for."""
    size = _progress(row.num_received, row.size)
    if row.message:
        return f"{size} · {told(row.message)}"
    match row.state.value:
        case "paused":
            return f"{size} · {tr('paused')}"
        case "queued":
            return f"{size} · {tr('waits for its turn')}"
    parts = [size]
    if row.bytes_per_second > 0:
        parts.append(f"{localised(f'{row.bytes_per_second / 1e6:,.1f}')} MB/s")
    if row.seconds_left is not None:
        parts.append(time_left(row.seconds_left))
    parts.append(tr("checked while it loads"))
    return " · ".join(parts)


def time_left(seconds: float) -> str:
    """The time in the two units that matter."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return tr("{hours} h {minutes} min left", hours=hours, minutes=minutes)
    if minutes:
        return tr("{minutes} min {seconds} s left", minutes=minutes, seconds=rest)
    return tr("{seconds} s left", seconds=rest)


def _progress(received: int, size: int) -> str:
    """Both in the larger one's unit; what came alone where the whole is not known."""
    unit, divisor = ("GB", 1e9) if max(size, received) >= 1e9 else ("MB", 1e6)
    done, whole = (localised(f"{value / divisor:,.{1 if unit == 'GB' else 0}f}") for value in (received, size))
    if not size:
        return f"{done} {unit}"
    return tr("{done} of {size} {unit}", done=done, size=whole, unit=unit)
