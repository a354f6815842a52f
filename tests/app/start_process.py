"""A start of the whole app as a person sees it: ``python -m tests.app.start_process HOME BEGAN``.

``BEGAN`` is ``time.time()`` when the process was asked for.

Prints as JSON, in milliseconds: when the window was painted and when the last chat stood in it, from the process's
start and as work of the GUI thread, which no neighbour on the machine adds to; and the longest pause of that thread
from the first picture until all is imported and made, the messages out of sight, too, and the most that it computed
in one.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.window.main_window import MainWindow

SETTLED_MS = 500  # for what follows the imports: the models are looked for
_figures: dict[str, float] = {}
_keep: dict[str, Any] = {}


def _note(name: str) -> None:
    _figures[f"{name}_at"] = time.time()
    _figures[f"{name}_work_ms"] = round(time.thread_time() * 1000)
    _figures[f"{name}_mb"] = _peak_mb()


def _peak_mb() -> float:
    """The most memory that the process has held so far; 0 where the system does not say."""
    try:  # not getrusage, which also tells what the process was before it became this program
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0.0
    return next(round(int(line.split()[1]) * 1024 / 1e6) for line in lines if line.startswith("VmHWM:"))


def main() -> None:
    """Start, note, close."""
    from app.__main__ import prepare
    from app.paths import AppPaths

    paths = AppPaths.below(Path(sys.argv[1]))
    began = float(sys.argv[2])
    prepare(paths)
    from PySide6.QtCore import QTimer
    from PySide6.QtWidgets import QApplication

    from app import application, context
    from tests.app.watchdog import Watchdog

    class TimedPaint(application.FirstPaint):
        """Notes when the window was painted, and when the chat stands in it."""

        def __init__(self, window: MainWindow, then: Callable[[], None]) -> None:
            super().__init__(window, lambda: self._painted(window, then))

        def _painted(self, window: MainWindow, then: Callable[[], None]) -> None:
            _note("painted")
            _keep["watchdog"] = Watchdog()
            _keep["timer"] = timer = QTimer()
            _keep["transcript"] = transcript = window.chat_page.transcript
            is_shown = "chat_at"

            def look() -> None:
                if is_shown not in _figures and _keep.get("context") and not transcript.has_room:
                    _note("chat")
                    timer.stop()

            timer.timeout.connect(look)
            timer.start(1)
            then()

    class TimedContext(context.AppContext):
        """Says when all is there, and ends."""

        def open(self, model: Path | None = None) -> None:
            super().open(model)
            _keep["context"] = self
            self.when_complete(lambda: QTimer.singleShot(SETTLED_MS, self._on_settled))

        def _on_settled(self) -> None:
            if _keep["transcript"]._grow.isActive():
                QTimer.singleShot(50, self._on_settled)
                return
            for name in ("painted", "chat"):
                _figures[f"{name}_ms"] = round((_figures.pop(f"{name}_at") - began) * 1000)
            _figures["stall_ms"] = round(_keep["watchdog"].longest_ms, 1)
            _figures["own_stall_ms"] = round(max(_keep["watchdog"].works_ms), 1)
            _figures["peak_mb"] = _peak_mb()
            print(json.dumps(_figures), flush=True)
            QApplication.quit()

    application.FirstPaint = TimedPaint  # type: ignore[assignment,misc]
    setattr(application, "AppContext", TimedContext)  # noqa: B010 - the name is the other module's import
    sys.exit(application.run(paths))


if __name__ == "__main__":
    main()
