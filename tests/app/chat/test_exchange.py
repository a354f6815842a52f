from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema
import pytest

from app import translation
from app.chat.chat_files import ChatFileError, from_json
from app.chat.exchange import file_name_for
from app.chat.presets import PresetError
from app.schema.library import SchemaFileError, read_schema_file
from app.storage.records import MessageStatus
from tests.app.conftest import Bench, BenchMaker

SCHEMA = json.loads((Path(__file__).parents[3] / "resources" / "chat-export.schema.json").read_text("utf-8"))


def _filled(bench: Bench) -> str:
    """A chat with two branches, an attachment, options and odd characters; gives its id."""
    controller = bench.controller
    controller.attachments.add_text(controller.current_conversation, "```\ncode\n```", "notes.md")
    bench.qtbot.waitUntil(lambda: len(controller.attachments.draft(controller.current_id)) == 1)
    bench.ask("Héllo \x00 “you” 🙂", "one\x1b")
    bench.ask("second", "two")
    controller.regenerate(controller.current_messages[-1].record.id)
    request = bench.request()
    bench.engine.say(request, "two again")
    controller.stop()
    bench.wait_idle()
    controller.set_options({"temperature": 0.5, "preset": "gone"})
    return controller.current_id


def _write(bench: Bench, ids: list[str], path: Path) -> None:
    bench.notices.clear()
    bench.controller.exchange.write(ids, path)
    bench.qtbot.waitUntil(lambda: bool(bench.notices))


def _read(bench: Bench, path: Path) -> None:
    bench.notices.clear()
    bench.controller.exchange.read(path)
    bench.qtbot.waitUntil(lambda: bool(bench.notices))


def test_exported_chats_fit_the_schema_and_come_back_whole(
    bench: Bench, make_bench: BenchMaker, tmp_path: Path
) -> None:
    original = _filled(bench)
    path = tmp_path / "Chats ö"
    _write(bench, [original], path)
    path = path.with_suffix(".json")
    assert bench.notices == ["The chat was saved as Chats ö.json."]
    jsonschema.validate(json.loads(path.read_text("utf-8")), SCHEMA)
    before = [
        (view.record.role, view.record.content, view.record.status, view.sibling_index, view.num_siblings)
        for view in bench.controller.current_messages
    ]

    _read(bench, path)
    assert bench.notices == ["One chat was read in."]
    assert bench.controller.current_id != original
    after = [
        (view.record.role, view.record.content, view.record.status, view.sibling_index, view.num_siblings)
        for view in bench.controller.current_messages
    ]
    assert after == before
    assert after[-1][2] is MessageStatus.STOPPED
    assert bench.controller.current_conversation.options == {"temperature": 0.5}
    [attached] = bench.controller.current_messages[0].attachments
    assert bench.controller.attachments.text(attached) == "```\ncode\n```"
    imported = bench.controller.current_id
    bench.settle()
    make_bench.close(bench)
    again = make_bench()
    again.controller.open_conversation(imported)
    assert [view.record.content for view in again.controller.current_messages] == [row[1] for row in before]
    assert again.controller.current_messages[0].attachments == (attached,)


def test_markdown_and_text_show_the_branch(bench: Bench, tmp_path: Path) -> None:
    chat = _filled(bench)
    _write(bench, [chat], tmp_path / "a.md")
    markdown = (tmp_path / "a.md").read_text("utf-8")
    assert markdown.startswith("# Héllo")
    assert "## You\n\nnotes.md:\n\n````\n```\ncode\n```\n````\n\nHéllo" in markdown
    assert markdown.endswith("## Answer (model)\n\ntwo again\n")
    assert "\ntwo\n" not in markdown
    _write(bench, [chat], tmp_path / "a.txt")
    assert "You:\n[notes.md]\n```\ncode\n```\n\nHéllo" in (tmp_path / "a.txt").read_text("utf-8")


def test_several_chats_go_into_one_file(bench: Bench, tmp_path: Path) -> None:
    bench.ask("first", "one")
    bench.controller.new_conversation()
    bench.ask("second", "two")
    _write(bench, [record.id for record in bench.controller.conversations], tmp_path / "all.json")
    assert bench.notices == ["2 chats were saved as all.json."]
    _read(bench, tmp_path / "all.json")
    assert bench.notices == ["2 chats were read in."]
    assert sorted(record.title for record in bench.controller.conversations) == [
        "first",
        "first",
        "second",
        "second",
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("hello", "x.json is no JSON file, so there are no chats in it."),
        ("[" * 100_000, "x.json is no JSON file, so there are no chats in it."),
        ("{}", "x.json holds no chats of Fireside: “fireside_chats” is missing."),
        ('{"fireside_chats": 9}', "x.json was written by a newer Fireside; update to read it."),
        ('{"fireside_chats": 0}', "x.json is damaged: “fireside_chats” is no format that there is."),
        ('{"fireside_chats": NaN}', "x.json is damaged: “fireside_chats” is no format that there is."),
        ('{"fireside_chats": "1"}', "x.json is damaged: “fireside_chats” is no format that there is."),
        ('{"fireside_chats": 1, "chats": 3}', "x.json is damaged: “chats” is no list."),
        ('{"fireside_chats": 1, "chats": [3]}', "x.json, chats[0] is damaged: it has no messages."),
        (
            '{"fireside_chats": 1, "chats": [{"messages": [{"id": "a", "parent": "b", "content": ""}]}]}',
            "x.json, chats[0].messages[0] is damaged: its parent does not come before it.",
        ),
        (
            '{"fireside_chats": 1, "chats": [{"messages": [{"id": "a", "content": "", "role": "cat"}]}]}',
            "x.json, chats[0].messages[0] is damaged: “role” must be one of “system”, “user”, “assistant”, “tool”.",
        ),
    ],
)
def test_a_file_that_cannot_be_read_in_says_why(text: str, sentence: str) -> None:
    with pytest.raises(ChatFileError) as caught:
        from_json(text.encode(), "x.json")
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b'{"fireside_chats": 1, "chats": [{"title": "\xff"}]}', "is no UTF-8 text: byte 44 does not fit"),
        (b'{"fireside_chats": 1, "chats": [], "chats": []}', "has the key “chats” twice in one object"),
    ],
)
def test_nothing_of_a_file_is_guessed(bench: Bench, tmp_path: Path, data: bytes, sentence: str) -> None:
    (tmp_path / "x.json").write_bytes(data)
    said: list[str] = []
    bench.controller.exchange.notice.connect(said.append)
    before = len(bench.controller.conversations)
    bench.controller.exchange.read(tmp_path / "x.json")
    bench.qtbot.waitUntil(lambda: bool(said))
    assert said[0].startswith(f"x.json {sentence}")
    assert len(bench.controller.conversations) == before


def test_a_file_that_cannot_be_written_or_read_is_said(bench: Bench, tmp_path: Path) -> None:
    bench.ask("first", "one")
    _write(bench, [bench.controller.current_id], tmp_path / "missing" / "x.json")
    assert bench.notices == ["x.json could not be saved: No such file or directory."]
    _read(bench, tmp_path / "gone.json")
    assert bench.notices == ["gone.json could not be read: No such file or directory."]
    assert list(tmp_path.glob("*.part")) == []


def test_numbers_that_json_has_no_words_for_are_left_out(bench: Bench, tmp_path: Path) -> None:
    bench.ask("first", "one")
    tree = bench.controller._collection.tree(bench.controller.current_id)
    answer = tree.messages()[-1]
    assert answer.stats is not None
    answer.stats["tokens_per_second"] = float("nan")
    _write(bench, [bench.controller.current_id], tmp_path / "x.json")
    text = (tmp_path / "x.json").read_text("utf-8")
    assert "NaN" not in text
    jsonschema.validate(json.loads(text), SCHEMA)


def test_names_that_every_system_takes() -> None:
    assert file_name_for('a/b: "c" <d>?') == "a b c d"
    assert file_name_for("...") == "Chat"
    assert len(file_name_for("x" * 300)) == 80


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
def test_what_could_be_read_for_ever_is_not_read(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "endless.json").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe.json")
    for name in ("endless.json", "pipe.json"):
        sentence = f"{name} is a device or a pipe, not a file; save what it holds as a file first."
        _read(bench, tmp_path / name)
        assert bench.notices == [sentence]
        with pytest.raises(PresetError, match="is a device or a pipe"):
            bench.controller.presets.read_file(tmp_path / name)
        with pytest.raises(SchemaFileError, match="is a device or a pipe"):
            read_schema_file(tmp_path / name)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_json_is_read_in_each_encoding_that_it_may_have(bench: Bench, tmp_path: Path, encoding: str) -> None:
    message = {"id": "a", "role": "user", "content": "für 你 🙂"}
    chats = {"fireside_chats": 1, "chats": [{"messages": [message]}]}
    preset = {"fireside_preset": 1, "name": "für 你", "options": {"top_k": 3}}
    schema = '{"title": "für 你 🙂", "type": "string"}'
    for name, content in (("chats", json.dumps(chats)), ("preset", json.dumps(preset)), ("schema", schema)):
        (tmp_path / f"{name}.json").write_bytes(content.encode(encoding))
    _read(bench, tmp_path / "chats.json")
    assert bench.notices == ["One chat was read in."]
    assert [view.record.content for view in bench.controller.current_messages] == [message["content"]]
    assert bench.controller.presets.read_file(tmp_path / "preset.json").name == "für 你"
    assert read_schema_file(tmp_path / "schema.json") == schema


@pytest.mark.parametrize("name", [None, "", " ", ["a"], {"a": 1}, 7, True])
def test_a_preset_whose_name_is_none_takes_its_files(bench: Bench, tmp_path: Path, name: object) -> None:
    options = {"top_k": 3, "temperature": 10**400, "min_p": float("nan"), "max_tokens": "many"}
    path = tmp_path / "Careful.json"
    path.write_text(json.dumps({"fireside_preset": 1, "name": name, "options": options}), "utf-8")
    record = bench.controller.presets.read_file(path)
    assert (record.name, record.options) == ("Careful", {"top_k": 3})


@pytest.mark.parametrize("version", [0, -1, True, None, "1", 1.5, float("nan"), [1]])
def test_a_format_that_never_was_is_not_called_newer(bench: Bench, tmp_path: Path, version: object) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"fireside_preset": version, "options": {}}), "utf-8")
    with pytest.raises(PresetError, match="“fireside_preset” is no format that there is"):
        bench.controller.presets.read_file(path)
    with pytest.raises(ChatFileError, match="“fireside_chats” is no format that there is"):
        from_json(json.dumps({"fireside_chats": version, "chats": []}).encode(), path.name)


def test_a_folder_is_refused_in_the_language_of_the_interface(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "x.json").mkdir()
    translation.use(translation.load_language("de"))
    try:
        _read(bench, tmp_path / "x.json")
    finally:
        translation.use(translation.Language())
    assert bench.notices == ["x.json ist ein Ordner; wähle die Dateien darin."]
