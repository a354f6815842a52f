"""The services of a running app, made once and handed to whoever needs them; no window among them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from app.chat.attachments import Attachments
from app.chat.controller import ChatController
from app.downloads.access import HubAccess
from app.downloads.queue import DownloadQueue
from app.engine_client import EngineClient, EngineFactory
from app.extraction.workspace import ExtractionWorkspace
from app.kept_chats import KeptChats
from app.library.hub_search import HubSearch
from app.library.library import ModelLibrary
from app.library.models_work import ModelsWork, person_folders
from app.library.starter import find_starter
from app.model_session import ModelSession
from app.paths import AppPaths
from app.run_marker import RunMarker
from app.schema.library import SchemaLibrary
from app.settings import Settings
from app.storage.store import ChatStore
from app.translation import tr
from engine.library import models_folder
from engine.protocol import RequestFinished

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Offer:
    """Something to do about what was found at the start.

    Attributes:
        text: one or two sentences.
        action_name: what the button says; "" for none.
        action: what it does.
    """

    text: str
    action_name: str
    action: Callable[[], object] | None


@dataclass(frozen=True)
class AppContext:
    """What the app consists of, beside what it shows.

    Attributes:
        is_after_crash: the last run did not end by itself, so nothing is loaded by itself.
    """

    paths: AppPaths
    settings: Settings
    store: ChatStore
    client: EngineClient
    session: ModelSession
    library: ModelLibrary
    models: ModelsWork
    controller: ChatController
    extraction: ExtractionWorkspace
    schemas: SchemaLibrary
    marker: RunMarker
    is_after_crash: bool

    @classmethod
    def create(cls, paths: AppPaths, make_engine: EngineFactory) -> AppContext:
        """Make and wire the services; what is wrong with the disk is reported by ``start``, not raised."""
        marker = RunMarker(paths.run_marker)
        is_after_crash = marker.begin()
        settings = Settings(paths.settings_file)
        store = ChatStore(paths.database)
        client = EngineClient(make_engine)
        kept_chats = KeptChats(client, settings, client)
        folder = models_folder(paths.models)
        session = ModelSession(client, settings, paths.loading_marker, folder)
        session.set_entries([], find_starter(folder))
        library = ModelLibrary(folder, partial(person_folders, settings))
        library.found.connect(session.set_entries)
        schemas = SchemaLibrary(paths.schemas)
        access = HubAccess(settings, paths.config / "hub-token")
        queue, search = DownloadQueue(folder, access), HubSearch(access, folder)
        models = ModelsWork(paths, settings, library, session, queue, search, access)
        client.request_finished.connect(partial(_take_stats, models))
        controller = ChatController(
            store, client, session, settings, library.scan, Attachments(store, paths.attachments), schemas
        )
        controller.trash.purged.connect(kept_chats.forget)
        extraction = ExtractionWorkspace(client, session, paths.extractions)
        return cls(
            paths,
            settings,
            store,
            client,
            session,
            library,
            models,
            controller,
            extraction,
            schemas,
            marker,
            is_after_crash,
        )

    def start(self, model: Path | None = None) -> None:
        """Once the window is connected: open the chat, load a model, say what was found on the disk."""
        notices = [self.settings.trouble, *self.store.opening_notices, self._prepare_models_folder()]
        texts = [text for text in notices if text]
        self.controller.start(texts, model, loads_by_itself=not self.is_after_crash)
        self.models.queue.start()

    def recovery(self) -> Offer | None:
        """What to offer after a run that did not end by itself; None after one that did."""
        if not self.is_after_crash:
            return None
        has_model = self.session.info is not None or self.session.loading_path is not None
        text = (
            tr("Fireside did not end by itself last time.")
            if has_model
            else tr("Fireside did not end by itself last time, so no model was loaded.")
        )
        records = {record.id: record for record in self.controller.conversations}
        for message in self.store.unfinished:
            if (record := records.get(message.conversation_id)) is not None:
                return Offer(
                    tr(
                        "{text} The answer it was writing in “{title}” is kept as far as it came.",
                        text=text,
                        title=record.title[:60],
                    ),
                    tr("Show the answer"),
                    partial(self.controller.open_conversation, record.id),
                )
        if has_model or (candidate := self.session.candidate()) is None:
            return Offer(text, "", None)
        return Offer(
            text,
            tr("Load {name}", name=self.session.name_of(candidate)),
            partial(self.session.load, candidate),
        )

    def close(self) -> None:
        """Save, stop and free everything, in less than a second unless another program holds the database."""
        self.controller.close()
        self.extraction.close()
        self.session.close()
        self.models.close()
        self.library.close()
        self.client.close()
        self.marker.end()
        if not self.store.close():
            _log.error("the last changes could not be saved: another program held the database")

    def _prepare_models_folder(self) -> str:
        """Make the models folder, so that a person finds it; returns what is wrong with it."""
        try:
            self.library.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            return tr(
                "The models folder {folder} cannot be reached ({strerror}); a model can "
                "still be opened from anywhere.",
                folder=self.library.folder,
                strerror=error.strerror or error,
            )
        return ""


def _take_stats(models: ModelsWork, event: RequestFinished) -> None:
    models.take_stats(event.stats)
