"""The checkout's own virtual environment: made once, filled with the tested versions, checked on each run.

A stamp beside it holds a hash of what was asked for, so a finished set-up is recognised in milliseconds and an
interrupted one goes on: pip keeps what it has downloaded.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

from source_report import Report, SetupError

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
CONSTRAINTS = ROOT / "installers" / "constraints.txt"
OLDEST_PYTHON = (3, 11)
NETWORK_SIGNS = (
    "failed to establish a new connection",
    "name resolution",
    "name or service not known",
    "connection refused",
    "network is unreachable",
    "timed out",
    "max retries exceeded",
    "no matching distribution found",
    "connection broken",
    "connection aborted",
)


def venv_python() -> Path:
    """The interpreter of the virtual environment."""
    return VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def pip_command() -> list[str]:
    """A pip that acts on the virtual environment: its own, else that of the interpreter which runs this script.

    Debian ships Python without ensurepip, so an environment of its own may have no pip. Raises SetupError when
    there is none at all.
    """
    own = subprocess.run([str(venv_python()), "-m", "pip", "--version"], capture_output=True, check=False)
    if own.returncode == 0:
        return [str(venv_python()), "-m", "pip"]
    outer = subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False)
    if outer.returncode == 0:
        return [sys.executable, "-m", "pip", "--python", str(venv_python())]
    raise SetupError(
        "pip is missing: install it (on Debian: apt-get install python3-pip) and run this command again."
    )


def prepare_environment(report: Report, extras: tuple[str, ...]) -> None:
    """Make the environment and install the project with ``extras``; at once when it is done already.

    Raises SetupError when Python is too old, pip is missing, or the packages cannot be had.
    """
    if sys.version_info < OLDEST_PYTHON:
        raise SetupError(
            f"Python {OLDEST_PYTHON[0]}.{OLDEST_PYTHON[1]} or newer is needed and this is "
            f"{sys.version_info.major}.{sys.version_info.minor}: run the command with a newer python3."
        )
    report.step("Preparing the Python environment")
    _make_venv(report)
    report.step("Installing the packages")
    stamp = VENV / "fireside-installed"
    wanted = _fingerprint(extras)
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        report.line("already there")
        return
    stamp.unlink(missing_ok=True)
    _install(report, extras)
    stamp.write_text(wanted, encoding="utf-8")


def _make_venv(report: Report) -> None:
    if _is_venv_usable():
        report.line("already there")
        return
    if VENV.exists():
        report.line("an unfinished or foreign environment is replaced")
        shutil.rmtree(VENV)
    has_ensurepip = importlib.util.find_spec("ensurepip") is not None
    command = [sys.executable, "-m", "venv", *([] if has_ensurepip else ["--without-pip"]), str(VENV)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        shutil.rmtree(VENV, ignore_errors=True)
        reason = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["unknown reason"]
        raise SetupError(
            f"The environment {VENV.name} could not be made ({reason[0]}): make sure that the venv module is "
            "installed (on Debian: apt-get install python3-venv) and that the folder can be written to."
        )


def _is_venv_usable() -> bool:
    """True when the environment runs, and runs the same Python version as this script."""
    if not venv_python().exists():
        return False
    probe = "import sys; print(sys.version_info[:2] == tuple(map(int, sys.argv[1:])))"
    version = [str(part) for part in sys.version_info[:2]]
    done = subprocess.run([str(venv_python()), "-c", probe, *version], capture_output=True, text=True, check=False)
    return done.stdout.strip() == "True"


def _fingerprint(extras: tuple[str, ...]) -> str:
    digest = hashlib.sha256(sys.version.encode())
    digest.update(str(ROOT).encode("utf-8", "surrogateescape"))
    for path in (ROOT / "pyproject.toml", CONSTRAINTS):
        digest.update(path.read_bytes())
    digest.update(",".join(extras).encode())
    return digest.hexdigest()


def _install(report: Report, extras: tuple[str, ...]) -> None:
    target = str(ROOT) + (f"[{','.join(extras)}]" if extras else "")
    command = [*pip_command(), "install", "--disable-pip-version-check", "--no-input", "-c", str(CONSTRAINTS)]
    # The build environment obeys constraints only through the variable.
    environment = {**os.environ, "PIP_CONSTRAINT": str(CONSTRAINTS), "PIP_ROOT_USER_ACTION": "ignore"}
    run_pip([*command, "-e", target], report, environment)


def run_pip(command: list[str], report: Report, environment: dict[str, str] | None = None) -> None:
    """Run a pip command, showing what it fetches. Raises SetupError in one sentence when it fails."""
    tail: list[str] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8", errors="replace",
        env=environment,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        for line in process.stdout:
            tail = [*tail[-40:], line.rstrip()]
            if line.startswith(("Collecting", "Successfully")) or "Downloading" in line:
                report.line(line.strip()[:100])
    if process.returncode == 0:
        return
    text = "\n".join(tail)
    if "No space left" in text:
        raise SetupError("The disk is full: free about 2 GB and run this command again; what is there is kept.")
    if any(sign in text.lower() for sign in NETWORK_SIGNS):
        raise SetupError(
            "The packages could not be downloaded: check that this machine reaches the network (or its package "
            "mirror) and run this command again; it goes on where it stopped."
        )
    errors = [line for line in tail if line.lower().startswith("error")] or tail[-1:] or ["no output"]
    raise SetupError(f"The packages could not be installed: {errors[-1].strip()}")
