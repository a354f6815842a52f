"""Zooming while the window stands gives what a window gives that is made at that size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication, QLayout, QScrollBar, QWidget
from pytestqt.qtbot import QtBot

from app.chat.attachment_chips import AttachmentChips
from app.extraction.page import ExtractionPage
from app.settings import Settings
from app.storage.records import AttachmentRecord
from app.theme import Theme
from app.window.main_window import MainWindow
from tests.app.fake_controller import FakeController
from tests.app.features import make_features

SCHEMA = """{"type": "object", "properties": {"a": {"type": "string"},
"b": {"type": "object", "properties": {"c": {"enum": ["x", "y"]}}}}}"""


@contextmanager
def _window(application: QApplication, home: Path, zoom: float) -> Iterator[MainWindow]:
    """A window with all that is laid out once, filled."""
    settings = Settings()
    settings.set("theme", "light")
    settings.set("zoom", zoom)
    theme = Theme(application, settings)
    context, entries = make_features(home, theme)
    fake = FakeController()
    fake.fill()
    window = MainWindow(fake, settings, theme, entries)  # type: ignore[arg-type]
    window.resize(1280, 820)
    window.show()
    try:
        yield window
    finally:
        window.close()
        window.deleteLater()
        context.close()
        theme.setParent(None)
        application.processEvents()


def _fill(window: MainWindow, name: str) -> QWidget:
    if name == "options":
        window.pane.show_options(True)
        return window.pane.options_panel
    if name == "composer":
        record = AttachmentRecord("a", "c", None, 0, "notes.txt", "x.txt", 5)
        [chips] = window.chat_page.composer.findChildren(AttachmentChips)
        chips.show_attachments([record])
        return window.chat_page.composer
    window.show_page(name)
    page = window.pages.page(name)
    if isinstance(page, ExtractionPage):
        page.editor.show_schema(SCHEMA)
        page.editor.form.rows[1].set_open(True)
    return page


def _geometry(root: QWidget) -> Counter[tuple[object, ...]]:
    """How often each kind of layout and widget has which margins, spacing and bounds."""
    found: Counter[tuple[object, ...]] = Counter()
    for layout in root.findChildren(QLayout):
        margins = layout.contentsMargins()
        sides = (margins.left(), margins.top(), margins.right(), margins.bottom())
        found[type(layout).__name__, type(layout.parent()).__name__, sides, layout.spacing()] += 1
    for widget in root.findChildren(QWidget):
        is_qts = isinstance(widget, QScrollBar) or widget.objectName().startswith("qt_")
        if widget.isVisibleTo(root) and not is_qts:
            bounds = (widget.minimumWidth(), widget.minimumHeight(), widget.maximumWidth(), widget.maximumHeight())
            found[type(widget).__name__, bounds] += 1
    return found


@pytest.mark.qt_log_ignore("This plugin does not support")  # of the offscreen platform
@pytest.mark.parametrize("name", ["composer", "options", "models", "extraction", "settings", "trash"])
def test_zooming_gives_what_a_new_window_gives(qapp: QApplication, qtbot: QtBot, tmp_path: Path, name: str) -> None:
    with _window(qapp, tmp_path / "made", 2.0) as window:
        part = _fill(window, name)
        qtbot.wait(50)
        wanted = _geometry(part)
    with _window(qapp, tmp_path / "zoomed", 1.0) as window:
        part = _fill(window, name)
        window._settings.set("zoom", 2.0)
        window.resize(1280, 820)
        qtbot.wait(50)
        zoomed = _geometry(part)
    assert zoomed - wanted == Counter()
    assert wanted - zoomed == Counter()
