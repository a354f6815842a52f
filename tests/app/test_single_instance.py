from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from PySide6.QtCore import QTimer
from PySide6.QtNetwork import QLocalSocket
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
instance.listen()
os.kill(os.getpid(), 9)
"""

_SECOND = """
import sys
from pathlib import Path
from PySide6.QtCore import QCoreApplication
from app.single_instance import SingleInstance
application = QCoreApplication([])
instance = SingleInstance(Path(sys.argv[1]))
model = Path(sys.argv[2]) if len(sys.argv) > 2 else None
print(instance.acquire(), instance.raise_other(model))
"""


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.single_instance.ANSWER_WAIT_MS", 60_000)


def test_a_second_start_raises_the_first(qtbot: QtBot, tmp_path: Path) -> None:
    lock = tmp_path / "дом" / "app.lock"
    first = SingleInstance(lock)
    assert first.acquire()
    first.listen()
    second = subprocess.Popen([sys.executable, "-c", _SECOND, str(lock)], stdout=subprocess.PIPE, text=True)
    with qtbot.waitSignal(first.raise_requested):
        pass
    assert second.communicate(timeout=60)[0].split() == ["False", "True"]
    first.release()
    third = SingleInstance(lock)
    assert third.acquire()
    third.release()


def test_a_second_start_waits_until_the_first_listens(qtbot: QtBot, tmp_path: Path) -> None:
    lock = tmp_path / "app.lock"
    first = SingleInstance(lock)
    assert first.acquire()
    second = SingleInstance(lock)
    assert not second.acquire()
    QTimer.singleShot(0, first.listen)
    answers: list[bool] = []
    asking = threading.Thread(target=lambda: answers.append(SingleInstance(lock).raise_other()))
    with qtbot.waitSignal(first.raise_requested):
        asking.start()
        asking.join(0.1)  # the first does not come to listen before
    asking.join(60)
    assert answers == [True]
    first.release()


def test_where_nobody_has_the_lock_nobody_listens(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.single_instance.ANSWER_WAIT_MS", 50)
    instance = SingleInstance(tmp_path / "app.lock")
    instance.listen()
    assert not instance.raise_other()


def test_a_second_start_hands_its_file_over(qtbot: QtBot, tmp_path: Path) -> None:
    lock = tmp_path / "app.lock"
    model = tmp_path / "дом\n家.gguf"
    first = SingleInstance(lock)
    assert first.acquire()
    first.listen()
    second = subprocess.Popen([sys.executable, "-c", _SECOND, str(lock), str(model)])
    with qtbot.waitSignal(first.raise_requested) as caught:
        pass
    assert caught.args == [str(model)]
    assert second.wait(60) == 0
    first.release()


def test_nonsense_on_the_socket_is_ignored(qtbot: QtBot, tmp_path: Path) -> None:
    first = SingleInstance(tmp_path / "app.lock")
    assert first.acquire()
    first.listen()
    heard: list[str] = []
    first.raise_requested.connect(heard.append)
    for message in (b"\xff\xfe\n", b"[]\n", b"[" * 60_000 + b"\n", b'{"model": 7}\n', b"x" * 200_000):
        socket = QLocalSocket()
        socket.connectToServer(first._server_name())
        assert socket.waitForConnected(60_000)
        socket.write(message)
        socket.flush()
        qtbot.wait(20)
        socket.abort()
    assert first.raise_other()
    qtbot.waitUntil(lambda: heard == ["", ""])
    first.release()


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
    instance.listen()
    assert instance.raise_other(), "its socket is replaced as well"
    instance.release()


def test_an_unreachable_folder_keeps_nobody_from_starting(qtbot: QtBot, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert SingleInstance(tmp_path / "file" / "data" / "lock").acquire()
