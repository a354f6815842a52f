"""What the GUI thread computes for an answer: ``python -m tests.app.measure_answer [KIND ...]``.

A fake engine says answers of several kinds at a given rate, as an engine would that uses all cores, so that the
figures are the window's alone. Prints for each kind the processor time of the GUI thread: from sending until the
first piece comes, for a picture in the middle of all and for how many, from the end until nothing follows any more,
and of all that for a token.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from PySide6.QtCore import QEventLoop, QTimer
from PySide6.QtWidgets import QApplication

from app.paths import AppPaths
from engine.protocol import Channel, ModelLoaded
from tests.app.fake_engine import model_info
from tests.app.measure import App, fill, wait_for

_QUESTION = "Explain step by step, with a list and an example in Python, how a sorting algorithm works."
_WORDS = (
    "The sorting of a list looks at two **neighbours** at a time and swaps them where the *first* one is larger "
    "than the second, again and again, until `nothing` is left to do. "
)
_CODE = "".join(f"    value_{number} = compute(items[{number}], other)  # step {number}\n" for number in range(300))
_ROWS = "".join(f"| Item {number} | {17 * number} | a short remark about it |\n" for number in range(100))
KINDS = {
    "prose": "\n\n".join([2 * _WORDS] * 40),
    "code": "Here:\n\n```python\n" + _CODE,
    "table": "| Name | Size | Remark |\n|---|---|---|\n" + _ROWS,
    "list": "\n".join(f"- **Item {number}**: one of the things to do" for number in range(400)),
    "reasoning": "\n\n".join([2 * _WORDS] * 40),
}


@dataclass(frozen=True)
class AnswerWork:
    """What the GUI thread computed for one answer, in milliseconds of its processor time."""

    begin_ms: float
    picture_ms: float  # in the middle of all
    num_pictures: int
    end_ms: float
    token_ms: float


def answer_work(app: App, kind: str, num_tokens: int, rate: float) -> AnswerWork:
    """Let an answer of ``num_tokens`` come, ``rate`` of them a second."""
    controller, moments = app.context.controller, list[float]()
    tokens = re.findall(r"\s?[^\W\d_]{1,6}|\d|\s+|[^\w\s]{1,2}|_", KINDS[kind])[:num_tokens]
    channel = Channel.REASONING if kind == "reasoning" else Channel.ANSWER
    controller.new_conversation()
    _rest(400)
    sent_s = time.thread_time()
    assert controller.send(_QUESTION)
    _rest(150)
    begun_s = time.thread_time()

    def note(*_delta: str) -> None:
        moments.append(time.thread_time())

    controller.delta.connect(note)
    request_id = app.engine.requests[-1].request_id
    loop = QEventLoop()

    def say() -> None:
        began = time.perf_counter()
        for number, token in enumerate(tokens):
            time.sleep(max(0.0, began + number / rate - time.perf_counter()))
            app.engine.say(request_id, token, channel)
        time.sleep(0.15)
        app.engine.finish(request_id)

    controller.generation_finished.connect(loop.quit)
    threading.Thread(target=say).start()
    loop.exec()
    ended_s = time.thread_time()
    _rest(300)
    controller.generation_finished.disconnect(loop.quit)
    controller.delta.disconnect(note)
    over_s = time.thread_time()
    pictures = [after - before for before, after in pairwise(moments)]
    return AnswerWork(
        (begun_s - sent_s) * 1000,
        statistics.median(pictures) * 1000,
        len(moments),
        (over_s - ended_s) * 1000,
        (over_s - sent_s) * 1000 / len(tokens),
    )


def _rest(milliseconds: int) -> None:
    """Let Qt work for a while, without looking at anything, which would be work of its own."""
    loop = QEventLoop()
    QTimer.singleShot(milliseconds, loop.quit)
    loop.exec()


def main() -> int:
    """Measure and print; returns the exit status."""
    parser = argparse.ArgumentParser(prog="measure_answer", description="What an answer costs the GUI thread.")
    parser.add_argument("kinds", nargs="*", default=list(KINDS), help=", ".join(KINDS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--rate", type=float, default=110.0, help="tokens a second")
    options = parser.parse_args()
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    application = QApplication(sys.argv[:1])
    with tempfile.TemporaryDirectory(prefix="fireside-measure-") as folder:
        fill(AppPaths.below(Path(folder)).database, num_chats=30, num_messages=4, num_long=60)
        app = App(Path(folder))
        wait_for(lambda: app.context.is_complete)
        busy = replace(model_info(Path("model.gguf")), num_threads=os.cpu_count() or 1)
        app.engine.on_event(ModelLoaded(busy, 1.0))
        answer_work(app, "prose", 60, options.rate)  # to warm up
        for kind in options.kinds:
            works = [answer_work(app, kind, options.tokens, options.rate) for _ in range(options.rounds)]
            begin, picture, end, token = (
                statistics.median(getattr(work, name) for work in works)
                for name in ("begin_ms", "picture_ms", "end_ms", "token_ms")
            )
            print(
                f"{kind:9} begin {begin:5.1f} ms, {works[-1].num_pictures} pictures of {picture:5.2f} ms, "
                f"end {end:5.1f} ms; {token:5.3f} ms a token",
                flush=True,
            )
        app.close()
        application.processEvents()
    return 0


if __name__ == "__main__":
    sys.exit(main())
