"""The form of the next answers: free text, a saved schema, one of the gallery, or one that is edited here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QSize, Signal
from PySide6.QtWidgets import QMenu, QSizePolicy, QWidget

from app.chat.controller import ChatController
from app.schema.library import SavedSchema
from app.theme import Theme
from app.translation import tr
from app.widgets.buttons import ElidingButton
from app.widgets.label import plain_tooltip

if TYPE_CHECKING:
    from app.schema.editor import SchemaEditor

_OWN_NAME = tr("A schema of its own")
_ICON_PX, _LEAST_PX = 34, 96  # the icon alone, and where its words begin to be readable
_OWN_OPTIONS = ("schema", "schema_name", "schema_afterwards")


class SchemaPicker(ElidingButton):
    """Shows the form that answers of the open chat have, and lets the person choose another.

    Signals:
        undo_offered(text, undo): a schema that lies nowhere else was left, with the way back.
    """

    undo_offered = Signal(str, object)

    def __init__(self, controller: ChatController, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, "", "text", parent)
        self.set_icon_name("braces", "muted")
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self._controller = controller
        self._theme = theme
        self._shown = ""
        self.clicked.connect(self._show_menu)
        controller.conversation_opened.connect(self.refresh)
        controller.conversations_changed.connect(self.refresh)  # a preset may bring a schema along
        self.refresh()

    def refresh(self, *_arguments: object) -> None:
        """Show the form of the open chat's answers."""
        options = self._controller.current_conversation.options
        name = str(options.get("schema_name") or _OWN_NAME) if options.get("schema") else ""
        shown = tr("Schema: {name}", name=name) if name else tr("Schema: none")
        if shown == self._shown:
            return
        self._shown = shown
        self.set_whole_text(shown)
        words = tr("Answers follow the schema {name}", name=name) if name else tr("Answers are free text")
        self.setAccessibleName(words)
        self.setToolTip(plain_tooltip(words))

    def minimumSizeHint(self) -> QSize:
        return QSize(self._theme.px(_ICON_PX), super().minimumSizeHint().height())

    def _elide(self) -> None:
        super()._elide()
        if self.width() < self._theme.px(_LEAST_PX):
            self.setText("")  # the icon says more than three letters
        self.setToolTip(plain_tooltip(self.accessibleName()))

    def make_menu(self) -> QMenu:
        """The forms to choose from."""
        menu = QMenu(self)
        options = self._controller.current_conversation.options
        free = menu.addAction(tr("Free text"))
        free.setCheckable(True)
        free.setChecked(not options.get("schema"))
        free.triggered.connect(lambda: self._leave_for("", ""))
        menu.addSeparator()
        for saved in self._controller.schemas.own():
            self._add(menu, saved)
        gallery = menu.addMenu(tr("Gallery"))
        for saved in self._controller.schemas.gallery():
            self._add(gallery, saved)
        menu.addSeparator()
        words = tr("Edit the schema…") if options.get("schema") else tr("Make a schema…")
        menu.addAction(words).triggered.connect(self._edit)
        return menu

    def choose(self, name: str, text: str, *, checks_afterwards: bool = False) -> None:
        """Let the open chat's answers have this form; an empty text is free text."""
        options = {
            key: value
            for key, value in self._controller.current_conversation.options.items()
            if key not in _OWN_OPTIONS
        }
        if text:
            options |= {"schema": text, "schema_name": name, "schema_afterwards": checks_afterwards}
        self._controller.set_options(options)
        self.refresh()

    def _add(self, menu: QMenu, saved: SavedSchema) -> None:
        options = self._controller.current_conversation.options
        action = menu.addAction(saved.name.replace("&", "&&"))
        action.setCheckable(True)
        action.setChecked(options.get("schema") == saved.text)
        action.triggered.connect(partial(self._choose_saved, saved))

    def _choose_saved(self, saved: SavedSchema, _checked: bool = False) -> None:
        self._leave_for(saved.name, saved.text)

    def _leave_for(self, name: str, text: str) -> None:
        """Choose another form; one that was made here alone can be had back."""
        before = self._controller.current_conversation
        old = str(before.options.get("schema") or "")
        self.choose(name, text)
        if old and old != text and not self._controller.schemas.holds(old):
            words = tr("The schema was replaced.") if text else tr("The schema was removed.")
            self.undo_offered.emit(words, lambda: self._put_back(before.id, before.options))

    def _put_back(self, conversation_id: str, options: Mapping[str, Any]) -> None:
        if conversation_id == self._controller.current_id:
            kept = {key: options[key] for key in _OWN_OPTIONS if key in options}
            self._controller.set_options({**self._controller.current_conversation.options, **kept})
            self.refresh()

    def _show_menu(self) -> None:
        menu = self.make_menu()
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(self.mapToGlobal(self.rect().bottomLeft()))

    def _edit(self) -> None:
        from app.chat.schema_dialog import SchemaDialog  # the editor is not needed to begin

        options = self._controller.current_conversation.options
        dialog = SchemaDialog(self._controller.schemas, str(options.get("schema") or ""), self._theme, self)
        dialog.accepted.connect(lambda: self._take(dialog.editor, options))
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()

    def _take(self, editor: SchemaEditor, options: Mapping[str, Any]) -> None:
        """Let the chat, whose options were these, have the form that the person made."""
        name = str(options.get("schema_name") or "") if editor.text == options.get("schema") else ""
        self.choose(name or editor.name or _OWN_NAME, editor.text, checks_afterwards=editor.checks_afterwards)
