from __future__ import annotations

import time

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.chat.conversation_list_model import WHEN
from app.chat.trash import DAY_S, days_left
from app.chat.trash_page import TrashPage
from app.storage.conversations import mark_deleted
from app.storage.records import ConversationRecord, TrashRecord
from app.theme import Theme
from app.widgets.buttons import LookButton
from tests.app.conftest import Bench, BenchMaker
from tests.app.fake_controller import FakeController


def _make_chats(bench: Bench, *titles: str) -> list[str]:
    ids = []
    for title in titles:
        bench.controller.new_conversation()
        bench.ask(title, "yes")
        ids.append(bench.controller.current_id)
    return ids


def _titles(bench: Bench) -> set[str]:
    return {record.title for record in bench.controller.conversations}


def test_the_trash_outlasts_the_app(bench: Bench, make_bench: BenchMaker) -> None:
    first, second, _third = _make_chats(bench, "one", "two", "three")
    bench.controller.delete_conversations([first, second])
    assert _titles(bench) == {"three"}
    make_bench.close(bench)
    again = make_bench()
    trash = again.controller.trash
    assert [entry.conversation.title for entry in trash.records()] == ["two", "one"]
    again.controller.restore_conversations([first])
    assert _titles(again) == {"one", "three"}
    assert [view.record.content for view in again.controller.current_messages] == ["one", "yes"]
    trash.purge([second, first])
    make_bench.close(again)
    last = make_bench()
    assert (_titles(last), len(last.controller.trash)) == ({"one", "three"}, 0)


def test_what_was_deleted_long_ago_is_removed_at_the_start(bench: Bench, make_bench: BenchMaker) -> None:
    old, new = _make_chats(bench, "old", "new")
    bench.controller.delete_conversations([old, new])
    bench.context.store.write(lambda connection: mark_deleted(connection, old, time.time() - 31 * DAY_S))
    make_bench.close(bench)
    purged: list[list[str]] = []
    again = make_bench(None)
    again.controller.trash.purged.connect(purged.append)
    again.controller.trash.purge_old()
    assert [entry.conversation.id for entry in again.controller.trash.records()] == [new]
    make_bench.close(again)
    assert len(make_bench(None).controller.trash) == 1


def test_days_left() -> None:
    record = TrashRecord(ConversationRecord("a", "A", 0, 0), 1000.0)
    assert [days_left(record, 1000.0 + age * DAY_S) for age in (0, 0.5, 29.5, 31)] == [30, 30, 1, 0]


def test_an_answer_does_not_bring_back_what_was_removed(bench: Bench, make_bench: BenchMaker) -> None:
    assert bench.controller.send("gone soon")
    request_id = bench.request()
    bench.engine.say(request_id, "half")
    gone = bench.controller.current_id
    bench.controller.delete_conversations([gone])
    bench.controller.trash.purge([gone])
    bench.engine.finish(request_id)
    bench.wait_idle()
    make_bench.close(bench)
    again = make_bench()
    assert (_titles(again), len(again.controller.trash)) == (set(), 0)


@pytest.fixture
def page(fake: FakeController, theme: Theme, qtbot: QtBot) -> TrashPage:
    fake.fill()
    fake.delete_conversations([record.id for record in fake.conversations[:3]])
    made = TrashPage(fake, theme)  # type: ignore[arg-type]
    qtbot.addWidget(made)
    made.resize(700, 500)
    made.show()
    return made


def _button(page: TrashPage, text: str) -> LookButton:
    return next(button for button in page.findChildren(LookButton) if button.text() == text)


def test_the_page_restores_and_removes(page: TrashPage, fake: FakeController, qtbot: QtBot) -> None:
    assert page.list.model().rowCount() == 3
    assert not _button(page, "Restore").isEnabled()
    page.list.setCurrentIndex(page.list.model().index(1, 0))
    [restored] = page.chosen_ids
    with qtbot.waitSignal(page.closed):
        _button(page, "Restore").click()
    assert restored in {record.id for record in fake.conversations}
    page.list.setCurrentIndex(page.list.model().index(0, 0))
    _button(page, "Delete for good").click()
    assert page.list.model().rowCount() == 2, "not before it is confirmed"
    page.notice_bar._action_button.click()
    assert page.list.model().rowCount() == 1
    _button(page, "Empty the trash").click()
    assert "no way back" in page.notice_bar.text
    page.notice_bar._action_button.click()
    assert (page.list.model().rowCount(), len(fake.trash)) == (0, 0)
    assert not page.list.isVisible()
    assert not _button(page, "Empty the trash").isEnabled()


def test_no_bare_key_removes_for_good(page: TrashPage, qtbot: QtBot) -> None:
    page.list.selectAll()
    for key in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace):
        qtbot.keyClick(page.list, key)
    assert page.list.model().rowCount() == 3
    assert not page.notice_bar.isVisible()


def test_rows_say_when_and_how_long(page: TrashPage) -> None:
    assert page.list.model().index(0, 0).data(WHEN) == "deleted now · 30 days left"


def test_with_the_keyboard_a_chat_is_at_hand(page: TrashPage, fake: FakeController, qtbot: QtBot) -> None:
    page.activateWindow()
    page.first_focus.setFocus()
    assert page.list.currentIndex().row() == 0
    [first] = page.chosen_ids
    assert _button(page, "Restore").isEnabled()
    with qtbot.waitSignal(page.closed):
        qtbot.keyClick(page.list, Qt.Key.Key_Return)
    assert first in {record.id for record in fake.conversations}
    assert len(page.chosen_ids) == 1, "the next one is at hand"
