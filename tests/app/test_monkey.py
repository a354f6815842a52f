from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication, QFileDialog

from app.widgets.use_dialog import AskDialog
from tests.app import monkey

DIALOGS = (
    (QFileDialog, ("getExistingDirectory", "getOpenFileName", "getOpenFileNames", "getSaveFileName")),
    (AskDialog, ("ask",)),
)


@pytest.mark.qt_log_ignore("This plugin does not support")  # of the offscreen platform, about menus
def test_random_actions_break_nothing(qapp: QApplication, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, names in DIALOGS:
        for name in names:
            monkeypatch.setattr(kind, name, getattr(kind, name))  # so that they are put back
    monkey.tame_dialogs()
    done = monkey.run(tmp_path, 150, seed=7)
    assert len(done.counts) == 18
