"""The settings as one searched page, made from the declared table: each row acts at once and says what it does."""

from __future__ import annotations

from itertools import groupby

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLineEdit, QScrollArea, QVBoxLayout, QWidget

from app.preferences.setting_field import make_field
from app.settings import SETTINGS, Setting, Settings
from app.theme import Theme
from app.widgets.buttons import IconButton, TextButton
from app.widgets.label import Label

_COLUMN_PX = 760


class PreferencesPage(QWidget):
    """All settings that have a title, in groups.

    Signals:
        closed: back to the chat.
    """

    closed = Signal()

    def __init__(self, settings: Settings, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("preferencesPage")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._settings = settings
        self._theme = theme
        self._cards: list[tuple[QWidget, list[SettingRow]]] = []
        self.search = QLineEdit()
        self.search.setPlaceholderText("Search the settings")
        self.search.setAccessibleName("Search the settings")
        self.search.textChanged.connect(self._on_search)
        self.setFocusProxy(self.search)
        self._nothing = Label("No setting has these words.", "help")
        self._nothing.hide()
        self._head = self._make_head()
        self._body = QWidget()
        self._column = QVBoxLayout(self._body)
        self._column.addWidget(self.search)
        self._column.addWidget(self._nothing)
        for group, rows in groupby((row for row in SETTINGS if row.title), key=lambda row: row.group):
            self._add_group(group, list(rows))
        self._column.addStretch(1)
        self._scroll = QScrollArea()
        self._scroll.setAccessibleName("Settings")
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._scroll.setWidgetResizable(True)
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        holder = QWidget()
        self._holder = QHBoxLayout(holder)
        self._holder.addStretch(1)
        self._holder.addWidget(self._body, 1000)
        self._holder.addStretch(1)
        self._scroll.setWidget(holder)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.setSpacing(0)
        whole.addWidget(self._head)
        whole.addWidget(self._scroll, 1)
        self._apply_metrics()
        theme.changed.connect(self._apply_metrics)

    def rows(self) -> list[SettingRow]:
        """All rows, shown or filtered away."""
        return [row for _, rows in self._cards for row in rows]

    def _make_head(self) -> QWidget:
        head = QWidget()
        head.setObjectName("bar")
        head.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._head_row = QHBoxLayout(head)
        title = Label("Settings", "section")
        close = IconButton(self._theme, "close", "Back to the chat (Esc)")
        close.clicked.connect(self.closed)
        self._head_row.addWidget(title)
        self._head_row.addStretch(1)
        self._head_row.addWidget(close)
        return head

    def _add_group(self, group: str, table: list[Setting]) -> None:
        card = QFrame()
        card.setProperty("look", "card")
        inside = QVBoxLayout(card)
        title = Label(group, "section")
        inside.addWidget(title)
        rows: list[SettingRow] = []
        for setting in table:
            row = SettingRow(setting, self._settings, self._theme)
            rows.append(row)
            inside.addWidget(row)
        self._cards.append((card, rows))
        self._column.addWidget(card)

    def _on_search(self, text: str) -> None:
        words = text.lower().split()
        any_shown = False
        for card, rows in self._cards:
            for row in rows:
                row.setVisible(all(word in row.searched_text for word in words))
            shown = any(not row.isHidden() for row in rows)
            card.setVisible(shown)
            any_shown = any_shown or shown
        self._nothing.setVisible(not any_shown)

    def _apply_metrics(self) -> None:
        px = self._theme.px
        self._head.setFixedHeight(px(48))
        self._head_row.setContentsMargins(px(16), 0, px(12), 1)
        self._holder.setContentsMargins(px(24), px(20), px(24), px(24))
        self._body.setMaximumWidth(px(_COLUMN_PX))
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(px(14))
        self.search.setFixedHeight(px(38))
        for card, _ in self._cards:
            layout = card.layout()
            assert isinstance(layout, QVBoxLayout)
            layout.setContentsMargins(px(18), px(14), px(18), px(16))
            layout.setSpacing(px(16))


class SettingRow(QWidget):
    """One setting: its title and sentence on the left, its field on the right, and the way back to the default."""

    def __init__(self, setting: Setting, settings: Settings, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._setting = setting
        self._settings = settings
        self._theme = theme
        self.searched_text = f"{setting.title} {setting.help} {setting.group}".lower()
        title = Label(setting.title, "strong")
        help_text = Label(setting.help, "help")
        help_text.setWordWrap(True)
        self.field = make_field(setting, theme)
        self.field.editor.setAccessibleName(setting.title)
        self.field.editor.setAccessibleDescription(setting.help)
        title.setBuddy(self.field.editor)
        self._reset = TextButton(theme, "Default")
        self._reset.setAccessibleName(f"{setting.title}: back to the default")
        self._reset.clicked.connect(lambda: settings.set(setting.key, setting.default))
        policy = self._reset.sizePolicy()
        policy.setRetainSizeWhenHidden(True)
        self._reset.setSizePolicy(policy)
        self._words = QVBoxLayout()
        self._words.addWidget(title)
        self._words.addWidget(help_text)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._row = QHBoxLayout()
        self._row.addLayout(self._words, 1)
        self._row.addWidget(self._reset)
        self._column.addLayout(self._row)
        if self.field.is_wide:
            self._column.addWidget(self.field.editor)
        else:
            self._row.addWidget(self.field.editor)
        self.field.changed.connect(self._on_field)
        settings.changed.connect(self._on_setting)
        self._apply_metrics()
        theme.changed.connect(self._apply_metrics)
        self._show()

    def _on_field(self, value: object) -> None:
        try:
            self._settings.set(self._setting.key, value)  # type: ignore[arg-type]
        except ValueError:
            self._show()

    def _on_setting(self, key: str) -> None:
        if key == self._setting.key:
            self._show()

    def _show(self) -> None:
        value = self._settings.value(self._setting.key)
        self.field.show_value(value)
        self._reset.setVisible(value != self._setting.default)

    def _apply_metrics(self) -> None:
        self._words.setSpacing(self._theme.px(2))
        self._row.setSpacing(self._theme.px(8))
        self._column.setSpacing(self._theme.px(8))
