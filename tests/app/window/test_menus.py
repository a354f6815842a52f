from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDialog, QLabel, QLineEdit, QMenu, QWidget
from pytestqt.qtbot import QtBot
from shiboken6 import isValid

from app.settings import Settings
from app.storage.records import MessageStatus
from app.theme import Theme
from app.window.main_window import MainWindow
from app.window.menus import shortcuts_of
from app.window.pages import PageEntry
from engine.protocol import Role
from tests.app.fake_controller import STATS, FakeController
from tests.app.window.steps import CTRL, action_of, calls_of


def test_no_menu_entry_does_nothing(window: MainWindow) -> None:
    for menu in window.menuBar().findChildren(QMenu):
        for action in menu.actions():
            if not action.isSeparator() and action.menu() is None:
                assert action.receivers("2triggered(bool)") > 0, action.text()


def test_no_shortcut_is_used_twice(window: MainWindow) -> None:
    keys = [keys for _, rows in shortcuts_of(window) for keys, _ in rows]
    assert len(keys) == len(set(keys))
    assert {"Ctrl+N", "Ctrl+K", "Ctrl+B", "Ctrl+,", "Ctrl+0", "Ctrl+-", "Ctrl+Q", "F11"} <= set(keys)


def test_the_chat_menu_acts(window: MainWindow, fake: FakeController) -> None:
    action_of(window, "Copy the last answer").trigger()
    assert QGuiApplication.clipboard().text().startswith("Each line starts")
    answer_id = fake.add(Role.ASSISTANT, "text", stats=STATS)
    action_of(window, "Regenerate the answer").trigger()
    assert calls_of(fake, "regenerate") == [("regenerate", answer_id)]
    action_of(window, "Pin the chat").trigger()
    assert fake.current_conversation.is_pinned
    action_of(window, "Unpin the chat").trigger()
    action_of(window, "Rename the chat").trigger()
    editor = window.sidebar.list.findChild(QLineEdit)
    assert editor is not None
    action_of(window, "Edit the last message").trigger()
    assert window.chat_page.transcript.widgets[-2]._editor is not None
    action_of(window, "Eject the model").trigger()
    assert fake.model_info is None
    assert not action_of(window, "Eject the model").isEnabled()
    action_of(window, "Delete the chat").trigger()
    assert calls_of(fake, "delete_conversations")


def test_what_cannot_be_done_is_not_offered(window: MainWindow, fake: FakeController) -> None:
    fake.new_conversation()
    for name in ("Stop the answer", "Regenerate the answer", "Rename the chat", "Delete the chat"):
        assert not action_of(window, name).isEnabled(), name
    fake.add(Role.USER, "x")
    fake.begin_answer()
    assert action_of(window, "Stop the answer").isEnabled()
    assert not action_of(window, "Regenerate the answer").isEnabled()


def test_zoom_and_theme_from_the_menu(window: MainWindow, settings: Settings, theme: Theme, qtbot: QtBot) -> None:
    width = window.sidebar.width()
    action_of(window, "Larger text").trigger()
    assert settings.value("zoom") == 1.1
    assert window.sidebar.width() == pytest.approx(width * 1.1, abs=1)
    assert window.chat_page.composer.edit.font().pixelSize() == theme.font().pixelSize()
    assert window.chat_page.composer.edit.height() >= window.chat_page.composer.edit.fontMetrics().lineSpacing()
    action_of(window, "Text as designed").trigger()
    assert window.chat_page.composer.edit.font().pixelSize() == theme.font().pixelSize()
    action_of(window, "Dark").trigger()
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
    action_of(window, name).trigger()
    dialog = window.findChild(QDialog)
    assert dialog is not None
    assert dialog.isVisible()
    qtbot.keyClick(dialog, Qt.Key.Key_Escape)
    assert not dialog.isVisible()


def test_full_screen_toggles(window: MainWindow) -> None:
    action_of(window, "Full screen").trigger()
    assert window.isFullScreen()
    action_of(window, "Full screen").trigger()
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
        action_of(window, "Edit the last message").trigger()
        message = next(w for w in window.chat_page.transcript.widgets if w._editor is not None)
        assert message._editor is not None
        message._editor.edit.setPlainText(text)
        qtbot.waitUntil(message._editor.edit.hasFocus)
        qtbot.keyClick(message._editor.edit, Qt.Key.Key_Return if text else Qt.Key.Key_Escape)
        assert composer.hasFocus()
    for key in (Qt.Key.Key_Return, Qt.Key.Key_Escape):
        qtbot.keyClick(composer, Qt.Key.Key_F2)
        editor = window.sidebar.list.findChild(QLineEdit)
        assert editor is not None
        editor.setText(f"A new title {key}")
        qtbot.keyClick(editor, key)
        qtbot.waitUntil(composer.hasFocus)
        qtbot.waitUntil(lambda: window.sidebar.list.findChild(QLineEdit) is None)
    assert [call[2] for call in calls_of(fake, "rename_conversation")] == [f"A new title {Qt.Key.Key_Return}"]


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
    assert ("Ctrl+Alt+T", "Things") in dict(shortcuts_of(window))["View"]
    action_of(window, "Things").trigger()
    assert len(made) == 1
    assert made[0].isVisible()


def test_a_folder_is_made_named_and_used(window: MainWindow, fake: FakeController, qtbot: QtBot) -> None:
    chats = [record.id for record in fake.conversations[2:4]]
    window.sidebar.list.move_to_new_requested.emit(chats)
    [folder] = [record for record in fake.folders.records() if record.name == "New folder"]
    assert calls_of(fake, "move_conversations") == [("move_conversations", chats, folder.id)]
    editor = window.sidebar.list.findChild(QLineEdit)
    assert editor is not None
    assert editor.text() == "New folder"
    editor.setText("A home")
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: fake.folders.records()[0].name == "A home")
    menu = window.sidebar.make_new_menu()
    menu.actions()[0].trigger()
    assert calls_of(fake, "new_conversation") == [("new_conversation", folder.id)]
    action_of(window, "New folder").trigger()
    assert [record.name for record in fake.folders.records()] == ["A home", "New folder", "Work"]


def test_several_chats_are_deleted_and_brought_back(window: MainWindow, fake: FakeController, qtbot: QtBot) -> None:
    window.activateWindow()
    chats = window.sidebar.list
    chats.setFocus()
    chats.selectAll()
    assert len(chats.chosen_ids) == 9
    action_of(window, "Delete 9 chats").trigger()
    assert fake.conversations == []
    assert window.chat_page.notice_bar.text == "9 chats were put into the trash."
    window.chat_page.notice_bar._action_button.click()
    assert len(fake.conversations) == 9
    action_of(window, "Trash").trigger()
    assert window.pages.page("trash").isVisible()


def test_without_a_model_the_way_to_one_is_offered(
    fake: FakeController, settings: Settings, theme: Theme, qtbot: QtBot
) -> None:
    fake.model_info, fake.models = None, []
    page = QWidget()
    window = MainWindow(fake, settings, theme, [PageEntry("models", "Models", lambda: page)])  # type: ignore[arg-type]
    qtbot.addWidget(window)
    window.show()
    entries = {action.text().split("\t")[0]: action for action in window.bar.model_button.make_menu().actions()}
    entries["Find a model"].trigger()
    assert page.isVisible(), "from a chat in which something was written, too"
    window.show_page("chat")
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


def test_chats_chosen_with_the_mouse_go_together(window: MainWindow, fake: FakeController, qtbot: QtBot) -> None:
    window.activateWindow()
    chats = window.sidebar.list
    window.chat_page.focus_composer()
    rows = [chats.conversations.index(chats.conversations.row_of(record.id)) for record in fake.conversations[1:4]]
    for row, modifier in zip(rows, (Qt.KeyboardModifier.NoModifier, CTRL, CTRL), strict=True):
        place = chats.visualRect(row).center()
        qtbot.mouseClick(chats.viewport(), Qt.MouseButton.LeftButton, modifier, place)
    assert len(chats.chosen_ids) == 3
    assert not chats.hasFocus()
    chosen = set(chats.chosen_ids)
    action_of(window, "Pin 3 chats").trigger()
    assert chosen <= {record.id for record in fake.conversations if record.is_pinned}
    action_of(window, "Delete 3 chats").trigger()
    assert not chosen & {record.id for record in fake.conversations}
    assert window.chat_page.notice_bar.text == "3 chats were put into the trash."
    assert action_of(window, "Delete the chat").isEnabled() == bool(fake.current_conversation.title)
