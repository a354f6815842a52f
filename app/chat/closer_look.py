"""A closer look at one place of an answer: the tokens that the model thought of there, and how likely each was.

The model is asked anew for that place alone: what stands before it is in its cache, so nothing is read twice, and
an answer of any age, by whichever model, can be looked at.
"""

from __future__ import annotations

import math
import re

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QFontMetrics, QKeyEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from app.theme import Theme
from app.translation import tr
from app.widgets.label import Label
from app.widgets.meter import Meter
from engine.plain_data import dataclass
from engine.protocol import TokenProbability

MAX_ALTERNATIVES = 8
_WIDTH_PX = 320
# Scripts that put no space between words: there a word's neighbours are letters, too.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ud7a3\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]"
)
_SHOWN_SPACES = str.maketrans({"\n": "⏎", "\t": "⇥", " ": "·"})


@dataclass(frozen=True)
class CloserLook:
    """What was found.

    Attributes:
        message_id: of the answer.
        prefix: the answer before the place.
        alternatives: the likeliest tokens there, likeliest first.
    """

    message_id: str
    prefix: str
    alternatives: tuple[TokenProbability, ...]


def place_in_source(source: str, shown_before: str, word: str) -> int | None:
    """Where in an answer's Markdown the ``word`` stands that has ``shown_before`` before it on the screen.

    The two differ by markup only, so it is the same occurrence of the word in both; None where it is not there.
    """
    bounds = ("", "") if _UNSPACED.search(word) else (r"(?<!\w)", r"(?!\w)")
    pattern = re.compile(re.escape(word).join(bounds))
    number = len(pattern.findall(shown_before))
    found = [match.start() for match in pattern.finditer(source)]
    return found[min(number, len(found) - 1)] if found else None


def prefix_before(source: str, offset: int) -> str:
    """The answer before a place, without the space that belongs to the token at it."""
    return source[:offset].rstrip(" ")


class CloserLookPopup(QFrame):
    """The alternatives at one place; choosing one closes it.

    Signals:
        chosen(message_id, content): go on with the answer from this beginning.
        ended(message_id, content): the answer should end there.
    """

    chosen = Signal(str, str)
    ended = Signal(str, str)

    def __init__(self, look: CloserLook, word: str, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setProperty("look", "card")
        self.setAccessibleName(tr("Alternatives"))
        self._look = look
        self._word = word
        px = theme.px
        column = QVBoxLayout(self)
        column.setContentsMargins(px(12), px(10), px(12), px(12))
        column.setSpacing(px(2))
        column.addWidget(Label(tr("Instead of “{word}”", word=word[:30]), "strong"))
        hint = Label(tr("Choose one, and another answer goes on from there."), "help")
        hint.setWordWrap(True)
        column.addWidget(hint)
        column.addSpacing(px(6))
        self.rows = [self._row(token, theme) for token in look.alternatives]
        for row in self.rows:
            column.addWidget(row)
        self.setFixedWidth(px(_WIDTH_PX))

    def show_at(self, place: QPoint) -> None:
        """Show it at a place on the screen, inside of that screen."""
        self.adjustSize()
        room = self.screen().availableGeometry()
        left = min(max(place.x(), room.left()), room.right() + 1 - self.width())
        top = place.y() if place.y() + self.height() <= room.bottom() else place.y() - self.height()
        self.move(left, max(min(top, room.bottom() + 1 - self.height()), room.top()))
        self.show()
        if self.rows:
            self.rows[0].setFocus(Qt.FocusReason.PopupFocusReason)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in {Qt.Key.Key_Down, Qt.Key.Key_Up}:
            self.focusNextPrevChild(event.key() == Qt.Key.Key_Down)
        elif event.key() in {Qt.Key.Key_Return, Qt.Key.Key_Enter} and (row := self.focusWidget()) in self.rows:
            self.rows[self.rows.index(row)].click()
        else:
            super().keyPressEvent(event)

    def _row(self, token: TokenProbability, theme: Theme) -> QPushButton:
        px = theme.px
        share = math.exp(token.logprob)
        words = token.text.translate(_SHOWN_SPACES) if token.text else tr("end of the answer")
        is_part = "\ufffd" in token.text  # which an answer's text could not begin with
        if is_part:
            words = tr("part of a character")
        row = QPushButton()
        row.setEnabled(not is_part)
        row.setProperty("look", "row")
        row.setFixedHeight(px(32))
        row.setAccessibleName(f"{words if is_part else token.text.strip() or words}, {percent(share)}")
        inside = QHBoxLayout(row)
        inside.setContentsMargins(px(8), 0, px(8), 0)
        is_text = bool(token.text) and not is_part
        text = Label("", ("strong" if token.text.strip() == self._word else "") if is_text else "muted")
        font = theme.mono_font() if is_text else text.font()
        text.setFont(font)
        text.setText(QFontMetrics(font).elidedText(words, Qt.TextElideMode.ElideRight, px(_WIDTH_PX - 176)))
        meter = Meter(theme, tr("Probability"))
        meter.setFixedWidth(px(72))
        meter.set_shares(0.0, share)
        number = Label(percent(share), "muted")
        number.setFixedWidth(px(48))
        number.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        inside.addWidget(text, 1)
        inside.addWidget(meter)
        inside.addWidget(number)
        row.clicked.connect(lambda: self._choose(token))
        return row

    def _choose(self, token: TokenProbability) -> None:
        look = self._look
        self.close()
        if token.text:
            self.chosen.emit(look.message_id, look.prefix + token.text)
        else:
            self.ended.emit(look.message_id, look.prefix)


def percent(share: float) -> str:
    """0.4213 as "42 %", small shares with a digit more."""
    return f"{share * 100:.0f} %" if share >= 0.1 else f"{share * 100:.1f} %" if share >= 0.001 else "< 0.1 %"
