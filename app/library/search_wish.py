"""How a search of the hub is sorted and sifted, as the person chose it, and the row of controls to choose with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLineEdit, QSizePolicy, QWidget

from app.theme import Theme
from app.translation import tr
from app.widgets.buttons import ChoiceButton
from app.widgets.flow_layout import FlowLayout

if TYPE_CHECKING:
    from engine.hub.filters import SearchFilter

FITS = "fits"
_SIZES = {"": (0, 0), "small": (0, 2), "medium": (2, 8), "large": (8, 20), "huge": (20, 0)}  # billions
_AUTHOR_PX, _HEIGHT_PX = 150, 32


@dataclass(frozen=True)
class SearchWish:
    """What the person wants to see.

    Attributes:
        sort: name of an order of the hub.
        size: "" for any, "fits" for what fits this machine, or a range of parameters.
        license: "" for any, "open" for what asks for no terms, else the hub's name of a licence.
        is_runnable: only architectures that run here.
        author: "" for anyone.
    """

    sort: str = "TRENDING"
    size: str = ""
    license: str = ""
    is_runnable: bool = True
    author: str = ""

    def filter(self, models_folder: Path) -> SearchFilter:
        """For the hub's client. Looks at this machine: not for the GUI thread."""
        from engine.advisor import look_at_machine, most_parameters, supported_architectures
        from engine.hub.filters import SearchFilter

        if self.size == FITS:
            least, most = 0, most_parameters(look_at_machine(models_folder))
        else:
            least, most = (bound * 10**9 for bound in _SIZES[self.size])
        return SearchFilter(
            author=self.author,
            license="" if self.license == "open" else self.license,
            is_open_only=self.license == "open",
            min_parameters=least,
            max_parameters=most,
            architectures=supported_architectures() if self.is_runnable else frozenset(),
        )


def size_class(num_parameters: int) -> str:
    """Which range of sizes a model is in; "fits" where its size is not known."""
    for name, (least, most) in _SIZES.items():
        if (
            name
            and num_parameters
            and least * 10**9 <= num_parameters
            and (not most or num_parameters < most * 10**9)
        ):
            return name
    return FITS


class SearchControls(QWidget):
    """Order and filters in a row that wraps.

    Signals:
        changed: ``wish`` is another one.
    """

    changed = Signal()

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._sort = ChoiceButton(
            theme,
            tr("Order"),
            [
                ("TRENDING", tr("Trending")),
                ("DOWNLOADS", tr("Most downloads")),
                ("LIKES", tr("Most likes")),
                ("UPDATED", tr("Changed last")),
            ],
        )
        self._size = ChoiceButton(
            theme,
            tr("Size"),
            [
                ("", tr("Any size")),
                (FITS, tr("Fits this machine")),
                ("small", tr("Up to 2 B parameters")),
                ("medium", tr("2 to 8 B parameters")),
                ("large", tr("8 to 20 B parameters")),
                ("huge", tr("Over 20 B parameters")),
            ],
        )
        self._license = ChoiceButton(
            theme,
            tr("Licence"),
            [
                ("", tr("Any licence")),
                ("open", tr("No terms to accept")),
                ("apache-2.0", "Apache 2.0"),
                ("mit", "MIT"),
                ("llama3.2", "Llama 3.2"),
                ("gemma", "Gemma"),
            ],
        )
        self._architecture = ChoiceButton(
            theme,
            tr("Architecture"),
            [(True, tr("Runs in Fireside")), (False, tr("Any architecture"))],
        )
        self._author = QLineEdit()
        self._author.setPlaceholderText(tr("Any author"))
        self._author.setAccessibleName(tr("Author"))
        self._author.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self._choices = (self._sort, self._size, self._license, self._architecture)
        self._flow = FlowLayout(theme.px(8))
        self.setLayout(self._flow)
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        for widget in (*self._choices, self._author):
            self._flow.addWidget(widget)
        for choice in self._choices:
            choice.chosen.connect(self._on_chosen)
        self._author.editingFinished.connect(self._on_chosen)
        self._wish = self.wish
        self._apply_metrics()
        theme.changed.connect(self._apply_metrics)

    @property
    def wish(self) -> SearchWish:
        """As it is chosen now."""
        sort, size, license, is_runnable = (choice.value for choice in self._choices)
        return SearchWish(str(sort), str(size), str(license), bool(is_runnable), self._author.text().strip())

    @property
    def is_sifting(self) -> bool:
        """Whether anything is left out that the person could let in again."""
        return replace(self.wish, sort="TRENDING") != SearchWish(is_runnable=False)

    def set_wish(self, wish: SearchWish) -> None:
        """Choose all of it, without a word to anyone."""
        for choice, value in zip(
            self._choices, (wish.sort, wish.size, wish.license, wish.is_runnable), strict=True
        ):
            choice.set_value(value)
        self._author.setText(wish.author)
        self._wish = self.wish

    def set_author(self, author: str) -> None:
        """Only this author's models, or anyone's where it is ""."""
        self.set_wish(replace(self.wish, author=author))
        self.changed.emit()

    def _on_chosen(self) -> None:
        if self.wish != self._wish:
            self._wish = self.wish
            self.changed.emit()

    def _apply_metrics(self) -> None:
        px = self._theme.px
        for choice in self._choices:
            choice.setFixedHeight(px(_HEIGHT_PX))
        self._author.setFixedSize(px(_AUTHOR_PX), px(_HEIGHT_PX))
        self._flow.setSpacing(px(8))
        self._flow.invalidate()
