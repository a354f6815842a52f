"""An empty window of Qt as a measure of the machine: ``python -m tests.app.bare_process BEGAN``.

Prints as JSON in how many milliseconds after ``BEGAN``, a ``time.time()``, it was painted, and what its thread
computed until then: what no program with PySide can be quicker than on this machine, except by keeping the bytecode
of PySide's own sources.
"""

from __future__ import annotations

import json
import sys
import time

from PySide6.QtCore import QTimer
from PySide6.QtGui import QPaintEvent
from PySide6.QtWidgets import QApplication, QWidget


class _Empty(QWidget):
    def paintEvent(self, _event: QPaintEvent) -> None:
        QTimer.singleShot(0, self._on_painted)

    def _on_painted(self) -> None:
        painted_ms = round((time.time() - float(sys.argv[1])) * 1000)
        print(
            json.dumps({"painted_ms": painted_ms, "painted_work_ms": round(time.thread_time() * 1000)}), flush=True
        )
        QApplication.quit()


if __name__ == "__main__":
    application = QApplication(sys.argv[:1])
    window = _Empty()
    window.resize(1280, 820)
    window.show()
    sys.exit(application.exec())
