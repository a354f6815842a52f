"""What is done with single models of the library: import, verify, delete.

Only our own folder is ever written to. Long work reports how far it is and can be stopped; what it leaves behind
then is as it was before.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from pathlib import Path

import filelock

from engine.errors import DiskFullError, EngineError, ModelFileError
from engine.gguf import check_model_file, is_listed_name, shard_paths
from engine.hub.download_work import reserve_bytes
from engine.hub.transfer import disk_fault
from engine.library.damage import keep_damage, mark_of
from engine.library.hashes import keep_hashes, known_hash
from engine.library.import_names import listed_names
from engine.library.import_stage import import_stage, place_all
from engine.library.places import Origin, is_inside
from engine.library.scan import FoundModel
from engine.sizes import size_text

CHUNK_BYTES = 4 << 20

OnProgress = Callable[[int, int], None]  # bytes done, bytes in all; may raise to stop


class LibraryError(EngineError):
    """Something that the library was asked for cannot be done."""


class DamagedFileError(LibraryError):
    """A file's content is not what it should be."""


class ImportMode(str, Enum):
    """What becomes of the original."""

    COPY = "copy"
    MOVE = "move"
    LINK = "link"


def no_progress(_done: int, _total: int) -> None:
    """Nobody wants to know how far it is."""


def import_model(path: Path, models_folder: Path, mode: ImportMode, on_progress: OnProgress = no_progress) -> Path:
    """Bring a model, with all its shards, into the models folder; returns where it lies then.

    A file whose name would not be listed gets another. Raises ModelFileError for a file that is no sound model,
    LibraryError where the name is taken by another file or a link should be moved, DownloadError in its kinds for
    what the disk refuses.
    """
    sources = shard_paths(path)
    linked = next((source for source in sources if source.is_symlink()), None)
    if mode is ImportMode.MOVE and linked is not None:  # what it leads to is another's, who would find it gone
        raise LibraryError(
            f"{linked.name} is a link to a file kept elsewhere: copy or link it instead of moving it."
        )
    for source in sources:
        check_model_file(source)
    names = listed_names(sources)
    targets = [models_folder / name for name in names]
    if any(source.resolve().is_relative_to(models_folder.resolve()) for source in sources):
        _check_is_listed(path, models_folder, names[list(sources).index(path)] if path in sources else names[0])
        return path
    for source, target in zip(sources, targets, strict=True):
        if os.path.lexists(target) and not (mode is ImportMode.LINK and _is_link_to(target, source)):
            raise LibraryError(f"{target.name} is in the models folder already: rename one of the two files first.")
    try:
        if mode is ImportMode.LINK:
            models_folder.mkdir(parents=True, exist_ok=True)
            on_progress(1, 1)
            _link_all(sources, targets)
        else:
            _bring(sources, targets, models_folder, mode, on_progress)
    except OSError as error:
        raise disk_fault(error, targets[0], sum(source.stat().st_size for source in sources)) from error
    if mode is ImportMode.MOVE:
        for source in sources:
            with contextlib.suppress(OSError):
                source.unlink(missing_ok=True)
    return targets[list(sources).index(path)] if path in sources else targets[0]


def _bring(
    sources: Sequence[Path], targets: Sequence[Path], models_folder: Path, mode: ImportMode, on_progress: OnProgress
) -> None:
    """Move the files where that is a matter of names, or copy them; all get their places together."""
    total = sum(source.stat().st_size for source in sources)
    is_rename = mode is ImportMode.MOVE and all(is_same_disk(source, models_folder) for source in sources)
    check_room(models_folder, 0 if is_rename else total)
    try:
        with import_stage(models_folder, sources[0]) as stage:
            ready, done = list(sources), 0
            if not is_rename:
                for index, source in enumerate(sources):
                    ready[index] = stage / f"{index:05d}.part"
                    copy_file(source, ready[index], lambda n, done=done: on_progress(done + n, total))  # type: ignore[misc]
                    done += source.stat().st_size
            on_progress(total, total)
            place_all(stage, list(zip(ready, targets, strict=True)))
    except filelock.Timeout:
        raise LibraryError(f"{sources[0].name} is being copied already.") from None


def _link_all(sources: Sequence[Path], targets: Sequence[Path]) -> None:
    with contextlib.ExitStack() as undo:
        for source, target in zip(sources, targets, strict=True):
            if not _is_link_to(target, source):
                os.symlink(source.absolute(), target)
                undo.callback(target.unlink)
        undo.pop_all()


def _is_link_to(target: Path, source: Path) -> bool:
    """Whether an import that was killed made this link already."""
    return target.is_symlink() and os.path.realpath(target) == os.path.realpath(source)


def _check_is_listed(path: Path, models_folder: Path, name: str) -> None:
    """A file that lies in the models folder already and is not seen there has to be renamed."""
    *folders, own_name = path.resolve().relative_to(models_folder.resolve()).parts
    if hidden := next((folder for folder in folders if folder.startswith(".")), None):
        raise LibraryError(f"{path.name} lies in {hidden}, which is passed over: move it out of there first.")
    if not is_listed_name(own_name):
        raise LibraryError(f"{own_name} is passed over in the models folder for its name: rename it to {name}.")


def verify(model: FoundModel, models_folder: Path, on_progress: OnProgress = no_progress) -> str:
    """Read all of a model's files; returns what was found in one sentence. Damage is remembered until they change.

    Raises ModelFileError for a bad header, DamagedFileError for a checksum that is not the right one, LibraryError
    for an unreadable disk.
    """
    mark = mark_of(model.paths)
    try:
        text = _verified(model, models_folder, on_progress)
    except (DamagedFileError, ModelFileError) as error:
        keep_damage(model.path, mark, str(error), models_folder)
        raise
    keep_damage(model.path, mark, "", models_folder)
    return text


def _verified(model: FoundModel, models_folder: Path, on_progress: OnProgress) -> str:
    num_known = done = 0
    for path in shard_paths(model.path):
        if path.suffix.lower() == ".gguf" or model.origin is Origin.OLLAMA:
            check_model_file(path)
        digest = hashlib.sha256()
        try:
            with open(path, "rb") as stream:
                while piece := stream.read(CHUNK_BYTES):
                    digest.update(piece)
                    done += len(piece)
                    on_progress(done, max(model.size, done))
        except OSError as error:
            raise LibraryError(
                f"{path.name} cannot be read to its end ({error.strerror or error}): the disk may be failing."
            ) from error
        expected = known_hash(path, models_folder)
        if expected and digest.hexdigest() != expected:
            raise DamagedFileError(f"{path.name} is damaged: its checksum is not the right one. Download it again.")
        num_known += bool(expected)
    if num_known == len(model.paths):
        return f"{model.name} is whole: all {size_text(done)} have the right checksum."
    return f"{model.name} has a sound header and its full size; its checksum is not known, so more cannot be said."


def _size_words(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 1e9 else f"{max(1, round(num_bytes / 1e6))} MB"


def delete(model: FoundModel, models_folder: Path) -> int:
    """Delete a model's files; returns the bytes that are free again: none for a link or one of several names.

    Raises LibraryError for files of another program, those that a linked folder shows, or those that the system
    does not give up.
    """
    if model.origin is not Origin.OWN:
        raise LibraryError(f"{model.name} belongs to {model.origin.value}: delete it there.")
    for path in model.paths:
        if not is_inside(path, models_folder):
            raise LibraryError(
                f"{path.name} lies in {os.path.realpath(path.parent)}, outside the models folder: delete it there."
            )
    freed = 0
    for path in model.paths:
        try:
            status = path.lstat()
            freed += status.st_size if stat.S_ISREG(status.st_mode) and status.st_nlink == 1 else 0
            path.unlink(missing_ok=True)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise LibraryError(f"{path.name} cannot be deleted: {error.strerror or error}.") from error
    with contextlib.suppress(OSError):
        keep_hashes(dict.fromkeys(model.paths, ""), models_folder)
    keep_damage(model.path, [], "", models_folder)
    _remove_empty(model.path.parent, models_folder)
    return freed


def copy_file(source: Path, target: Path, on_bytes: Callable[[int], None]) -> None:
    """Copy a file, with its time, under a name that is no model's until it is whole."""
    part = target if target.suffix == ".part" else target.with_name(f"{target.name}.part")
    try:
        with open(source, "rb") as reading, open(part, "wb") as writing:
            done = 0
            while piece := reading.read(CHUNK_BYTES):
                writing.write(piece)
                done += len(piece)
                on_bytes(done)
            writing.flush()
            os.fsync(writing.fileno())
        status = source.stat()
        os.utime(part, ns=(status.st_atime_ns, status.st_mtime_ns))
        os.replace(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def check_room(folder: Path, num_bytes: int) -> None:
    """Raise DiskFullError where ``num_bytes`` more do not fit beside what the system needs for itself."""
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    missing = num_bytes + reserve_bytes(place) - shutil.disk_usage(place).free
    if num_bytes and missing > 0:
        raise DiskFullError(
            f"{size_text(num_bytes)} do not fit on the disk of {folder}: free {size_text(missing)} first.",
            missing,
        )


def is_same_disk(first: Path, second: Path) -> bool:
    """Whether a rename is enough to bring ``first`` to ``second``, which need not be there yet."""
    place = second
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        return os.stat(first).st_dev == os.stat(place).st_dev
    except OSError:
        return False


def _remove_empty(folder: Path, stop: Path) -> None:
    """Remove folders that a deleted model leaves empty, up to the models folder."""
    while folder != stop and folder.is_relative_to(stop):
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent


def total_size(folders: Iterable[Path]) -> int:
    """Bytes of all files below the folders; links are not followed."""
    size = 0
    for folder in folders:
        for place, _, names in os.walk(folder):
            for name in names:
                with contextlib.suppress(OSError):
                    size += os.lstat(os.path.join(place, name)).st_size
    return size
