from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_START = """
import builtins, sys
from pathlib import Path
from app.qt_bytecode import kept_bytecode

sys.dont_write_bytecode = sys.argv[2] == "none"
anew = builtins.compile
names = []

def counting(source, name, *arguments, **named):
    names.append(str(name))
    return anew(source, name, *arguments, **named)

builtins.compile = counting
with kept_bytecode(Path(sys.argv[1])):
    from PySide6.QtCore import QObject
assert builtins.compile is counting
print(sum(name.startswith("shibokensupport/") for name in names), QObject.__name__)
"""


def _start(folder: Path, writes: str = "bytecode") -> int:
    """How many of PySide's own sources a start compiles."""
    result = subprocess.run(
        [sys.executable, "-c", _START, str(folder), writes],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        text=True,
        capture_output=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    count, name = result.stdout.split()
    assert name == "QObject"
    return int(count)


def test_the_second_start_compiles_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    assert _start(folder, "none") > 5
    assert not folder.exists(), "not where Python shall write none"
    assert _start(folder) > 5
    assert len(list(folder.iterdir())) == 1
    assert _start(folder) == 0


@pytest.mark.parametrize("damage", [b"", b"nonsense", b"N"], ids=["empty", "nonsense", "another thing"])
def test_damaged_bytecode_is_made_again(tmp_path: Path, damage: bytes) -> None:
    _start(tmp_path)
    (kept,) = tmp_path.iterdir()
    kept.write_bytes(damage)
    assert _start(tmp_path) > 5
    assert _start(tmp_path) == 0


def test_a_folder_that_cannot_be_written_holds_nobody_up(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert _start(tmp_path / "file" / "cache") > 5
