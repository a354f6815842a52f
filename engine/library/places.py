"""Where models lie on this machine: our own folder, those of other programs, those the person names.

The places of other programs are those that their documentation names for each system. Nothing is created here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path

import platformdirs

from engine.plain_data import dataclass

HOME_VARIABLE = "FIRESIDE_HOME"
POINTER_NAME = "models-folder.txt"  # beside the default folder: where it was moved to
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
    """Where this program keeps models: the default folder, or where the person moved it."""
    default = default or default_models_folder()
    try:
        with open(default.with_name(POINTER_NAME), encoding="utf-8", errors="surrogateescape") as stream:
            text = stream.read(MAX_POINTER_BYTES).strip()
    except OSError:
        return default
    return Path(text) if text and Path(text).is_absolute() else default


def point_to(folder: Path, default: Path | None = None) -> None:
    """Let ``models_folder`` return ``folder`` from now on. Raises OSError."""
    default = default or default_models_folder()
    pointer = default.with_name(POINTER_NAME)
    if folder == default:
        pointer.unlink(missing_ok=True)
        return
    pointer.parent.mkdir(parents=True, exist_ok=True)
    scratch = pointer.with_suffix(".tmp")
    scratch.write_text(str(folder), encoding="utf-8", errors="surrogateescape")
    os.replace(scratch, pointer)


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
