"""What a press of Tab costs in a long chat: ``python -m tests.app.measure_tab``.

Prints what the GUI thread computes, in milliseconds of its own processor time, from the press until the focus has
moved: for the first press, when nothing is known of the messages, and at most for those that follow.
"""

from __future__ import annotations

import os
import sys
import time

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from engine.protocol import Role
from tests.app.measure import wait_for
from tests.app.take_screenshots import make_window

NUM_TURNS, NUM_CARDS, NUM_PRESSES = 47, 6, 60


def main() -> int:
    """Measure and print; returns the exit status."""
    application = QApplication(sys.argv[:1])
    window, fake = make_window("light", 1.0)
    fake.new_conversation()
    fake.blockSignals(True)
    for turn in range(NUM_TURNS):
        fake.add(Role.USER, f"Question {turn}?")
        fake.add(Role.ASSISTANT, "".join(f"```py\nx = {card}\n```\n\nand\n\n" for card in range(NUM_CARDS)))
    fake.blockSignals(False)
    fake.open_conversation(fake.current_id)
    transcript = window.chat_page.transcript
    transcript._num_wanted = 2 * NUM_TURNS
    wait_for(lambda: len(transcript.widgets) == 2 * NUM_TURNS)
    window.activateWindow()
    transcript.widgets[NUM_TURNS].setFocus()
    pressed_ms = []
    for _ in range(NUM_PRESSES):
        began = time.thread_time()
        window.focusNextPrevChild(True)
        pressed_ms.append((time.thread_time() - began) * 1000)
        QTest.qWait(2)
    print(f"tab       {pressed_ms[0]:7.1f} ms  for the first press among {len(transcript.widgets)} messages (< 10)")
    print(f"          {max(pressed_ms[1:]):7.1f} ms  at most for the {NUM_PRESSES - 1} that follow (< 10)")
    window.close()
    application.processEvents()
    return 0


if __name__ == "__main__":
    sys.exit(main())
