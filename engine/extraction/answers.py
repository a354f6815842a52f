"""Answers as values that every format of a file can hold: JSON as the standard has it, text that is Unicode."""

from __future__ import annotations

import json
import math
from typing import Any


def parse_answer(text: str) -> Any:
    """The value of a JSON text. Raises ValueError for what is no JSON, and for numbers that no double can hold."""

    def refuse(constant: str) -> Any:
        raise ValueError(f"{constant} is no JSON")

    def number(digits: str) -> float:
        value = float(digits)
        if math.isinf(value):
            raise ValueError(f"{digits[:40]} is too large a number")
        return value

    try:
        return well_formed(json.loads(text, parse_constant=refuse, parse_float=number))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def value_at_pointer(value: Any, pointer: str) -> Any:
    """What stands at a JSON pointer (RFC 6901); None where nothing does."""
    for step in pointer.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def well_formed(value: Any) -> Any:
    """A value that a file can hold: U+FFFD for half characters (``\\ud800``), None for NaN and infinity."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [well_formed(item) for item in value]
    if isinstance(value, dict):
        return {well_formed(key): well_formed(item) for key, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
