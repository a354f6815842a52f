from __future__ import annotations

from PySide6.QtCore import QObject, QTimer
from pytestqt.qtbot import QtBot
from shiboken6 import isValid

from app.turns import Turns


def test_other_events_come_between_two_steps(qtbot: QtBot) -> None:
    parent = QObject()
    seen: list[str] = []
    left = [True, True, False]

    def again() -> bool:
        seen.append("again")
        return left.pop(0)

    def first() -> None:
        seen.append("first")
        QTimer.singleShot(0, lambda: seen.append("event"))

    turns = Turns([first, again, lambda: seen.append("last")], parent)
    assert seen == [], "nothing in the turn in which it is made"
    qtbot.waitUntil(lambda: not isValid(turns))
    assert [name for name in seen if name != "event"] == ["first", "again", "again", "again", "last"]
    assert seen.index("event") < seen.index("last")


def test_a_step_that_fails_is_not_done_again(qtbot: QtBot) -> None:
    parent = QObject()
    seen: list[str] = []

    def fail() -> None:
        seen.append("failed")
        raise ValueError("odd")

    with qtbot.captureExceptions() as failures:
        turns = Turns([fail, lambda: seen.append("last")], parent)
        qtbot.waitUntil(lambda: not isValid(turns))
    assert seen == ["failed", "last"]
    assert len(failures) == 1
