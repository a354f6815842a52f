from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog, QPushButton
from pytestqt.qtbot import QtBot

from app.chat.chat_state import ChatState
from app.chat.controller import ChatController
from app.settings import Settings
from app.theme import Theme
from app.window.main_window import MainWindow
from engine.protocol import Role
from tests.app.fake_controller import MODEL, STATS, FakeController
from tests.app.window.steps import action_of, calls_of


def test_the_fake_has_the_face_of_the_real_controller(fake: FakeController) -> None:
    names = {name for cls in (ChatController, ChatState) for name in vars(cls) if not name.startswith("_")}
    face = names - {"staticMetaObject", "start", "close"}
    assert face <= set(dir(fake))


def test_a_message_is_sent_and_answered(window: MainWindow, fake: FakeController, qtbot: QtBot) -> None:
    edit = window.chat_page.composer.edit
    qtbot.keyClicks(edit, "hello")
    qtbot.keyClick(edit, Qt.Key.Key_Return)
    assert calls_of(fake, "send") == [("send", "hello")]
    assert window.chat_page.composer.text == ""
    message_id = fake.begin_answer()
    assert window.chat_page.composer._button.text() == "Stop"
    fake.push(message_id, "Hi ")
    fake.push(message_id, "there")
    fake.end_answer(message_id)
    assert window.chat_page.composer._button.text() == "Send"
    assert window.chat_page.branch.last_answer() == "Hi there"
    assert "312 tok/s" in window.chat_page.transcript.widgets[-1].foot.status


def test_the_composer_has_its_height_before_the_next_picture(window: MainWindow, fake: FakeController) -> None:
    composer = window.chat_page.composer

    def heights() -> tuple[int, int, int]:
        return composer.edit.height(), composer._frame.height(), composer.height()

    rest, bottom = heights(), composer.mapTo(window, composer.rect().bottomLeft()).y()
    composer.edit.setPlainText("one\ntwo\nthree\nfour")
    grown = heights()
    assert grown[0] > rest[0]
    assert [after - before for before, after in zip(rest, grown)] == [grown[0] - rest[0]] * 3
    assert composer.mapTo(window, composer.rect().bottomLeft()).y() == bottom
    composer.edit.submitted.emit()
    assert composer.text == ""
    assert heights() == rest
    assert composer.mapTo(window, composer.rect().bottomLeft()).y() == bottom


def test_a_message_that_is_not_taken_stays(window: MainWindow, fake: FakeController, qtbot: QtBot) -> None:
    fake.takes_messages = False
    edit = window.chat_page.composer.edit
    qtbot.keyClicks(edit, "hello")
    qtbot.keyClick(edit, Qt.Key.Key_Return)
    assert window.chat_page.composer.text == "hello"


def test_reading_is_said_in_words(window: MainWindow, fake: FakeController) -> None:
    fake.begin_answer()
    fake.reading_progress.emit(fake.current_id, 100, 1304, 100)
    foot = window.chat_page.transcript.widgets[-1].foot
    assert foot.status == "reading 1,204 tokens · 100 reused"
    assert foot._status.isVisible()


def test_pieces_for_another_chat_are_dropped(window: MainWindow, fake: FakeController) -> None:
    fake.delta.emit("another chat", "m", "answer", "secret")
    assert all("secret" not in str(widget.current_view) for widget in window.chat_page.transcript.widgets)


def test_a_generating_chat_can_be_left_and_found_again(
    window: MainWindow, fake: FakeController, qtbot: QtBot
) -> None:
    chat = fake.current_id
    message_id = fake.begin_answer()
    fake.push(message_id, "half ")
    other = next(record.id for record in fake.conversations if record.title.startswith("Trip"))
    fake.open_conversation(other)
    assert window.chat_page.composer._button.text() == "Stop"  # it answers too
    fake.open_conversation(fake.conversations[0].id)
    assert window.chat_page.composer._button.text() == "Send"
    fake.open_conversation(chat)
    fake.push(message_id, "done")
    qtbot.waitUntil(lambda: window.chat_page.transcript.widgets[-1].current_view.record.content == "half done")


def test_drafts_belong_to_their_chats(window: MainWindow, fake: FakeController, qtbot: QtBot) -> None:
    first = fake.current_id
    qtbot.keyClicks(window.chat_page.composer.edit, "unfinished")
    fake.new_conversation()
    assert window.chat_page.composer.text == ""
    fake.open_conversation(first)
    assert window.chat_page.composer.text == "unfinished"


def test_escape_stops_an_answer_from_anywhere(window: MainWindow, fake: FakeController, qtbot: QtBot) -> None:
    qtbot.keyClick(window.chat_page.composer.edit, Qt.Key.Key_Escape)
    assert calls_of(fake, "stop") == []
    fake.begin_answer()
    qtbot.keyClick(window.chat_page.composer.edit, Qt.Key.Key_Escape)
    qtbot.keyClick(window.sidebar.list, Qt.Key.Key_Escape)
    assert len(calls_of(fake, "stop")) == 2


def test_the_way_back_to_the_end_shows_only_when_it_is_needed(
    window: MainWindow, fake: FakeController, qtbot: QtBot
) -> None:
    page = window.chat_page
    assert not page._to_end.isVisible()
    for number in range(10):
        fake.add(Role.ASSISTANT, f"text {number}\n\n" * 4, stats=STATS)
    qtbot.keyClick(page.transcript, Qt.Key.Key_Home)
    assert page._to_end.isVisible()
    page._to_end.click()
    assert not page._to_end.isVisible()
    assert page.transcript.is_following


def test_errors_are_a_sentence_and_never_in_the_way(window: MainWindow, fake: FakeController) -> None:
    fake.notice.emit("The disk is full: this answer is not kept.")
    bar = window.chat_page.notice_bar
    assert bar.isVisible()
    assert bar.text == "The disk is full: this answer is not kept."
    next(button for button in bar.findChildren(QPushButton) if button.accessibleName() == "Dismiss").click()
    assert not bar.isVisible()


def test_the_model_button_is_picker_progress_and_facts(window: MainWindow, fake: FakeController) -> None:
    button = window.bar.model_button
    assert button.accessibleName() == "Model: SmolLM2 135M Instruct, Q4_1 · 98 MB · CPU, 2 threads"
    menu = button.make_menu()
    texts = [action.text().split("\t")[0] for action in menu.actions() if action.text()]
    assert texts[:3] == ["SmolLM2 135M Instruct", "Gemma 3 270M", "llava 1.6 projector"]
    assert not menu.actions()[2].isEnabled()
    menu.actions()[1].trigger()
    assert calls_of(fake, "load_model") == [("load_model", str(fake.models[1].path))]
    fake.model_loading.emit("Gemma 3 270M", 0.62, "loading weights")
    assert button.accessibleName() == "Model: Gemma 3 270M, loading weights 62 %"
    fake.model_failed.emit("The file is damaged.")
    assert "SmolLM2" in button.accessibleName()


def test_the_context_meter_has_its_numbers(window: MainWindow, fake: FakeController) -> None:
    fake.context_used.emit(1204, 1148, 8192)
    assert window.bar.context_text == "Context 1,204 of 8,192"
    assert "1,148 reused, 56 fresh, 6,988 free" in window.bar._meter.toolTip()


def test_a_model_file_can_be_opened(
    window: MainWindow, fake: FakeController, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: ("/x/a.gguf", ""))
    action_of(window, "Open a model file…").trigger()
    assert calls_of(fake, "load_model") == [("load_model", "/x/a.gguf")]
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: ("", ""))
    action_of(window, "Open a model file…").trigger()
    assert len(calls_of(fake, "load_model")) == 1


@pytest.mark.parametrize(
    ("models", "event", "title"),
    [
        (0, None, "No model yet"),
        (3, None, "Choose a model"),
        (3, ("model_loading", ("Gemma", 0.1, "")), "What shall we talk about?"),
        (3, ("model_failed", ("The file is damaged.",)), "The model could not be loaded"),
        (3, ("model_loaded", (MODEL,)), "What shall we talk about?"),
    ],
)
def test_empty_states(
    settings: Settings, theme: Theme, qtbot: QtBot, models: int, event: tuple[str, tuple[object, ...]], title: str
) -> None:
    fake = FakeController(model=None)
    fake.models = fake.models[:models]
    made = MainWindow(fake, settings, theme)  # type: ignore[arg-type]
    qtbot.addWidget(made)
    if event:
        fake.model_info = MODEL if event[0] == "model_loaded" else None
        getattr(fake, event[0]).emit(*event[1])
    assert made.chat_page.empty._title.text() == title
    assert made.sidebar._empty.text() == "Your chats will be listed here."


def test_a_suggestion_goes_into_the_composer(window: MainWindow, fake: FakeController) -> None:
    fake.new_conversation()
    button = window.chat_page.empty._made[0]
    button.click()
    assert window.chat_page.composer.text == button.accessibleName()
    assert calls_of(fake, "send") == []


def test_the_bar_has_the_ground_of_the_page_and_a_line_below(window: MainWindow, theme: Theme) -> None:
    image = window.bar.grab().toImage()
    middle = image.width() * 2 // 3  # between the buttons and the numbers
    seen = [image.pixelColor(middle, line) for line in (0, image.height() // 2, image.height() - 1)]
    assert seen == [theme.colour(name) for name in ("background", "background", "hairline")]
