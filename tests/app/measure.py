"""Figures of the window: ``python -m tests.app.measure``. One line each, with the figure to reach.

search      in 20,000 messages, the slower half of several words
open        a chat of 2,000 messages, until it is painted
frame       what the GUI thread computes for a picture, and all before it, while a chat of 500 messages grows
stall       the longest time without a turn of the event loop while a fake engine streams 200 tokens/s and
            every core is busy
paint       from the process's start to the window's first picture, and what its thread computed until then, beside
            those of an empty window of Qt
chat        from the process's start until the last chat, of 60 messages, fills its place in the window
start stall the longest time without a turn of the event loop from the first picture until all is imported, and the
            most that the thread computed in one turn
close       from the wish to the end of the process's work
look        until another theme or text size is on the screen, at the end of that chat and in its middle
chats       what the GUI thread computes for an action beside 5,000 chats in 300 folders, more than beside 12
memory      what the process holds at most with that chat open, models and KV cache apart
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractSlider, QApplication

from app.chat.alive_messages import ALIVE_AT_REST
from app.context import AppContext
from app.paths import AppPaths
from app.storage.conversations import save_conversation, save_message
from app.storage.database import open_database
from app.storage.folders import save_folder
from app.storage.records import ConversationRecord, FolderRecord, MessageRecord
from app.storage.search import find_conversations
from app.theme import Theme
from app.window.main_window import MainWindow
from engine.bench.processes import with_bytecode
from engine.protocol import Role
from tests.app.fake_engine import FakeEngine
from tests.app.watchdog import FrameWatch

NUM_CHATS, NUM_LONG = 180, 2000
NUM_MANY, NUM_FOLDERS = 5000, 300
WORDS = ("kettle", "the", "log", "needle in a haystack", "日本", "京都の", "zq", "Straße")
TOKENS_PER_S = 200
_TEXT = (
    "A kettle on the stove, the log of the day, and a short list:\n\n- one\n- two\n\n"
    "```python\nprint('kettle')\n```\n\n"
    "日本語の文章もある。京都の冬は寒い。"
)


def fill(
    path: Path, num_chats: int = NUM_CHATS, num_messages: int = 100, num_long: int = NUM_LONG, num_middling: int = 0
) -> None:
    """Write ``num_chats`` chats of ``num_messages`` each, one of ``num_long``, "long", and "middling"."""
    connection = open_database(path).connect()
    connection.execute("BEGIN")
    sizes = {f"chat{number}": num_messages for number in range(num_chats)} | {"long": num_long}
    if num_middling:
        sizes["middling"] = num_middling
    for number, (chat_id, size) in enumerate(sizes.items()):
        last = f"{chat_id}-{size - 1}"
        save_conversation(
            connection, ConversationRecord(chat_id, f"Chat {number}", 1.0, number, active_leaf_id=last)
        )
        for index in range(size):
            parent = f"{chat_id}-{index - 1}" if index else None
            role = Role.ASSISTANT if index % 2 else Role.USER
            text = f"{_TEXT}\n\nNumber {index} of {chat_id}" + (" needle in a haystack" if index == 77 else "")
            save_message(
                connection, MessageRecord(f"{chat_id}-{index}", chat_id, parent, role, text, created_at=1.0)
            )
    connection.execute("COMMIT")
    connection.close()


def fill_many(path: Path, num_chats: int = NUM_MANY, num_folders: int = NUM_FOLDERS) -> None:
    """Write chats of one message, one an hour until now, half of them in folders."""
    connection = open_database(path).connect()
    connection.execute("BEGIN")
    for number in range(num_folders):
        save_folder(connection, FolderRecord(f"folder{number}", f"Folder {number}", 1.0))
    for number in range(num_chats):
        chat_id, place = f"chat{number}", number % (2 * num_folders)
        moment, folder_id = time.time() - 3600.0 * number, f"folder{place}" if place < num_folders else None
        record = ConversationRecord(chat_id, f"Chat {number}", moment, moment, folder_id=folder_id)
        save_conversation(connection, replace(record, active_leaf_id=f"{chat_id}-0"))
        save_message(connection, MessageRecord(f"{chat_id}-0", chat_id, None, Role.USER, "A kettle"))
    connection.execute("COMMIT")
    connection.close()


def many_chats_ms(app: App, num_chats: int) -> Iterator[tuple[str, float]]:
    """What single actions cost the GUI thread until they are painted, in milliseconds of its processor time."""
    controller, old, older = app.context.controller, f"chat{num_chats // 2}", f"chat{num_chats - 2}"
    controller.open_conversation(old)
    actions: dict[str, Callable[[], object]] = {
        "renaming": lambda: controller.rename_conversation(old, "Another title"),
        "deleting": lambda: controller.delete_conversations([older]),
        "undoing": controller.undo_deletion,
        "moving": lambda: controller.move_conversations([old], "folder0"),
        "sending": lambda: controller.send("A kettle"),
    }
    for name, action in actions.items():
        QTest.qWait(300)
        began = time.thread_time()
        action()
        QApplication.processEvents()
        yield name, (time.thread_time() - began) * 1000


def print_many(home: Path) -> None:
    """What actions cost beside thousands of chats, and beside a few, where the same is painted."""
    seen: dict[str, list[float]] = {}
    for num_chats, num_folders in ((12, 1), (NUM_MANY, NUM_FOLDERS)):
        place = home / str(num_chats)
        fill_many(AppPaths.below(place).database, num_chats, num_folders)
        app = App(place)
        for action, taken in many_chats_ms(app, num_chats):
            seen.setdefault(action, []).append(taken)
        app.close()
    for action, (few, many) in seen.items():
        print(
            f"chats     {many - few:7.1f} ms  more for {action} beside {NUM_MANY} chats ({many:.1f}) than 12 (< 20)"
        )


def search_ms(path: Path) -> dict[str, float]:
    """The median time of a search for each word, in milliseconds."""
    connection = open_database(path).connect()
    figures = {}
    for word in WORDS:
        times = []
        for _ in range(7):
            began = time.perf_counter()
            for part in word.split():
                find_conversations(connection, part)
            times.append((time.perf_counter() - began) * 1000)
        figures[word] = sorted(times)[3]
    connection.close()
    return figures


@contextmanager
def busy_cores(num_threads: int) -> Iterator[None]:
    """Keep cores busy as the engine does: threads at lower priority that run without the interpreter's lock."""
    import hashlib

    is_over = threading.Event()
    data = bytes(8 << 20)

    def work() -> None:
        if hasattr(os, "setpriority"):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
        while not is_over.is_set():
            hashlib.sha256(data).digest()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(num_threads)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


class App:
    """An app below ``home`` with a fake engine, its window shown."""

    def __init__(self, home: Path) -> None:
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        self.engine: FakeEngine
        self.context = AppContext(AppPaths.below(home), self._make_engine)
        self.window = MainWindow(
            self.context.controller, self.context.settings, Theme(application, self.context.settings)
        )
        self.window.resize(1280, 820)
        self.window.show()
        self.context.start(Path("model.gguf"))
        wait_for(lambda: self.context.controller.model_info is not None)

    def _make_engine(self, on_event: object) -> FakeEngine:
        self.engine = FakeEngine(on_event)  # type: ignore[arg-type]
        return self.engine

    def close(self) -> float:
        """Close all; returns the milliseconds that it took."""
        began = time.perf_counter()
        self.window.close()
        self.context.close()
        took_ms = (time.perf_counter() - began) * 1000
        self.window.deleteLater()
        return took_ms


def wait_for(is_true: Callable[[], bool], timeout_s: float = 60.0) -> None:
    """Let Qt work until ``is_true``."""
    ends = time.monotonic() + timeout_s
    while not is_true():
        if time.monotonic() > ends:
            raise TimeoutError("it did not come true")
        QTest.qWait(5)


def open_ms(app: App) -> float:
    """Open the long chat; until its end is painted."""
    app.context.controller.new_conversation()
    QTest.qWait(300)
    began = time.perf_counter()
    app.context.controller.open_conversation("long")
    QApplication.processEvents()
    app.window.grab()
    return (time.perf_counter() - began) * 1000


def stall_ms(app: App, seconds: float, num_busy: int) -> FrameWatch:
    """Stream an answer of ``seconds`` at 200 tokens/s beside busy cores; returns what the watchdog saw.

    Where the cores have no time for so many tokens a second, it streams them all the same, for longer.
    """
    transcript = app.window.chat_page.transcript
    wait_for(lambda: len(transcript.widgets) >= ALIVE_AT_REST)  # it has grown upwards
    assert app.context.controller.send("Write a long answer")
    wait_for(lambda: bool(app.engine.requests))
    request_id = app.engine.requests[-1].request_id
    words = _TEXT.replace("\n", " \n ").split(" ")

    def stream() -> None:
        for number in range(int(seconds * TOKENS_PER_S)):
            app.engine.say(request_id, words[number % len(words)] + " ")
            time.sleep(1 / TOKENS_PER_S)

    with busy_cores(num_busy):
        QTest.qWait(200)
        watchdog = FrameWatch(app.window)
        thread = threading.Thread(target=stream)
        thread.start()
        while thread.is_alive():
            QTest.qWait(50)
    app.engine.finish(request_id)
    wait_for(lambda: not app.context.controller.generating_ids)
    return watchdog


def start_figures(home: Path) -> dict[str, float]:
    """Start the whole app below ``home`` in a process of its own; what ``start_process`` prints."""
    return dict(json.loads(_output_of("tests.app.start_process", str(home))))


def bare_figures() -> dict[str, float]:
    """What ``bare_process`` prints of an empty window of Qt, in a process of its own."""
    return dict(json.loads(_output_of("tests.app.bare_process")))


def _output_of(module: str, *arguments: str) -> str:
    command = [sys.executable, "-m", module, *arguments, str(time.time())]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=with_bytecode()).stdout


def looks_ms(app: App) -> Iterator[tuple[str, str, object, float]]:
    """Change the look at the end of the open chat, then in its middle; where, what, and how long it took."""
    transcript = app.window.chat_page.transcript
    for where in ("at the end", "in the middle"):
        for key, value in (("theme", "dark"), ("theme", "light"), ("zoom", 1.25), ("zoom", 1.0)):
            wait_for(lambda: len(transcript.widgets) >= ALIVE_AT_REST)
            if where == "in the middle":
                bar = transcript.verticalScrollBar()
                bar.triggerAction(QAbstractSlider.SliderAction.SliderToMinimum)
                QTest.qWait(500)
            began = time.perf_counter()
            app.context.settings.set(key, value)
            QApplication.processEvents()
            yield where, key, value, (time.perf_counter() - began) * 1000
    transcript.scroll_to_end()


def select_chat(home: Path, conversation_id: str) -> None:
    """Let the next start below ``home`` show a chat."""
    paths = AppPaths.below(home)
    paths.config.mkdir(parents=True, exist_ok=True)
    paths.settings_file.write_text(json.dumps({"last_conversation": conversation_id}), encoding="utf-8")


def print_start(home: Path, num_starts: int = 7) -> None:
    """Start again and again with 60 messages in the last chat, in turn with an empty window; medians and bests."""
    fill(AppPaths.below(home).database, num_chats=30, num_messages=20, num_long=60)
    select_chat(home, "long")
    start_figures(home)
    bare_figures()  # both once to warm up
    starts, bare = [], []
    for _ in range(num_starts):
        starts.append(start_figures(home))
        bare.append(bare_figures())
    seen, empty = _by_name(starts), _by_name(bare)
    ratio = statistics.median(seen["painted_work_ms"]) / statistics.median(empty["painted_work_ms"])
    print(f"paint     {_with_work(seen, 'painted')}  from the process's start (< 500, warm)")
    print(f"          {_with_work(empty, 'painted')}  for an empty window of Qt: {ratio:.2f} times its work")
    print(f"chat      {_with_work(seen, 'chat')}  until the last chat fills its place")
    print(f"start stall {_middle_and_best(seen['stall_ms'])}  at most after the first picture (< 50)")
    print(f"            {_middle_and_best(seen['own_stall_ms'])}  of work of the GUI thread at most in one turn")


def _by_name(starts: list[dict[str, float]]) -> dict[str, list[float]]:
    return {name: [start[name] for start in starts] for name in starts[0]}


def _with_work(figures: dict[str, list[float]], name: str) -> str:
    """A moment and what the GUI thread computed until then, which a busy machine hardly changes."""
    return f"{_middle_and_best(figures[f'{name}_ms'])}, work {_middle_and_best(figures[f'{name}_work_ms'])}"


def _middle_and_best(figures: list[float]) -> str:
    return f"{statistics.median(figures):4.0f} ms (best {min(figures):.0f})"


def main() -> int:
    """Measure and print; returns the exit status."""
    parser = argparse.ArgumentParser(prog="measure", description="Figures of the window.")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long the fake engine streams")
    parser.add_argument("--start", action="store_true", help="the start alone")
    options = parser.parse_args()
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    application = QApplication(sys.argv[:1])
    with tempfile.TemporaryDirectory(prefix="fireside-measure-") as folder:
        home = Path(folder)
        print_start(home / "started")
        if options.start:
            return 0
        print_many(home / "many")
        first = App(home / "empty")
        print(f"close     {first.close():7.0f} ms  (< 1000)")
        fill(AppPaths.below(home).database, num_middling=500)
        for word, taken in search_ms(AppPaths.below(home).database).items():
            print(f"search    {taken:7.1f} ms  for {word!r} in 20,000 messages (< 30)")
        app = App(home)
        for _ in range(3):
            print(f"open      {open_ms(app):7.0f} ms  for a chat of 2,000 messages (< 300)")
        app.context.controller.open_conversation("middling")
        frames = sorted(stall_ms(app, options.seconds / 2, 0).frames_ms)
        p95 = frames[int(len(frames) * 0.95)]
        print(f"frame     {p95:7.1f} ms  p95 of {len(frames)} while streaming after 500 messages (< 8)")
        for where, key, value, taken in looks_ms(app):
            print(f"look      {taken:7.0f} ms  until {key} {value} is on the screen {where}")
        app.context.controller.open_conversation("long")
        seen = stall_ms(app, options.seconds, os.cpu_count() or 1)
        pauses = sorted(seen.pauses_ms)
        print(f"stall     {seen.longest_ms:7.1f} ms  at most while streaming (< 50)")
        print(f"stall p99 {pauses[int(len(pauses) * 0.99)]:7.1f} ms")
        print(f"work      {max(seen.works_ms):7.1f} ms  of its own at most between two turns of the event loop")
        print(f"close     {app.close():7.0f} ms  with that chat open (< 1000)")
        select_chat(home, "long")
        peak = start_figures(home)
        print(f"memory    {peak['peak_mb']:7.0f} MB  at most with the chat of 2,000 messages open (< 300),")
        print(f"          {peak['painted_mb']:7.0f} MB  when the window was painted")
        application.processEvents()
    return 0


if __name__ == "__main__":
    sys.exit(main())
