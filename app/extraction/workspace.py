"""One extraction at a time: its input, its journal, and the run that fills it through the engine.

Every finished row is on the disk before it is shown; an extraction that was interrupted, by whatever, goes on where
it was when it is opened again.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal

from app.engine_client import EngineClient, RequestEvent
from app.engine_words import told
from app.model_session import ModelSession
from app.storage.records import new_id
from app.tasks import TaskRunner
from app.translation import tr, trn
from engine.errors import InputError
from engine.extraction.export import write_results
from engine.extraction.journal import Journal, RowResult, Task
from engine.extraction.run import ExtractionRun, Progress
from engine.extraction.sources import Source, read_source, source_of_lines

_log = logging.getLogger(__name__)
_DELETED = ".deleted"


@dataclass(frozen=True)
class EarlierExtraction:
    """An extraction on the disk."""

    path: Path
    name: str
    num_results: int


class ExtractionWorkspace(QObject):
    """What is extracted, and how far it is.

    Attributes:
        source: the rows; None before an input was chosen.
        journal: the results; None before the start.

    Signals:
        source_changed(): another input, or none.
        opened(): another journal, or none.
        row_changed(row): a row has a result, lost it, or is asked about now.
        state_changed(): running, paused, finished; or the progress moved.
        notice(text): one sentence for the person.
        deleted(path): an extraction was put aside.
    """

    source_changed = Signal()
    opened = Signal()
    row_changed = Signal(int)
    state_changed = Signal()
    notice = Signal(str)
    deleted = Signal(object)

    def __init__(
        self, client: EngineClient, session: ModelSession, folder: Path, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._client = client
        self._session = session
        self._folder = folder
        self._run: ExtractionRun | None = None
        self._runner = TaskRunner("extraction", self)
        self._input = ""
        self._lines = ""
        self._wanted_source = ""
        self._is_expected = False
        self.source: Source | None = None
        self.journal: Journal | None = None
        session.loaded.connect(lambda _: self._prepare())
        session.loaded.connect(lambda _: self._pump())
        session.loaded.connect(lambda _: self.state_changed.emit())
        session.ejecting.connect(self.state_changed)
        session.failed.connect(lambda _: self.state_changed.emit())

    # ------------------------------------------------------------------------------------------ state

    @property
    def is_running(self) -> bool:
        """Rows are being asked about, or wait for a model."""
        return self._run is not None and not self._run.is_paused and not self._run.is_finished

    @property
    def is_finished(self) -> bool:
        """Every row of the open journal has a result."""
        return self._run is not None and self._run.is_finished

    @property
    def has_model(self) -> bool:
        """There is a model to ask."""
        return self._session.info is not None

    @property
    def progress(self) -> Progress | None:
        """How far the open journal is."""
        return self._run.progress if self._run is not None else None

    def is_asked(self, row: int) -> bool:
        """Whether the engine is asked about a row now."""
        return self._run is not None and row in self._run.running_rows

    def earlier(self) -> list[EarlierExtraction]:
        """The extractions on the disk, the last written first."""
        found: list[tuple[float, EarlierExtraction]] = []
        for path in self._folder.glob("*.jsonl"):
            try:
                journal = Journal.open(path)
                found.append(
                    (path.stat().st_mtime, EarlierExtraction(path, journal.task.name, len(journal.results)))
                )
            except (InputError, OSError) as error:
                _log.warning("an extraction was left out: %s", error)
        return [one for _, one in sorted(found, key=lambda pair: -pair[0])]

    def expect(self) -> None:
        """The person has come to extract: what the first row would wait for begins now."""
        self._is_expected = True
        self._prepare()

    def _prepare(self) -> None:
        """Let the engine get ready for answers in a given form, if there will be any."""
        if self._is_expected and self.has_model:
            self._client.prepare_forms()

    # ------------------------------------------------------------------------------------------ input

    def choose_input(self, path: Path) -> None:
        """Read the rows of a file or folder; ``source_changed`` follows."""
        self._input, self._lines = str(path), ""
        self._load(lambda: read_source(path))

    def choose_lines(self, text: str) -> None:
        """Take lines that were pasted as rows."""
        self._input, self._lines = "", text
        self._load(lambda: source_of_lines(text))

    def _load(self, read: Callable[[], Source], then: Callable[[], None] | None = None) -> None:
        wanted = self._wanted_source = new_id()

        def done(source: Source) -> None:
            if wanted == self._wanted_source:
                self.source = source
                self.source_changed.emit()
                if then is not None:
                    then()

        def failed(error: Exception) -> None:
            if wanted != self._wanted_source:
                return
            if not isinstance(error, InputError):
                _log.error("an input failed", exc_info=error)
            self.notice.emit(told(error) if isinstance(error, InputError) else tr("The input could not be read."))

        def work() -> Source:
            source = read()
            hash(source.fingerprint)  # long tables take their time, here and not in the window
            return source

        self._runner.run(work, done, failed)

    # ------------------------------------------------------------------------------------------ running

    def start(
        self, instruction: str, schema: str, columns: Sequence[str] = (), *, check_afterwards: bool = False
    ) -> None:
        """Begin a new extraction over the rows of ``source``."""
        if self.source is None:
            self.notice.emit(tr("Choose an input first."))
            return
        self.pause()
        task = Task(
            self.source.name,
            instruction,
            schema,
            self._input,
            self._lines,
            tuple(columns),
            check_afterwards,
            self.source.fingerprint,
        )
        try:
            self.journal = Journal.create(self._folder / f"{new_id()}.jsonl", task)
        except InputError as error:
            self.notice.emit(told(error))
            return
        self._run = ExtractionRun(self.source, self.journal)
        self.opened.emit()
        self._pump()

    def open(self, path: Path) -> None:
        """Show an earlier extraction, paused; its input is read again from where it was."""
        self.pause()
        try:
            journal = Journal.open(path)
        except InputError as error:
            self.notice.emit(told(error))
            return
        task = journal.task
        self._input, self._lines = task.source, task.lines

        def then() -> None:
            assert self.source is not None
            self.journal = journal
            self._run = ExtractionRun(self.source, journal)
            self._run.pause()
            self.opened.emit()
            self.state_changed.emit()
            if task.fingerprint not in {"", self.source.fingerprint}:
                self.notice.emit(
                    tr("{name} is another table than before: the answers may be about other rows.", name=task.name)
                )

        self._load(lambda: read_source(Path(task.source)) if task.source else source_of_lines(task.lines), then)

    def close_journal(self) -> None:
        """Go back to an empty workspace; what was extracted stays on the disk."""
        self.pause()
        self.source = self.journal = self._run = None
        self._wanted_source = ""
        self.source_changed.emit()
        self.opened.emit()
        self.state_changed.emit()

    def delete(self, path: Path) -> None:
        """Put an extraction aside; it is on the disk, to be had back with ``restore``, until the app is closed."""
        if self.journal is not None and self.journal.path == path:
            self.close_journal()
        try:
            path.rename(path.with_suffix(_DELETED))
        except OSError as error:
            self.notice.emit(tr("The extraction could not be deleted: {reason}.", reason=error.strerror or error))
            return
        self.deleted.emit(path)

    def restore(self, path: Path) -> None:
        """Take the deletion of an extraction back, and open it."""
        try:
            path.with_suffix(_DELETED).rename(path)
        except OSError as error:
            reason = error.strerror or error
            self.notice.emit(tr("The extraction could not be brought back: {reason}.", reason=reason))
            return
        self.open(path)

    def pause(self) -> None:
        """Stop asking; rows that were being answered are asked about again later."""
        if self._run is not None and not self._run.is_paused:
            self._run.pause()
            for request_id in self._run.running_ids:
                self._client.abort(request_id)
            self.state_changed.emit()

    def resume(self) -> None:
        """Go on with the rows that have no result."""
        if self._run is not None:
            self._run.resume()
            self._pump()

    def retry(self, rows: Sequence[int]) -> None:
        """Ask about rows again."""
        if self._run is None:
            return
        try:
            for row in rows:
                self._run.retry(row)
                self.row_changed.emit(row)
        except InputError as error:
            self.notice.emit(told(error))
        self.resume()

    def edit(self, row: int, value: Any) -> None:
        """Put the person's value in place of a row's answer."""
        if self.journal is None:
            return
        before = self.journal.results.get(row, RowResult(row))
        self._keep(replace(before, value=value, error="", is_edited=True))
        self.row_changed.emit(row)
        self.state_changed.emit()

    def export(self, path: Path) -> None:
        """Write the results as the path's ending says."""
        if self.source is None or self.journal is None:
            return
        source, journal = self.source, self.journal
        frozen = Journal(journal.path, journal.task, journal.results)

        def failed(error: Exception) -> None:
            if not isinstance(error, InputError):
                _log.error("an export failed", exc_info=error)
            self.notice.emit(
                told(error) if isinstance(error, InputError) else tr("The results could not be written.")
            )

        def done(count: int) -> None:
            self.notice.emit(
                trn("1 row was saved as {name}.", "{count} rows were saved as {name}.", count, name=path.name)
            )

        self._runner.run(lambda: write_results(path, source, frozen), done, failed)

    def close(self) -> None:
        """Stop; what is finished is on the disk."""
        self.pause()
        self._runner.close(1.0)
        for path in self._folder.glob(f"*{_DELETED}"):
            with contextlib.suppress(OSError):
                path.unlink()

    # ------------------------------------------------------------------------------------------ inside

    def _pump(self) -> None:
        """Give the engine what it can take now."""
        run = self._run
        if run is None or not self.has_model:
            self.state_changed.emit()
            return
        try:
            requests = run.next_requests()
        except InputError as error:
            self._trouble(error)
            return
        for request in requests:
            self._client.generate(request, partial(self._on_event, run))
        for row in run.running_rows:
            self.row_changed.emit(row)
        self.state_changed.emit()

    def _on_event(self, run: ExtractionRun, event: RequestEvent) -> None:
        before = run.running_rows
        try:
            result = run.on_event(event)
        except InputError as error:
            self._trouble(error)
            return
        if run is not self._run:
            return
        for row in before - run.running_rows:
            self.row_changed.emit(row)
        if result is not None:
            self._pump()

    def _keep(self, result: RowResult) -> None:
        assert self.journal is not None
        try:
            self.journal.add(result)
        except InputError as error:
            self._trouble(error)

    def _trouble(self, error: InputError) -> None:
        self.notice.emit(told(error))
        self.pause()
