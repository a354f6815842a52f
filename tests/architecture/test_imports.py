"""The architecture's promises that no linter states: what importing costs, and what may lie where."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOP_LEVEL = {
    "pyproject.toml",
    "app",
    "engine",
    "resources",
    "installers",
    "tests",
    "README.md",
    "LICENSE",
    "shared",
}


def test_the_engine_runs_without_qt() -> None:
    code = "import sys; sys.modules['PySide6'] = None; import engine, engine.protocol; print('fine')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.stdout.strip() == "fine", done.stderr


def test_the_top_level_is_fixed() -> None:
    done = subprocess.run(["git", "ls-files"], capture_output=True, text=True, cwd=ROOT, check=False)
    names = {line.split("/")[0] for line in done.stdout.splitlines()}
    assert {name for name in names if not name.startswith(".")} <= TOP_LEVEL


def test_no_source_file_outgrows_its_room() -> None:
    sources = [path for folder in ("app", "engine", "installers") for path in (ROOT / folder).rglob("*.py")]
    too_long = {
        str(path.relative_to(ROOT)): lines
        for path in sources
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > 450
    }
    assert too_long == {}
