"""What reading all of a file found stays known: over a restart, in the terminal, and until the file changes."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from engine.library import FileState, FoundModel, Origin, Place, Scanner
from engine.library import damage as damage_module
from engine.library.damage import DAMAGE_NAME
from engine.library.files import DamagedFileError, delete, verify
from engine.library.folder_move import move_folder
from engine.library.hashes import keep_hashes
from tests.tiny_models import write_tiny_model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    return folder


def _scan(folder: Path, origin: Origin = Origin.OWN, place: Path | None = None) -> FoundModel:
    """As a program that has just begun sees it."""
    places = [Place(Origin.OWN, folder)] + ([Place(origin, place)] if place is not None else [])
    (model,) = Scanner().scan(places)
    return model


def _flip(path: Path) -> None:
    """Another last byte, as a failing disk gives it: neither size nor time change."""
    status = path.stat()
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def _damaged(path: Path, folder: Path) -> FoundModel:
    keep_hashes({path: hashlib.sha256(path.read_bytes()).hexdigest()}, folder)
    model = _scan(folder)
    assert model.state is FileState.READY, model.problem
    _flip(path)
    with pytest.raises(DamagedFileError):
        verify(model, folder)
    return _scan(folder)


def test_damage_is_known_after_a_restart_until_the_file_is_right(folder: Path) -> None:
    path = write_tiny_model("llama", folder)
    model = _damaged(path, folder)
    assert (model.state, "checksum is not the right one" in model.problem) == (FileState.DAMAGED, True)
    _flip(path)  # it is right again, and only reading all of it tells
    assert _scan(folder).state is FileState.DAMAGED
    verify(model, folder)
    assert _scan(folder).state is FileState.READY


def test_damage_is_forgotten_with_the_file(folder: Path) -> None:
    path = write_tiny_model("llama", folder)
    content = path.read_bytes()
    model = _damaged(path, folder)
    path.write_bytes(content)  # fetched again
    assert _scan(folder).state is FileState.READY
    delete(model, folder)
    assert path.name not in (folder / DAMAGE_NAME).read_text()


@pytest.mark.parametrize("is_same_disk", [True, False])
def test_damage_moves_with_the_folder(folder: Path, monkeypatch: pytest.MonkeyPatch, is_same_disk: bool) -> None:
    _damaged(write_tiny_model("llama", folder), folder)
    monkeypatch.setattr("engine.library.folder_move.is_same_disk", lambda first, second: is_same_disk)
    new = folder.parent / "new"
    move_folder(folder, new, folder)
    assert _scan(new).state is FileState.DAMAGED


def test_nothing_is_written_beside_other_programs_files(tmp_path: Path, folder: Path) -> None:
    cache = tmp_path / "hub" / "models--acme--m"
    (cache / "blobs").mkdir(parents=True)
    (cache / "snapshots" / "a").mkdir(parents=True)
    model_path = write_tiny_model("llama", cache / "blobs")
    blob = model_path.rename(cache / "blobs" / hashlib.sha256(model_path.read_bytes()).hexdigest())
    (cache / "snapshots" / "a" / "m.gguf").symlink_to(blob)
    before = sorted(cache.rglob("*"))
    model = _scan(folder, Origin.HUGGING_FACE, tmp_path / "hub")
    _flip(blob)
    with pytest.raises(DamagedFileError):
        verify(model, folder)
    assert _scan(folder, Origin.HUGGING_FACE, tmp_path / "hub").state is FileState.DAMAGED
    assert sorted(cache.rglob("*")) == before


def test_where_nothing_can_be_kept_it_is_known_till_the_end(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(damage_module, "DAMAGE_NAME", "none/.damaged.json")
    assert _damaged(write_tiny_model("llama", folder), folder).state is FileState.DAMAGED


@pytest.mark.parametrize(
    "note", [b"", b"[", b"5", b'{"m.gguf": 5}', b'{"m.gguf": [5, 5]}', b'{"m.gguf": [[], ""]}']
)
def test_a_note_that_makes_no_sense_says_nothing(folder: Path, note: bytes) -> None:
    write_tiny_model("llama", folder)
    (folder / DAMAGE_NAME).write_bytes(note.replace(b"m.gguf", next(folder.glob("*.gguf")).name.encode()))
    assert _scan(folder).state is FileState.READY
