"""A models page over a loopback hub, with one model in its folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.downloads.access import HubAccess
from app.downloads.queue import DownloadQueue
from app.library.hub_search import HubSearch
from app.library.library import ModelLibrary
from app.library.models_page import ModelsPage
from app.library.models_work import ModelsWork, person_folders
from app.model_session import ModelSession
from app.paths import AppPaths
from app.settings import Settings
from app.theme import Theme
from engine.advisor.speeds import guessed_speeds
from engine.library import Origin, Place
from tests.app.fake_engine import FakeEngine
from tests.engine.hub.loopback import LoopbackHub, loopback_hub


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, smollm2_path: Path) -> Iterator[LoopbackHub]:
    monkeypatch.setattr("engine.hub.tokens._ask_keyring", lambda ask: None)
    guess = guessed_speeds(2)
    monkeypatch.setattr("engine.advisor.known_speeds", lambda: guess)
    monkeypatch.setattr("engine.advisor.needs_measuring", lambda: False)
    with loopback_hub() as running:
        running.add(
            "acme/Smol-GGUF",
            {"Smol-Q4_1.gguf": smollm2_path.read_bytes(), "README.md": b"---\nx: y\n---\n# Smol\nSmall."},
            gguf={"total": 134_515_008, "architecture": "llama", "context_length": 8192},
            downloads=1_234_567,
        )
        yield running


@pytest.fixture
def page(hub: LoopbackHub, qtbot: QtBot, tmp_path: Path, theme: Theme) -> Iterator[ModelsPage]:
    from app.engine_client import EngineClient

    paths = AppPaths.below(tmp_path)
    paths.models.mkdir(parents=True)
    settings = Settings()
    settings.set("hub_endpoint", hub.url)
    client = EngineClient(FakeEngine)
    session = ModelSession(client, settings, paths.loading_marker, paths.models)
    library = ModelLibrary(paths.models, lambda: person_folders(settings), find_places=_only_person)
    access = HubAccess(settings, paths.config / "hub-token")
    queue, search = DownloadQueue(paths.models, access), HubSearch(access, paths.models)
    work = ModelsWork(paths, settings, library, session, queue, search, access)
    page = ModelsPage(work, theme)
    qtbot.addWidget(page)
    page.resize(1000, 800)
    page.show()
    yield page
    work.close()
    library.close()
    client.close()


def _only_person(folders: list[Path]) -> list[Place]:
    return [Place(Origin.PERSON, folder) for folder in folders]
