"""Questions to the hub, asked beside the GUI thread: a search, and what one repository has for this machine."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from app.downloads.access import HubAccess
from app.engine_words import told
from app.library.search_wish import SearchWish
from app.tasks import TaskRunner
from app.translation import tr
from engine.errors import EngineError, ModelFileError

if TYPE_CHECKING:
    from engine.advisor import Advice
    from engine.config import KVType
    from engine.hub.client import HubModel, HubRepository
    from engine.hub.names import Version

_log = logging.getLogger(__name__)

MAX_RESULTS = 20
CLOSING_WAIT_S = 0.2


@dataclass(frozen=True)
class HubDetail:
    """A repository with advice.

    Attributes:
        endpoint: where it is.
        advices: what each version needs here, by label; empty where the header tells nothing.
        recommended: label of the best version; None where none fits.
        problem: why its models cannot run here; "" where they can.
        card: the model card's text.
    """

    endpoint: str
    repository: HubRepository
    advices: dict[str, Advice]
    recommended: str | None
    problem: str
    card: str


class HubSearch(QObject):
    """Asks the hub. Answers to a question that was followed by another one are dropped.

    Signals:
        found(list of HubModel), failed(text): of the last search.
        described(repository, HubDetail), describe_failed(repository, text): of a repository.
    """

    found = Signal(list)
    failed = Signal(str)
    described = Signal(str, object)
    describe_failed = Signal(str, str)

    def __init__(
        self,
        access: HubAccess,
        models_folder: Path,
        kv_type: Callable[[], KVType] = lambda: "f16",
        figures_file: Path | None = None,
        parent: QObject | None = None,
    ) -> None:
        """``kv_type`` tells how models are loaded; ``figures_file`` has what was measured here."""
        super().__init__(parent)
        self._kv_type = kv_type
        self._figures_file = figures_file
        self._access = access
        self._models_folder = models_folder
        self._searches = TaskRunner("hub search", self)
        self._details = TaskRunner("hub details", self)
        self._last_search = 0
        self._is_closed = False

    def search(self, query: str, wish: SearchWish) -> None:
        """Look for models; ``found`` or ``failed`` follows."""
        self._last_search += 1
        number = self._last_search

        def on_found(models: list[HubModel]) -> None:
            if number == self._last_search:
                self.found.emit(models)

        def on_error(error: Exception) -> None:
            if number == self._last_search:
                self.failed.emit(sentence_of(error))

        if not self._is_closed:
            self._searches.run(lambda: self._search(query, wish), on_found, on_error)

    def describe(self, repository: str) -> None:
        """Look at one repository; ``described`` or ``describe_failed`` follows."""
        if not self._is_closed:
            self._details.run(
                lambda: self._describe(repository),
                lambda detail: self.described.emit(repository, detail),
                lambda error: self.describe_failed.emit(repository, sentence_of(error)),
            )

    def close(self) -> None:
        """Ask nothing any more."""
        self._is_closed = True
        self._searches.close(CLOSING_WAIT_S)
        self._details.close(CLOSING_WAIT_S)

    def _search(self, query: str, wish: SearchWish) -> list[HubModel]:
        from engine.hub.client import Sort

        with self._access.client() as client:
            wanted = wish.filter(self._models_folder)
            return list(client.search(query, sort=Sort[wish.sort], wanted=wanted, limit=MAX_RESULTS))

    def _describe(self, name: str) -> HubDetail:
        from engine.advisor import MeasuredFigures, look_at_machine, recommend, shape_of
        from engine.advisor.advice import CONTEXT_LENGTH, versions_advice
        from engine.hub.download_record import own_path
        from engine.hub.remote_header import fetch_header

        with self._access.client() as client:
            repository = client.repository(name)
            usable = [version for version in repository.groups.versions if not version.missing]
            card = _card(client, repository)
            if not usable:
                problem = tr("It has no GGUF file that can be used here.")
                return HubDetail(client.endpoint, repository, {}, None, problem, card)
            try:
                header = fetch_header(client.connection, name, repository.revision, usable[len(usable) // 2])
                shape = shape_of(header)
            except ModelFileError as error:
                problem = told(error).partition(": ")[2]
                return HubDetail(client.endpoint, repository, {}, None, problem[:1].upper() + problem[1:], card)
            except EngineError as error:  # gated, most likely: the files can be listed but not read
                return HubDetail(client.endpoint, repository, {}, None, told(error), card)
            rows = [(version.label, version.quantization, version.size) for version in usable]
            figures = MeasuredFigures(self._figures_file) if self._figures_file is not None else None
            machine = look_at_machine(self._models_folder, figures)
            advices = versions_advice(shape, machine, rows, CONTEXT_LENGTH, self._kv_type())
            by_label = {label: advice for label, (_, advice) in advices.items()}
            if figures is not None:
                for version in usable:
                    measured = figures.of(own_path(self._models_folder, name, version.files[0].path))
                    by_label[version.label] = replace(by_label[version.label], measured=measured)
            return HubDetail(client.endpoint, repository, by_label, recommend(advices), "", card)


def _card(client: object, repository: HubRepository) -> str:
    """The card is a courtesy: without it the rest is still told."""
    from engine.hub.client import HubClient

    assert isinstance(client, HubClient)
    try:
        return client.card(repository)
    except EngineError:
        return ""


def version_of(detail: HubDetail, label: str) -> Version:
    """The version of that label; raises StopIteration for an unknown one."""
    return next(version for version in detail.repository.groups.versions if version.label == label)


def sentence_of(error: Exception) -> str:
    """What went wrong, for a person."""
    if isinstance(error, EngineError):
        return told(error)
    _log.error("the hub cannot be asked", exc_info=error)
    return tr("That failed; the log says more.")
