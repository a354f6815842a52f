from __future__ import annotations

from pathlib import Path

from pytestqt.qtbot import QtBot

from app.crash_banner import show_recovery
from app.run_marker import RunMarker
from app.storage.conversations import save_message
from app.storage.records import MessageRecord, MessageStatus
from app.theme import Theme
from app.widgets.notice_bar import NoticeBar
from engine.protocol import LoadModel, Role
from tests.app.conftest import Bench, BenchMaker


def _loads(bench: Bench) -> list[str]:
    return [command.path.name for command in bench.engine.commands if isinstance(command, LoadModel)]


def _model_file(make_bench: BenchMaker) -> Path:
    path = make_bench.paths.models / "Some-Model-Q4_1.gguf"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    return path


def _crash(make_bench: BenchMaker, bench: Bench) -> None:
    """What a killed process leaves."""
    make_bench.close(bench)
    make_bench.paths.run_marker.write_text("1", encoding="ascii")


def test_after_a_crash_nothing_loads_by_itself_and_the_last_answer_is_offered(make_bench: BenchMaker) -> None:
    path = _model_file(make_bench)
    first = make_bench(str(path))
    first.ask("Tell me", "one")
    chat_id = first.controller.current_id
    record = MessageRecord("half", chat_id, None, Role.ASSISTANT, "half an ans", status=MessageStatus.STREAMING)
    first.context.store.write(lambda connection: save_message(connection, record))
    first.controller.new_conversation()
    first.ask("Something else", "two")
    _crash(make_bench, first)

    second = make_bench(None)
    assert _loads(second) == []
    offer = second.context.recovery()
    assert offer is not None
    assert "“Tell me”" in offer.text
    assert offer.action is not None
    offer.action()
    assert second.controller.current_id == chat_id
    kept = {message.id: message for message in second.context.store.read_messages(chat_id)}
    assert kept["half"].content == "half an ans"
    assert kept["half"].status is MessageStatus.INTERRUPTED
    make_bench.close(second)

    third = make_bench(None)
    assert third.context.recovery() is None
    assert _loads(third) == [path.name], "an end that was asked for is no crash"


def test_after_a_crash_the_model_is_offered(make_bench: BenchMaker) -> None:
    path = _model_file(make_bench)
    _crash(make_bench, make_bench(str(path)))
    bench = make_bench(None)
    offer = bench.context.recovery()
    assert offer is not None
    assert offer.action_name == "Load Some-Model"
    assert offer.action is not None
    offer.action()
    assert _loads(bench) == [path.name]


def test_after_a_crash_a_named_model_is_loaded(make_bench: BenchMaker) -> None:
    path = _model_file(make_bench)
    _crash(make_bench, make_bench(None))
    bench = make_bench(str(path))
    assert _loads(bench) == [path.name]
    offer = bench.context.recovery(path)
    assert offer is not None
    assert offer.action is None


def test_a_sent_message_may_load_the_model_again(make_bench: BenchMaker) -> None:
    path = _model_file(make_bench)
    _crash(make_bench, make_bench(str(path)))
    bench = make_bench(None)
    assert bench.controller.send("hello")
    assert _loads(bench) == [path.name], "the person asks for an answer"


def test_the_marker_of_an_unwritable_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    marker = RunMarker(tmp_path / "file" / "running.txt")
    assert marker.begin() is False
    marker.end()


def test_the_banner_says_no_longer_that_no_model_was_loaded_once_one_is(
    make_bench: BenchMaker, theme: Theme, qtbot: QtBot
) -> None:
    path = _model_file(make_bench)
    first = make_bench(str(path))
    first.ask("Tell me", "one")
    record = MessageRecord(
        "half", first.controller.current_id, None, Role.ASSISTANT, "half", status=MessageStatus.STREAMING
    )
    first.context.store.write(lambda connection: save_message(connection, record))
    _crash(make_bench, first)

    second = make_bench(None)
    banner, dismissed = NoticeBar(theme), NoticeBar(theme)
    for bar in (banner, dismissed):
        qtbot.addWidget(bar)
        show_recovery(bar, second.context)
    assert "no model was loaded" in banner.text
    dismissed.hide()
    with qtbot.waitSignal(second.controller.model_loaded):
        second.controller.load_model(str(path))
    assert "no model was loaded" not in banner.text
    assert "“Tell me”" in banner.text, "what the last answer had come to is offered as before"
    assert not banner.isHidden()
    assert dismissed.isHidden()
