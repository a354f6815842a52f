from __future__ import annotations

import json
import os
from pathlib import Path

from pytestqt.qtbot import QtBot

from app.library.library import ModelLibrary, entry_of
from app.library.starter import PIN, find_starter
from engine.library import FoundModel, Origin, Place


def test_the_starter_is_the_pinned_file_in_full(tmp_path: Path) -> None:
    facts = json.loads(PIN.read_text(encoding="utf-8"))
    assert find_starter(tmp_path) is None
    path = tmp_path / facts["file_name"]
    path.write_bytes(b"half")
    assert find_starter(tmp_path) is None
    os.truncate(path, facts["num_bytes"])
    assert find_starter(tmp_path) == path
    (tmp_path / "pin.json").write_text("[]", encoding="utf-8")
    assert find_starter(tmp_path, tmp_path / "pin.json") is None


def test_the_library_looks_beside_the_gui_thread(qtbot: QtBot, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "own" / "a.gguf").write_bytes(b"x")
    (tmp_path / "other" / "b-Q4_0.gguf").write_bytes(b"x")
    (tmp_path / "other" / "mmproj-b.gguf").write_bytes(b"x")
    library = ModelLibrary(
        tmp_path / "own", find_places=lambda folders: [Place(Origin.JAN, tmp_path / "other"), *folders]
    )
    with qtbot.waitSignal(library.models_changed), qtbot.waitSignal(library.found) as signal:
        library.scan()
        library.scan()
    entries, starter = signal.args
    assert [(entry.name, entry.detail) for entry in entries] == [("a", "1 kB"), ("b", "Q4_0 · 1 kB · Jan")]
    assert starter is None
    assert len(library.models) == 3
    library.close()
    library.scan()


def test_what_came_during_a_look_is_found_by_the_next(qtbot: QtBot, tmp_path: Path) -> None:
    library = ModelLibrary(tmp_path, find_places=lambda folders: [])
    library.scan()
    (tmp_path / "late.gguf").write_bytes(b"x")
    library.scan()
    qtbot.waitUntil(lambda: [model.name for model in library.models] == ["late"])
    library.close()


def test_an_entry_names_who_keeps_the_model() -> None:
    model = FoundModel(Path("a.gguf"), "a", Origin.LM_STUDIO, "Q4_0", size=4_400_000_000)
    assert entry_of(model).detail == "Q4_0 · 4.4 GB · LM Studio"
