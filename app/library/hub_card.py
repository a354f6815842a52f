"""One model of the hub as a card: its facts, its versions to be opened and folded, and what its author says."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget

from app.library.hub_search import HubDetail
from app.library.version_table import VersionTable
from app.library.words import context_text
from app.theme import Theme
from app.translation import localised, tr
from app.widgets.buttons import LookButton, TextButton
from app.widgets.flow_layout import FlowLayout
from app.widgets.label import ElidingLabel, Label, WrappingLabel, plain_tooltip

if TYPE_CHECKING:
    from engine.advisor import Advice
    from engine.hub.client import HubModel

MAX_CARD_TEXT = 4000
_NARROW_PX = 720  # below this a card shows only what decides


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
        self._title = ElidingLabel(model.name, "strong")
        self._title.set_details(model.repository)
        self._badge = Label("", "badge")
        self._badge.hide()
        self._busy: set[str] = set()
        self._here: set[str] = set()
        self._facts = WrappingLabel(facts_of(model), "muted")
        one = model.downloads == 1
        count = tr("1 download") if one else tr("{count} downloads", count=count_text(model.downloads))
        self._count = Label(count if model.downloads else "", "muted")
        self._open = LookButton(theme, tr("Versions"))
        self._open.setAccessibleName(tr("Versions of {name}", name=model.name))
        self._open.clicked.connect(self.open)
        self._about = TextButton(theme, tr("About this model"))
        self._about.clicked.connect(self._toggle_text)
        self._more = TextButton(theme, tr("More by {owner}", owner=model.owner))
        self._more.clicked.connect(partial(self.author_chosen.emit, model.owner))
        self._page = TextButton(theme, tr("Its page at the hub"))
        self._page.clicked.connect(self._open_page)
        self._address = ""
        self._text = WrappingLabel("", "help")
        self._text.hide()
        self._notice = WrappingLabel("", "caution")
        self._notice.hide()
        words = QVBoxLayout()
        words.setSpacing(2)
        self._title_row = QHBoxLayout()
        self._title_row.addWidget(self._title, 1000)  # up to what its text takes
        self._title_row.addWidget(self._badge)
        self._title_row.addStretch(1)
        words.addLayout(self._title_row)
        words.addWidget(self._facts)
        self._head = QHBoxLayout()
        self._head.addLayout(words, 1)
        self._head.addWidget(self._count)
        self._head.addWidget(self._open)
        self._versions = VersionTable(theme, model.name)
        self._versions.download_requested.connect(self.download_requested)
        self._versions.hide()
        self._has_versions = False
        self._settings = WrappingLabel("", "help")
        self._settings.hide()
        self._more_part = QWidget()
        self._about_row = FlowLayout(theme.px(16))
        self._more_part.setLayout(self._about_row)
        for button in (self._about, self._more, self._page):
            self._about_row.addWidget(button)
        self._more_part.hide()
        self._column = QVBoxLayout(self)
        self._column.addLayout(self._head)
        self._column.addWidget(self._notice)
        self._column.addWidget(self._versions)
        self._column.addWidget(self._settings)
        self._column.addWidget(self._more_part)
        self._column.addWidget(self._text)
        self._apply_metrics()
        theme.changed.connect(self._apply_metrics)

    def open(self) -> None:
        """Show the versions, asking for them the first time; fold them again while they are shown."""
        if self._address:
            self._show_folded(self._versions.isVisibleTo(self))
        else:
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
        if self._address:  # they were asked for to begin a download, and are here already
            return
        self._say(detail.problem)
        if detail.recommended is not None:
            self._badge.setText(tr("best version here: {version}", version=detail.recommended))
        self._text.setText(card_text(detail.card))
        self._about.setVisible(bool(self._text.text()))
        self._address = f"{detail.endpoint}/{self.model.repository}"
        self._page.setToolTip(plain_tooltip(self._address))
        self._versions.show_detail(detail)
        self._has_versions = bool(detail.repository.groups.versions)
        best = detail.advices.get(detail.recommended or "")
        self._settings.setText(settings_text(detail.recommended or "", best))
        self._versions.show_states(self._busy, self._here)
        self._open.setEnabled(True)
        self._show_folded(False)
        self._fit_width()

    def show_states(self, busy: set[str], here: set[str]) -> None:
        """Say which versions come at the moment, by label, and which are here already, by their files' names."""
        if (busy, here) != (self._busy, self._here):
            self._busy, self._here = busy, here
            self._versions.show_states(busy, here)

    def _show_folded(self, is_folded: bool) -> None:
        self._versions.setVisible(self._has_versions and not is_folded)
        self._settings.setVisible(bool(self._settings.text()) and not is_folded)
        self._more_part.setVisible(not is_folded)
        self._text.hide()
        self._open.setText(tr("Versions") if is_folded else tr("Fold"))
        name = self.model.name
        self._open.setAccessibleName(
            tr("Versions of {name}", name=name) if is_folded else tr("Fold {name}", name=name)
        )

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_width()

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.LayoutRequest:
            self._fit_width()
        return super().event(event)

    def _fit_width(self) -> None:
        """Where there is little room, leave out what does not decide."""
        is_wide = self.width() >= self._theme.px(_NARROW_PX)
        self._badge.setVisible(bool(self._badge.text()) and is_wide)
        self._count.setVisible(is_wide)
        self._title.ensurePolished()
        self._title.setMaximumWidth(self._title.fontMetrics().horizontalAdvance(self.model.name) + 2)

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


def facts_of(model: HubModel) -> str:
    """Owner, size, context, licence, and whether its terms must be accepted."""
    facts = [tr("by {owner}", owner=model.owner)]
    if model.num_parameters:
        facts.append(tr("{count} parameters", count=count_text(model.num_parameters)))
    if model.context_length:
        facts.append(tr("{count} context", count=context_text(model.context_length)))
    if model.license:
        facts.append(model.license)
    if model.gated:
        facts.append(tr("asks to accept its terms"))
    return " · ".join(facts)


def settings_text(label: str, advice: Advice | None) -> str:
    """Which context and KV cache the best version can have here; "" where there is nothing to say."""
    if advice is None or not advice.best_context:
        return ""
    context = context_text(advice.best_context)
    if advice.best_kv_type == "q8_0":
        return tr(
            "{version} can have a context of {context} here if the memory of what was read is compact.",
            version=label,
            context=context,
        )
    return tr("{version} can have a context of {context} here.", version=label, context=context)


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
