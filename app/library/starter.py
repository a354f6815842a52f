"""The starter model: small enough for every machine, obtained together with the app."""

from __future__ import annotations

import json
import logging
from pathlib import Path

_log = logging.getLogger(__name__)

PIN = Path(__file__).resolve().parents[2] / "resources" / "starter_model.json"


def find_starter(models_folder: Path, pin: Path = PIN) -> Path | None:
    """The starter model's file in the models folder; None while it is not there in full."""
    try:
        facts = json.loads(pin.read_text(encoding="utf-8"))
        path = models_folder / str(facts["file_name"])
        return path if path.stat().st_size == facts["num_bytes"] else None
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        _log.warning("the starter model cannot be looked up: %s", error)
        return None
