"""Whether the engine can honour a schema: what an editor says while its person types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QObject

from app.engine_words import told
from app.tasks import TaskRunner
from app.translation import tr
from engine.grammar.schema_check import check_schema

MAX_SHOWN = 4
AT_ONCE_CHARACTERS = 4000  # so many are checked in a few milliseconds


@dataclass(frozen=True)
class SchemaVerdict:
    """What the engine says of a schema.

    Attributes:
        faults: why it cannot be honoured, each with its path; empty when it can.
        notices: what to know though it can.
        can_check_afterwards: every fault can be checked when the answer is there, if the person agrees.
    """

    faults: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    can_check_afterwards: bool = False

    def is_usable(self, *, checks_afterwards: bool) -> bool:
        """Whether answers can be asked for in this form."""
        return not self.faults or (checks_afterwards and self.can_check_afterwards)


def verdict_on(text: str) -> SchemaVerdict:
    """Check a schema; never raises."""
    if not text.strip():
        return SchemaVerdict((tr("The schema is empty: add a field, or choose one of the gallery."),))
    checked = check_schema(text)
    faults = tuple(told(problem.message) for problem in checked.problems[:MAX_SHOWN])
    return SchemaVerdict(faults, tuple(map(told, checked.notices)), bool(faults) and checked.grammar is not None)


class SchemaChecker(QObject):
    """Checks the schema of one editor: a short one at once, a long one, which can take seconds, on a thread.

    The parent is the editor; what it is told is always about the last schema that it asked about.
    """

    def __init__(self, on_verdict: Callable[[SchemaVerdict], None], parent: QObject) -> None:
        super().__init__(parent)
        self._on_verdict = on_verdict
        self._runner: TaskRunner | None = None
        self._num_asked = 0
        parent.destroyed.connect(self._end)

    def check(self, text: str) -> None:
        """Call ``on_verdict`` with what the engine says; before, where that takes long, that it is asked."""
        self._num_asked += 1
        asked = self._num_asked
        if len(text) <= AT_ONCE_CHARACTERS:
            self._on_verdict(verdict_on(text))
            return
        self._on_verdict(SchemaVerdict((tr("The schema is being checked…"),)))
        self._runner = self._runner or TaskRunner("schema check", self)
        self._runner.run(
            lambda: verdict_on(text) if asked == self._num_asked else None,
            lambda verdict: self._on_verdict(verdict) if asked == self._num_asked else None,
        )

    def forget(self) -> None:
        """The schema is another one now: what is being checked no longer matters."""
        self._num_asked += 1

    def _end(self) -> None:
        self.forget()
        if self._runner is not None:
            self._runner.close(0.0)
