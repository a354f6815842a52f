"""Where models lie on this machine: our own folder, those of other programs, those the person names.

The places of other programs are those that their documentation names for each system. Nothing is created here.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path

import platformdirs

from engine.plain_data import dataclass

_log = logging.getLogger(__name__)
_told: set[str] = set()  # what was logged already

HOME_VARIABLE = "FIRESIDE_HOME"
POINTER_NAME = "models-folder.txt"  # beside the default folder: where it was moved to
MOVE_NAME = "models-folder.moving"  # beside it, too, while it moves
MAX_POINTER_BYTES = 1 << 14


class Origin(str, Enum):
    """Who keeps a model; the value is the name for a person."""

    OWN = "Fireside"
    PERSON = "your folder"
    HUGGING_FACE = "Hugging Face cache"
    LM_STUDIO = "LM Studio"
    OLLAMA = "Ollama"
    LLAMA_CPP = "llama.cpp"
    JAN = "Jan"
    GPT4ALL = "GPT4All"


@dataclass(frozen=True)
class Place:
    """A folder with models, looked through at any depth."""

    origin: Origin
    folder: Path


def is_inside(path: Path, folder: Path) -> bool:
    """Whether ``path`` lies in ``folder`` itself, not behind a link to another; it may be a link."""
    return Path(os.path.realpath(path.parent)).is_relative_to(os.path.realpath(folder))


def default_models_folder() -> Path:
    """Below ``FIRESIDE_HOME`` when that is set, else in the person's data folder."""
    home = os.environ.get(HOME_VARIABLE, "").strip()
    if home:
        return Path(os.path.expanduser(home)).absolute() / "models"
    return Path(platformdirs.user_data_dir("Fireside", appauthor=False)) / "models"


def models_folder(default: Path | None = None) -> Path:
    """Where this program keeps models: the default folder, or where the person moved it.

    A file that should say where and does not counts as absent; the log says so once. A move that was killed is
    ended.
    """
    default = default or default_models_folder()
    if os.path.lexists(default.with_name(MOVE_NAME)):
        from engine.library.move_note import finish_move

        finish_move(default)
    folder, fault = _pointed_folder(default)
    if fault and fault not in _told:
        _told.add(fault)
        _log.warning("%s", fault)
    return folder


def pointed_folder(default: Path) -> Path:
    """What the file beside the default folder says, and nothing else happens."""
    return _pointed_folder(default)[0]


def damaged_pointer(default: Path | None = None) -> Path | None:
    """The file that should say where the models folder is and does not; None where all is well."""
    default = default or default_models_folder()
    return default.with_name(POINTER_NAME) if _pointed_folder(default)[1] else None


def _pointed_folder(default: Path) -> tuple[Path, str]:
    """The models folder, and one sentence on a pointer that is of no use ("" for a good one, or none)."""
    pointer = default.with_name(POINTER_NAME)
    try:
        text = read_small_file(pointer, MAX_POINTER_BYTES).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return default, ""
    except OSError as error:
        return default, f"{pointer} cannot be read ({error.strerror or error}), so the models folder is {default}."
    # The name may end in white space; a file that was written by hand may have more of it.
    exact = text.removesuffix("\n")
    folder = exact if os.path.isabs(exact) and _is_folder(exact) else text.strip()
    # One that is not there may be on a disk that is not connected; bytes that are no text are then only damage.
    is_text = not any("\ud800" <= character <= "\udfff" for character in folder)
    if os.path.isabs(folder) and "\0" not in folder and (is_text or _is_folder(folder)):
        return Path(folder), ""
    return default, (
        f"{pointer} does not name a folder, so the models folder is {default}: write the full path of the right "
        "one into that file, or delete it."
    )


def _is_folder(name: str) -> bool:
    return "\0" not in name and os.path.isdir(name)


def point_to(folder: Path, default: Path | None = None) -> None:
    """Let ``models_folder`` return ``folder`` from now on. Raises OSError; ValueError for what is no text."""
    default = default or default_models_folder()
    pointer = default.with_name(POINTER_NAME)
    if folder == default:
        pointer.unlink(missing_ok=True)
        return
    content = f"{folder}\n".encode("utf-8", "surrogateescape")
    pointer.parent.mkdir(parents=True, exist_ok=True)
    scratch = pointer.with_suffix(".tmp")
    scratch.write_bytes(content)
    os.replace(scratch, pointer)


def read_small_file(path: Path, max_bytes: int) -> bytes:
    """The content of an ordinary file. Raises OSError, also for one that is too long.

    A pipe or a device is never opened: it could wait for ever.
    """
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not an ordinary file", str(path))
    if status.st_size > max_bytes:
        raise OSError(errno.EFBIG, "it is too long", str(path))
    with open(path, "rb") as stream:
        return stream.read(max_bytes)


def other_places(person_folders: Iterable[Path] = ()) -> list[Place]:
    """The person's own folders and those of other programs, as far as they are there; each folder once."""
    candidates = [Place(Origin.PERSON, folder) for folder in person_folders]
    candidates += [Place(origin, folder) for origin, folder in _program_folders()]
    places: dict[str, Place] = {}
    for place in candidates:
        if os.path.isdir(place.folder):
            places.setdefault(os.path.realpath(place.folder), place)
    return list(places.values())


def _program_folders() -> Iterator[tuple[Origin, Path]]:
    home = Path.home()
    yield Origin.HUGGING_FACE, _hugging_face_cache(home)
    yield Origin.LM_STUDIO, home / ".lmstudio" / "models"
    yield Origin.LM_STUDIO, home / ".cache" / "lm-studio" / "models"
    if configured := os.environ.get("OLLAMA_MODELS", "").strip():
        yield Origin.OLLAMA, Path(configured)
    yield Origin.OLLAMA, home / ".ollama" / "models"
    if sys.platform.startswith("linux"):
        yield Origin.OLLAMA, Path("/usr/share/ollama/.ollama/models")
    yield Origin.LLAMA_CPP, _llama_cpp_cache(home)
    if sys.platform == "win32":
        roaming = Path(os.environ.get("APPDATA", home / "AppData" / "Roaming"))
        local = Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local"))
        data, gpt4all = roaming / "Jan" / "data", local / "nomic.ai" / "GPT4All"
    elif sys.platform == "darwin":
        support = home / "Library" / "Application Support"
        data, gpt4all = support / "Jan" / "data", support / "nomic.ai" / "GPT4All"
    else:
        shared = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
        data, gpt4all = shared / "Jan" / "data", shared / "nomic.ai" / "GPT4All"
    yield Origin.JAN, data / "llamacpp" / "models"
    yield Origin.JAN, data / "models"
    yield Origin.JAN, home / "jan" / "models"
    yield Origin.GPT4ALL, gpt4all


def _hugging_face_cache(home: Path) -> Path:
    if configured := os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE"):
        return Path(configured)
    if configured := os.environ.get("HF_HOME"):
        return Path(configured) / "hub"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "huggingface" / "hub"


def _llama_cpp_cache(home: Path) -> Path:
    if configured := os.environ.get("LLAMA_CACHE"):
        return Path(configured)
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "llama.cpp"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local")) / "llama.cpp"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "llama.cpp"
