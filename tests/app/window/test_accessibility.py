from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QAccessibleEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSpinBox,
    QApplication,
    QLineEdit,
    QListView,
    QPlainTextEdit,
    QTextEdit,
    QWidget,
)
from pytestqt.qtbot import QtBot

from app.chat.code_card import CodeCard
from app.settings import Settings
from app.storage.records import MessageStatus
from app.theme import Theme
from app.window.main_window import MainWindow
from engine.protocol import Role
from tests.app.fake_controller import FakeController
from tests.app.features import make_features

CONTROLS = (QAbstractButton, QAbstractItemView, QAbstractSpinBox, QLineEdit, QPlainTextEdit, QTextEdit)


def _controls(window: MainWindow) -> list[QWidget]:
    found = []
    for widget in window.findChildren(QWidget):
        is_inner = isinstance(widget.parent(), QAbstractSpinBox) or widget.objectName().startswith("qt_")
        if not is_inner and (isinstance(widget, CONTROLS) or widget.focusPolicy() & Qt.FocusPolicy.TabFocus):
            found.append(widget)
    return found


def _nameless(controls: list[QWidget]) -> list[str]:
    nameless = []
    for widget in controls:
        interface = QAccessible.queryAccessibleInterface(widget)
        assert interface is not None, widget
        if interface.role() == QAccessible.Role.NoRole:
            nameless.append(f"no role: {widget}")
        if not interface.text(QAccessible.Text.Name).strip():
            nameless.append(f"no name: {widget.objectName()} {widget}")
    return nameless


def test_every_control_has_a_name_and_a_role(window: MainWindow, fake: FakeController) -> None:
    fake.add(Role.ASSISTANT, "| a |\n|--|\n| 1 |\n\n```py\nx\n```", reasoning="why", status=MessageStatus.STOPPED)
    window.chat_page.transcript.edit_last()
    window.banner.show_text("Something was found.", action_name="Show it", action=print)
    window.show_commands()
    for entry in window.pages.entries:
        window.show_page(entry.name)
    controls = _controls(window)
    assert len(controls) > 80
    assert _nameless(controls) == []


def test_every_row_of_the_lists_has_a_text(window: MainWindow, fake: FakeController) -> None:
    fake.delete_conversations([fake.conversations[-1].id])
    palette = window.show_commands()
    trash = window.pages.page("trash").findChild(QListView)
    assert trash is not None
    for view in (window.sidebar.list, palette.list, trash):
        model = view.model()
        assert model.rowCount() > 0
        for row in range(model.rowCount()):
            assert str(model.index(row, 0).data(Qt.ItemDataRole.AccessibleTextRole)).strip()


@pytest.mark.parametrize("name", ["settings", "trash"])
def test_tab_reaches_all_of_a_page(window: MainWindow, fake: FakeController, qtbot: QtBot, name: str) -> None:
    window.activateWindow()
    fake.delete_conversations([fake.conversations[-1].id])
    window.show_page(name)
    page = window.pages.page(name)
    if name == "trash":
        page.findChildren(QListView)[0].selectAll()
    wanted = {
        widget
        for widget in _controls(window)
        if page.isAncestorOf(widget) and widget.isVisible() and widget.isEnabled()
        and widget.focusPolicy() & Qt.FocusPolicy.TabFocus
    }  # fmt: skip
    seen: set[QWidget] = set()
    for _ in range(200):
        focus = QApplication.focusWidget()
        assert focus is not None
        seen.add(focus)
        qtbot.keyClick(focus, Qt.Key.Key_Tab)
    groups = {button.group() for button in seen if isinstance(button, QAbstractButton) and button.group()}
    left = {one for one in wanted - seen if not (isinstance(one, QAbstractButton) and one.group() in groups)}
    assert [widget.accessibleName() for widget in left] == [], "arrows lead on inside a group of buttons"


def test_the_end_of_an_answer_is_announced(
    window: MainWindow, fake: FakeController, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[tuple[str, QAccessible.AnnouncementPoliteness]] = []

    def hear(event: QAccessibleEvent) -> None:
        if isinstance(event, QAccessibleAnnouncementEvent):
            said.append((event.message(), event.politeness()))

    monkeypatch.setattr(QAccessible, "updateAccessibility", hear)
    polite = QAccessible.AnnouncementPoliteness.Polite
    message_id = fake.begin_answer()
    assert said == []
    fake.end_answer(message_id)
    assert said == [("The answer is complete.", polite)]
    other = next(record for record in fake.conversations if record.id != fake.current_id)
    fake.generation_finished.emit(other.id, "m")
    assert said[-1] == (f"The answer in “{other.title}” is complete.", polite)
    fake.notice.emit("The disk is full.")
    assert said[-1] == ("The disk is full.", polite)


def test_tab_reaches_all_that_can_be_done_and_shows_where_it_is(window: MainWindow, qtbot: QtBot) -> None:
    window.activateWindow()
    window.chat_page.focus_composer()
    seen: list[QWidget] = []
    for _ in range(200):
        focus = QApplication.focusWidget()
        if focus is None or focus in seen:
            break
        seen.append(focus)
        qtbot.keyClick(focus, Qt.Key.Key_Tab)
    names = {widget.accessibleName() for widget in seen}
    assert {"New chat", "Search all chats", "Chats", "Settings", "Message", "Copy the message"} <= names
    assert any(name.startswith("Model: ") for name in names)
    assert any(name.startswith("You: ") for name in names)
    assert any(name.startswith("Answer: ") for name in names)


def test_tab_goes_through_the_messages_as_they_are_read(
    window: MainWindow, fake: FakeController, qtbot: QtBot
) -> None:
    transcript = window.chat_page.transcript
    fake.end_answer(fake.begin_answer())
    message_id = fake.begin_answer()
    fake.push(message_id, "```python\nprint(1)\n```\n\nand\n\n```python\nprint(2)\n```\n")
    fake.end_answer(message_id)
    qtbot.waitUntil(lambda: len(transcript.widgets) == len(fake.current_messages))
    qtbot.waitUntil(lambda: len(transcript.widgets[-1].findChildren(CodeCard)) == 2)
    window.activateWindow()
    transcript.setFocus()
    messages, parts = [], []
    for _ in range(100):
        focus = QApplication.focusWidget()
        assert focus is not None
        if focus in transcript.widgets:
            messages.append(focus)
        elif transcript.widgets[-1].isAncestorOf(focus):
            parts.append(focus)
        elif window.chat_page.composer.isAncestorOf(focus):
            break
        qtbot.keyClick(focus, Qt.Key.Key_Tab)
        qtbot.wait(1)  # the actions of the message take their places
    assert messages == list(transcript.widgets)
    names = [part.accessibleName() for part in parts]
    assert names[:5] == [*["Copy the code", "Save the code as a file"] * 2, "Copy the message"]
    assert names[-1] == "More for this message"
    cards = transcript.widgets[-1].findChildren(CodeCard)
    assert [card.isAncestorOf(part) for card, part in zip((cards[0], cards[0], cards[1], cards[1]), parts)] == [
        True
    ] * 4
    qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Tab, Qt.KeyboardModifier.ShiftModifier)
    assert QApplication.focusWidget() is parts[-1], "back from the composer one is at the end, not at the beginning"


def test_tab_finds_its_way_through_many_messages_and_what_has_come_since(
    window: MainWindow, fake: FakeController, qtbot: QtBot
) -> None:
    transcript = window.chat_page.transcript
    fake.new_conversation()
    for number in range(10):
        fake.add(Role.USER, f"question {number}")
        fake.add(Role.ASSISTANT, f"```py\nx = {number}\n```\n")
    qtbot.waitUntil(lambda: len(transcript.widgets) == len(fake.current_messages))
    window.activateWindow()
    transcript.setFocus()
    qtbot.keyClick(transcript, Qt.Key.Key_Tab)
    assert QApplication.focusWidget() is transcript.widgets[0]
    known = [widget for widget in transcript.widgets if widget.knows_keyboard_parts]
    assert len(known) < len(transcript.widgets) // 2, "what is far from the focus waits for the next turns"
    qtbot.waitUntil(lambda: all(widget.knows_keyboard_parts for widget in transcript.widgets))
    message_id = fake.begin_answer()
    fake.push(message_id, "```py\nprint(1)\n```\n\nand\n\n```py\nprint(2)\n```\n")
    fake.end_answer(message_id)
    qtbot.waitUntil(lambda: len(transcript.widgets[-1].findChildren(CodeCard)) == 2)
    window.chat_page.composer.edit.setFocus()
    names = []
    while QApplication.focusWidget() is not transcript.widgets[-1]:
        qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Tab, Qt.KeyboardModifier.ShiftModifier)
        focus = QApplication.focusWidget()
        assert focus is not None
        assert transcript.widgets[-1].isAncestorOf(focus) or focus is transcript.widgets[-1]
        names.append(focus.accessibleName())
        qtbot.wait(1)
    assert names[-5:-1] == ["Save the code as a file", "Copy the code"] * 2


def test_focus_is_seen(window: MainWindow, qtbot: QtBot) -> None:
    window.activateWindow()
    for widget in (window.sidebar._new, window.bar.model_button, window.sidebar._search):
        window.chat_page.focus_composer()
        before = widget.grab().toImage()
        widget.setFocus(Qt.FocusReason.TabFocusReason)
        QApplication.processEvents()
        assert widget.grab().toImage() != before, widget


@pytest.mark.parametrize("name", ["sidebar", "chat_page"])
def test_buttons_leave_the_focus_where_it_is(window: MainWindow, qtbot: QtBot, name: str) -> None:
    for button in getattr(window, name).findChildren(QAbstractButton):
        assert button.focusPolicy() in {Qt.FocusPolicy.TabFocus, Qt.FocusPolicy.NoFocus}, button.accessibleName()


def test_right_to_left_interface_has_no_gap(window: MainWindow, qapp: QApplication, qtbot: QtBot) -> None:
    qapp.setLayoutDirection(Qt.LayoutDirection.RightToLeft)
    try:
        qtbot.waitUntil(lambda: window.sidebar.x() > window.pages.x())
    finally:
        qapp.setLayoutDirection(Qt.LayoutDirection.LeftToRight)


def test_the_pages_of_features_can_be_heard_too(
    fake: FakeController, settings: Settings, theme: Theme, qtbot: QtBot, tmp_path: Path
) -> None:
    context, pages = make_features(tmp_path, theme)
    window = MainWindow(fake, settings, theme, pages)  # type: ignore[arg-type]
    qtbot.addWidget(window)
    window.show()
    try:
        for entry in pages:
            window.show_page(entry.name)
            page = window.pages.page(entry.name)
            controls = [one for one in _controls(window) if page.isAncestorOf(one) and one.isVisible()]
            assert len(controls) > 3, entry.name
            assert _nameless(controls) == [], entry.name
    finally:
        window.close()
        context.close()
