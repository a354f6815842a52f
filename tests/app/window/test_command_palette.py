from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit, QWidget
from pytestqt.qtbot import QtBot

from app.preferences.preferences_page import PreferencesPage
from app.theme import Theme
from app.window.command_palette import CommandPalette, PaletteCommand, find_commands
from app.window.main_window import MainWindow
from tests.app.fake_controller import FakeController


def _open(window: MainWindow, qtbot: QtBot) -> CommandPalette:
    qtbot.keyClick(window, Qt.Key.Key_K, Qt.KeyboardModifier.ControlModifier)
    palette = window.findChildren(CommandPalette)[-1]
    qtbot.waitUntil(palette.isVisible)
    return palette


def _choose(palette: CommandPalette, qtbot: QtBot, text: str) -> None:
    qtbot.keyClicks(palette.field, text)
    qtbot.keyClick(palette.field, Qt.Key.Key_Return)


def test_words_are_found_anywhere_and_beginnings_come_first() -> None:
    commands = [
        PaletteCommand(title, "chat", print) for title in ("Unrename it", "Chat: rename", "Rename the chat")
    ]
    assert [one.title for one in find_commands(commands, "RENAME")] == [
        "Rename the chat",
        "Chat: rename",
        "Unrename it",
    ]
    assert [one.title for one in find_commands(commands, "it chat")] == ["Unrename it"]
    assert find_commands(commands, "zebra") == []
    assert len(find_commands(commands, "")) == 3


def test_it_does_what_the_menus_do(window: MainWindow, fake: FakeController, qtbot: QtBot) -> None:
    palette = _open(window, qtbot)
    offered = {command.title for command in palette._commands}
    assert {"New chat", "Settings", "Theme: Dark", "Trash", "Sorting a log by date", "Gemma 3 270M"} <= offered
    assert "llava 1.6 projector" not in offered
    assert "Stop the answer" not in palette.titles, "what cannot be done now is not offered"
    _choose(palette, qtbot, "rename")
    qtbot.waitUntil(lambda: window.sidebar.list.findChild(QLineEdit) is not None)


def test_it_opens_chats_models_and_settings(window: MainWindow, fake: FakeController, qtbot: QtBot) -> None:
    _choose(_open(window, qtbot), qtbot, "radix")
    assert fake.current_conversation.title == "What is a radix tree?"
    _choose(_open(window, qtbot), qtbot, "gemma")
    assert fake.calls[-1] == ("load_model", str(fake.models[1].path))
    _choose(_open(window, qtbot), qtbot, "min-p")
    page = window.pages.page("settings")
    assert isinstance(page, PreferencesPage)
    assert page.isVisible()
    assert [row._setting.key for row in page.rows() if row.isVisible()] == ["min_p"]


def test_arrows_choose_and_escape_leaves(window: MainWindow, fake: FakeController, qtbot: QtBot) -> None:
    palette = _open(window, qtbot)
    qtbot.keyClick(palette.field, Qt.Key.Key_Down)
    qtbot.keyClick(palette.field, Qt.Key.Key_Down)
    assert palette.list.currentIndex().row() == 2
    qtbot.keyClick(palette.field, Qt.Key.Key_PageUp)
    assert palette.list.currentIndex().row() == 0
    qtbot.keyClicks(palette.field, "zebra")
    assert not palette.list.isVisible()
    qtbot.keyClick(palette.field, Qt.Key.Key_Return)
    assert palette.isVisible()
    calls = len(fake.calls)
    qtbot.keyClick(palette.field, Qt.Key.Key_Escape)
    assert not palette.isVisible()
    assert len(fake.calls) == calls


@pytest.mark.parametrize("height", [820, 420, 300])
def test_the_palette_ends_inside_the_window(theme: Theme, qtbot: QtBot, height: int) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    window.resize(900, height)
    window.show()
    palette = CommandPalette(theme, [PaletteCommand(f"Do {n}", "", lambda: None) for n in range(40)], window)
    palette.open_at(84)
    assert palette.geometry().bottom() < height
    assert palette.list.height() >= 2 * theme.px(34)
