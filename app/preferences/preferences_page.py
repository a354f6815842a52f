"""The settings as one searched page, made from the declared table: each row acts at once and says what it does."""

from __future__ import annotations

from itertools import groupby

from PySide6.QtCore import QLocale, Qt, Signal
from PySide6.QtWidgets import QFrame, QLineEdit, QVBoxLayout, QWidget

from app.preferences.kept_chats_row import LAST_SETTING, Kept, KeptChatsRow
from app.settings import Settings
from app.settings_table import SETTINGS, Setting
from app.theme import Theme
from app.translation import LANGUAGES, current, language_for, tr
from app.widgets.buttons import LookButton
from app.widgets.card_head import CardHead
from app.widgets.label import Label, WrappingLabel
from app.widgets.notice_bar import NoticeBar
from app.widgets.page_parts import PageBar, ScrollingColumn
from app.widgets.setting_row import SettingRow

_COLUMN_PX = 760


class PreferencesPage(QWidget):
    """All settings that have a title, in groups.

    Signals:
        closed: back to the chat.
        models_requested: the models page, where the folder and the access token are set.
        restart_requested: close Fireside and start it again, for what applies at a start only.
    """

    closed = Signal()
    models_requested = Signal()
    restart_requested = Signal()

    def __init__(
        self,
        settings: Settings,
        theme: Theme,
        parent: QWidget | None = None,
        *,
        has_models_page: bool = True,
        kept: Kept | None = None,
    ) -> None:
        """Without a models page in the window nothing leads there; ``kept`` are read chats on the disk."""
        super().__init__(parent)
        self.setObjectName("preferencesPage")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._settings = settings
        self._theme = theme
        self._has_models_page = has_models_page
        self._kept = kept
        self._kept_row: KeptChatsRow | None = None
        self._cards: list[tuple[QWidget, list[SettingRow | KeptChatsRow]]] = []
        self.search = QLineEdit()
        self.search.setPlaceholderText(tr("Search the settings"))
        self.search.setAccessibleName(tr("Search the settings"))
        self.search.textChanged.connect(self._on_search)
        self.first_focus = self.search
        self._nothing = Label(tr("No setting has these words."), "help")
        self._nothing.hide()
        bar = PageBar(theme, tr("Settings"))
        bar.closed.connect(self.closed)
        self._scroll = ScrollingColumn(theme, tr("Settings"), _COLUMN_PX, 14)
        self._column = self._scroll.column
        self._column.addWidget(self.search)
        self._column.addWidget(self._nothing)
        for group, rows in groupby((row for row in SETTINGS if row.title), key=lambda row: row.group):
            self._add_group(group, list(rows))
        self._models_card, self._models_words = self._models_pointer()
        self._column.addWidget(self._models_card)
        self._models_card.setVisible(has_models_page)
        self._column.addStretch(1)  # else the one card that a search leaves is as high as the page
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.setSpacing(0)
        self.notice_bar = NoticeBar(theme)
        self.notice_bar.setProperty("look", "banner")
        settings.changed.connect(self._on_setting)
        whole.addWidget(bar)
        whole.addWidget(self.notice_bar)
        whole.addWidget(self._scroll, 1)
        self._apply_metrics()
        theme.changed.connect(self._apply_metrics)

    def rows(self) -> list[SettingRow]:
        """All rows, shown or filtered away."""
        return [row for _, rows in self._cards for row in rows if isinstance(row, SettingRow)]

    def _add_group(self, group: str, table: list[Setting]) -> None:
        card = QFrame()
        card.setProperty("look", "card")
        inside = QVBoxLayout(card)
        title = Label(group, "section")
        inside.addWidget(title)
        rows: list[SettingRow | KeptChatsRow] = []
        for setting in table:
            rows.append(SettingRow(setting, self._settings, self._theme))
            if setting.key == LAST_SETTING and self._kept is not None:
                self._kept_row = KeptChatsRow(self._kept, setting, self._theme)
                rows.append(self._kept_row)
        for row in rows:
            inside.addWidget(row)
        self._cards.append((card, rows))
        self._column.addWidget(card)

    def _models_pointer(self) -> tuple[QFrame, str]:
        """The way to what is set beside the models themselves, and the words that a search finds it by."""
        title, words = (
            tr("Models folder and access token"),
            tr("Both are set on the models page, under “On the disk”."),
        )
        show = LookButton(self._theme, tr("Show the models page"))
        show.clicked.connect(self.models_requested)
        card = QFrame()
        card.setProperty("look", "card")
        inside = QVBoxLayout(card)
        inside.addWidget(CardHead(self._theme, Label(title, "strong"), (show,)))
        inside.addWidget(WrappingLabel(words, "help"))
        return card, f"{title} {words} {tr('token, login, sign in, Hugging Face, location, disk')}".lower()

    def _on_setting(self, key: str) -> None:
        """Another language is chosen: it applies at the next start, which may be now."""
        if self._kept_row is not None and key in {"keeps_chats", "kept_chats_gb"}:
            self._kept_row.refresh()
        if key != "language":
            return
        code = language_for(self._settings.value("language"), QLocale.system().uiLanguages())
        if code == current().code:
            self.notice_bar.hide()
        else:
            self.notice_bar.show_text(
                tr("Fireside speaks {language} from its next start on.", language=LANGUAGES[code]),
                action_name=tr("Restart now"),
                action=self.restart_requested.emit,
            )

    def _on_search(self, text: str) -> None:
        words = text.lower().split()
        any_shown = self._has_models_page and all(word in self._models_words for word in words)
        self._models_card.setVisible(any_shown)
        for card, rows in self._cards:
            for row in rows:
                row.setVisible(all(word in row.searched_text for word in words))
            shown = any(not row.isHidden() for row in rows)
            card.setVisible(shown)
            any_shown = any_shown or shown
        self._nothing.setVisible(not any_shown)

    def _apply_metrics(self) -> None:
        px = self._theme.px
        self.search.setFixedHeight(px(38))
        for card in (*(card for card, _ in self._cards), self._models_card):
            layout = card.layout()
            assert layout is not None
            layout.setContentsMargins(px(18), px(14), px(18), px(16))
            layout.setSpacing(px(16))
