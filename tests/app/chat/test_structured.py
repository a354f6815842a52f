from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtWidgets import QApplication, QLabel
from pytestqt.qtbot import QtBot

from app.chat.answer import Answer
from app.chat.chat_page import ChatPage
from app.chat.composer import Composer
from app.chat.conversation import MessageView
from app.chat.options import accepted, format_of
from app.chat.schema_dialog import SchemaDialog
from app.chat.schema_picker import SchemaPicker
from app.chat.structured_view import MAX_ROWS, StructuredView, leaves, verdict_line
from app.schema.library import SchemaLibrary
from app.settings import Settings
from app.storage.records import MessageRecord, MessageStatus
from app.theme import Theme
from engine.protocol import (
    FieldCertainty,
    FinishReason,
    FormatKind,
    RequestFinished,
    RequestStats,
    ResponseFormat,
    Role,
    StructuredResult,
)
from tests.app.conftest import Bench, BenchMaker

SCHEMA = '{"type": "object", "properties": {"a": {"type": "string"}}}'
VALUE = {"name": "Ada", "tags": ["x", "y"], "place": {"a/b": None}, "empty": []}
VERDICT = {
    "is_complete": True,
    "is_valid": True,
    "num_forced_tokens": 61,
    "num_tokens": 140,
    "fields": [{"path": "/name", "probability": 0.42, "alternatives": [['"Bob"', 0.3]]}],
}


def test_a_schema_goes_with_the_request_and_the_verdict_with_the_answer(
    bench: Bench, make_bench: BenchMaker
) -> None:
    bench.controller.set_options({"schema": SCHEMA, "schema_name": "Mine", "schema_afterwards": True})
    bench.controller.send("Who?")
    request_id = bench.request()
    request = bench.engine.requests.pop()
    assert request.response_format == ResponseFormat(FormatKind.JSON_SCHEMA, SCHEMA, check_afterwards=True)
    assert request.certainty
    bench.engine.say(request_id, '{"a": "x"}')
    verdict = StructuredResult(True, True, num_forced_tokens=3, fields=(FieldCertainty("/a", 0.5),))
    stats = RequestStats(10, 4, 7, 1.0, 2.0, 3.0, 99.0, 7)
    bench.engine.on_event(RequestFinished(request_id, FinishReason.STOP, stats, verdict))
    bench.wait_idle()
    make_bench.close(bench)
    stored = make_bench().controller.current_messages[-1].record.stats
    assert stored is not None
    assert stored["structured"]["fields"] == [{"path": "/a", "probability": 0.5, "alternatives": []}]
    assert verdict_line(stored["structured"]) == "Valid. 3 of 7 tokens were forced by the schema."


def test_free_text_asks_for_no_form(bench: Bench) -> None:
    bench.controller.send("Who?")
    bench.request()
    assert bench.engine.requests[-1].response_format is None
    assert not bench.engine.requests[-1].certainty
    assert accepted({"schema": 3, "schema_afterwards": 1}) == {}
    assert format_of({"schema": " ", "schema_afterwards": False}) is None


def test_the_tree_of_a_value() -> None:
    assert [(leaf.path, leaf.name, leaf.depth, leaf.value) for leaf in leaves(VALUE)] == [
        ("/name", "name", 0, "Ada"),
        ("/tags", "tags", 0, None),
        ("/tags/0", "1.", 1, "x"),
        ("/tags/1", "2.", 1, "y"),
        ("/place", "place", 0, None),
        ("/place/a~1b", "a/b", 1, "null"),
        ("/empty", "empty", 0, "[]"),
    ]
    assert [leaf.value for leaf in leaves("text")] == ["text"]
    many = list(leaves(list(range(MAX_ROWS + 50))))
    assert len(many) == MAX_ROWS + 1
    assert many[-1].value == "50 more lines; see the JSON."


def test_the_verdict_is_never_better_than_the_answer() -> None:
    assert verdict_line(VERDICT) == "Valid. 61 of 140 tokens were forced by the schema."
    assert verdict_line({**VERDICT, "checked_afterwards": ["#/a/uniqueItems"]}).endswith(
        "Checked afterwards: #/a/uniqueItems."
    )
    assert verdict_line({"is_complete": True, "is_valid": False, "message": "#/a: 1."}) == "Not valid: #/a: 1."
    assert verdict_line({"is_complete": False, "message": "Cut."}) == "Incomplete: Cut."
    assert verdict_line({}) == "Incomplete: the answer was cut off."


def test_a_structured_answer_shows_a_tree_and_its_json(theme: Theme, qtbot: QtBot, tmp_path: Path) -> None:
    stats = {"structured": VERDICT, "finish_reason": "stop"}
    record = MessageRecord("m", "c", None, Role.ASSISTANT, json.dumps(VALUE), stats=stats)
    answer = Answer(theme, MessageView(record, 0, 1))
    qtbot.addWidget(answer)
    answer.show()
    view = answer.findChild(StructuredView)
    assert view is not None
    assert view.tree.isVisible()
    assert not answer.body.isVisible()
    shown = [label.text() for label in view.tree.findChildren(QLabel)]
    assert {"name", "Ada", "42 %", "tags", "2.", "y"} <= set(shown)
    certainty = next(label for label in view.tree.findChildren(QLabel) if label.text() == "42 %")
    assert '"Bob": 30%' in certainty.toolTip()
    name = next(label for label in view.tree.findChildren(QLabel) if label.text() == "name")
    value = next(label for label in view.tree.findChildren(QLabel) if label.text() == "Ada")
    assert name.geometry().center().y() == value.geometry().center().y() == certainty.geometry().center().y()
    assert certainty.geometry().right() == view.tree.contentsRect().right()
    view._sides.chosen.emit("text")
    assert answer.body.isVisible()
    assert not view.tree.isVisible()
    assert answer.texts[0].toPlainText() == json.dumps(VALUE, indent=2)
    view._copy.click()
    assert json.loads(QApplication.clipboard().text()) == VALUE
    view.save(tmp_path / "x.json")
    assert json.loads((tmp_path / "x.json").read_text("utf-8")) == VALUE
    with qtbot.waitSignal(view.notice) as caught:
        view.save(tmp_path / "gone" / "x.json")
    assert caught.args == ["x.json could not be saved: No such file or directory."]


def test_an_answer_that_is_no_json_stays_text(theme: Theme, qtbot: QtBot) -> None:
    stats = {"structured": {"is_complete": False, "message": "Cut."}, "finish_reason": "length"}
    record = MessageRecord("m", "c", None, Role.ASSISTANT, '{"name": "A', stats=stats)
    answer = Answer(theme, MessageView(record, 0, 1))
    qtbot.addWidget(answer)
    assert answer.findChild(StructuredView) is None
    assert answer.texts[0].toPlainText() == '{"name": "A'


def test_an_answer_that_goes_on_is_text_again(theme: Theme, qtbot: QtBot) -> None:
    record = MessageRecord("m", "c", None, Role.ASSISTANT, "{}", stats={"structured": VERDICT})
    answer = Answer(theme, MessageView(record, 0, 1))
    qtbot.addWidget(answer)
    streaming = MessageRecord("m", "c", None, Role.ASSISTANT, "{}", status=MessageStatus.STREAMING)
    answer.show_view(MessageView(streaming, 0, 1))
    answer.append("answer", " and more")
    assert answer._structured is None
    qtbot.waitUntil(lambda: answer.texts[0].toPlainText() == "{} and more")


def test_the_picker_sets_the_open_chats_form(bench: Bench, theme: Theme, qtbot: QtBot) -> None:
    picker = SchemaPicker(bench.controller, theme)
    qtbot.addWidget(picker)
    picker.resize(picker.sizeHint())
    bench.controller.schemas.save("Mine", SCHEMA)
    assert (picker.text(), picker.accessibleName()) == ("Schema: none", "Answers are free text")
    bench.controller.set_options({"temperature": 0.1})
    names = [action.text() for action in picker.make_menu().actions() if action.text()]
    assert names == ["Free text", "Mine", "Gallery", "Make a schema…"]
    next(action for action in picker.make_menu().actions() if action.text() == "Mine").trigger()
    options = bench.controller.current_conversation.options
    assert options == {"temperature": 0.1, "schema": SCHEMA, "schema_name": "Mine", "schema_afterwards": False}
    assert picker.text() == "Schema: Mine"
    offers: list[Callable[[], object]] = []
    picker.undo_offered.connect(lambda _text, undo: offers.append(undo))
    picker.make_menu().actions()[0].trigger()
    assert bench.controller.current_conversation.options == {"temperature": 0.1}
    assert picker.text() == "Schema: none"
    assert offers == [], "it is kept"
    own = '{"type": "string"}'
    picker.choose("Own", own)
    picker.make_menu().actions()[0].trigger()
    assert "schema" not in bench.controller.current_conversation.options
    [undo] = offers
    undo()
    assert bench.controller.current_conversation.options["schema"] == own
    assert picker.text() == "Schema: Own"


def test_the_dialog_offers_only_what_can_be_used(theme: Theme, qtbot: QtBot, tmp_path: Path) -> None:
    dialog = SchemaDialog(SchemaLibrary(tmp_path), "", theme)
    qtbot.addWidget(dialog)
    assert not dialog.use.isEnabled()
    dialog.editor.show_schema(SCHEMA)
    assert dialog.use.isEnabled()
    dialog.editor.show_schema('{"not": {}}')
    assert not dialog.use.isEnabled()
    qtbot.keyClick(dialog, Qt.Key.Key_Escape)
    assert not dialog.isVisible()


def test_the_editor_holds_nobody_up_and_its_schema_is_the_chats(bench: Bench, theme: Theme, qtbot: QtBot) -> None:
    picker = SchemaPicker(bench.controller, theme)
    qtbot.addWidget(picker)
    picker._edit()  # comes back at once: a loop of its own would outlast what it was opened from
    dialog = picker.findChild(SchemaDialog)
    assert dialog is not None
    dialog.editor.show_schema(SCHEMA)
    dialog.accept()
    assert bench.controller.current_conversation.options["schema"] == dialog.editor.text


@pytest.mark.parametrize("width", [220, 300, 420, 760])
@pytest.mark.parametrize("zoom", [1.0, 2.0])
def test_the_foot_of_the_composer_cuts_no_word_off(
    bench: Bench, theme: Theme, settings: Settings, qtbot: QtBot, width: int, zoom: float
) -> None:
    """A long name and a long cost are cut with dots; the button keeps its word, the icon its place."""
    settings.set("zoom", zoom)
    picker = SchemaPicker(bench.controller, theme)
    picker.choose("R&D: a schema with a name that is long", SCHEMA)
    composer = Composer(theme, picker)
    qtbot.addWidget(composer)
    composer.set_text("word " * 2000)
    composer.resize(theme.px(width), theme.px(400))
    composer.show()
    composer.set_cost("about 990,000 tokens · 48,230 % of the context · about 3 s to read")
    qtbot.wait(10)
    button = composer._button
    assert button.width() >= button.sizeHint().width()
    assert composer.rect().contains(QRect(button.mapTo(composer, QPoint(0, 0)), button.size()))
    assert composer.minimumSizeHint().width() <= theme.px(220)
    metrics = picker.fontMetrics()
    assert metrics.horizontalAdvance(picker.text().replace("&&", "&")) <= picker.width() - picker.iconSize().width()
    assert picker.width() < theme.px(96) or picker.text().startswith("Schema: R")
    assert "R&D" in picker.accessibleName()


@pytest.mark.parametrize(
    ("size", "zoom"), [((420, 360), 1.0), ((420, 460), 1.5), ((1024, 600), 2.0), ((900, 700), 2.0)]
)
@pytest.mark.parametrize("has_messages", [False, True])
def test_a_long_text_covers_nothing_in_a_low_window(
    bench: Bench,
    theme: Theme,
    settings: Settings,
    qtbot: QtBot,
    size: tuple[int, int],
    zoom: float,
    has_messages: bool,
) -> None:
    settings.set("zoom", zoom)
    if has_messages:
        bench.ask("hello", "hi")
    page = ChatPage(bench.controller, theme)
    qtbot.addWidget(page)
    page.resize(size[0], size[1] - theme.px(75))  # below menus and bar
    page.show()
    page.composer.set_text("word " * 3000)
    qtbot.wait(20)
    composer = page.composer
    foot = composer._button.mapTo(composer, QPoint(0, 0)).y()
    assert composer.edit.mapTo(composer, QPoint(0, composer.edit.height())).y() <= foot
    assert composer.mapTo(page, QPoint(0, composer.height())).y() <= page.height()
    assert composer.edit.height() >= 2 * composer.edit.fontMetrics().lineSpacing(), "what is written can be read"
