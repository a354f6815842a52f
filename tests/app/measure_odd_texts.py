"""What odd answers cost the window: ``python -m tests.app.measure_odd_texts [NAME ...]``.

Prints for each text the most that the GUI thread computed in one turn of its event loop, in milliseconds of its own
processor time: while the text streams in, when the answer ends, and when a chat with it is opened.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QTimer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.garbage import GarbageTurns
from engine.protocol import Role
from tests.app.fake_controller import FakeController
from tests.app.take_screenshots import make_window
from tests.app.watchdog import Watchdog

TEXTS = {
    "dashes": "- a\n" * 3000,
    "nested lists": "".join("  " * (number % 40) + "- a\n" for number in range(1500)),
    "nested quotes": "".join(">" * (number % 60 + 1) + " a\n" for number in range(600)),
    "deep quote": ">" * 3000 + " a",
    "brackets": "[" * 6000,
    "links": "[a](" * 1500,
    "table": "| a | b | c |\n|---|---|---|\n" + "| 1 | two | three |\n" * 5000,
    "wide table": "|" + "a|" * 190 + "\n|" + "-|" * 190 + "\n" + ("|" + "b|" * 190 + "\n") * 60,
    "60 columns": "|" + "name|" * 60 + "\n|" + "-|" * 60 + "\n" + ("|" + "cell|" * 60 + "\n") * 60,
    "one line": "x" * 200_000,
    "backticks": "`" * 10_000,
    "formulas": "$x^2$ " * 600,
    "dollars": "$a " * 3000,
    "stars": "*a " * 4000,
    "angles": "<" * 10_000,
    "star line": "*" * 11_000 + "a" + "*" * 11_000,
    "lines in cells": "| a | b |\n|--|--|\n" + ("| " + "_" * 6000 + "a |\n") * 3,
    "one item": "- a\n" + "  word word\n" * 1800,
    "entities": "&#" * 6000,
    "notes": "[a]: /x\n" * 2500,
    "long fence": "```py\n" + "code `line`\n" * 2000,
    "fences": "```\na\n```\n" * 500,
}
PIECE = 100  # characters in each turn: eight times what 200 tokens a second bring
MAX_STREAMED = 24_000


def _most_ms(do: object, seconds: float) -> float:
    """The most that the thread computed in one turn after ``do``."""
    assert callable(do)
    watchdog = Watchdog(1)
    QTest.qWait(5)
    watchdog.works_ms.clear()
    QTimer.singleShot(0, do)
    QTest.qWait(round(seconds * 1000))
    return max(watchdog.works_ms)


def _stream_ms(fake: FakeController, message_id: str, text: str) -> float:
    watchdog = Watchdog(1)
    QTest.qWait(5)
    watchdog.works_ms.clear()
    ends = time.monotonic() + 20
    for start in range(0, min(len(text), MAX_STREAMED), PIECE):
        num_turns = len(watchdog.works_ms)
        fake.push(message_id, text[start : start + PIECE])
        QTest.qWait(2)
        while len(watchdog.works_ms) == num_turns:  # pieces come in turns of their own, as an engine's do
            QTest.qWait(1)
        if time.monotonic() > ends:
            break
    return max(watchdog.works_ms)


def main() -> int:
    """Measure the texts that are named, or all; returns the exit status."""
    parser = argparse.ArgumentParser(prog="measure_odd_texts", description="What odd answers cost the window.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(TEXTS))
    names = parser.parse_args().names or list(TEXTS)
    application = QApplication(sys.argv[:1])
    window, fake = make_window("light", 1.0)
    fake.open_conversation(fake.current_id)
    QTest.qWait(500)
    gc.freeze()  # as the app does once it stands
    garbage = GarbageTurns(lambda: False)
    print(f"{'text':16}{'streams':>9}{'ends':>9}{'opens':>9}   ms")
    for name in names:
        text = TEXTS[name]
        fake.new_conversation()
        fake.add(Role.USER, "Write something odd.")
        message_id = fake.begin_answer()
        streams = _stream_ms(fake, message_id, text)
        ends = _most_ms(lambda message_id=message_id: fake.end_answer(message_id), 0.3)
        fake.new_conversation()
        fake.blockSignals(True)
        fake.add(Role.ASSISTANT, text)
        fake.blockSignals(False)
        opens = _most_ms(lambda: fake.open_conversation(fake.current_id), 1.5)
        print(f"{name:16}{streams:9.0f}{ends:9.0f}{opens:9.0f}", flush=True)
    garbage.close()
    window.close()
    application.processEvents()
    return 0


if __name__ == "__main__":
    sys.exit(main())
