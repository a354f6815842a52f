"""The schema editor in a window of its own."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from app.schema.editor import SchemaEditor
from app.schema.library import SchemaLibrary
from app.theme import Theme
from app.translation import tr
from app.widgets.notice_bar import NoticeBar
from app.widgets.use_dialog import UseDialog


class SchemaDialog(UseDialog):
    """Lets the person make or change the form of answers.

    Attributes:
        editor: holds the schema.
        notice_bar: what it has to say.
    """

    def __init__(self, library: SchemaLibrary, text: str, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(tr("The form of answers"), 860, 560, theme, parent)
        self.editor = SchemaEditor(library, theme)
        self.notice_bar = NoticeBar(theme)
        self.editor.notice.connect(self.notice_bar.show_text)
        self.editor.undo_offered.connect(self.notice_bar.offer_undo)
        self.content.addWidget(self.editor, 1)
        self.content.addWidget(self.notice_bar)
        self.editor.changed.connect(lambda _: self.use.setEnabled(self.editor.is_usable))
        if text:
            self.editor.show_schema(text)
        self.use.setEnabled(self.editor.is_usable)
