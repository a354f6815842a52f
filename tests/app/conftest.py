from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.chat.controller import ChatController
from app.context import AppContext
from app.paths import AppPaths
from tests.app.fake_engine import FakeEngine


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
        self.qtbot.waitUntil(lambda: bool(self.engine.requests), timeout=3000)
        return self.engine.requests[index].request_id

    def wait_idle(self) -> None:
        self.qtbot.waitUntil(lambda: not self.controller.generating_ids, timeout=3000)

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

        context = AppContext.create(self.paths, make_engine)
        bench = Bench(context, engines[0], [], self.qtbot)
        context.controller.notice.connect(bench.notices.append)
        context.start(None if model is None else Path(model))
        self.open.append(bench)
        if model is not None:
            self.qtbot.waitUntil(lambda: context.controller.model_info is not None, timeout=3000)
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
