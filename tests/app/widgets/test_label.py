from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from app.theme import Theme
from app.widgets.label import ElidingLabel

_FIGURES = "312 tok/s · first word 0.06 s · 1,148 reused, 56 read · seed 2143145637"


@pytest.mark.parametrize(
    ("fits", "shown"),
    [
        (_FIGURES, _FIGURES),
        ("312 tok/s · first word 0.06 s · 1,148 reused, 56 read · seed 214",
         "312 tok/s · first word 0.06 s · 1,148 reused, 56 read …"),
        ("312 tok/s · first word 0.06 s · 1,1", "312 tok/s · first word 0.06 s …"),
        ("312 tok/s  …", "312 tok/s …"),
    ],
)  # fmt: skip
def test_a_number_is_never_cut(theme: Theme, qtbot: QtBot, fits: str, shown: str) -> None:
    label = ElidingLabel(_FIGURES)
    qtbot.addWidget(label)
    label.resize(label.fontMetrics().horizontalAdvance(fits) + 1, 20)
    label.show()
    qtbot.waitExposed(label)
    assert label.text() == shown
    assert label.toolTip() == ("" if shown == _FIGURES else _FIGURES)


def test_words_after_a_number_are_cut_where_the_room_ends(theme: Theme, qtbot: QtBot) -> None:
    label = ElidingLabel("about 105 MB · tiny: quick everywhere, and it knows little")
    qtbot.addWidget(label)
    label.resize(label.fontMetrics().horizontalAdvance("about 105 MB · tiny: quick everywh"), 20)
    label.show()
    qtbot.waitExposed(label)
    assert label.text().startswith("about 105 MB · tiny: quick")


def test_one_text_is_cut_where_the_room_ends(theme: Theme, qtbot: QtBot) -> None:
    label = ElidingLabel("A name that is much too long for its room")
    qtbot.addWidget(label)
    label.resize(100, 20)
    label.show()
    qtbot.waitExposed(label)
    assert label.text().startswith("A name")
    assert label.text().endswith("…")
