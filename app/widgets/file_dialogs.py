"""Asking for files: each dialog starts where the last one ended, the first in the person's documents."""

from __future__ import annotations

import re
from pathlib import Path

from PySide6.QtCore import QStandardPaths
from PySide6.QtWidgets import QFileDialog, QWidget

_last_folders: list[Path] = []  # one at most, of this run


def choose_file(parent: QWidget, title: str, filters: str = "") -> Path | None:
    """One file to read; ``filters`` as Qt writes them, "Tables (*.csv *.tsv);;All files (*)". None: cancelled."""
    name, _ = QFileDialog.getOpenFileName(parent, title, start_folder(), filters)
    return _remember(Path(name)) if name else None


def choose_files(parent: QWidget, title: str, filters: str = "") -> list[Path]:
    """Files to read; none where it was cancelled."""
    names, _ = QFileDialog.getOpenFileNames(parent, title, start_folder(), filters)
    return [_remember(Path(name)) for name in names]


def choose_folder(parent: QWidget, title: str) -> Path | None:
    """A folder that is there. None: cancelled."""
    name = QFileDialog.getExistingDirectory(parent, title, start_folder())
    return _remember(Path(name)) if name else None


def choose_target(parent: QWidget, title: str, suggestion: str, filters: str = "") -> Path | None:
    """A file to write, with the ending of the kind that was chosen. None: cancelled.

    Where the name has none of the endings of ``filters`` it gets one, and where it still has that of
    ``suggestion`` though another kind was chosen, it gets that one's.
    """
    start, chosen = Path(start_folder(), suggestion), ""
    while True:
        name, chosen = QFileDialog.getSaveFileName(parent, title, str(start), filters, chosen)
        if not name:
            return None
        path = with_ending(Path(name), start.suffix, filters, chosen)
        if path == Path(name) or not path.exists():
            return _remember(path)
        start = path  # the dialog asked whether to replace the other one: it asks about this one, too


def with_ending(path: Path, suggested: str, filters: str, chosen: str) -> Path:
    """``path`` with the ending of the filter ``chosen`` where its own says nothing about the person's wish."""
    known = _endings(filters)
    wanted = next(iter(_endings(chosen)), "") or next(iter(known), "")
    own = path.suffix.lower()
    if not wanted or own in _endings(chosen):
        return path
    if own not in known:
        return path.with_name(path.name + wanted)
    return path.with_suffix(wanted) if chosen and own == suggested.lower() else path


def start_folder() -> str:
    """Where a dialog starts: the folder of the last one, else the person's documents, else their home."""
    places = QStandardPaths.StandardLocation
    folders = [
        *_last_folders,
        *(
            Path(QStandardPaths.writableLocation(place))
            for place in (places.DocumentsLocation, places.HomeLocation)
        ),
    ]
    return next((str(folder) for folder in folders if folder.is_dir()), "")


def _endings(filters: str) -> list[str]:
    return [ending.lower() for ending in re.findall(r"\*(\.\w+)", filters)]


def _remember(path: Path) -> Path:
    _last_folders[:] = [path if path.is_dir() else path.parent]
    return path
