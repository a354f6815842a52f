"""The move of the whole models folder: all of it lies in the new place then, or all of it in the old one."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from engine.hub.transfer import disk_fault
from engine.library.files import LibraryError, OnProgress, check_room, copy_file, is_same_disk, no_progress
from engine.library.places import point_to


def move_folder(old: Path, new: Path, default: Path, on_progress: OnProgress = no_progress) -> None:
    """Move everything in the models folder to ``new``, which is used from then on.

    Files are copied first and deleted last, so that a stop or a fault leaves the old folder whole; where only names
    change, they change back. Links within keep leading to what they led to. Raises LibraryError and DownloadError.
    """
    old, new = old.absolute(), new.absolute()
    if new == old:
        return
    source, target = Path(os.path.realpath(old)), Path(os.path.realpath(new))
    undo = contextlib.ExitStack()
    try:
        _check_target(source, target)
        links = _links_to_mend(source)
        _bring(source, target, undo, on_progress)
        point_to(new, default)
    except BaseException as error:
        try:
            undo.close()
        except OSError as second:
            raise LibraryError(
                f"The models lie in {target} now, which cannot be noted or undone: move them back to {source}."
            ) from second
        if isinstance(error, OSError):
            raise disk_fault(error, Path(error.filename2 or error.filename or target), 0) from error
        if isinstance(error, ValueError):
            raise LibraryError(
                f"{str(new)!r} is no name that can be written down: choose another folder."
            ) from error
        raise
    for path, leads_to in links.items():
        with contextlib.suppress(OSError):
            (target / path).unlink()
            os.symlink(leads_to, target / path)
    shutil.rmtree(source, ignore_errors=True)
    if old.is_symlink():
        old.unlink(missing_ok=True)


def _check_target(source: Path, target: Path) -> None:
    if target.is_relative_to(source) or source.is_relative_to(target):
        raise LibraryError("The new models folder cannot lie inside the old one, or around it: choose another.")
    if os.path.lexists(target) and not target.is_dir():
        raise LibraryError(f"{target} is no folder: choose another one for the models.")
    if target.is_dir() and any(target.iterdir()):
        raise LibraryError(f"{target} is not empty: choose an empty folder for the models.")


def _bring(source: Path, target: Path, undo: contextlib.ExitStack, on_progress: OnProgress) -> None:
    """Let ``target`` hold what ``source`` holds; ``undo`` takes it back."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_dir():  # empty
        target.rmdir()
        undo.callback(target.mkdir, exist_ok=True)
    if not source.exists():
        target.mkdir()
        undo.callback(target.rmdir)
    elif is_same_disk(source, target.parent):
        os.rename(source, target)
        undo.callback(os.rename, target, source)
    else:
        undo.callback(shutil.rmtree, target, ignore_errors=True)
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
            copied.mkdir()
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
