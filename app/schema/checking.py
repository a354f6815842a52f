"""Whether the engine can honour a schema: what an editor says while its person types."""

from __future__ import annotations

from dataclasses import dataclass

from app.translation import tr
from engine.grammar.schema_check import check_schema

MAX_SHOWN = 4


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
    faults = tuple(str(problem.message) for problem in checked.problems[:MAX_SHOWN])
    return SchemaVerdict(faults, checked.notices, bool(faults) and checked.grammar is not None)
