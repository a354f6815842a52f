from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from app.settings import Settings
from app.window.main_window import MainWindow
from tests.app.cut_texts import cut_texts

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("language", ["en", "de"])
def test_no_text_is_cut_in_the_narrowest_window(language: str) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "tests.app.cut_texts", language],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert process.stdout.splitlines() == []


def test_what_is_cut_is_found(qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    row = QHBoxLayout(window)
    button, label, far = QPushButton("A long text"), QLabel("Words " * 20), QPushButton("Far", window)
    label.setWordWrap(True)
    for widget in (button, label):
        row.addWidget(widget)
    far.move(270, 0)
    button.setFixedWidth(20)
    label.setFixedSize(60, 12)
    window.resize(300, 80)
    window.show()
    assert len(list(cut_texts(window))) == 3
    button.setFixedWidth(button.sizeHint().width())
    label.setFixedSize(400, 60)
    window.resize(700, 80)
    qtbot.waitUntil(lambda: not list(cut_texts(window)))


def test_the_window_is_as_wide_as_its_texts_need(window: MainWindow, settings: Settings) -> None:
    window.resize(0, 0)
    assert (window.width(), window.height()) == (420, 360)
    settings.set("zoom", 2.0)
    assert window.width() == min(640, window.screen().availableGeometry().width())
