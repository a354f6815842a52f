"""A start of the whole app as a person sees it: ``python -m tests.app.start_process HOME``.

Prints as JSON, in milliseconds: when the window was painted and when the last chat stood in it, from the process's
start and as work of the process's own; and the longest pause of the GUI thread while the engine and the rest are
imported and made after that.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

SETTLED_MS = 500  # for what follows the imports: the models are looked for
_figures: dict[str, float] = {}


def _note(name: str) -> None:
    _figures[f"{name}_at"] = time.time()
    _figures[f"{name}_work_ms"] = round(time.process_time() * 1000)


def main() -> None:
    """Start, note, close."""
    from PySide6.QtCore import QTimer

    from app import application, context
    from app.paths import AppPaths

    def painted(then: object) -> None:
        _note("painted")
        then()  # type: ignore[operator]

    class TimedPaint(application.FirstPaint):
        """Notes when the window was painted."""

        def __init__(self, window: object, then: object) -> None:
            super().__init__(window, lambda: painted(then))  # type: ignore[arg-type]

    class TimedContext(context.AppContext):
        """Notes when the chat is there."""

        def start(self, model: Path | None = None) -> None:
            super().start(model)
            QTimer.singleShot(0, self._on_shown)

        def _on_shown(self) -> None:
            _note("chat")
            from tests.app.watchdog import Watchdog

            self._watchdog = Watchdog()
            self.when_complete(lambda: QTimer.singleShot(SETTLED_MS, self._on_settled))

        def _on_settled(self) -> None:
            import psutil
            from PySide6.QtWidgets import QApplication

            began = psutil.Process().create_time()
            for name in ("painted", "chat"):
                _figures[f"{name}_ms"] = round((_figures.pop(f"{name}_at") - began) * 1000)
            _figures["stall_ms"] = round(self._watchdog.longest_ms, 1)
            _figures["own_stall_ms"] = round(max(self._watchdog.works_ms), 1)
            print(json.dumps(_figures), flush=True)
            QApplication.quit()

    application.FirstPaint = TimedPaint  # type: ignore[misc]
    setattr(application, "AppContext", TimedContext)  # noqa: B010 - the name is the other module's import
    sys.exit(application.run(AppPaths.below(Path(sys.argv[1]))))


if __name__ == "__main__":
    main()
