"""What the models page lets happen beside the GUI thread: looking at the machine, and what changes files."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, QTimer, Signal

from app.downloads.access import HubAccess
from app.downloads.queue import DownloadQueue
from app.engine_words import told
from app.library.hub_search import HubDetail, HubSearch, sentence_of, version_of
from app.library.library import ModelLibrary
from app.library.machine import MachineFacts, disk_use, machine_facts
from app.library.model_figures import ModelFigures
from app.library.storage_card import DiskUse
from app.model_session import ModelSession
from app.paths import AppPaths
from app.settings import Settings
from app.sizes import size_text
from app.tasks import TaskRunner
from app.translation import tr
from engine.errors import ModelFileError
from engine.library import FoundModel, Repair, repair_of
from engine.protocol import RequestFinished

if TYPE_CHECKING:
    from engine.hub.client import HubRepository
    from engine.hub.names import Version

CLOSING_WAIT_S = 0.2
LOOK_AT_DISK_MS = 3000  # while downloads run
LOOK_AGAIN_MS = 5 * 60_000, 60 * 60_000  # whether to measure the kernels; ever less often where it was done


class _ClosedError(Exception):
    """The program ends: what was begun is undone."""


class ModelsWork(QObject):
    """The services that the models page uses.

    Attributes:
        figures: how fast each model is here, and what memory it takes.

    Signals:
        machine_known(MachineFacts), disk_known(DiskUse): after ``look``.
        model_changed(): another model is loaded, or none.
        notice(text): what came of something.
        damage_found(FoundModel, text): verifying it found damage.
        search_wanted(words): the hub is to be searched.
        another_wanted(num_parameters): the hub is to be searched for models of that size; 0 is not known.
    """

    machine_known = Signal(object)
    disk_known = Signal(object)
    model_changed = Signal()
    notice = Signal(str)
    damage_found = Signal(object, str)
    search_wanted = Signal(str)
    another_wanted = Signal(object)

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
        *,
        is_engine_busy: Callable[[], bool] = lambda: False,
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
        self._is_engine_busy = is_engine_busy
        self._has_looked = False
        self._looks = QTimer(self)
        self._looks.setInterval(LOOK_AGAIN_MS[0])
        self._looks.timeout.connect(self._measure)
        self._looks.start()
        self._disk_looks = QTimer(self)
        self._disk_looks.setInterval(LOOK_AT_DISK_MS)
        self._disk_looks.timeout.connect(self._look_at_disk_use)
        self.figures = ModelFigures(
            self._run, paths.measured_figures, lambda: self._settings.value("kv_type"), parent=self
        )
        self._download_ids: set[str] = set()
        self._wanted: set[str] = set()  # repositories whose best version is to be downloaded
        library.models_changed.connect(self._estimate)
        library.models_changed.connect(self._look_at_disk_use)
        queue.changed.connect(self._on_queue)
        queue.cancelled.connect(lambda _row: self._look_at_disk_use())
        session.loaded.connect(lambda _info: self.model_changed.emit())
        self._ejected_for: FoundModel | None = None  # what is deleted once it is out of memory
        session.ejected.connect(self._on_ejected)
        search.described.connect(self._on_described)
        search.describe_failed.connect(lambda repository, _text: self._wanted.discard(repository))

    @property
    def loaded_path(self) -> str:
        """Of the model in memory; "" while there is none."""
        return str(self._session.info.path) if self._session.info is not None else ""

    def look(self) -> None:
        """Look at the machine and the disk."""
        self._look_at_disk_use()
        self._estimate()
        if not self._has_looked:
            self._has_looked = True
            self._measure()

    def take_finished(self, event: RequestFinished) -> None:
        """An answer is complete: its speed replaces the estimate.

        One that had a form says little: some tokens were no choice, and tables are filled several rows at once.
        """
        if self._session.info is not None and event.structured is None:
            self.figures.take_stats(self._session.info, event.stats)

    def get(self, repository: str) -> None:
        """Download the best version of a repository for this machine."""
        self._wanted.add(repository)
        self.search.describe(repository)

    def verify(self, model: FoundModel) -> None:
        """Read all files of a model and say what was found."""
        from engine.library.files import LibraryError, verify

        def on_verified(text: str) -> None:
            self.library.scan()
            self.notice.emit(text)

        def on_error(error: Exception) -> None:
            if isinstance(error, LibraryError | ModelFileError):
                self.library.scan()
                self.damage_found.emit(model, told(error))
            else:
                self._on_error(error)

        report = self._progress(tr("Reading all of {name}…", name=model.name))
        self._run(lambda: verify(model, self.library.folder, report), on_verified, on_error)

    def repair(self, model: FoundModel) -> None:
        """Do what helps a model that cannot be used; nothing where nothing does."""
        repair = repair_of(model)
        if repair is None or repair is Repair.SHOW:
            return
        if repair is Repair.REMOVE:
            self.delete(model)
        elif repair.is_download:
            self.fetch_again(model)
        elif repair is Repair.FIND_ANOTHER:
            self.another_wanted.emit(model.num_parameters)
        else:
            self.search_wanted.emit(model.name)

    def fetch_again(self, model: FoundModel) -> None:
        """Fetch a model's files from the repository that it is from; what is right of them stays."""
        self.notice.emit(tr("Looking for {name}…", name=model.name))

        def on_found(found: tuple[str, HubRepository, Version | None]) -> None:
            endpoint, repository, version = found
            if version is None:
                self.notice.emit(
                    tr("{repository} has this file no more: choose another version.", repository=model.repository)
                )
                self.search_wanted.emit(model.name)
            else:
                self.queue.add(endpoint, repository.model.repository, repository.revision, version, is_repair=True)
                self.notice.emit("")

        self._run(partial(self._version_of, model), on_found)

    def _version_of(self, model: FoundModel) -> tuple[str, HubRepository, Version | None]:
        from engine.library.repairs import version_with

        with self._access.client() as client:
            repository = client.repository(model.repository)
            return client.endpoint, repository, version_with(model, repository.groups.versions)

    def delete(self, model: FoundModel) -> None:
        """Delete a model's files."""
        from engine.library.files import delete

        def on_deleted(freed: int) -> None:
            if freed or not model.size:
                text = tr("{name} was deleted; {size} are free again.", name=model.name, size=size_text(freed))
            else:  # a link, or one of several names of the same file
                text = tr(
                    "{name} was removed; nothing is freed: its file has another name or place.", name=model.name
                )
            self.notice.emit(text)
            self._changed()

        self._run(lambda: delete(model, self.library.folder), on_deleted)

    def eject_and_delete(self, model: FoundModel) -> None:
        """Take the loaded model out of memory, and then delete its files."""
        self._ejected_for = model
        self._session.eject()

    def _on_ejected(self) -> None:
        self.model_changed.emit()
        model, self._ejected_for = self._ejected_for, None
        if model is not None:
            self.delete(model)

    def import_files(self, paths: list[Path], mode: str) -> None:
        """Bring files into the models folder: mode "copy", "move" or "link"."""
        from engine.library.files import ImportMode, import_model

        def on_imported(path: Path) -> None:
            self.notice.emit(tr("{name} is in the models folder now.", name=path.name))
            self._changed()

        for path in paths:
            report = self._progress(tr("Bringing {name} into the models folder…", name=path.name))
            self._run(partial(import_model, path, self.library.folder, ImportMode(mode), report), on_imported)

    def add_folder(self, folder: Path) -> None:
        """Look through another folder, too."""
        folders = [*person_folders(self._settings), folder]
        self._keep_folders(folders)

    def remove_folder(self, folder: Path) -> None:
        """Look through a folder no more; what lies in it stays."""
        self._keep_folders([each for each in person_folders(self._settings) if each != folder])

    def _keep_folders(self, folders: list[Path]) -> None:
        self._settings.set("library_folders", json.dumps(list(dict.fromkeys(map(str, folders)))))
        self.library.scan()

    def move_folder(self, target: Path) -> None:
        """Move the models folder, which takes effect for all that comes."""
        from engine.library.folder_move import move_folder

        def on_moved(_result: object) -> None:
            self.library.folder = target
            self.queue.set_folder(target)
            self.notice.emit(tr("The models lie in {folder} now.", folder=target))
            self._changed()

        report = self._progress(tr("Moving the models to {folder}…", folder=target))
        self._run(lambda: move_folder(self.library.folder, target, self._paths.models, report), on_moved)

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
        self._looks.stop()
        self._disk_looks.stop()
        self.search.close()
        self.queue.close()
        self._runner.close(CLOSING_WAIT_S)

    # ------------------------------------------------------------------------------------ in the runner

    def _progress(self, text: str) -> Callable[[int, int], None]:
        """Say what begins, and then how far it is; closing the program breaks it off."""
        self.notice.emit(text)
        told = 0

        def report(done: int, total: int) -> None:
            nonlocal told
            if self._is_closed:
                raise _ClosedError
            percent = 10 * (10 * done // max(total, 1))  # in steps: each is read out to who cannot see it
            if told < percent < 100:
                told = percent
                self._runner.post(self.notice.emit, f"{text} {percent} %")

        return report

    def _run(
        self,
        work: Callable[[], object],
        on_done: Callable[[Any], None],
        on_error: Callable[[Exception], None] | None = None,
    ) -> None:
        if not self._is_closed:
            self._runner.run(work, on_done, on_error or self._on_error)

    def _on_error(self, error: Exception) -> None:
        self.notice.emit(str(error) if isinstance(error, ValueError | OSError) else sentence_of(error))

    def _measure(self) -> None:
        """Measure the kernels where that is due and nobody waits for the processor; who then wants it, gets it."""

        def measure() -> bool:
            from engine.advisor import measure_speeds, needs_measuring

            if not (self._is_processor_free() and needs_measuring()):
                return False
            measure_speeds(may_go_on=self._is_processor_free)
            return True

        def on_measured(has_measured: bool) -> None:
            if has_measured:
                self._looks.setInterval(min(2 * self._looks.interval(), LOOK_AGAIN_MS[1]))
                self._run(self._look_at_machine, self.machine_known.emit)
                self._estimate()

        self._run(measure, on_measured)

    def _is_processor_free(self) -> bool:
        """From any thread."""
        return not (self._is_closed or self._is_engine_busy() or self._session.loading_path is not None)

    def _look_at_machine(self) -> MachineFacts:
        return machine_facts(self.library.folder)

    def _look_at_disk(self) -> DiskUse:
        return disk_use(self.library.folder, self._paths.snapshots)

    def _estimate(self) -> None:
        self.figures.estimate(self.library.models, self.library.folder)

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
        self.notice.emit("")  # it is looked for no more: it comes

    def _changed(self) -> None:
        self.library.scan()
        self._look_at_disk_use()

    def _look_at_disk_use(self) -> None:
        self._run(self._look_at_disk, self.disk_known.emit)
        self._run(self._look_at_machine, self.machine_known.emit)

    def _on_queue(self) -> None:
        """Another set of downloads: one began, ended, or was deleted."""
        ids = {row.id for row in self.queue.rows}
        if ids != self._download_ids:
            self._download_ids = ids
            self._look_at_disk_use()
        is_loading = any(row.state.value == "running" for row in self.queue.rows)
        if is_loading != self._disk_looks.isActive():
            self._disk_looks.start() if is_loading else self._disk_looks.stop()


def person_folders(settings: Settings) -> list[Path]:
    """The folders that the person added."""
    try:
        names = json.loads(str(settings.value("library_folders")) or "[]")
    except ValueError:
        return []
    return [Path(name) for name in names if isinstance(name, str)] if isinstance(names, list) else []
