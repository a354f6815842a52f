from __future__ import annotations

import json
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent
from PySide6.QtGui import QFocusEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.chat.options import FORM_OPTIONS, OPTIONS, OptionValues, accepted, effective, sampling_of
from app.chat.options_panel import OptionsPanel
from app.chat.presets import PRESET_KEY, PresetError
from app.chat.schema_picker import SchemaPicker
from app.settings import Settings
from app.theme import Theme
from app.translation import load_language
from app.widgets.label import Label
from app.widgets.setting_row import SettingRow
from app.window.bar import Bar
from engine.protocol import Role
from tests.app.conftest import Bench, BenchMaker


def test_a_chats_own_options_go_before_the_settings(settings: Settings) -> None:
    settings.set("top_k", 7)
    values = effective({"temperature": 0.0, "seed": 5, "top_p": "much", "unknown": 1}, settings)
    assert set(values) == {setting.key for setting in (*OPTIONS, *FORM_OPTIONS)}
    sampling = sampling_of(values)
    assert (sampling.temperature, sampling.top_k, sampling.top_p, sampling.seed) == (0.0, 7, 0.95, 5)
    assert sampling_of(values, seed=9).seed == 9
    assert sampling_of(effective({}, settings)).seed is None
    assert accepted({"temperature": float("nan"), "max_tokens": -1, "min_p": True}) == {}
    assert accepted({"temperature": 10**400, "top_p": -(10**400), "max_tokens": 10**30}) == {}


def test_only_what_differs_is_kept(settings: Settings) -> None:
    values = OptionValues(settings)
    edits: list[tuple[str, object]] = []
    values.edited.connect(lambda key, value: edits.append((key, value)))
    values.show({PRESET_KEY: "p"})
    values.set("temperature", 0.2)
    values.set("temperature", 0.2)
    values.set("temperature", values.default("temperature"))
    with pytest.raises(ValueError, match="at least"):
        values.set("temperature", -1.0)
    assert edits == [("temperature", 0.2), ("temperature", None)]
    assert values.options == {PRESET_KEY: "p"}


def test_the_request_has_the_chats_options_and_another_chat_does_not(bench: Bench, make_bench: BenchMaker) -> None:
    bench.ask("hello", "hi")
    bench.controller.set_options({"temperature": 0.0, "system_prompt": "Be brief.", "max_tokens": 9})
    bench.controller.send("again")
    bench.request()
    request = bench.engine.requests[-1]
    assert (request.sampling.temperature, request.max_tokens) == (0.0, 9)
    assert (request.messages[0].role, request.messages[0].content) == (Role.SYSTEM, "Be brief.")
    bench.engine.finish(request.request_id)
    bench.wait_idle()
    own = bench.controller.current_id
    bench.controller.new_conversation()
    bench.controller.send("elsewhere")
    bench.request()
    assert bench.engine.requests[-1].messages[0].role is Role.USER
    bench.engine.finish(bench.engine.requests[-1].request_id)
    bench.wait_idle()
    make_bench.close(bench)
    again = make_bench()
    again.controller.open_conversation(own)
    assert again.controller.current_conversation.options["max_tokens"] == 9


def test_a_preset_is_saved_taken_over_and_shared(bench: Bench, make_bench: BenchMaker, tmp_path: Path) -> None:
    presets = bench.controller.presets
    record = presets.add(" Careful  one ", {"temperature": 0.1, "nonsense": 3})
    assert (record.name, record.options) == ("Careful one", {"temperature": 0.1})
    assert presets.add("careful ONE", {}).name == "careful ONE 2"
    bench.controller.set_options(presets.options_of(record.id))
    options = bench.controller.current_conversation.options
    assert options == {"temperature": 0.1, PRESET_KEY: record.id}
    assert not presets.is_modified(options)
    assert presets.is_modified({**options, "top_k": 1})
    presets.set_default(record.id)
    path = tmp_path / "Preset ö.json"
    presets.write_file(record.id, path)
    assert json.loads(path.read_text("utf-8"))["options"] == {"temperature": 0.1}
    bench.settle()
    make_bench.close(bench)
    again = make_bench().controller.presets
    assert [one.name for one in again.records] == ["Careful one", "careful ONE 2"]
    assert again.default_options() == options
    assert again.read_file(path).name == "Careful one 3"
    again.delete(record.id)
    assert again.default_options() == {}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("no json", "x.json is no JSON file, so there is no preset in it."),
        ("[1]", "x.json holds no preset of Fireside: “fireside_preset” is missing."),
        ('{"fireside_preset": 2}', "x.json is a preset of a newer Fireside; update to read it."),
        ('{"fireside_preset": 1, "options": []}', "x.json holds a preset without options."),
        (
            '{"fireside_preset": 1, "options": {"seed": 1, "seed": 2}}',
            "x.json has the key “seed” twice in one object; remove one of them.",
        ),
    ],
)
def test_a_file_that_holds_no_preset_says_so(bench: Bench, tmp_path: Path, content: str, sentence: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(PresetError) as caught:
        bench.controller.presets.read_file(path)
    assert str(caught.value) == sentence
    assert bench.controller.presets.records == []


def test_new_chats_begin_with_the_default_preset(bench: Bench) -> None:
    bench.ask("old", "answer")
    presets = bench.controller.presets
    presets.set_default(presets.add("Terse", {"max_tokens": 5}).id)
    bench.controller.new_conversation()
    bench.controller.send("new")
    bench.request()
    assert bench.engine.requests[-1].max_tokens == 5


def test_the_panel_shows_and_changes_the_open_chat(bench: Bench, theme: Theme, qtbot: QtBot) -> None:
    panel = OptionsPanel(bench.controller, bench.context.settings, theme)
    qtbot.addWidget(panel)
    bar = Bar(bench.controller, theme)
    qtbot.addWidget(bar)
    row = next(row for row in panel.rows if row.field.editor.accessibleName() == "Longest answer")
    row.field.say(12)
    assert bench.controller.current_conversation.options == {"max_tokens": 12}
    record = bench.controller.presets.add("Short", {"max_tokens": 12})
    entry = next(action for action in panel.make_menu().actions() if action.text() == "Short")
    entry.trigger()
    assert bench.controller.current_conversation.options == {"max_tokens": 12, PRESET_KEY: record.id}
    assert bar.options_button.accessibleName().endswith("preset Short")
    row.field.say(13)
    assert bar.options_button.accessibleName().endswith("preset Short, changed")
    texts = [action.text() for action in panel.make_menu().actions()]
    assert "Save the changes to “Short”" in texts
    next(action for action in panel.make_menu().actions() if action.text() == "None").trigger()
    assert bench.controller.current_conversation.options == {}
    assert bar.options_button.accessibleName().endswith("preset none")


def _row(panel: OptionsPanel, key: str) -> SettingRow:
    return next(row for row in panel.rows if row._setting.key == key)


def test_what_is_typed_belongs_to_the_chat_that_is_shown(bench: Bench, theme: Theme, qtbot: QtBot) -> None:
    """Another chat is opened by a key, before the typing rests and without the field being left."""
    panel = OptionsPanel(bench.controller, bench.context.settings, theme)
    qtbot.addWidget(panel)
    panel.show()
    bench.ask("one", "1")
    first = bench.controller.current_id
    prompt, temperature = (_row(panel, key).field.editor for key in ("system_prompt", "temperature"))
    qtbot.keyClicks(prompt, "Be brief.")
    temperature.lineEdit().setText("1.3")  # type: ignore[attr-defined]
    bench.controller.new_conversation()
    assert bench.controller.current_conversation.options == {}
    assert prompt.toPlainText() == ""  # type: ignore[attr-defined]
    bench.controller.open_conversation(first)
    assert bench.controller.current_conversation.options == {"system_prompt": "Be brief.", "temperature": 1.3}
    assert prompt.toPlainText() == "Be brief."  # type: ignore[attr-defined]


def test_an_option_leaves_alone_what_was_set_elsewhere_meanwhile(bench: Bench, theme: Theme, qtbot: QtBot) -> None:
    panel = OptionsPanel(bench.controller, bench.context.settings, theme)
    picker = SchemaPicker(bench.controller, theme)
    for widget in (panel, picker):
        qtbot.addWidget(widget)
    picker.choose("Old", '{"type": "string"}')
    picker.choose("New", '{"type": "number"}')
    _row(panel, "temperature").field.say(0.2)
    options = bench.controller.current_conversation.options
    assert (options["schema_name"], options["temperature"]) == ("New", 0.2)
    bench.controller.set_options({**options, "context_policy": "stop"})
    assert _row(panel, "context_policy").field.editor._buttons["stop"].isChecked()  # type: ignore[attr-defined]
    bench.controller.set_options({"schema": '{"type": "null"}', "schema_name": "Of a preset"})
    assert picker.accessibleName() == "Answers follow the schema Of a preset"


def test_text_is_taken_over_when_its_field_is_left(bench: Bench, theme: Theme, qtbot: QtBot) -> None:
    panel = OptionsPanel(bench.controller, bench.context.settings, theme)
    qtbot.addWidget(panel)
    panel.show()
    prompt = _row(panel, "system_prompt").field.editor
    qtbot.keyClicks(prompt, "Be brief.")
    QApplication.sendEvent(prompt, QFocusEvent(QEvent.Type.FocusOut))
    assert bench.controller.current_conversation.options == {"system_prompt": "Be brief."}


def test_every_row_fits_the_panel(bench: Bench, theme: Theme, qtbot: QtBot) -> None:
    panel = OptionsPanel(bench.controller, bench.context.settings, theme)
    qtbot.addWidget(panel)
    panel.resize(panel.width(), 700)
    panel.show()
    assert panel._body.minimumSizeHint().width() <= panel._scroll.viewport().width()


@pytest.mark.parametrize("code", ["en", "de"])
@pytest.mark.parametrize("zoom", [1.0, 2.0])
def test_the_panel_cuts_nothing(
    bench: Bench, theme: Theme, settings: Settings, qtbot: QtBot, code: str, zoom: float
) -> None:
    settings.set("zoom", zoom)
    panel = OptionsPanel(bench.controller, bench.context.settings, theme)
    qtbot.addWidget(panel)
    german = load_language(code)
    for row in panel.rows:  # the table of settings is made in the language of the start
        row._reset.show()
        for label in row.findChildren(Label):
            label.setText(german.texts.get(label.text(), label.text()))
    panel.resize(panel.width(), theme.px(700))
    panel.show()
    qtbot.waitExposed(panel)
    assert panel._body.width() <= panel._scroll.viewport().width()
    assert panel._body.minimumSizeHint().width() <= panel._scroll.viewport().width()
    assert panel._scroll.x() >= 1, "the hairline at the edge goes all the way down"


def test_a_deleted_preset_can_be_brought_back(bench: Bench, theme: Theme, qtbot: QtBot) -> None:
    presets = bench.controller.presets
    record = presets.add("Pirate", {"temperature": 0.1})
    presets.set_default(record.id)
    bench.controller.set_options(presets.options_of(record.id))
    panel = OptionsPanel(bench.controller, bench.context.settings, theme)
    qtbot.addWidget(panel)
    delete = next(action for action in panel.make_menu().actions() if action.text() == "Delete “Pirate”")
    with qtbot.waitSignal(panel.undo_offered) as caught:
        delete.trigger()
    words, undo = caught.args
    assert (words, presets.records, presets.default_id) == ("The preset “Pirate” is deleted.", [], "")
    undo()
    assert ([one.name for one in presets.records], presets.default_id) == (["Pirate"], record.id)
