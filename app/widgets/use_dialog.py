"""A dialog in which something is made, to be used or not."""

from __future__ import annotations

from PySide6.QtWidgets import QDialog, QHBoxLayout, QVBoxLayout, QWidget

from app.theme import Theme
from app.translation import tr
from app.widgets.buttons import LookButton


class UseDialog(QDialog):
    """Holds what ``content`` is given, above Cancel and Use.

    Attributes:
        content: the layout for it.
        use: takes what was made; the dialog says when it can be.
        buttons: the row at the foot, with room at its left.
    """

    def __init__(
        self, title: str, width_px: int, height_px: int, theme: Theme, parent: QWidget | None = None
    ) -> None:
        """The size is in pixels of the design."""
        super().__init__(parent)
        self.setWindowTitle(title)
        px = theme.px
        self.resize(px(width_px), px(height_px))
        self.use = LookButton(theme, tr("Use"), "primary")
        self.use.clicked.connect(self.accept)
        cancel = LookButton(theme, tr("Cancel"))
        cancel.clicked.connect(self.reject)
        self.buttons = QHBoxLayout()
        self.buttons.addStretch(1)
        self.buttons.addWidget(cancel)
        self.buttons.addWidget(self.use)
        self.content = QVBoxLayout()
        self.content.setSpacing(px(12))
        column = QVBoxLayout(self)
        column.setContentsMargins(px(16), px(16), px(16), px(16))
        column.setSpacing(px(12))
        column.addLayout(self.content, 1)
        column.addLayout(self.buttons)
