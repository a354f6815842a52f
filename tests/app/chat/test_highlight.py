from __future__ import annotations

from app.chat.highlight import MAX_HIGHLIGHTED, file_suffix, highlight


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
