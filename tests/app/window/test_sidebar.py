from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from app.chat.conversation_list_model import CONVERSATION_ID
from app.settings import Settings
from app.window.main_window import MainWindow
from tests.app.fake_controller import MODEL, FakeController
from tests.app.window.steps import CTRL, calls_of


def test_chats_are_opened_searched_and_made(window: MainWindow, fake: FakeController, qtbot: QtBot) -> None:
    qtbot.keyClick(window, Qt.Key.Key_F, CTRL | Qt.KeyboardModifier.ShiftModifier)
    field = window.sidebar._search
    assert field.hasFocus()
    qtbot.keyClicks(field, "radix")
    qtbot.waitUntil(lambda: bool(calls_of(fake, "search")))
    qtbot.keyClick(field, Qt.Key.Key_Return)
    assert fake.current_conversation.title == "What is a radix tree?"
    qtbot.keyClick(window, Qt.Key.Key_N, CTRL)
    assert fake.current_conversation.title == ""
    assert field.text() == ""
    assert window.chat_page.composer.edit.hasFocus()


def test_the_button_makes_a_chat_outside_of_all_folders(window: MainWindow, fake: FakeController) -> None:
    window.sidebar._new.click()
    assert calls_of(fake, "new_conversation") == [("new_conversation", None)]


def test_nothing_found_is_said(window: MainWindow, qtbot: QtBot) -> None:
    qtbot.keyClicks(window.sidebar._search, "zebra")
    qtbot.waitUntil(lambda: window.sidebar._empty.isVisible())
    assert "zebra" in window.sidebar._empty.text()


def test_a_deleted_chat_can_be_brought_back(window: MainWindow, fake: FakeController) -> None:
    record = fake.conversations[2]
    window.sidebar.delete_requested.emit([record.id])
    assert record not in fake.conversations
    bar = window.chat_page.notice_bar
    assert record.title in bar.text
    next(button for button in bar.findChildren(QPushButton) if button.text() == "Undo").click()
    assert record in fake.conversations
    assert not bar.isVisible()


def test_the_sidebar_comes_and_goes(window: MainWindow, settings: Settings, qtbot: QtBot) -> None:
    qtbot.keyClick(window, Qt.Key.Key_B, CTRL)
    assert not window.sidebar.isVisible()
    assert window.bar.sidebar_button.isVisible()
    assert settings.value("is_sidebar_visible") is False
    window.bar.sidebar_button.click()
    assert window.sidebar.isVisible()


def test_a_narrow_window_gives_its_room_to_the_text(window: MainWindow, settings: Settings, qtbot: QtBot) -> None:
    window.resize(640, 700)
    qtbot.waitUntil(lambda: not window.sidebar.isVisible())
    assert settings.value("is_sidebar_visible") is True
    window.resize(1280, 700)
    qtbot.waitUntil(lambda: window.sidebar.isVisible())


def test_larger_text_in_the_same_window_gives_its_room_to_the_text(
    window: MainWindow, settings: Settings, qtbot: QtBot
) -> None:
    window.resize(1280, 700)
    settings.set("zoom", 2.0)
    assert not window.sidebar.isVisible()
    assert settings.value("is_sidebar_visible") is True
    settings.set("zoom", 1.0)
    assert window.sidebar.isVisible()


def test_that_a_message_waits_is_said_as_long_as_it_is_true(window: MainWindow, fake: FakeController) -> None:
    bar = window.chat_page.notice_bar
    for end in (lambda: fake.model_loaded.emit(MODEL), lambda: fake.model_failed.emit("The file is damaged.")):
        fake.waiting.emit("Your message is kept.")
        assert bar.isVisible()
        end()
        assert not (bar.isVisible() and bar.text == "Your message is kept.")
    fake.waiting.emit("Your message is kept.")
    fake.notice.emit("Something else.")
    fake.model_loaded.emit(MODEL)
    assert bar.isVisible()
    assert bar.text == "Something else."


def test_the_list_follows_the_open_chat(window: MainWindow, fake: FakeController) -> None:
    for record in fake.conversations[:3]:
        fake.open_conversation(record.id)
        assert window.sidebar.list.currentIndex().data(CONVERSATION_ID) == record.id
        assert record.title in window.windowTitle()


def test_what_is_found_is_opened_with_the_arrows(window: MainWindow, fake: FakeController, qtbot: QtBot) -> None:
    window.activateWindow()
    window.sidebar.focus_search()
    field = window.sidebar._search
    opened = fake.current_id
    qtbot.keyClicks(field, "radix")
    qtbot.keyClick(field, Qt.Key.Key_Down)
    assert window.sidebar.list.hasFocus()
    [chosen] = window.sidebar.list.chosen_ids
    assert fake.current_id == opened, "it is not opened before it is wanted"
    qtbot.keyClick(window.sidebar.list, Qt.Key.Key_Return)
    assert fake.current_id == chosen
    assert fake.current_conversation.title == "What is a radix tree?"


def test_options_stand_in_the_place_of_a_chat_that_has_no_room_beside_them(
    window: MainWindow, settings: Settings, qtbot: QtBot
) -> None:
    settings.set("zoom", 2.0)
    window.resize(880, 700)
    window.pane.show_options(True)
    panel = window.pane.options_panel
    qtbot.waitUntil(lambda: panel.width() == window.pane.width())
    assert not window.chat_page.isVisible()
    assert panel._body.width() <= panel._scroll.viewport().width()
    qtbot.keyClick(panel, Qt.Key.Key_Escape)
    assert not panel.isVisible()
    assert window.chat_page.isVisible()
    settings.set("zoom", 1.0)
    window.resize(1280, 800)
    window.pane.show_options(True)
    panel = window.pane.options_panel
    qtbot.waitUntil(lambda: panel.width() == panel.wanted_width)
    assert window.chat_page.isVisible()
