"""What the terminal prints: results on stdout, progress and errors on stderr.

Text of models and files is untrusted: on a screen its control characters are shown, not obeyed.
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from enum import Enum
from pathlib import Path
from typing import IO, Any

import numpy as np

# C0 controls but tab and newline as their pictures; delete and the C1 controls, which hold more escapes, as U+FFFD.
_PICTURES = {code: 0x2400 + code for code in range(32) if code not in (9, 10)} | dict.fromkeys(
    range(127, 160), 0xFFFD
)


def printable(text: str) -> str:
    """``text`` with control characters made visible."""
    return text.translate(_PICTURES)


def count_text(count: int) -> str:
    """A number of parameters for a person; "" where it is not known."""
    for unit, unit_count, digits in (("B", 1e9, 1), ("M", 1e6, 0), ("k", 1e3, 0)):
        if count >= unit_count:
            return f"{count / unit_count:.{digits}f} {unit}"
    return str(count or "")


def plain(value: Any) -> Any:
    """Dataclasses, enums, paths, NumPy's and infinite numbers as JSON knows them."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


class Output:
    """Prints for a person, or as JSON when ``is_json``."""

    def __init__(self, is_json: bool, stdout: IO[str] | None = None, stderr: IO[str] | None = None) -> None:
        self.is_json = is_json
        self._stdout = stdout or sys.stdout
        self._stderr = stderr or sys.stderr
        self._progress_width = 0

    def text(self, text: str, end: str = "\n") -> None:
        """Text for a person, at once; nothing with ``--json``."""
        if not self.is_json:
            shown = printable(text) if self._stdout.isatty() else text
            self._stdout.write(shown + end)
            self._stdout.flush()

    def json(self, value: Any) -> None:
        """One JSON document on one line; nothing without ``--json``."""
        if self.is_json:
            self._stdout.write(json.dumps(plain(value), ensure_ascii=False, allow_nan=False) + "\n")
            self._stdout.flush()

    def note(self, text: str) -> None:
        """A remark on stderr."""
        self.end_progress()
        self._stderr.write(printable(text) + "\n")
        self._stderr.flush()

    def error(self, message: str) -> None:
        """One sentence on stderr, and with ``--json`` the document ``{"error": ...}`` on stdout."""
        self.note(message)
        self.json({"error": message})

    def progress(self, text: str, is_line_due: bool = False) -> None:
        """A line on stderr that replaces the one before on a screen; elsewhere it is written where one is due."""
        if is_line_due and not self._stderr.isatty():
            self.note(text)
        if self._stderr.isatty():
            self._stderr.write("\r" + printable(text).ljust(self._progress_width))
            self._stderr.flush()
            self._progress_width = len(text)

    def end_progress(self) -> None:
        """Remove the progress line."""
        if self._progress_width:
            self._stderr.write("\r" + " " * self._progress_width + "\r")
            self._stderr.flush()
            self._progress_width = 0
