from __future__ import annotations

import pytest
from PySide6.QtCore import QObject, QRect, Signal
from PySide6.QtWidgets import QSystemTrayIcon, QWidget
from pytestqt.qtbot import QtBot

from app.application import watch_extraction
from app.settings import Settings
from app.window.attention import Attention
from app.window.main_window import MainWindow
from app.window.placement import clamped
from tests.app.fake_controller import FakeController


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> _Clock:
    return _Clock()


@pytest.fixture
def attention(qtbot: QtBot, settings: Settings, clock: _Clock) -> Attention:
    window = QWidget()
    qtbot.addWidget(window)
    return Attention(window, settings, clock)


def test_a_long_job_that_ends_unwatched_is_told(attention: Attention, settings: Settings, clock: _Clock) -> None:
    told: list[tuple[str, str]] = []
    attention.notified.connect(lambda title, text: told.append((title, text)))
    attention.job_began("a")
    clock.now = 5.0
    attention.job_began("a")  # progress of the same job
    attention.job_began("short")
    clock.now = 12.0
    attention.job_ended("a", "Title", "done")
    attention.job_ended("short", "Title", "done")
    attention.job_ended("unknown", "Title", "done")
    assert told == [("Title", "done")]
    settings.set("notifications", False)
    attention.job_began("b")
    clock.now = 100.0
    attention.job_ended("b", "Title", "done")
    assert len(told) == 1


def test_who_looks_on_is_not_told(attention: Attention, clock: _Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QWidget, "isActiveWindow", lambda _self: True)
    told: list[str] = []
    attention.notified.connect(lambda title, _text: told.append(title))
    attention.job_began("a")
    clock.now = 60.0
    attention.job_ended("a", "Title", "done")
    assert told == []


def test_an_answer_and_a_load_are_jobs(window: MainWindow, fake: FakeController, qtbot: QtBot) -> None:
    clock = _Clock()
    window.attention._clock = clock
    told: list[str] = []
    window.attention.notified.connect(lambda title, _text: told.append(title))
    window.isActiveWindow = lambda: False  # type: ignore[method-assign]
    message_id = fake.begin_answer()
    fake.model_loading.emit("Gemma", 0.1, "")
    clock.now = 30.0
    fake.end_answer(message_id)
    fake.model_failed.emit("The file is damaged.")
    assert told == ["Sorting a log by date", "The model could not be loaded"]


@pytest.mark.qt_log_ignore("does not support raise")  # of the offscreen platform
def test_the_tray_is_off_until_it_is_wanted(
    window: MainWindow, settings: Settings, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    assert not window.attention.keeps_running
    settings.set("tray", True)
    assert not window.attention.keeps_running, "there is no tray here: closing must end the app"
    settings.set("tray", False)
    monkeypatch.setattr(QSystemTrayIcon, "isSystemTrayAvailable", lambda: True)
    monkeypatch.setattr(QSystemTrayIcon, "show", lambda _self: None)
    settings.set("tray", True)
    assert window.attention.keeps_running
    window.close()
    assert not window.isVisible()
    window.attention.show_requested.emit()
    assert window.isVisible()
    settings.set("tray", False)
    assert not window.attention.keeps_running


SCREENS = [QRect(0, 0, 1920, 1050), QRect(1920, 100, 1280, 720)]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (QRect(100, 100, 800, 600), QRect(100, 100, 800, 600)),
        (QRect(5000, 4000, 800, 600), QRect(1120, 450, 800, 600)),  # its screen is gone
        (QRect(-700, -50, 800, 600), QRect(0, 0, 800, 600)),
        (QRect(2000, 200, 800, 600), QRect(2000, 200, 800, 600)),
        (QRect(1800, 200, 2000, 900), QRect(1920, 100, 1280, 720)),  # larger than the screen it is on
    ],
)
def test_a_window_stands_on_a_screen(wanted: QRect, expected: QRect) -> None:
    assert clamped(wanted, SCREENS) == expected


class _Workspace(QObject):
    state_changed = Signal()
    is_running = is_finished = False


def test_a_long_extraction_is_a_job(attention: Attention, clock: _Clock) -> None:
    told: list[str] = []
    attention.notified.connect(lambda title, _text: told.append(title))
    workspace = _Workspace()
    watch_extraction(attention, workspace)  # type: ignore[arg-type]
    workspace.state_changed.emit()
    workspace.is_running = True
    workspace.state_changed.emit()
    clock.now = 20.0
    workspace.is_running, workspace.is_finished = False, True
    workspace.state_changed.emit()
    workspace.state_changed.emit()
    assert told == ["Extraction"]
