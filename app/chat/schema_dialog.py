"""The schema editor in a window of its own."""

from __future__ import annotations

from PySide6.QtWidgets import QDialog, QHBoxLayout, QVBoxLayout, QWidget

from app.schema.editor import SchemaEditor
from app.schema.library import SchemaLibrary
from app.theme import Theme
from app.translation import tr
from app.widgets.buttons import LookButton


class SchemaDialog(QDialog):
    """Lets the person make or change the form of answers.

    Attributes:
        editor: holds the schema.
    """

    def __init__(self, library: SchemaLibrary, text: str, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("The form of answers"))
        px = theme.px
        self.resize(px(860), px(560))
        self.editor = SchemaEditor(library, theme)
        self.use = LookButton(theme, tr("Use"), "primary")
        self.use.clicked.connect(self.accept)
        cancel = LookButton(theme, tr("Cancel"))
        cancel.clicked.connect(self.reject)
        buttons = QHBoxLayout()
        buttons.addStretch(1)
        buttons.addWidget(cancel)
        buttons.addWidget(self.use)
        column = QVBoxLayout(self)
        column.setContentsMargins(px(16), px(16), px(16), px(16))
        column.setSpacing(px(12))
        column.addWidget(self.editor, 1)
        column.addLayout(buttons)
        self.editor.changed.connect(lambda _: self.use.setEnabled(self.editor.is_usable))
        if text:
            self.editor.show_schema(text)
        self.use.setEnabled(self.editor.is_usable)
