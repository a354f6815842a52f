"""The schemas of this person and the gallery to begin with: a JSON file each."""

from __future__ import annotations

import json
import os
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.engine_words import told
from app.translation import tr
from engine.errors import InputError
from engine.plain_data import dataclass

GALLERY = Path(__file__).resolve().parents[2] / "resources" / "schemas"
MAX_FILE_BYTES = 2_000_000
_UNFIT = '<>:"/\\|?*'


class SchemaFileError(Exception):
    """A schema cannot be kept or read; the message is one sentence."""


@dataclass(frozen=True)
class SavedSchema:
    """A schema by name.

    Attributes:
        text: as it was saved.
        is_own: the person's, not the gallery's.
    """

    name: str
    text: str
    is_own: bool


class SchemaLibrary(QObject):
    """Keeps schemas in a folder.

    Signals:
        changed(): there are others now.
    """

    changed = Signal()

    def __init__(self, folder: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._folder = folder

    def own(self) -> list[SavedSchema]:
        """The person's schemas by name; files that cannot be read are left out."""
        return _read_all(self._folder, is_own=True)

    def gallery(self) -> list[SavedSchema]:
        """The schemas to begin with."""
        return _read_all(GALLERY, is_own=False)

    def find(self, name: str) -> SavedSchema | None:
        """The person's schema that ``save`` would replace; None where there is none."""
        name = clean_name(name)
        return next((saved for saved in self.own() if saved.name == name), None)

    def holds(self, text: str) -> bool:
        """Whether a schema is kept, or is one of the gallery."""
        return any(saved.text == text for saved in (*self.own(), *self.gallery()))

    def save(self, name: str, text: str) -> SavedSchema:
        """Keep a schema, in place of one of the same name; raises SchemaFileError."""
        name = clean_name(name)
        path = self._folder / f"{name}.json"
        scratch = path.with_suffix(".part")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            scratch.write_text(text, encoding="utf-8")
            os.replace(scratch, path)
        except OSError as error:
            raise SchemaFileError(
                tr("The schema could not be saved: {reason}.", reason=error.strerror or error)
            ) from error
        self.changed.emit()
        return SavedSchema(name, text, is_own=True)

    def delete(self, name: str) -> None:
        """Remove one of the person's schemas; raises SchemaFileError."""
        try:
            (self._folder / f"{clean_name(name)}.json").unlink(missing_ok=True)
        except OSError as error:
            raise SchemaFileError(
                tr(
                    "The schema could not be deleted: {reason}.",
                    reason=error.strerror or error,
                )
            ) from error
        self.changed.emit()


def read_schema_file(path: Path) -> str:
    """The text of a schema file; raises SchemaFileError when it is no JSON."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise SchemaFileError(tr("{name} is too large to be a schema.", name=path.name))
        from engine.extraction.texts import read_regular  # not before there is a file to read
        from engine.json_text import decode_json

        data = read_regular(path, MAX_FILE_BYTES)
        text = decode_json(data, path.name)
        json.loads(text)  # a key that is there twice is shown with the text
    except InputError as error:
        raise SchemaFileError(told(error)) from error
    except OSError as error:
        raise SchemaFileError(
            tr(
                "{name} could not be read: {reason}.",
                name=path.name,
                reason=error.strerror or error,
            )
        ) from error
    except (ValueError, RecursionError) as error:
        raise SchemaFileError(tr("{name} is no JSON file, so there is no schema in it.", name=path.name)) from error
    return text


def clean_name(name: str) -> str:
    """A name that can be a file's on every system."""
    cleaned = "".join(" " if character in _UNFIT or ord(character) < 32 else character for character in name)
    return " ".join(cleaned.split()).strip(". ")[:60].strip() or tr("Schema")


def _read_all(folder: Path, *, is_own: bool) -> list[SavedSchema]:
    found: list[SavedSchema] = []
    try:
        paths = sorted(folder.glob("*.json"), key=lambda path: path.stem.casefold())
    except OSError:
        return []
    for path in paths:
        try:
            found.append(SavedSchema(path.stem, read_schema_file(path), is_own))
        except SchemaFileError:
            continue
    return found
