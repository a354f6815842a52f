"""The models folder moves as a whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import EngineError
from engine.library import folder_move as move_module
from engine.library import models_folder
from engine.library.files import LibraryError
from engine.library.folder_move import move_folder
from engine.library.places import MOVE_NAME, POINTER_NAME, damaged_pointer

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    return folder


@pytest.fixture
def mount_point(tmp_path: Path) -> Iterator[Path]:
    """A folder that is a whole disk, and so can be neither removed nor renamed."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        pytest.skip("needs the right to mount")
    place = tmp_path / "mounted"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", place], capture_output=True).returncode:
        pytest.skip("needs the right to mount")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


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


KILLED = """
import os, sys
from pathlib import Path
import engine.library.folder_move as move
import engine.library.move_note as note
is_same_disk, end = sys.argv[4] == "True", sys.argv[5]
move.is_same_disk = note.is_same_disk = lambda first, second: is_same_disk
def die(*_, **__):
    os._exit(9)
real = os.replace
left = [3 if end == "copy" else 0]
def replace(source, target):
    real(source, target)
    left[0] -= 1
    if not left[0]:
        die()
os.replace = replace
if end == "point":
    move.point_to = die
elif end == "remove":
    move.shutil.rmtree = move.mend_links = die
move.move_folder(*map(Path, sys.argv[1:4]))
"""


@pytest.mark.parametrize(
    ("is_same_disk", "end"),
    [(True, "point"), (True, "remove"), (False, "copy"), (False, "point"), (False, "remove")],
)
@pytest.mark.parametrize("has_others", [False, True])
def test_a_move_that_is_killed_is_ended_at_the_next_look(
    tmp_path: Path, folder: Path, is_same_disk: bool, end: str, has_others: bool
) -> None:
    """Whatever the moment, all models are in the folder that is used, and none of them twice."""
    for number in range(4):
        _file(folder / "acme" / f"{number}.gguf")
    (folder / "link.gguf").symlink_to(folder / "acme" / "0.gguf")
    new = tmp_path / "disk" / "models"
    command = [sys.executable, "-c", KILLED, str(folder), str(new), str(folder), str(is_same_disk), end]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 9
    if has_others and new.exists():
        _file(new / "mine.gguf")
    used = models_folder(folder)
    assert used == (folder if not is_same_disk and end != "remove" else new)
    other = new if used == folder else folder
    names = {path.relative_to(used).as_posix() for path in used.rglob("*.gguf")}
    mine = ["mine.gguf"] * (has_others and used == new)
    assert names == {"link.gguf", *(f"acme/{number}.gguf" for number in range(4)), *mine}
    assert (used / "link.gguf").read_bytes() == b"weights"
    assert [path.name for path in other.rglob("*.gguf")] == ["mine.gguf"] * (has_others and used == folder)
    assert not (tmp_path / MOVE_NAME).exists()
    if not has_others:
        move_folder(used, other, folder)
        assert models_folder(folder) == other


def test_a_copy_whose_source_is_out_of_reach_waits_for_it(tmp_path: Path, folder: Path) -> None:
    """The disk of the old folder is not connected: what came of the copy is not all of it."""
    _file(folder / "acme" / "a.gguf")
    new, away = tmp_path / "new", tmp_path / "away"
    command = [sys.executable, "-c", KILLED, str(folder), str(new), str(tmp_path / "x"), "False", "point"]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 9
    folder.rename(away)
    assert models_folder(tmp_path / "x") == tmp_path / "x"
    assert (new / "acme" / "a.gguf").exists()
    away.rename(folder)
    assert models_folder(tmp_path / "x") == tmp_path / "x"
    assert (folder / "acme" / "a.gguf").exists()
    assert not new.exists()


@pytest.mark.parametrize(
    "note", [b"", b"[]", b"5", b'{"old": 5}', b'{"old": "/a", "source": "/b", "target": "/c"}']
)
def test_a_note_of_a_move_that_makes_no_sense_does_nothing(tmp_path: Path, folder: Path, note: bytes) -> None:
    path = _file(folder / "a.gguf")
    (tmp_path / MOVE_NAME).write_bytes(note)
    assert models_folder(folder) == folder
    assert path.exists()


def test_a_move_onto_a_whole_disk(tmp_path: Path, folder: Path, mount_point: Path) -> None:
    _file(folder / "acme" / "a.gguf")
    (mount_point / "lost+found").mkdir()
    move_folder(folder, mount_point, folder)
    assert models_folder(folder) == mount_point
    assert (mount_point / "acme" / "a.gguf").read_bytes() == b"weights"
    assert not folder.exists()


def test_a_move_onto_a_whole_disk_that_stops_leaves_it_empty(
    tmp_path: Path, folder: Path, mount_point: Path
) -> None:
    def stop(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    path = _file(folder / "acme" / "a.gguf")
    with pytest.raises(KeyboardInterrupt):
        move_folder(folder, mount_point, folder, stop)
    assert path.exists()
    assert not list(mount_point.iterdir())


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
