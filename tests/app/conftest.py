from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.chat.controller import ChatController
from app.context import AppContext
from app.paths import AppPaths
from app.settings import Settings
from app.theme import Theme
from app.window.main_window import MainWindow
from tests.app.fake_controller import FakeController
from tests.app.fake_engine import FakeEngine


@pytest.fixture(autouse=True)
def _no_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow machine, too: all messages in sight are made at once, what the engine says is soon shown, and
    closing waits for every write."""
    monkeypatch.setattr("app.engine_client.MAX_FRAME_MS", 16)
    monkeypatch.setattr("app.engine_client.FRAME_MS", 16)
    monkeypatch.setattr("app.chat.alive_messages.TURN_S", 3600.0)
    monkeypatch.setattr("app.chat.answer.TURN_S", 3600.0)
    monkeypatch.setattr("app.chat.alive_messages.GROW_AFTER_MS", 40)
    monkeypatch.setattr("app.storage.store.CLOSING_WAIT_S", 60.0)


@pytest.fixture(scope="session", autouse=True)
def _clipboard_let_go(qapp: QApplication) -> Iterator[None]:
    """Offscreen the clipboard outlives Python, and so ends the process with a crash if it has data made here."""
    yield
    qapp.clipboard().clear()


@dataclass
class Bench:
    """An app without a window: its services, a fake engine, and what the controller said."""

    context: AppContext
    engine: FakeEngine
    notices: list[str]
    qtbot: QtBot

    @property
    def controller(self) -> ChatController:
        return self.context.controller

    def request(self, index: int = -1) -> str:
        """Id of a request that reached the engine."""
        self.qtbot.waitUntil(lambda: bool(self.engine.requests))
        return self.engine.requests[index].request_id

    def wait_idle(self) -> None:
        self.qtbot.waitUntil(lambda: not self.controller.generating_ids)

    def settle(self) -> None:
        """Wait until the store has written and found all that it was asked to."""
        done: list[str] = []
        self.context.store.write(
            lambda _connection: None, lambda: done.append("written"), lambda _sentence: done.append("refused")
        )
        self.context.store.find([], lambda _found: done.append("found"))
        self.qtbot.waitUntil(lambda: len(done) == 2)

    def ask(self, text: str, *pieces: str) -> None:
        """One whole turn."""
        assert self.controller.send(text)
        request_id = self.request()
        for piece in pieces:
            self.engine.say(request_id, piece)
        self.engine.finish(request_id)
        self.wait_idle()


@dataclass
class BenchMaker:
    paths: AppPaths
    qtbot: QtBot
    open: list[Bench]

    def __call__(self, model: str | None = "model.gguf") -> Bench:
        """Start the app; with ``model`` loaded, or without one."""
        engines: list[FakeEngine] = []

        def make_engine(on_event: object) -> FakeEngine:
            engines.append(FakeEngine(on_event))  # type: ignore[arg-type]
            return engines[0]

        context = AppContext(self.paths, make_engine)
        bench = Bench(context, engines[0], [], self.qtbot)
        context.controller.notice.connect(bench.notices.append)
        context.controller.waiting.connect(bench.notices.append)
        context.start(None if model is None else Path(model))
        self.open.append(bench)
        if model is not None:
            self.qtbot.waitUntil(lambda: context.controller.model_info is not None)
        return bench

    def close(self, bench: Bench) -> None:
        bench.context.close()
        self.open.remove(bench)


@pytest.fixture
def paths(tmp_path: Path) -> AppPaths:
    return AppPaths.below(tmp_path / "дом 家")


@pytest.fixture
def make_bench(qtbot: QtBot, paths: AppPaths) -> Iterator[BenchMaker]:
    maker = BenchMaker(paths, qtbot, [])
    yield maker
    for bench in list(maker.open):
        maker.close(bench)


@pytest.fixture
def bench(make_bench: BenchMaker) -> Bench:
    return make_bench()


@pytest.fixture
def settings(qapp: QApplication) -> Settings:
    """Settings that live in memory, light whatever the system says."""
    values = Settings()
    values.set("theme", "light")
    return values


@pytest.fixture
def theme(qapp: QApplication, settings: Settings) -> Iterator[Theme]:
    qapp.sendPostedEvents(None, QEvent.Type.DeferredDelete)  # widgets of earlier tests: else each is dressed again
    for left in qapp.findChildren(Theme):  # by a test that brought its own window
        left.setParent(None)
    dressed = Theme(qapp, settings)
    yield dressed
    settings.set("theme", "system")
    dressed.setParent(None)
    dressed.deleteLater()  # the style sheet stays: taking it away leaves Qt with pointers to widgets that are gone


@pytest.fixture
def fake(qapp: QApplication) -> FakeController:
    return FakeController()


@pytest.fixture
def window(qtbot: QtBot, fake: FakeController, settings: Settings, theme: Theme) -> MainWindow:
    """The whole window over the fake controller, filled with the chats of the sketches."""
    fake.fill()
    made = MainWindow(fake, settings, theme)  # type: ignore[arg-type]
    qtbot.addWidget(made)
    made.resize(1280, 820)
    made.show()
    qtbot.waitExposed(made)
    return made
