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
    for _ in range(3000):
        if path.exists():
            return
        time.sleep(0.1)
    pytest.fail(f"{path} did not come")


def _wait_until_it_answers(home: Path) -> None:
    """Start it once more until the first one, which may be busy still, is brought to the front."""
    said = ""
    for _ in range(20):
        output, errors = _start(home).communicate(timeout=300)
        if "running already; its window" in output:
            return
        said += output + errors
    pytest.fail(said)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out.startswith("Fireside 0.")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems always have a display")
def test_without_a_display_it_names_the_terminal(tmp_path: Path) -> None:
    process = _start(tmp_path, DISPLAY="", WAYLAND_DISPLAY="", QT_QPA_PLATFORM="")
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "--terminal" in errors
    assert len(errors.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none.gguf")]) == 2
    assert "none.gguf" in capsys.readouterr().err


def test_a_folder_in_place_of_a_model_is_called_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").touch()
    assert main([str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"{tmp_path} is a folder without models: give the path of a .gguf file.\n"
    for name in ("b.gguf", "a.GGUF"):
        (tmp_path / name).touch()
    assert main([str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said == f"{tmp_path} is a folder: give the path of a file in it, for example {tmp_path / 'a.GGUF'}.\n"


@pytest.mark.skipif(sys.platform == "win32", reason="links and devices are others there")
def test_what_cannot_be_looked_at_is_not_called_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loop = tmp_path / "loop.gguf"
    loop.symlink_to(loop)
    for model in (str(loop), "a" * 3000, "a\0.gguf"):
        assert main([model]) == 2
        assert "cannot be opened (" in capsys.readouterr().err
    assert main([str(tmp_path / "none" / "b.gguf")]) == 2
    assert "is not there" in capsys.readouterr().err
    assert main([os.devnull]) == 2
    assert "is no file" in capsys.readouterr().err


def test_the_terminal_without_a_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRESIDE_HOME", "elsewhere")
    assert main(["--terminal", "--home", str(tmp_path)]) == 2
    assert str(tmp_path) in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="signals of this kind are not sent there")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_closes_it_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    home = tmp_path / "дом"
    process = _start(home)
    _wait_for(home / "models")
    _wait_until_it_answers(home)
    process.send_signal(number)
    _, errors = process.communicate(timeout=300)
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
    _, more = process.communicate(timeout=300)
    errors += more
    assert process.returncode == 0, errors
    assert "Traceback" not in errors


def test_a_restart_starts_it_once_more(tmp_path: Path) -> None:
    log = tmp_path / "starts.txt"
    code = f"""
import sys
from pathlib import Path
from PySide6.QtCore import QTimer
from app import application
from app.paths import AppPaths
from app.window.main_window import RESTART_STATUS
log = Path({str(log)!r})
with log.open("a") as stream:
    print("start", file=stream)
is_first = log.read_text().count("start") == 1
status = RESTART_STATUS if is_first else 0
run_window = application._run_window
def patched(app, *arguments):
    QTimer.singleShot(300, lambda: app.exit(status))
    return run_window(app, *arguments)
application._run_window = patched
result = application.run(AppPaths.below(Path({str(tmp_path)!r})))
with log.open("a") as stream:
    print("end", result, file=stream)
"""
    script = tmp_path / "start.py"
    script.write_text(code, encoding="utf-8")
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen", "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, str(script)], env=environment, check=True, timeout=300)
    for _ in range(3000):
        if log.read_text(encoding="utf-8").count("end 0") == 2:
            break
        time.sleep(0.1)
    assert sorted(log.read_text(encoding="utf-8").splitlines()) == ["end 0", "end 0", "start", "start"]
