"""The models on this machine, looked for beside the GUI thread."""

from __future__ import annotations

import logging
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.library.discovery import find_models
from app.library.starter import find_starter
from app.model_session import ModelEntry
from app.tasks import TaskRunner

_log = logging.getLogger(__name__)

CLOSING_WAIT_S = 0.2


class ModelLibrary(QObject):
    """Looks through the models folder.

    Signals:
        found(entries, starter): a list of ModelEntry, and the starter model's path or None.
    """

    found = Signal(list, object)

    def __init__(self, folder: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._folder = folder
        self._described: dict[Path, tuple[object, ModelEntry]] = {}
        self._runner = TaskRunner("model library", self)
        self._is_scanning = False
        self._is_closed = False

    def scan(self) -> None:
        """Look; ``found`` follows. While a look is under way a second one is not begun."""
        if self._is_scanning or self._is_closed:
            return
        self._is_scanning = True
        self._runner.run(self._look, self._on_looked, self._on_failed)

    def close(self) -> None:
        """Begin no further look and drop the result of a running one."""
        self._is_closed = True
        self._runner.close(CLOSING_WAIT_S)

    def _look(self) -> tuple[list[ModelEntry], Path | None]:
        return find_models(self._folder, self._described), find_starter(self._folder)

    def _on_looked(self, result: tuple[list[ModelEntry], Path | None]) -> None:
        self._is_scanning = False
        self.found.emit(*result)

    def _on_failed(self, error: Exception) -> None:
        self._is_scanning = False
        _log.error("the models folder could not be looked through", exc_info=error)
