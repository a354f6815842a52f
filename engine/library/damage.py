"""Damage that reading all of a file found and its header does not tell, kept in the models folder till it changes.

Other programs' files are marked here, too; nothing is written beside them.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from pathlib import Path

from engine.library.hashes import key_of
from engine.library.places import read_small_file

_log = logging.getLogger(__name__)

FileMark = list[list[object]]  # name, bytes and time of each file of the model, as JSON has it

DAMAGE_NAME = ".damaged.json"
MAX_DAMAGE_BYTES = 1 << 22
_lock = threading.Lock()
_unkept: dict[Path, dict[str, tuple[FileMark, str]]] = {}  # of models folders that cannot be written, till the end


def known_damage(models_folder: Path) -> dict[str, tuple[FileMark, str]]:
    """By the model's place: how its files were when they were read, and what was found in one sentence."""
    kept = dict(_unkept.get(models_folder, {}))
    try:
        stored = json.loads(read_small_file(models_folder / DAMAGE_NAME, MAX_DAMAGE_BYTES))
        for key, (mark, problem) in stored.items():
            if isinstance(problem, str) and problem:
                kept.setdefault(key, (mark, problem))
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        pass  # what is no such note says nothing
    return kept


def keep_damage(path: Path, mark: FileMark, problem: str, models_folder: Path) -> None:
    """Remember what was found of the model at ``path``; "" is that it is right."""
    with _lock:
        kept = known_damage(models_folder)
        before = dict(kept)
        if problem:
            kept[key_of(path, models_folder)] = mark, problem
        else:
            kept.pop(key_of(path, models_folder), None)
        if kept == before:
            return
        scratch = models_folder / f"{DAMAGE_NAME}.tmp"
        try:
            models_folder.mkdir(parents=True, exist_ok=True)
            scratch.write_text(json.dumps(kept, indent=1, sort_keys=True), encoding="utf-8")
            os.replace(scratch, models_folder / DAMAGE_NAME)
        except OSError as error:
            _log.warning("what was found of %s is forgotten when the program ends: %s", path, error)
            _unkept[models_folder] = kept
        else:
            _unkept.pop(models_folder, None)


def mark_of(paths: tuple[Path, ...]) -> FileMark:
    """How the files of a model are; changes when one of them is written anew."""
    mark: FileMark = []
    for path in paths:
        try:
            status = os.stat(path)
        except OSError:
            continue
        mark.append([path.name, status.st_size, status.st_mtime_ns])
    return mark
