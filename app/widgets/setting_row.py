"""One setting as a row: what it is, a sentence of help, its field, and the way back to the default."""

from __future__ import annotations

from typing import Any, Protocol

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QHBoxLayout, QVBoxLayout, QWidget

from app.settings_table import Setting, Value
from app.theme import Theme
from app.translation import tr
from app.widgets.buttons import TextButton
from app.widgets.label import WrappingLabel
from app.widgets.setting_field import make_field

_STACKED_PX = 400
"""In a row that is narrower the field stands below the words."""
_WORDS_PX = 180
"""And where the words would have less room than this beside it."""


class Values(Protocol):
    """Where the values are: the settings, or the options of one chat.

    Attributes:
        changed: signal with the key of a value that is another one now.
    """

    @property
    def changed(self) -> Any: ...

    def value(self, key: str) -> Any: ...

    def default(self, key: str) -> Value: ...

    def set(self, key: str, value: Value) -> None: ...


class SettingRow(QWidget):
    """One setting: its title and sentence on the left, its field on the right, and the way back to the default."""

    def __init__(
        self,
        setting: Setting,
        values: Values,
        theme: Theme,
        parent: QWidget | None = None,
        *,
        is_narrow: bool = False,
    ) -> None:
        """Where the row ``is_narrow`` the sentence of help and the way back stand below the field."""
        super().__init__(parent)
        self._setting = setting
        self._values = values
        self._theme = theme
        self._is_narrow = is_narrow
        self.searched_text = f"{setting.title} {setting.help} {setting.group} {setting.keywords}".lower()
        title = WrappingLabel(setting.title, "strong")
        help_text = WrappingLabel(setting.help, "help")
        self.field = make_field(setting, theme)
        self.field.editor.setAccessibleName(setting.title)
        self.field.editor.setAccessibleDescription(setting.help)
        title.setBuddy(self.field.editor)
        self._reset = TextButton(theme, tr("Reset"))
        self._reset.setAccessibleName(tr("{title}: back to the default", title=setting.title))
        self._reset.clicked.connect(lambda: values.set(setting.key, values.default(setting.key)))
        self._keep_room(True)
        self._words = QVBoxLayout()
        self._words.addWidget(title)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._row = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._row.addLayout(self._words, 1)
        self._column.addLayout(self._row)
        self._controls = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._row.addLayout(self._controls)
        if is_narrow:
            below = QHBoxLayout()
            below.addWidget(help_text, 1)
            below.addWidget(self._reset, 0, Qt.AlignmentFlag.AlignTop)
            self._column.addLayout(below)
        else:
            self._controls.addWidget(self._reset, 0, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
            self._words.addWidget(help_text)
        if self.field.is_wide or (is_narrow and setting.choices):
            self._column.addWidget(self.field.editor)
        else:
            place = Qt.AlignmentFlag(0) if setting.choices else Qt.AlignmentFlag.AlignLeft
            self._controls.addWidget(self.field.editor, 0, place | Qt.AlignmentFlag.AlignVCenter)
        self.field.changed.connect(self._on_field)
        values.changed.connect(self._on_setting)
        self._apply_metrics()
        theme.changed.connect(self._apply_metrics)
        self.refresh()

    def _on_field(self, value: object) -> None:
        try:
            self._values.set(self._setting.key, value)  # type: ignore[arg-type]
        except ValueError:
            self.refresh()

    def _on_setting(self, key: str) -> None:
        if key == self._setting.key:
            self.refresh()

    def refresh(self) -> None:
        """Show the value that is in force now."""
        value = self._values.value(self._setting.key)
        self.field.show_value(value)
        self._reset.setVisible(value != self._values.default(self._setting.key))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_width()

    def _fit_width(self) -> None:
        px = self._theme.px
        needed = self._reset.sizeHint().width() + 2 * px(8) + px(_WORDS_PX)
        if self._controls.indexOf(self.field.editor) >= 0:
            needed += self.field.editor.sizeHint().width()
        is_stacked = not self._is_narrow and self.width() < max(needed, px(_STACKED_PX))
        directions = QBoxLayout.Direction
        self._row.setDirection(directions.TopToBottom if is_stacked else directions.LeftToRight)
        self._controls.setDirection(directions.BottomToTop if is_stacked else directions.LeftToRight)
        self._keep_room(not is_stacked)

    def _keep_room(self, is_kept: bool) -> None:
        """Beside the field the way back keeps its room while it is hidden, so that nothing moves."""
        policy = self._reset.sizePolicy()
        if policy.retainSizeWhenHidden() != is_kept:
            policy.setRetainSizeWhenHidden(is_kept)
            self._reset.setSizePolicy(policy)

    def _apply_metrics(self) -> None:
        self._words.setSpacing(self._theme.px(2))
        self._row.setSpacing(self._theme.px(8))
        self._controls.setSpacing(self._theme.px(8))
        self._column.setSpacing(self._theme.px(4 if self._is_narrow else 8))
        self._fit_width()
