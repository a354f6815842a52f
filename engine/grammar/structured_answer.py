"""The form of one request's answer, from the first token to the verdict.

Ties a constraint, a trace and the text of the answer together; the request asks it for a ``StructuredResult``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from engine.grammar.certainty import CertaintyTrace, field_certainties
from engine.grammar.compiler import Grammar, violations
from engine.grammar.constraint import GrammarConstraint
from engine.grammar.result import FieldCertainty, StructuredResult

CUT_OFF = "The answer was cut off before it was whole."


@dataclass(frozen=True)
class StructuredAnswer:
    """A form and how an answer follows it.

    Attributes:
        grammar: what the answer must follow.
        constraint: given to the engine.
        trace: given to the engine where certainty was asked for.
        written: the part of the answer that was there before.
        bytes_of: what a token stands for.
    """

    grammar: Grammar
    constraint: GrammarConstraint
    trace: CertaintyTrace | None
    written: str
    bytes_of: Callable[[int], bytes]

    def result(
        self, completion: Sequence[int], is_stopped: bool, end_token_ids: Collection[int]
    ) -> StructuredResult:
        """The verdict over an answer.

        Args:
            completion: all its tokens.
            is_stopped: it ended of its own accord, not at a limit.
            end_token_ids: not part of its text.
        """
        first = self.constraint.first_index
        is_complete = is_stopped and self.constraint.is_accepting
        answer = [] if first is None else [i for i in completion[first:] if i not in end_token_ids]
        pieces = [self.bytes_of(token_id) for token_id in answer]
        faults: list[str] = []
        fields: tuple[FieldCertainty, ...] = ()
        if self.grammar.schema is not None:
            if is_complete:
                faults = self._faults(self.written.encode() + b"".join(pieces))
            if self.trace is not None and not self.written:
                fields = field_certainties(self.trace, pieces, self.grammar.schema, first or 0)
        return StructuredResult(
            is_complete=is_complete,
            is_valid=is_complete and not faults,
            message=faults[0] if faults else "" if is_complete else CUT_OFF,
            num_forced_tokens=self.constraint.num_forced_tokens,
            checked_afterwards=self.grammar.checked_afterwards,
            fields=fields,
        )

    def _faults(self, text: bytes) -> list[str]:
        """What a finished answer violates; the grammar alone keeps the rest."""
        try:
            value = json.loads(text)
        except ValueError as error:
            return [f"The answer is no JSON: {error}."]
        return violations(self.grammar.schema, value) if self.grammar.checked_afterwards else []
