"""The models on this machine, looked for beside the GUI thread."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.engine_words import told
from app.library.starter import find_starter
from app.model_session import ModelEntry
from app.sizes import size_text
from app.tasks import TaskRunner
from engine.library import FileState, FoundModel, Origin, Place, Scanner, other_places

_log = logging.getLogger(__name__)

CLOSING_WAIT_S = 0.2


@dataclass(frozen=True)
class _Look:
    """What one look found."""

    models: list[FoundModel]
    starter: Path | None
    person_folders: dict[Path, bool]


class ModelLibrary(QObject):
    """Looks through the models folder, the person's other folders, and those of other programs.

    Attributes:
        folder: the models folder.
        models: what the last look found.
        person_folders: the person's own folders, each with whether it is there.

    Signals:
        found(entries, starter): a list of ModelEntry, and the starter model's path or None.
        models_changed(): ``models`` holds something else now.
    """

    found = Signal(list, object)
    models_changed = Signal()

    def __init__(
        self,
        folder: Path,
        person_folders: Callable[[], list[Path]] = list,
        parent: QObject | None = None,
        find_places: Callable[[list[Path]], list[Place]] = other_places,
    ) -> None:
        super().__init__(parent)
        self.folder = folder
        self.models: list[FoundModel] = []
        self.person_folders: dict[Path, bool] = {}
        self._list_person_folders = person_folders
        self._find_places = find_places
        self._scanner = Scanner()
        self._runner = TaskRunner("model library", self)
        self._is_scanning = False
        self._is_stale = False  # something may have changed since the look began
        self._is_closed = False

    def scan(self) -> None:
        """Look; ``found`` follows. While a look is under way the next one waits for its end."""
        if self._is_scanning or self._is_closed:
            self._is_stale = True
            return
        self._is_stale = False
        self._is_scanning = True
        self._runner.run(self._look, self._on_looked, self._on_failed)

    def close(self) -> None:
        """Begin no further look and drop the result of a running one."""
        self._is_closed = True
        self._runner.close(CLOSING_WAIT_S)

    def _look(self) -> _Look:
        folders = self._list_person_folders()
        places = [Place(Origin.OWN, self.folder), *self._find_places(folders)]
        are_there = {folder: os.path.isdir(folder) for folder in folders}
        return _Look(self._scanner.scan(places), find_starter(self.folder), are_there)

    def _on_looked(self, look: _Look) -> None:
        self._is_scanning = False
        models, starter = look.models, look.starter
        is_new = (models, look.person_folders) != (self.models, self.person_folders)
        self.models, self.person_folders = models, look.person_folders
        self.found.emit([entry_of(model) for model in models if model.state is not FileState.COMPANION], starter)
        if is_new:
            self.models_changed.emit()
        if self._is_stale:
            self.scan()

    def _on_failed(self, error: Exception) -> None:
        self._is_scanning = False
        _log.error("the models could not be looked for", exc_info=error)


def entry_of(model: FoundModel) -> ModelEntry:
    """What the picker shows of a model."""
    facts = [model.quantization, size_text(model.size)]
    if model.origin is not Origin.OWN:
        facts.append(model.origin.value)
    return ModelEntry(model.path, model.name, " · ".join(fact for fact in facts if fact), told(model.problem))
