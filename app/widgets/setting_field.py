"""The field for one setting, chosen by its type: a few words, a number, a switch, or a text."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Qt, QTimer, Signal
from PySide6.QtGui import QFocusEvent, QWheelEvent
from PySide6.QtWidgets import QAbstractSpinBox, QDoubleSpinBox, QLineEdit, QPlainTextEdit, QSpinBox, QWidget

from app.settings_table import Setting
from app.theme import Theme
from app.widgets.buttons import SegmentedControl, Switch

_PERCENT_KEYS = {"zoom"}
_TEXT_AFTER_MS = 400
_MAX_INTEGER = 2**31 - 1


class SettingField(QObject):
    """An editor of one value.

    Attributes:
        editor: the widget.
        is_wide: it needs the row's whole width.
        flush: takes over now what is typed, where that waits for the typing to rest or the field to be left.

    Signals:
        changed(value): the person set another value.
    """

    changed = Signal(object)

    def __init__(
        self,
        editor: QWidget,
        show: Callable[[object], None],
        *,
        is_wide: bool = False,
        flush: Callable[[], None] = lambda: None,
    ) -> None:
        """``flush`` lets the editor say what is typed and was not said yet."""
        super().__init__(editor)
        self.flush = flush
        self.editor = editor
        self.is_wide = is_wide
        self._show = show
        self._is_showing = False

    def show_value(self, value: object) -> None:
        """Show ``value`` without saying that it changed."""
        self._is_showing = True
        self._show(value)
        self._is_showing = False

    def say(self, value: object) -> None:
        """The editor holds ``value`` now; a change that ``show_value`` made is not said."""
        if not self._is_showing:
            self.changed.emit(value)


def make_field(setting: Setting, theme: Theme) -> SettingField:
    """The field that fits the setting's type."""
    if setting.choices:
        return _choice_field(setting, theme)
    if setting.type is bool:
        return _switch_field(setting, theme)
    if setting.type is int:
        return _integer_field(setting, theme)
    if setting.type is float:
        return _number_field(setting, theme)
    return _text_field(theme) if setting.is_long else _line_field(theme)


def _choice_field(setting: Setting, theme: Theme) -> SettingField:
    words = setting.words or setting.choices
    choices = list(zip(setting.choices, words, strict=True))
    control = SegmentedControl(theme, setting.title, choices)
    field = SettingField(control, lambda value: control.set_value(str(value)))
    control.chosen.connect(field.say)
    return field


def _switch_field(setting: Setting, theme: Theme) -> SettingField:
    switch = Switch(theme, setting.title)
    field = SettingField(switch, lambda value: switch.setChecked(bool(value)))
    switch.toggled.connect(field.say)
    return field


class _Box:
    """What both number boxes share: their size, and that scrolling the page does not change them."""

    def dress(self, theme: Theme) -> None:
        assert isinstance(self, QAbstractSpinBox)
        self._theme = theme
        self.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.restyle()

    def restyle(self) -> None:
        assert isinstance(self, QAbstractSpinBox)
        px = self._theme.px
        self.lineEdit().setTextMargins(px(8), 0, px(8), 0)
        self.setFixedSize(px(112), px(34))

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()


class _IntegerBox(_Box, QSpinBox):
    pass


class _NumberBox(_Box, QDoubleSpinBox):
    pass


class _TextBox(QPlainTextEdit):
    """Some lines; ``left`` says that the keyboard went elsewhere."""

    left = Signal()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.left.emit()

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self.setProperty("look", "field")
        self.setTabChangesFocus(True)
        self.restyle()
        theme.changed.connect(self.restyle)

    def restyle(self) -> None:
        self.setFixedHeight(self._theme.px(92))


def _integer_field(setting: Setting, theme: Theme) -> SettingField:
    box = _IntegerBox()
    box.setRange(
        int(setting.minimum) if setting.minimum is not None else -_MAX_INTEGER - 1,
        min(int(setting.maximum), _MAX_INTEGER) if setting.maximum is not None else _MAX_INTEGER,
    )
    if setting.key == "context_length":
        box.setSingleStep(1024)
    box.setSpecialValueText(setting.least_word)
    box.setKeyboardTracking(False)
    box.dress(theme)
    theme.changed.connect(box.restyle)
    field = SettingField(
        box, lambda value: box.setValue(value if isinstance(value, int) else 0), flush=box.interpretText
    )
    box.valueChanged.connect(field.say)
    return field


def _number_field(setting: Setting, theme: Theme) -> SettingField:
    box = _NumberBox()
    scale = 100.0 if setting.key in _PERCENT_KEYS else 1.0
    box.setDecimals(0 if scale > 1 else 2)
    box.setSingleStep(10 if scale > 1 else 0.05)
    box.setSuffix(" %" if scale > 1 else "")
    box.setRange(
        setting.minimum * scale if setting.minimum is not None else -1e6,
        setting.maximum * scale if setting.maximum is not None else 1e6,
    )
    box.setKeyboardTracking(False)
    box.dress(theme)
    theme.changed.connect(box.restyle)
    field = SettingField(
        box,
        lambda value: box.setValue(float(value) * scale if isinstance(value, int | float) else 0),
        flush=box.interpretText,
    )
    box.valueChanged.connect(lambda value: field.say(round(value / scale, 4)))
    return field


class _LineBox(QLineEdit):
    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self.restyle()
        theme.changed.connect(self.restyle)

    def restyle(self) -> None:
        self.setFixedHeight(self._theme.px(36))


def _line_field(theme: Theme) -> SettingField:
    """A line of text, said when typing rests or the field is left."""
    edit, timer = _LineBox(theme), QTimer()
    timer.setParent(edit)
    timer.setSingleShot(True)
    timer.setInterval(_TEXT_AFTER_MS)

    def show(value: object) -> None:
        if edit.text() != value:
            edit.setText(str(value))
            timer.stop()

    def flush() -> None:
        if timer.isActive():
            timer.stop()
            field.say(edit.text())

    field = SettingField(edit, show, is_wide=True, flush=flush)
    edit.textEdited.connect(lambda: timer.start())
    edit.editingFinished.connect(lambda: field.say(edit.text()))
    timer.timeout.connect(lambda: field.say(edit.text()))
    return field


def _text_field(theme: Theme) -> SettingField:
    edit = _TextBox(theme)
    timer = QTimer(edit)
    timer.setSingleShot(True)
    timer.setInterval(_TEXT_AFTER_MS)

    def show(value: object) -> None:
        if edit.toPlainText() != value:
            edit.setPlainText(str(value))
            timer.stop()

    def flush() -> None:
        if timer.isActive():
            timer.stop()
            field.say(edit.toPlainText())

    field = SettingField(edit, show, is_wide=True, flush=flush)
    edit.textChanged.connect(timer.start)
    edit.left.connect(flush)
    timer.timeout.connect(lambda: field.say(edit.toPlainText()))
    return field
