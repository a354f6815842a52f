"""The checksums of finished downloads, kept in the models folder so that files can be verified later."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Mapping
from pathlib import Path

from engine.library.places import read_small_file

MAX_HASHES_BYTES = 1 << 26
HASHES_NAME = ".checksums.json"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_lock = threading.Lock()


def known_hash(path: Path, models_folder: Path) -> str:
    """The SHA-256 that the file should have, in hexadecimal; "" where nobody knows it.

    Other programs name a file's content by its hash: Ollama's ``blobs/sha256-...`` and the Hugging Face cache.
    """
    name = Path(os.path.realpath(path)).name.removeprefix("sha256-")
    if _SHA256.fullmatch(name):
        return name
    return _read(models_folder).get(key_of(path, models_folder), "")


def keep_hashes(hashes: Mapping[Path, str], models_folder: Path) -> None:
    """Remember the hashes of files in the models folder; "" forgets one. Raises OSError."""
    with _lock:
        kept = _read(models_folder)
        for path, digest in hashes.items():
            if digest:
                kept[key_of(path, models_folder)] = digest
            else:
                kept.pop(key_of(path, models_folder), None)
        scratch = models_folder / f"{HASHES_NAME}.tmp"
        scratch.write_text(json.dumps(kept, indent=1, sort_keys=True), encoding="utf-8")
        os.replace(scratch, models_folder / HASHES_NAME)


def key_of(path: Path, models_folder: Path) -> str:
    """What a file is called in notes of the models folder: its place in it, so that the folder may move."""
    try:
        return path.relative_to(models_folder).as_posix().encode("utf-8", "backslashreplace").decode("utf-8")
    except ValueError:
        return str(path)


def _read(models_folder: Path) -> dict[str, str]:
    try:
        stored = json.loads(read_small_file(models_folder / HASHES_NAME, MAX_HASHES_BYTES))
        items = stored.items()
    except (OSError, ValueError, AttributeError, RecursionError):
        return {}
    return {key: digest for key, digest in items if isinstance(digest, str) and _SHA256.fullmatch(digest)}
