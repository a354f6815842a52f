"""A process that streams an answer for ever, for a test that kills it; its argument is the home folder.

Prints what the disk has of the answer, whenever that is more.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

from PySide6.QtCore import QCoreApplication, QTimer

from app.context import AppContext
from app.paths import AppPaths
from tests.app.fake_engine import FakeEngine


def main() -> None:
    application = QCoreApplication(sys.argv[:1])
    engines: list[FakeEngine] = []

    def make_engine(on_event: object) -> FakeEngine:
        engines.append(FakeEngine(on_event))  # type: ignore[arg-type]
        return engines[0]

    context = AppContext(AppPaths.below(Path(sys.argv[1])), make_engine)

    def stream() -> None:
        while not engines[0].requests:
            time.sleep(0.001)
        for number in range(1_000_000):
            engines[0].say(engines[0].requests[0].request_id, f"{number} ")
            time.sleep(0.01)

    printed = [""]

    def look() -> None:
        stored = "".join(each.content for each in context.store.read_messages(context.controller.current_id)[1:])
        if stored != printed[-1]:
            printed.append(stored)
            print(stored, flush=True)

    timer = QTimer()
    timer.timeout.connect(look)
    timer.start(20)
    context.controller.model_loaded.connect(lambda _info: context.controller.send("Count"))
    threading.Thread(target=stream, daemon=True).start()
    context.start(Path("model.gguf"))
    application.exec()


if __name__ == "__main__":
    main()
