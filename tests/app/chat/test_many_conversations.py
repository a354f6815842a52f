"""The sidebar with thousands of chats: what an action touches does not grow with their number."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from PySide6.QtCore import QModelIndex
from PySide6.QtWidgets import QLineEdit, QStyleOptionViewItem
from pytestqt.qtbot import QtBot

from app.chat.conversation_delegate import ConversationDelegate
from app.chat.conversation_list import ConversationList
from app.chat.conversation_list_model import CONVERSATION_ID, IS_BUSY, ConversationListModel
from app.chat.conversation_rows import Shelf
from app.chat.row_changes import Insertion, Move, Removal, row_changes
from app.storage.records import ConversationRecord, FolderRecord
from app.theme import Theme

NUM_CHATS, NUM_FOLDERS = 5000, 300
NOW = datetime.now().replace(hour=0, minute=0, second=1)


class Touched:
    """Counts the rows that a model says something about."""

    def __init__(self, model: ConversationListModel) -> None:
        self._model = model
        self.num_rows = 0
        model.rowsInserted.connect(lambda _parent, first, last: self._add(last - first + 1))
        model.rowsRemoved.connect(lambda _parent, first, last: self._add(last - first + 1))
        model.rowsMoved.connect(lambda _parent, first, last, *_rest: self._add(last - first + 1))
        model.dataChanged.connect(lambda first, last, *_roles: self._add(last.row() - first.row() + 1))
        model.modelReset.connect(lambda: self._add(model.rowCount()))

    def _add(self, num_rows: int) -> None:
        self.num_rows += num_rows

    def take(self) -> int:
        """How many since the last time."""
        num_rows, self.num_rows = self.num_rows, 0
        return num_rows


@pytest.fixture
def records() -> list[ConversationRecord]:
    return [
        ConversationRecord(
            f"c{number}",
            f"Chat {number}",
            0.0,
            (NOW - timedelta(hours=number)).timestamp(),
            folder_id=f"f{number % 600}" if number % 600 < NUM_FOLDERS else None,
        )
        for number in range(NUM_CHATS)
    ]


@pytest.fixture
def shelves() -> list[Shelf]:
    return [Shelf(FolderRecord(f"f{number}", f"Folder {number}", 0.0), False) for number in range(NUM_FOLDERS)]


@pytest.fixture
def chats(
    theme: Theme, qtbot: QtBot, records: list[ConversationRecord], shelves: list[Shelf]
) -> Iterator[ConversationList]:
    made = ConversationList(theme)
    qtbot.addWidget(made)
    made.resize(264, 600)
    made.show_records(records, (), shelves)
    made.show()
    qtbot.waitExposed(made)
    yield made
    made.close()


def _ids(chats: ConversationList) -> list[str]:
    model = chats.conversations
    return [str(model.index(row).data(CONVERSATION_ID)) for row in range(model.rowCount())]


def test_an_action_touches_few_rows(
    chats: ConversationList, records: list[ConversationRecord], shelves: list[Shelf]
) -> None:
    touched = Touched(chats.conversations)

    def num_touched(changed: list[ConversationRecord], busy: tuple[str, ...] = (), folded: int = -1) -> int:
        nonlocal records
        records = changed
        shown = [Shelf(one.record, place == folded) for place, one in enumerate(shelves)]
        chats.show_records(records, busy, shown)
        return touched.take()

    def changed(number: int, **fields: object) -> list[ConversationRecord]:
        return [*records[:number], replace(records[number], **fields), *records[number + 1 :]]  # type: ignore[arg-type]

    later = datetime.now().timestamp()
    assert num_touched(records) == 0
    assert num_touched(changed(2500, title="Renamed")) == 1
    assert num_touched(changed(4700, updated_at=later)) == 3, "sent in an old chat: it moves, and Today comes"
    assert num_touched(records, busy=("c4700",)) == 1
    assert num_touched(records) == 1
    without = [record for record in records if record.id != "c3000"]
    kept = records
    assert num_touched(without) == 2, "the row goes, and its folder counts one less"
    assert num_touched(kept) == 2, "undone"
    assert num_touched(changed(10, folder_id="f20")) <= 4, "the row and two folders"
    assert num_touched(changed(4000, is_pinned=True)) <= 4, "with a heading"
    assert num_touched(records, folded=7) == 1 + 9
    assert num_touched(records, folded=7, busy=("c7",)) == 1, "only the folder is in sight"
    assert chats.conversations.index(chats.conversations.row_of_folder("f7")).data(IS_BUSY)


def test_rows_that_come_by_changes_are_those_that_come_at_once(
    chats: ConversationList, records: list[ConversationRecord], shelves: list[Shelf]
) -> None:
    chance = random.Random(4)
    records = records[:60]
    for step in range(40):
        records = [record for record in records if chance.random() < 0.97]
        for _ in range(3):
            at = chance.randrange(len(records))
            records[at] = replace(
                records[at],
                updated_at=NOW.timestamp() - chance.randrange(9_000_000),
                is_pinned=chance.random() < 0.2,
                folder_id=chance.choice((None, "f1", "f2")),
            )
        records.append(ConversationRecord(f"new{step}", "New", 0.0, NOW.timestamp() + step))
        shown = [Shelf(shelves[number].record, chance.random() < 0.3) for number in (1, 2, 3)]
        chats.show_records(list(records), (), shown)
        fresh = ConversationListModel()
        fresh.show_records(list(records), (), shown)
        model = chats.conversations
        assert model.rowCount() == fresh.rowCount()
        for row in range(model.rowCount()):
            for role in (0, CONVERSATION_ID):
                assert model.index(row).data(role) == fresh.index(row).data(role)
        assert [model.row_of(id_) for id_ in _ids(chats) if id_ != "None"] == [
            row for row, id_ in enumerate(_ids(chats)) if id_ != "None"
        ]


def test_a_layout_asks_few_rows_for_their_height(
    chats: ConversationList,
    records: list[ConversationRecord],
    shelves: list[Shelf],
    monkeypatch: pytest.MonkeyPatch,
    qtbot: QtBot,
) -> None:
    asked: list[int] = []
    size_hint = ConversationDelegate.sizeHint

    def counting(delegate: ConversationDelegate, option: QStyleOptionViewItem, index: QModelIndex) -> object:
        asked.append(index.row())
        return size_hint(delegate, option, index)

    monkeypatch.setattr(ConversationDelegate, "sizeHint", counting)
    chats.show_records(records[1:], (), shelves)
    qtbot.wait(1)
    chats.executeDelayedItemsLayout()
    assert len(asked) < 40


def test_choice_place_and_editor_stay(
    chats: ConversationList, records: list[ConversationRecord], shelves: list[Shelf]
) -> None:
    model = chats.conversations
    chats.select("c2000")
    chats.scrollTo(model.index(model.row_of("c2000")))
    place = chats.visualRect(model.index(model.row_of("c2000"))).top()
    chats.begin_rename("c2000")
    [editor] = chats.findChildren(QLineEdit)
    editor.setText("half a ti")
    came = ConversationRecord("new", "New", 0.0, datetime.now().timestamp(), is_pinned=True)
    moved = replace(records[4900], updated_at=datetime.now().timestamp())
    chats.show_records([came, *records[:4900], moved, *records[4901:]], ("new",), shelves)
    assert chats.current_id == "c2000"
    assert chats.chosen_ids == ["c2000"]
    assert chats.visualRect(model.index(model.row_of("c2000"))).top() == place
    assert [one.text() for one in chats.findChildren(QLineEdit)] == ["half a ti"]


def test_what_is_dragged_away_is_not_taken_out_by_the_view(chats: ConversationList) -> None:
    num_rows = chats.conversations.rowCount()
    assert not chats.conversations.removeRows(3, 2)
    assert chats.conversations.rowCount() == num_rows


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ("abcd", "abcd", []),
        ("abcd", "dabc", [Move(3, 0)]),
        ("abcd", "bcda", [Move(0, 4)]),
        ("abcd", "ad", [Removal(1, 2)]),
        ("ad", "abcd", [Insertion(1, ("b", "c"))]),
        ("abcdef", "xaef", [Removal(1, 3), Insertion(0, ("x",))]),
        ("", "ab", [Insertion(0, ("a", "b"))]),
    ],
)
def test_few_changes_make_one_order_of_another(old: str, new: str, changes: list[object]) -> None:
    assert row_changes(old, new) == changes


def test_any_order_is_reached() -> None:
    chance = random.Random(1)
    for _ in range(500):
        old = chance.sample("abcdefghij", chance.randrange(11))
        new = chance.sample("abcdefghij", chance.randrange(11))
        rows = list(old)
        for change in row_changes(old, new):
            match change:
                case Removal(first, count):
                    del rows[first : first + count]
                case Move(source, destination):
                    row = rows.pop(source)
                    rows.insert(destination - (source < destination), row)
                case Insertion(first, keys):
                    rows[first:first] = keys
        assert rows == new
