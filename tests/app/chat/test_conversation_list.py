from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest
from PySide6.QtCore import QLocale, QMimeData, QModelIndex, QPoint, QPointF, Qt
from PySide6.QtGui import QDragMoveEvent, QDropEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot

from app.chat.conversation_list import ConversationList
from app.chat.conversation_list_model import (
    CONVERSATION_ID,
    EXCERPT,
    FOLDER_ID,
    IS_BUSY,
    IS_FOLDER,
    IS_HEADING,
    Search,
)
from app.chat.conversation_rows import Shelf, group_of, when
from app.storage.records import ConversationRecord, FolderRecord
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
    made.show_records(records, {"b"})
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
    with qtbot.waitSignal(chats.open_requested) as caught:
        qtbot.mouseClick(chats.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert caught.args == ["a"]
    with qtbot.assertNotEmitted(chats.open_requested):
        heading = chats.visualRect(chats.conversations.index(2)).center()
        qtbot.mouseClick(chats.viewport(), Qt.MouseButton.LeftButton, pos=heading)


def test_the_keyboard_moves_over_headings_and_opens(chats: ConversationList, qtbot: QtBot) -> None:
    chats.select("pinned")
    qtbot.keyClick(chats, Qt.Key.Key_Down)
    assert chats.currentIndex().data(CONVERSATION_ID) == "a"
    with qtbot.waitSignal(chats.open_requested) as caught:
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
    with qtbot.waitSignal(chats.rename_requested) as caught:
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
    assert set(actions) == {"Rename", "Unpin", "Move to", "Export…", "Delete"}
    with qtbot.waitSignal(chats.pin_requested) as caught:
        actions["Unpin"].trigger()
    assert caught.args == [["pinned"], False]
    with qtbot.waitSignal(chats.delete_requested) as caught:
        actions["Delete"].trigger()
    assert caught.args == [["pinned"]]


# ---------------------------------------------------------------------------------------------- folders

WORK, HOME = FolderRecord("work", "Work", 0.0), FolderRecord("home", "Home & garden", 0.0)


@pytest.fixture
def shelves(theme: Theme, qtbot: QtBot) -> ConversationList:
    made = ConversationList(theme)
    qtbot.addWidget(made)
    made.resize(264, 500)
    today = datetime.now()
    records = [
        _record("outside", today),
        replace(_record("inside", today), folder_id="work"),
        replace(_record("busy", today), folder_id="home"),
        replace(_record("pinned", today, is_pinned=True), folder_id="work"),
        replace(_record("lost", today), folder_id="a folder that is gone"),
    ]
    made.show_records(records, {"busy"}, [Shelf(HOME, True), Shelf(WORK, False)])
    made.show()
    return made


def _texts(chats: ConversationList) -> list[str]:
    model = chats.conversations
    return [str(model.index(row).data()) for row in range(model.rowCount())]


def test_folders_hold_their_chats(shelves: ConversationList) -> None:
    model = shelves.conversations
    assert _texts(shelves) == [
        "Pinned", "Pinned", "Folders", "Home & garden", "Work", "Inside", "Today", "Outside", "Lost"
    ]  # fmt: skip
    assert model.index(3).data(IS_BUSY), "what answers in a folded folder is seen"
    assert model.index(4).data(Qt.ItemDataRole.AccessibleTextRole) == "Folder Work, chats: 1, unfolded"
    assert [model.index(row).data(FOLDER_ID) for row in (4, 5, 7)] == ["work", "work", ""]


def test_a_folder_folds_by_click_and_by_key(shelves: ConversationList, qtbot: QtBot) -> None:
    index = shelves.conversations.index(4)
    assert index.data(IS_FOLDER)
    with qtbot.waitSignal(shelves.fold_requested) as caught:
        qtbot.mouseClick(shelves.viewport(), Qt.MouseButton.LeftButton, pos=shelves.visualRect(index).center())
    assert caught.args == ["work", True]
    shelves.setCurrentIndex(index)
    for key, is_folded in ((Qt.Key.Key_Left, True), (Qt.Key.Key_Right, False), (Qt.Key.Key_Return, True)):
        with qtbot.waitSignal(shelves.fold_requested) as caught:
            qtbot.keyClick(shelves, key)
        assert caught.args == ["work", is_folded]


@pytest.mark.parametrize(("row", "folder_id"), [(3, "home"), (5, "work"), (7, None), (6, None), (99, None)])
def test_chats_are_dragged_into_folders_and_out(
    shelves: ConversationList, qtbot: QtBot, row: int, folder_id: str | None
) -> None:
    model = shelves.conversations
    data = model.mimeData([model.index(7), model.index(8)])
    target = model.index(row)
    place = QPointF(shelves.visualRect(target).center()) if target.isValid() else QPointF(50, 495)
    buttons, keys = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    move = QDragMoveEvent(place.toPoint(), Qt.DropAction.MoveAction, data, buttons, keys)
    shelves.dragMoveEvent(move)
    assert move.isAccepted()
    with qtbot.waitSignal(shelves.move_requested) as caught:
        shelves.dropEvent(QDropEvent(place, Qt.DropAction.MoveAction, data, buttons, keys))
    assert caught.args == [["outside", "lost"], folder_id]


def test_only_chats_can_be_dragged_and_foreign_things_are_refused(shelves: ConversationList) -> None:
    model = shelves.conversations
    draggable = [
        bool(model.flags(model.index(row)) & Qt.ItemFlag.ItemIsDragEnabled) for row in range(model.rowCount())
    ]
    assert draggable == [False, True, False, False, False, True, False, True, True]
    foreign = QMimeData()
    foreign.setText("a text")
    move = QDragMoveEvent(
        QPoint(50, 50), Qt.DropAction.MoveAction, foreign, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    )
    shelves.dragMoveEvent(move)
    assert not move.isAccepted()


def test_several_are_chosen_and_acted_on(shelves: ConversationList, qtbot: QtBot) -> None:
    model = shelves.conversations
    shelves.select("outside")
    with qtbot.assertNotEmitted(shelves.open_requested):
        qtbot.mouseClick(
            shelves.viewport(),
            Qt.MouseButton.LeftButton,
            Qt.KeyboardModifier.ControlModifier,
            shelves.visualRect(model.index(5)).center(),
        )
    assert shelves.chosen_ids == ["inside", "outside"]
    menu = shelves.make_menu(model.index(7))
    actions = {action.text().split("\t")[0]: action for action in menu.actions() if action.text()}
    assert set(actions) == {"Pin", "Move to", "Export…", "Delete 2 chats"}
    with qtbot.waitSignal(shelves.export_requested) as caught:
        actions["Export…"].trigger()
    assert caught.args == [["inside", "outside"]]
    with qtbot.waitSignal(shelves.delete_requested) as caught:
        actions["Delete 2 chats"].trigger()
    assert caught.args == [["inside", "outside"]]
    into = {action.text(): action for action in actions["Move to"].menu().actions()}
    assert list(into)[:2] == ["Home && garden", "Work"]
    with qtbot.waitSignal(shelves.move_requested) as caught:
        into["No folder"].trigger()
    assert caught.args == [["inside", "outside"], None]
    today = datetime.now()
    shelves.show_records([_record("new", today), _record("inside", today), _record("outside", today)], ())
    assert shelves.chosen_ids == ["inside", "outside"], "an answer that ends elsewhere does not undo a choice"
    assert len(shelves.make_menu(shelves.conversations.index(1)).actions()) == 6, "another row: only that one"


def test_a_folder_is_renamed_in_place(shelves: ConversationList, qtbot: QtBot) -> None:
    shelves.begin_folder_rename("work")
    editor = shelves.findChild(QLineEdit)
    assert editor is not None
    editor.setText(" Arbeit ")
    with qtbot.waitSignal(shelves.folder_rename_requested) as caught:
        qtbot.keyClick(editor, Qt.Key.Key_Return)
    assert caught.args == ["work", "Arbeit"]


def test_the_folders_menu_acts(shelves: ConversationList, qtbot: QtBot) -> None:
    menu = shelves.make_menu(shelves.conversations.index(4))
    actions = {action.text().split("\t")[0]: action for action in menu.actions() if action.text()}
    with qtbot.waitSignal(shelves.new_chat_requested) as caught:
        actions["New chat here"].trigger()
    assert caught.args == ["work"]
    with qtbot.waitSignal(shelves.folder_delete_requested) as caught:
        actions["Delete the folder, keep its chats"].trigger()
    assert caught.args == ["work"]


def test_what_was_found_is_shown_and_marked(chats: ConversationList, theme: Theme) -> None:
    records = [_record("kettle", datetime.now()), _record("b", datetime.now())]
    search = Search(("tea", "kettle"), {"b": "…a cup of Tea\u202e 🫖 tea", "kettle": ""})
    chats.show_records(records, (), (), search)
    model = chats.conversations
    plain, found = (model.index(model.row_of(id_)) for id_ in ("kettle", "b"))
    assert found.data(EXCERPT) == "…a cup of Tea⟨U+202E⟩ 🫖 tea"
    assert "a cup of Tea" in found.data(int(Qt.ItemDataRole.AccessibleTextRole))
    assert chats.visualRect(found).height() > chats.visualRect(plain).height()
    accent = theme.colour("accent").rgb()
    chats.clearSelection()
    chats.setCurrentIndex(model.index(0))
    image = chats.viewport().grab().toImage()

    def has_accent(index: QModelIndex) -> bool:
        box = chats.visualRect(index)
        return any(
            image.pixel(x, y) == accent
            for x in range(box.left() + 16, min(box.right(), image.width()) - 40)
            for y in range(box.top() + 3, box.bottom() - 3)
        )

    assert has_accent(plain), "the word in the title"
    assert has_accent(found), "the word in the excerpt"
    chats.show_records(records, (), (), Search())
    image = chats.viewport().grab().toImage()
    assert not has_accent(model.index(model.row_of("b")))


def test_a_rename_by_a_shortcut_chooses_its_row_alone(chats: ConversationList) -> None:
    chats.select("b")
    QTest.keyPress(chats, Qt.Key.Key_F12, Qt.KeyboardModifier.ControlModifier)  # still down
    try:
        chats.begin_rename("b")
        assert chats.chosen_ids == ["b"]
        chats.begin_rename("a")
        assert chats.chosen_ids == ["a"]
    finally:
        QTest.keyRelease(chats, Qt.Key.Key_F12, Qt.KeyboardModifier.NoModifier)


def test_a_second_wish_to_rename_changes_nothing(chats: ConversationList) -> None:
    chats.begin_rename("a")
    [editor] = chats.findChildren(QLineEdit)
    editor.setText("half a ti")
    chats.begin_rename("a")
    assert [one.text() for one in chats.findChildren(QLineEdit)] == ["half a ti"]
    names: list[tuple[str, str]] = []
    chats.rename_requested.connect(lambda id_, title: names.append((id_, title)))
    chats.begin_rename("b")
    QTest.qWait(1)
    assert names == [("a", "half a ti")], "going on to another one takes what was typed"
