"""The search of the hub: words, order and filters, and a card for each model that is found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLineEdit, QVBoxLayout, QWidget

from app.library.hub_card import HubCard
from app.library.hub_search import HubDetail, HubSearch
from app.library.search_wish import SearchControls
from app.theme import Theme
from app.translation import tr
from app.widgets.label import Label

if TYPE_CHECKING:
    from engine.hub.client import HubModel


class HubResults(QWidget):
    """Asks the hub when the person says so, and again when order or filters change after that.

    Attributes:
        head: the widget with the field and the controls, which stands apart from the results.
        search: the field for the words.
        controls: order and filters.

    Signals:
        download_requested(HubDetail, label): get this version.
        asked: a search begins.
        changed: there are other results now, or none.
    """

    download_requested = Signal(object, str)
    asked = Signal()
    changed = Signal()

    def __init__(self, hub: HubSearch, theme: Theme) -> None:
        super().__init__()
        self._hub = hub
        self._theme = theme
        self._cards: dict[str, HubCard] = {}
        self._has_searched = False
        self._busy: set[tuple[str, str]] = set()
        self._here: set[tuple[str, str]] = set()
        self.search = QLineEdit()
        self.search.setPlaceholderText(tr("Find a model: words of its name, then Enter"))
        self.search.setAccessibleName(tr("Find a model at the hub"))
        self.search.returnPressed.connect(self._ask)
        self.controls = SearchControls(theme)
        self.controls.changed.connect(self._on_controls)
        self._status = Label("", "help")
        self._status.setWordWrap(True)
        self.head = QWidget()
        self._head_column = QVBoxLayout(self.head)
        self._head_column.addWidget(self.search)
        self._head_column.addWidget(self.controls)
        self._column = QVBoxLayout(self)
        self._column.addWidget(self._status)
        for column in (self._head_column, self._column):
            column.setContentsMargins(0, 0, 0, 0)
        hub.found.connect(self._on_found)
        hub.failed.connect(self._on_failed)
        hub.described.connect(self._on_described)
        hub.describe_failed.connect(self._on_describe_failed)
        self._apply_metrics()
        theme.changed.connect(self._apply_metrics)
        self.hide()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is shown."""
        return not self._cards

    def ask(self, query: str) -> None:
        """Search for these words."""
        self.search.setText(query)
        self._ask()

    def shows(self, repository: str) -> bool:
        """Whether there is a card for this repository."""
        return repository in self._cards

    def show_states(self, busy: set[tuple[str, str]], here: set[tuple[str, str]]) -> None:
        """Say what comes at the moment, by repository and label, and what is here, by repository and file name."""
        self._busy, self._here = busy, here
        for repository, card in self._cards.items():
            card.show_states(
                {label for name, label in busy if name == repository},
                {file for name, file in here if name == repository},
            )

    def _ask(self) -> None:
        self._has_searched = True
        self.asked.emit()
        self._clear()
        self._say(tr("Searching…"))
        self._hub.search(self.search.text(), self.controls.wish)

    def _on_controls(self) -> None:
        if self._has_searched:
            self._ask()

    def _on_found(self, models: list[HubModel]) -> None:
        self._clear()
        for model in models:
            card = HubCard(model, self._theme)
            card.opened.connect(self._hub.describe)
            card.author_chosen.connect(self.controls.set_author)
            card.download_requested.connect(self.download_requested)
            self._cards[model.repository] = card
            self._column.addWidget(card)
        self.show_states(self._busy, self._here)
        if models:
            self._say("")
            next(iter(self._cards.values())).open()
        elif self.controls.is_sifting:
            self._say(tr("Nothing was found: try fewer or other words, or fewer filters."))
        else:
            self._say(tr("Nothing was found; try fewer or other words."))
        self.changed.emit()

    def _on_failed(self, text: str) -> None:
        self._clear()
        self._say(f"{text} {tr('What is on this machine works without.')}")
        self.changed.emit()

    def _on_described(self, repository: str, detail: HubDetail) -> None:
        if repository in self._cards:
            self._cards[repository].show_detail(detail)

    def _on_describe_failed(self, repository: str, text: str) -> None:
        if repository in self._cards:
            self._cards[repository].show_failed(text)

    def _clear(self) -> None:
        for card in self._cards.values():
            card.hide()
            card.deleteLater()
        self._cards = {}

    def _say(self, text: str) -> None:
        self._status.setText(text)
        self._status.setVisible(bool(text))
        self.setVisible(bool(text or self._cards))  # an empty one would still take its spacing

    def _apply_metrics(self) -> None:
        px = self._theme.px
        self.search.setFixedHeight(px(40))
        self._head_column.setSpacing(px(10))
        self._column.setSpacing(px(12))
