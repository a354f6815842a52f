"""The services of a running app, made once and handed to whoever needs them; no window among them.

What the chat needs is there at once. What looks into model files, asks the hub or fills tables is imported beside
the window, which takes a second, and made when it is first asked for.
"""

from __future__ import annotations

import gc
import importlib
import logging
import sys
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from app.chat.attachments import Attachments
from app.chat.controller import ChatController
from app.engine_client import EngineClient, EngineFactory
from app.garbage import GarbageTurns
from app.kept_chats import KeptChats
from app.library.starter import find_starter
from app.model_session import ModelSession
from app.paths import AppPaths
from app.run_marker import RunMarker
from app.schema.library import SchemaLibrary
from app.settings import Settings
from app.storage.store import ChatStore
from app.tasks import TaskRunner
from app.translation import tr
from engine.library import models_folder
from engine.library.places import damaged_pointer
from engine.plain_data import dataclass

if TYPE_CHECKING:
    from app.extraction.workspace import ExtractionWorkspace
    from app.library.library import ModelLibrary
    from app.library.models_work import ModelsWork

_log = logging.getLogger(__name__)

_LATE_MODULES = (
    "app.chat.answer",
    "app.library.models_work",
    "app.library.models_page",
    "app.extraction.page",
    "app.preferences.preferences_page",
    "app.chat.trash_page",
    "app.chat.schema_dialog",
    "app.chat.options_panel",
    "app.window.command_palette",
)
IMPORT_WAIT_S = 0.2
_POLITE_S = 0.0005
"""How long the GUI thread waits for the interpreter each time it wants it back while modules are imported."""


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


class AppContext(QObject):
    """What the app consists of, beside what it shows.

    Attributes:
        is_after_crash: the last run did not end by itself, so nothing is loaded by itself.
        is_complete: all is imported; what is made from now on holds nobody up.

    Signals:
        completed(): ``is_complete`` is true now.
    """

    completed = Signal()

    def __init__(self, paths: AppPaths, make_engine: EngineFactory) -> None:
        """Make and wire the services; what is wrong with the disk is reported by ``start``, not raised."""
        super().__init__()
        self.paths = paths
        self.marker = RunMarker(paths.run_marker)
        self.is_after_crash = self.marker.begin()
        self.settings = Settings(paths.settings_file)
        self.store = ChatStore(paths.database)
        self.client = EngineClient(make_engine)
        self.kept_chats = KeptChats(self.client, self.settings, self.client)
        self._models_folder = models_folder(paths.models)
        self.session = ModelSession(self.client, self.settings, paths.loading_marker, self._models_folder)
        self.session.set_entries([], find_starter(self._models_folder))
        self.schemas = SchemaLibrary(paths.schemas)
        self.controller = ChatController(
            self.store,
            self.client,
            self.session,
            self.settings,
            self._find_models,
            Attachments(self.store, paths.attachments),
            self.schemas,
        )
        self.controller.trash.purged.connect(self.kept_chats.forget)
        self.is_complete = False
        self._is_closed = False
        self._garbage: GarbageTurns | None = None
        self._importer = TaskRunner("imports", self)

    @cached_property
    def library(self) -> ModelLibrary:
        """The models on this machine."""
        from app.library.library import ModelLibrary
        from app.library.models_work import person_folders

        library = ModelLibrary(self._models_folder, partial(person_folders, self.settings), self)
        library.found.connect(self.session.set_entries)
        return library

    @cached_property
    def models(self) -> ModelsWork:
        """What the models page does."""
        from app.downloads.access import HubAccess
        from app.downloads.queue import DownloadQueue
        from app.library.hub_search import HubSearch
        from app.library.models_work import ModelsWork

        folder = self.library.folder
        access = HubAccess(self.settings, self.paths.config / "hub-token")
        queue, search = (
            DownloadQueue(folder, access),
            HubSearch(access, folder, lambda: self.settings.value("kv_type"), self.paths.measured_figures),
        )
        models = ModelsWork(
            self.paths,
            self.settings,
            self.library,
            self.session,
            queue,
            search,
            access,
            is_engine_busy=lambda: self.client.is_busy,
        )
        self.client.request_finished.connect(models.take_finished)
        return models

    @cached_property
    def extraction(self) -> ExtractionWorkspace:
        """What fills tables."""
        from app.extraction.workspace import ExtractionWorkspace

        return ExtractionWorkspace(self.client, self.session, self.paths.extractions)

    def start(self, model: Path | None = None) -> None:
        """``open`` and ``start_engine`` in one."""
        self.open(model)
        self.start_engine()

    def open(self, model: Path | None = None) -> None:
        """Once the window is connected: open the chat, ask for a model, say what was found on the disk."""
        notices = [self.settings.trouble, *self.store.opening_notices, self._prepare_models_folder()]
        texts = [text for text in notices if text]
        self.controller.start(texts, model, loads_by_itself=not self.is_after_crash)

    def prepare(self, work: Callable[[], object], then: Callable[[], object]) -> None:
        """Let ``work`` import beside the window what ``then`` needs, which is called in any case.

        What is missing is told once it is wanted.
        """

        def on_done(_result: object) -> None:
            then()

        def on_failed(error: Exception) -> None:
            _log.error("a part of the program is missing", exc_info=error)
            then()

        self._importer.run(partial(_politely, work), on_done, on_failed)

    def start_engine(self) -> None:
        """Begin to import the engine and the pages beside the window; ``completed`` follows."""
        self.client.start()
        self._importer.run(partial(_politely, _import_late), self._on_imported, self._on_import_failed)

    def when_complete(self, action: Callable[[], object]) -> None:
        """Do something as soon as it holds nobody up: now, or after ``completed``."""
        if self.is_complete:
            action()
        else:
            self.completed.connect(action)

    def recovery(self, model: Path | None = None) -> Offer | None:
        """What to offer after a run that did not end by itself; ``model`` is the one that the person named.

        Once a model is loaded nothing says that none was.
        """
        if not self.is_after_crash:
            return None
        has_model = model is not None or self.session.info is not None
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
        self._is_closed = True
        if self._garbage is not None:
            self._garbage.close()
        self.client.catch_up()  # what is written but not shown yet is saved as well
        self._importer.close(IMPORT_WAIT_S)
        self.controller.close()
        for name in ("extraction", "models", "library"):
            if name in self.__dict__:  # it was made
                getattr(self, name).close()
        self.session.close()
        self.client.close()
        self.marker.end()
        if not self.store.close():
            _log.error("the last changes could not be saved: the database was held, or the disk too slow")

    def _on_imported(self, _modules: object) -> None:
        if self._is_closed:
            return
        self.is_complete = True
        self._garbage = GarbageTurns(lambda: self.client.is_busy, self)
        self.models.queue.start()
        self.library.scan()
        self.completed.emit()

    def _on_import_failed(self, error: Exception) -> None:
        _log.error("a part of the program is missing", exc_info=error)
        self.controller.notice.emit(
            tr(
                "A part of Fireside cannot be loaded ({error}), so some pages stay shut: install it again.",
                error=error,
            )
        )

    def _find_models(self) -> None:
        if self.is_complete:
            self.library.scan()

    def _prepare_models_folder(self) -> str:
        """Make the models folder, so that a person finds it; returns what is wrong with it."""
        try:
            self._models_folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            return tr(
                "The models folder {folder} cannot be reached ({strerror}); a model can "
                "still be opened from anywhere.",
                folder=self._models_folder,
                strerror=error.strerror or error,
            )
        if (pointer := damaged_pointer(self.paths.models)) is not None:
            return tr(
                "The file {pointer} does not say where the models folder is, so it is {folder}: correct "
                "the file or delete it.",
                pointer=pointer,
                folder=self._models_folder,
            )
        return ""


def _politely(work: Callable[[], object]) -> None:
    """Do work of the interpreter's that lets the GUI thread have it back at once, each time."""
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(_POLITE_S)
    try:
        work()
    finally:
        sys.setswitchinterval(interval_s)


def _import_late() -> None:
    try:
        from engine import EngineThread  # noqa: F401 - before all others, for a model waits for it

        for name in _LATE_MODULES:
            importlib.import_module(name)
    finally:
        if not gc.isenabled():  # the start turned it off
            gc.freeze()  # a collection of all that was imported would hold the window up for a tenth of a second
            gc.enable()
