"""The move of the whole models folder: all of it lies in the new place then, or all of it in the old one."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from pathlib import Path

import filelock

from engine.hub.transfer import disk_fault
from engine.library.files import LibraryError, OnProgress, check_room, copy_file, is_same_disk, no_progress
from engine.library.move_note import finish_move, mend_links, noted_move, remove_copies
from engine.library.places import MOVE_NAME, point_to

# What systems keep on every disk of their own accord.
_OF_SYSTEMS = re.compile(
    r"lost\+found|System Volume Information|\$RECYCLE\.BIN|\.Trash.*|\.fseventsd|\.Spotlight-V100|\.DS_Store", re.I
)


def move_folder(old: Path, new: Path, default: Path, on_progress: OnProgress = no_progress) -> None:
    """Move everything in the models folder to ``new``, which is used from then on.

    Files are copied first and deleted last, so that a stop or a fault leaves the old folder whole; where only names
    change, they change back. After a kill the next look for the models folder ends it. Links
    within keep leading to what they led to. Raises LibraryError and DownloadError.
    """
    old, new = old.absolute(), new.absolute()
    if new == old:
        return
    if default.with_name(MOVE_NAME).exists():
        finish_move(default)
    source, target = Path(os.path.realpath(old)), Path(os.path.realpath(new))
    try:
        _check_target(source, target)
        links = _links_to_mend(source)
        with noted_move(old, source, target, links, default):
            _move(source, target, new, default, on_progress)
            mend_links(links, target)
            shutil.rmtree(source, ignore_errors=True)
            if old.is_symlink():
                old.unlink(missing_ok=True)
    except filelock.Timeout as error:
        raise LibraryError("The models folder is being moved already.") from error
    except OSError as error:
        raise disk_fault(error, Path(error.filename2 or error.filename or target), 0) from error
    except ValueError as error:
        raise LibraryError(f"{str(new)!r} is no name that can be written down: choose another folder.") from error


def _move(source: Path, target: Path, new: Path, default: Path, on_progress: OnProgress) -> None:
    """All of it lies in the new place, which is used from then on; else it raises, and all is as before."""
    undo = contextlib.ExitStack()
    try:
        _bring(source, target, undo, on_progress)
        point_to(new, default)
    except BaseException:
        try:
            undo.close()
        except OSError as second:
            raise LibraryError(
                f"The models lie in {target} now, which cannot be noted or undone: move them back to {source}."
            ) from second
        raise


def _check_target(source: Path, target: Path) -> None:
    if target.is_relative_to(source) or source.is_relative_to(target):
        raise LibraryError("The new models folder cannot lie inside the old one, or around it: choose another.")
    if os.path.lexists(target) and not target.is_dir():
        raise LibraryError(f"{target} is no folder: choose another one for the models.")
    if target.is_dir() and not all(_OF_SYSTEMS.fullmatch(path.name) for path in target.iterdir()):
        raise LibraryError(f"{target} is not empty: choose an empty folder for the models.")


def _bring(source: Path, target: Path, undo: contextlib.ExitStack, on_progress: OnProgress) -> None:
    """Let ``target`` hold what ``source`` holds; ``undo`` takes it back."""
    target.parent.mkdir(parents=True, exist_ok=True)
    stays = False
    if target.is_dir():  # empty, but for what a disk has of its own
        try:
            target.rmdir()
            undo.callback(target.mkdir, exist_ok=True)
        except OSError:  # a whole disk, which cannot give way
            stays = True
    if not source.exists():
        target.mkdir(exist_ok=True)
        undo.callback(target.rmdir)
    elif not stays and is_same_disk(source, target.parent):
        os.rename(source, target)
        undo.callback(os.rename, target, source)
    else:
        if not stays:
            undo.callback(shutil.rmtree, target, ignore_errors=True)
        undo.callback(remove_copies, target, source)
        _copy_tree(source, target, on_progress)


def _copy_tree(source: Path, target: Path, on_progress: OnProgress) -> None:
    paths = sorted(source.rglob("*"))
    total = sum(path.stat().st_size for path in paths if path.is_file() and not path.is_symlink())
    check_room(target, total)
    target.mkdir(parents=True, exist_ok=True)
    done = 0
    for path in paths:
        copied = target / path.relative_to(source)
        if path.is_symlink():
            os.symlink(os.readlink(path), copied)
        elif path.is_dir():
            copied.mkdir(exist_ok=True)
        elif path.is_file():  # a pipe has nothing to keep, and would be waited for
            copy_file(path, copied, lambda count, done=done: on_progress(done + count, total))  # type: ignore[misc]
            done += path.stat().st_size


def _links_to_mend(folder: Path) -> dict[Path, str]:
    """What links below the folder must say after its move to lead where they lead, by their places in it."""
    mended = {}
    for path in folder.rglob("*"):
        if not path.is_symlink():
            continue
        text = os.readlink(path)
        head, tail = os.path.split(os.path.join(path.parent, text))
        leads_to = os.path.join(os.path.realpath(head), tail)
        is_within = Path(leads_to).is_relative_to(folder)
        if is_within and os.path.isabs(text):
            mended[path.relative_to(folder)] = os.path.relpath(leads_to, path.parent)
        elif not is_within and not os.path.isabs(text):
            mended[path.relative_to(folder)] = leads_to
    return mended
