"""What a first start offers: one good model for this machine, and one tiny."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QVBoxLayout

from app.library.starters import StarterOffer, starter_offers
from app.sizes import size_text
from app.theme import Theme
from app.translation import tr
from app.widgets.buttons import LookButton
from app.widgets.flow_layout import FlowLayout
from app.widgets.label import ElidingLabel, Label, WrappingLabel
from app.widgets.spacing import spaced


class StarterCard(QFrame):
    """Models to begin with.

    Signals:
        chosen(StarterOffer): get this one.
    """

    chosen = Signal(object)

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.setProperty("look", "card")
        self._theme = theme
        self._column = QVBoxLayout(self)
        self._column.addWidget(WrappingLabel(tr("Begin with one of these"), "section"))
        text = tr("Chosen for this machine's memory. Any file that ends in .gguf will do, too.")
        self._column.addWidget(WrappingLabel(text, "help"))
        for index, offer in enumerate(starter_offers()):
            self._add_row(offer, "" if index else "primary")
        self._apply_metrics()
        theme.changed.connect(self._apply_metrics)

    def _add_row(self, offer: StarterOffer, look: str) -> None:
        row = spaced(self._theme, FlowLayout(0), spacing=8)
        row.addWidget(Label(offer.name, "strong"))
        about = tr("tiny: quick everywhere, and it knows little") if offer.is_tiny else tr("good for its size")
        row.addWidget(ElidingLabel(f"{tr('about {size}', size=size_text(offer.size))} · {about}", "muted"))
        button = LookButton(self._theme, tr("Get it"), look)
        button.setAccessibleName(tr("Get {name}", name=offer.name))
        button.clicked.connect(partial(self.chosen.emit, offer))
        row.addWidget(button)
        self._column.addLayout(row)

    def _apply_metrics(self) -> None:
        px = self._theme.px
        self._column.setContentsMargins(px(16), px(14), px(16), px(16))
        self._column.setSpacing(px(10))
