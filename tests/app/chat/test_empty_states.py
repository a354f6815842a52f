from __future__ import annotations

from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QWidget
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


def test_a_place_whose_height_follows_from_what_it_holds_ends(theme: Theme, qtbot: QtBot) -> None:
    """What is around it is laid out when a suggestion comes or goes, and may take that very room away again."""
    state = EmptyState(theme)
    qtbot.addWidget(state)
    state.show_ready("a model")
    state.resize(560, 600)
    state.show()
    times = 0
    low, high = 120, 600

    class Spring(QWidget):
        """Gives the room for a suggestion only where it is hidden."""

        def showEvent(self, event: QShowEvent) -> None:
            super().showEvent(event)
            self._turn(low)

        def hideEvent(self, event: QHideEvent) -> None:
            super().hideEvent(event)
            self._turn(high)

        def _turn(self, height: int) -> None:
            nonlocal times
            times += 1
            assert times < 100, "it goes round and round"
            state.resize(560, height)

    springs = [Spring(button) for button in state._made]
    for spring in springs:
        spring.show()
    state.resize(560, 200)
    state.resize(560, 600)
    assert times < 40


def test_suggestions_make_room_for_words_that_grow(theme: Theme, qtbot: QtBot) -> None:
    """Words are dressed, and a model gets its name, after the place has its size."""
    state = EmptyState(theme)
    qtbot.addWidget(state)
    state.show_ready("a model")
    state.resize(400, 600)
    state.show()
    qtbot.wait(1)
    state.resize(400, state._column.totalHeightForWidth(400))
    qtbot.wait(1)
    assert not any(button.isHidden() for button in state._made)
    state.show_ready("a model with a long name " * 12)
    qtbot.waitUntil(lambda: any(button.isHidden() for button in state._made))
    qtbot.wait(1)
    for button in state._made:
        assert button.isHidden() or button.height() >= button.sizeHint().height()
