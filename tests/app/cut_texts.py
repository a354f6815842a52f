"""Prints the texts of the window that have no room: ``python -m tests.app.cut_texts LANGUAGE``.

Every page and state of ``take_screenshots`` is looked at in the narrowest window, at 200 % and at 100 %. With
``--pictures FOLDER`` what was looked at is kept.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QPoint
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QLabel, QWidget

from app import translation

_SLACK = 1  # pixels
_HEIGHT = 900


def cut_texts(window: QWidget) -> Iterator[str]:
    """What is seen only in part: texts cut off, and buttons beyond the edge of what they stand in."""
    for widget in window.findChildren(QWidget):
        if isinstance(widget, QAbstractButton | QLabel) and widget.isVisible():
            words = widget.text() or widget.accessibleName()
            if why := _why_cut(widget) or _why_outside(widget, window):
                yield f"{words[:60]!r} {why}"


def _why_cut(widget: QAbstractButton | QLabel) -> str:
    """What shortens its own text has done so already, and its tooltip is whole."""
    if not widget.text():
        return ""
    if isinstance(widget, QLabel) and widget.wordWrap():
        needed = widget.heightForWidth(widget.width())
        return f"needs {needed} pixels of height and has {widget.height()}" if needed > widget.height() else ""
    needed = widget.fontMetrics().horizontalAdvance(widget.text())
    if isinstance(widget, QAbstractButton) and not widget.toolTip():
        needed = widget.sizeHint().width()
    has = widget.width()
    return f"needs {needed} pixels and has {has}" if needed > has + _SLACK else ""


def _why_outside(widget: QWidget, window: QWidget) -> str:
    """Up and down a page may scroll; sideways nothing may stick out."""
    around = widget.parentWidget()
    while around is not None:
        left = widget.mapTo(around, QPoint(0, 0)).x()
        if left < -_SLACK or left + widget.width() > around.width() + _SLACK:
            name = around.objectName() or type(around).__name__
            return f"stands at {left} to {left + widget.width()} of {around.width()} pixels in {name}"
        if around is window:
            break
        around = around.parentWidget()
    return ""


def main() -> int:
    """Look at everything and print what is cut; returns the exit status."""
    parser = argparse.ArgumentParser(prog="cut_texts", description="Texts that have no room.")
    parser.add_argument("language")
    parser.add_argument("--pictures", type=Path)
    arguments = parser.parse_args()
    translation.use(translation.load_language(arguments.language))
    from tests.app.take_screenshots import pictures  # in that language from here on

    application = QApplication(sys.argv[:1])
    with tempfile.TemporaryDirectory(prefix="fireside-cut-") as home:
        for name, window in pictures(Path(home), (1.0, 2.0)):
            if "-dark" in name:
                break  # of the same size
            window.resize(0, _HEIGHT)  # no narrower than it lets itself be made
            QTest.qWait(40)
            if arguments.pictures is not None:
                arguments.pictures.mkdir(parents=True, exist_ok=True)
                window.grab().save(str(arguments.pictures / f"{name}-{arguments.language}.png"))
            for line in cut_texts(window):
                print(f"{name}: {line}")
    sys.stdout.flush()
    application.closeAllWindows()
    os._exit(0)  # the window of the last picture is half taken apart


if __name__ == "__main__":
    sys.exit(main())
