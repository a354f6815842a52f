"""Chats from foreign or damaged files: whatever stands in them, they open, go on and are saved."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from app.storage.migrations import SCHEMA_VERSION
from app.theme import Theme
from app.window.main_window import MainWindow
from tests.app.conftest import Bench, BenchMaker

_OUT_OF_DATE = "9999-12-31T23:59:59-14:00"


@pytest.fixture
def window(bench: Bench, qtbot: QtBot, theme: Theme) -> MainWindow:
    made = MainWindow(bench.controller, bench.context.settings, theme)
    qtbot.addWidget(made)
    made.show()
    return made


@pytest.fixture(params=["Pacific/Kiritimati", "America/Adak"])
def _zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def _read_in(bench: Bench, folder: Path, **chat: Any) -> None:
    path = folder / "chats.json"
    path.write_text(json.dumps({"fireside_chats": 1, "chats": [{"title": "Read in", **chat}]}), encoding="utf-8")
    bench.notices.clear()
    bench.controller.exchange.read(path)
    bench.qtbot.waitUntil(lambda: bool(bench.notices), timeout=5000)
    assert bench.notices == ["One chat was read in."]


def _can_go_on(bench: Bench, folder: Path) -> None:
    """The open chat can be answered in, is on the disk, and can be written to a file."""
    bench.ask("and on", "it goes")
    bench.settle()
    kept = bench.context.store.read_messages(bench.controller.current_id)
    assert [message.content for message in kept[-2:]] == ["and on", "it goes"]
    bench.notices.clear()
    bench.controller.exchange.write([bench.controller.current_id], folder / "out.json")
    bench.qtbot.waitUntil(lambda: bool(bench.notices), timeout=5000)
    assert bench.notices == ["The chat was saved as out.json."]


@pytest.mark.parametrize(
    "statistics",
    [
        {"num_prompt_tokens": 1e999, "num_reused_tokens": float("nan"), "first_token_ms": 10**300},
        {"tokens_per_second": 1e999, "reasoning_ms": 1e999, "first_token_ms": -1e999},
        {"num_prompt_tokens": 2**52, "num_reused_tokens": True, "num_reread_tokens": "x", "reread_reason": [1]},
        {"seed": 10**4000, "finish_reason": {"x": 1}, "context_start": [5], "tool_calls": {"a": 1}},
        {"structured": {"is_valid": "x", "certainty": [5], "values": "x"}, "tool_calls": [{"name": 5}, None]},
        {"overflow_tokens": "many", "can_drop_turns": "x"},
        {"overflow_tokens": 1e999, "finish_reason": "context"},
    ],
)
@pytest.mark.parametrize("status", ["complete", "failed"])
def test_figures_of_any_kind(
    bench: Bench, window: MainWindow, tmp_path: Path, statistics: dict[str, Any], status: str
) -> None:
    answer = {"role": "assistant", "content": '{"a": "b"}', "reasoning": "hm", "status": status}
    question = {"id": "1", "role": "user", "content": "q"}
    _read_in(bench, tmp_path, messages=[question, {"id": "2", "parent": "1", **answer, "statistics": statistics}])
    window.grab()
    read = bench.controller.current_messages[-1].record
    bench.controller.larger_context(read.id)
    bench.controller.reproduce(read.id)
    bench.controller.stop()
    bench.wait_idle()
    _can_go_on(bench, tmp_path)


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the time zone cannot be set here")
@pytest.mark.usefixtures("_zone")
@pytest.mark.parametrize("moment", [_OUT_OF_DATE, "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59+00:00"])
def test_times_that_no_date_has(bench: Bench, window: MainWindow, tmp_path: Path, moment: str) -> None:
    message = {"id": "1", "role": "user", "content": "q", "created_at": moment}
    _read_in(bench, tmp_path, created_at=moment, updated_at=moment, messages=[message])
    window.grab()
    bench.controller.delete_conversations([bench.controller.current_id])
    window.show_page("trash")
    window.grab()
    assert bench.controller.undo_deletion()
    _can_go_on(bench, tmp_path)


def test_options_that_no_file_can_hold(bench: Bench, tmp_path: Path) -> None:
    _read_in(
        bench,
        tmp_path,
        options={"system_prompt": "be \ud800 kind", "tools": "\udfff", "temperature": 1e999, "top_k": 10**30},
        messages=[{"id": "1", "role": "user", "content": "q\ud83d"}],
    )
    bench.controller.set_options({"system_prompt": bench.controller.current_conversation.options["system_prompt"]})
    assert bench.controller.send("and")
    bench.qtbot.waitUntil(lambda: bool(bench.engine.requests), timeout=3000)
    assert [message.content for message in bench.engine.requests[-1].messages[:2]] == ["be \ufffd kind", "q\ufffd"]
    bench.controller.stop()
    bench.wait_idle()
    _can_go_on(bench, tmp_path)


def test_an_answer_that_nobody_asked_for(bench: Bench, window: MainWindow, tmp_path: Path) -> None:
    _read_in(bench, tmp_path, messages=[{"id": "1", "role": "assistant", "content": "hello world"}])
    only = bench.controller.current_messages[0].record
    bench.notices.clear()
    bench.controller.look_closer(only.id, 6)
    bench.controller.regenerate(only.id)
    assert len(bench.notices) == 2
    bench.controller.edit_and_resend(only.id, "edited")
    assert bench.controller.current_messages[0].record.content == "edited"
    _can_go_on(bench, tmp_path)


def test_a_preset_that_no_file_can_hold(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "preset.json"
    options = {"system_prompt": "\ud800", "seed": 10**30, "temperature": float("nan"), "max_tokens": -5, "odd": 1}
    path.write_text(json.dumps({"fireside_preset": 1, "name": "a\ud800", "options": options}), encoding="utf-8")
    preset = bench.controller.presets.read_file(path)
    assert (preset.name, preset.options) == ("a\ufffd", {"system_prompt": "\ufffd"})
    bench.controller.set_options(bench.controller.presets.options_of(preset.id))
    bench.controller.presets.write_file(preset.id, tmp_path / "again.json")
    _can_go_on(bench, tmp_path)
    assert [record.name for record in bench.context.store.read_presets()] == ["a\ufffd"]


@pytest.mark.skipif(os.name == "nt", reason="names are Unicode there")
def test_names_that_are_no_unicode(make_bench: BenchMaker, qtbot: QtBot, tmp_path: Path) -> None:
    bench = make_bench(str(tmp_path / os.fsdecode(b"caf\xe9.gguf")))
    (tmp_path / os.fsdecode(b"caf\xe9.txt")).write_text("an espresso", encoding="utf-8")
    attachments, chat = bench.controller.attachments, bench.controller.current_conversation
    attachments.add_files(chat, [tmp_path / os.fsdecode(b"caf\xe9.txt")])
    qtbot.waitUntil(lambda: bool(attachments.draft(chat.id)), timeout=5000)
    _can_go_on(bench, tmp_path)
    assert [one.name for one in bench.context.store.read_attachments(chat.id)] == ["caf\ufffd.txt"]


def test_a_chat_whose_messages_are_lost_is_empty(make_bench: BenchMaker, tmp_path: Path) -> None:
    bench = make_bench()
    bench.ask("q", "a")
    bench.controller.move_conversations([bench.controller.current_id], bench.controller.folders.make("Work").id)
    bench.settle()
    lost = bench.controller.current_id
    bench.context.store.write(lambda connection: connection.execute("DELETE FROM message"))
    bench.context.store.write(lambda connection: connection.execute("PRAGMA foreign_keys = OFF"))
    bench.context.store.write(lambda connection: connection.execute("UPDATE conversation SET folder_id = 'gone'"))
    bench.settle()
    make_bench.close(bench)
    bench = make_bench()
    assert bench.controller.current_id == lost
    assert bench.controller.current_messages == []
    _can_go_on(bench, tmp_path)


def test_texts_of_a_newer_database_stay(make_bench: BenchMaker, qtbot: QtBot, tmp_path: Path) -> None:
    bench = make_bench()
    attachments, chat = bench.controller.attachments, bench.controller.current_conversation
    attachments.add_text(chat, "an old text")
    qtbot.waitUntil(lambda: bool(attachments.draft(chat.id)), timeout=5000)
    bench.ask("q", "a")
    path = attachments.path(attachments.of_messages(chat.id).popitem()[1][0])
    bench.context.store.write(lambda connection: connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}"))
    bench.settle()
    make_bench.close(bench)
    os.utime(path, (1, 1))
    bench = make_bench()
    assert bench.context.store.is_temporary
    make_bench.close(bench)  # whatever it does with attachments is done then
    assert path.exists()
