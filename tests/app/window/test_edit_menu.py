from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QTextCursor
from PySide6.QtWidgets import QLineEdit, QMenu, QWidget
from pytestqt.qtbot import QtBot

from app.window.edit_menu import possible_edits
from app.window.main_window import MainWindow
from engine.protocol import Role
from tests.app.fake_controller import FakeController
from tests.app.window.steps import CTRL, action_of

NAMES = ("Undo", "Redo", "Cut", "Copy", "Paste", "Select all")


def _offered(window: MainWindow, title: str = "&Edit") -> set[str]:
    """What a menu offers when it is opened."""
    menu = next(entry.menu() for entry in window.menuBar().actions() if entry.text() == title)
    assert isinstance(menu, QMenu)
    menu.aboutToShow.emit()
    offered = {action.text().split("\t")[0] for action in menu.actions() if action.isEnabled()}
    menu.aboutToHide.emit()
    return offered


def _edits(window: MainWindow) -> set[str]:
    return _offered(window) & set(NAMES)


@pytest.fixture(autouse=True)
def empty_clipboard() -> None:
    QGuiApplication.clipboard().clear()


def test_edit_offers_what_the_field_can_do(window: MainWindow, qtbot: QtBot) -> None:
    window.activateWindow()
    window.chat_page.focus_composer()
    edit = window.chat_page.composer.edit
    assert _edits(window) == set()
    qtbot.keyClicks(edit, "some words")
    assert _edits(window) == {"Undo", "Select all"}
    action_of(window, "Select all").trigger()
    assert _edits(window) == {"Undo", "Cut", "Copy", "Select all"}
    action_of(window, "Cut").trigger()
    assert edit.toPlainText() == ""
    assert _edits(window) == {"Undo", "Paste"}
    action_of(window, "Paste").trigger()
    assert edit.toPlainText() == "some words"
    while "Undo" in _edits(window):
        action_of(window, "Undo").trigger()
    assert edit.toPlainText() == ""
    assert _edits(window) == {"Redo", "Paste"}
    action_of(window, "Redo").trigger()
    assert edit.toPlainText() == "some words"


def test_a_line_and_a_list_are_edited_too(window: MainWindow, fake: FakeController, qtbot: QtBot) -> None:
    window.activateWindow()
    field = window.sidebar._search
    field.setFocus()
    assert _edits(window) == set()
    qtbot.keyClicks(field, "ab")
    assert _edits(window) == {"Undo", "Select all"}
    field.selectAll()
    assert _edits(window) == {"Undo", "Cut", "Copy"}
    field.setEchoMode(QLineEdit.EchoMode.Password)
    assert _edits(window) == {"Undo"}, "no secret goes to the clipboard"
    field.setEchoMode(QLineEdit.EchoMode.Normal)
    field.clear()
    window.sidebar.list.setFocus()
    assert _edits(window) == {"Select all"}
    action_of(window, "Select all").trigger()
    assert len(window.sidebar.list.chosen_ids) == len(fake.conversations)


def test_what_is_read_can_be_copied(window: MainWindow, fake: FakeController) -> None:
    window.activateWindow()
    widget = window.chat_page.transcript.widgets[-1]
    widget.setFocus()
    assert _edits(window) == {"Copy", "Select all"}
    action_of(window, "Copy").trigger()
    assert QGuiApplication.clipboard().text() == widget.view.record.content
    view = widget.texts[0]
    view.setFocus()
    assert _edits(window) == {"Select all"}
    view.moveCursor(QTextCursor.MoveOperation.Start)
    view.moveCursor(QTextCursor.MoveOperation.EndOfWord, QTextCursor.MoveMode.KeepAnchor)
    word = view.textCursor().selectedText()
    assert word
    assert _edits(window) == {"Copy", "Select all"}
    action_of(window, "Copy").trigger()
    assert QGuiApplication.clipboard().text() == word


def test_nothing_is_edited_where_nothing_has_the_keyboard(qtbot: QtBot) -> None:
    plain = QWidget()
    qtbot.addWidget(plain)
    assert possible_edits(None) == possible_edits(plain) == {}


def test_a_deletion_is_undone_where_no_text_is(window: MainWindow, fake: FakeController) -> None:
    window.activateWindow()
    window.sidebar.list.setFocus()
    assert "Undo" not in _edits(window)
    num_chats = len(fake.conversations)
    action_of(window, "Delete the chat").trigger()
    assert "Undo" in _edits(window)
    action_of(window, "Undo").trigger()
    assert len(fake.conversations) == num_chats


def test_the_chat_menu_offers_what_the_messages_allow(window: MainWindow, fake: FakeController) -> None:
    answers = {"Regenerate the answer", "Continue the answer", "Copy the last answer"}
    versions = {"Previous version", "Next version"}
    fake.new_conversation()
    assert not _offered(window, "&Chat") & (answers | versions | {"Edit the last message", "Stop the answer"})
    fake.add(Role.USER, "Hello?")
    assert not _offered(window, "&Chat") & (answers | versions), "there is no answer yet"
    assert "Edit the last message" in _offered(window, "&Chat")
    fake.add(Role.ASSISTANT, "Hello.", siblings=(1, 2))
    assert _offered(window, "&Chat") >= answers | {"Previous version"}
    assert "Next version" not in _offered(window, "&Chat")
    offered = {command.title for command in window.show_commands()._commands}
    assert "Previous version" in offered
    assert "Next version" not in offered


def test_the_text_grows_and_shrinks_as_far_as_it_can(window: MainWindow) -> None:
    zooms = {"Larger text", "Smaller text", "Text as designed"}
    assert _offered(window, "&View") & zooms == {"Larger text", "Smaller text"}
    for _ in range(20):
        action_of(window, "Larger text").trigger()
    assert _offered(window, "&View") & zooms == {"Smaller text", "Text as designed"}
    for _ in range(20):
        action_of(window, "Smaller text").trigger()
    assert _offered(window, "&View") & zooms == {"Larger text", "Text as designed"}


def test_no_chats_are_exported_where_there_are_none(window: MainWindow, fake: FakeController, qtbot: QtBot) -> None:
    assert "Export all chats…" in _offered(window, "&File")
    fake.delete_conversations([record.id for record in fake.conversations])
    assert "Export all chats…" not in _offered(window, "&File")
    qtbot.keyClick(window, Qt.Key.Key_K, CTRL)
