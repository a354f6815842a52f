"""The services of a running app, made once and handed to whoever needs them; no window among them."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from app.chat.attachments import Attachments
from app.chat.controller import ChatController
from app.engine_client import EngineClient, EngineFactory
from app.library.library import ModelLibrary
from app.library.starter import find_starter
from app.model_session import ModelSession
from app.paths import AppPaths
from app.settings import Settings
from app.storage.store import ChatStore

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AppContext:
    """What the app consists of, beside what it shows."""

    paths: AppPaths
    settings: Settings
    store: ChatStore
    client: EngineClient
    session: ModelSession
    library: ModelLibrary
    controller: ChatController

    @classmethod
    def create(cls, paths: AppPaths, make_engine: EngineFactory) -> AppContext:
        """Make and wire the services; what is wrong with the disk is reported by ``start``, not raised."""
        settings = Settings(paths.settings_file)
        store = ChatStore(paths.database)
        client = EngineClient(make_engine)
        session = ModelSession(client, settings, paths.loading_marker, paths.models)
        session.set_entries([], find_starter(paths.models))
        library = ModelLibrary(paths.models)
        library.found.connect(session.set_entries)
        controller = ChatController(
            store, client, session, settings, library.scan, Attachments(store, paths.attachments)
        )
        return cls(paths, settings, store, client, session, library, controller)

    def start(self, model: Path | None = None) -> None:
        """Once the window is connected: open the chat, load a model, say what was found on the disk."""
        notices = [self.settings.trouble, *self.store.opening_notices, self._prepare_models_folder()]
        self.controller.start([text for text in notices if text], model)

    def close(self) -> None:
        """Save, stop and free everything, in less than a second unless another program holds the database."""
        self.controller.close()
        self.session.close()
        self.library.close()
        self.client.close()
        if not self.store.close():
            _log.error("the last changes could not be saved: another program held the database")

    def _prepare_models_folder(self) -> str:
        """Make the models folder, so that a person finds it; returns what is wrong with it."""
        try:
            self.paths.models.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            return (
                f"The models folder {self.paths.models} cannot be reached ({error.strerror or error}); a model can "
                "still be opened from anywhere."
            )
        return ""
