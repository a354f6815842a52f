"""What is written down of a move of the models folder, and how the next start ends a move that was killed.

The note lies beside the file that says where the models folder is. While it lies there, files may be in two places;
nothing is deleted that is not in the other place, too.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import filelock

from engine.library.files import is_same_disk
from engine.library.places import MOVE_NAME, point_to, pointed_folder, read_small_file

_log = logging.getLogger(__name__)

MAX_NOTE_BYTES = 1 << 24


@contextlib.contextmanager
def noted_move(old: Path, source: Path, target: Path, links: Mapping[Path, str], default: Path) -> Iterator[None]:
    """Meanwhile the move is noted, and held against other processes. Raises OSError, filelock.Timeout."""
    note = default.with_name(MOVE_NAME)
    note.parent.mkdir(parents=True, exist_ok=True)
    with _held(note):
        content = {
            **{"old": str(old), "source": str(source), "target": str(target)},
            "is_rename": is_same_disk(source, target.parent),
            "links": {str(path): leads_to for path, leads_to in links.items()},
        }
        scratch = note.with_suffix(".tmp")
        scratch.write_text(json.dumps(content), encoding="utf-8")
        os.replace(scratch, note)
        try:
            yield
        finally:
            if os.path.lexists(source) or _is_noted(target, default):  # else it is neither done nor undone
                note.unlink(missing_ok=True)


def finish_move(default: Path) -> None:
    """End a move that was killed: forward where the new folder is whole, else back."""
    note = default.with_name(MOVE_NAME)
    try:
        with _held(note):
            content = json.loads(read_small_file(note, MAX_NOTE_BYTES))
            old, source, target = (Path(content[name]) for name in ("old", "source", "target"))
            if not os.path.lexists(source) and not _is_noted(target, default):
                if content["is_rename"] is not True or not target.is_dir():
                    return  # its disk is not here
                point_to(target, default)
            if _is_noted(target, default):
                mend_links({Path(path): leads_to for path, leads_to in content["links"].items()}, target)
                remove_copies(source, target)
                if old.is_symlink():
                    old.unlink()
            else:
                remove_copies(target, source)
            note.unlink(missing_ok=True)
    except filelock.Timeout:
        return  # it is under way
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        _log.warning("a move of the models folder that was interrupted cannot be ended: %s: %s", note, error)


def mend_links(links: Mapping[Path, str], folder: Path) -> None:
    """Let links in the folder say what they must after its move to lead where they led."""
    for path, leads_to in links.items():
        with contextlib.suppress(OSError):
            (folder / path).unlink()
            os.symlink(leads_to, folder / path)


def remove_copies(folder: Path, whole: Path) -> None:
    """Remove from ``folder`` what ``whole`` has, too, and what is only begun; other files stay."""
    if not whole.is_dir() or os.path.realpath(folder) == os.path.realpath(whole):
        return
    for place, folders, names in os.walk(folder, topdown=False):
        for name in (*names, *folders):
            path = Path(place) / name
            twin = whole / path.relative_to(folder)
            with contextlib.suppress(OSError):
                if path.is_dir() and not path.is_symlink():
                    path.rmdir()  # where it is empty
                elif _is_copy(path, twin) or (path.suffix == ".part" and twin.with_suffix("").exists()):
                    path.unlink()
    with contextlib.suppress(OSError):
        folder.rmdir()


def _is_copy(path: Path, twin: Path) -> bool:
    """Whether both are links, which a move may mend, or files of one size."""
    if path.is_symlink():
        return twin.is_symlink()
    return twin.is_file() and path.lstat().st_size == twin.stat().st_size


def _is_noted(target: Path, default: Path) -> bool:
    """Whether the models folder is the new one already."""
    return os.path.realpath(pointed_folder(default)) == str(target)


@contextlib.contextmanager
def _held(note: Path) -> Iterator[None]:
    lock = note.with_suffix(".lock")
    with filelock.FileLock(lock, timeout=0):
        yield
    lock.unlink(missing_ok=True)
