from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pytestqt.qtbot import QtBot

from app.single_instance import SingleInstance

_KILLED = """
import os, sys
from pathlib import Path
from PySide6.QtCore import QCoreApplication
from app.single_instance import SingleInstance
application = QCoreApplication([])
instance = SingleInstance(Path(sys.argv[1]))
assert instance.acquire()
os.kill(os.getpid(), 9)
"""

_SECOND = """
import sys
from pathlib import Path
from PySide6.QtCore import QCoreApplication
from app.single_instance import SingleInstance
application = QCoreApplication([])
instance = SingleInstance(Path(sys.argv[1]))
print(instance.acquire(), instance.raise_other())
"""


def test_a_second_start_raises_the_first(qtbot: QtBot, tmp_path: Path) -> None:
    lock = tmp_path / "дом" / "app.lock"
    first = SingleInstance(lock)
    assert first.acquire()
    second = subprocess.Popen([sys.executable, "-c", _SECOND, str(lock)], stdout=subprocess.PIPE, text=True)
    with qtbot.waitSignal(first.raise_requested, timeout=15_000):
        pass
    assert second.communicate(timeout=15)[0].split() == ["False", "True"]
    first.release()
    third = SingleInstance(lock)
    assert third.acquire()
    third.release()


def test_different_homes_do_not_meet(qtbot: QtBot, tmp_path: Path) -> None:
    first, second = SingleInstance(tmp_path / "a" / "lock"), SingleInstance(tmp_path / "b" / "lock")
    assert first.acquire()
    assert second.acquire()
    first.release()
    second.release()


def test_the_lock_of_a_killed_process_is_taken_over(qtbot: QtBot, tmp_path: Path) -> None:
    lock = tmp_path / "app.lock"
    subprocess.run([sys.executable, "-c", _KILLED, str(lock)], check=False)
    assert lock.exists()
    instance = SingleInstance(lock)
    assert instance.acquire()
    assert instance.raise_other(), "its socket is replaced as well"
    instance.release()


def test_an_unreachable_folder_keeps_nobody_from_starting(qtbot: QtBot, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert SingleInstance(tmp_path / "file" / "data" / "lock").acquire()
