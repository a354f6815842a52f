from __future__ import annotations

from pytestqt.qtbot import QtBot

from app.chat.empty_states import SUGGESTIONS, EmptyState
from app.theme import Theme


def test_suggestions_without_room_are_left_out_whole(theme: Theme, qtbot: QtBot) -> None:
    state = EmptyState(theme)
    qtbot.addWidget(state)
    state.resize(560, 600)
    state.show()
    state.show_ready("a model")
    shown = lambda: [button for button in state._made if not button.isHidden()]  # noqa: E731
    assert len(shown()) == len(SUGGESTIONS)
    for height in range(600, 60, -20):
        state.resize(560, height)
        qtbot.wait(1)
        for button in shown():
            assert button.height() >= button.sizeHint().height(), "nothing is squeezed"
            assert button.geometry().bottom() <= state.height()
    assert shown() == []
    state.resize(560, 600)
    assert len(shown()) == len(SUGGESTIONS)
