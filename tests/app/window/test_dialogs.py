from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QLabel, QLineEdit, QPlainTextEdit, QPushButton, QScrollArea, QWidget
from pytestqt.qtbot import QtBot

from app.chat.schema_dialog import SchemaDialog
from app.chat.tools_dialog import EXAMPLE, ToolsDialog
from app.schema.library import SchemaLibrary
from app.settings import Settings
from app.theme import Theme
from app.widgets.label import Label
from app.widgets.use_dialog import AskDialog, UseDialog
from app.window.dialogs import show_about, show_shortcuts
from app.window.main_window import MainWindow
from app.window.menus import shortcuts_of

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")  # of the offscreen platform

_DIALOGS: dict[str, Callable[[MainWindow, Theme], QDialog]] = {
    "shortcuts": lambda window, theme: show_shortcuts(window, theme, shortcuts_of(window)),
    "about": lambda window, theme: show_about(window, theme),
    "functions": lambda window, theme: ToolsDialog(EXAMPLE, theme, window),
    "schema": lambda window, theme: SchemaDialog(SchemaLibrary(Path("/nowhere")), "", theme, window),
    "name": lambda window, theme: AskDialog(theme, "Save as a preset", "Name of the preset", window),
    "lines": lambda window, theme: AskDialog(theme, "Lines", "Each line is a row", window, has_lines=True),
}


@pytest.mark.parametrize("zoom", [1.0, 2.0])
@pytest.mark.parametrize("name", _DIALOGS)
def test_a_dialog_fits_on_its_screen(
    window: MainWindow, theme: Theme, settings: Settings, qtbot: QtBot, name: str, zoom: float
) -> None:
    settings.set("zoom", zoom)
    dialog = _DIALOGS[name](window, theme)
    dialog.show()
    qtbot.waitUntil(dialog.isVisible)
    room = dialog.screen().availableGeometry()
    assert dialog.width() <= room.width()
    assert dialog.height() <= room.height()
    for button in dialog.findChildren(QPushButton):
        if button.text() in {"Close", "Cancel", "Use"}:
            assert dialog.rect().contains(button.geometry()), button.text()
    dialog.close()


def _texts(widget: QWidget) -> list[str]:
    return [label.text() for label in widget.findChildren(Label)]


def test_shortcuts_stand_below_the_names_of_their_menus(window: MainWindow, theme: Theme) -> None:
    dialog = show_shortcuts(window, theme, shortcuts_of(window))
    texts = _texts(dialog)
    assert [text for text in texts if text in {"Writing", "File", "Edit", "View", "Chat", "Model", "Help"}] == [
        "Writing", "File", "Edit", "View", "Chat", "Model", "Help",
    ]  # fmt: skip
    for name in ("Undo", "Full screen", "Delete the chat", "Send the message"):
        assert name in texts, name
    assert texts[texts.index("Undo") + 1] == "Ctrl+Z"
    dialog.close()


def test_where_shortcuts_have_no_room_side_by_side_they_scroll(
    window: MainWindow, theme: Theme, settings: Settings
) -> None:
    settings.set("zoom", 2.0)
    dialog = show_shortcuts(window, theme, shortcuts_of(window))
    scroll = dialog.findChild(QScrollArea)
    assert scroll is not None
    sheet = scroll.widget()
    assert sheet.width() <= scroll.viewport().width()
    assert sheet.height() > scroll.viewport().height()
    dialog.close()


def test_a_name_is_asked_for(theme: Theme, qtbot: QtBot) -> None:
    dialog = AskDialog(theme, "Rename the preset", "Name of the preset", action="Rename", text="Pirate")
    qtbot.addWidget(dialog)
    dialog.show()
    assert isinstance(dialog.field, QLineEdit)
    assert dialog.field.selectedText() == "Pirate"
    assert dialog.use.text() == "Rename"
    dialog.field.setText("  ")
    assert not dialog.use.isEnabled()
    qtbot.keyClick(dialog.field, Qt.Key.Key_Return)
    assert dialog.isVisible()
    dialog.field.setText("Sailor")
    qtbot.keyClick(dialog.field, Qt.Key.Key_Return)
    assert not dialog.isVisible()
    assert (dialog.result(), dialog.text) == (QDialog.DialogCode.Accepted, "Sailor")


def test_a_secret_is_shown_as_dots_and_may_be_emptied(theme: Theme, qtbot: QtBot) -> None:
    dialog = AskDialog(theme, "Access token", "From your account", is_secret=True, may_be_empty=True)
    qtbot.addWidget(dialog)
    assert isinstance(dialog.field, QLineEdit)
    assert dialog.field.echoMode() is QLineEdit.EchoMode.Password
    assert dialog.use.isEnabled()


def test_lines_are_asked_for(theme: Theme, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    dialog = AskDialog(theme, "Lines", "Each line is a row", has_lines=True)
    qtbot.addWidget(dialog)
    assert isinstance(dialog.field, QPlainTextEdit)

    def type_and_accept(self: AskDialog) -> int:
        assert isinstance(self.field, QPlainTextEdit)
        self.field.setPlainText("a\nb")
        return int(QDialog.DialogCode.Accepted.value)

    monkeypatch.setattr(AskDialog, "exec", type_and_accept)
    assert dialog.ask() == "a\nb"
    monkeypatch.setattr(AskDialog, "exec", lambda self: int(QDialog.DialogCode.Rejected.value))
    cancelled = AskDialog(theme, "Lines", "Each line is a row", has_lines=True)
    assert cancelled.ask() is None


def test_cancel_never_looks_like_the_thing_to_do(theme: Theme, qtbot: QtBot) -> None:
    dialog = UseDialog("Title", 300, 200, theme)
    qtbot.addWidget(dialog)
    dialog.use.setEnabled(False)
    dialog.show()
    defaults = [button.text() for button in dialog.findChildren(QPushButton) if button.isDefault()]
    assert defaults == ["Use"]


def test_the_keyboard_begins_with_the_content(window: MainWindow, theme: Theme, qtbot: QtBot) -> None:
    dialog = ToolsDialog("", theme, window)
    dialog.show()
    assert dialog.edit.hasFocus() or dialog.focusWidget() is dialog.edit
    for text in ("Insert an example", "Cancel", "Use"):
        qtbot.keyClick(dialog.focusWidget(), Qt.Key.Key_Tab)
        focused = dialog.focusWidget()
        assert isinstance(focused, QPushButton)
        assert focused.text() == text
    dialog.close()
    schema = SchemaDialog(SchemaLibrary(Path("/nowhere")), "", theme, window)
    schema.show()
    focused = schema.focusWidget()
    assert isinstance(focused, QPushButton)
    assert focused.text() == "Schemas"
    schema.close()


def test_what_cannot_be_used_stays_to_be_corrected(theme: Theme, qtbot: QtBot) -> None:
    dialog = AskDialog(theme, "Title", "Words", check=lambda text: "" if text == "good" else f"{text} is bad.")
    qtbot.addWidget(dialog)
    dialog.show()
    assert isinstance(dialog.field, QLineEdit)
    dialog.field.setText("this")
    dialog.use.click()
    assert dialog.isVisible()
    assert dialog.text == "this"
    assert "this is bad." in [label.text() for label in dialog.findChildren(QLabel) if label.isVisible()]
    dialog.field.setText("good")
    dialog.use.click()
    assert not dialog.isVisible()
