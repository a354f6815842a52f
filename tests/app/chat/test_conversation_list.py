from __future__ import annotations

from datetime import datetime

import pytest
from PySide6.QtCore import QLocale, Qt
from PySide6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot

from app.chat.conversation_list import ConversationList
from app.chat.conversation_list_model import CONVERSATION_ID, IS_BUSY, IS_HEADING, group_of, when
from app.storage.records import ConversationRecord
from app.theme import Theme

NOW = datetime(2026, 11, 25, 15, 0)


def _record(name: str, moment: datetime, *, is_pinned: bool = False) -> ConversationRecord:
    return ConversationRecord(name, name.title(), moment.timestamp(), moment.timestamp(), is_pinned)


@pytest.mark.parametrize(
    ("moment", "heading"),
    [
        (datetime(2026, 11, 25, 0, 1), "Today"),
        (datetime(2026, 11, 26, 9, 0), "Today"),  # a clock that was set back
        (datetime(2026, 11, 24, 23, 59), "Yesterday"),
        (datetime(2026, 11, 18, 12, 0), "Last week"),
        (datetime(2026, 11, 17, 12, 0), "Last month"),
        (datetime(2026, 3, 1), "March"),
        (datetime(2024, 3, 1), "March 2024"),
    ],
)
def test_headings(moment: datetime, heading: str) -> None:
    QLocale.setDefault(QLocale(QLocale.Language.English))
    assert group_of(moment.timestamp(), NOW) == heading


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime(2026, 11, 25, 14, 59, 30), "now"),
        (datetime(2026, 11, 25, 9, 5), "9:05"),
        (datetime(2026, 11, 23, 9, 5), "Mon"),
        (datetime(2026, 11, 2), "2 Nov"),
        (datetime(2025, 11, 2), "Nov 2025"),
    ],
)
def test_times(moment: datetime, text: str) -> None:
    QLocale.setDefault(QLocale(QLocale.Language.English))
    assert when(moment.timestamp(), NOW) == text


@pytest.fixture
def chats(theme: Theme, qtbot: QtBot) -> ConversationList:
    made = ConversationList(theme)
    qtbot.addWidget(made)
    made.resize(264, 400)
    today = datetime.now()
    records = [_record("a", today), _record("b", today), _record("pinned", datetime(2020, 1, 1), is_pinned=True)]
    made.conversations.show_records(records, {"b"})
    made.show()
    return made


def test_rows_stand_under_their_headings(chats: ConversationList) -> None:
    model = chats.conversations
    rows = [(model.index(row).data(), model.index(row).data(IS_HEADING)) for row in range(model.rowCount())]
    assert rows == [("Pinned", True), ("Pinned", False), ("Today", True), ("A", False), ("B", False)]
    assert [model.index(row).data(IS_BUSY) for row in (3, 4)] == [False, True]
    assert not model.flags(model.index(0)) & Qt.ItemFlag.ItemIsSelectable


def test_a_click_opens(chats: ConversationList, qtbot: QtBot) -> None:
    place = chats.visualRect(chats.conversations.index(3)).center()
    with qtbot.waitSignal(chats.open_requested, timeout=500) as caught:
        qtbot.mouseClick(chats.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert caught.args == ["a"]
    with qtbot.assertNotEmitted(chats.open_requested):
        heading = chats.visualRect(chats.conversations.index(2)).center()
        qtbot.mouseClick(chats.viewport(), Qt.MouseButton.LeftButton, pos=heading)


def test_the_keyboard_moves_over_headings_and_opens(chats: ConversationList, qtbot: QtBot) -> None:
    chats.select("pinned")
    qtbot.keyClick(chats, Qt.Key.Key_Down)
    assert chats.currentIndex().data(CONVERSATION_ID) == "a"
    with qtbot.waitSignal(chats.open_requested, timeout=500) as caught:
        qtbot.keyClick(chats, Qt.Key.Key_Return)
    assert caught.args == ["a"]


def test_no_bare_key_deletes(chats: ConversationList, qtbot: QtBot) -> None:
    chats.select("a")
    with qtbot.assertNotEmitted(chats.delete_requested):
        qtbot.keyClick(chats, Qt.Key.Key_Delete)
        qtbot.keyClick(chats, Qt.Key.Key_Backspace)


def test_a_title_is_renamed_in_place(chats: ConversationList, qtbot: QtBot) -> None:
    chats.begin_rename("a")
    editor = chats.findChild(QLineEdit)
    assert editor is not None
    editor.setText("  A new   name ")
    with qtbot.waitSignal(chats.rename_requested, timeout=500) as caught:
        qtbot.keyClick(editor, Qt.Key.Key_Return)
    assert caught.args == ["a", "A new name"]


def test_an_empty_title_changes_nothing(chats: ConversationList, qtbot: QtBot) -> None:
    chats.begin_rename("a")
    editor = chats.findChild(QLineEdit)
    assert editor is not None
    editor.setText("   ")
    with qtbot.assertNotEmitted(chats.rename_requested):
        qtbot.keyClick(editor, Qt.Key.Key_Return)


def test_the_menu_acts(chats: ConversationList, qtbot: QtBot) -> None:
    menu = chats.make_menu(chats.conversations.index(1))
    actions = {action.text().split("\t")[0]: action for action in menu.actions() if action.text()}
    assert set(actions) == {"Rename", "Unpin", "Delete"}
    with qtbot.waitSignal(chats.pin_requested, timeout=500) as caught:
        actions["Unpin"].trigger()
    assert caught.args == ["pinned", False]
    with qtbot.waitSignal(chats.delete_requested, timeout=500) as caught:
        actions["Delete"].trigger()
    assert caught.args == ["pinned"]
