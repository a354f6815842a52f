"""What the window costs the engine: ``python -m tests.app.measure_stream MODEL``.

The same answer is generated in turns with nobody but a counter listening, and in the window, where it is streamed
into the transcript. Prints the tokens a second of both, as the engine measured them, and the processor time that
the GUI thread took for a token, in all and between the first piece and the last, which the engine feels.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from PySide6.QtCore import QEventLoop
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.context import AppContext
from app.engine_client import RequestEvent
from app.paths import AppPaths
from app.storage.records import new_id
from app.theme import Theme
from app.window.main_window import MainWindow
from engine import EngineConfig, EngineThread
from engine.protocol import GenerateRequest, Message, RequestFinished, Role, SamplingParams
from tests.app.measure import wait_for

_QUESTION = "Explain step by step, with a list and an example in Python, how a sorting algorithm works."


class Stream:
    """An app with a real engine that answers one question again and again, in the window or to a counter."""

    def __init__(self, home: Path, model: Path, num_tokens: int) -> None:
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        self._num_tokens = num_tokens
        self.context = AppContext(AppPaths.below(home), lambda on_event: EngineThread(on_event, EngineConfig()))
        settings = self.context.settings
        for key, value in (("max_tokens", num_tokens), ("temperature", 0.0), ("seed", 7)):
            settings.set(key, value)
        self.window = MainWindow(self.context.controller, settings, Theme(application, settings))
        self.window.resize(1280, 820)
        self.window.show()
        self._finished: list[RequestFinished] = []
        self._began_s = self._work_s = 0.0
        self._moments: list[float] = []  # of the pieces that were shown, in processor time
        self.context.controller.delta.connect(lambda *_delta: self._moments.append(time.thread_time()))
        self.context.client.request_finished.connect(self._finished.append)
        self.context.start(model)
        wait_for(lambda: self.context.controller.model_info is not None and self.context.is_complete, 120)

    def in_window(self) -> RequestFinished:
        """Send the question in a chat that is open."""
        self.context.controller.new_conversation()
        self._began_s = time.thread_time()
        assert self.context.controller.send(_QUESTION)
        return self._next()

    def alone(self) -> RequestFinished:
        """Ask the engine, and let nothing be shown."""

        def ignore(_event: RequestEvent) -> None:
            pass

        self.context.controller.new_conversation()
        self._began_s = time.thread_time()
        request = GenerateRequest(
            new_id(),
            (Message(Role.USER, _QUESTION),),
            sampling=SamplingParams(temperature=0.0, seed=7),
            max_tokens=self._num_tokens,
        )
        self.context.client.generate(request, ignore)
        return self._next()

    @property
    def work_ms(self) -> float:
        """What the GUI thread computed for the last answer."""
        return self._work_s * 1000

    @property
    def pieces_ms(self) -> float:
        """What of it lies between the first and the last piece."""
        return (self._moments[-1] - self._moments[0]) * 1000

    def _next(self) -> RequestFinished:
        self._finished.clear()
        self._moments.clear()
        loop = QEventLoop()  # not a wait that looks again and again, which would be work of its own
        self.context.client.request_finished.connect(loop.quit)
        loop.exec()
        self._work_s = time.thread_time() - self._began_s
        self.context.client.request_finished.disconnect(loop.quit)
        QTest.qWait(300)  # what follows an answer is over
        return self._finished[0]


def main() -> int:
    """Measure and print; returns the exit status."""
    parser = argparse.ArgumentParser(prog="measure_stream", description="What the window costs the engine.")
    parser.add_argument("model", type=Path)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=200)
    options = parser.parse_args()
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    application = QApplication(sys.argv[:1])
    with tempfile.TemporaryDirectory(prefix="fireside-measure-") as folder:
        stream = Stream(Path(folder), options.model, options.tokens)
        stream.in_window(), stream.alone()  # both once to warm up
        alone, shown, works, pieces = [], [], [], []
        for _ in range(options.rounds):
            alone.append(stream.alone().stats.tokens_per_second)
            stats = stream.in_window().stats
            works.append(stream.work_ms / stats.num_completion_tokens)
            pieces.append(stream.pieces_ms / stats.num_completion_tokens)
            shown.append(stats.tokens_per_second)
        costs = sorted(1 - seen / free for seen, free in zip(shown, alone))
        print(f"alone     {statistics.median(alone):7.1f} tokens/s")
        print(f"shown     {statistics.median(shown):7.1f} tokens/s while the answer is streamed into the window")
        middle, least, most = statistics.median(costs), costs[0], costs[-1]
        print(f"cost      {middle:7.1%}  in the middle of {len(costs)} rounds, {least:.1%} to {most:.1%} (< 3 %)")
        print(f"work      {statistics.median(works):7.2f} ms  of the GUI thread for a token, from the question on")
        print(f"pieces    {statistics.median(pieces):7.2f} ms  of it between the first piece and the last")
        stream.window.close()
        stream.context.close()
        application.processEvents()
    return 0


if __name__ == "__main__":
    sys.exit(main())
