"""A file that exists while the app runs: found at a start, it says that the last run did not end by itself."""

from __future__ import annotations

import logging
import os
from pathlib import Path

_log = logging.getLogger(__name__)


class RunMarker:
    """The marker of one data folder; only for who holds the folder's lock."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def begin(self) -> bool:
        """Mark that the app runs; True when the last run was killed, crashed, or lost its power."""
        is_found = self._path.exists()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(str(os.getpid()), encoding="ascii")
        except OSError as error:
            _log.warning("no marker that the app runs: %s", error)
        return is_found

    def end(self) -> None:
        """Say that the app ended by itself."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            _log.warning("the marker that the app runs stays: %s", error)
