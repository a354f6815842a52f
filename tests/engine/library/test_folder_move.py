"""The models folder moves as a whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.errors import EngineError
from engine.library import folder_move as move_module
from engine.library import models_folder
from engine.library.files import LibraryError
from engine.library.folder_move import move_folder
from engine.library.places import POINTER_NAME, damaged_pointer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    return folder


def _file(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"weights")
    return path


@pytest.mark.parametrize("is_same_disk", [True, False])
def test_the_models_folder_moves(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, is_same_disk: bool
) -> None:
    monkeypatch.setenv("FIRESIDE_HOME", str(tmp_path))
    monkeypatch.setattr(move_module, "is_same_disk", lambda first, second: is_same_disk)
    path = _file(folder / "acme" / "a.gguf")
    content = path.read_bytes()
    (folder / ".downloads").mkdir()
    new = tmp_path / "new disk" / "models"
    move_folder(folder, new, tmp_path / "models")
    assert (new / "acme" / "a.gguf").read_bytes() == content
    assert (new / ".downloads").is_dir()
    assert not folder.exists()
    assert models_folder() == new
    move_folder(new, folder, tmp_path / "models")
    assert models_folder() == folder


def test_a_move_that_stops_leaves_the_old_folder(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(move_module, "is_same_disk", lambda first, second: False)
    path = _file(folder / "a.gguf")

    def stop(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        move_folder(folder, tmp_path / "new", folder, stop)
    assert path.exists()
    assert not (tmp_path / "new").exists()


def test_a_move_to_a_foolish_place_is_refused(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    os.symlink("loop", tmp_path / "loop")
    for new in (folder / "inside", tmp_path, tmp_path / "full", tmp_path / "full" / "x", tmp_path / "loop"):
        with pytest.raises(LibraryError):
            move_folder(folder, new, folder)


@pytest.mark.parametrize("is_same_disk", [True, False])
@pytest.mark.parametrize("has_target", [True, False])
def test_a_place_that_cannot_be_noted_gets_nothing(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, is_same_disk: bool, has_target: bool
) -> None:
    monkeypatch.setattr(move_module, "is_same_disk", lambda first, second: is_same_disk)
    path = _file(folder / "acme" / "a.gguf")
    new = tmp_path / "new"
    if has_target:
        new.mkdir()
    (tmp_path / "models-folder.tmp").mkdir()  # the pointer cannot be written
    with pytest.raises(EngineError, match=r"models-folder\.tmp cannot be written"):
        move_folder(folder, new, folder)
    assert path.read_bytes() == b"weights"
    assert new.exists() == has_target
    assert not has_target or not list(new.iterdir())
    assert models_folder(folder) == folder


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
@pytest.mark.parametrize("name", ["new ", " new", "new\n", "ne\nw", "new\r\n", "\t", "\udcff"])
def test_the_new_name_may_be_odd(tmp_path: Path, folder: Path, name: str) -> None:
    _file(folder / "a.gguf")
    move_folder(folder, tmp_path / name, folder)
    assert models_folder(folder) == tmp_path / name
    assert (models_folder(folder) / "a.gguf").read_bytes() == b"weights"


@pytest.mark.parametrize("is_same_disk", [True, False])
def test_a_linked_models_folder_brings_its_files(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, is_same_disk: bool
) -> None:
    monkeypatch.setattr(move_module, "is_same_disk", lambda first, second: is_same_disk)
    folder.rmdir()
    _file(tmp_path / "real" / "a.gguf")
    os.symlink("real", folder)
    new = tmp_path / "deep" / "new"
    move_folder(folder, new, folder)
    assert (new / "a.gguf").read_bytes() == b"weights"
    assert not new.is_symlink()
    assert not os.path.lexists(folder)
    assert not (tmp_path / "real").exists()


@pytest.mark.parametrize("is_same_disk", [True, False])
def test_links_within_lead_to_what_they_led_to(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, is_same_disk: bool
) -> None:
    monkeypatch.setattr(move_module, "is_same_disk", lambda first, second: is_same_disk)
    outside, inside = _file(tmp_path / "outside.gguf"), _file(folder / "inside.gguf")
    links = {"out": "../outside.gguf", "far": str(outside), "near": "inside.gguf", "round": str(inside)}
    for name, target in links.items():
        os.symlink(target, folder / name)
    new = tmp_path / "deep" / "new"
    move_folder(folder, new, folder)
    led = {name: os.path.realpath(new / name) for name in links}
    there, here = os.path.realpath(outside), os.path.realpath(new / "inside.gguf")
    assert led == {"out": there, "far": there, "near": here, "round": here}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_does_not_hold_up_the_move(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(move_module, "is_same_disk", lambda first, second: False)
    _file(folder / "a.gguf")
    os.mkfifo(folder / "pipe")
    move_folder(folder, tmp_path / "new", folder)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.gguf"]


@pytest.mark.parametrize(
    "content", [b"/tmp/a\0b", b"", b"  \n", b"relative/path", b"/tmp/\xff\xfe", b"\0", b"/" + b"x" * (1 << 15)]
)
def test_a_damaged_pointer_counts_as_absent_and_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    (tmp_path / POINTER_NAME).write_bytes(content)
    assert models_folder(tmp_path / "models") == tmp_path / "models"
    assert models_folder(tmp_path / "models") == tmp_path / "models"
    (record,) = caplog.records
    assert str(tmp_path / POINTER_NAME) in record.getMessage()
    assert damaged_pointer(tmp_path / "models") == tmp_path / POINTER_NAME


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pointer_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / POINTER_NAME)
    assert models_folder(tmp_path / "models") == tmp_path / "models"


def test_a_pointer_written_by_hand_is_understood(tmp_path: Path) -> None:
    for text in (f"{tmp_path}\r\n", f" {tmp_path} \n\n", str(tmp_path)):
        (tmp_path / POINTER_NAME).write_bytes(text.encode())
        assert models_folder(tmp_path / "models") == tmp_path
    (tmp_path / POINTER_NAME).write_text("/not/connected\n" if os.name != "nt" else "Q:\\not\n")
    assert models_folder(tmp_path / "models") == Path("/not/connected" if os.name != "nt" else "Q:\\not")
    assert damaged_pointer(tmp_path / "models") is None
