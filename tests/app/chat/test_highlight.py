from __future__ import annotations

from pytestqt.qtbot import QtBot

from app.chat.highlight import MAX_HIGHLIGHTED, Span, file_suffix, highlight
from app.chat.highlighter import Highlighter


def test_words_of_the_language_are_coloured() -> None:
    code = 'import os  # why\nx = "text"'
    colours = {code[span.start : span.start + span.length]: span.colour for span in highlight(code, "python")}
    assert colours["import"] == "accent"
    assert colours["# why"] == "muted"
    assert any(colour == "good" for colour in colours.values())


def test_unknown_or_very_long_code_stays_plain() -> None:
    assert highlight("x", "no-such-language") == []
    assert highlight("x", "") == []
    assert highlight("import os\n" * MAX_HIGHLIGHTED, "python") == []


def test_file_endings() -> None:
    assert file_suffix("python") == ".py"
    assert file_suffix("nothing") == ".txt"


def test_what_is_asked_for_meanwhile_is_found_in_the_end(qtbot: QtBot) -> None:
    highlighter, found = Highlighter(), list[list[Span]]()
    highlighter.hold()
    highlighter.colour("import os", "python", found.append)
    assert highlighter._runner is None
    highlighter.go_on()
    qtbot.waitUntil(lambda: found == [highlight("import os", "python")])
    highlighter.close()
