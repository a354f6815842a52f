"""Where the app keeps things: data, settings, caches and models.

Only what can be made again lives in the cache folder. Nothing is created here; who writes creates.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import platformdirs

APP_NAME = "Fireside"
HOME_VARIABLE = "FIRESIDE_HOME"


@dataclass(frozen=True)
class AppPaths:
    """The app's folders.

    Attributes:
        data: chats, logs and markers; lost only when the person deletes it.
        config: settings.
        cache: what can be made again.
        models: model files, at any depth.
    """

    data: Path
    config: Path
    cache: Path
    models: Path

    @classmethod
    def default(cls) -> AppPaths:
        """The person's folders, or all below ``FIRESIDE_HOME`` when that is set."""
        home = os.environ.get(HOME_VARIABLE, "").strip()
        if home:
            return cls.below(Path(home))
        folders = platformdirs.PlatformDirs(APP_NAME, appauthor=False, roaming=False)
        data = Path(folders.user_data_dir)
        return cls(data, Path(folders.user_config_dir), Path(folders.user_cache_dir), data / "models")

    @classmethod
    def below(cls, home: Path) -> AppPaths:
        """All folders below one."""
        home = home.expanduser().absolute()
        return cls(home / "data", home / "config", home / "cache", home / "models")

    @property
    def database(self) -> Path:
        """The file that holds the chats."""
        return self.data / "chats.db"

    @property
    def attachments(self) -> Path:
        """The texts that are attached to messages."""
        return self.data / "attachments"

    @property
    def extractions(self) -> Path:
        """The results of extractions."""
        return self.data / "extractions"

    @property
    def measured_figures(self) -> Path:
        """The file with what was measured of models; ``engine.library.app_settings`` knows it, too."""
        return self.data / "measured-speeds.json"

    @property
    def schemas(self) -> Path:
        """The schemas that the person saved."""
        return self.data / "schemas"

    @property
    def settings_file(self) -> Path:
        """The file that holds the settings."""
        return self.config / "settings.json"

    @property
    def log_file(self) -> Path:
        """What went wrong, for a person to send along with a report."""
        return self.data / "fireside.log"

    @property
    def lock_file(self) -> Path:
        """Held by the one running app."""
        return self.data / "fireside.lock"

    @property
    def run_marker(self) -> Path:
        """Exists while the app runs; found at a start it means that the last run did not end by itself."""
        return self.data / "running.txt"

    @property
    def snapshots(self) -> Path:
        """What the engine keeps of the chats it has read."""
        return self.cache / "snapshots"

    @property
    def loading_marker(self) -> Path:
        """Exists while a model loads; found at a start it means that the load ended the process."""
        return self.data / "loading-model.txt"
