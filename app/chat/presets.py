"""Presets: named options that a chat takes over, kept in the chat database and shared as JSON files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal

from app.chat.exchange import write_whole
from app.chat.options import accepted
from app.engine_words import told
from app.settings import Settings
from app.storage.folders import delete_preset, save_preset
from app.storage.records import PresetRecord, new_id, one_line
from app.storage.store import ChatStore
from app.translation import tr
from engine.errors import InputError

PRESET_KEY = "preset"
"""In a conversation's options: the id of the preset that they were taken from."""
FORMAT_KEY = "fireside_preset"
FORMAT = 1
_MAX_FILE_BYTES = 1_000_000
_MAX_NAME = 60


class PresetError(Exception):
    """A preset file cannot be used; the message is one sentence for the person."""


class Presets(QObject):
    """All presets by name.

    Signals:
        changed(): there are others now, or another one is the default.
    """

    changed = Signal()

    def __init__(self, store: ChatStore, settings: Settings, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self._settings = settings
        self._records = {record.id: record for record in store.read_presets()}

    @property
    def records(self) -> list[PresetRecord]:
        """All of them by name."""
        return sorted(self._records.values(), key=lambda record: (record.name.casefold(), record.id))

    def get(self, preset_id: object) -> PresetRecord | None:
        """The preset with this id, if there is one."""
        return self._records.get(str(preset_id))

    @property
    def default_id(self) -> str:
        """The preset that new chats take over; "" for none."""
        preset_id = str(self._settings.value("default_preset"))
        return preset_id if preset_id in self._records else ""

    def set_default(self, preset_id: str) -> None:
        """Let new chats take over this preset; "" for none."""
        self._settings.set("default_preset", preset_id)
        self.changed.emit()

    def options_of(self, preset_id: str) -> dict[str, Any]:
        """What a chat that takes over the preset has as its options; {} without one."""
        record = self.get(preset_id)
        return {} if record is None else {**accepted(record.options), PRESET_KEY: record.id}

    def default_options(self) -> dict[str, Any]:
        """What a new chat has as its options."""
        return self.options_of(self.default_id)

    def is_modified(self, options: Mapping[str, Any]) -> bool:
        """Whether a chat's options differ from the preset that they were taken from."""
        record = self.get(options.get(PRESET_KEY))
        return record is not None and accepted(record.options) != accepted(options)

    def shown_name(self, options: Mapping[str, Any]) -> str:
        """The name of the preset that a chat's options were taken from; "" for none."""
        record = self.get(options.get(PRESET_KEY))
        if record is None:
            return ""
        return record.name + (tr(", changed") if self.is_modified(options) else "")

    def add(self, name: str, options: Mapping[str, Any]) -> PresetRecord:
        """Make a preset of a chat's options; a name that is taken gets a number."""
        return self._save(PresetRecord(new_id(), self._free_name(name), accepted(options)))

    def update(self, preset_id: str, options: Mapping[str, Any]) -> None:
        """Give a preset other options."""
        if (record := self.get(preset_id)) is not None:
            self._save(replace(record, options=accepted(options)))

    def rename(self, preset_id: str, name: str) -> None:
        """Give a preset another name; an empty one is ignored."""
        record = self.get(preset_id)
        if record is not None and name.strip() and name.strip() != record.name:
            self._save(replace(record, name=self._free_name(name)))

    def delete(self, preset_id: str) -> None:
        """Remove a preset; chats that took it over keep what they took."""
        if self._records.pop(preset_id, None) is not None:
            self._store.write(lambda connection: delete_preset(connection, preset_id))
            self.changed.emit()

    def restore(self, record: PresetRecord) -> None:
        """Take back that a preset was deleted."""
        self._save(record)

    def write_file(self, preset_id: str, path: Path) -> None:
        """Save a preset to share it; raises PresetError."""
        record = self.get(preset_id)
        assert record is not None, "a preset that is shown exists"
        content = {FORMAT_KEY: FORMAT, "name": record.name, "options": accepted(record.options)}
        try:
            write_whole(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
        except OSError as error:
            raise PresetError(
                tr("{name} could not be saved: {strerror}.", name=path.name, strerror=error.strerror or error)
            ) from error

    def read_file(self, path: Path) -> PresetRecord:
        """Take in a preset that someone shared; raises PresetError."""
        try:
            if path.stat().st_size > _MAX_FILE_BYTES:
                raise PresetError(tr("{name} is too large to be a preset.", name=path.name))
            from engine.extraction.texts import read_regular  # not before there is a file to read
            from engine.json_text import parse_json_file

            content = parse_json_file(read_regular(path, _MAX_FILE_BYTES), path.name)
        except InputError as error:
            raise PresetError(told(error)) from error
        except OSError as error:
            raise PresetError(
                tr("{name} could not be read: {strerror}.", name=path.name, strerror=error.strerror or error)
            ) from error
        except (ValueError, RecursionError) as error:
            raise PresetError(tr("{name} is no JSON file, so there is no preset in it.", name=path.name)) from error
        if not isinstance(content, dict) or FORMAT_KEY not in content:
            raise PresetError(
                tr(
                    "{name} holds no preset of Fireside: “{key}” is missing.",
                    name=path.name,
                    key=FORMAT_KEY,
                )
            )
        version = content[FORMAT_KEY]
        if type(version) is not int or version < FORMAT:
            raise PresetError(
                tr("{name} is damaged: “{key}” is no format that there is.", name=path.name, key=FORMAT_KEY)
            )
        if version > FORMAT:
            raise PresetError(tr("{name} is a preset of a newer Fireside; update to read it.", name=path.name))
        options = content.get("options")
        if not isinstance(options, dict):
            raise PresetError(tr("{name} holds a preset without options.", name=path.name))
        name = content.get("name")
        return self.add(name if isinstance(name, str) and name.strip() else path.stem, options)

    def _save(self, record: PresetRecord) -> PresetRecord:
        self._records[record.id] = record
        self._store.write(lambda connection: save_preset(connection, record))
        self.changed.emit()
        return record

    def _free_name(self, name: str) -> str:
        wanted = one_line(name[: 4 * _MAX_NAME])[:_MAX_NAME].rstrip() or tr("Preset")
        taken = {record.name.casefold() for record in self._records.values()}
        number = 2
        free = wanted
        while free.casefold() in taken:
            free = f"{wanted} {number}"
            number += 1
        return free
