"""The versions of one model of the hub, each with memory, speed here, quality and its download."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QVBoxLayout, QWidget

from app.library.hub_search import HubDetail
from app.library.words import rate_text, time_text, word
from app.sizes import size_text
from app.theme import Theme
from app.translation import tr
from app.widgets.buttons import LookButton
from app.widgets.label import ElidingLabel, Label, WrappingLabel

if TYPE_CHECKING:
    from engine.advisor import Advice
    from engine.hub.names import Version

_SPEED_PX, _SPACING_PX, _NARROW_SPACING_PX = 112, 20, 3
_WORDS_PX = 120  # that name and facts take at least beside the button
_SPEED_COLUMN, _QUALITY_COLUMN, _BUTTON_COLUMN = 3, 4, 5


class _Row(NamedTuple):
    """The widgets of one version.

    Attributes:
        place: in the grid.
        lines: the column that has name and facts.
        figures: size, memory, speed and quality in a cell each, where there is room.
        facts: the same in words below the name, where there is none.
        end: beside all that; below it where there is no room either.
    """

    place: int
    lines: QVBoxLayout
    name: ElidingLabel
    figures: list[Label]
    facts: Label
    end: LookButton | Label
    advice: Advice | None


class VersionTable(QWidget):
    """A row a version: in columns where they have room, else the name with its figures in words below.

    Signals:
        download_requested(detail, label): get this version.
    """

    download_requested = Signal(object, str)

    def __init__(self, theme: Theme, model_name: str) -> None:
        super().__init__()
        self._theme = theme
        self._model_name = model_name
        self._headings: list[Label] = []
        self._rows: list[_Row] = []
        self._buttons: dict[str, tuple[LookButton, Version]] = {}
        self._is_wide = True
        self._is_stacked = False
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._apply_metrics()
        theme.changed.connect(self._apply_metrics)

    def show_detail(self, detail: HubDetail) -> None:
        """Show the versions of a repository; once."""
        texts = (tr("version"), tr("size"), tr("memory with 8k context"), tr("speed here"), tr("quality"))
        for column, text in enumerate(texts):
            heading = Label(text, "heading")
            self._headings.append(heading)
            self._grid.addWidget(heading, 0, column)
        for number, version in enumerate(detail.repository.groups.versions):
            self._add_row(2 * number + 1, detail, version)
        self._set_wide(self._is_wide)
        self._fit_width()

    def show_states(self, busy: set[str], here: set[str]) -> None:
        """Say which versions come at the moment, by label, and which are here already, by their files' names."""
        for label, (button, version) in self._buttons.items():
            is_busy = label in busy
            is_here = version.files[0].path.rpartition("/")[2] in here
            button.setText(tr("Downloading…") if is_busy else tr("Already here") if is_here else tr("Download"))
            button.setEnabled(not (is_busy or is_here))
            button.setAccessibleName(f"{button.text()}: {self._model_name} {label}")

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_width()

    def _fit_width(self) -> None:
        spare = self.width() - self._wide_width()
        if (spare >= 0) != self._is_wide:
            self._set_wide(spare >= 0)
        beside = max((row.end.minimumSizeHint().width() for row in self._rows), default=0)
        self._set_stacked(not self._is_wide and self.width() - beside < self._theme.px(_WORDS_PX))
        for row in self._rows:
            row.name.setMinimumWidth(_text_width(row.name) if self._is_wide else 0)
        room = self._theme.px(_SPEED_PX) + 0.6 * spare  # its share of the stretch
        for row in self._rows:
            speed, text = row.figures[_SPEED_COLUMN - 1], speed_text(row.advice)
            assert isinstance(speed, ElidingLabel)
            has_room = speed.fontMetrics().horizontalAdvance(text) <= room
            speed.set_whole_text(text if has_room else speed_text(row.advice, is_short=True))

    def _wide_width(self) -> int:
        """What all columns take together, whether or not they are shown."""
        lines: list[list[Label | LookButton]] = [[*self._headings]]
        lines += [[row.name, *row.figures, row.end] for row in self._rows]
        columns = [0] * (_BUTTON_COLUMN + 1)
        for line in lines:
            for column, cell in enumerate(line):
                if column == 0 and isinstance(cell, ElidingLabel):
                    width = _text_width(cell)
                elif isinstance(cell, ElidingLabel):
                    width = self._theme.px(_SPEED_PX)
                else:
                    width = max(cell.sizeHint().width(), cell.minimumWidth())
                columns[column] = max(columns[column], width)
        return sum(columns) + self._theme.px(_SPACING_PX) * _BUTTON_COLUMN

    def _set_wide(self, is_wide: bool) -> None:
        self._is_wide = is_wide
        for heading in self._headings:
            heading.setVisible(is_wide)
        for row in self._rows:
            for cell in row.figures:
                cell.setVisible(is_wide)
            row.facts.setVisible(not is_wide)
        for column, wide_stretch, narrow_stretch in ((0, 0, 1), (_SPEED_COLUMN, 3, 0), (_QUALITY_COLUMN, 2, 0)):
            self._grid.setColumnStretch(column, wide_stretch if is_wide else narrow_stretch)
        self._set_spacing()

    def _set_stacked(self, is_stacked: bool) -> None:
        """The buttons below the words, or beside them."""
        if is_stacked == self._is_stacked:
            return
        self._is_stacked = is_stacked
        for row in self._rows:
            if is_stacked:
                row.lines.addWidget(row.end, 0, Qt.AlignmentFlag.AlignLeft)
            else:
                row.lines.removeWidget(row.end)
                self._grid.addWidget(row.end, row.place, _BUTTON_COLUMN)

    def _set_spacing(self) -> None:
        """Columns in which nothing is shown still have theirs, because lines go through all of them."""
        self._grid.setHorizontalSpacing(self._theme.px(_SPACING_PX if self._is_wide else _NARROW_SPACING_PX))

    def _add_row(self, place: int, detail: HubDetail, version: Version) -> None:
        line = QFrame()
        line.setProperty("look", "line")
        self._grid.addWidget(line, place, 0, 1, _BUTTON_COLUMN + 1)
        advice = detail.advices.get(version.label)
        is_best = version.label == detail.recommended
        name = ElidingLabel(version.label, "strong" if is_best else "")
        figures = [
            Label(size_text(version.size)),
            _memory_label(advice),
            self._speed_label(advice),
            Label(word(version.quality.words)),
        ]
        facts = WrappingLabel(facts_text(version, advice, is_best=is_best), "muted")
        words = QWidget()
        lines = QVBoxLayout(words)
        lines.setContentsMargins(0, 0, 0, 0)
        lines.setSpacing(0)
        lines.addWidget(name)
        lines.addWidget(facts)
        for column, cell in enumerate((words, *figures)):
            self._grid.addWidget(cell, place + 1, column)
        end: LookButton | Label
        if version.missing:
            end = Label(tr("files are missing"), "caution")
        else:
            end = LookButton(self._theme, tr("Download"), "primary" if is_best else "")
            end.clicked.connect(partial(self._on_download, detail, version.label))
            self._buttons[version.label] = end, version
            self._keep_width(end)
        self._grid.addWidget(end, place + 1, _BUTTON_COLUMN)
        self._rows.append(_Row(place + 1, lines, name, figures, facts, end, advice))

    def _on_download(self, detail: HubDetail, label: str) -> None:
        self.download_requested.emit(detail, label)

    def _speed_label(self, advice: Advice | None) -> ElidingLabel:
        label = ElidingLabel(speed_text(advice), "muted" if advice is None else "")
        if advice is not None and advice.becomes_slower and not advice.measured.tokens_per_second:
            deep = rate_text(advice.deep_tokens_per_second)
            label.set_details(tr("at the start of a chat; {rate} tok/s with half the context read", rate=deep))
        return label

    def _keep_width(self, button: LookButton) -> None:
        """As wide as its longest word: nothing moves aside when a download begins."""
        shown = button.text()
        widths = []
        button.setMinimumWidth(0)
        for text in (tr("Download"), tr("Downloading…"), tr("Already here")):
            button.setText(text)
            widths.append(button.sizeHint().width())
        button.setText(shown)
        button.setMinimumWidth(max(widths))

    def _apply_metrics(self) -> None:
        self._set_spacing()
        self._grid.setVerticalSpacing(self._theme.px(6))
        for button, _version in self._buttons.values():
            self._keep_width(button)
        if self._rows:
            self._fit_width()


def _text_width(label: ElidingLabel) -> int:
    """What the whole text takes."""
    label.ensurePolished()
    return label.fontMetrics().horizontalAdvance(label.whole_text) + 2


def facts_text(version: Version, advice: Advice | None, *, is_best: bool) -> str:
    """Size, memory, speed and quality of a version in one line of words."""
    parts = [size_text(version.size)]
    if advice is not None:
        parts += [tr("{size} memory", size=size_text(advice.memory_bytes)), word(advice.fit.value)]
        parts.append(speed_text(advice, is_short=True))
    parts.append(word(version.quality.words))
    if is_best:
        parts.append(tr("best version here"))
    return " · ".join(parts)


def speed_text(advice: Advice | None, *, is_short: bool = False) -> str:
    """Tokens a second and, unless it is to be short, how long a long text takes."""
    if advice is None:
        return tr("unknown")
    if advice.measured.tokens_per_second:
        return tr("{rate} tok/s measured", rate=rate_text(advice.measured.tokens_per_second))
    rate = rate_text(advice.tokens_per_second)
    if is_short:
        return tr("about {rate} tok/s", rate=rate)
    return tr("about {rate} tok/s, 4k read in {time}", rate=rate, time=time_text(advice.read_seconds))


def _memory_label(advice: Advice | None) -> Label:
    if advice is None:
        return Label(tr("unknown"), "muted")
    look = {"fits": "good", "tight": "caution"}.get(advice.fit.value, "caution")
    label = Label(f"{size_text(advice.memory_bytes)} · {word(advice.fit.value)}", look)
    label.setToolTip(tr("measured when it ran here") if advice.measured.memory_bytes else tr("estimated"))
    return label
