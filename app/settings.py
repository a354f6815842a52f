"""The values of the settings and the file that keeps them.

What there is to set says ``settings_table``. An unknown key raises; a bad value in the file falls back to its
default; a file that cannot be written leaves the values in force until the app ends and says so once.
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal

from app.settings_table import SETTINGS, Value
from app.translation import tr

_log = logging.getLogger(__name__)

_TABLE = {setting.key: setting for setting in SETTINGS}


class Settings(QObject):
    """The values in force.

    Signals:
        changed(key): a value is another one now.
        notice(text): the file could not be read or written; once each.
    """

    changed = Signal(str)
    notice = Signal(str)

    def __init__(self, path: Path | None = None, parent: QObject | None = None) -> None:
        """Read the values from ``path``; without one they live in memory."""
        super().__init__(parent)
        self._path = path
        self._values: dict[str, Value] = {}
        self._foreign: dict[str, Any] = {}  # keys of another version, kept as they are
        self._has_warned = False
        self.trouble = ""  # what went wrong before anyone could listen to ``notice``
        self._read()

    def value(self, key: str) -> Any:
        """The value of ``key``; raises KeyError for a key that is not in the table."""
        return self._values.get(key, _TABLE[key].default)

    def default(self, key: str) -> Value:
        """The value of ``key`` while the person has set none."""
        return _TABLE[key].default

    def set(self, key: str, value: Value) -> None:
        """Change a value and keep it; raises KeyError or ValueError for what the table does not allow."""
        value = _TABLE[key].accept(value)
        if value == self.value(key):
            return
        self._values[key] = value
        self._write()
        self.changed.emit(key)

    def _read(self) -> None:
        if self._path is None:
            return
        try:
            stored = json.loads(self._path.read_text(encoding="utf-8"))
            if not isinstance(stored, dict):
                raise ValueError("not a table")
        except FileNotFoundError:
            return
        except (OSError, ValueError, RecursionError) as error:
            _log.warning("settings not read: %s", error)
            self.trouble = tr(
                "The settings in {path} could not be read, so the defaults are in force.", path=self._path
            )
            self._set_aside()
            return
        for key, value in stored.items():
            if key not in _TABLE:
                self._foreign[key] = value
                continue
            try:
                self._values[key] = _TABLE[key].accept(value)
            except ValueError as error:
                _log.warning("setting ignored: %s", error)

    def _set_aside(self) -> None:
        """Keep a damaged file under another name, so that the next change does not overwrite it."""
        assert self._path is not None
        try:
            os.replace(self._path, self._path.with_suffix(".damaged.json"))
        except OSError as error:
            _log.warning("damaged settings stay where they are: %s", error)

    def _write(self) -> None:
        if self._path is None:
            return
        scratch = self._path.with_suffix(".tmp")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps({**self._foreign, **self._values}, indent=2, sort_keys=True)
            scratch.write_text(text, encoding="utf-8")
            os.replace(scratch, self._path)
        except OSError as error:
            _log.warning("settings not written: %s", error)
            if not self._has_warned:
                self._has_warned = True
                self.notice.emit(
                    tr(
                        "Settings cannot be saved in {parent}; changes hold until you close Fireside.",
                        parent=self._path.parent,
                    )
                )
