"""What the benchmark of structured answers asks: a schema of six fields, notes to extract, schemas to draw from."""

from __future__ import annotations

import random
from typing import Any, Final

INVOICE: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "number": {"type": "string", "maxLength": 12},
        "date": {"type": "string", "format": "date"},
        "supplier": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 24},
                "city": {"type": "string", "maxLength": 16},
            },
            "required": ["name", "city"],
            "additionalProperties": False,
        },
        "total": {"type": "number", "minimum": 0, "maximum": 100000},
        "currency": {"enum": ["EUR", "USD", "GBP"]},
        "paid": {"type": "boolean"},
    },
    "required": ["number", "date", "supplier", "total", "currency", "paid"],
    "additionalProperties": False,
}
QUESTION: Final = (
    "Give this invoice as JSON: invoice RE-2041 of 2 November 2026 from Hofmann & Sons in Cologne over 1204.50 "
    "euro, which was paid."
)
NOTE: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 16},
        "nights": {"type": "integer", "minimum": 1, "maximum": 30},
        "mood": {"enum": ["happy", "sad", "neutral"]},
    },
    "required": ["city", "nights", "mood"],
    "additionalProperties": False,
}
NOTE_INSTRUCTION: Final = "Read the note of a guest and give the city, the number of nights and the mood."

_CITIES: Final = ("Lisbon", "Porto", "Rome", "Vienna", "Oslo", "Prague", "Madrid", "Dublin", "Athens", "Berlin")
_WORDS: Final = ("wonderful", "terrible food", "fine", "we were so happy", "noisy and sad", "nothing special")


def notes(count: int) -> list[str]:
    """Short notes, the same for each run."""
    chosen = random.Random(1)
    return [
        f"We stayed {chosen.randint(1, 14)} nights in {chosen.choice(_CITIES)}, {chosen.choice(_WORDS)}."
        for _ in range(count)
    ]


# Schemas of many kinds, from which answers are drawn at random to be checked by another validator.
DRAWN: Final[tuple[Any, ...]] = (
    INVOICE,
    NOTE,
    {"type": "array", "items": {"type": "integer", "minimum": -5, "maximum": 5}, "minItems": 1, "maxItems": 4},
    {"anyOf": [{"const": "decision"}, {"enum": ['a"b', "c\\d", "e\nf"]}, {"type": "null"}]},
    {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{1,4}$"},
    {"type": "number", "multipleOf": 0.25, "minimum": 0, "maximum": 3},
    {"type": "object", "additionalProperties": {"type": "boolean"}, "maxProperties": 2, "minProperties": 0},
    {"type": "array", "prefixItems": [{"type": "string", "maxLength": 3}, {"type": "boolean"}], "items": False},
    {"type": "string", "format": "date-time"},
    {"oneOf": [{"type": "string", "maxLength": 4}, {"type": "integer"}, {"type": "array", "maxItems": 0}]},
)
