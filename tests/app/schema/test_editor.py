from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.schema.editor import SchemaEditor
from app.schema.fields import FieldKind
from app.schema.library import SavedSchema, SchemaFileError, SchemaLibrary, clean_name, read_schema_file
from app.settings import Settings
from app.theme import Theme


@pytest.fixture
def library(qapp: QApplication, tmp_path: Path) -> SchemaLibrary:
    return SchemaLibrary(tmp_path / "schemas ö")


@pytest.fixture
def editor(library: SchemaLibrary, theme: Theme, qtbot: QtBot) -> SchemaEditor:
    made = SchemaEditor(library, theme)
    qtbot.addWidget(made)
    made.resize(900, 600)
    made.show()
    return made


def _wait(editor: SchemaEditor, qtbot: QtBot) -> None:
    with qtbot.waitSignal(editor.changed):
        pass


def test_the_form_writes_the_text(editor: SchemaEditor, qtbot: QtBot) -> None:
    editor.show_schema("")
    assert editor.verdict.faults == ("The schema is empty: add a field, or choose one of the gallery.",)
    editor.form.add_field()
    row = editor.form.rows[0]
    assert row.is_open
    qtbot.keyClicks(row.name, "total")
    row.kind.make_menu().actions()[1].trigger()
    row.description.setFocus()
    qtbot.keyClicks(row.description, "With tax")
    _wait(editor, qtbot)
    schema = json.loads(editor.text)
    assert schema["properties"] == {"total": {"type": "number", "description": "With tax"}}
    assert schema["required"] == ["total"]
    assert editor.is_usable
    row.required.switch.click()
    row.listed.switch.click()
    assert json.loads(editor.text)["properties"]["total"]["type"] == "array"
    assert json.loads(editor.text)["required"] == []


def test_the_text_writes_the_form_and_says_what_no_form_shows(editor: SchemaEditor, qtbot: QtBot) -> None:
    editor.show_schema('{"type": "object", "properties": {"a": {"type": "string"}}}')
    assert [row.name.text() for row in editor.form.rows] == ["a"]
    editor.edit.setPlainText('{"type": "object", "properties": {"a": {"type": "string", "const": "x"}}}')
    _wait(editor, qtbot)
    assert not editor.form.isEnabled()
    assert editor._no_form.text() == "#/properties/a/const is not in the form; edit it as JSON."
    assert editor.is_usable, "the engine honours more than the form shows"
    editor.edit.setPlainText('{"type": "object", "properties": ')
    _wait(editor, qtbot)
    assert editor._no_form.text() == "The text is no JSON yet."
    assert not editor.is_usable
    editor.edit.setPlainText('{"type": "object", "properties": {"a": {"type": "string"}, "a": {"type": "null"}}}')
    _wait(editor, qtbot)
    assert editor._no_form.text() == "The text has the key “a” twice in one object; remove one of them."
    assert not editor.is_usable
    assert "twice" in editor._faults.text()
    editor.edit.setPlainText('{"type": "object", "properties": {"b": {"type": "boolean"}}}')
    _wait(editor, qtbot)
    assert editor.form.isEnabled()
    assert [row.kind.value for row in editor.form.rows] == [FieldKind.BOOLEAN]


def test_a_fault_has_its_path_and_may_be_checked_afterwards(editor: SchemaEditor) -> None:
    editor.show_schema('{"type": "object", "properties": {"a": {"type": "array", "uniqueItems": true}}}')
    assert editor.verdict.faults[0].startswith("#/properties/a/uniqueItems: ")
    assert not editor.is_usable
    assert editor.afterwards.isVisible()
    editor.afterwards.switch.click()
    assert editor.is_usable
    editor.show_schema('{"type": "object", "properties": {"a": {"type": "cat"}}}')
    assert not editor.is_usable, "what is no schema cannot be checked either"


def test_rows_move_fold_and_go(editor: SchemaEditor, qtbot: QtBot) -> None:
    fields = {name: {"type": "string"} for name in ("a", "b", "c")}
    editor.show_schema(json.dumps({"type": "object", "properties": fields}))
    editor.form.rows[2].moved.emit(-1)
    editor.form.rows[0].moved.emit(-1)
    assert list(json.loads(editor.text)["properties"]) == ["a", "c", "b"]
    editor.form.rows[0].removed.emit()
    assert list(json.loads(editor.text)["properties"]) == ["c", "b"]
    assert [row.name.text() for row in editor.form.rows] == ["c", "b"]
    qtbot.mouseClick(editor.form.rows[0]._header, Qt.MouseButton.LeftButton)
    assert editor.form.rows[0].is_open


def test_a_group_has_fields_of_its_own(editor: SchemaEditor, qtbot: QtBot) -> None:
    editor.show_schema('{"type": "object", "properties": {"a": {"type": "string"}}}')
    row = editor.form.rows[0]
    row.kind.make_menu().actions()[-1].trigger()
    _wait(editor, qtbot)
    assert editor.verdict.faults == ("“a” has no fields yet.",)
    assert row.inner is not None
    row.inner.add_field()
    _wait(editor, qtbot)
    assert json.loads(editor.text)["properties"]["a"]["properties"] == {"field": {"type": "string"}}
    assert editor.is_usable


def test_schemas_are_kept_found_and_deleted(editor: SchemaEditor, library: SchemaLibrary) -> None:
    assert [saved.name for saved in library.gallery()][:2] == ["Contact", "Curriculum vitae"]
    library.save('My: "schema"', '{"type": "object"}')
    assert [(saved.name, saved.text) for saved in library.own()] == [("My schema", '{"type": "object"}')]
    names = [action.text() for action in editor.make_menu().actions()]
    assert names[0] == "My schema"
    assert "Delete" in names
    library.delete("My schema")
    assert library.own() == []
    assert clean_name(" ../.. ") == "Schema"


def test_a_file_that_is_no_schema_says_so(editor: SchemaEditor, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{", encoding="utf-8")
    said: list[str] = []
    editor.notice.connect(said.append)
    editor.take_file(tmp_path / "x.json")
    editor.take_file(tmp_path / "gone.json")
    editor.take_table(tmp_path / "gone.csv")
    editor.take_example("nothing")
    editor.take_example('{"a": 1, "a": "x"}')
    (tmp_path / "y.json").write_bytes(b'{"title": "\xfcber"}')
    editor.take_file(tmp_path / "y.json")
    assert said == [
        "x.json is no JSON file, so there is no schema in it.",
        "gone.json could not be read: No such file or directory.",
        "gone.csv could not be read: No such file or directory.",
        "The example is no JSON, so its fields cannot be seen.",
        "The example has the key “a” twice in one object; remove one of them.",
        "y.json is no UTF-8 text: byte 12 does not fit. Save it as UTF-8.",
    ]
    big = tmp_path / "big.json"
    big.write_text(" " * 2_000_001, encoding="utf-8")
    with pytest.raises(SchemaFileError, match="too large"):
        read_schema_file(big)


def test_a_table_makes_a_schema(editor: SchemaEditor, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("\ufeffname,age\nAda,36\n", encoding="utf-8")
    editor.take_table(tmp_path / "t.csv")
    assert [row.name.text() for row in editor.form.rows] == ["name", "age"]
    assert editor.is_usable


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
def test_a_table_is_read_in_its_encoding(editor: SchemaEditor, tmp_path: Path, encoding: str) -> None:
    (tmp_path / "t.csv").write_text("Größe;Straße\n1;x\n", encoding=encoding)
    editor.take_table(tmp_path / "t.csv")
    assert [row.name.text() for row in editor.form.rows] == ["Größe", "Straße"]
    (tmp_path / "t.csv").write_bytes(b"\x00\x01\x02" * 50)
    said: list[str] = []
    editor.notice.connect(said.append)
    editor.take_table(tmp_path / "t.csv")
    assert said[0].startswith("t.csv is no text")


def test_of_a_large_table_whole_lines_of_its_start_are_enough(editor: SchemaEditor, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("name,age\n" + "Ada,36\n" * 400_000, encoding="utf-8")
    editor.take_table(tmp_path / "t.csv")
    assert [row.name.text() for row in editor.form.rows] == ["name", "age"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
def test_a_table_that_could_be_waited_for_for_ever_is_refused(editor: SchemaEditor, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "folder.csv").mkdir()
    said: list[str] = []
    editor.notice.connect(said.append)
    editor.take_table(tmp_path / "pipe.csv")
    editor.take_table(tmp_path / "folder.csv")
    assert said == [
        "pipe.csv is a device or a pipe, not a file; save what it holds as a file first.",
        "folder.csv is a folder; choose the files in it.",
    ]


def test_long_words_at_a_large_size_stand_below_each_other(
    editor: SchemaEditor, theme: Theme, settings: Settings, qtbot: QtBot
) -> None:
    settings.set("zoom", 2.0)
    editor._sides._buttons["form"].setText("Formular")
    editor.resize(theme.px(264 - 40), 900)
    qtbot.waitUntil(lambda: editor._sides.y() > editor._open.y())
    assert editor._sides.geometry().right() <= editor.width()


def test_narrow_shows_one_side_at_a_time(editor: SchemaEditor) -> None:
    assert editor.edit.isVisible()
    assert editor._scroll.isVisible()
    editor.resize(360, 600)
    assert not editor.edit.isVisible()
    editor._sides.chosen.emit("text")
    assert editor.edit.isVisible()
    assert not editor._scroll.isVisible()


def test_a_large_schema_is_checked_beside_the_window(editor: SchemaEditor, qtbot: QtBot) -> None:
    properties = {f"p{number}": {"type": "string"} for number in range(160)}
    large = json.dumps({"type": "object", "properties": properties, "additionalProperties": False})
    editor.show_schema(large)
    assert editor.verdict.faults == ("The schema is being checked…",)
    assert not editor.is_usable
    assert editor._no_form.text() == "There are more than 150 fields; edit the schema as text."
    qtbot.waitUntil(lambda: editor.is_usable)
    editor.show_schema(large.replace('"string"', '"text"'))
    editor.show_schema('{"type": "object", "properties": {"a": {"type": "string"}}}')
    assert editor.is_usable, "a short one is checked at once"
    qtbot.wait(300)
    assert editor.is_usable, "what was asked before no longer counts"


def test_a_file_of_one_line_is_made_readable(editor: SchemaEditor, tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"größe": {"type": "string"}}, "required": ["größe"]}
    (tmp_path / "s.json").write_text(json.dumps(schema), encoding="utf-8")
    editor.take_file(tmp_path / "s.json")
    assert json.loads(editor.text) == schema
    assert '\n    "größe": {' in editor.text
    (tmp_path / "s.json").write_text('{"type":\n"object", "minProperties": 1}', encoding="utf-8")
    editor.take_file(tmp_path / "s.json")
    assert editor.text == '{"type":\n"object", "minProperties": 1}', "a person's own lines stay"
    assert editor.form.isHidden()
    assert editor._no_form.text() == "#/minProperties is not in the form; edit it as JSON."
    editor.show_schema(json.dumps(schema))
    assert not editor.form.isHidden()


def test_what_is_deleted_or_replaced_can_be_had_back(editor: SchemaEditor, library: SchemaLibrary) -> None:
    offers: list[tuple[str, Callable[[], object]]] = []
    editor.undo_offered.connect(lambda text, undo: offers.append((text, undo)))
    old, new = '{"type": "object"}', '{"type": "string"}'
    saved = library.save("Mine", old)
    editor.show_schema(new)
    editor._keep("Mine")
    assert [each.text for each in library.own()] == [new]
    editor._delete(SavedSchema("Mine", new, is_own=True))
    assert library.own() == []
    assert [text for text, _ in offers] == ["The schema Mine was replaced.", "The schema Mine was deleted."]
    offers[1][1]()
    assert [each.text for each in library.own()] == [new]
    offers[0][1]()
    assert library.own() == [saved]
    editor._keep("Another")
    assert len(offers) == 2, "nothing was lost"


def test_a_schema_that_lies_nowhere_else_comes_back_when_another_was_chosen(
    editor: SchemaEditor, library: SchemaLibrary
) -> None:
    offers: list[Callable[[], object]] = []
    editor.undo_offered.connect(lambda _text, undo: offers.append(undo))
    gallery = library.gallery()[0]
    mine = '{"type": "string"}'
    editor.show_schema(mine)
    editor._replace(gallery.text)
    assert editor.text == gallery.text
    offers.pop()()
    assert editor.text == mine
    library.save("Mine", mine)
    editor._replace(gallery.text)
    editor._replace(mine)
    assert offers == [], "each is kept"
