from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.context import AppContext
from app.paths import AppPaths
from tests.app.fake_engine import FakeEngine
from tests.app.measure import fill

ROOT = Path(__file__).resolve().parents[2]
_LATER = (
    "PySide6.QtNetwork",
    "numpy",
    "markdown_it",
    "pygments",
    "engine.thread",
    "app.chat.answer",
    "app.chat.own_message",
    "app.extraction.page",
    "app.library.models_page",
)


def test_the_window_is_painted_before_anything_heavy_is_imported() -> None:
    code = f"import app.application, sys; print([name for name in {_LATER!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, text=True, capture_output=True, check=True)
    assert result.stdout.strip() == "[]"


def test_a_start_shows_the_last_chat_and_then_completes(tmp_path: Path) -> None:
    paths = AppPaths.below(tmp_path)
    fill(paths.database, num_chats=2, num_messages=4, num_long=20)
    paths.config.mkdir()
    paths.settings_file.write_text(json.dumps({"last_conversation": "long"}), encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-m", "tests.app.start_process", str(tmp_path), str(time.time())],
        cwd=ROOT,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
        text=True,
        capture_output=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    figures = json.loads(result.stdout)
    assert 0 < figures["painted_ms"] < figures["chat_ms"]
    assert figures["stall_ms"] > 0, "it came to its end after all was imported"


def test_garbage_is_collected_again_once_all_is_imported() -> None:
    code = (
        "import gc; from app.context import _import_late; gc.disable(); _import_late();"
        "frozen = gc.get_freeze_count(); _import_late(); print(gc.isenabled(), 0 < frozen == gc.get_freeze_count())"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, text=True, capture_output=True, check=True)
    assert result.stdout.split() == ["True", "True"]


@pytest.mark.parametrize("is_broken", [False, True])
def test_what_comes_after_an_import_comes_in_any_case(qtbot: QtBot, tmp_path: Path, is_broken: bool) -> None:
    context = AppContext(AppPaths.below(tmp_path), FakeEngine)
    threads: list[threading.Thread] = []

    def work() -> None:
        threads.append(threading.current_thread())
        if is_broken:
            raise ImportError("absent")

    context.prepare(work, lambda: threads.append(threading.current_thread()))
    qtbot.waitUntil(lambda: len(threads) == 2)
    context.close()
    assert threads[0] is not threads[1] is threading.current_thread()
