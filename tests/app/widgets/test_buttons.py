from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QFontMetrics, QGuiApplication
from pytestqt.qtbot import QtBot

from app.theme import Theme
from app.widgets.buttons import LookButton, MenuButton, SegmentedControl, WideMenuButton


def test_a_chosen_segment_has_room_for_its_bold_word(theme: Theme, qtbot: QtBot) -> None:
    control = SegmentedControl(theme, "Theme", (("system", "As the system"), ("light", "Light")))
    qtbot.addWidget(control)
    control.set_value("light")
    control.show()
    qtbot.waitExposed(control)
    button = control._buttons["system"]
    bold = QFont(button.font())
    bold.setWeight(QFont.Weight.DemiBold)
    padding = theme.px(26)  # of the stylesheet, with the borders
    assert button.width() >= QFontMetrics(bold).horizontalAdvance("As the system") + padding


@pytest.mark.parametrize("key", [Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space])
def test_a_button_that_has_the_keyboard_is_pressed_by_enter_and_space(
    theme: Theme, qtbot: QtBot, key: Qt.Key
) -> None:
    button = LookButton(theme, "Undo")
    qtbot.addWidget(button)
    button.show()
    with qtbot.waitSignal(button.clicked):
        qtbot.keyClick(button, key)


def test_a_wide_menu_button_keeps_its_words_off_its_arrow(theme: Theme, qtbot: QtBot) -> None:
    button = WideMenuButton(theme)
    qtbot.addWidget(button)
    button.set_whole_text("A preset with a name that has no room at all")
    button.resize(180, 38)
    button.show()
    qtbot.waitExposed(button)
    assert button.text().endswith("…")
    arrow = theme.px(12 + 14)
    assert button.fontMetrics().horizontalAdvance(button.text()) <= 180 - theme.px(14) - arrow
    picture = button.grab().toImage()
    ratio = picture.devicePixelRatio()
    row = [picture.pixelColor(round(x * ratio), picture.height() // 2).name() for x in range(180 - arrow, 170)]
    assert len(set(row)) > 1, "the arrow is drawn"


def test_the_arrow_of_a_menu_button_stands_behind_its_words(theme: Theme, qtbot: QtBot) -> None:
    button = MenuButton(theme, "Schemas")
    qtbot.addWidget(button)
    assert button.layoutDirection() != QGuiApplication.layoutDirection()
