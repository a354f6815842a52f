#!/usr/bin/env python3
"""From a checkout to a running program, with nothing but Python and pip.

    python3 installers/source.py run     set up, obtain the starter model, open the app
    python3 installers/source.py test    set up with the test tools, then the whole check

Both may be interrupted and run again. Standard library only; each failure ends in one plain sentence.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from source_environment import ROOT, VENV, prepare_environment, venv_python
from source_models import obtain_model
from source_qt import ensure_qt_libraries
from source_report import Report, SetupError

STARTER_PIN = ROOT / "resources" / "starter_model.json"
TEST_MODEL_PINS = (STARTER_PIN, ROOT / "tests" / "data" / "gemma3_model.json")
TEST_MODELS = ROOT / ".fireside" / "test-models"


def main(arguments: list[str] | None = None) -> int:
    """Run one of the two commands; returns the exit status."""
    parser = argparse.ArgumentParser(description="Set up Fireside from its checkout, then run or test it.")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="set up, obtain the starter model and open the app")
    run.add_argument("--terminal", action="store_true", help="chat in the terminal instead of a window")
    commands.add_parser("test", help="set up with the test tools and run the whole check")
    options = parser.parse_args(arguments)
    try:
        return run_app(is_terminal=options.terminal) if options.command == "run" else run_checks()
    except SetupError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped; run the same command again to go on where it stopped.", file=sys.stderr)
        return 130


def run_app(*, is_terminal: bool) -> int:
    """Set up and start the app with the starter model, or the terminal chat."""
    report = Report(num_steps=5)
    prepare_environment(report, extras=())
    report.step("Obtaining the starter model")
    model = obtain_model(STARTER_PIN, _models_folder(), report)
    if is_terminal:
        report.step("Starting the chat in this terminal")
        return _call([str(venv_python()), "-m", "engine", "chat", str(model)])
    if not _has_display():
        raise SetupError(
            "There is no display here, so no window can open: chat in this terminal with "
            "`python3 installers/source.py run --terminal`, or start the command from a graphical session."
        )
    ensure_qt_libraries(report)
    report.step("Opening Fireside")
    return _call([str(venv_python()), "-m", "app"])


def run_checks() -> int:
    """Set up with the test tools and run lint, types, import contracts and tests; 0 when all pass."""
    checks = {
        "lint": ["-m", "ruff", "check", "."],
        "format": ["-m", "ruff", "format", "--check", "."],
        "types": ["-m", "mypy", "engine", "app"],
        "import contracts": ["-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"],
        "tests": ["-m", "pytest", "-q", "-n", "2"],
    }
    report = Report(num_steps=4 + len(checks))
    prepare_environment(report, extras=("test",))
    report.step("Obtaining the test models")
    for pin in TEST_MODEL_PINS:
        obtain_model(pin, TEST_MODELS, report)
    ensure_qt_libraries(report)
    # Two test processes with one BLAS thread each: more would fight for the cores.
    environment = {**os.environ, "FIRESIDE_REQUIRE_MODELS": "1", "OPENBLAS_NUM_THREADS": "1"}
    failed = []
    for name, command in checks.items():
        report.step(f"Check: {name}")
        if _call([str(venv_python()), *command], environment) != 0:
            failed.append(name)
    print(f"\nFailed: {', '.join(failed)}." if failed else "\nAll checks passed.", flush=True)
    return 1 if failed else 0


def _models_folder() -> Path:
    """The app's own models folder, as the app names it."""
    code = "from app.paths import AppPaths; print(AppPaths.default().models)"
    done = subprocess.run([str(venv_python()), "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode != 0:
        raise SetupError(
            f"The installation in {VENV.name} is damaged: delete that folder and run this command again."
        )
    return Path(done.stdout.strip())


def _has_display() -> bool:
    if not sys.platform.startswith("linux"):
        return True
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"))


def _call(command: list[str], environment: dict[str, str] | None = None) -> int:
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
