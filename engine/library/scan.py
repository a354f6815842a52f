"""What lies in the places: one entry a model, whatever state its file is in.

Looks at names and headers only; no weight is read. What is part of a download or of a byte split is no model.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from engine.errors import (
    EngineError,
    MissingShardsError,
    ModelFileError,
    NotGGUFError,
    TruncatedFileError,
    UnsupportedModelError,
)
from engine.gguf import is_listed_name, open_model, present_shards, shard_of
from engine.gguf.quantizations import model_name
from engine.hub.names import is_repository
from engine.library.damage import FileMark, known_damage, mark_of
from engine.library.hashes import key_of
from engine.library.import_stage import finish_imports
from engine.library.places import Origin, Place, is_inside, read_small_file
from engine.loader import tensor_type_name
from engine.model import load_plan

_log = logging.getLogger(__name__)

MAX_DEPTH = 24
MAX_MANIFEST_BYTES = 1 << 20
MAX_MANIFESTS = 10_000
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_OLLAMA_MODEL = "application/vnd.ollama.image.model"
_OLLAMA_PROJECTOR = "application/vnd.ollama.image.projector"
GENERIC_STEM = re.compile(r"(ggml[-_])?model|weights|[0-9a-f]{40,64}", re.I)


class FileState(str, Enum):
    """What can be done with a model as its files are; the value is the state in words."""

    READY = "ready"
    MISSING = "files are missing"
    PARTIAL = "incomplete"
    UNSUPPORTED = "not supported yet"
    DAMAGED = "damaged"
    COMPANION = "an image part, not a chat model"
    UNREADABLE = "cannot be read"
    GONE = "its file is gone"


@dataclass(frozen=True)
class FoundModel:
    """One model on disk.

    Attributes:
        path: the file, or the first shard that is there.
        name: for a person, without the ending and the quantization.
        quantization: "" where neither name nor header tells.
        paths: all files that are there.
        size: bytes of them.
        architecture, num_parameters, context_length: "" and 0 where the header cannot be read.
        problem: one sentence; "" for a model that can be loaded.
        repository: at the hub, as the place of the file tells it; "" where it does not.
    """

    path: Path
    name: str
    origin: Origin
    quantization: str = ""
    paths: tuple[Path, ...] = ()
    size: int = 0
    architecture: str = ""
    num_parameters: int = 0
    context_length: int = 0
    state: FileState = FileState.READY
    problem: str = ""
    repository: str = ""

    @property
    def num_parts(self) -> int:
        """Files that the model consists of, those that are missing included."""
        shard = shard_of(self.path.name)
        return max(shard.count if shard is not None else 1, len(self.paths))


@dataclass(frozen=True)
class _Candidate:
    """A file that may be a model; ``name`` is known only where another program keeps it elsewhere."""

    path: Path
    name: str = ""
    is_companion: bool | None = None  # None: the name tells


class Scanner:
    """Looks through places; keeps what it found, so that a file that has not changed is not opened again."""

    def __init__(self) -> None:
        self._known: dict[tuple[Path, Origin], tuple[object, FoundModel]] = {}
        self._damage: dict[str, tuple[FileMark, str]] = {}
        self._damage_folder: Path | None = None  # the models folder

    def scan(self, places: Iterable[Place]) -> list[FoundModel]:
        """The models of all places, by name; a file that two places show is listed for the first of them.

        A folder that cannot be read holds none; one bad file never hides the others.
        """
        seen: set[str] = set()
        found = []
        places = list(places)
        for place in places:
            if place.origin is Origin.OWN:
                finish_imports(place.folder)
                self._damage_folder = place.folder
        self._damage = known_damage(self._damage_folder) if self._damage_folder is not None else {}
        for place in places:
            for candidate in _candidates(place):
                identity = os.path.realpath(candidate.path)
                if identity not in seen:
                    seen.add(identity)
                    found.append(self._described(candidate, _keeper(candidate.path, place, places)))
        return sorted(found, key=lambda model: (model.name.casefold(), model.quantization, str(model.path)))

    def _described(self, candidate: _Candidate, place: Place) -> FoundModel:
        state = _disk_state(candidate.path)
        key = candidate.path, place.origin
        known = self._known.get(key)
        if known is None or known[0] != state:
            model = describe(candidate.path, place.origin, candidate.name, candidate.is_companion)
            model = replace(model, repository=repository_in(place, candidate.path))
            if model.state is FileState.UNREADABLE:  # what hinders it may go without a trace on the file
                self._known.pop(key, None)
                return model
            known = self._known[key] = (state, model)
        return self._with_damage(known[1])

    def _with_damage(self, model: FoundModel) -> FoundModel:
        """What reading all of it found stands above what its header tells, for the files that were read."""
        if self._damage_folder is None or model.state is not FileState.READY:
            return model
        mark, problem = self._damage.get(key_of(model.path, self._damage_folder), ([], ""))
        is_damaged = bool(problem) and mark == mark_of(model.paths)
        return replace(model, state=FileState.DAMAGED, problem=problem) if is_damaged else model


def describe(
    path: Path, origin: Origin = Origin.OWN, name: str = "", is_companion: bool | None = None
) -> FoundModel:
    """What there is to know about the model at ``path`` without its weights; never raises for a bad file."""
    own_name, quantization = model_name(path)
    paths = _present_files(path)
    model = FoundModel(path, name or own_name, origin, quantization, paths, _total_size(paths))
    if is_companion or (is_companion is None and "mmproj" in path.name.lower()):
        return replace(model, state=FileState.COMPANION)
    if not os.path.exists(path):
        what = f"leads to {os.readlink(path)}, which" if path.is_symlink() else "is named by its program, but"
        return replace(model, state=FileState.GONE, problem=f"{path.name} {what} is not there any more.")
    try:
        with open_model(path) as file:
            architecture = file.architecture
            model = replace(
                model,
                quantization=quantization or tensor_type_name(file),
                architecture=architecture,
                num_parameters=sum(math.prod(tensor.shape) for tensor in file.tensors.values()),
                context_length=file.metadata.integer(f"{architecture}.context_length", 0),
            )
            if architecture == "clip":
                return replace(model, state=FileState.COMPANION)
            load_plan(file)
            return model
    except EngineError as error:
        return replace(model, state=_state_of(error), problem=str(error))
    except OSError as error:
        problem = f"{path.name} cannot be read: {error.strerror or error}."
        return replace(model, state=FileState.UNREADABLE, problem=problem)
    except Exception:
        _log.exception("%s cannot be described", path)
        problem = f"{path.name} cannot be read; the log says more."
        return replace(model, state=FileState.UNREADABLE, problem=problem)


def _state_of(error: EngineError) -> FileState:
    match error:
        case MissingShardsError():
            return FileState.MISSING
        case TruncatedFileError():
            return FileState.PARTIAL
        case UnsupportedModelError():
            return FileState.UNSUPPORTED
        case NotGGUFError():
            return FileState.DAMAGED
        case ModelFileError() if type(error) is ModelFileError:
            return FileState.UNREADABLE
        case _:
            return FileState.DAMAGED


def repository_in(place: Place, path: Path) -> str:
    """The hub's repository that a file is from, where the place keeps files by it; "" elsewhere."""
    try:
        parts = path.relative_to(place.folder).parts
    except ValueError:
        return ""
    name = ""
    if place.origin is Origin.HUGGING_FACE and parts[0].startswith("models--"):
        name = parts[0].removeprefix("models--").replace("--", "/", 1)
    elif place.origin in {Origin.OWN, Origin.LM_STUDIO} and len(parts) > 2:
        name = f"{parts[0]}/{parts[1]}"
    return name if is_repository(name) else ""


def _keeper(path: Path, place: Place, places: Iterable[Place]) -> Place:
    """The place whose folder really holds the file.

    What a linked folder shows within our own is not ours to delete or to complete: it belongs to the program that
    keeps it, or else to the person.
    """
    if place.origin is not Origin.OWN or is_inside(path, place.folder):
        return place
    others = (other for other in places if other.origin is not Origin.OWN and is_inside(path, other.folder))
    return next(others, Place(Origin.PERSON, Path(os.path.realpath(path.parent))))


def _candidates(place: Place) -> Iterator[_Candidate]:
    """The files of a place that may be models; one of each shard set."""
    if place.origin is Origin.OLLAMA:
        yield from _ollama_candidates(place.folder)
        return
    for path in model_files(place.folder):
        yield _Candidate(path, _name_in_place(place, path))


def model_files(folder: Path) -> Iterator[Path]:
    """One path per model below ``folder``, at any depth: the file, or the first shard that a set has here."""
    visited: set[tuple[int, int]] = set()
    for place, folders, names in os.walk(folder, followlinks=True):
        try:
            status = os.stat(place)
        except OSError:
            folders.clear()
            continue
        identity = (status.st_dev, status.st_ino)
        if identity in visited or len(Path(place).relative_to(folder).parts) > MAX_DEPTH:
            folders.clear()  # a ring of links
            continue
        visited.add(identity)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        sets_seen: set[tuple[str, int, str]] = set()
        for name in sorted(names):
            path = os.path.join(place, name)
            is_there = os.path.isfile(path) or (os.path.islink(path) and not os.path.exists(path))
            if not is_listed_name(name) or not is_there:
                continue
            shard = shard_of(name)
            if shard is not None:
                whole = shard.prefix, shard.count, shard.suffix
                if whole in sets_seen:
                    continue
                sets_seen.add(whole)
            yield Path(place) / name


def _name_in_place(place: Place, path: Path) -> str:
    """The name where a program's own layout tells it better than the file's name; else ""."""
    if place.origin is Origin.LLAMA_CPP:  # owner_repository_file
        head, separator, tail = path.name.rpartition("-GGUF_")
        return model_name(Path(tail))[0] if separator and head and tail else ""
    stem = model_name(path)[0]
    if GENERIC_STEM.fullmatch(stem) and path.parent != place.folder:
        return path.parent.name
    return ""


def _ollama_candidates(folder: Path) -> Iterator[_Candidate]:
    """Manifests name the model and the digests of its parts (ollama/ollama docs); a digest is never a path."""
    manifests = folder / "manifests"
    count = 0
    for place, folders, names in os.walk(manifests):
        folders.sort()
        for name in sorted(names):
            count += 1
            if count > MAX_MANIFESTS:
                return
            path = Path(place) / name
            parts = path.relative_to(manifests).parts
            if len(parts) < 2 or name.startswith("."):
                continue
            title = f"{'/'.join(parts[1:-1]).removeprefix('library/')}:{name}".removesuffix(":latest")
            yield from _manifest_candidates(folder, path, title)


def _manifest_candidates(folder: Path, manifest: Path, title: str) -> Iterator[_Candidate]:
    try:
        layers = json.loads(read_small_file(manifest, MAX_MANIFEST_BYTES))["layers"]
        pairs = [(str(layer["mediaType"]), str(layer["digest"])) for layer in layers]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        _log.info("an Ollama manifest is passed over: %s: %s", manifest, error)
        return
    for kind, digest in pairs:
        match = _DIGEST.fullmatch(digest)
        if kind not in {_OLLAMA_MODEL, _OLLAMA_PROJECTOR} or match is None:
            continue
        path = folder / "blobs" / f"sha256-{match[1]}"
        is_companion = kind == _OLLAMA_PROJECTOR
        if path.is_file() or not (is_companion or path.exists()):
            yield _Candidate(path, f"{title} projector" if is_companion else title, is_companion)


def _present_files(path: Path) -> tuple[Path, ...]:
    """The file, or the shards of its set that are there."""
    shard = shard_of(path.name)
    if shard is None:
        return (path,)
    try:
        present = present_shards(shard, os.listdir(path.parent))
    except OSError:
        return (path,)
    return tuple(path.with_name(shard.name_of(number)) for number in present) or (path,)


def _total_size(paths: Iterable[Path]) -> int:
    size = 0
    for path in paths:
        try:
            size += path.stat().st_size
        except OSError:
            continue
    return size


def _disk_state(path: Path) -> object:
    """Changes when a file of the model changes, or who may read it, or when a shard comes or goes."""
    state: list[tuple[str, int, int, int]] = []
    for each in _present_files(path):
        try:
            status = os.stat(each)
        except OSError:
            continue
        state.append((each.name, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
    return state
