"""Pictures of the window, made offscreen: ``python -m tests.app.take_screenshots FOLDER``.

Each page in both themes, at 100 % and at 200 %, as ``<page>-<theme>[-200].png``. The README shows two of them.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from PySide6.QtWidgets import QApplication, QWidget

from app.settings import Settings
from app.theme import Theme
from app.window.main_window import MainWindow
from tests.app.fake_controller import FakeController

SIZE = (1280, 820)
PAGES = ("chat", "settings", "trash")


def make_window(theme_name: str, zoom: float) -> tuple[MainWindow, FakeController]:
    """The window over the fake controller, filled with the chats of the design's sketches."""
    application = QApplication.instance()
    assert isinstance(application, QApplication)
    settings = Settings()
    settings.set("theme", theme_name)
    settings.set("zoom", zoom)
    fake = FakeController()
    fake.fill()
    window = MainWindow(fake, settings, Theme(application, settings))  # type: ignore[arg-type]
    window.resize(int(SIZE[0] * zoom), int(SIZE[1] * zoom))
    window.show()
    message_id = fake.begin_answer()
    fake.push(message_id, "Python's sort is stable, so lines with the same key keep the order they had. ")
    fake.push(message_id, "With **reverse=True** that still holds")
    return window, fake


def pictures(
    pages: tuple[str, ...] = PAGES, zooms: tuple[float, ...] = (1.0, 2.0)
) -> Iterator[tuple[str, QWidget]]:
    """Each name with the window that shows it; grab it before the next one is asked for."""
    for theme_name in ("light", "dark"):
        for zoom in zooms:
            window, fake = make_window(theme_name, zoom)
            fake.delete_conversations([record.id for record in fake.conversations if "Regex" in record.title])
            for page in pages:
                window.show_page(page)
                QApplication.processEvents()
                yield f"{page}-{theme_name}" + ("" if zoom == 1 else f"-{zoom * 100:.0f}"), window
            window.close()
            window.deleteLater()
            QApplication.sendPostedEvents(None, 0)


def main() -> int:
    """Write the pictures into the folder that is named; returns the exit status."""
    parser = argparse.ArgumentParser(prog="take_screenshots", description="Pictures of the window.")
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    application = QApplication(sys.argv[:1])
    for name, window in pictures():
        application.processEvents()
        window.grab().save(str(folder / f"{name}.png"))
        print(folder / f"{name}.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
