from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from pytestqt.qtbot import QtBot

from app.library.discovery import describe, find_models, model_files
from app.library.library import ModelLibrary
from app.library.starter import PIN, find_starter


def _touch(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def _found(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in model_files(folder)}


def test_models_at_any_depth_one_row_per_set(tmp_path: Path) -> None:
    _touch(
        tmp_path, "a.gguf", "b.GGUF", "x/y/z/Модель 日本 😀.gguf",
        "set/m-00001-of-00003.gguf", "set/m-00002-of-00003.gguf", "set/m-00003-of-00003.gguf",
        "set/n-00002-of-00002.gguf", "other/m-00001-of-00002.gguf", "other/m-00001-of-00003.gguf",
    )  # fmt: skip
    assert _found(tmp_path) == {
        "a.gguf", "b.GGUF", "x/y/z/Модель 日本 😀.gguf", "set/m-00001-of-00003.gguf", "set/n-00002-of-00002.gguf",
        "other/m-00001-of-00002.gguf", "other/m-00001-of-00003.gguf",
    }  # fmt: skip


def test_what_is_no_model_is_not_listed(tmp_path: Path) -> None:
    _touch(
        tmp_path, "a.gguf.part", "b.gguf.part1of2", "c.part1of2.gguf", "d.gguf.split-aa", "e.gguf.tmp",
        "f.tmp.gguf", "g.gguf.incomplete", "h.incomplete.gguf", ".fetch-1/model.gguf", ".hidden.gguf", "._a.gguf",
        "notes.txt", "mmproj-model-f16.gguf", "gguf", ".gguf",
    )  # fmt: skip
    (tmp_path / "folder.gguf").mkdir()
    assert _found(tmp_path) == set()


def test_links_do_not_loop_and_missing_folders_are_empty(tmp_path: Path) -> None:
    _touch(tmp_path, "real/a.gguf")
    os.symlink(tmp_path, tmp_path / "real" / "up")
    os.symlink(tmp_path / "nowhere.gguf", tmp_path / "dangling.gguf")
    assert _found(tmp_path) == {"real/a.gguf"}
    assert find_models(tmp_path / "absent") == []
    assert find_models(tmp_path / "real" / "a.gguf") == []


def test_unreadable_models_are_listed_with_their_problem(tmp_path: Path) -> None:
    _touch(tmp_path, "m-00001-of-00002.gguf")
    (tmp_path / "page.gguf").write_bytes(b"<!DOCTYPE html><html>" * 50)
    (tmp_path / "empty.gguf").write_bytes(b"")
    entries = {entry.path.name: entry for entry in find_models(tmp_path)}
    assert set(entries) == {"m-00001-of-00002.gguf", "page.gguf", "empty.gguf"}
    assert "missing" in entries["m-00001-of-00002.gguf"].problem
    for entry in entries.values():
        assert entry.problem
        assert entry.detail


def test_a_real_model_is_named_and_measured(smollm2_path: Path, gemma3_path: Path) -> None:
    entry = describe(smollm2_path)
    assert (entry.name, entry.detail, entry.problem) == ("SmolLM2-135M-Instruct", "Q4_1 · 98 MB", "")
    entry = describe(gemma3_path)
    assert (entry.name, entry.detail, entry.problem) == ("gemma-3-270m", "Q4_K_M · 253 MB", "")


def test_a_name_without_a_type_gets_it_from_the_header(smollm2_path: Path, tmp_path: Path) -> None:
    os.symlink(smollm2_path, tmp_path / "mine.gguf")
    assert describe(tmp_path / "mine.gguf").detail == "Q4_1 · 98 MB"


def test_a_changed_file_is_looked_at_again(tmp_path: Path, smollm2_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"broken")
    described: dict[Path, tuple[object, object]] = {}
    assert find_models(tmp_path, described)[0].problem  # type: ignore[arg-type]
    assert find_models(tmp_path, described)[0].problem  # type: ignore[arg-type]
    shutil.copyfile(smollm2_path, tmp_path / "a.gguf")
    assert find_models(tmp_path, described)[0].problem == ""  # type: ignore[arg-type]


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
    _touch(tmp_path, "a.gguf")
    library = ModelLibrary(tmp_path)
    with qtbot.waitSignal(library.found, timeout=5000) as signal:
        library.scan()
        library.scan()
    [entry] = signal.args[0]
    assert (entry.name, signal.args[1]) == ("a", None)
    library.close()
    library.scan()
