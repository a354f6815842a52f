"""Pictures of the window, made offscreen: ``python -m tests.app.take_screenshots FOLDER``.

Each page and some states in both themes, at 100 % and at 200 % in a window of the same size, as
``<page>-<theme>[-200].png``. The README shows two of them.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from PySide6.QtCore import QEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from app.chat.highlighter import shared_highlighter
from app.chat.message_actions import MessageAction
from app.context import AppContext
from app.settings import Settings
from app.theme import Theme
from app.window.main_window import MainWindow
from app.window.pages import CHAT, PageEntry
from tests.app.fake_controller import STATS, FakeController
from tests.app.features import make_features

SIZE = (1280, 820)


def make_window(
    theme_name: str, zoom: float, features: Callable[[Theme], Sequence[PageEntry]] = lambda _theme: ()
) -> tuple[MainWindow, FakeController]:
    """The window over the fake controller, filled with the chats of the design's sketches."""
    application = QApplication.instance()
    assert isinstance(application, QApplication)
    settings = Settings()
    settings.set("theme", theme_name)
    settings.set("zoom", zoom)
    fake = FakeController()
    fake.fill()
    theme = Theme(application, settings)
    window = MainWindow(fake, settings, theme, features(theme))  # type: ignore[arg-type]
    window.resize(*SIZE)
    window.show()
    message_id = fake.begin_answer()
    fake.push(message_id, "Python's sort is stable, so lines with the same key keep the order they had. ")
    fake.push(message_id, "With **reverse=True** that still holds")
    fake.context_used.emit(1204, 1148, 8192)
    return window, fake


def scenes(window: MainWindow, fake: FakeController) -> Iterator[str]:
    """States of the window that no page shows; each is there until the next one is asked for."""
    window.banner.show_text(
        "Fireside did not end by itself last time. The answer it was writing in “Trip notes, Lisbon” is kept as "
        "far as it came.",
        action_name="Show the answer",
        action=lambda: None,
    )
    yield "crash"
    window.banner.hide()
    message_id = fake.current_messages[-1].record.id
    fake.end_answer(message_id, stats={**STATS, "finish_reason": "context"})
    window.chat_page._on_asked(message_id, MessageAction.LARGER_CONTEXT)
    yield "full"
    window.chat_page.notice_bar.hide()
    palette = window.show_commands()
    yield "commands"
    palette._leave()
    window.pane.show_options(True)
    yield "options"
    window.pane.show_options(False)
    fake.new_conversation()
    yield "new"


def pictures(home: Path, zooms: Sequence[float] = (1.0, 2.0)) -> Iterator[tuple[str, QWidget]]:
    """Each name with the window that shows it; grab it before the next one is asked for.

    Whatever a page keeps on the disk lies below ``home``.
    """
    _learn_colours()
    for theme_name in ("light", "dark"):
        for zoom in zooms:
            contexts: list[AppContext] = []

            def features(theme: Theme, contexts: list[AppContext] = contexts) -> Sequence[PageEntry]:
                context, pages = make_features(home, theme)
                contexts.append(context)
                return pages

            window, fake = make_window(theme_name, zoom, features)
            fake.delete_conversations([record.id for record in fake.conversations if "Regex" in record.title])
            for entry in window.pages.entries:
                window.show_page(entry.name)
                while len(window.chat_page.transcript.widgets) < len(fake.current_messages):
                    QTest.qWait(5)  # messages are made in turns
                QTest.qWait(60)
                yield f"{entry.name}-{theme_name}" + ("" if zoom == 1 else f"-{zoom * 100:.0f}"), window
            window.show_page(CHAT)
            for name in scenes(window, fake):
                QTest.qWait(60)
                yield f"{name}-{theme_name}" + ("" if zoom == 1 else f"-{zoom * 100:.0f}"), window
            window.close()
            window.deleteLater()
            for context in contexts:
                context.close()
            QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def _learn_colours() -> None:
    """Wait until code of the pictures' language is coloured at once, on a busy machine, too."""
    found: list[object] = []
    shared_highlighter().colour("import os", "python", found.append)
    while not found:
        QTest.qWait(5)


def main() -> int:
    """Write the pictures into the folder that is named; returns the exit status."""
    parser = argparse.ArgumentParser(prog="take_screenshots", description="Pictures of the window.")
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    application = QApplication(sys.argv[:1])
    with tempfile.TemporaryDirectory(prefix="fireside-pictures-") as home:
        for name, window in pictures(Path(home)):
            window.grab().save(str(folder / f"{name}.png"))
            print(folder / f"{name}.png")
    application.processEvents()
    return 0


if __name__ == "__main__":
    sys.exit(main())
