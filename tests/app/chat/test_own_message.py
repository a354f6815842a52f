from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from pytestqt.qtbot import QtBot

from app.chat.chat_page import ChatPage
from app.chat.conversation import MessageView
from app.chat.own_message import OwnMessage
from app.chat.transcript import Transcript
from app.settings import Settings
from app.storage.records import AttachmentRecord, MessageRecord
from app.theme import Theme
from engine.protocol import Role
from tests.app.conftest import Bench

TEXTS = {
    "a letter": "i",
    "a line": "Which lines of the file come first when two have the same key?",
    "some lines": "Which lines of the file come first?\n" * 3,
    "words": "Which lines of the file come first when two have the same key, and is that so in reverse? " * 3,
    "a long word": "Look at " + "x" * 300 + " please",
    "wide letters": "W" * 60,
    "tabs": "\t\t\ta" * 9,
    "spaces": "word   word  " * 12,
    "no spaces": "日本語の文章もある。京都の冬は寒い。" * 5,
    "long": "word " * 2000,
}


def _view(content: str, message_id: str = "m", attachments: tuple[AttachmentRecord, ...] = ()) -> MessageView:
    return MessageView(MessageRecord(message_id, "c", None, Role.USER, content), 0, 1, attachments=attachments)


def _cut(own: OwnMessage) -> list[str]:
    """What would not be seen whole if the message were painted now."""
    text, found = own._text, []
    view, document = text.viewport(), text.document()
    if document.textWidth() > view.width() or document.size().height() > view.height() + 1:
        found.append(f"text {document.textWidth()} x {document.size().height()} in {view.size()}")
    for inner, outer in ((text, own._bubble), (own._bubble, own), (own.attached, own), (own, own.parentWidget())):
        place = QRect(inner.mapTo(outer, QPoint(0, 0)), inner.size())
        if not inner.isHidden() and not outer.rect().contains(place):
            found.append(f"{type(inner).__name__} {place} in {outer.size()}")
    if not own._bubble.isHidden() and own._bubble.geometry().right() != own.width() - 1:
        found.append(f"the bubble ends at {own._bubble.geometry().right()} of {own.width()}")
    return found


@pytest.mark.parametrize("zoom", [0.8, 1.0, 2.0])
@pytest.mark.parametrize("width", [420, 700, 1300])
def test_no_picture_of_an_own_message_is_cut(
    theme: Theme, settings: Settings, qtbot: QtBot, zoom: float, width: int
) -> None:
    """Asked before any event is handled: a picture may be drawn before the layouts hear of anything."""
    settings.set("zoom", zoom)
    transcript = Transcript(theme)
    qtbot.addWidget(transcript)
    transcript.resize(width, 500)
    transcript.show()
    qtbot.waitExposed(transcript)
    file = AttachmentRecord("a", "c", None, 0, "a file with a name.txt", "a", 10)
    for name, content in TEXTS.items():
        transcript.show_conversation([_view("before", "b")])
        steps = {
            "it is new": [_view("before", "b"), _view(content)],
            "it is longer": [_view("before", "b"), _view(content + "\nand more words, so that it is longer")],
            "it is shorter": [_view("before", "b"), _view("i")],
            "it has a file": [_view("before", "b"), _view(content, attachments=(file,))],
            "it has no text": [_view("before", "b"), _view("", attachments=(file,))],
        }
        for step, views in steps.items():
            transcript.sync(views)
            own = transcript.widgets[-1]
            assert isinstance(own, OwnMessage)
            assert not _cut(own), f"{name}: {step}"
        transcript.sync([_view("before", "b"), _view(content)])
        for other in (width - 137, width + 90, width):
            transcript.resize(other, 500)
            own = transcript.widgets[-1]
            assert isinstance(own, OwnMessage)
            assert not _cut(own), f"{name}: {other} wide"


def test_an_unfinished_edit_waits_in_its_chat(bench: Bench, theme: Theme, settings: Settings, qtbot: QtBot) -> None:
    page = ChatPage(bench.controller, theme)
    qtbot.addWidget(page)
    page.resize(800, 600)
    page.show()
    bench.ask("a question", "an answer")
    first = bench.controller.current_id
    assert page.transcript.edit_last()
    editor = page.transcript.widgets[0]._editor
    assert editor is not None
    qtbot.keyClicks(editor.edit, ", better put")
    bench.controller.new_conversation()
    bench.ask("another", "answer")
    assert page.transcript.widgets[0]._editor is None
    bench.controller.open_conversation(first)
    settings.set("zoom", 1.5)  # makes all messages anew
    again = page.transcript.widgets[0]._editor
    assert again is not None
    assert again.edit.toPlainText() == "a question, better put"
    assert not again.edit.hasFocus(), "whoever comes back writes on below"
    qtbot.keyClick(again.edit, Qt.Key.Key_Return)
    bench.engine.finish(bench.request())
    bench.wait_idle()
    assert bench.controller.current_messages[0].record.content == "a question, better put"
    bench.controller.select_sibling(bench.controller.current_messages[0].record.id, -1)
    assert page.transcript.widgets[0]._editor is None, "it was taken"
    page.transcript.widgets[0].begin_edit()
    bench.controller.new_conversation()
    bench.controller.open_conversation(first)
    assert page.transcript.widgets[0]._editor is None, "nothing was written"
