from __future__ import annotations

import os
import subprocess
import sys
from types import ModuleType

import pytest

from app.qt_features import read_no_sources

_LOOK = """
import linecache, sys
from pathlib import Path
from app.__main__ import prepare
from app.paths import AppPaths
prepare(AppPaths.below(Path(sys.argv[1])))
import wave
from PySide6.QtCore import QObject, Signal
from app.throttle import Throttle
class Said(QObject):
    heard = Signal(str)
said, heard = Said(), []
said.heard.connect(heard.append)
said.heard.emit("a word")
print([name for name in linecache.cache if name.endswith(("wave.py", "throttle.py"))], heard)
"""


def test_a_start_reads_no_source_of_what_it_imports(tmp_path: object) -> None:
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    command = [sys.executable, "-c", _LOOK, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "[] ['a word']\n"


def test_a_pyside_that_asks_otherwise_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    other = ModuleType("shibokensupport.feature")
    monkeypatch.setitem(sys.modules, "shibokensupport.feature", other)
    read_no_sources()
    assert not hasattr(other, "_mod_uses_pyside")
    monkeypatch.setitem(sys.modules, "shibokensupport.feature", None)
    read_no_sources()
