from __future__ import annotations

from PySide6.QtGui import QFont, QFontMetrics
from pytestqt.qtbot import QtBot

from app.theme import Theme
from app.widgets.buttons import SegmentedControl


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
