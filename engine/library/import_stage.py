"""The last step of an import: all files of a model get their places, or none does, even over a kill.

What is to go where is written down first, in a folder of the import's own beside the downloads. Who looks into the
models folder next ends what a kill left undone.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import filelock

from engine.errors import ModelFileError
from engine.gguf import check_model_file, is_listed_name
from engine.hub.download_record import COPY_PREFIX, DOWNLOADS_FOLDER, LOCK_NAME, MOVES_NAME
from engine.library.places import read_small_file

_log = logging.getLogger(__name__)

MAX_MOVES_BYTES = 1 << 24

Moves = Sequence[tuple[Path, Path]]  # from where, to where in the models folder


@contextlib.contextmanager
def import_stage(models_folder: Path, source: Path) -> Iterator[Path]:
    """A folder for the import of ``source``, held against other processes and gone at the end.

    Raises filelock.Timeout where the same import is under way, and OSError.
    """
    name = hashlib.sha256(str(source).encode("utf-8", "surrogateescape")).hexdigest()[:20]
    stage = models_folder / DOWNLOADS_FOLDER / f"{COPY_PREFIX}{name}"
    stage.mkdir(parents=True, exist_ok=True)
    try:
        with filelock.FileLock(stage / LOCK_NAME, timeout=0):
            yield stage
    except filelock.Timeout:
        raise
    except BaseException:
        _remove(stage)
        raise
    _remove(stage)


def place_all(stage: Path, moves: Moves) -> None:
    """Give all files their places; after a fault they are where they were. Raises OSError."""
    scratch = stage / f"{MOVES_NAME}.tmp"
    with open(scratch, "w", encoding="utf-8") as stream:
        json.dump([[os.path.relpath(source, stage), target.name] for source, target in moves], stream)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(scratch, stage / MOVES_NAME)
    with contextlib.ExitStack() as undo:
        for source, target in moves:
            os.replace(source, target)
            undo.callback(os.replace, target, source)
        undo.pop_all()


def finish_imports(models_folder: Path) -> None:
    """End the imports that were being placed when the program was killed; what cannot be ended waits."""
    for note in sorted((models_folder / DOWNLOADS_FOLDER).glob(f"{COPY_PREFIX}*/{MOVES_NAME}")):
        try:
            with filelock.FileLock(note.with_name(LOCK_NAME), timeout=0):
                for source, target in _moves_in(note, models_folder):
                    if not os.path.lexists(target) and os.path.lexists(source):
                        check_model_file(source)
                        os.replace(source, target)
            _remove(note.parent)
        except filelock.Timeout:
            continue  # it is under way
        except (OSError, ValueError, TypeError, RecursionError, ModelFileError) as error:
            _log.warning("an import that was interrupted cannot be ended: %s: %s", note, error)


def _moves_in(note: Path, models_folder: Path) -> Moves:
    """What a note says; raises ValueError where it would write anything but models into the models folder."""
    moves = []
    for source, name in json.loads(read_small_file(note, MAX_MOVES_BYTES)):
        if os.path.basename(name) != name or not is_listed_name(name):
            raise ValueError("it names places that no import has")
        moves.append((note.parent / source, models_folder / name))
    return moves


def _remove(stage: Path) -> None:
    shutil.rmtree(stage, ignore_errors=True)
    with contextlib.suppress(OSError):
        stage.parent.rmdir()  # where it is empty
