"""What the person set in the window, for those who look for models without it: hub, folders, KV cache.

The app owns the file and writes it; here it is only read, and what in it makes no sense counts as not set.
"""

from __future__ import annotations

import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs

from engine.config import KVType
from engine.library.places import HOME_VARIABLE, Origin, Place, models_folder, other_places, read_small_file

_log = logging.getLogger(__name__)

MAX_SETTINGS_BYTES = 1 << 20


@dataclass(frozen=True)
class AppSettings:
    """The settings that concern models.

    Attributes:
        hub_endpoint: "" is the public hub.
        library_folders: of the person's own, which are looked through, too.
        context_length: tokens; 0 chooses.
        kv_type: how the KV cache stores a value.
    """

    hub_endpoint: str = ""
    library_folders: tuple[Path, ...] = ()
    context_length: int = 0
    kv_type: KVType = "f16"


def config_folder() -> Path:
    """Where settings and the access token's file lie: below ``FIRESIDE_HOME`` when that is set."""
    home = os.environ.get(HOME_VARIABLE, "").strip()
    if home:
        return Path(os.path.expanduser(home)).absolute() / "config"
    return Path(platformdirs.user_config_dir("Fireside", appauthor=False))


def measured_file() -> Path:
    """Where the window keeps what was measured of models that ran."""
    home = os.environ.get(HOME_VARIABLE, "").strip()
    if home:
        return Path(os.path.expanduser(home)).absolute() / "data" / "measured-speeds.json"
    return Path(platformdirs.user_data_dir("Fireside", appauthor=False)) / "measured-speeds.json"


def token_file() -> Path:
    """Where the hub's access token lies when the system has no keyring."""
    return config_folder() / "hub-token"


def read_app_settings(file: Path | None = None) -> AppSettings:
    """The settings as they are now; the defaults where there are none, or none that can be read."""
    path = file or config_folder() / "settings.json"
    try:
        stored = json.loads(read_small_file(path, MAX_SETTINGS_BYTES))
    except FileNotFoundError:
        return AppSettings()
    except (OSError, ValueError, RecursionError) as error:
        _log.warning("the settings of the window cannot be read: %s: %s", path, error)
        return AppSettings()
    if not isinstance(stored, dict):
        return AppSettings()
    endpoint, context_length = stored.get("hub_endpoint"), stored.get("context_length")
    return AppSettings(
        endpoint.strip() if isinstance(endpoint, str) else "",
        _folders(stored.get("library_folders")),
        context_length if type(context_length) is int and 0 <= context_length <= 1 << 24 else 0,
        "q8_0" if stored.get("kv_type") == "q8_0" else "f16",
    )


def all_places() -> list[Place]:
    """The models folder, the person's own folders, and those of other programs."""
    return [Place(Origin.OWN, models_folder()), *other_places(read_app_settings().library_folders)]


def _folders(value: Any) -> tuple[Path, ...]:
    """A list of absolute paths, which the app keeps as JSON within the JSON."""
    try:
        names = json.loads(value) if isinstance(value, str) and value else []
    except (ValueError, RecursionError):
        return ()
    names = names if isinstance(names, list) else []
    return tuple(Path(name) for name in names if isinstance(name, str) and Path(name).is_absolute())
