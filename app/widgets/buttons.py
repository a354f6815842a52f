"""Buttons in the app's looks. They take the focus by Tab only, so that a click leaves it in the composer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import QEvent, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QFont,
    QFontMetrics,
    QGuiApplication,
    QIcon,
    QKeyEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import (
    QAbstractButton,
    QBoxLayout,
    QButtonGroup,
    QHBoxLayout,
    QMenu,
    QPushButton,
    QStyle,
    QWidget,
)

from app.theme import Theme
from app.theme.icons import pixmap
from app.widgets.label import Label
from app.widgets.spacing import spaced


class LookButton(QPushButton):
    """A push button with one of the stylesheet's looks and an icon that follows the theme."""

    def __init__(
        self,
        theme: Theme,
        text: str,
        look: str = "",
        icon_name: str = "",
        icon_token: str = "text",
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(text, parent)
        self._theme = theme
        self._icon_name = icon_name
        self._icon_token = icon_token
        if look:
            self.setProperty("look", look)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        if text:
            self.setAccessibleName(text)
        self.restyle()
        theme.changed.connect(self.restyle)

    def set_icon_name(self, name: str, token: str = "") -> None:
        """Show another icon of the set; "" shows none."""
        self._icon_name = name
        self._icon_token = token or self._icon_token
        self.restyle()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in {Qt.Key.Key_Return, Qt.Key.Key_Enter} and not event.isAutoRepeat():
            self.click()  # Qt's own buttons know Space alone outside of dialogs
        else:
            super().keyPressEvent(event)

    def restyle(self) -> None:
        """Take the icon's colour and size from the theme."""
        if self._icon_name:
            side = self._theme.px(16)
            self.setIcon(self._theme.icon(self._icon_name, self._icon_token))
            self.setIconSize(QSize(side, side))
        else:
            self.setIcon(QIcon())


class ElidingButton(LookButton):
    """A button that cuts its text short where it has no room; its name and tooltip stay whole."""

    _reserved_px = 0  # of the design, for what stands beside the text

    def __init__(self, theme: Theme, text: str, look: str = "", parent: QWidget | None = None) -> None:
        super().__init__(theme, text, look, parent=parent)
        self._whole_text = text

    def set_whole_text(self, text: str) -> None:
        """Show another text."""
        self._whole_text = text
        self._elide()
        self.updateGeometry()

    def minimumSizeHint(self) -> QSize:
        return QSize(self._theme.px(80), super().minimumSizeHint().height())

    def sizeHint(self) -> QSize:
        width = self.fontMetrics().horizontalAdvance(self._whole_text) + self._theme.px(32)
        return QSize(width, super().sizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._elide()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in {QEvent.Type.FontChange, QEvent.Type.StyleChange}:
            self._elide()

    def _elide(self) -> None:
        room, metrics = self.width() - self._theme.px(32 + self._reserved_px), self.fontMetrics()
        shown = self._whole_text
        if metrics.horizontalAdvance(shown) > room:  # ``elidedText`` counts parts of pixels, too
            shown = metrics.elidedText(shown, Qt.TextElideMode.ElideRight, room)
        self.setText(shown.replace("&", "&&"))
        self.setToolTip(self._whole_text if shown != self._whole_text else "")


class WideMenuButton(ElidingButton):
    """A wide button that shows what is chosen and opens a menu or a dialog; an arrow at its end says so."""

    _reserved_px = 20

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, "", "choice", parent)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        side = self._theme.px(14)
        arrow = pixmap("chevron-down", self._theme.palette.muted, side, self.devicePixelRatioF())
        place = QRect(self.width() - self._theme.px(12) - side, (self.height() - side) // 2, side, side)
        painter = QPainter(self)
        painter.drawPixmap(QStyle.visualRect(self.layoutDirection(), self.rect(), place).topLeft(), arrow)
        painter.end()


class MenuButton(LookButton):
    """A button that opens a menu; the arrow stands behind its words."""

    def __init__(self, theme: Theme, text: str, look: str = "", parent: QWidget | None = None) -> None:
        super().__init__(theme, text, look, "chevron-down", "muted", parent)
        is_rtl = QGuiApplication.layoutDirection() == Qt.LayoutDirection.RightToLeft
        self.setLayoutDirection(Qt.LayoutDirection.LeftToRight if is_rtl else Qt.LayoutDirection.RightToLeft)


class TextButton(LookButton):
    """A small muted word that acts."""

    def __init__(self, theme: Theme, text: str, icon_name: str = "", parent: QWidget | None = None) -> None:
        super().__init__(theme, text, "text", icon_name, "muted", parent)


class IconButton(LookButton):
    """A small icon that acts; ``name`` is its tooltip and its name for a screen reader."""

    def __init__(self, theme: Theme, icon_name: str, name: str, parent: QWidget | None = None) -> None:
        super().__init__(theme, "", "icon", icon_name, "muted", parent)
        self.setAccessibleName(name)
        self.setToolTip(name)


class Switch(QAbstractButton):
    """On or off, drawn as a sliding knob."""

    def __init__(self, theme: Theme, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setCheckable(True)
        self.setAccessibleName(name)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        theme.changed.connect(self.updateGeometry)

    def sizeHint(self) -> QSize:
        return QSize(self._theme.px(38), self._theme.px(22))

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        px = self._theme.px
        box = QRectF(1, 1, px(38) - 2, px(22) - 2)
        painter.setPen(self._theme.colour("text" if self.hasFocus() else "hairline"))
        painter.setBrush(self._theme.colour("accent" if self.isChecked() else "track"))
        painter.drawRoundedRect(box, box.height() / 2, box.height() / 2)
        side = box.height() - px(6)
        left = box.right() - side - px(3) if self.isChecked() else box.left() + px(3)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._theme.colour("on_accent" if self.isChecked() else "muted"))
        painter.drawEllipse(QRectF(left, box.top() + px(3), side, side))
        painter.end()


class _Segment(LookButton):
    """A segment, wide enough for its word in the bold that it has while chosen."""

    def sizeHint(self) -> QSize:
        bold = QFont(self.font())
        bold.setWeight(QFont.Weight.DemiBold)
        more = QFontMetrics(bold).horizontalAdvance(self.text()) - self.fontMetrics().horizontalAdvance(self.text())
        return super().sizeHint() + QSize(max(0, more), 0)


class SegmentedControl(QWidget):
    """One of a few values, all in sight: in a row or, where that has no room, one below the other.

    Signals:
        chosen(value): the person picked another one.
    """

    chosen = Signal(str)

    def __init__(
        self, theme: Theme, name: str, choices: Sequence[tuple[str, str]], parent: QWidget | None = None
    ) -> None:
        """``choices`` are pairs of value and the word for it."""
        super().__init__(parent)
        self._theme = theme
        self._buttons: dict[str, LookButton] = {}
        group = QButtonGroup(self)
        self._row = QBoxLayout(QBoxLayout.Direction.LeftToRight, self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(0)
        for index, (value, word) in enumerate(choices):
            button = _Segment(theme, word, "segment")
            button.setAccessibleName(f"{name}: {word}")
            button.setProperty("place", _segment_place(index, len(choices)))
            button.setCheckable(True)
            button.clicked.connect(lambda _checked=False, value=value: self.chosen.emit(value))
            group.addButton(button)
            self._row.addWidget(button)
            self._buttons[value] = button

    def set_value(self, value: str) -> None:
        """Show ``value`` as chosen."""
        if value in self._buttons:
            self._buttons[value].setChecked(True)

    @property
    def _row_width(self) -> int:
        return sum(button.sizeHint().width() for button in self._buttons.values())

    def sizeHint(self) -> QSize:
        return QSize(self._row_width, super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        widest = max(button.sizeHint().width() for button in self._buttons.values())
        return QSize(widest, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        directions = QBoxLayout.Direction
        has_room = self.width() >= self._row_width
        direction = directions.LeftToRight if has_room else directions.TopToBottom
        if direction == self._row.direction():
            return
        self._row.setDirection(direction)
        self._row.setSpacing(0 if has_room else self._theme.px(4))
        for index, button in enumerate(self._buttons.values()):
            button.setProperty("place", _segment_place(index, len(self._buttons)) if has_room else "alone")
            button.style().unpolish(button)
            button.style().polish(button)


def _segment_place(index: int, num_segments: int) -> str:
    return "first" if index == 0 else "last" if index == num_segments - 1 else "middle"


class ChoiceButton(MenuButton):
    """One of several values, chosen from a menu.

    Signals:
        chosen(value): the person picked another one.
    """

    chosen = Signal(object)

    def __init__(
        self, theme: Theme, name: str, choices: Sequence[tuple[object, str]], parent: QWidget | None = None
    ) -> None:
        """``choices`` are pairs of value and the words for it; ``name`` says what is chosen."""
        super().__init__(theme, "", "choice-small", parent)
        self._name = name
        self._choices = tuple(choices)
        self.value: object = None
        self.clicked.connect(self._show_menu)
        self.set_value(self._choices[0][0])

    def set_value(self, value: object) -> None:
        """Show ``value`` as chosen."""
        words = next((words for known, words in self._choices if known == value), "")
        self.value = value
        self.setText(words)
        self.setAccessibleName(f"{self._name}: {words}")

    def make_menu(self) -> QMenu:
        """The values."""
        menu = QMenu(self)
        menu.setLayoutDirection(QGuiApplication.layoutDirection())
        for value, words in self._choices:
            action = menu.addAction(words.replace("&", "&&"))
            action.setCheckable(True)
            action.setChecked(value == self.value)
            action.triggered.connect(partial(self._choose, value))
        return menu

    def _show_menu(self) -> None:
        menu = self.make_menu()
        menu.setMinimumWidth(self.width())
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(self.mapToGlobal(self.rect().bottomLeft()))

    def _choose(self, value: object, _checked: bool = False) -> None:
        if value != self.value:
            self.set_value(value)
            self.chosen.emit(value)


class LabelledSwitch(QWidget):
    """A switch with its words beside it.

    Signals:
        toggled(is_on): the person, or ``set_on``, changed it.
    """

    toggled = Signal(bool)

    def __init__(self, theme: Theme, text: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.switch = Switch(theme, text)
        self.switch.toggled.connect(self.toggled)
        row = spaced(theme, QHBoxLayout(self), spacing=7, margins=(0, 0, 0, 0))
        row.addWidget(self.switch)
        row.addWidget(Label(text, "help"), 1)

    @property
    def is_on(self) -> bool:
        """Whether it is switched on."""
        return self.switch.isChecked()

    def set_on(self, is_on: bool) -> None:
        """Switch it."""
        self.switch.setChecked(is_on)
