"""One model of the hub as a card: its facts, and its versions as rows with memory, speed here and quality."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QUrl, Signal
from PySide6.QtGui import QDesktopServices, QResizeEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QVBoxLayout, QWidget

from app.library.hub_search import HubDetail
from app.library.library import size_text
from app.library.words import rate_text, word
from app.theme import Theme
from app.translation import localised, tr
from app.widgets.buttons import LookButton, TextButton
from app.widgets.label import ElidingLabel, Label, plain_tooltip

if TYPE_CHECKING:
    from engine.advisor import Advice
    from engine.hub.client import HubModel
    from engine.hub.names import Version

MAX_CARD_TEXT = 4000
MAX_NAME_LENGTH, NARROW_NAME_LENGTH = 48, 30
_NARROW_PX = 720  # below this a card shows only what decides
_SIZE_COLUMN, _QUALITY_COLUMN = 1, 4
_SPEED_PX = 112


class HubCard(QFrame):
    """A model that can be downloaded.

    Signals:
        opened(repository): the person wants to see its versions.
        author_chosen(owner): show this owner's models.
        download_requested(detail, label): get this version.
    """

    opened = Signal(str)
    author_chosen = Signal(str)
    download_requested = Signal(object, str)

    def __init__(self, model: HubModel, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("look", "card")
        self.model = model
        self._theme = theme
        self._title = Label("", "strong")
        self._title.setMinimumWidth(1)  # its text is shortened to the room that there is
        self._title.setToolTip(plain_tooltip(model.repository))
        self._badge = Label("", "badge")
        self._badge.hide()
        self._is_recommended = False
        self._buttons: dict[str, tuple[LookButton, Version]] = {}
        self._speeds: list[tuple[ElidingLabel, Advice | None]] = []
        self._busy: set[str] = set()
        self._here: set[str] = set()
        self._facts = Label(facts_of(model), "muted")
        self._facts.setWordWrap(True)
        one = model.downloads == 1
        count = tr("1 download") if one else tr("{count} downloads", count=count_text(model.downloads))
        self._count = Label(count if model.downloads else "", "muted")
        self._open = LookButton(theme, tr("Versions"))
        self._open.setAccessibleName(tr("Versions of {name}", name=model.name))
        self._open.clicked.connect(self.open)
        self._about = TextButton(theme, tr("About this model"))
        self._about.clicked.connect(self._toggle_text)
        self._about.hide()
        self._more = TextButton(theme, tr("More by {owner}", owner=model.owner))
        self._more.clicked.connect(partial(self.author_chosen.emit, model.owner))
        self._more.hide()
        self._page = TextButton(theme, tr("Its page at the hub"))
        self._page.clicked.connect(self._open_page)
        self._page.hide()
        self._address = ""
        self._text = Label("", "help")
        self._text.setWordWrap(True)
        self._text.hide()
        self._notice = Label("", "caution")
        self._notice.setWordWrap(True)
        self._notice.hide()
        words = QVBoxLayout()
        words.setSpacing(2)
        self._title_row = QHBoxLayout()
        self._title_row.addWidget(self._title)
        self._title_row.addWidget(self._badge)
        self._title_row.addStretch(1)
        words.addLayout(self._title_row)
        words.addWidget(self._facts)
        self._head = QHBoxLayout()
        self._head.addLayout(words, 1)
        self._head.addWidget(self._count)
        self._head.addWidget(self._open)
        self._rows = QWidget()
        self._grid = QGridLayout(self._rows)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._rows.hide()
        self._memory = Label("", "heading")
        self._settings = Label("", "help")
        self._settings.setWordWrap(True)
        self._settings.hide()
        self._about_row = QHBoxLayout()
        self._about_row.addWidget(self._about)
        self._about_row.addWidget(self._more)
        self._about_row.addWidget(self._page)
        self._about_row.addStretch(1)
        self._column = QVBoxLayout(self)
        self._column.addLayout(self._head)
        self._column.addWidget(self._notice)
        self._column.addWidget(self._rows)
        self._column.addWidget(self._settings)
        self._column.addLayout(self._about_row)
        self._column.addWidget(self._text)
        self._apply_metrics()
        theme.changed.connect(self._apply_metrics)

    def open(self) -> None:
        """Ask for the versions."""
        self._open.setEnabled(False)
        self._open.setText(tr("Looking…"))
        self.opened.emit(self.model.repository)

    def show_failed(self, text: str) -> None:
        """The versions cannot be had."""
        self._open.setEnabled(True)
        self._open.setText(tr("Try again"))
        self._say(text)

    def show_detail(self, detail: HubDetail) -> None:
        """Show the versions."""
        self._open.hide()
        self._say(detail.problem)
        self._badge.setText(tr("recommended for this machine"))
        self._is_recommended = detail.recommended is not None
        self._text.setText(card_text(detail.card))
        self._about.setVisible(bool(self._text.text()))
        self._more.show()
        self._address = f"{detail.endpoint}/{self.model.repository}"
        self._page.setToolTip(plain_tooltip(self._address))
        self._page.show()
        headings = (tr("version"), tr("size"), "", tr("speed here"), tr("quality"))
        for column, heading in enumerate(headings):
            self._grid.addWidget(self._memory if not heading else Label(heading, "heading"), 0, column)
        self._grid.setColumnStretch(3, 3)
        for number, version in enumerate(detail.repository.groups.versions):
            self._add_row(2 * number + 1, detail, version)
        self._rows.setVisible(bool(detail.repository.groups.versions))
        best = detail.advices.get(detail.recommended or "")
        self._settings.setText(settings_text(detail.recommended or "", best))
        self._settings.setVisible(bool(self._settings.text()))
        self._show_states()
        self._fit_width()

    def show_states(self, busy: set[str], here: set[str]) -> None:
        """Say which versions come at the moment, by label, and which are here already, by their files' names."""
        if (busy, here) != (self._busy, self._here):
            self._busy, self._here = busy, here
            self._show_states()

    def _show_states(self) -> None:
        for label, (button, version) in self._buttons.items():
            is_busy = label in self._busy
            is_here = version.files[0].path.rpartition("/")[2] in self._here
            button.setText(tr("Downloading…") if is_busy else tr("Already here") if is_here else tr("Download"))
            button.setEnabled(not (is_busy or is_here))
            button.setAccessibleName(f"{button.text()}: {self.model.name} {label}")

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_width()

    def _fit_width(self) -> None:
        """Where there is little room, leave out what does not decide."""
        is_wide = self.width() >= self._theme.px(_NARROW_PX)
        self._badge.setVisible(self._is_recommended and is_wide)
        self._count.setVisible(is_wide)
        self._title.setText(_shortened(self.model.name, MAX_NAME_LENGTH if is_wide else NARROW_NAME_LENGTH))
        self._memory.setText(tr("memory with 8k context") if is_wide else tr("memory"))
        self._grid.setColumnStretch(_QUALITY_COLUMN, 2 if is_wide else 0)
        for place in range(self._grid.rowCount()):
            for column in (_SIZE_COLUMN, _QUALITY_COLUMN):
                item = self._grid.itemAtPosition(place, column)
                cell = item.widget() if item is not None else None
                if isinstance(cell, Label):
                    cell.setVisible(is_wide)
        for label, advice in self._speeds:
            label.set_whole_text(speed_text(advice, is_short=not is_wide))

    def _add_row(self, place: int, detail: HubDetail, version: Version) -> None:
        line = QFrame()
        line.setProperty("look", "line")
        self._grid.addWidget(line, place, 0, 1, 6)
        advice = detail.advices.get(version.label)
        is_best = version.label == detail.recommended
        speed = ElidingLabel("", "muted" if advice is None else "")
        speed.setMinimumWidth(self._theme.px(_SPEED_PX))
        if advice is not None and advice.becomes_slower and not advice.measured.tokens_per_second:
            deep = rate_text(advice.deep_tokens_per_second)
            speed.set_details(tr("at the start of a chat; {rate} tok/s with half the context read", rate=deep))
        self._speeds.append((speed, advice))
        cells = [
            Label(version.label, "strong" if is_best else ""),
            Label(size_text(version.size)),
            _memory_label(advice),
            speed,
            Label(word(version.quality.words)),
        ]
        for column, cell in enumerate(cells):
            self._grid.addWidget(cell, place + 1, column)
        if version.missing:
            self._grid.addWidget(Label(tr("files are missing"), "caution"), place + 1, 5)
            return
        button = LookButton(self._theme, tr("Download"), "primary" if is_best else "")
        self._buttons[version.label] = button, version
        button.clicked.connect(lambda: self.download_requested.emit(detail, version.label))
        self._grid.addWidget(button, place + 1, 5)

    def _say(self, text: str) -> None:
        self._notice.setText(text)
        self._notice.setVisible(bool(text))

    def _open_page(self) -> None:
        """In the browser: terms are accepted there."""
        QDesktopServices.openUrl(QUrl(self._address))

    def _toggle_text(self) -> None:
        self._text.setVisible(self._text.isHidden())

    def _apply_metrics(self) -> None:
        px = self._theme.px
        self._column.setContentsMargins(px(16), px(14), px(16), px(14))
        self._column.setSpacing(px(8))
        self._head.setSpacing(px(12))
        self._about_row.setSpacing(px(16))
        self._about_row.setContentsMargins(-px(3), 0, 0, 0)  # the buttons' own padding
        self._title_row.setSpacing(px(8))
        self._grid.setHorizontalSpacing(px(20))
        self._grid.setVerticalSpacing(px(6))


def facts_of(model: HubModel) -> str:
    """Owner, size, context, licence, and whether its terms must be accepted."""
    facts = [tr("by {owner}", owner=model.owner)]
    if model.num_parameters:
        facts.append(tr("{count} parameters", count=count_text(model.num_parameters)))
    if model.context_length:
        facts.append(tr("{count} context", count=f"{model.context_length // 1024}k"))
    if model.license:
        facts.append(model.license)
    if model.gated:
        facts.append(tr("asks to accept its terms"))
    return " · ".join(facts)


def speed_text(advice: Advice | None, *, is_short: bool = False) -> str:
    """Tokens a second and, unless it is to be short, how long a long text takes."""
    if advice is None:
        return tr("unknown")
    if advice.measured.tokens_per_second:
        return tr("{rate} tok/s measured", rate=rate_text(advice.measured.tokens_per_second))
    rate = rate_text(advice.tokens_per_second)
    if is_short:
        return tr("about {rate} tok/s", rate=rate)
    seconds = localised(f"{advice.read_seconds:,.0f}")
    return tr("about {rate} tok/s, 4k read in {seconds} s", rate=rate, seconds=seconds)


def settings_text(label: str, advice: Advice | None) -> str:
    """Which context and KV cache the best version can have here; "" where there is nothing to say."""
    if advice is None or not advice.best_context:
        return ""
    context = f"{advice.best_context // 1024}k" if advice.best_context >= 1024 else str(advice.best_context)
    if advice.best_kv_type == "q8_0":
        return tr(
            "{version} can have a context of {context} here if the memory of what was read is compact.",
            version=label,
            context=context,
        )
    return tr("{version} can have a context of {context} here.", version=label, context=context)


def _shortened(name: str, length: int) -> str:
    return name if len(name) <= length else name[: length - 1] + "…"


def _memory_label(advice: Advice | None) -> Label:
    if advice is None:
        return Label(tr("unknown"), "muted")
    size = localised(f"{advice.memory_bytes / 1e9:.1f} GB")
    look = {"fits": "good", "tight": "caution"}.get(advice.fit.value, "caution")
    label = Label(f"{size} · {word(advice.fit.value)}", look)
    label.setToolTip(tr("measured when it ran here") if advice.measured.memory_bytes else tr("estimated"))
    return label


def count_text(count: int) -> str:
    """A large number in three digits: "1.2 M", "4.0 B"."""
    for value, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= value:
            return localised(f"{count / value:.{0 if count >= 100 * value else 1}f}") + f" {letter}"
    return str(count)


def card_text(card: str) -> str:
    """The beginning of a model card, without its head and markup that would only disturb."""
    text = card
    if text.startswith("---"):
        text = text.partition("\n---")[2].partition("\n")[2]
    lines = [line.lstrip("#> ").rstrip() for line in text.splitlines() if not line.lstrip().startswith(("<", "!["))]
    joined = "\n".join(lines).strip()
    return joined if len(joined) <= MAX_CARD_TEXT else joined[:MAX_CARD_TEXT] + "…"
