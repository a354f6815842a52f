from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction, QGuiApplication
from PySide6.QtWidgets import QDialog, QFileDialog, QLabel, QLineEdit, QMenu, QPushButton, QWidget
from pytestqt.qtbot import QtBot
from shiboken6 import isValid

from app.chat.controller import ChatController
from app.chat.conversation_list_model import CONVERSATION_ID
from app.settings import Settings
from app.storage.records import MessageStatus
from app.theme import Theme
from app.window.main_window import MainWindow
from app.window.menus import shortcuts_of
from app.window.pages import PageEntry
from engine.protocol import Role
from tests.app.fake_controller import MODEL, STATS, FakeController

CTRL = Qt.KeyboardModifier.ControlModifier


def _action(window: MainWindow, text: str) -> QAction:
    found = [action for action in window.findChildren(QAction) if action.text().split("\t")[0] == text]
    assert found, text
    return found[0]


def _called(fake: FakeController, name: str) -> list[tuple[object, ...]]:
    return [call for call in fake.calls if call[0] == name]


def test_the_fake_has_the_face_of_the_real_controller(fake: FakeController) -> None:
    face = {name for name in vars(ChatController) if not name.startswith("_")} - {
        "staticMetaObject",
        "start",
        "close",
    }
    assert face <= set(dir(fake))


# ---------------------------------------------------------------------------------------------- chatting


def test_a_message_is_sent_and_answered(window: MainWindow, fake: FakeController, qtbot: QtBot) -> None:
    edit = window.chat_page.composer.edit
    qtbot.keyClicks(edit, "hello")
    qtbot.keyClick(edit, Qt.Key.Key_Return)
    assert _called(fake, "send") == [("send", "hello")]
    assert window.chat_page.composer.text == ""
    message_id = fake.begin_answer()
    assert window.chat_page.composer._button.text() == "Stop"
    fake.push(message_id, "Hi ")
    fake.push(message_id, "there")
    fake.end_answer(message_id)
    assert window.chat_page.composer._button.text() == "Send"
    assert window.chat_page.last_answer() == "Hi there"
    assert "312 tok/s" in window.chat_page.transcript.widgets[-1].foot.status


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
    assert _called(fake, "stop") == []
    fake.begin_answer()
    qtbot.keyClick(window.chat_page.composer.edit, Qt.Key.Key_Escape)
    qtbot.keyClick(window.sidebar.list, Qt.Key.Key_Escape)
    assert len(_called(fake, "stop")) == 2


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


# ---------------------------------------------------------------------------------------------- the sidebar


def test_chats_are_opened_searched_and_made(window: MainWindow, fake: FakeController, qtbot: QtBot) -> None:
    qtbot.keyClick(window, Qt.Key.Key_F, CTRL | Qt.KeyboardModifier.ShiftModifier)
    field = window.sidebar._search
    assert field.hasFocus()
    qtbot.keyClicks(field, "radix")
    qtbot.waitUntil(lambda: bool(_called(fake, "search")), timeout=1000)
    qtbot.keyClick(field, Qt.Key.Key_Return)
    assert fake.current_conversation.title == "What is a radix tree?"
    qtbot.keyClick(window, Qt.Key.Key_N, CTRL)
    assert fake.current_conversation.title == ""
    assert field.text() == ""
    assert window.chat_page.composer.edit.hasFocus()


def test_the_button_makes_a_chat_outside_of_all_folders(window: MainWindow, fake: FakeController) -> None:
    window.sidebar._new.click()
    assert _called(fake, "new_conversation") == [("new_conversation", None)]


def test_nothing_found_is_said(window: MainWindow, qtbot: QtBot) -> None:
    qtbot.keyClicks(window.sidebar._search, "zebra")
    qtbot.waitUntil(lambda: window.sidebar._empty.isVisible(), timeout=1000)
    assert "zebra" in window.sidebar._empty.text()


def test_a_deleted_chat_can_be_brought_back(window: MainWindow, fake: FakeController) -> None:
    record = fake.conversations[2]
    window.sidebar.delete_requested.emit([record.id])
    assert record not in fake.conversations
    bar = window.chat_page.notice_bar
    assert record.title in bar.text
    next(button for button in bar.findChildren(QPushButton) if button.text() == "Undo").click()
    assert record in fake.conversations
    assert not bar.isVisible()


def test_the_sidebar_comes_and_goes(window: MainWindow, settings: Settings, qtbot: QtBot) -> None:
    qtbot.keyClick(window, Qt.Key.Key_B, CTRL)
    assert not window.sidebar.isVisible()
    assert window.bar.sidebar_button.isVisible()
    assert settings.value("is_sidebar_visible") is False
    window.bar.sidebar_button.click()
    assert window.sidebar.isVisible()


def test_a_narrow_window_gives_its_room_to_the_text(window: MainWindow, settings: Settings, qtbot: QtBot) -> None:
    window.resize(640, 700)
    qtbot.waitUntil(lambda: not window.sidebar.isVisible(), timeout=1000)
    assert settings.value("is_sidebar_visible") is True
    window.resize(1280, 700)
    qtbot.waitUntil(lambda: window.sidebar.isVisible(), timeout=1000)


def test_larger_text_in_the_same_window_gives_its_room_to_the_text(
    window: MainWindow, settings: Settings, qtbot: QtBot
) -> None:
    window.resize(1280, 700)
    settings.set("zoom", 2.0)
    assert not window.sidebar.isVisible()
    assert settings.value("is_sidebar_visible") is True
    settings.set("zoom", 1.0)
    assert window.sidebar.isVisible()


def test_that_a_message_waits_is_said_as_long_as_it_is_true(window: MainWindow, fake: FakeController) -> None:
    bar = window.chat_page.notice_bar
    for end in (lambda: fake.model_loaded.emit(MODEL), lambda: fake.model_failed.emit("The file is damaged.")):
        fake.waiting.emit("Your message is kept.")
        assert bar.isVisible()
        end()
        assert not (bar.isVisible() and bar.text == "Your message is kept.")
    fake.waiting.emit("Your message is kept.")
    fake.notice.emit("Something else.")
    fake.model_loaded.emit(MODEL)
    assert bar.isVisible()
    assert bar.text == "Something else."


def test_the_list_follows_the_open_chat(window: MainWindow, fake: FakeController) -> None:
    for record in fake.conversations[:3]:
        fake.open_conversation(record.id)
        assert window.sidebar.list.currentIndex().data(CONVERSATION_ID) == record.id
        assert record.title in window.windowTitle()


# ---------------------------------------------------------------------------------------------- the model


def test_the_model_button_is_picker_progress_and_facts(window: MainWindow, fake: FakeController) -> None:
    button = window.bar.model_button
    assert button.accessibleName() == "Model: SmolLM2 135M Instruct, Q4_1 · 98 MB · CPU, 2 threads"
    menu = button.make_menu()
    texts = [action.text().split("\t")[0] for action in menu.actions() if action.text()]
    assert texts[:3] == ["SmolLM2 135M Instruct", "Gemma 3 270M", "llava 1.6 projector"]
    assert not menu.actions()[2].isEnabled()
    menu.actions()[1].trigger()
    assert _called(fake, "load_model") == [("load_model", str(fake.models[1].path))]
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
    _action(window, "Open a model file…").trigger()
    assert _called(fake, "load_model") == [("load_model", "/x/a.gguf")]
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: ("", ""))
    _action(window, "Open a model file…").trigger()
    assert len(_called(fake, "load_model")) == 1


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
    assert _called(fake, "send") == []


# ---------------------------------------------------------------------------------------------- menus and pages


def test_no_menu_entry_does_nothing(window: MainWindow) -> None:
    for menu in window.menuBar().findChildren(QMenu):
        for action in menu.actions():
            if not action.isSeparator() and action.menu() is None:
                assert action.receivers("2triggered(bool)") > 0, action.text()


def test_no_shortcut_is_used_twice(window: MainWindow) -> None:
    keys = [keys for keys, _ in shortcuts_of(window)]
    assert len(keys) == len(set(keys))
    assert {"Ctrl+N", "Ctrl+K", "Ctrl+B", "Ctrl+,", "Ctrl+0", "Ctrl+-", "Ctrl+Q", "F11"} <= set(keys)


def test_the_chat_menu_acts(window: MainWindow, fake: FakeController) -> None:
    _action(window, "Copy the last answer").trigger()
    assert QGuiApplication.clipboard().text().startswith("Each line starts")
    answer_id = fake.add(Role.ASSISTANT, "text", stats=STATS)
    _action(window, "Regenerate the answer").trigger()
    assert _called(fake, "regenerate") == [("regenerate", answer_id)]
    _action(window, "Pin the chat").trigger()
    assert fake.current_conversation.is_pinned
    _action(window, "Unpin the chat").trigger()
    _action(window, "Rename the chat").trigger()
    editor = window.sidebar.list.findChild(QLineEdit)
    assert editor is not None
    _action(window, "Edit the last message").trigger()
    assert window.chat_page.transcript.widgets[-2]._editor is not None
    _action(window, "Eject the model").trigger()
    assert fake.model_info is None
    assert not _action(window, "Eject the model").isEnabled()
    _action(window, "Delete the chat").trigger()
    assert _called(fake, "delete_conversations")


def test_what_cannot_be_done_is_not_offered(window: MainWindow, fake: FakeController) -> None:
    fake.new_conversation()
    for name in ("Stop the answer", "Regenerate the answer", "Rename the chat", "Delete the chat"):
        assert not _action(window, name).isEnabled(), name
    fake.add(Role.USER, "x")
    fake.begin_answer()
    assert _action(window, "Stop the answer").isEnabled()
    assert not _action(window, "Regenerate the answer").isEnabled()


def test_zoom_and_theme_from_the_menu(window: MainWindow, settings: Settings, theme: Theme, qtbot: QtBot) -> None:
    width = window.sidebar.width()
    _action(window, "Larger text").trigger()
    assert settings.value("zoom") == 1.1
    assert window.sidebar.width() == pytest.approx(width * 1.1, abs=1)
    assert window.chat_page.composer.edit.font().pixelSize() == theme.font().pixelSize()
    assert window.chat_page.composer.edit.height() >= window.chat_page.composer.edit.fontMetrics().lineSpacing()
    _action(window, "Text as designed").trigger()
    assert window.chat_page.composer.edit.font().pixelSize() == theme.font().pixelSize()
    _action(window, "Dark").trigger()
    assert theme.palette.is_dark


def test_settings_open_act_and_close(window: MainWindow, settings: Settings, qtbot: QtBot) -> None:
    qtbot.keyClick(window, Qt.Key.Key_Comma, CTRL)
    assert window.pages.page("settings").isVisible()
    assert window.sidebar._page_buttons["settings"].isChecked()
    qtbot.keyClick(window, Qt.Key.Key_Escape)
    assert window.chat_page.isVisible()
    assert window.chat_page.composer.edit.hasFocus()


@pytest.mark.parametrize("name", ["Keyboard shortcuts", "About Fireside"])
def test_dialogs_open_and_close(window: MainWindow, qtbot: QtBot, name: str) -> None:
    _action(window, name).trigger()
    dialog = window.findChild(QDialog)
    assert dialog is not None
    assert dialog.isVisible()
    qtbot.keyClick(dialog, Qt.Key.Key_Escape)
    assert not dialog.isVisible()


def test_full_screen_toggles(window: MainWindow) -> None:
    _action(window, "Full screen").trigger()
    assert window.isFullScreen()
    _action(window, "Full screen").trigger()
    assert not window.isFullScreen()


def test_the_window_remembers_its_place_and_stays_on_a_screen(
    window: MainWindow, fake: FakeController, settings: Settings, theme: Theme, qtbot: QtBot
) -> None:
    window.resize(700, 500)
    window.move(50, 60)
    window.close()
    assert settings.value("window_geometry")
    again = MainWindow(fake, settings, theme)  # type: ignore[arg-type]
    qtbot.addWidget(again)
    assert (again.width(), again.height()) == (700, 500)
    settings.set("window_geometry", "damaged")
    third = MainWindow(fake, settings, theme)  # type: ignore[arg-type]
    qtbot.addWidget(third)
    room = QGuiApplication.primaryScreen().availableGeometry()
    assert third.width() <= room.width()
    assert room.intersects(third.geometry())


def test_no_label_reads_text_as_markup(window: MainWindow, fake: FakeController) -> None:
    fake.notice.emit("<img src='file:///x.png'> is not there.")
    fake.add(Role.ASSISTANT, "```<b>\nx\n```", status=MessageStatus.FAILED, error="<b>x</b>")
    labels = window.findChildren(QLabel)
    assert [label.text() for label in labels if label.textFormat() != Qt.TextFormat.PlainText] == []
    assert window.chat_page.notice_bar.text.startswith("<img")


def test_rendering_needs_no_network() -> None:
    source = Path(__file__).resolve().parents[3] / "app"
    views = [*source.glob("chat/*.py"), *source.glob("widgets/*.py"), *source.glob("theme/*.py")]
    assert views
    for path in views:
        text = path.read_text(encoding="utf-8")
        assert "QtNetwork" not in text, path
        assert "setHtml" not in text, path
        assert "setMarkdown" not in text, path


def test_the_focus_is_in_the_composer_after_an_edit_and_a_new_title(
    window: MainWindow, fake: FakeController, qtbot: QtBot
) -> None:
    composer = window.chat_page.composer.edit
    for text in ("a better question", ""):
        _action(window, "Edit the last message").trigger()
        message = next(w for w in window.chat_page.transcript.widgets if w._editor is not None)
        assert message._editor is not None
        message._editor.edit.setPlainText(text)
        qtbot.waitUntil(message._editor.edit.hasFocus, timeout=2000)
        qtbot.keyClick(message._editor.edit, Qt.Key.Key_Return if text else Qt.Key.Key_Escape)
        assert composer.hasFocus()
    for key in (Qt.Key.Key_Return, Qt.Key.Key_Escape):
        qtbot.keyClick(composer, Qt.Key.Key_F2)
        editor = window.sidebar.list.findChild(QLineEdit)
        assert editor is not None
        editor.setText(f"A new title {key}")
        qtbot.keyClick(editor, key)
        qtbot.waitUntil(composer.hasFocus, timeout=2000)
        qtbot.waitUntil(lambda: window.sidebar.list.findChild(QLineEdit) is None, timeout=2000)
    assert [call[2] for call in _called(fake, "rename_conversation")] == [f"A new title {Qt.Key.Key_Return}"]


def test_a_feature_brings_its_own_page(
    fake: FakeController, settings: Settings, theme: Theme, qtbot: QtBot
) -> None:
    made: list[QWidget] = []

    class Things(QWidget):
        closed = Signal()

        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    window = MainWindow(fake, settings, theme, [PageEntry("things", "Things", Things, "Ctrl+Alt+T")])  # type: ignore[arg-type]
    qtbot.addWidget(window)
    window.show()
    assert made == []  # only when it is wanted
    window.sidebar._page_buttons["things"].click()
    assert made[0].isVisible()
    assert window.sidebar._page_buttons["things"].isChecked()
    made[0].closed.emit()  # type: ignore[attr-defined]
    assert window.chat_page.isVisible()
    assert not window.sidebar._page_buttons["things"].isChecked()
    assert ("Ctrl+Alt+T", "Things") in shortcuts_of(window)
    _action(window, "Things").trigger()
    assert len(made) == 1
    assert made[0].isVisible()


def test_a_folder_is_made_named_and_used(window: MainWindow, fake: FakeController, qtbot: QtBot) -> None:
    chats = [record.id for record in fake.conversations[2:4]]
    window.sidebar.list.move_to_new_requested.emit(chats)
    [folder] = [record for record in fake.folders.records() if record.name == "New folder"]
    assert _called(fake, "move_conversations") == [("move_conversations", chats, folder.id)]
    editor = window.sidebar.list.findChild(QLineEdit)
    assert editor is not None
    assert editor.text() == "New folder"
    editor.setText("A home")
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: fake.folders.records()[0].name == "A home", timeout=2000)
    menu = window.sidebar.make_new_menu()
    menu.actions()[0].trigger()
    assert _called(fake, "new_conversation") == [("new_conversation", folder.id)]
    _action(window, "New folder").trigger()
    assert [record.name for record in fake.folders.records()] == ["A home", "New folder", "Work"]


def test_several_chats_are_deleted_and_brought_back(window: MainWindow, fake: FakeController, qtbot: QtBot) -> None:
    window.activateWindow()
    chats = window.sidebar.list
    chats.setFocus()
    chats.selectAll()
    assert len(chats.chosen_ids) == 9
    _action(window, "Delete the chat").trigger()
    assert fake.conversations == []
    assert window.chat_page.notice_bar.text == "9 chats were put into the trash."
    window.chat_page.notice_bar._action_button.click()
    assert len(fake.conversations) == 9
    _action(window, "Trash").trigger()
    assert window.pages.page("trash").isVisible()


def test_without_a_model_the_way_to_one_is_offered(
    fake: FakeController, settings: Settings, theme: Theme, qtbot: QtBot
) -> None:
    fake.model_info, fake.models = None, []
    page = QWidget()
    window = MainWindow(fake, settings, theme, [PageEntry("models", "Models", lambda: page)])  # type: ignore[arg-type]
    qtbot.addWidget(window)
    window.show()
    find, open_file = (button for button in window.chat_page.empty._made)
    assert (find.text(), open_file.text()) == ("Find a model", "Open a model file…")
    find.click()
    assert window.pages.current_name == "models"
    assert page.isVisible()


def test_pages_out_of_sight_are_made_anew_for_another_look(window: MainWindow, settings: Settings) -> None:
    window.show_page("settings")
    shown = window.pages.page("settings")
    window._toggle_options()
    window.pane.show_options(False)
    window.show_page("settings")
    settings.set("zoom", 1.1)
    assert window.pages.page("settings") is shown, "what is looked at stays"
    window.show_page("chat")
    settings.set("zoom", 1.25)
    assert not isValid(shown)
    assert window.pages.page("settings") is not shown
    assert not window.pane.shows_options
    window.pane.show_options(True)
    panel = window.pane.options_panel
    settings.set("zoom", 1.0)
    assert window.pane.options_panel is panel
