from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import QEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QDoubleSpinBox, QLineEdit, QPlainTextEdit, QPushButton, QSpinBox
from pytestqt.qtbot import QtBot

from app.preferences.kept_chats_row import KeptChatsRow
from app.preferences.preferences_page import PreferencesPage
from app.settings import Settings
from app.settings_table import SETTINGS
from app.theme import Theme
from app.translation import current
from app.widgets.label import WrappingLabel
from app.widgets.setting_row import SettingRow
from engine.protocol import SnapshotStorage


@pytest.fixture
def page(settings: Settings, theme: Theme, qtbot: QtBot) -> PreferencesPage:
    made = PreferencesPage(settings, theme)
    qtbot.addWidget(made)
    made.resize(900, 700)
    made.show()
    return made


def _row(page: PreferencesPage, key: str) -> SettingRow:
    return next(row for row in page.rows() if row._setting.key == key)


def test_every_titled_setting_has_a_row(page: PreferencesPage) -> None:
    assert [row._setting.key for row in page.rows()] == [setting.key for setting in SETTINGS if setting.title]


def test_numbers_act(page: PreferencesPage, settings: Settings) -> None:
    temperature = _row(page, "temperature").field.editor
    assert isinstance(temperature, QDoubleSpinBox)
    temperature.setValue(1.25)
    assert settings.value("temperature") == 1.25
    top_k = _row(page, "top_k").field.editor
    assert isinstance(top_k, QSpinBox)
    top_k.setValue(7)
    assert settings.value("top_k") == 7
    top_k.setValue(-5)
    assert settings.value("top_k") == 0
    assert top_k.text() == "off"


def test_zoom_is_in_per_cent(page: PreferencesPage, settings: Settings, theme: Theme) -> None:
    editor = _row(page, "zoom").field.editor
    assert isinstance(editor, QDoubleSpinBox)
    assert editor.text() == "100 %"
    editor.setValue(150)
    assert theme.zoom == 1.5
    settings.set("zoom", 1.1)
    assert editor.text() == "110 %"


def test_the_theme_is_chosen_in_sight(page: PreferencesPage, settings: Settings, theme: Theme) -> None:
    control = _row(page, "theme").field.editor
    buttons = control._buttons  # type: ignore[attr-defined]
    assert buttons["light"].isChecked()
    buttons["dark"].click()
    assert settings.value("theme") == "dark"
    assert theme.palette.is_dark


def test_the_system_prompt_is_kept_when_typing_rests(
    page: PreferencesPage, settings: Settings, qtbot: QtBot
) -> None:
    edit = _row(page, "system_prompt").field.editor
    assert isinstance(edit, QPlainTextEdit)
    qtbot.keyClicks(edit, "Be brief.")
    qtbot.waitUntil(lambda: settings.value("system_prompt") == "Be brief.")


def test_a_default_is_one_click_away(page: PreferencesPage, settings: Settings) -> None:
    row = _row(page, "top_p")
    assert not row._reset.isVisible()
    settings.set("top_p", 0.5)
    assert row._reset.isVisible()
    row._reset.click()
    assert settings.value("top_p") == 0.95
    assert not row._reset.isVisible()


def test_the_hub_is_one_line_in_a_compact_card(page: PreferencesPage, settings: Settings, qtbot: QtBot) -> None:
    page.search.setText("hub")
    row = _row(page, "hub_endpoint")
    edit = row.field.editor
    assert isinstance(edit, QLineEdit)
    card = page._cards[[row in rows for _, rows in page._cards].index(True)][0]
    qtbot.waitUntil(lambda: 0 < card.height() < 200)
    QTest.keyClicks(edit, "hub.local")
    qtbot.waitUntil(lambda: settings.value("hub_endpoint") == "hub.local")
    settings.set("hub_endpoint", "")
    assert edit.text() == ""


@pytest.mark.parametrize("words", ["endpoint", "URL", "mirror"])
def test_the_hub_is_found_by_what_else_it_is_called(page: PreferencesPage, words: str) -> None:
    page.search.setText(words)
    assert _row(page, "hub_endpoint").isVisible()


@pytest.mark.parametrize("words", ["models folder", "token", "access token"])
def test_what_is_set_on_the_models_page_is_found(page: PreferencesPage, qtbot: QtBot, words: str) -> None:
    page.search.setText(words)
    button = next(each for each in page.findChildren(QPushButton) if each.text() == "Show the models page")
    assert button.isVisible()
    assert not page._nothing.isVisible()
    with qtbot.waitSignal(page.models_requested):
        button.click()
    page.search.setText("temperature")
    assert not button.isVisible()


def test_without_a_models_page_nothing_leads_there(settings: Settings, theme: Theme, qtbot: QtBot) -> None:
    bare = PreferencesPage(settings, theme, has_models_page=False)
    qtbot.addWidget(bare)
    bare.show()
    assert not bare._models_card.isVisible()
    bare.search.setText("token")
    assert not bare._models_card.isVisible()


def test_the_search_filters(page: PreferencesPage) -> None:
    page.search.setText("threads")
    assert [row._setting.key for row in page.rows() if row.isVisible()] == ["num_threads"]
    page.search.setText("no such words")
    assert page._nothing.isVisible()
    page.search.clear()
    assert all(row.isVisible() for row in page.rows())


def test_another_language_offers_a_restart(page: PreferencesPage, settings: Settings, qtbot: QtBot) -> None:
    assert current().code == "en"
    settings.set("language", "de")
    assert not page.notice_bar.isHidden()
    assert page.notice_bar.text == "Fireside speaks Deutsch from its next start on."
    button = next(one for one in page.notice_bar.findChildren(QPushButton) if one.text() == "Restart now")
    with qtbot.waitSignal(page.restart_requested):
        button.click()
    settings.set("language", "de")
    settings.set("language", "en")
    assert page.notice_bar.isHidden(), "it is the language that is spoken"


@pytest.mark.parametrize("width", [300, 420, 520, 640, 900])
def test_the_words_beside_a_field_can_be_read(settings: Settings, theme: Theme, qtbot: QtBot, width: int) -> None:
    """A wide field, as the choices of a language, leaves too little room for the sentence sooner than a number."""
    row = SettingRow(next(each for each in SETTINGS if each.key == "language"), settings, theme)
    qtbot.addWidget(row)
    settings.set("language", "de")
    row.resize(width, 200)
    row.show()
    qtbot.wait(10)
    words = max(label.width() for label in row.findChildren(WrappingLabel))
    assert words >= theme.px(180)
    editor = row.field.editor
    assert editor.width() >= editor.sizeHint().width() or words == width, "it stands below"


class _Kept:
    """Keeps what it is told to, and answers when it is asked to."""

    def __init__(self, num_bytes: int, num_conversations: int) -> None:
        self.storage = SnapshotStorage(num_bytes, num_conversations, 10**9)
        self.waiting: list[Callable[[SnapshotStorage], None]] = []

    def ask(self, on_answer: Callable[[SnapshotStorage], None]) -> None:
        self.waiting = [on_answer]

    def clear(self) -> None:
        self.storage = SnapshotStorage(0, 0, 10**9)

    def answer(self) -> None:
        for on_answer in self.waiting:
            on_answer(self.storage)
        self.waiting = []


def _kept_row(page: PreferencesPage) -> KeptChatsRow:
    (row,) = page.findChildren(KeptChatsRow)
    return row


def test_what_is_kept_of_chats_is_shown_and_deleted(settings: Settings, theme: Theme, qtbot: QtBot) -> None:
    kept = _Kept(1_234_000_000, 7)
    page = PreferencesPage(settings, theme, kept=kept)
    qtbot.addWidget(page)
    page.show()
    row = _kept_row(page)
    assert not row.delete.isEnabled(), "nobody knows yet whether there is any"
    kept.answer()
    words = row.findChildren(WrappingLabel)[-1]
    assert words.text().startswith("1.2 GB of 7 chats.")
    row.delete.click()
    assert not row.delete.isEnabled()
    kept.answer()
    assert words.text() == "Nothing is kept."
    assert not row.delete.isEnabled()
    kept.storage = SnapshotStorage(98_000_000, 1, 10**9)
    settings.set("kept_chats_gb", 2.0)
    kept.answer()
    assert words.text().startswith("98 MB of one chat.")
    page.search.setText("storage delete")
    assert row.isVisible()
    page.search.setText("temperature")
    assert not row.isVisible()


def test_an_answer_to_a_page_that_is_gone_is_dropped(settings: Settings, theme: Theme, qtbot: QtBot) -> None:
    kept = _Kept(1, 1)
    page = PreferencesPage(settings, theme, kept=kept)
    page.show()
    page.deleteLater()
    QApplication.sendPostedEvents(page, QEvent.Type.DeferredDelete)
    kept.answer()


def test_without_anything_that_keeps_chats_there_is_no_row(page: PreferencesPage) -> None:
    assert page.findChildren(KeptChatsRow) == []
