"""What the models page lets happen beside the GUI thread: looking at the machine, and what changes files."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from PySide6.QtCore import QObject, Signal

from app.downloads.access import HubAccess
from app.downloads.queue import DownloadQueue
from app.library.hub_search import HubDetail, HubSearch, sentence_of, version_of
from app.library.library import ModelLibrary, size_text
from app.library.storage_card import DiskUse
from app.model_session import ModelSession
from app.paths import AppPaths
from app.settings import Settings
from app.tasks import TaskRunner
from app.translation import localised, tr
from engine.errors import EngineError
from engine.library import FileState, FoundModel
from engine.protocol import RequestStats

if TYPE_CHECKING:
    from engine.advisor import MeasuredFigures

_log = logging.getLogger(__name__)

CLOSING_WAIT_S = 0.2


@dataclass(frozen=True)
class MachineFacts:
    """Of this machine: bytes, and bytes a second; ``bandwidth`` 0 is not measured."""

    memory: int
    disk_free: int
    bandwidth: float


class ModelsWork(QObject):
    """The services that the models page uses.

    Signals:
        machine_known(MachineFacts), disk_known(DiskUse): after ``look``.
        speeds_changed(): ``speed_text`` says something else.
        model_changed(): another model is loaded, or none.
        notice(text): what came of something.
    """

    machine_known = Signal(object)
    disk_known = Signal(object)
    speeds_changed = Signal()
    model_changed = Signal()
    notice = Signal(str)

    def __init__(
        self,
        paths: AppPaths,
        settings: Settings,
        library: ModelLibrary,
        session: ModelSession,
        queue: DownloadQueue,
        search: HubSearch,
        access: HubAccess,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.library = library
        self.queue = queue
        self.search = search
        self._paths = paths
        self._settings = settings
        self._session = session
        self._access = access
        self._runner = TaskRunner("models", self)
        self._is_closed = False
        self._estimates: dict[Path, float] = {}
        self._measured: dict[Path, float] = {}
        self._wanted: set[str] = set()  # repositories whose best version is to be downloaded
        library.models_changed.connect(self._estimate)
        session.loaded.connect(lambda _info: self.model_changed.emit())
        session.ejected.connect(self.model_changed)
        search.described.connect(self._on_described)
        search.describe_failed.connect(lambda repository, _text: self._wanted.discard(repository))

    @property
    def loaded_path(self) -> str:
        """Of the model in memory; "" while there is none."""
        return str(self._session.info.path) if self._session.info is not None else ""

    def speed_text(self, model: FoundModel) -> str:
        """A model's speed here: as measured, else as estimated, else nothing."""
        if rate := self._measured.get(model.path, 0.0):
            return tr("{rate} tok/s measured", rate=_rate(rate))
        if rate := self._estimates.get(model.path, 0.0):
            return tr("about {rate} tok/s", rate=_rate(rate))
        return ""

    def look(self) -> None:
        """Look at the machine and the disk."""
        self._run(self._look_at_machine, self.machine_known.emit)
        self._run(self._look_at_disk, self.disk_known.emit)
        self._estimate()

    def take_stats(self, stats: RequestStats) -> None:
        """An answer is complete: its speed replaces the estimate."""
        info = self._session.info
        if info is None:
            return
        answer = (stats.num_completion_tokens, stats.generation_ms / 1000)
        prompt = (stats.num_prompt_tokens - stats.num_reused_tokens, stats.prompt_ms / 1000)
        self._run(partial(self._keep, info.path, answer, prompt), self._on_measured)

    def get(self, repository: str) -> None:
        """Download the best version of a repository for this machine."""
        self._wanted.add(repository)
        self.search.describe(repository)

    def verify(self, model: FoundModel) -> None:
        """Read all files of a model and say what was found."""
        from engine.library.files import verify

        self.notice.emit(tr("Reading all of {name}…", name=model.name))
        self._run(lambda: verify(model, self.library.folder), self.notice.emit)

    def delete(self, model: FoundModel) -> None:
        """Delete a model's files."""
        from engine.library.files import delete

        def on_deleted(freed: int) -> None:
            self.notice.emit(
                tr("{name} was deleted; {size} are free again.", name=model.name, size=size_text(freed))
            )
            self._changed()

        self._run(lambda: delete(model, self.library.folder), on_deleted)

    def import_files(self, paths: list[Path], mode: str) -> None:
        """Bring files into the models folder: mode "copy", "move" or "link"."""
        from engine.library.files import ImportMode, import_model

        def on_imported(path: Path) -> None:
            self.notice.emit(tr("{name} is in the models folder now.", name=path.name))
            self._changed()

        for path in paths:
            self._run(partial(import_model, path, self.library.folder, ImportMode(mode)), on_imported)

    def add_folder(self, folder: Path) -> None:
        """Look through another folder, too."""
        folders = [*person_folders(self._settings), folder]
        self._settings.set("library_folders", json.dumps(list(dict.fromkeys(map(str, folders)))))
        self.library.scan()

    def move_folder(self, target: Path) -> None:
        """Move the models folder, which takes effect for all that comes."""
        from engine.library.files import move_folder

        self.notice.emit(tr("Moving the models to {folder}…", folder=target))

        def on_moved(_result: object) -> None:
            self.library.folder = target
            self.queue.set_folder(target)
            self.notice.emit(tr("The models lie in {folder} now.", folder=target))
            self._changed()

        self._run(lambda: move_folder(self.library.folder, target, self._paths.models), on_moved)

    def set_token(self, token: str) -> None:
        """Keep the access token for the hub."""

        def on_kept(is_in_keyring: bool) -> None:
            if not token.strip():
                self.notice.emit(tr("The access token was forgotten."))
            elif is_in_keyring:
                self.notice.emit(tr("The access token is in the system's keyring."))
            else:
                self.notice.emit(tr("There is no keyring here: the token is in a file that only you can read."))

        self._run(lambda: self._access.set_token(token), on_kept)

    def close(self) -> None:
        """Begin nothing more."""
        self._is_closed = True
        self.search.close()
        self.queue.close()
        self._runner.close(CLOSING_WAIT_S)

    # ------------------------------------------------------------------------------------ in the runner

    def _run(self, work: Callable[[], object], on_done: Callable[[Any], None]) -> None:
        def on_error(error: Exception) -> None:
            text = str(error) if isinstance(error, ValueError | OSError) else sentence_of(error)
            self.notice.emit(text)

        if not self._is_closed:
            self._runner.run(work, on_done, on_error)

    def _look_at_machine(self) -> MachineFacts:
        from engine.advisor import known_speeds, measure_speeds, needs_measuring

        is_free = self._session.info is None and self._session.loading_path is None
        if is_free and needs_measuring():
            measure_speeds()
        speeds = known_speeds()
        free = shutil.disk_usage(_existing(self.library.folder)).free
        return MachineFacts(int(psutil.virtual_memory().total), free, speeds.bandwidth if speeds else 0.0)

    def _look_at_disk(self) -> DiskUse:
        from engine.library.files import total_size

        folder = self.library.folder
        downloads = total_size([folder / ".downloads"])
        return DiskUse(
            str(folder),
            total_size([folder]) - downloads,
            downloads,
            total_size([self._paths.snapshots]),
            shutil.disk_usage(_existing(folder)).free,
        )

    def _estimate(self) -> None:
        models = [model for model in self.library.models if model.state is FileState.READY]
        self._run(lambda: self._speeds_of(models), self._on_estimated)

    def _speeds_of(self, models: list[FoundModel]) -> tuple[dict[Path, float], dict[Path, float]]:
        """Estimated and measured tokens a second."""
        from engine.advisor import advise, look_at_machine, shape_of
        from engine.gguf import open_model

        machine = look_at_machine(self.library.folder)
        figures = self._figures()
        estimates: dict[Path, float] = {}
        measured = {model.path: figures.of(model.path).tokens_per_second for model in models}
        for model in models:
            if measured[model.path]:
                continue
            try:
                with open_model(model.path) as file:
                    estimates[model.path] = advise(shape_of(file), machine).tokens_per_second
            except EngineError as error:
                _log.info("no estimate for %s: %s", model.path, error)
        return estimates, measured

    def _on_estimated(self, speeds: tuple[dict[Path, float], dict[Path, float]]) -> None:
        if speeds != (self._estimates, self._measured):
            self._estimates, self._measured = speeds
            self.speeds_changed.emit()

    def _figures(self) -> MeasuredFigures:
        from engine.advisor import MeasuredFigures

        return MeasuredFigures(self._paths.data / "measured-speeds.json")

    def _keep(self, path: Path, answer: tuple[int, float], prompt: tuple[int, float]) -> tuple[Path, float]:
        figures = self._figures()
        figures.add(path, answer=answer, prompt=prompt)
        return path, figures.of(path).tokens_per_second

    def _on_measured(self, kept: tuple[Path, float]) -> None:
        path, rate = kept
        self._measured[path] = rate
        self.speeds_changed.emit()

    def _on_described(self, repository: str, detail: HubDetail) -> None:
        if repository not in self._wanted:
            return
        self._wanted.discard(repository)
        if detail.recommended is None:
            self.notice.emit(detail.problem or tr("No version of it fits into this machine's memory."))
            return
        found = detail.repository
        version = version_of(detail, detail.recommended)
        self.queue.add(detail.endpoint, found.model.repository, found.revision, version)

    def _changed(self) -> None:
        self.library.scan()
        self._run(self._look_at_disk, self.disk_known.emit)


def person_folders(settings: Settings) -> list[Path]:
    """The folders that the person added."""
    try:
        names = json.loads(str(settings.value("library_folders")) or "[]")
    except ValueError:
        return []
    return [Path(name) for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _existing(folder: Path) -> Path:
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder


def _rate(rate: float) -> str:
    return localised(f"{rate:,.{0 if rate >= 10 else 1}f}")
