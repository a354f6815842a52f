"""A disk that fills while the app writes: one sentence, nothing lost, and saved as soon as there is room."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.paths import AppPaths
from tests.app.conftest import BenchMaker

SENTENCE = "The disk is full: free some space, and saving goes on by itself."


@pytest.fixture
def small_disk(paths: AppPaths) -> Iterator[Path]:
    """A disk of 4 MB under the chats; only root on Linux may make one."""
    folder = paths.database.parent
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("no disk can be made here")
    folder.mkdir(parents=True, exist_ok=True)
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("no disk can be made here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def _fill(folder: Path) -> Path:
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as stream:
        try:
            while True:
                stream.write(bytes(4096))
        except OSError:
            return ballast


def test_an_answer_on_a_full_disk_is_saved_when_there_is_room(
    small_disk: Path, make_bench: BenchMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.chat.collection.RETRY_MS", 50)
    bench = make_bench()
    bench.ask("What was before?", "This was.")
    bench.settle()
    before = [view.record.content for view in bench.controller.current_messages]
    bench.controller.send("Write a long answer")
    request_id = bench.request()
    ballast = _fill(small_disk)
    for number in range(40):
        bench.engine.say(request_id, f"Part {number} " + "of a long answer " * 200)
    bench.engine.finish(request_id)
    bench.wait_idle()
    bench.qtbot.waitUntil(lambda: any(SENTENCE in notice for notice in bench.notices))
    bench.controller.rename_conversation(bench.controller.current_id, "Renamed on a full disk")
    bench.settle()
    assert {notice.split(". ")[-1] for notice in bench.notices} == {SENTENCE}
    stored = bench.context.store.read_messages(bench.controller.current_id)
    assert [message.content for message in stored][: len(before)] == before, "what was saved is still there"
    num_told = len(bench.notices)
    bench.qtbot.wait(150)  # several tries
    assert len(bench.notices) == num_told, "it is not told again and again"

    ballast.unlink()
    shown = [view.record.content for view in bench.controller.current_messages]

    def is_saved() -> bool:
        messages = bench.context.store.read_messages(bench.controller.current_id)
        return [message.content for message in messages] == shown

    bench.qtbot.waitUntil(is_saved)
    make_bench.close(bench)
    again = make_bench()
    again.controller.open_conversation(again.controller.conversations[0].id)
    assert [view.record.content for view in again.controller.current_messages] == shown
    assert again.controller.conversations[0].title == "Renamed on a full disk"
    make_bench.close(again)


def test_what_a_full_disk_refused_is_tried_once_more_when_the_app_is_closed(
    small_disk: Path, make_bench: BenchMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.chat.collection.RETRY_MS", 3_600_000)  # the person closes before it is tried again
    bench = make_bench()
    bench.ask("What was before?", "This was.")
    bench.settle()
    ballast = _fill(small_disk)
    bench.controller.rename_conversation(bench.controller.current_id, "Renamed on a full disk")
    bench.controller.send("Asked on a full disk" + " and long" * 2000)
    bench.wait_idle()  # it failed, and says so
    bench.settle()
    shown = [(view.record.content, view.record.status) for view in bench.controller.current_messages]
    assert any(SENTENCE in notice for notice in bench.notices)

    ballast.unlink()
    make_bench.close(bench)
    again = make_bench()
    again.controller.open_conversation(again.controller.conversations[0].id)
    assert [(view.record.content, view.record.status) for view in again.controller.current_messages] == shown
    assert again.controller.conversations[0].title == "Renamed on a full disk"


def test_nothing_is_tried_after_the_end_while_the_disk_is_still_full(
    small_disk: Path, make_bench: BenchMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.chat.collection.RETRY_MS", 20)
    bench = make_bench()
    bench.ask("What was before?", "This was.")
    bench.settle()
    _fill(small_disk)
    bench.controller.send("Asked on a full disk" + " and long" * 2000)
    bench.wait_idle()
    make_bench.close(bench)
    bench.qtbot.wait(100)  # an error in a timer fails the test


@pytest.mark.parametrize("closes_at_once", [True, False])
def test_what_is_no_message_is_saved_when_there_is_room_too(
    small_disk: Path, make_bench: BenchMaker, monkeypatch: pytest.MonkeyPatch, closes_at_once: bool
) -> None:
    monkeypatch.setattr("app.storage.store.LATE_MS", 3_600_000 if closes_at_once else 50)
    bench = make_bench()
    controller = bench.controller
    bench.ask("Thrown away?", "Yes.")
    thrown_id = controller.current_id
    controller.new_conversation()
    bench.ask("Moved?", "Yes.")
    controller.presets.add("Renamed", {"temperature": 0.5})
    bench.settle()
    ballast = _fill(small_disk)
    controller.presets.rename(controller.presets.records[0].id, "Not yet")
    controller.presets.add("Large", {"system_prompt": "word " * 20_000})
    folder = controller.folders.make("Folder " + "w" * 40)
    controller.delete_conversations([thrown_id])
    controller.restore_conversations([thrown_id])
    controller.delete_conversations([thrown_id])
    controller.move_conversations([controller.current_id], folder.id)
    controller.presets.rename(controller.presets.records[-1].id, "New")
    bench.settle()
    assert any(SENTENCE in notice for notice in bench.notices)

    ballast.unlink()
    if not closes_at_once:
        bench.qtbot.waitUntil(lambda: len(bench.context.store.read_presets()) == 2)
        bench.qtbot.waitUntil(lambda: len(bench.context.store.read_trash()) == 1)
    presets = [(record.name, record.options) for record in controller.presets.records]
    make_bench.close(bench)
    again = make_bench()
    assert [(record.name, record.options) for record in again.controller.presets.records] == presets
    assert [record.id for record in again.controller.folders.records()] == [folder.id]
    assert [record.conversation.id for record in again.controller.trash.records()] == [thrown_id]
    assert [record.folder_id for record in again.controller.conversations] == [folder.id]
