from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from app.__main__ import main

ROOT = Path(__file__).resolve().parents[2]


def _start(home: Path, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "FIRESIDE_HOME": str(home), "QT_QPA_PLATFORM": "offscreen", **variables}
    environment = {name: value for name, value in environment.items() if value}
    return subprocess.Popen(
        [sys.executable, "-m", "app", *arguments],
        cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def _wait_for(path: Path) -> None:
    for _ in range(300):
        if path.exists():
            return
        time.sleep(0.1)
    pytest.fail(f"{path} did not come")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out.startswith("Fireside 0.")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems always have a display")
def test_without_a_display_it_names_the_terminal(tmp_path: Path) -> None:
    process = _start(tmp_path, DISPLAY="", WAYLAND_DISPLAY="", QT_QPA_PLATFORM="")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "--terminal" in errors
    assert len(errors.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none.gguf")]) == 2
    assert "none.gguf" in capsys.readouterr().err


def test_the_terminal_without_a_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRESIDE_HOME", "elsewhere")
    assert main(["--terminal", "--home", str(tmp_path)]) == 2
    assert str(tmp_path) in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="signals of this kind are not sent there")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_closes_it_cleanly_and_quickly(tmp_path: Path, number: signal.Signals) -> None:
    home = tmp_path / "дом"
    process = _start(home)
    _wait_for(home / "models")
    time.sleep(0.3)
    second = _start(home)
    output, _ = second.communicate(timeout=60)
    assert "running already" in output
    started = time.perf_counter()
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert time.perf_counter() - started < 3
    assert process.returncode == 0, errors
    remaining = [line for line in errors.splitlines() if "plugin does not support raise" not in line]
    assert remaining == [], "the offscreen platform has no windows to raise; nothing else is worth a warning"
    assert not (home / "data" / "fireside.lock").exists()
    assert not (home / "data" / "chats.db-wal").exists()


def test_it_starts_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    process = _start(tmp_path / "file" / "home")
    assert process.stderr is not None
    errors = ""
    while "cannot be saved" not in errors:
        line = process.stderr.readline()
        assert line, errors
        errors += line
    process.terminate()
    _, more = process.communicate(timeout=60)
    errors += more
    assert process.returncode == 0, errors
    assert "Traceback" not in errors
