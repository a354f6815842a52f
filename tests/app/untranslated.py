"""Prints the visible texts of the window that do not come from ``tr``: ``python -m tests.app.untranslated``.

The interface is built in a language that puts marks around every text. What people, models and files named is
known from the fake controller and left out.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from app import translation
from app.translation import Language

OPEN, CLOSE = "⟦", "⟧"


class _Marked(dict[str, str]):
    """Every text is there, in marks."""

    def get(self, text: str, default: object = None) -> str:  # type: ignore[override]
        return f"{OPEN}{text}{CLOSE}"


translation.use(Language("en", _Marked()))

from PySide6.QtGui import QAction  # noqa: E402
from PySide6.QtWidgets import (  # noqa: E402
    QAbstractButton,
    QAbstractSpinBox,
    QApplication,
    QLabel,
    QLineEdit,
    QMenu,
    QPlainTextEdit,
    QWidget,
)  # fmt: skip

from app.library.starters import starter_offers  # noqa: E402
from app.settings import Settings  # noqa: E402
from app.settings_table import SETTINGS  # noqa: E402
from app.theme import Theme  # noqa: E402
from app.window.main_window import MainWindow  # noqa: E402
from tests.app.fake_controller import FakeController  # noqa: E402
from tests.app.features import make_features  # noqa: E402

_KEYS = re.compile(r"\b(?:Ctrl|Alt|Shift)\+\S+|\b(?:F\d+|Esc|Enter)\b")
_LETTERS = re.compile(r"[^\W\d_]{2,}")
_NAMES = re.compile(r"\b(?:Fireside|Deutsch|English|CPU|MB|GB|python|min)\b")


def texts_of(widget: QWidget) -> Iterator[str]:
    """What a person may read or hear of one widget."""
    yield widget.toolTip()
    yield widget.accessibleName()
    yield widget.accessibleDescription()
    if isinstance(widget, QLabel | QAbstractButton):
        yield widget.text()
    if isinstance(widget, QLineEdit | QPlainTextEdit):
        yield widget.placeholderText()
    if isinstance(widget, QAbstractSpinBox):
        yield widget.specialValueText()
    if isinstance(widget, QMenu):
        yield widget.title()
        yield from (action.text() for action in widget.actions())


def is_forgotten(text: str, known: set[str]) -> bool:
    """Whether words are left when marked texts, names and keys are taken out."""
    for name in sorted(known, key=len, reverse=True):
        text = text.replace(name, "")
    while (cleared := re.sub(rf"{OPEN}[^{OPEN}{CLOSE}]*(?:{CLOSE}|…)", "", text)) != text:
        text = cleared
    text = _NAMES.sub("", _KEYS.sub("", text.replace("&", "")))
    return bool(_LETTERS.search(text))


def forgotten(root: QWidget, known: set[str]) -> set[str]:
    """The texts below ``root`` that were not translated."""
    found: set[str] = set()
    for widget in [root, *root.findChildren(QWidget)]:
        if not isinstance(widget, QLineEdit) or not widget.objectName().startswith("qt_"):
            found.update(text for text in texts_of(widget) if is_forgotten(text, known))
    found.update(action.text() for action in root.findChildren(QAction) if is_forgotten(action.text(), known))
    return found


def main() -> int:
    """Build everything and print what was forgotten; returns the exit status."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    application = QApplication(sys.argv[:1])
    settings, fake = Settings(), FakeController()
    fake.fill()
    theme = Theme(application, settings)
    home = tempfile.TemporaryDirectory(prefix="fireside-untranslated-")
    context, features = make_features(Path(home.name), theme)
    window = MainWindow(fake, settings, theme, features)  # type: ignore[arg-type]
    window.show()
    known = {record.title for record in fake.conversations} | {folder.name for folder in fake.folders.records()}
    known |= {entry.name for entry in fake.models} | {entry.detail for entry in fake.models}
    known |= {entry.problem for entry in fake.models if entry.problem}
    known |= {offer.name for offer in starter_offers()}
    known |= {str(Path(home.name, "models"))}  # which a card says once it has looked there
    known |= {view.record.content for view in fake.current_messages}
    known |= {view.record.content[:200] for view in fake.current_messages}
    for entry in window.pages.entries:
        window.show_page(entry.name)
    chats = window.sidebar.list
    for row in range(chats.conversations.rowCount()):
        if not chats.conversations.index(row).data(0x0100 + 1):
            chats.make_menu(chats.conversations.index(row)).setParent(window)
    window.sidebar.make_new_menu()
    window.bar.model_button.make_menu()
    application.processEvents()
    found = forgotten(window, known)
    for setting in SETTINGS:
        words = (setting.title, setting.help, setting.group, setting.least_word, *setting.words)
        found.update(word for word in words if is_forgotten(word, known))
    context.close()
    home.cleanup()
    print("\n".join(sorted(found)), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
