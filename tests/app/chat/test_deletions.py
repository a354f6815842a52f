"""Ctrl+Z takes deletions back, last one first."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.theme import Theme
from app.window.main_window import MainWindow
from tests.app.conftest import Bench


def _titles(bench: Bench) -> list[str]:
    return sorted(record.title for record in bench.controller.conversations)


def _chat(bench: Bench, title: str) -> str:
    bench.controller.new_conversation()
    bench.ask(title, "answer")
    return bench.controller.current_id


def test_deletions_come_back_last_one_first(bench: Bench) -> None:
    first, second, third = (_chat(bench, title) for title in ("one", "two", "three"))
    assert not bench.controller.can_undo_deletion
    bench.controller.delete_conversations([first])
    bench.controller.delete_conversations([second, third])
    assert _titles(bench) == []
    assert bench.controller.undo_deletion() == "2 chats are back."
    assert _titles(bench) == ["three", "two"]
    assert bench.controller.undo_deletion() == "“one” is back."
    assert bench.controller.current_id == first, "what came back is open"
    assert bench.controller.current_messages[-1].record.content == "answer"
    assert bench.controller.undo_deletion() == ""
    assert not bench.controller.can_undo_deletion


def test_what_came_back_another_way_is_passed_over(bench: Bench) -> None:
    first, second = _chat(bench, "one"), _chat(bench, "two")
    bench.controller.delete_conversations([first])
    bench.controller.delete_conversations([second])
    bench.controller.restore_conversations([second])
    assert bench.controller.undo_deletion() == "“one” is back."
    bench.controller.delete_conversations([first])
    bench.controller.trash.purge([first])
    assert not bench.controller.can_undo_deletion
    assert bench.controller.undo_deletion() == ""


def test_a_folder_comes_back_with_what_lay_in_it(bench: Bench) -> None:
    inside, moved = _chat(bench, "inside"), _chat(bench, "moved on")
    folders = bench.controller.folders
    work, other = folders.make("Work"), folders.make("Other")
    bench.controller.move_conversations([inside, moved], work.id)
    folders.delete(work.id)
    bench.controller.move_conversations([moved], other.id)
    assert bench.controller.undo_deletion() == "The folder “Work” is back."
    places = {record.id: record.folder_id for record in bench.controller.conversations}
    assert places == {inside: work.id, moved: other.id}
    bench.settle()
    assert bench.notices == []


def test_the_key_undoes_in_the_text_first(bench: Bench, theme: Theme, qtbot: QtBot) -> None:
    window = MainWindow(bench.controller, bench.context.settings, theme)
    qtbot.addWidget(window)
    window.show()
    window.activateWindow()
    chat = _chat(bench, "one")
    window.chats.delete([chat])
    edit = window.chat_page.composer.edit
    edit.setFocus()
    qtbot.waitUntil(lambda: QApplication.focusWidget() is edit)
    QTest.keyClicks(edit, "draft")
    QTest.keyClick(edit, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert edit.toPlainText() == ""
    assert _titles(bench) == [], "the text had something to undo"
    QTest.keyClick(edit, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert _titles(bench) == ["one"]
    assert window.chat_page.notice_bar.text == "“one” is back."
    window.chats.delete([chat])
    field = window.sidebar._search
    field.setFocus()
    QTest.keyClick(field, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert _titles(bench) == ["one"], "from the search as well"


def test_the_menu_offers_what_can_be_undone(bench: Bench, theme: Theme, qtbot: QtBot) -> None:
    window = MainWindow(bench.controller, bench.context.settings, theme)
    qtbot.addWidget(window)
    window.show()
    window.activateWindow()
    edit_menu = window.menuBar().actions()[1].menu()
    undo = edit_menu.actions()[0]
    chat = _chat(bench, "one")
    window.chat_page.composer.edit.clear()
    window.chat_page.composer.edit.document().clearUndoRedoStacks()
    edit_menu.aboutToShow.emit()
    assert not undo.isEnabled()
    window.chats.delete([chat])
    edit_menu.aboutToShow.emit()
    assert undo.isEnabled()
    undo.trigger()
    assert _titles(bench) == ["one"]
