"""The downloads of the models folder, for the GUI thread: nothing here waits."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, QTimer, Signal

from app.downloads.access import HubAccess
from app.engine_words import told
from app.tasks import Mailbox, TaskRunner
from app.translation import tr
from engine.errors import EngineError

if TYPE_CHECKING:
    from engine.hub.download_item import DownloadRow
    from engine.hub.downloads import Downloads
    from engine.hub.names import Version

_log = logging.getLogger(__name__)

POLL_MS = 500
CLOSING_WAIT_S = 0.8


class DownloadQueue(QObject):
    """Adds, pauses, resumes and cancels downloads.

    Attributes:
        rows: the downloads as they were a moment ago.

    Signals:
        changed(): ``rows`` says something else.
        finished(repository, label, paths): a model is complete in the models folder.
        cancelled(row): what a download had is deleted; it was as ``row`` says.
        failed(text): what was asked for cannot be done.
    """

    changed = Signal()
    finished = Signal(str, str, list)
    cancelled = Signal(object)
    failed = Signal(str)

    def __init__(self, folder: Path, access: HubAccess, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.rows: list[DownloadRow] = []
        self._folder = folder
        self._access = access
        self._downloads: Downloads | None = None
        self._runner = TaskRunner("downloads", self)
        self._mailbox = Mailbox(self._on_news, 100, self)
        self._is_closed = False
        self._timer = QTimer(self)
        self._timer.setInterval(POLL_MS)
        self._timer.timeout.connect(self._look)

    def start(self) -> None:
        """Take up what an earlier run left, if anything."""
        if (self._folder / ".downloads").is_dir():
            self._do(lambda downloads: downloads.start())

    def add(
        self, endpoint: str, repository: str, revision: str, version: Version, *, is_repair: bool = False
    ) -> None:
        """Download a version; ``is_repair`` where its files may be here already, but not right."""
        self._do(lambda downloads: downloads.add(endpoint, repository, revision, version, is_repair=is_repair))

    def set_folder(self, folder: Path) -> None:
        """The models folder lies elsewhere now; there must be no downloads."""
        self._folder = folder
        self._downloads = None

    def pause(self, download_id: str) -> None:
        """Stop it and keep what it has."""
        self._do(lambda downloads: downloads.pause(download_id))

    def resume(self, download_id: str) -> None:
        """Go on, or try again."""
        self._do(lambda downloads: downloads.resume(download_id))

    def cancel(self, download_id: str) -> None:
        """Stop it and delete what it has."""
        gone = [row for row in self.rows if row.id == download_id]
        self.rows = [row for row in self.rows if row.id != download_id]
        self.changed.emit()

        def on_cancelled(_result: object) -> None:
            for row in gone:
                self.cancelled.emit(row)
            self._look()

        if not self._is_closed:
            self._runner.run(lambda: self._made().cancel(download_id), on_cancelled, self._on_error)

    def close(self) -> None:
        """Stop all; they go on at the next start."""
        if not self._is_closed:
            self._is_closed = True
            self._timer.stop()
            self._mailbox.close()
            if self._downloads is not None:
                self._downloads.close()
            self._runner.close(CLOSING_WAIT_S)

    def _do(self, action: Callable[[Downloads], object]) -> None:
        if not self._is_closed:
            self._runner.run(lambda: action(self._made()), lambda _result: self._look(), self._on_error)

    def _made(self) -> Downloads:
        """The engine's downloads; made in the runner's thread, when first needed."""
        if self._downloads is None:
            from engine.hub.downloads import Downloads

            self._downloads = Downloads(
                self._folder,
                self._access.client,
                on_change=lambda: self._mailbox.post(None),
                on_done=self._mailbox.post,
            )
            self._downloads.start()
        return self._downloads

    def _look(self) -> None:
        if self._downloads is not None and not self._is_closed:
            self._runner.run(self._downloads.rows, self._on_rows)

    def _on_rows(self, rows: list[DownloadRow]) -> None:
        if rows != self.rows:
            self.rows = rows
            self.changed.emit()
        is_active = any(row.state.value in {"running", "queued"} for row in rows)
        if is_active != self._timer.isActive():
            self._timer.start() if is_active else self._timer.stop()

    def _on_news(self, news: list[Any]) -> None:
        for row in news:
            if row is not None:
                self.finished.emit(row.repository, row.label, list(row.paths))
        self._look()

    def _on_error(self, error: Exception) -> None:
        if not isinstance(error, EngineError):
            _log.error("a download cannot be changed", exc_info=error)
        self.failed.emit(told(error) if isinstance(error, EngineError) else tr("That failed; the log says more."))
        self._look()
