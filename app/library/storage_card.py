"""Where the disk went: models, unfinished downloads, kept conversations; and the way to another disk."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QVBoxLayout, QWidget

from app.sizes import size_text
from app.theme import Theme
from app.translation import tr
from app.widgets.buttons import LookButton
from app.widgets.card_head import CardHead
from app.widgets.label import ElidingLabel, Label, WrappingLabel


@dataclass(frozen=True)
class DiskUse:
    """Bytes on the disk."""

    folder: str
    models: int
    downloads: int
    conversations: int
    free: int


class StorageCard(QFrame):
    """The disk.

    Signals:
        show_requested, move_requested: the models folder.
        token_requested: set the access token for the hub.
    """

    show_requested = Signal()
    move_requested = Signal()
    token_requested = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("look", "card")
        self._theme = theme
        self._use = WrappingLabel(tr("Looking…"), "help")
        self._folder = ElidingLabel("", "muted")
        show = LookButton(theme, tr("Show the folder"))
        move = LookButton(theme, tr("Move it…"))
        token = LookButton(theme, tr("Access token…"))
        token.setToolTip(tr("For models that ask to accept their terms"))
        show.clicked.connect(self.show_requested)
        move.clicked.connect(self.move_requested)
        token.clicked.connect(self.token_requested)
        self._column = QVBoxLayout(self)
        self._column.addWidget(CardHead(theme, Label(tr("On the disk"), "section"), (token, show, move)))
        self._column.addWidget(self._use)
        self._column.addWidget(self._folder)
        self._apply_metrics()
        theme.changed.connect(self._apply_metrics)

    def show_use(self, use: DiskUse) -> None:
        """Show what is taken and what is free."""
        parts = [tr("Models {size}", size=size_text(use.models))]
        if use.downloads:
            parts.append(tr("unfinished downloads {size}", size=size_text(use.downloads)))
        parts.append(tr("kept conversations {size}", size=size_text(use.conversations)))
        parts.append(tr("{size} free", size=size_text(use.free)))
        self._use.setText(" · ".join(parts))
        self._folder.set_whole_text(use.folder)

    def _apply_metrics(self) -> None:
        px = self._theme.px
        self._column.setContentsMargins(px(16), px(14), px(16), px(14))
        self._column.setSpacing(px(6))
