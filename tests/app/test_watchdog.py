from __future__ import annotations

import time
from pathlib import Path

from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.paths import AppPaths
from app.storage.database import open_database
from tests.app.measure import WORDS, App, fill, open_ms, search_ms, stall_ms
from tests.app.watchdog import Watchdog


def test_the_event_loop_turns_while_an_answer_streams_beside_busy_cores(qapp: QApplication, tmp_path: Path) -> None:
    fill(AppPaths.below(tmp_path).database, num_chats=2, num_messages=4, num_long=70)
    app = App(tmp_path)
    try:
        assert open_ms(app) > 0
        seen = stall_ms(app, seconds=1.0, num_busy=2)
        assert len(seen.pauses_ms) > 10, "200 tokens never hold it up for long; how long is a figure of measure"
        assert seen.frames_ms, "they were painted"
        [answer] = [view.record for view in app.context.controller.current_messages[-1:]]
        assert len(answer.content.split()) > 100, "it did stream"
    finally:
        app.close()


def test_the_watchdog_sees_a_stall(qapp: QApplication) -> None:
    watchdog = Watchdog()
    QTest.qWait(30)
    time.sleep(0.2)
    QTest.qWait(30)
    assert watchdog.longest_ms >= 200


def test_the_search_finds_what_is_measured(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    open_database(path)
    fill(path, num_chats=2, num_messages=80, num_long=3)
    assert set(search_ms(path)) == set(WORDS)
