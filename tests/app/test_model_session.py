from __future__ import annotations

from pathlib import Path

from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from app.chat.chat_page import ChatPage
from app.model_session import ModelEntry
from app.storage.records import MessageStatus
from app.theme import Theme
from app.window.model_button import ModelButton
from engine.library.places import POINTER_NAME
from engine.protocol import Command, EjectModel, LoadModel, ModelLoadFailed
from tests.app.conftest import Bench, BenchMaker


def _loads(bench: Bench) -> list[str]:
    return [command.path.name for command in bench.engine.commands if isinstance(command, LoadModel)]


def _wait_for_the_first_look(bench: Bench) -> None:
    """Through the empty folder, whose end would replace what a test says is there."""
    context = bench.context
    bench.qtbot.waitUntil(lambda: context.is_complete and not context.library._is_scanning)


def _model_file(bench_maker: BenchMaker, name: str = "a-Q4_1.gguf") -> Path:
    path = bench_maker.paths.models / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    return path


def test_the_last_model_is_loaded_at_the_next_start(make_bench: BenchMaker) -> None:
    path = _model_file(make_bench)
    first = make_bench(str(path))
    first.context.settings.set("context_length", 512)
    make_bench.close(first)
    second = make_bench(None)
    assert second.engine.commands[1:] == [LoadModel(path, 512, 0, kv_type="f16")]
    second.qtbot.waitUntil(lambda: second.controller.model_info is not None)


def test_a_last_model_that_is_gone_is_not_loaded(make_bench: BenchMaker) -> None:
    path = _model_file(make_bench)
    make_bench.close(make_bench(str(path)))
    path.unlink()
    bench = make_bench(None)
    assert _loads(bench) == []


def test_a_load_that_ended_the_process_is_not_repeated(make_bench: BenchMaker) -> None:
    path = _model_file(make_bench)
    first = make_bench(str(path))
    first.engine.holds_loads = True
    first.controller.load_model(str(path))
    marker = make_bench.paths.loading_marker
    assert marker.read_text(encoding="utf-8") == str(path)
    content = marker.read_bytes()
    make_bench.close(first)
    assert not marker.exists(), "closing the app during a load is no crash"
    marker.write_bytes(content)
    second = make_bench(None)
    assert _loads(second) == []
    assert "while it loaded a," in second.notices[0]
    assert second.controller.has_models, "the one that did not load is there to be chosen"
    second.controller.send("hello")
    assert "kept" in second.notices[-1]
    assert _loads(second) == [], "a message does not bring the crash back either"
    second.controller.load_model(str(path))
    second.qtbot.waitUntil(lambda: second.controller.model_info is not None)
    assert not marker.exists()


def test_a_message_loads_the_one_model_there_is(make_bench: BenchMaker) -> None:
    bench = make_bench(None)
    _wait_for_the_first_look(bench)
    path = _model_file(make_bench)
    bench.context.session.set_entries([ModelEntry(path, "a", ""), ModelEntry(Path("b"), "b", "", "broken")], None)
    bench.controller.send("hello")
    assert _loads(bench) == [path.name]
    assert "when a is loaded" in bench.notices[-1]
    bench.request()


def test_with_several_models_the_person_chooses(make_bench: BenchMaker) -> None:
    bench = make_bench(None)
    _wait_for_the_first_look(bench)
    bench.context.session.set_entries([ModelEntry(Path(name), name, "") for name in "ab"], None)
    bench.controller.send("hello")
    assert _loads(bench) == []
    assert "choose a model" in bench.notices[-1]


def test_only_the_last_of_several_loads_counts(make_bench: BenchMaker) -> None:
    bench = make_bench(None)
    loaded: list[str] = []
    bench.controller.model_loaded.connect(lambda info: loaded.append(info.path.name))
    bench.engine.holds_loads = True
    for name in ("a.gguf", "b.gguf"):
        bench.controller.load_model(name)
    for name in ("a.gguf", "b.gguf"):
        bench.engine.load(Path(name))
    bench.qtbot.waitUntil(lambda: bool(loaded))
    assert loaded == ["b.gguf"]
    assert bench.controller.model_info is not None


def test_failing_and_ejecting(make_bench: BenchMaker) -> None:
    bench = make_bench()
    failures: list[str] = []
    bench.controller.model_failed.connect(failures.append)
    bench.engine.broken_models.add("broken.gguf")
    bench.controller.load_model("broken.gguf")
    bench.qtbot.waitUntil(lambda: bool(failures))
    assert bench.controller.model_info is None
    bench.controller.load_model("fine.gguf")
    bench.qtbot.waitUntil(lambda: bench.controller.model_info is not None)
    with bench.qtbot.waitSignal(bench.controller.model_ejected):
        bench.controller.eject_model()
    assert bench.controller.model_info is None
    assert bench.context.settings.value("last_model") == "fine.gguf"


def test_what_is_sent_while_a_model_is_ejected_waits_for_one(make_bench: BenchMaker) -> None:
    """Writing what is kept of its chats may take the engine two seconds, in which it answers nothing more."""
    path = _model_file(make_bench)
    bench = make_bench(str(path))
    submit = bench.engine.submit
    held: list[Command] = []
    bench.engine.submit = held.append  # type: ignore[method-assign]
    bench.controller.eject_model()
    assert bench.controller.model_info is None
    bench.controller.send("hello")
    bench.settle()
    bench.engine.submit = submit  # type: ignore[method-assign]
    for command in held:
        bench.engine.submit(command)
    bench.engine.finish(bench.request())
    bench.wait_idle()
    assert bench.controller.current_messages[-1].record.status is MessageStatus.COMPLETE
    assert bench.controller.model_info is not None


def test_what_was_sent_just_before_a_model_is_ejected_ends(make_bench: BenchMaker) -> None:
    bench = make_bench()
    bench.controller.send("hello")
    bench.controller.eject_model()  # before the message is on the disk, so the engine has not got it yet
    bench.wait_idle()
    assert bench.controller.current_messages[-1].record.status is MessageStatus.STOPPED
    assert bench.engine.requests == []


def test_a_message_that_waits_leads_to_where_models_are_found(
    make_bench: BenchMaker, theme: Theme, qtbot: QtBot
) -> None:
    bench = make_bench(None)
    page = ChatPage(bench.controller, theme, can_find_models=True)
    qtbot.addWidget(page)
    page.show()
    bench.controller.send("hello")
    [find] = [each for each in page.notice_bar.findChildren(QPushButton) if each.text() == "Find a model"]
    with qtbot.waitSignal(page.find_model_requested):
        find.click()
    bench.controller.load_model("model.gguf")
    bench.engine.finish(bench.request())
    bench.wait_idle()


def test_a_load_can_be_given_up(make_bench: BenchMaker, theme: Theme, qtbot: QtBot) -> None:
    bench = make_bench(None)
    button = ModelButton(bench.controller, theme)
    qtbot.addWidget(button)
    bench.engine.holds_loads = True
    bench.controller.load_model("large.gguf")
    [action] = [each for each in button.make_menu().actions() if each.text() == "Stop loading large"]
    action.trigger()
    assert bench.engine.commands[-1] == EjectModel()
    bench.engine.on_event(ModelLoadFailed(Path("large.gguf"), "Loading was stopped."))
    qtbot.waitUntil(lambda: not bench.controller.loading_name)
    assert not [each for each in button.make_menu().actions() if each.text().startswith("Stop")]


def test_a_model_that_is_too_large_is_loaded_where_that_is_wished(
    make_bench: BenchMaker, theme: Theme, qtbot: QtBot
) -> None:
    bench = make_bench(None)
    bench.engine.large_models.add("large.gguf")
    page = ChatPage(bench.controller, theme)
    qtbot.addWidget(page)

    def offers() -> list[QPushButton]:
        return [button for button in page.findChildren(QPushButton) if button.text() == "Load anyway"]

    bench.engine.broken_models.add("broken.gguf")
    bench.controller.load_model("broken.gguf")
    qtbot.waitUntil(lambda: page.empty._title.text() == "The model could not be loaded")
    assert not offers(), "it would not help"
    bench.controller.load_model("large.gguf")
    qtbot.waitUntil(lambda: bool(offers()))
    offers()[0].click()
    qtbot.waitUntil(lambda: bench.controller.model_info is not None)
    assert bench.controller.model_info is not None
    assert bench.controller.model_info.path.name == "large.gguf"
    assert not bench.controller.can_load_anyway


def test_a_damaged_note_of_the_models_folder_is_told_at_the_start(make_bench: BenchMaker) -> None:
    pointer = make_bench.paths.models.with_name(POINTER_NAME)
    pointer.parent.mkdir(parents=True)
    pointer.write_bytes(b"/tmp/a\0b")
    bench = make_bench(None)
    assert any(str(pointer) in notice and str(make_bench.paths.models) in notice for notice in bench.notices)
    make_bench.close(bench)
    pointer.unlink()
    assert make_bench(None).notices == []


def test_what_a_load_does_is_said_in_words_of_the_window(make_bench: BenchMaker) -> None:
    bench = make_bench()
    said: list[str] = []
    bench.controller.model_loading.connect(lambda _name, _fraction, words: said.append(words))
    bench.controller.load_model("fine.gguf")
    bench.qtbot.waitUntil(lambda: bench.controller.model_info is not None)
    assert said == ["", "Reading the weights"], "and not in those of the engine, which speaks English alone"
