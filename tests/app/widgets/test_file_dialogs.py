from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QStandardPaths
from PySide6.QtWidgets import QFileDialog, QWidget
from pytestqt.qtbot import QtBot

from app.widgets import file_dialogs
from app.widgets.file_dialogs import choose_file, choose_files, choose_folder, choose_target, start_folder

KINDS = "JSON (*.json);;Markdown (*.md);;Tables (*.csv *.tsv)"


@pytest.fixture
def parent(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> QWidget:
    monkeypatch.setattr(file_dialogs, "_last_folders", [])
    widget = QWidget()
    qtbot.addWidget(widget)
    return widget


def _answers(monkeypatch: pytest.MonkeyPatch, name: str, *answers: tuple[object, str]) -> list[str]:
    """Let the dialog ``name`` give these answers in turn; gives the list of places where it is started."""
    places: list[str] = []
    left = list(answers)

    def dialog(_parent: QWidget, _title: str, place: str, *_more: object) -> tuple[object, str]:
        places.append(place)
        return left.pop(0)

    monkeypatch.setattr(QFileDialog, name, dialog)
    return places


def test_the_first_dialog_starts_in_the_documents_and_not_in_the_working_folder(
    parent: QWidget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = tmp_path / "Documents"
    folders = {QStandardPaths.StandardLocation.DocumentsLocation: documents}
    monkeypatch.setattr(QStandardPaths, "writableLocation", lambda place: str(folders.get(place, tmp_path)))
    assert start_folder() == str(tmp_path)
    documents.mkdir()
    assert start_folder() == str(documents)


def test_each_dialog_starts_where_the_last_one_ended(
    parent: QWidget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    _answers(monkeypatch, "getOpenFileNames", ([str(first / "x.txt"), str(first / "y.txt")], ""))
    assert choose_files(parent, "Attach") == [first / "x.txt", first / "y.txt"]
    places = _answers(monkeypatch, "getSaveFileName", (str(second / "x.json"), "JSON (*.json)"))
    assert choose_target(parent, "Export", "x.json", KINDS) == second / "x.json"
    assert places == [str(first / "x.json")]
    places = _answers(monkeypatch, "getOpenFileName", ("", ""), ("", ""))
    assert choose_file(parent, "Import") is None
    assert choose_file(parent, "Import") is None
    assert places == [str(second)] * 2
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda _parent, _title, _place: str(first))
    assert choose_folder(parent, "Folder") == first
    assert start_folder() == str(first)
    first.rmdir()
    assert start_folder() != str(first)


@pytest.mark.parametrize(
    ("typed", "chosen", "written"),
    [
        ("x.json", "JSON (*.json)", "x.json"),
        ("x.json", "Markdown (*.md)", "x.md"),  # only the kind was changed
        ("x.md", "JSON (*.json)", "x.md"),  # the ending was typed
        ("x", "Markdown (*.md)", "x.md"),
        ("v1.2", "Markdown (*.md)", "v1.2.md"),
        ("x.TSV", "Tables (*.csv *.tsv)", "x.TSV"),
        ("x.json", "", "x.json"),
        ("x", "", "x.json"),
    ],
)
def test_the_kind_that_was_chosen_is_written(
    parent: QWidget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str, chosen: str, written: str
) -> None:
    _answers(monkeypatch, "getSaveFileName", (str(tmp_path / typed), chosen))
    assert choose_target(parent, "Export", "x.json", KINDS) == tmp_path / written


def test_a_file_is_replaced_only_after_the_dialog_asked_about_it(
    parent: QWidget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.md").write_text("kept", encoding="utf-8")
    typed = str(tmp_path / "x.json")
    places = _answers(monkeypatch, "getSaveFileName", (typed, "Markdown (*.md)"), ("", ""))
    assert choose_target(parent, "Export", "x.json", KINDS) is None
    assert places[1] == str(tmp_path / "x.md")
    answers = ((typed, "Markdown (*.md)"), (str(tmp_path / "x.md"), "Markdown (*.md)"))
    _answers(monkeypatch, "getSaveFileName", *answers)
    assert choose_target(parent, "Export", "x.json", KINDS) == tmp_path / "x.md"


def test_without_kinds_the_name_stays(parent: QWidget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _answers(monkeypatch, "getSaveFileName", (str(tmp_path / "Makefile"), ""))
    assert choose_target(parent, "Save the code", "snippet.txt") == tmp_path / "Makefile"
