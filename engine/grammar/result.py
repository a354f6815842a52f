"""What is known about an answer in a given form: plain data that crosses the border."""

from __future__ import annotations

from engine.plain_data import dataclass


@dataclass(frozen=True)
class FieldCertainty:
    """How sure the model was of one value.

    Attributes:
        path: JSON pointer of the value, ``/supplier/name``; "" is the whole answer.
        probability: that the model, left free, would have written this value here: 0 to 1.
        alternatives: other allowed values of an enumeration as JSON, each with the probability that the model, left
            free, would have begun it where it leaves this one; likeliest first.
    """

    path: str
    probability: float
    alternatives: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class StructuredResult:
    """Whether an answer has the form that was asked for.

    Attributes:
        is_complete: it came to its end; an answer that was cut off never counts as valid.
        is_valid: it is complete and nothing in it violates the schema.
        message: one sentence about what is wrong; "" where it is valid.
        num_forced_tokens: tokens of the answer that the form left no choice about.
        checked_afterwards: what only a check of the finished answer could honour.
        fields: of each value of a JSON answer, where certainty was asked for.
    """

    is_complete: bool
    is_valid: bool
    message: str = ""
    num_forced_tokens: int = 0
    checked_afterwards: tuple[str, ...] = ()
    fields: tuple[FieldCertainty, ...] = ()
